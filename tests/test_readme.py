"""The README's pictures and links: they are there, and small."""

import re
from pathlib import Path

import pytest

from superposition.validate.laboratory import PHENOMENA

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = (ROOT / ".docs" / "gallery.rst").read_text(encoding="utf-8")
LINKS = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if not re.match(r"[a-z]+:|#", link)]
LARGEST = 200_000


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_links_lead_somewhere(link):
    assert (ROOT / link.split("#")[0]).exists()


PICTURES = {path.stem: path for path in (ROOT / "validate" / "reference").glob("*.svg")}


def test_pictures_are_small():
    assert all(path.stat().st_size < LARGEST for path in PICTURES.values())


def test_every_picture_is_shown_in_order():
    assert re.findall(r"figure:: made/(\w+)\.svg", SHOWN) == [name for name in PHENOMENA if name in PICTURES]
