"""Problem O48: what nearly pure neurons can do, against quadrature, samples and limits taken by hand."""

import importlib
import json
from fractions import Fraction as Q
from itertools import product

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import minimize

from superposition.solvers.relu import alignment_frontier
from superposition.theory.relu import aligned_pair_limit
from superposition.validate.proofs import certificates

from ..oracles import changed_certificate

maker = importlib.import_module("superposition.validate.proofs.certificates.alignment")
checker = importlib.import_module("superposition.validate.proofs.certificates.check_alignment")


def dropped(p):
    return p * (4 - 3 * p) / 12


def sampled(W, beta, V, c, p, n_samples=400_000):
    """Return mean and standard error of the loss over random inputs."""
    rng = np.random.default_rng(0)
    x = rng.random((n_samples, W.shape[1])) * (rng.random((n_samples, W.shape[1])) < p)
    y = np.maximum(np.maximum(x @ W.T + beta, 0) @ V.T + c, 0)
    losses = np.sum((x - y) ** 2, axis=1)
    return losses.mean(), losses.std() / n_samples**0.5


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 2), (5, 3)])
def test_folds_corners_and_samples_agree(n, k):
    """For any neurons that are never off, aligned or not."""
    rng = np.random.default_rng(n)
    W = [[Q(int(x), 5) for x in row] for row in rng.integers(-5, 6, (k, n))]
    beta = [Q(1, 7) - sum(min(w, 0) for w in row) for row in W]
    V = [[Q(int(x), 4) for x in row] for row in rng.integers(-5, 6, (n, k))]
    V[0] = [Q(0)] * k  # an output that nothing moves, not even its target
    c, p = [Q(int(x), 9) for x in rng.integers(-5, 6, n)], Q(3, 10)
    c[0] = Q(2, 3)
    value, (w, b, v, d) = checker.loss(W, beta, V, c, p), map(np.array, (W, beta, V, c))
    assert value == maker.sum_over_cubes(v @ w, v @ b + d, p, [Q(1)] * n)
    mean, error = sampled(*(part.astype(float) for part in (w, b, v, d)), float(p))
    assert abs(mean - float(value)) < 5 * error


def test_the_proved_gain_of_small_output_weights():
    for p, slope in product(map(Q, ("1/100", "4/7", "999/1000")), map(Q, ("1/1000", "1/10", "99/100"))):
        share = slope**2 / (1 + slope**2)
        gain = dropped(p) - checker.loss(*maker._gentle_pair(slope, p), p)
        assert gain >= p * (1 - p) / 3 * share * (1 - share) * (1 - p / 2 * (1 + slope)) ** 3 > 0


@pytest.mark.parametrize("slope", [Q(1, 1000), Q(1, 3), Q(1)])
def test_large_output_weights_lose_what_the_page_says(slope):
    """Its constant is integrated here by SymPy: E min(y, x/e)^2 + E min(x, e y)^2 over the unit square."""
    e, x, y = sp.symbols("e x y", positive=True)
    below = (1 + e**2) / e**2 * sp.integrate(x**2, (x, 0, e * y))
    share = sp.expand(sp.integrate(below + (1 + e**2) * y**2 * (1 - e * y), (y, 0, 1)))
    assert sp.expand(share - (2 - e + 2 * e**2 - e**3) / 6) == 0
    for p in (Q(1, 10), Q(9, 10)):
        exact = checker.loss(*maker._steep_pair(slope), p)
        assert exact == p**2 * Q(str(share.subs(e, sp.Rational(slope.numerator, slope.denominator))))


def test_an_inequality_of_the_lower_bound():
    """A neuron that is off where its feature is on costs p/12 + p v at least: never below min(v, p^2/3)."""
    p = sp.symbols("p")
    v, third = p * (4 - 3 * p) / 12, sp.Interval.open(0, 1 / sp.sqrt(3))
    assert sp.solve_univariate_inequality(p / 12 + p * v - p**2 / 3 >= 0, p, False, third) == third
    rest = sp.Interval(1 / sp.sqrt(3), 1)
    assert sp.solve_univariate_inequality(p / 12 + p * v - v >= 0, p, False, rest) == rest


