#!/usr/bin/env python3
"""Check programs of the README and the start page with mypy --strict and pyright, which must reject mistakes.

usage: typing.py PYTHON, of an environment that has the wheel, mypy and basedpyright (pyright, without npm).
"""

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```|\.\. code-block:: python\n((?:\n| {3,}[^\n]*\n)+)", re.DOTALL)
# All lines but the first ones are errors, and say which.
PLANTED = """\
import superposition as sp

law = sp.Features(2, 0.1)
model: sp.Model = sp.Model.of([[1.0], [0.5]])
sp.this_does_not_exist  # a name
sp.best(law, n_hiden=1)  # an argument
sp.loss(model, law).loss.append(1)  # a number's method
"""
MISTAKES = range(5, 8)


def check(python: Path, folder: Path) -> None:
    """Write blocks into files of a folder and check each; those that import torch, an extra, are left out."""
    for page in ("README.md", "docs/start.rst"):
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = [textwrap.dedent(markdown or rst) for markdown, rst in BLOCK.findall(text)]
        checked = [block for block in blocks if "import torch" not in block]
        if not checked:
            sys.exit(f"{page}: no block of Python was found")
        for number, block in enumerate(checked):
            (folder / f"{Path(page).stem}_{number}.py").write_text(block, encoding="utf-8")
    (folder / "planted.py").write_text(PLANTED, encoding="utf-8")
    files = sorted(file.name for file in folder.glob("*.py"))
    for command in (["mypy", "--strict"], ["basedpyright", "--level", "error", "--pythonpath", str(python)]):
        done = subprocess.run(
            [python, "-m", *command, *files], cwd=folder, capture_output=True, text=True, check=False
        )
        # "FILE:LINE: error: …" of mypy, "  FOLDER/FILE:LINE:COLUMN - error: …" of pyright
        found = {(name, int(line)) for name, line in re.findall(r"(\w+\.py):(\d+)[^\n]*?error:", done.stdout)}
        if found != {("planted.py", line) for line in MISTAKES}:
            sys.exit(f"{command[0]}: errors are not those planted\n{done.stdout}{done.stderr}")
    print(f"{len(files) - 1} documented programs pass mypy and pyright, {len(MISTAKES)} mistakes do not")


with tempfile.TemporaryDirectory() as place:
    check(Path(sys.argv[1]).absolute(), Path(place))
