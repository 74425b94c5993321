"""What commands write of the documentation: ``pages.py`` writes it, ``pages.py --check`` compares.

These are the errata, the table of stored data, the tables of benchmarks, and with ``--pictures`` the gallery
(minutes). The texts follow from files of the project alone; that the stored verdicts and the benchmarks are
those of today is what others look at. Pictures are not compared: another Matplotlib draws other lines.
"""

import argparse
import json
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

from superposition.validate import ledger
from superposition.validate.reference import read
from superposition.validate.report import page
from superposition.validate.runner import provenance

HERE = Path(__file__).parent
ERRATA = "<!-- errata: superposition claims --errata -->", "<!-- /errata -->"


def _between(path, marks, text):
    """Return a file's text with another one between two marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not end:
        raise ValueError(f"`path` must have {marks[0]!r} and {marks[1]!r}; got {path}.")
    return f"{before}{marks[0]}{text}{marks[1]}{after}"


def _benchmarks(path):
    """Return the page of benchmarks with the tables of what is kept beside it."""
    table = runpy.run_path(str(HERE.parent / "tests" / "benchmarks" / "table.py"))
    before, mark, _ = path.read_text(encoding="utf-8").partition(table["MARK"])
    measured = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return f"{before}{mark}\n{table['render'](measured)}"


def texts():
    """Return each generated page by its path, as it should be."""
    readme = read.REFERENCE / "README.md"
    errata, benchmarks = HERE / "errata.md", HERE / "benchmarks.md"
    return {
        errata: _between(errata, ERRATA, f"\n{page.errata(ledger.read_stored())}\n\n"),
        readme: _between(readme, (provenance.BEGIN, provenance.END), f"\n{provenance.datasets_table()}"),
        benchmarks: _benchmarks(benchmarks),
    }


def main(arguments=None):
    """Write what differs, or with ``--check`` name it; return whether something did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit 1 if a page differs")
    parser.add_argument("--pictures", action="store_true", help="draw the gallery as well (minutes)")
    options = parser.parse_args(arguments)
    differ = {path: text for path, text in texts().items() if path.read_text(encoding="utf-8") != text}
    for path, text in differ.items():
        print(f"{path} {'is not what `make pages` writes' if options.check else 'is written'}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    if options.pictures:
        from superposition.validate.report.gallery import write_gallery

        with tempfile.TemporaryDirectory() as folder:
            for path in write_gallery(folder, progress=print):
                if (read.REFERENCE / path.name).exists():  # of those that pages show
                    shutil.copy(path, read.REFERENCE)
    return bool(differ) and options.check


if __name__ == "__main__":
    sys.exit(main())