@pytest.mark.parametrize("p", [0.2, 0.65])
def test_no_neuron_of_vanishing_impurity_is_found_below_the_limit(p):
    """Searched on a grid, at a slope of 1e-3: z is x_1, or without x_1 it is x_2/1000 or -x_2/1000."""
    x, slope, rng = (np.arange(400) + 0.5) / 400, 1e-3, np.random.default_rng(1)

    def mean_squared(v, c, h, feature):
        """Return the loss of an output, whose neuron has h at x_1 on, at x_2 alone and at 0."""
        on, alone, none = (np.maximum(v * part + c, 0) for part in h)
        if feature == 2:  # beside x_1, x_2 moves z by too little to be seen
            on_loss, alone_loss = np.mean((on - p / 2) ** 2) + dropped(p), np.mean((x - alone) ** 2)
        else:
            on_loss, alone_loss = np.mean((x - on) ** 2), np.mean(alone**2)
        return p * on_loss + (1 - p) * (p * alone_loss + (1 - p) * none**2)

    def loss(t, sign, up):
        beta, scale, v, c_1, c_2 = t
        h = [np.maximum(part + beta, 0) for part in (sign * x, scale * slope * x, 0.0)]
        return mean_squared(v, c_1, h, 1) + mean_squared(up / slope, c_2, h, 2)

    found = []
    for sign, up, beta in product((-1, 1), (-1, 1), (0.0, slope, 1.0)):
        start = np.array([beta, up, sign, -beta * sign, -up * beta / slope])
        start += 0.02 * rng.normal(size=5) * [slope, 1, 1, 1, 1]
        found.append(minimize(loss, start, (sign, up), "Nelder-Mead", options={"maxfev": 1500}).fun)
    assert aligned_pair_limit(p) * 0.995 < min(found) < p**2 / 3 * 1.005


@pytest.mark.parametrize(("n", "k", "pairs"), [(2, 1, 1), (4, 1, 1), (4, 2, 2), (5, 3, 2)])
def test_as_many_neurons_as_can_hold_pairs_where_few_features_are_on(tmp_path, n, k, pairs):
    """Each pair loses p^2 (2 - e + 2 e^2 - e^3)/6 (above), and a feature that has no neuron its variance."""
    p, e = Q(1, 100), Q(int(1e6 / 2499**0.5), 10**6)
    loss = certificates.alignment_certificate(n, k, p, "1/2500", path=tmp_path / "pairs.json")
    left = n - k - pairs
    assert loss == pairs * p**2 * (2 - e + 2 * e**2 - e**3) / 6 + left * dropped(p)
    record = json.loads((tmp_path / "pairs.json").read_text())
    assert 0 < Q(record["statement"]["bound"]) - loss < loss / 10**8


def test_several_neurons_share_a_feature_where_that_is_better(tmp_path):
    """Three if few features are on; two, with the best of four slopes, if most are: see the next tests."""
    p = Q(1, 100)
    loss = certificates.alignment_certificate(7, 3, p, "1/2500", path=tmp_path / "three.json")
    assert loss < (7 - 2) ** 2 * p**2 / 3 < dropped(p)  # as much as one feature without a neuron loses
    p = Q(4, 5)
    loss = certificates.alignment_certificate(3, 2, p, "1/2500", path=tmp_path / "two.json")
    alone = [checker.loss(*maker._gentle_pair(Q(j, 4), p), p) for j in range(1, 5)]
    assert loss == min(alone) < checker.loss(*maker._gentle_pair(Q(1, 50), p), p)


@pytest.mark.parametrize("n", [4, 6, 8])
def test_three_neurons_hold_all_features_where_few_are_on(n):
    W, beta, V, _ = network = maker._three_neurons(n, Q(1, 10**8))
    M, j = V @ W, np.arange(n)
    M[:, 0] /= W[0, 0]
    M[0] *= W[0, 0]
    assert np.array_equal(M, 1 - np.subtract.outer(j, j) ** 2)
    assert min(map(checker.alignment, W.tolist())) >= 1 - Q(1, 10**8)
    assert not any(beta)
    for p in (Q(1, 100), Q(1, 2)):
        assert checker.loss(*network, p) < (n - 2) ** 2 * p**2 / 3 * Q(1001, 1000)


