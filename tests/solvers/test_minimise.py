"""The one minimiser: against known optima, its own symmetries, and differences of what it minimises."""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from superposition.solvers import parallel
from superposition.solvers.deadline import Deadline
from superposition.solvers.loss import exact_loss, value_and_gradient
from superposition.solvers.minimise import descend, descent, lower_bound, minimise, multistart
from superposition.solvers.minimise.local_search import local_search
from superposition.solvers.minimise.objective import Objective
from superposition.solvers.minimise.result import Minimum
from superposition.solvers.minimise.sampled_loss import Samples
from superposition.solvers.minimise.starts import exchanged_model
from superposition.solvers.relu import solve_pair
from superposition.solvers.results import Status
from superposition.theory import codes, rug, unequal
from superposition.theory.features import Features

GROUP = Features(
    4,
    [0.1, 0.2, 0.3, 0.4],
    scale=[1.0, 0.5, 2.0, 1.0],
    importance=[1.0, 2.0, 0.5, 0.0],
    groups=[((1, 2), [[0, 0], [1, 1], [0, 1]], [0.7, 0.2, 0.1])],
)


# --- What is minimised --------------------------------------------------------------------------------------

PENALTIES = {
    "none": None,
    "interference": ("interference", 0.03),
    "function": lambda A, B, b: (np.sum(A**4) + np.sum(B**2) + b @ b, 4 * A**3, 2 * B, 2 * b),
}


@pytest.mark.parametrize("penalty", PENALTIES)
def test_gradient_is_that_of_differences(penalty):
    laws = (0.3, None), (GROUP, None), (0.3, 2), (Features(4, 0.4, exactly=2), None)
    for (law, classes), tied, bias in product(laws, (True, False), (True, False, "common")):
        rng = np.random.default_rng(1)
        aim = Objective(4, 2, law, tied, bias, PENALTIES[penalty], classes)
        x = rng.normal(scale=0.7, size=aim.size)
        v, h = rng.normal(size=aim.size), 1e-4
        v /= np.linalg.norm(v)
        slope = (aim.value(x + h * v) - aim.value(x - h * v)) / (2 * h)
        # h² times a third derivative, which is of the order of the value itself
        assert slope == pytest.approx(v @ aim.slope(x), abs=1e-8 * (10 + aim.value(x))), (law, tied, bias)


def test_l1_has_the_shortest_subgradient():
    aim = Objective(2, 1, 0.3, penalty=("l1", 0.1))
    x = np.array([0.6, 0.0, 0.1, 0.1])
    unit, h = 0.1, 1e-6
    assert aim.unit == pytest.approx(unit)
    ahead, behind = (aim.value(x + s * h * np.eye(4)[0]) for s in (1, -1))
    assert aim.slope(x)[0] == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)
    sides = [(aim.value(x + s * h * np.eye(4)[1]) - aim.value(x)) / h for s in (1, -1)]
    assert min(sides) > 0  # a corner: neither side goes down
    assert aim.slope(x)[1] == 0.0
    extra = aim.value(x) - Objective(2, 1, 0.3).value(x)
    assert extra == pytest.approx(0.1 * 0.6 / 2 / unit, rel=1e-12, abs=0)


def test_interference_is_that_of_the_matrix():
    W, lam = np.array([[1.0], [-0.5], [0.2]]), 0.1
    aim, bare = Objective(3, 1, 0.2, penalty=("interference", lam)), Objective(3, 1, 0.2)
    x = np.append(W.ravel(), np.zeros(3))
    M = W @ W.T
    expected = lam / 3 * (np.sum(M**2) - np.sum(np.diag(M) ** 2))
    assert (aim.value(x) - bare.value(x)) * aim.unit == pytest.approx(expected, rel=1e-12, abs=0)


