"""Certificates on networks with a hidden layer: against the engine and closed forms, and what is rejected."""

import json
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.theory.computation import equal_features_loss, loss_lower_bound
from superposition.theory.features import Features
from superposition.theory.model import Model
from superposition.validate.proofs import certificates
from superposition.validate.proofs.certificates import check_network

from ..oracles import changed_certificate


def numbers(found):
    return np.vectorize(lambda x: float(Fraction(x)))(found)


@pytest.mark.parametrize(("F", "n"), [(2, 1), (3, 2), (4, 3), pytest.param(10, 9, marks=pytest.mark.slow)])
def test_the_ends_are_those_of_the_engine(F, n, tmp_path):
    path = tmp_path / "network.json"
    for target, bias, p in product(("relu", "abs"), (True, False), ("1/1000", "3/10", "1")):
        lower, upper = certificates.network_certificate(F, n, p, path=path, target=target, output_bias=bias)
        law = Features(F, float(Fraction(p)), "symmetric")
        bound = F * loss_lower_bound(law, n, target=target, bias=bias)
        assert float(lower) == pytest.approx(bound, rel=1e-13, abs=0)
        proof = json.loads(path.read_text())["proof"]
        U, V, beta, c = (numbers(proof[name]) for name in ("U", "V", "beta", "c"))
        model = Model(W_in=U, b_in=beta, hidden="relu", W_out=V, b=c, output="identity")
        found = evaluator(law)(model, target=target)
        assert abs(float(upper) - F * found.loss) <= F * found.error_estimate + 1e-15
        assert lower <= upper
        assert (lower == upper) == (bias and target == "relu")
        if target == "relu":
            closed = equal_features_loss("naive" if bias else "readout", law.p[0], F, n)
            assert float(upper) == pytest.approx(F * closed, rel=1e-13, abs=0)


def test_each_neuron_lowers_the_upper_end(tmp_path):
    # |x| takes two neurons; one alone computes a half of it, ReLU(x), and leaves the variance of ReLU(-x).
    one, half = Features(1, 0.3, "symmetric"), Fraction(3, 10) / 6 - (Fraction(3, 10) / 4) ** 2
    for n in range(1, 5):
        _, upper = certificates.network_certificate(5, n, "3/10", path=tmp_path / "x.json", target="abs")
        whole = (5 - n // 2 - n % 2) * loss_lower_bound(one, 0, target="abs")
        assert float(upper) == pytest.approx(whole + n % 2 * float(half), rel=1e-13, abs=0)


def test_without_output_bias_dropped_targets_are_read_from_whole_ones(tmp_path):
    """E (t - r s)^2 for the sum s of k others of mean u and variance v is least at r = u^2/(v + k u^2).

    Of |x| with an odd number of neurons the last computes ReLU(x), and E ReLU(-x)^2 = p/6 is left.
    """
    p, given = Fraction(3, 10), {"path": tmp_path / "network.json", "output_bias": False}
    targets = ("relu", 1, p / 4, p / 6 - p**2 / 16), ("abs", 2, p / 2, p / 3 - p**2 / 4)
    for n, (target, per, u, v) in product(range(1, 5), targets):
        _, upper = certificates.network_certificate(5, n, p, target=target, **given)
        k, half = divmod(n, per)
        least = v + u**2 - k * u**4 / (v + k * u**2)
        assert upper == (5 - k - half) * least + half * p / 6, (n, target)


def test_neurons_that_share_a_feature_and_bend_anywhere(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(10):
        U = np.zeros((3, 4))
        U[np.arange(3), rng.integers(4, size=3)] = rng.integers(-4, 5, 3) / 4
        V, beta, c = rng.integers(-4, 5, (4, 3)) / 4, rng.integers(-3, 4, 3) / 8, rng.integers(-3, 4, 4) / 8
        exactly = [np.vectorize(Fraction, otypes=[object])(x).tolist() for x in (U, beta, V, c)]
        model = Model(W_in=U, b_in=beta, hidden="relu", W_out=V, b=c, output="identity")
        for target in ("relu", "abs"):
            found = evaluator(Features(4, 0.25, "symmetric"))(model, target=target)
            value = check_network.loss(*exactly, Fraction(1, 4), target)
            assert abs(float(value) - 4 * found.loss) <= 4 * found.error_estimate + 1e-14


def test_what_is_claimed_is_judged(tmp_path):
    path = tmp_path / "two.json"
    lower, _ = certificates.network_certificate(2, 1, "1/10", path=path, output_bias=False)

    def verdict(*change):
        return certificates.check(changed_certificate(path, tmp_path / "other.json", change))

    assert verdict("statement", "lower", str(lower / 2)).accepted
    assert "least loss that is proved" in verdict("statement", "lower", str(lower * 2)).text
    assert "the loss of its network is" in verdict("statement", "upper", str(lower)).text
    assert "has an output bias" in verdict("proof", "c", ["0", "1/40"]).text
    assert verdict("proof", "beta", ["0"]).accepted
    for change in (
        ("statement", "n_hidden", 2), ("statement", "n_hidden", True), ("statement", "p", "2"),
        ("statement", "p", "0"), ("statement", "p", "2/20"), ("statement", "p", 0.1),
        ("statement", "target", "x"), ("statement", "target", []), ("statement", "output_bias", 0),
        ("proof", "U", [["1", "1"]]), ("proof", "U", [["1"]]), ("proof", "V", None),
        ("proof", "beta", ["1e5"]), ("proof", "c", ["1/0", "0"]), ("proof", "more", "1"),
        ("statement", "kind", "another"),
    ):  # fmt: skip
        assert not verdict(*change).accepted, change
