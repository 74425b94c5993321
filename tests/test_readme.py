"""The README's links lead somewhere."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if not re.match(r"[a-z]+:|#", link)]


def test_links_lead_somewhere():
    assert [link for link in LINKS if not (ROOT / link.split("#")[0]).exists()] == []