def test_classes_add_up_and_the_limit_is_their_limit():
    rng = np.random.default_rng(2)
    x = rng.normal(size=9)
    parts = [Objective(3, 2, 0.2, classes=k).value(x) for k in (1, 2, 3)]
    assert parts[0] < parts[1] < parts[2] == pytest.approx(Objective(3, 2, 0.2).value(x), rel=1e-13)
    x[-3:] = -np.abs(x[-3:])
    rare = Objective(3, 2, 1e-9, classes=1).value(x)
    assert Objective(3, 2, 0).value(x) == pytest.approx(rare, rel=1e-8)


# --- Known optima -------------------------------------------------------------------------------------------


def test_two_in_one_is_the_antipodal_pair():
    for p in (1e-4, 0.01, 0.1, 0.5):
        found = minimise(2, 1, p)
        assert found.loss == pytest.approx(codes.antipodal_loss(p), rel=1e-9, abs=0)
        assert found.status is Status.CONVERGED
        assert found.gradient_norm < 1e-9
        assert found.curvature is None or found.curvature > 0


@pytest.mark.parametrize("bias", [True, False])
def test_two_in_one_of_all_importances_is_the_certified_one(bias):
    for p, r in ((0.1, 0.5), (0.8, 1.5), (1.0, 0.3)):
        found = minimise(2, 1, Features(2, p, importance=[1.0, r]), bias=bias)
        assert found.loss == pytest.approx(solve_pair(p, r, bias=bias, gap=0.1).loss, rel=1e-9)


@pytest.mark.parametrize("tied", [True, False])
def test_with_room_for_all_nothing_is_lost(tied):
    for n, m in ((1, 1), (2, 2), (3, 3), (2, 5), (4, 6)):
        found = minimise(n, m, 0.3, tied=tied, starts=2)
        assert found.loss <= found.error_estimate + 1e-14
        assert found.certificate.lower_bound == 0.0


def test_free_weights_beat_the_skew_pair():
    found = minimise(2, 1, 0.1, tied=False)
    assert round(found.loss, 6) == 0.001539
    assert found.loss < codes.skew_pair_loss(0.1) < codes.antipodal_loss(0.1)
    assert found.loss == pytest.approx(exact_loss(found.W_out @ found.W_in, found.b, 0.1).loss, rel=1e-8)


def test_five_in_two_are_a_pentagon():
    found = minimise(5, 2, 0.05)
    M = found.W_out @ found.W_in
    wanted = np.sort(np.cos(2 * np.pi * np.arange(5) / 5))
    assert np.abs(np.sort(M / np.diag(M)[:, None], axis=1) - wanted).max() < 1e-6
    assert found.gradient_norm < 1e-12
    assert found.hits > 5
    assert found.curvature > 0


def test_bounded_weights_stay_inside_and_arrive():
    """Free weights of sparse features grow for long; within bounds they end at a minimum."""
    bounded, wider = (minimise(5, 2, 0.05, tied=False, largest=one, starts=2) for one in (2.0, 4.0))
    weights = np.abs(np.concatenate([bounded.W_out.ravel(), bounded.W_in.ravel()]))
    assert weights.max() == 2.0
    assert bounded.status is Status.CONVERGED
    assert bounded.curvature > 0
    free, idle = (minimise(5, 2, 0.05, starts=2, largest=one) for one in (None, 10.0))
    assert free.loss == pytest.approx(idle.loss, rel=1e-12, abs=0)
    assert free.loss > bounded.loss > wider.loss
    held = descend([[3.0], [-3.0]], [[0.3, -0.3]], np.zeros(2), 0.1, largest=0.5)
    assert np.abs(held.W_out).max() == 0.5


def test_interference_drives_the_antipodal_pair_away():
    kept, lost = (minimise(2, 1, 0.1, penalty=("interference", lam)) for lam in (1e-4, 0.05))
    assert (kept.W_out @ kept.W_in)[0, 1] < -0.9
    assert kept.objective > kept.loss > codes.antipodal_loss(0.1)
    assert abs((lost.W_out @ lost.W_in)[0, 1]) < 1e-8
    assert lost.loss == pytest.approx(rug.zero_ratio_loss(0.1) / 2, rel=1e-9)


