"""The README's pictures and links: they are there, and small."""

import re
from pathlib import Path

from superposition.validate.runner.registry import PHENOMENA

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if not re.match(r"[a-z]+:|#", link)]
LARGEST = 200_000


def test_links_lead_somewhere():
    assert [link for link in LINKS if not (ROOT / link.split("#")[0]).exists()] == []


PICTURES = {path.stem: path for path in (ROOT / "validate" / "reference").glob("*.svg")}


def test_pictures_are_small():
    assert all(path.stat().st_size < LARGEST for path in PICTURES.values())


def test_every_picture_is_shown_in_the_gallery_or_on_its_own_page():
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.rst")}
    shown = {stem: re.findall(r"figure:: made/(\w+)\.svg", page) for stem, page in pages.items()}
    assert [name for name in PICTURES if name not in {*shown["gallery"], *shown.get(name, [])}] == []
    assert shown["gallery"] == [name for name in PHENOMENA if name in shown["gallery"]]  # in order