@pytest.mark.parametrize(("p", "tau"), [(0.05, 0.8), (0.3, 0.05), (4 / 7, 3.0), (0.65, 0.4), (0.9, 3.0)])
def test_the_scaled_frontier_is_reached(p, tau):
    found = alignment_frontier(p, [1e-10], largest_weight=tau * 1e5)[0]
    assert found == pytest.approx(aligned_pair_limit(p, tau), rel=1e-5)


@pytest.mark.parametrize(("p", "impurity"), [(0.1, 0.02), (0.5, 0.1), (0.9, 0.3)])
def test_the_frontier_is_the_least_loss_by_quadrature(p, impurity):
    """Output by output, over the weight and bias of each, on Gauss points between fixed breakpoints."""
    nodes, weights = np.polynomial.legendre.leggauss(150)
    x, mass = np.r_[0.0, (nodes + 1) / 2], np.r_[1 - p, p * weights / 2]
    strong, weak = (1 - impurity) ** 0.5, impurity**0.5

    def least(own, other):
        def loss(t):
            y = np.maximum(t[0] * (own * x[:, None] + other * x) + t[1], 0)
            return mass @ (x[:, None] - y) ** 2 @ mass

        starts, how = product((0.1, 1.0), (-0.1, 0.2)), {"method": "Nelder-Mead", "options": {"maxfev": 600}}
        return min(minimize(loss, [a / abs(own), b], **how).fun for a, b in starts)

    both = [least(strong, sign * weak) + least(weak, sign * strong) for sign in (-1, 1)]
    assert alignment_frontier(p, [impurity])[0] == pytest.approx(min(both), rel=2e-4)


@pytest.mark.parametrize("p", [0.1, 0.8])
def test_sum_and_difference_are_a_minimum_like_the_features(p):
    """Part 2: M = 1 and M = 1/2, equal losses, and no better network nearby."""
    pure = [np.eye(2, 3), np.zeros(2), np.eye(3, 2), np.array([0, 0, -1.0])]
    W = np.array([[1, 1, 0], [1, -1, 0.0]])
    rng = np.random.default_rng(0)
    for network in (pure, [W, np.array([0, 1.0]), W.T / 2, np.array([-0.5, 0.5, -1])]):
        at, error = sampled(*network, p, 50_000)
        assert abs(at - p / 3) < 5 * error
        for _ in range(30):
            near = [part + 1e-3 * rng.normal(size=part.shape) for part in network]
            assert sampled(*near, p, 50_000)[0] > at
    assert [checker.alignment(row) for row in ([1, 0, 0], [1, 1, 0], [1, -1, 0])] == [1, 0.5, 0.5]


def test_what_is_claimed_is_judged(tmp_path):
    path = tmp_path / "pair.json"
    loss = certificates.alignment_certificate(2, 1, "1/10", "1/2500", path=path)

    def verdict(*change):
        return certificates.check(changed_certificate(path, tmp_path / "other.json", change))

    assert verdict("statement", "bound", "37/1200").accepted  # v itself: weaker, and so proved
    for part, name, value, words in [
        ("statement", "bound", str(loss.limit_denominator(10**9) - Q(1, 10**8)), "not below"),
        ("statement", "bound", "1/30", "above what pure neurons lose"),
        ("statement", "delta", "1/3000", "alignment is less"), ("statement", "delta", "1", "not in"),
        ("statement", "n_hidden", 2, "sizes"), ("proof", "beta", ["1/100"], "can be off"),
        ("proof", "V", [["1"], ["-40"]], "not below"), ("proof", "c", ["0"], "2 entries"),
        ("proof", "W", [["1", "0.1"]], "no short fraction"), ("statement", "more", "1", "other parts"),
    ]:  # fmt: skip
        assert words in verdict(part, name, value).text, (part, name, value)
    certificates.alignment_certificate(3, 2, "1/10", "1/2500", path=path)  # one neuron of two is pure
    assert "alignment is less" in verdict("statement", "delta", "1/3000").text
