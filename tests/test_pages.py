"""What commands write of the documentation is what is committed: `make pages` writes it."""

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[1] / "docs" / "pages.py"


def test_generated_pages_are_as_they_are_committed(capsys):
    assert runpy.run_path(str(TOOL))["main"](["--check"]) == 0, capsys.readouterr().out