def test_strong_l1_drops_all_features_exactly():
    found = minimise(3, 2, 0.2, penalty=("l1", 0.2), starts=3)
    assert np.all(found.W_in == 0)
    assert found.loss == pytest.approx(rug.zero_ratio_loss(0.2), rel=1e-9)
    assert found.curvature is None
    weak = minimise(3, 2, 0.2, penalty=("l1", 1e-3), starts=3)
    assert weak.gradient_norm < 1e-5
    assert np.sum(np.abs(weak.W_in) == 0) >= 2  # the axes are the sparsest of all rotations


@pytest.mark.parametrize("n", [4, 10, 16])
@pytest.mark.parametrize("alike", [True, False])
def test_many_features_have_the_exact_loss_and_gradient(n, alike):
    """The loss of the descent beside the one with the proved bound: in groups, folded, from the transform."""
    rng = np.random.default_rng(7)
    p = 0.15 if alike else np.append(np.geomspace(0.02, 0.5, n - 1), 1.0)
    law = Features(n, p, scale=rng.uniform(0.5, 2, n), importance=rng.uniform(0, 1, n)) if n > 4 else GROUP
    aim = Objective(n, 3, law, tied=False)
    assert aim.exact == (n < 16)
    x = rng.normal(scale=0.6, size=aim.size)
    x[:3] = 0.0  # an output that nothing reaches
    W_out, W_in, b = aim.split(x)
    M = W_out @ W_in
    exact, exact_M, exact_b = value_and_gradient(M, b, law, tol=1e-8)
    assert abs(aim.loss(M, b, aim.accuracy)[0] - exact) < 1e-8 * aim.unit
    # what is left out of the gradient falls with the number of frequencies
    if not aim.exact:
        aim = aim.with_accuracy(max_frequencies=2**14, tol=1e-8)
    _, by_M, by_b = aim.loss(M, b, aim.accuracy)
    assert max(np.abs(by_M - exact_M).max(), np.abs(by_b - exact_b).max()) < 1e-7 * aim.unit


# --- How it searches ----------------------------------------------------------------------------------------


def test_same_seed_same_numbers():
    first, second, other = (minimise(3, 2, 0.3, starts=3, rng=seed) for seed in (5, 5, 6))
    assert (first, hash(first)) == (second, hash(second))
    assert first != other


def test_an_output_that_is_never_positive_has_a_loss():
    """A row of zeros with a negative bias was not a number."""
    for n in (3, 9, 12):
        M, b = np.diag([0.0, *np.ones(n - 1)]), np.full(n, -0.2)
        value, by_M, by_b = value_and_gradient(M, b, 0.1)
        assert value == pytest.approx(exact_loss(M, b, 0.1).loss, rel=1e-12, abs=0)
        assert not np.append(by_M[0], by_b[0]).any()


def test_a_budget_of_seconds_ends_a_search_and_says_so():
    told = []
    whole = minimise(8, 3, 0.1, starts=2, seconds=1e6, progress=lambda *at: told.append(at))
    assert whole == minimise(8, 3, 0.1, starts=2)
    assert whole.starts == whole.planned
    assert "stopped" not in whole.message
    assert [done for done, _, _ in told] == list(range(1, told[-1][1] + 1))
    assert [value for *_, value in told] == sorted((value for *_, value in told), reverse=True)
    short = minimise(8, 3, 0.1, starts=2, seconds=1e-6)
    assert short.starts == 1 < short.planned == whole.planned
    assert f"stopped after 1 of {whole.planned} starts: its seconds were over" in short.message
    assert "steps" not in short.message  # it is the seconds that are to be raised
    assert short.loss == pytest.approx(exact_loss(short.W_out @ short.W_in, short.b, 0.1).loss, rel=1e-9)


