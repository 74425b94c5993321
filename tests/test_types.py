"""What a user's type checker knows of the package; `.ci/typing.py` checks documented programs."""

from pathlib import Path

import superposition

ROOT = Path(superposition.__file__).parent


def test_all_public_names_have_types():
    text = (ROOT / "__init__.py").read_text()
    for name in superposition.__all__:
        assert f" import {name} as {name}\n" in text
    assert (ROOT / "py.typed").exists()
