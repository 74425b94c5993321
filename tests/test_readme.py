"""The README's pictures and links: they are there, and small."""

import re
from pathlib import Path

import pytest

from superposition.validate.gallery import GALLERY

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)
LINKS = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if not re.match(r"[a-z]+:|#", link)]
LARGEST = 200_000


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_links_lead_somewhere(link):
    assert (ROOT / link.split("#")[0]).exists()


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_are_small(picture):
    assert (ROOT / picture).stat().st_size < LARGEST


def test_every_phenomenon_is_shown_in_order():
    assert [f"validate/reference/{name}.svg" for name in GALLERY] == PICTURES
