"""Problem O49: two features on a neuron are better than one kept and one dropped, at every probability."""

from fractions import Fraction

import pytest
import sympy as sp

from superposition.validate.proofs.certificates import exact_total


def test_a_pair_without_its_relu_has_the_loss_of_a_dropped_feature_and_its_relu_takes_part_of_it():
    """Of the pair u = (c, -s), with its mean kept: its outputs before the ReLU."""
    p, c, s, x, y = sp.symbols("p c s x y", positive=True)
    u = sp.Matrix([c, -s])
    P, mean = u * u.T, sp.ones(2, 1) * p / 2
    before = P * sp.Matrix([x, y]) + (sp.eye(2) - P) * mean
    squared = sp.expand(sum((value - out) ** 2 for value, out in zip((x, y), before, strict=True)))
    moments = [1, p / 2, p / 3]  # of a feature; they are independent
    terms = sp.Poly(squared, x, y).as_dict().items()
    loss = sum(factor * moments[i] * moments[j] for (i, j), factor in terms)
    on_circle = sp.rem(sp.expand(loss), c**2 + s**2 - 1, c)
    assert sp.simplify(on_circle - p * (4 - 3 * p) / 12) == 0
    # At x = (0, 1) the first output is negative where s/c < (2 - p)/p, and so it is nearby.
    first = before[0].subs({x: 0, y: 1})
    assert sp.expand(first + s * (c * (2 - p) - s * p) / 2 - p / 2 * (1 - c**2 - s**2)) == 0


@pytest.mark.parametrize("p", ["1/100", "4/7", "999/1000", "1"])
def test_the_exact_loss_is_below(p):
    """A slope of 1/20 on the neuron: u = (399, -40)/401."""
    chance, (c, s) = Fraction(p), (Fraction(399, 401), Fraction(40, 401))
    mean = chance / 2
    b = [mean * (1 - c * (c - s)), mean * (1 + s * (c - s))]
    dropped = chance * (4 - 3 * chance) / 12
    assert exact_total([[1], [0]], [0, mean], chance) == dropped
    assert exact_total([[c], [-s]], b, chance) < dropped
