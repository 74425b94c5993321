"""The best split of many features, matrices that realise it, and the mean field: against other methods."""

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers import codes, loss, rug, unequal
from superposition.solvers.results import Status
from superposition.solvers.unequal.realise import tight_frame
from superposition.theory import unequal as theory
from superposition.theory.codes import collision_loss, priority_plane_loss
from superposition.theory.features import Features

TWO = Features(2000, np.repeat([0.1, 0.02], 1000))


# --- The split ----------------------------------------------------------------------------------------------


def test_alike_it_is_the_rug_or_the_envelope_of_codes():
    for p, m in ((0.05, 64), (0.3, 150), (0.01, 30), (0.7, 200), (0.01, 255)):
        found, best = unequal.allocate(Features(256, p), m), rug.optimum(p, m / 256)
        assert found.loss == pytest.approx(best.loss, rel=1e-12, abs=0)
        np.testing.assert_allclose(found.capacity, m / 256, rtol=1e-13)
        np.testing.assert_allclose(found.a, best.a, rtol=1e-8)
        np.testing.assert_allclose(found.sigma, best.sigma, rtol=1e-12)
        assert found.gap < 1e-9 * found.loss
    for m, other in ((150, "kept"), (64, "dropped")):
        found = unequal.allocate(Features(256, 0.3), m, ("rug", "pairs"))
        assert {unequal.KINDS[k] for k in np.unique(found.kind)} == {"pairs", other}
        best = codes.envelope(0.3, m / 256, ["pair"], models="tied")
        assert found.loss == pytest.approx(best.loss, rel=1e-12, abs=0)


def test_where_all_are_pairs_price_and_gap_are_those_of_pairs():
    """At one multiplier the capacities sum to n_hidden exactly, so nothing is left to mix."""
    law = Features(16, 0.125)
    found, best = (unequal.allocate(law, 8, ("rug", "pairs")), unequal.allocate_codes(law, 8, models="tied"))
    assert found.gap <= 1e-12 * found.loss
    assert found.loss == pytest.approx(best.loss, rel=1e-12, abs=0)
    assert {best.names[k] for k in best.code} == {"pair"}
    # between the slopes to features kept, and to dropped ones
    assert 2 * best.loss < best.multiplier < 2 * (0.125 / 3 - 0.125**2 / 4 - best.loss)


def test_features_of_no_importance_are_dropped():
    """The others have the neurons, and what they would have by themselves; warnings are errors."""
    p = np.repeat([0.3, 0.1, 0.02], [50, 100, 100])
    law = Features(250, p, importance=np.repeat([0.0, 1.0], [50, 200]))
    for m in (2, 60, 200):
        alone, found = (
            unequal.allocate_codes(Features(200, p[50:]), min(m, 199)),
            unequal.allocate_codes(law, m),
        )
        assert all(found.names[k] == "dropped" for k in found.code[:50])
        assert not found.capacity[:50].any()
        if m == 200:  # room for all that matter
            assert found.loss == 0.0
            continue
        assert found.names == alone.names
        want = 0.8 * alone.share + 0.2 * (np.array(alone.names) == "dropped")
        assert found.share == pytest.approx(want, abs=1e-9)
        assert found.neurons == pytest.approx(0.8 * alone.neurons, abs=1e-9)
        assert found.loss == pytest.approx(0.8 * alone.loss, rel=1e-9)
        assert found.multiplier == pytest.approx(alone.multiplier, rel=1e-9)


# Mixtures, pure codes, the rug; of like features this is the other envelope, to rounding.
@pytest.mark.parametrize("models", codes.MODELS)
def test_the_envelope_of_like_features_is_that_of_codes(models):
    for p, m in ((0.05, 64), (0.3, 150), (0.7, 200), (0.01, 255), (0.001, 10), (0.2, 40)):
        found = unequal.allocate_codes(Features(256, p), m, models=models)
        assert found.neurons.sum() == pytest.approx(m / 256, rel=1e-9)
        best = codes.envelope(p, m / 256, ["pair"], models=models)
        if "rug" in (best.names[best.first], best.names[best.second]) and best.share > 0.0:
            # a mixture with a rug takes that from a grid there
            assert best.loss * (1 - 2e-3) <= found.loss <= best.loss * (1 + 1e-12)
        else:
            assert found.loss == pytest.approx(best.loss, rel=1e-12, abs=0)
            at = {best.names[best.second]: best.share, best.names[best.first]: 1.0 - best.share}
            shares = {name: one for name, one in zip(found.names, found.share, strict=True) if one}
            assert shares == pytest.approx(at)


