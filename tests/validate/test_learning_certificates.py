"""Certificates of learning coefficients: the checker's Hessian against another one, and what it rejects."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from superposition.solvers.loss import row_hessian
from superposition.theory.features import Features
from superposition.validate.experiments import atlas
from superposition.validate.proofs import certificates
from superposition.validate.proofs.certificates import check_learning

from ..oracles import changed_certificate


def certify(name, path):
    entry = atlas.load(name)
    model = entry.W_out, entry.W_in, entry.b
    return certificates.learning_certificate(*model, entry.law, tied=entry.tied, path=path)


def test_certificates_of_the_atlas_are_accepted(tmp_path):
    for name in (
        "n2-m1-p0.01-equal-tied",
        "n2-m1-p0.3-equal-free",
        "n3-m2-p0.3-equal-tied",  # an output at the kink of its ReLU
        "n4-m2-p0.1-falling-tied",
        "n4-m3-p0.7-equal-free",
    ):
        value = certify(name, tmp_path / "one.json")
        found = certificates.check(tmp_path / "one.json")
        assert found.accepted, name
        assert f": {value}, multiplicity 1" in found.text


def test_the_pentagon_with_a_dropped_feature_one_at_a_time(tmp_path):
    angles, path = 2.0 * np.pi * np.arange(5) / 5, tmp_path / "pentagon.json"
    W = np.vstack([np.sqrt(1.36997577) * np.column_stack([np.cos(angles), np.sin(angles)]), [0.0, 0.0]])
    b = np.append(np.full(5, -0.28229728), -0.1)  # the pentagon of docs/problem-pentagon
    assert certificates.learning_certificate(W, W.T, b, Features(6, 0.5, exactly=1), path=path) == 7
    script = check_learning.__file__  # alone, without this package
    out = subprocess.run([sys.executable, "-I", script, path], capture_output=True, text=True, check=True)
    assert "one at a time, 2 hidden neurons, tied weights: 7, multiplicity 1, 4 of 18" in out.stdout
    change = "statement", "p", ["1/6"] * 5 + ["1/5"]
    with pytest.raises(check_learning.Rejected, match="p is no probability"):
        check_learning.proved(changed_certificate(path, tmp_path / "other.json", change))


def test_what_is_wrong_by_a_half_or_elsewhere_is_rejected(tmp_path):
    path, fixed = tmp_path / "pair.json", ("proof", "fixed", [0])
    certify("n2-m1-p0.1-equal-tied", path)
    # A fixed parameter that no symmetry moves would lower both.
    lower = fixed, ("statement", "codimension", 3), ("statement", "coefficient", "3/2")
    for *changes, reason in (
        (("statement", "coefficient", "5/2"), "the coefficient is 2"),
        (("statement", "coefficient", "3/2"), "the coefficient is 2"),
        (("statement", "codimension", 5), "the codimension is 4"),
        (("statement", "p", ["1/10", "11/100"]), "gradient"),
        (("statement", "radius", "1/2"), "not above|kink|divides"),
        (("proof", "mu", "100"), "not above"),
        (fixed, "codimension is 3"),
        (*lower, "symmetries do not move"),
    ):
        changed = changed_certificate(path, tmp_path / "other.json", *changes)
        with pytest.raises(check_learning.Rejected, match=reason):
            check_learning.proved(changed)


def test_products_of_intervals_are_rounded_outwards():
    square = check_learning.Interval(1, 1) * check_learning.Interval(1, 1)  # of the least number
    assert (square.low, square.high) == (0, 1)


@pytest.mark.parametrize("low", [0, -1])
@pytest.mark.parametrize("y", [1, 2, -1])
def test_means_over_a_weight_that_may_be_0_have_the_means_of_all_such_weights(low, y):
    """E x^a max(y + w x, 0) for |w| <= t is y E x^a + w E x^(a + 1) where y is above t, and 0 below -t."""
    t = check_learning.TINY // 2
    weight, one = check_learning.Interval(-t, t), [Fraction(1)]
    mean = check_learning.independent([weight], check_learning.exact(y), one, low)
    moments = [Fraction(1 - low ** (a + 1), (a + 1) * (1 - low)) for a in range(5)]
    for a in range(4):
        got = mean(1, (a,))
        ends = [max(y, 0) * moments[a] * check_learning.UNIT + w * moments[a + 1] * (y > 0) for w in (-t, t)]
        assert got.low <= min(ends)
        assert max(ends) <= got.high
        assert got.high - got.low <= 8 * t + 4


@pytest.mark.parametrize("values", ["uniform", "symmetric"])
def test_the_checkers_derivatives_are_those_of_the_exact_loss(values):
    rng, n = np.random.default_rng(3), 4
    p = [Fraction(1, 5), Fraction(1, 2), Fraction(9, 10), Fraction(1)]
    law = {"one": False, "low": 0 if values == "uniform" else -1, "p": p, "importance": [Fraction(1)] * n}
    W, b = rng.normal(size=(n, 2)).round(3), rng.normal(size=n).round(3)
    at = [Fraction(str(x)) for x in [*W.ravel(), *b]]
    model = check_learning.Model({"n": n, "m": 2, "tied": True, "at": at}, law, Fraction(0))
    features = Features(n, [float(q) for q in p], values)
    for name in ("gradient", "hessian"):
        for i, row in enumerate(model.rows(name == "hessian")):
            exact = getattr(row_hessian(W[i] @ W.T, i, b[i], features), name)
            ends = [[x.low / check_learning.UNIT, x.high / check_learning.UNIT] for x in np.ravel(row)]
            low, high = np.transpose(ends)
            assert np.abs(low - np.ravel(exact)).max() < 2e-6
            assert np.abs(high - low).max() < 1e-15
