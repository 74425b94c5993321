"""What commands write of the documentation is what is committed: `make pages` writes it."""

import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "docs" / "pages.py"


@pytest.fixture
def pages():
    return runpy.run_path(str(TOOL))


def test_generated_pages_are_as_they_are_committed(pages, capsys):
    assert pages["main"](["--check"]) == 0, capsys.readouterr().out


def test_a_page_that_was_edited_is_named_and_written_anew(pages, tmp_path, capsys):
    path = tmp_path / "errata.md"
    path.write_text("by hand", encoding="utf-8")
    pages["main"].__globals__["texts"] = lambda: {path: "as it should be"}
    assert pages["main"](["--check"]) == 1
    assert f"{path} is not what `make pages` writes" in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == "by hand"
    assert pages["main"]([]) == 0
    assert path.read_text(encoding="utf-8") == "as it should be"


def test_a_page_without_its_marks_is_refused(pages, tmp_path):
    path = tmp_path / "errata.md"
    path.write_text("<!-- errata: superposition claims --errata --> no end", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"`path` must have '.*' and '<!-- /errata -->'; got {path}"):
        pages["_between"](path, pages["ERRATA"], "x")
