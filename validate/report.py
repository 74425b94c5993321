"""The report: every comparison of theory with experiment, and the ledger, on one self-contained page.

A phenomenon joins by a function ``report_section(profile, seed, progress) -> Section`` in its module and
its name in `PHENOMENA`.
"""

import html
import importlib
import importlib.metadata
import io
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas

from ..theory.arguments import choice, integer
from . import claims, files, page
from .section import Figure, Section, Table

__all__ = ["PHENOMENA", "PROFILES", "render", "sections", "svg", "write_report"]

PHENOMENA = ("rug", "sparsification", "collisions")
LEDGER = "ledger"
PROFILES = ("quick", "full")
PAGE = "report.html"

Progress = Callable[[str], None]

# Okabe and Ito's colours stay apart for the common kinds of colour blindness; black comes first, for theory.
_COLOURS = ["000000", "0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9"]
_STYLE = {
    "axes.prop_cycle": f"cycler('color', {_COLOURS})",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "font.size": 9,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    # Text as outlines looks the same on every machine; fixed salt, so that the same data give the same file.
    "svg.fonttype": "path",
    "svg.hashsalt": "superposition",
}


def sections(profile: str, seed: int, progress: Progress, only: str | None = None) -> Iterator[Section]:
    """Yield the section of each phenomenon, or of one, as it is finished.

    Parameters
    ----------
    profile : {"quick", "full"}
        Sizes for minutes on two cores, or for hours.
    seed : int
        Seed of everything random.
    progress : callable
        Called with a line of text from time to time.
    only : str, optional
        Name of a phenomenon; ``"ledger"`` leaves all of them out.
    """
    for name in PHENOMENA:
        if only in (None, name):
            module = importlib.import_module(f".{name}", __package__)
            yield module.report_section(profile, seed, progress)


def svg(figure: Figure, prefix: str = "") -> str:
    """Draw a figure as an SVG element that can stand inside HTML.

    Parameters
    ----------
    figure : Figure
    prefix : str, optional
        Put before all ids, so that several figures can share a page.

    Raises
    ------
    TypeError
        If a panel's `draw` does not return the axes that it was given.
    """
    panels = (figure.draw,) if callable(figure.draw) else tuple(figure.draw)
    columns = min(figure.columns, len(panels))
    lines = -(-len(panels) // columns)
    with rc_context(_STYLE):
        canvas = Canvas(figsize=(figure.size[0] * columns, figure.size[1] * lines), layout="constrained")
        axes = canvas.subplots(lines, columns, squeeze=False).ravel()
        for panel, ax in zip(panels, axes, strict=False):
            if panel(figure.dataset, ax) is not ax:
                raise TypeError(f"`draw` of {figure.name!r} must return the axes that it was given.")
        for ax in axes[len(panels) :]:
            ax.remove()
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r'\bid="', f'id="{prefix}', drawing)
    drawing = re.sub(r'href="#', f'href="#{prefix}', drawing)
    drawing = re.sub(r"url\(#", f"url(#{prefix}", drawing)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{html.escape(figure.title)}" ', 1)


def _data_file(section: Section, figure: Figure) -> str:
    return f"{page.slug(section.name)}-{page.slug(figure.name)}.nc"


def _section(section: Section) -> str:
    parts = [page.paragraphs(section.text)]
    for figure in section.figures:
        data = _data_file(section, figure)
        # Panels beside each other would be too small on a phone: there the reader scrolls through them.
        wide = not callable(figure.draw) and min(figure.columns, len(figure.draw)) > 1
        drawing = svg(figure, data.removesuffix(".nc") + "-")
        parts.append(
            f"<figure><h3>{html.escape(figure.title)}</h3>"
            f"<div class='{'plot wide' if wide else 'plot'}'>{drawing}</div>"
            f"<figcaption>{html.escape(figure.caption)} "
            f"Data: <a href='{data}'>{data}</a>.</figcaption></figure>"
        )
    parts.extend(page.table(t.title, t.columns, t.rows, t.caption) for t in section.tables)
    return "\n".join(parts)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def provenance(profile: str, seed: int, seconds: float) -> list[tuple[str, str]]:
    """Return what a reader needs to repeat the run: machine, versions, seed, profile, wall time."""
    packages = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")
    return [
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("profile", profile),
        ("seed", str(seed)),
        ("wall time", f"{seconds:.0f} s"),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("system", platform.platform()),
        ("Python", platform.python_version()),
        ("versions", ", ".join(f"{name} {_version(name)}" for name in packages)),
    ]


def render(
    parts: Sequence[Section], ledger: Sequence[claims.Checked], facts: Sequence[tuple[str, str]]
) -> str:
    """Return the page: the summary, a part for each section, the ledger.

    Parameters
    ----------
    parts : sequence of Section
    ledger : sequence of Checked
        Rows of the ledger, as from `claims.run`.
    facts : sequence of (str, str)
        Name and value of what the summary says about the run.
    """
    counts = {v: sum(row.verdict is v for row in ledger) for v in claims.Verdict}
    summary = (
        f"<p>{len(ledger)} claims of the sources were checked; each verdict follows from computed "
        "evidence.</p>"
        + page.badges({v: count for v, count in counts.items() if count})
        + page.table("This run", ["what", "value"], facts)
    )
    body = [
        ("Summary", summary),
        *((s.title, _section(s)) for s in parts),
        ("Ledger of claims", page.ledger(ledger)),
    ]
    lead = (
        "What the theory of toy models of superposition predicts, and what experiments on this machine say."
    )
    return page.page("superposition: theory against experiment", lead, body)


def write_report(
    out: str | Path,
    profile: str = "quick",
    only: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda line: None,
) -> Path:
    """Run the comparisons and the ledger, and write the page with its data.

    Parameters
    ----------
    out : str or Path
        Folder; made if it does not exist. Every file is written whole or not at all, the page last.
    profile : {"quick", "full"}, optional
        Sizes for minutes on two cores, or for hours.
    only : str, optional
        One phenomenon with the ledger, or ``"ledger"``.
    seed : int, optional
        Seed of everything random; not negative.
    jobs : int, optional
        Number of processes for the ledger.
    progress : callable, optional
        Called with a line of text from time to time.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If an argument is out of range or the folder cannot be written.
    """
    choice("profile", profile, PROFILES)
    if only is not None:
        choice("only", only, (*PHENOMENA, LEDGER))
    seed = integer("seed", seed, 0)
    jobs = integer("jobs", jobs, 1)
    folder = files.output_folder(out)
    start = time.perf_counter()
    done: list[Section] = []
    for section in sections(profile, seed, progress, only):
        for figure in section.figures:
            data = folder / _data_file(section, figure)
            files.write_dataset(data, figure.dataset)
            files.write_text(data.with_suffix(".svg"), svg(figure))
        done.append(section)
        progress(f"{section.title}: {len(section.figures)} figures after {time.perf_counter() - start:.0f} s")

    def report(row: claims.Checked) -> None:
        progress(f"claim {row.claim.id}: {row.verdict} ({row.seconds:.1f} s)")

    ledger = claims.run(quick=profile == "quick", jobs=jobs, progress=report)
    text = render(done, ledger, provenance(profile, seed, time.perf_counter() - start))
    files.write_text(folder / PAGE, text)
    return folder / PAGE