def programme(width, cost, m):
    """Return the least loss of shares of classes of 1000 features at each width, and its multiplier."""
    each = np.kron(np.eye(len(cost)), np.ones(len(cost[0])))
    solved = optimize.linprog(
        np.ravel(cost),
        A_ub=[np.ravel(width)],
        b_ub=[m / 1000],
        A_eq=each,
        b_eq=np.ones(len(cost)),
        method="highs",
    )
    return solved.fun / len(cost), -solved.ineqlin.marginals[0]


@pytest.mark.parametrize(
    ("m", "models"),
    [(30, "free"), (300, "balanced"), pytest.param(1200, "free", marks=pytest.mark.slow), (300, "tied")],
)
def test_the_envelope_of_two_classes_against_a_linear_programme(m, models):
    """Its variables are the shares of each class in each code; on grids are rugs here, large codes there."""
    law = Features(2000, TWO.p, importance=np.repeat([1.0, 4.0], 1000))
    found = unequal.allocate_codes(law, m, ["pair", "pentagon"], models=models)
    c = np.geomspace(1e-3, 1, 200)
    cost, width = [], []
    for p, w in ((0.1, 1.0), (0.02, 4.0)):
        pairs, pentagons = codes.blocks([p], ["pair"]), codes.blocks([p], ["pentagon"])
        points = {"d": (0.0, p / 3 - p**2 / 4), "k": (1.0, 0.0), "p": (0.5, pairs[0][0].loss)}
        points["5"] = (0.4, pentagons[0][0].loss)
        if models != "tied":
            points["s"] = (0.6, pentagons[1][0].loss)
        if models == "free":
            points["x"] = (0.5, 25 * p**2 / 162)
            points |= {f"q{k}": (2 / k, float(priority_plane_loss(p, k))) for k in range(5, 200)}
        if models == "balanced":
            points |= {f"c{k}": (3 / k, float(collision_loss(p, k))) for k in range(5, 200)}
        width.append([*(one[0] for one in points.values()), *c])
        cost.append(w * np.array([*(one[1] for one in points.values()), *rug.optimum(p, c).loss]))
    best, _ = programme(width, cost, m)
    assert found.loss == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("m", [60, 300, 1200])
def test_two_classes_against_a_linear_programme(m):
    """Shares of each class on a grid of capacities: from above by the grid's step, never below."""
    law = Features(2000, TWO.p, importance=np.repeat([1.0, 4.0], 1000), scale=np.repeat([1.0, 1.5], 1000))
    found = unequal.allocate(law, m)
    c = np.concatenate([[0.0], np.geomspace(1e-3, 1, 800)])
    cost = [
        w * np.append(p / 3 - p * p / 4, rug.optimum(p, c[1:]).loss) for p, w in ((0.1, 1.0), (0.02, 9.0))
    ]
    by_grid, multiplier = programme([c, c], cost, m)
    assert found.loss - found.gap <= by_grid * (1 + 1e-9)
    assert found.loss == pytest.approx(by_grid, rel=1e-3)
    assert found.multiplier == pytest.approx(multiplier, rel=0.02)
    assert found.capacity.sum() == pytest.approx(m, rel=1e-12)
    assert found.gap < 1e-3 * found.loss
    assert found.status.good