def test_the_result_does_not_depend_on_the_number_of_workers(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", lambda: 4)
    laws = Features(10, 0.1, importance=0.8 ** np.arange(10)), 0.1
    for n, m, law in zip((10, 4), (2, 2), laws, strict=True):
        one, three = (minimise(n, m, law, starts=3, workers=workers) for workers in (1, 3))
        assert one == three


def test_samples_have_the_moments_and_nearly_the_loss_of_the_law():
    rng = np.random.default_rng(3)
    laws = (
        Features(12, 0.1, importance=0.8 ** np.arange(12)),
        Features(12, 1e-4, scale=0.5),
        Features(12, 0.2, values="exponential", exactly=2),
        Features(6, 0.3, groups=[((0, 1), [[0, 0], [1, 1]], [0.7, 0.3])]),
    )
    for law in laws:
        samples, n = Samples(law, np.random.default_rng(0), 2048), law.n_features
        assert samples.enough
        assert samples.weights @ samples.x == pytest.approx(law.mean, rel=0.02)
        assert samples.weights @ samples.x**2 == pytest.approx(law.second_moment, rel=0.02)
        M, b = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(scale=0.1, size=n)
        value, by_M, by_b = samples(M, b)
        assert value == pytest.approx(exact_loss(M, b, law).loss, rel=0.15)
        step, dM, db = 1e-6, rng.normal(size=(n, n)), rng.normal(size=n)
        ahead, behind = (samples(M + side * dM, b + side * db)[0] for side in (step, -step))
        assert (ahead - behind) / (2 * step) == pytest.approx(np.sum(by_M * dM) + by_b @ db, rel=1e-4)
        assert np.all(samples.slope_errors(M, b) == 0.0)


@pytest.mark.parametrize("p", [0.01, 0.05, 0.5])
def test_first_weights_of_samples_are_those_of_the_law(p, monkeypatch):
    """Features are drawn more often than they are on; at five errors a false alarm is one in 400,000."""
    monkeypatch.setattr(Samples, "_match_moments", lambda self, weights, law: weights)
    samples = Samples(Features(6, p), np.random.default_rng(1), 2048)
    on = np.sum(samples.x != 0.0, axis=1)
    for k in range(1, 4):
        weights = samples.weights[on == k]
        chance = math.comb(6, k) * p**k * (1 - p) ** (6 - k)
        assert abs(weights.sum() - chance) < 5 * np.sqrt(np.sum(weights**2)), k


def test_given_starts_are_no_hits():
    """They start at the minimum; random and ordered starts are the same with and without them."""
    own = minimise(5, 2, 0.05, starts=3, tol=1e-5)
    found = minimise(5, 2, 0.05, starts=3, tol=1e-5, first=[own.W_out] * 4)
    assert found.loss == pytest.approx(own.loss, rel=1e-9)
    assert 0 < found.hits == own.hits < own.starts == found.starts - 4 == found.planned - 4
    assert found.minima[0].hits == own.minima[0].hits + 4


def test_the_bound_and_how_sure_it_is_are_there():
    for p in (0.01, 0.1, 0.9):
        found = minimise(4, 1, p, starts=2)
        assert found.lower_bound == found.certificate.lower_bound == lower_bound(4, 1, p)
        assert found.lower_bound == max(codes.relu_bound(p, 0.25), codes.decoder_bound(p, 0.25))
        assert 0 < found.lower_bound < found.loss == pytest.approx(found.lower_bound + found.certificate.gap)
    assert found.certainty == f"{found.hits} of {found.starts} starts ended here; none is proved to be best."
    assert solve_pair(0.1, gap=0.1).certainty.startswith("Proved: no model is below")
    assert minimise(2, 2, 0.1, starts=1).certainty.startswith("Proved")
    assert minimise(3, 1, 0.1, classes=1, starts=2).certificate.lower_bound == 0.0


# --- The core ----------------------------------------------------------------------------------------------


def test_the_second_end_stays_however_high_it_is():
    ends = [
        descent.DescentResult(np.zeros(1), value, 0.0, 1, Status.STALLED) for value in (2.0, 0.0, np.nan, 1.0)
    ]
    for margin, most, left in ((0.5, 4, [0, 1]), (1.5, 4, [0, 1]), (2.5, 4, [0, 1, 2]), (2.5, 1, [0])):
        assert [end.value for end in descent.distinct(ends, None, most, margin)] == left


def test_a_race_keeps_the_best_distinct_ends_and_counts_their_starts():
    """Two minima of (x² - 1)²: three starts right, two left, which is tilted to be the best."""

    def wells(x):
        return float((x[0] ** 2 - 1) ** 2 + 0.1 * x[0]), np.array([4 * x[0] * (x[0] ** 2 - 1) + 0.1])

    starts = [descent.DescentResult.at([x], k) for k, x in enumerate((0.5, -0.5, 2.0, -2.0, 1.0))]
    first = descent.Round(lambda end: descent.lbfgs(wells, end.x, steps=3), n_kept=4)
    last = descent.Round(lambda end: descent.lbfgs(wells, end.x), n_kept=1)
    (best,), lost = descent.successive_elimination(
        starts, [first, last], lambda one, two: abs(one.x - two.x)[0] < 0.1
    )
    assert best.x[0] == pytest.approx(-1.01, abs=0.01)
    assert sorted(best.starts) == [1, 3]
    assert sorted(lost[0].starts) == [0, 2, 4]
    assert best.steps > 3


def test_a_descent_rests_at_kinks_and_at_bounds():
    """Minimise (x - 1)²/2 + (y - 1)²/2 + 2 |x| + |y|/2 with y at most 0.3."""

    def bowl(x):
        return float(np.sum((x - 1.0) ** 2) / 2), x - 1.0

    start, l1 = np.array([3.0, -2.0]), np.array([2.0, 0.5])
    assert descent.lbfgs(bowl, start, l1=l1).x == pytest.approx([0.0, 0.5], abs=1e-7)
    held = descent.lbfgs(bowl, start, l1=l1, bounds=[(None, None), (None, 0.3)])
    assert held.x == pytest.approx([0.0, 0.3], abs=1e-7)
    assert held.value == pytest.approx(0.5 + 0.7**2 / 2 + 0.15, rel=1e-9)
    metric = np.array([[1.0, 0.3], [0.0, 2.0]])
    assert descent.lbfgs(bowl, start, metric=metric).x == pytest.approx([1.0, 1.0], abs=1e-6)
    rough = descent.lbfgs(lambda x: bowl(x)[0], start, gradient=False)
    assert rough.x == pytest.approx([1.0, 1.0], abs=1e-4)


def test_a_hessian_by_differences_does_not_reach_over_a_kink_that_is_near():
    """The output of a dropped feature, ReLU(w x_1 + w^2 x_2 + 1e-6), is on where |w| < 1e-6."""
    p = np.array([0.3, 0.1])
    aim = Objective(2, 1, Features(2, p))
    x = aim.join(np.array([[1.0], [0.0]]), np.array([[1.0, 0.0]]), np.array([1.0, 1e-6]))
    # Mean over both outputs of the second derivatives of E (w x_2 + 1)^2 and E (x_2 - w x_1 - w^2 x_2 - b)^2.
    second = 0.5 * (2.0 * p[1] / 3.0 + 2.0 * p[0] / 3.0 - 4.0 * p[1] / 3.0 + 2e-6 * p[1])
    hessian = multistart._difference_hessian(lambda at: aim.smooth(at)[1], aim, x)
    assert hessian[1, 1] * aim.unit == pytest.approx(second, rel=1e-5)


def test_trust_regions_end_at_the_minimum_and_newton_leaves_out_what_is_fixed():
    def bowl(x):
        return float(x @ x / 2 + np.sum(x**4)), x + 4 * x**3, np.diag(1 + 12 * x**2)

    end = descent.trust_region(bowl, np.array([2.0, -1.0]), radius=1.0, steps=100, gtol=1e-10)
    assert end.status is Status.CONVERGED
    assert np.abs(end.x).max() < 1e-12
    fixed = np.array([[1.0], [0.0]])
    x, least, direction = descent.newton(
        lambda x: bowl(x)[1], np.full(2, 0.1), np.eye(2), fixed, lambda x: abs(bowl(x)[1][1])
    )
    assert x[0] == 0.1
    assert abs(x[1]) < 1e-3
    assert least == pytest.approx(1.0)
    assert np.abs(direction) == pytest.approx([0.0, 1.0], abs=1e-12)


def pairings(features):
    """Yield all ways to put the features in pairs."""
    for partner in features[1:]:
        rest = [j for j in features[1:] if j != partner]
        for others in pairings(rest) if rest else [[]]:
            yield [(features[0], partner), *others]


def test_a_local_search_finds_the_best_of_all_pairings():
    """Six unequal features are antipodes on three axes: from the worst of the 15 pairings to the least."""
    n, m = 6, 3
    aim = Objective(n, m, Features(n, 0.1, importance=0.7 ** np.arange(n)))
    ends = []
    for pairing in pairings(list(range(n))):
        W = np.zeros((n, m))
        for axis, (i, j) in enumerate(pairing):
            W[i, axis], W[j, axis] = 1.0, -1.0
        ends.append(multistart._descent(aim, aim.join(W, W.T, np.full(n, -0.05)), 300, 1e-6))
    ends.sort(key=lambda end: end.value)
    assert len(ends) == 15
    assert ends[-1].value > 1.005 * ends[0].value

    def descend_together(vectors, steps):
        return multistart._descend_together(aim, vectors, steps, 1e-6, 1)

    found = local_search(aim, descend_together, ends[-1:], np.random.default_rng(0), 500, 1)
    # The descent of a model as it is has not converged to more.
    assert min(end.value for end in found) <= ends[0].value * (1.0 + 1e-6)


def test_one_bound_of_one_law():
    law = Features(20, 0.05, importance=0.9 ** np.arange(20))
    assert lower_bound(20, 5, law) == unequal.loss_bound(law, 5) > 2e-4
    assert lower_bound(4, 4, 0.9) == 0.0
    assert lower_bound(3, 1, Features(3, 1.0)) == codes.decoder_bound(1.0, 1 / 3)


def test_minima_are_distinct_and_counted():
    found = minimise(3, 2, 0.52, starts=20)
    assert [one.objective for one in found.minima] == sorted(one.objective for one in found.minima)
    assert sum(one.hits for one in found.minima) == found.starts == found.losses.size
    # the rotations of one model, and the orders of alike features, are one minimum
    assert found.minima[0].hits > 5
    best = found.minima[0]
    assert best.objective == found.objective
    assert np.array_equal(best.W_out, found.W_out)


def test_given_models_are_starts_and_a_descent_leaves_the_saddle():
    pair = np.array([[1.0], [-1.0]])
    saddle = descend(pair, pair.T, np.full(2, 1e-3), 0.1)
    assert saddle.loss == pytest.approx(minimise(2, 1, 0.1, tied=False).loss, rel=1e-9)
    held = descend(pair, pair.T, np.full(2, 1e-3), 0.1, tied=True)
    assert held.loss == pytest.approx(codes.antipodal_loss(0.1), rel=1e-9)
    given = minimise(2, 1, 0.1, starts=0, first=[pair, (pair, pair.T, np.zeros(2))])
    assert given.starts == minimise(2, 1, 0.1, starts=0).starts + 2


def test_a_budget_that_runs_out_is_not_silent():
    found = minimise(4, 2, 0.1, starts=2, steps=2, tied=False)
    assert found.status is Status.STEPS
    assert found.arrived < found.starts
    assert f"{found.arrived} of {found.starts} starts converged" in found.message


@pytest.mark.parametrize(
    ("importance", "p"),
    [((1.0, 1e200), 0.3), ((1.0, 1.0), 1e-200), pytest.param((1e-200, 1.0), 1e-12, marks=pytest.mark.slow)],
)
def test_extremes_are_finite_and_quiet(importance, p):
    found = minimise(2, 1, Features(2, p, importance=importance), starts=2)
    numbers = found.loss, found.objective, found.gradient_norm, found.error_estimate, *found.W_out.ravel()
    assert np.all(np.isfinite(numbers))
    if importance[1] > importance[0]:
        assert np.abs(found.W[1, 0]) == pytest.approx(1, abs=0.01)


def test_starts_race_where_an_exact_gradient_takes_long():
    """The limits are those of the page on searches; a part of the loss, and its limit, are never sampled."""
    first = {"uniform": 9, "binary": 8, "symmetric": 10, "half-normal": 2}
    for values, n in first.items():
        assert Objective(n, 1, Features(n, 0.1, values)).raced
        assert n == 2 or not Objective(n - 1, 1, Features(n - 1, 0.1, values)).raced
    assert not Objective(12, 3, 0.1, classes=2).raced
    assert not Objective(12, 3, 0).raced
    assert Objective(1000, 3, 0.1).raced


def test_a_race_ends_after_two_rounds_that_agree(monkeypatch):
    """Where a loss is flat, as of normal values, hardly a start has enough digits to count as a hit."""
    law = Features(4, 0.1, "normal")
    once, again = (minimise(4, 1, law, starts=3, hits=hits, rng=1) for hits in (0, 1))
    assert again.planned == once.planned  # there was a hit
    monkeypatch.setattr(multistart, "_count_hits", lambda ends, n_given: 0)
    found = minimise(4, 1, law, starts=3, hits=1, rng=1)
    assert found.planned == once.planned + 3
    assert found.loss == pytest.approx(once.loss, rel=1e-6)


@pytest.mark.parametrize("values", ["uniform", pytest.param("half-normal", marks=pytest.mark.slow)])
def test_progress_counts_no_more_descents_than_were_planned(values):
    counts = []
    minimise(14, 3, Features(14, 0.05, values), starts=2, progress=lambda *at: counts.append(at[:2]))
    assert counts
    assert all(done <= planned for done, planned in counts)
    assert counts[-1][0] == counts[-1][1]


def test_unseen_is_the_share_of_starts_whose_minimum_no_other_found():
    found = SimpleNamespace(minima=[SimpleNamespace(hits=hits) for hits in (0, 1, 3)], starts=4)
    assert Minimum.unseen.fget(found) == 0.25


def test_features_that_exchange_directions_keep_their_lengths():
    rng, sizes = np.random.default_rng(0), np.array([1.0, 1.2, 1.5])
    angles = rng.uniform(0, 2 * np.pi, size=(2, 3))
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    W_out, W_in = directions * sizes[:, None]
    out, encodings, _ = exchanged_model((W_out, W_in.T, np.zeros(3)), 0, 2)
    np.testing.assert_allclose([out, encodings.T], directions[:, [2, 1, 0]] * sizes[:, None], rtol=1e-12)


def test_the_loss_of_binary_features_has_its_digits_after_the_deadline():
    """It was a sum over 64 frequencies, off by 1e-3 of the loss."""
    n, rng = 16, np.random.default_rng(0)
    W, b = rng.normal(size=(n, 4)) / 2.0, np.full(n, -0.1)
    law = Features(n, 0.05, "binary")
    loss, error = Objective(n, 4, law, deadline=Deadline(0.0)).end(W @ W.T, b)
    true = exact_loss(W @ W.T, b, law).loss
    assert abs(loss - true) <= error <= 1e-12 * true
