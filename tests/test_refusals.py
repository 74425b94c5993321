"""Bad input is refused in words: each call of `refusals.txt` raises a ValueError in the words of its line.

A part of the table begins with what its calls need (>>>); a line is a call and a regular expression. Where
that begins with "TypeError: " the call raises one.
"""

import re
from pathlib import Path

import numpy as np
import pytest

TABLE = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
PARTS = [part.splitlines() for part in TABLE.strip().split("\n\n")]


def said(call: str, names: dict) -> str:
    """Return what a call is refused with."""
    try:
        return f"nothing, but gives {eval(call, names)!r}"
    except ValueError as error:
        return str(error)
    except TypeError as error:
        shown = None if error.__suppress_context__ else error.__context__  # above it in a traceback
        return f"TypeError: {error}" if shown is None else f"after {shown!r}: {error}"


def is_refused(words: str, said: str) -> bool:
    """Whether what is said has the words, and is of their kind."""
    return words.startswith("TypeError: ") == said.startswith("TypeError: ") and bool(re.search(words, said))


def about(part: list[str]) -> str:
    """Return the name of the module that a part is about."""
    return next(iter(re.findall(r"superposition\.([\w.]+)", " ".join(part))), "door")


@pytest.mark.parametrize("part", PARTS, ids=about)
def test_bad_input_is_refused_in_words(part):
    names = {"np": np}
    if ">>> import torch" in part:
        pytest.importorskip("torch")
    for line in part:
        if line.startswith(">>> "):
            exec(line[4:], names)
    refusals = [line.split(" -> ") for line in part if not line.startswith(">>> ")]
    assert refusals
    found = [(call, words, said(call, names)) for call, words in refusals]
    assert [one for one in found if not is_refused(one[1], one[2])] == []
