"""The checks at the edge: what they let pass, and the words in which they refuse."""

import numpy as np
import pytest

from superposition.theory import arguments


def test_good_values_pass_unchanged():
    assert arguments.real("p", [0.5, 1], 0, 1, brackets="(]").tolist() == [0.5, 1.0]
    assert arguments.integer("n", np.int32(3), 1) == 3
    assert arguments.integer("n", 4.0, 1, 4) == 4
    assert arguments.power_of_two("n", 1) == 1
    assert arguments.vector("b", (1, 2), 2).dtype == np.float64
    assert arguments.matrix("M", np.eye(2), (None, 2)).shape == (2, 2)
    assert arguments.choice("device", "cpu", ("cpu", "cuda")) == "cpu"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arguments.real("x", np.nan), r"`x` must be finite; got nan\."),
        (lambda: arguments.real("x", [0.0, -np.inf]), r"`x` must be finite; got -inf\."),
        (lambda: arguments.real("x", 1.0, 1, 2, brackets="(]"), r"`x` must lie in \(1, 2\]; got 1\."),
        (lambda: arguments.real("x", 2.0, 1, 2, brackets="[)"), r"`x` must lie in \[1, 2\); got 2\."),
        (lambda: arguments.real("x", -1.0, 0), r"`x` must lie in \[0, inf\); got -1\."),
        (lambda: arguments.real("x", 3.0, 0, 1, hint="Halve it."), r"got 3\. Halve it\."),
        (lambda: arguments.real("x", 1j), r"`x` must be real numbers; got 1j\."),
        (lambda: arguments.real("x", {}), r"`x` must be real numbers; got {}\."),
        (lambda: arguments.integer("n", 1.5, 1), r"`n` must be an integer of at least 1; got 1\.5\."),
        (lambda: arguments.integer("n", True, 1), r"`n` must be an integer of at least 1; got True\."),
        (lambda: arguments.integer("n", np.nan, 1), r"`n` must be an integer of at least 1; got nan\."),
        (lambda: arguments.integer("n", [1], 1), r"`n` must be an integer of at least 1; got \[1\]\."),
        (lambda: arguments.integer("n", 9, 1, 8), r"at least 1 and at most 8; got 9\."),
        (lambda: arguments.power_of_two("n", 0), r"`n` must be an integer of at least 1; got 0\."),
        (lambda: arguments.vector("b", [[1.0]]), r"`b` must have shape \(any\); got \(1, 1\)\."),
        (lambda: arguments.vector("b", [1.0], 2), r"`b` must have shape \(2\); got \(1,\)\."),
        (lambda: arguments.vector("b", []), r"`b` must not be empty; got shape \(0,\)\."),
        (lambda: arguments.matrix("M", [[1, np.inf]]), r"`M` must be finite; got inf at index \(0, 1\)\."),
        (
            lambda: arguments.matrix("M", [[1, 2], [3]]),
            r"`M` must be real numbers; got \[\[1, 2\], \[3\]\]\.",
        ),
        (lambda: arguments.choice("d", 3, ("a", "b")), r"`d` must be one of 'a', 'b'; got 3\."),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
