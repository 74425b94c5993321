"""The documentation: its examples run, and what it names exists; `make docs` builds it."""

import doctest
import importlib.util
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from superposition.validate import ledger

FOLDER = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in FOLDER.glob("*.rst"))


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.printed
@pytest.mark.usefixtures("found_once")
@pytest.mark.parametrize("name", [page for page in PAGES if ">>>" in _text(page)])
def test_examples(name):
    if "import torch" in _text(name):
        pytest.importorskip("torch", reason="examples that train need PyTorch")
    with np.printoptions(legacy="1.25"):
        failed, tried = doctest.testfile(
            str(FOLDER / name), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
        )
    assert failed == 0
    assert tried > 1


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", (FOLDER.parent / "README.md").read_text(encoding="utf-8"))
    places = [link.split("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [place for place in places if not (FOLDER.parent / place).exists()] == []


def test_names_exist():
    for name in PAGES:
        for target in re.findall(r"(?<![:\w])`~?(superposition\.[\w.]+)`", _text(name)):
            package, _, last = target.rpartition(".")
            if last not in getattr(importlib.import_module(package), "__all__", ()):
                importlib.import_module(target)  # raises if it is no module either


def test_what_is_to_be_installed_is_installed_from_the_checkout():
    # The README installs from a checkout; a registry's package of the same name may be another's.
    root = FOLDER.parent
    files = [*root.glob("*.md"), *FOLDER.glob("*.rst"), *root.glob("notebooks/*.ipynb")]
    files += [path for layer in ("theory", "solvers", "validate") for path in (root / layer).rglob("*.py")]
    found = [one for path in files for one in re.findall(r"pip install.{,40}", path.read_text("utf-8"))]
    assert len(found) > 8
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for one in found:
        given = re.match(r"pip install -e (?:`|\.`|'\.\[(\w+)\]')", one)
        assert given, one
        assert given[1] is None or given[1] in extras, one


def test_corrections_are_those_of_the_ledger():
    letters = "".join({claim.id[0] for claim in ledger.CLAIMS})
    errata = _text("errata.md").partition("<!-- errata")[2]
    for name in PAGES:
        section = _text(name).partition("What the sources have wrong\n")[2].partition("In the code\n")[0]
        cited = re.findall(rf"\b[{letters}]\d+\b", " ".join(re.findall(r"\*\*(.*?)\*\*", section)))
        assert cited or not section, f"{name} cites no row of the ledger in bold"
        assert [id for id in cited if f"\n| {id} | " not in errata] == []