def test_features_of_many_different_p_share_curves():
    law = theory.power_law(0.8, 400, 5.0)
    found = unequal.allocate(law, 50)
    assert np.unique(law.p).size > 256
    assert found.gap < 1e-5 * found.loss
    assert found.capacity.sum() == pytest.approx(50, rel=1e-12)
    assert np.all(np.diff(found.capacity[found.kind == 1]) <= 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("values", ["exponential", "half-normal", "binary", "symmetric"])
def test_other_values_have_the_optimum_of_the_decoder(values):
    from superposition.solvers import decoders

    law = Features(100, 0.2, values)
    found = unequal.allocate(law, 60)
    sigma = np.sqrt(theory.interference_variance(0.6, law))[0]
    alone = decoders.optimum(0.2, sigma, "relu", values=values).loss
    assert found.loss <= alone * (1 + 1e-9)
    if np.all(found.kind == 1):
        assert found.loss == pytest.approx(alone, rel=1e-9)
    assert found.gap < 2e-3 * found.loss


def test_few_features_are_counted_and_nothing_is_left_over():
    rng = np.random.default_rng(6)
    for codes_used in (("rug",), ("rug", "pairs", "skew pairs")):
        for n, m in ((5, 1), (4, 3), (9, 4), (3, 3), (2, 5)):
            importance = np.r_[0.0, rng.exponential(1, n - 1)]
            law = Features(n, rng.uniform(0.01, 1, n), scale=rng.uniform(0.1, 3, n), importance=importance)
            found = unequal.allocate(law, m, codes_used)
            assert found.capacity.sum() == pytest.approx(min(m, n), rel=1e-9)
            assert np.all(found.per_feature <= law.variance * (1 + 1e-9))
            if m >= n - 1:  # all that matter are kept
                assert (found.loss, found.gap) == (0.0, 0.0)
    two_sided = unequal.allocate(Features(3, 0.1, "symmetric"), 3)
    assert two_sided.loss == pytest.approx(0.1 / 6)  # a ReLU loses the negative values
    assert two_sided.gap == pytest.approx(0, abs=1e-15)


# --- Matrices -----------------------------------------------------------------------------------------------


def test_the_split_of_values_of_both_signs_is_what_a_model_loses():
    law = Features(64, 0.5, "symmetric")
    for m in (8, 58):
        split = unequal.allocate(law, m)
        W_out, W_in, b = unequal.realise(split, law, rng=0)
        assert loss.exact_loss(W_out @ W_in, b, law, tol=1e-5).loss == pytest.approx(split.loss, rel=1e-3)


def test_matrices_have_the_capacities_and_the_losses():
    p, scale = np.repeat(np.linspace(0.01, 0.3, 15), 4), np.repeat([1.0, 2.0], 30)
    law = Features(60, p, scale=scale, importance=np.linspace(2, 1, 60))
    for names in (("rug", "pairs"), ("skew pairs",)):
        split = unequal.allocate(law, 36, names)
        W_out, W_in, b = unequal.realise(split, law, rng=0)
        assert (W_out.shape, W_in.shape) == ((60, 36), (36, 60))
        M = W_out @ W_in
        np.testing.assert_allclose(theory.capacities(M, law), split.capacity, rtol=1e-9, atol=1e-12)
        exact = loss.exact_loss(M, b, law)
        # pairs, kept and dropped features lose what is said, at any number of features
        sure = split.kind != 1
        assert np.unique(split.kind[sure]).size == 3
        np.testing.assert_allclose(exact.per_feature[sure], split.per_feature[sure], rtol=1e-9, atol=1e-13)
        assert np.all(split.partner[split.partner[split.partner >= 0]] == np.flatnonzero(split.partner >= 0))
        skew = np.flatnonzero(split.kind == unequal.KINDS.index("skew pairs"))
        worth, left = law.importance * scale**2, split.per_feature / scale**2
        heavier = skew[worth[skew] > worth[split.partner[skew]]]
        assert np.all(left[heavier] < left[split.partner[heavier]])  # which receives less interference
        assert (heavier.size > 0) == (names == ("skew pairs",))


def test_capacities_alone_are_realised():
    law = Features(4, [0.5, 0.1, 0.01, 0.3])
    for capacity in ([0.9, 0.5, 0.35, 0.25], [0.999, 0.998, 0.003, 0.0], [1, 0.25, 0.5, 0.25]):
        W_out, W_in, _ = unequal.realise(capacity, law, rng=1)
        np.testing.assert_allclose(theory.capacities(W_out @ W_in, law), capacity, rtol=1e-9)
        assert np.array_equal(unequal.realise(capacity, law, rng=1)[0], W_out)


def test_the_exact_loss_is_the_macroscopic_one_and_its_correction():
    law = Features(512, np.repeat([0.3, 0.15], 256))
    split = unequal.allocate(law, 300)
    M = np.matmul(*(model := unequal.realise(split, law, rng=0))[:2])
    assert np.all(split.kind == 1)
    rows = [0, 1, 2, 509, 510, 511]
    exact = loss.exact_loss(M, model[2], law, rows=rows).per_feature
    missed = exact - split.per_feature[rows]
    np.testing.assert_allclose(missed, theory.finite_size_correction(M, model[2], law)[rows], rtol=0.1)
    assert np.all(np.abs(missed) < 0.05 * split.per_feature[rows])


# --- Random directions --------------------------------------------------------------------------------------


def test_with_many_on_the_mean_field_is_the_macroscopic_loss():
    law = Features(2000, 0.1)
    split, found = unequal.allocate(law, 750), unequal.mean_field(law, 750, tied=False)
    assert found.loss == pytest.approx(split.loss, rel=0.01)
    # and tied models lose nothing where features are alike
    assert unequal.mean_field(law, 750).loss == pytest.approx(split.loss, rel=0.02)


@pytest.mark.parametrize("tied", [True, False])
def test_the_mean_field_is_in_the_units_of_the_features(tied):
    p = np.geomspace(0.02, 0.3, 100)
    one, two = (
        unequal.mean_field(Features(100, p, scale=scale, importance=importance), 30, tied=tied)
        for scale, importance in ((1, 1), (2, 3))
    )
    assert two.loss == pytest.approx(12 * one.loss, rel=1e-6)
    for name, unit in (("per_feature", 4), ("b", 2), ("a", 1), ("capacity", 1)):
        np.testing.assert_allclose(getattr(two, name), unit * getattr(one, name), rtol=1e-3, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "on", "m"), [(1.5, 1.0, 10), (1.0, 1.0, 20), (2.0, 1.0, 10), (0.0, 10.0, 60)]
)
def test_the_mean_field_is_near_the_exact_loss_of_random_directions(alpha, on, m):
    law = theory.power_law(alpha, 300, on)
    found = unequal.mean_field(law, m)
    k, rng = found.n_directions, np.random.default_rng(0)
    frame = tight_frame(found.capacity[k:], m - k, rng)
    W = np.zeros((300, m))
    W[:k, :k] = np.eye(k)
    W[k:, k:] = frame / np.linalg.norm(frame, axis=1)[:, None] * np.sqrt(found.a[k:, None])
    M = W @ W.T
    off = M - np.diag(np.diag(M))
    exact = loss.exact_loss(M, found.b - off @ law.mean, law, tol=1e-8).loss
    assert exact == pytest.approx(found.loss, rel=0.06)


def test_steep_laws_are_split_to_the_optimum() -> None:
    """Probabilities over 46 decades: curves of rare features once ended where they begin."""
    p = np.arange(1, 201) ** -20.0
    best = unequal.allocate(Features(200, p / p.sum()), 10)
    assert best.gap <= 1e-9 * best.loss
    assert best.status is Status.REACHED
    # Features alone: what a rare feature asks for at the price of another is where its loss falls as fast.
    inside = np.flatnonzero((best.capacity > 1e-9) & (best.capacity < 0.9))
    for k in inside:
        c, step = best.capacity[k], 1e-4 * best.capacity[k]
        falls = rug.optimum(p[k] / p.sum(), np.array([c - step, c + step])).loss
        assert (falls[0] - falls[1]) / (2.0 * step) == pytest.approx(best.multiplier, rel=1e-3, abs=0)
