"""Bad input is refused in words: each call of `refusals.txt` raises a ValueError in the words of its line.

A part of the table begins with what its calls need (>>>); a line is a call and a regular expression.
"""

import re
from pathlib import Path

import numpy as np
import pytest

TABLE = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
PARTS = [part.splitlines() for part in TABLE.split("\n\n")]


def said(call: str, names: dict) -> str:
    """Return what a call is refused with."""
    try:
        return f"nothing, but gives {eval(call, names)!r}"
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "part", PARTS, ids=lambda part: re.findall(r"superposition\.([\w.]+)", " ".join(part))[0]
)
def test_bad_input_is_refused_in_words(part):
    names = {"np": np}
    for line in part:
        if line.startswith(">>> "):
            exec(line[4:], names)
    refusals = [line.split(" -> ") for line in part if not line.startswith(">>> ")]
    assert refusals
    found = [(call, words, said(call, names)) for call, words in refusals]
    assert [one for one in found if not re.search(one[1], one[2])] == []
