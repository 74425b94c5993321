"""What decoders reach that know the dictionary: against exact values, brute force and other samples."""

from importlib import import_module
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from superposition.solvers.sae import DECODERS, ceiling, measure
from superposition.solvers.sae.ceiling import (
    _Draws,
    _f1_of_normal_noise,
    _linear_regression,
    _pursuit_path,
    _threshold_candidates,
    _thresholds_per_latent,
    match_columns,
)
from superposition.theory.features import Features, exclusive, parent_child

from ..oracles import patterns


def dictionary(d, n, seed=0):
    phi = np.random.default_rng(seed).normal(size=(d, n))
    return phi / np.linalg.norm(phi, axis=0)


def test_an_orthonormal_dictionary_is_read_without_error():
    for law in (Features(4, 0.3, "binary"), Features(4, 0.3), Features(16, 0.1)):
        n = law.n_features
        found = ceiling(law, np.eye(n), l0=[1.05 * law.p.sum()], samples=2000)
        # A threshold of its own may lie above the smallest values; logistic regressions are estimates.
        fitted = np.array([name.startswith(("logistic", "trained")) for name in DECODERS])
        assert np.all(np.abs(found.f1[~fitted, 0] - 1.0) <= 0.01)
        assert np.all(found.mse[~fitted, 0] < 0.01)
        assert np.all(found.f1[fitted, 0] <= 1.0)
    assert not found.exact.any()


@pytest.mark.parametrize(
    ("law", "every"),
    [  # exact values take long, of independent features longest: of every so many autoencoders
        pytest.param(
            Features(5, (0.1, 0.2, 0.3, 0.1, 0.05), scale=np.linspace(0.5, 1.5, 5)), 5, marks=pytest.mark.slow
        ),
        (Features(5, 0.2, groups=[parent_child(0, [1], 0.3, 0.5), exclusive([2, 3], 0.2)]), 3),
    ],
    ids=["independent", "groups"],
)
def test_samples_agree_with_exact_values(law, every):
    """Each sampled number in standard errors; one false alarm in a thousand for a law."""
    found = ceiling(law, phi := dictionary(3, 5), l0=[0.4, 0.9], samples=4000, rng=3)
    assert not found.exact.any()
    levels = []
    for k, j in list(product(range(len(found.models)), range(2)))[::every]:
        exact = measure(found.models[k][j], law, phi, tol=1e-6)
        want = exact.l0.sum(), exact.f1.diagonal().mean(), exact.mse
        for name, value in zip(("l0", "f1", "mse"), want, strict=True):
            se = getattr(found, f"{name}_error")[k, j]
            levels.append(2.0 * stats.t.sf(abs(getattr(found, name)[k, j] - value) / se, 19))
    assert min(levels) > 1e-3 / len(levels)
    # Another value is noticed: that of the autoencoder before.
    other = measure(found.models[5][0], law, phi, tol=1e-6)
    assert abs(found.mse[5, 1] - other.mse) > 8.0 * found.mse_error[5, 1]
    assert abs(found.f1[5, 1] - other.f1.diagonal().mean()) > 8.0 * found.f1_error[5, 1]


def f1_of(on, there):
    return 2.0 * np.sum(on & there, axis=0) / np.maximum(on.sum(axis=0) + there.sum(axis=0), 1)


def logistic_f1(law, phi, l0, count, rng):
    """Return mean F1 on fresh samples of logistic regressions by Newton's method, at a common threshold."""
    first, known, fresh = (law.sample(count, rng) for _ in range(3))
    A, rows = np.c_[first @ phi.T, np.ones(count)], []
    for y, v in zip((first != 0.0).T, phi.T, strict=True):
        theta = np.zeros(A.shape[1])
        for _ in range(11):
            p = 1.0 / (1.0 + np.exp(-A @ theta))
            slope = A.T @ (p - y)
            theta -= np.linalg.solve((A.T * (p * (1.0 - p))) @ A, slope)
        assert np.abs(slope).max() < 1e-6
        rows.append(theta[:-1] / (theta[:-1] @ v))
    W = np.array(rows)
    cut = np.quantile(known @ phi.T @ W.T, 1.0 - l0 / len(W))
    return np.mean(f1_of(fresh @ phi.T @ W.T > cut, fresh != 0.0))


@pytest.mark.slow
def test_logistic_readings_reach_what_other_regressions_reach():
    """Means over runs with samples of their own, by Welch's t: one false alarm in a thousand.

    It notices 0.02, beside a gap to the linear reading of 0.035. The penalty, which the other regression has
    not, is a few per cent of what so many samples tell.
    """
    law, phi, l0, count = Features(8, 0.15), dictionary(5, 8), 1.0, 4000
    ours = [ceiling(law, phi, l0=l0, samples=count, rng=k).f1[[6, 3, 0], 0] for k in range(8)]
    logistic, linear, plain = np.array(ours).T
    rng = np.random.default_rng(99)
    others = np.array([logistic_f1(law, phi, l0, count, rng) for _ in range(24)])
    assert stats.ttest_ind(logistic, others, equal_var=False).pvalue > 1e-3
    # The linear reading, or the dictionary's, would be noticed.
    assert stats.ttest_ind(linear, others, equal_var=False).pvalue < 1e-6
    assert stats.ttest_ind(plain, others, equal_var=False).pvalue < 1e-6


@pytest.mark.parametrize(
    ("p", "phi", "size", "asked"),
    [
        ((0.4, 0.2), dictionary(1, 2, 5), 24, [0.3, 0.6]),
        ((0.5, 0.3, 0.3, 0.2), dictionary(2, 4, 6), 16, [0.2, 0.5]),
    ],
)
def test_owners_and_their_thresholds_are_best_at_the_l0_that_they_reach(p, phi, size, asked):
    """All choices of two features and their thresholds, on few samples."""
    rng, n = np.random.default_rng(4), len(p)
    for _ in range(5):
        x = Features(n, p).sample(size, rng)
        z = (x @ phi.T) @ phi
        ends = np.sort(z, axis=0)
        cuts = [*(0.5 * (ends[:-1] + ends[1:])), np.full(n, np.inf)]
        each = np.array([worth(z > cut, x, z, phi) for cut in cuts])  # (cuts, 3, features)
        tried = [
            one[:, i] + two[:, j]
            for one, two in product(each, repeat=2)
            for i, j in combinations(range(n), 2)
        ]
        thresholds, owners = _thresholds_per_latent(_threshold_candidates(z, x, phi), np.array(asked), 2)
        for k, (t, of) in enumerate(zip(thresholds, owners, strict=True)):
            kind = 1 + k // 2
            l0, value = worth(z > t, x, z, phi)[:, of].sum(axis=1)[[0, kind]]
            assert len(set(of)) == 2
            assert l0 <= asked[k % 2] + 1e-12
            assert not (z > t)[:, [i for i in range(n) if i not in of]].any()
            assert value >= max(one[kind] for one in tried if one[0] <= l0 + 1e-12) - 1e-9


def worth(on, x, z, phi):
    """Return of each latent its share of L0, its F1, and what a regression saves of the error."""
    saved = np.zeros(x.shape[1])
    for i in range(x.shape[1]):
        u, v = z[on[:, i], i], x[on[:, i], i]
        if u.size:
            A = np.stack([u, np.ones(u.size)], axis=1)
            fit = np.linalg.lstsq(A, v, rcond=None)[0]
            fit = fit if fit[0] > 0.0 else np.array([0.0, v.mean()])
            saved[i] = (phi[:, i] @ phi[:, i]) * (v @ v - np.sum((v - A @ fit) ** 2))
    return np.array([on.mean(axis=0), f1_of(on, x != 0.0), saved])


def test_the_linear_reading_whitens_the_interference():
    law, phi = Features(9, np.linspace(0.05, 0.3, 9)), dictionary(4, 9)
    want = law.variance[:, None] * (phi.T @ np.linalg.inv(phi @ np.diag(law.variance) @ phi.T))
    assert _linear_regression(law, phi) == pytest.approx(want, rel=1e-9)


def test_pursuit_by_its_definition():
    phi, rng = dictionary(3, 6) * np.linspace(0.5, 2.0, 6), np.random.default_rng(1)
    x = Features(6, 0.4).sample(30, rng)
    atoms, least, new, squares = _pursuit_path(phi, np.arange(6), x, 8)
    for row, one in enumerate(x):
        r, seen, smallest = phi @ one, set(), np.inf
        for k in range(8):
            assert squares[row, k] == pytest.approx(r @ r, abs=1e-12)
            inner = phi.T @ r / np.linalg.norm(phi, axis=0)
            best = int(inner.argmax())
            if inner[best] <= 1e-12:
                break
            smallest = min(smallest, inner[best])
            assert atoms[row, k] == best
            assert least[row, k] == pytest.approx(smallest, abs=1e-12)
            assert bool(new[row, k]) == (best not in seen)
            seen.add(best)
            r = r - inner[best] * phi[:, best] / np.linalg.norm(phi[:, best])


def test_the_unit_of_dictionary_and_features_changes_nothing():
    # Powers of two: all floating-point operations are the same but for exponents.
    phi = np.array([[1.0, 0.5, 0.0], [0.0, 0.8, 0.6]])
    one = ceiling(Features(3, 0.1), phi, l0=[0.2, 0.3], samples=200)
    for by, scale in ((2.0**160, 1.0), (2.0**-160, 1.0), (1.0, 2.0**-160)):
        other = ceiling(Features(3, 0.1, scale=scale), by * phi, l0=[0.2, 0.3], samples=200)
        np.testing.assert_array_equal([other.f1, other.l0], [one.f1, one.l0])
        np.testing.assert_allclose(other.mse / by**2 / scale**2, one.mse, rtol=1e-13, atol=1e-16)


def test_features_without_a_direction_have_no_latent():
    phi = dictionary(3, 5)
    phi[:, 2] = 0.0
    found = ceiling(Features(5, 0.2), phi, l0=[0.6], samples=1000)
    assert np.all(np.isfinite(found.f1))
    assert all(not sae.W_in[2].any() for (sae,) in found.models)
    sure = ceiling(Features(2, 1.0, "binary"), np.eye(2), l0=[1.0], samples=200)
    assert np.isnan(sure.explained_variance).all()


@pytest.mark.parametrize(
    "law",
    [Features(12, 0.2), Features(12, 0.2, groups=[parent_child(0, [1], 0.3, 0.5), exclusive([2, 3], 0.2)])],
)
@pytest.mark.parametrize("latents", [12, 7])
def test_many_features_are_taken_block_by_block_with_the_same_result(law, latents, monkeypatch):
    """Sparse samples, five latents at a time, inner products in single precision."""
    phi = dictionary(5, 12)
    module = import_module("superposition.solvers.sae.ceiling")
    monkeypatch.setattr(module, "CELLS", 5000)

    def in_parts(features, samples, rng):
        return np.concatenate([features.sample(min(416, samples - k), rng) for k in range(0, samples, 416)])

    with monkeypatch.context() as same_draws:
        same_draws.setattr(module, "_sample_data", in_parts)
        whole = ceiling(
            law, phi, l0=latents * np.array([0.08, 0.16, 0.24]), latents=latents, samples=1000, rng=4
        )
    monkeypatch.setattr(module, "DENSE", 8)
    found = ceiling(law, phi, l0=latents * np.array([0.08, 0.16, 0.24]), latents=latents, samples=1000, rng=4)
    assert found.decoders == (*DECODERS[:6], "pursuit")
    assert not found.models
    assert not found.exact.any()
    for name in ("l0", "f1", "l0_error", "f1_error"):
        want = getattr(whole, name)[[0, 1, 2, 3, 4, 5, 12]]
        np.testing.assert_allclose(getattr(found, name), want, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(found.mse[:3], whole.mse[:3], rtol=1e-9)
    np.testing.assert_allclose(found.mse[6], whole.mse[12], rtol=1e-5)
    # Behind the linear rows the decoder is the dictionary, where it was a regression.
    assert np.all(found.mse[3:6] > whole.mse[3:6])


def test_draws_stand_for_their_law():
    """In standard errors of the difference, one false alarm in a thousand; sparse draws are the same."""
    law, phi = Features(10, 0.15), dictionary(5, 10)
    x = law.sample(6000, 12)
    found = ceiling(x, phi, l0=[1.0, 2.0], rng=1)
    stated = ceiling(law, phi, l0=[1.0, 2.0], samples=3000, rng=2)
    assert found.samples == 3000
    assert found.mean_active == pytest.approx(1.5, abs=4.0 * np.sqrt(10 * 0.15 * 0.85 / 3000))
    assert not found.exact.any()
    # Thresholds and rows are fitted to other samples too, which costs about as much as evaluating on others.
    off = (found.f1 - stated.f1) / (2.0 * np.hypot(found.f1_error, stated.f1_error))
    assert np.abs(off).max() < stats.t.isf(0.5e-3 / off.size, 19)
    np.testing.assert_array_equal(ceiling(csr_array(x), phi, l0=[1.0, 2.0], rng=1).f1, found.f1)
    on = x[:2000] != 0.0
    flags = ceiling(on, phi, l0=1.0, rng=0)
    np.testing.assert_array_equal(flags.f1, ceiling(on.astype(float), phi, l0=1.0, rng=0).f1)
    assert np.isnan(flags.normal_f1).all()
    # Draws of another law would be noticed.
    other = ceiling(Features(10, 0.1).sample(6000, 13), phi, l0=[1.0, 2.0], rng=1)
    assert np.abs(other.f1 - stated.f1).max() > 0.05


def test_linear_rows_of_draws_read_a_child_with_its_parent():
    """Directions of the rows beside those of the law; chance co-occurrences of 40 features do not count."""
    law = Features(40, 0.1, groups=[parent_child(0, [1, 2], 0.3, 0.2)])
    phi, x = dictionary(12, 40), law.sample(40_000, 3)
    exact, drawn = (_linear_regression(of, phi) for of in (law, _Draws(csr_array(x), csr_array(x))))
    alone = phi.T @ np.linalg.inv(np.cov(x @ phi.T, rowvar=False))

    def cosines(rows):
        return np.sum(rows * exact, axis=1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(exact, axis=1)

    assert cosines(drawn).min() > 0.999
    assert cosines(alone)[1:3].max() < 0.98


def test_normal_interference_by_samples_of_it():
    """Rows read their own feature and a normal variable; one false alarm in a thousand."""
    law = Features(6, (0.1, 0.2, 0.3, 0.1, 0.4, 0.2), "half-normal", scale=0.7)
    phi, count, rng = dictionary(4, 6), 400_000, np.random.default_rng(8)
    C = phi @ np.diag(law.variance) @ phi.T
    W = law.variance[:, None] * (phi.T @ np.linalg.inv(C))
    W /= np.sum(W * phi.T, axis=1)[:, None]
    asked = np.array([0.8, 1.5])
    found, read = _f1_of_normal_noise(law, phi, W, asked), W @ phi
    np.fill_diagonal(read, 0.0)
    x = law.sample(count, rng)
    z = x + read @ law.mean + np.sqrt(read**2 @ law.variance) * rng.normal(size=x.shape)
    for k, l0 in enumerate(asked):
        on, there = z > np.quantile(z, 1.0 - l0 / 6), x != 0.0
        parts = [f1_of(on[k], there[k]).mean() for k in np.array_split(np.arange(count), 20)]
        se = np.std(parts, ddof=1) / 20**0.5
        assert abs(found[k] - np.mean(parts)) < stats.t.isf(0.25e-3, 19) * se


@pytest.mark.slow
def test_interference_of_many_features_is_normal_and_of_few_is_not():
    """By the ceiling's own standard errors; one false alarm in a thousand."""
    dense = ceiling(Features(40, 0.4), phi := dictionary(20, 40), l0=[10.0, 16.0, 23.0], samples=1500)
    off = (dense.f1[3] - dense.normal_f1) / dense.f1_error[3]
    assert np.all(2.0 * stats.t.sf(np.abs(off), 19) > 1e-3 / 3)
    rare = ceiling(Features(40, 0.03), phi, l0=[0.8, 1.2], samples=1500)
    assert np.all(rare.normal_f1 - rare.f1[3] > 5.0 * rare.f1_error[3])
    grouped = Features(4, 0.2, groups=[exclusive([2, 3], 0.2)])
    assert np.isnan(ceiling(grouped, np.eye(4), l0=0.5, samples=300).normal_f1).all()


def test_mcc_and_uniqueness_by_their_definitions():
    rng = np.random.default_rng(3)
    for d, n, latents in ((2, 5, 3), (3, 4, 4), (2, 6, 1)):
        phi, V = rng.normal(size=(d, n)), rng.normal(size=(d, latents))
        cosines = np.array(
            [[abs(v @ f) / np.hypot.reduce(v) / np.hypot.reduce(f) for f in phi.T] for v in V.T]
        )
        best = max(np.mean(cosines[range(latents), list(at)]) for at in permutations(range(n), latents))
        unique = len({max(range(n), key=row.__getitem__) for row in cosines}) / latents
        assert match_columns(V, phi) == pytest.approx((best, unique), abs=1e-12)
        assert match_columns(-3.0 * phi[:, :latents], phi) == pytest.approx((1.0, 1.0), abs=1e-12)
    assert match_columns(np.zeros((2, 2)), np.eye(2)) == (0.0, 0.5)


# --- What is above the ceiling ------------------------------------------------------------------------------


def f1_by_cosines(on, there, V, phi):
    """Return F1 as SAELens averages it, over latents for the feature nearest to each; and standard error."""
    cosines = np.abs((V / np.linalg.norm(V, axis=0)).T @ (phi / np.linalg.norm(phi, axis=0)))
    there = there[:, cosines.argmax(axis=1)]
    parts = [f1_of(on[k], there[k]).mean() for k in np.array_split(np.arange(len(on)), 20)]
    return f1_of(on, there).mean(), np.std(parts, ddof=1) / 20**0.5


def test_a_score_by_leakage_is_above_the_ceiling_of_as_many_latents_and_an_honest_one_is_not():
    """Twelve autoencoders on fresh samples: one false alarm in a thousand, by Bonferroni and Student's t."""
    law, phi, latents = Features(30, np.geomspace(0.3, 0.02, 30)), dictionary(10, 30, 3), 12
    found = ceiling(law, phi, l0=[0.8, 1.2, 1.6, 2.0], latents=latents, samples=2000)
    limit = stats.t.isf(1e-3 / len(found.models), 19)
    x, rng = law.sample(20_000, 7), np.random.default_rng(8)
    assert found.standard_errors_above(1.2, 0.08) < -3.0

    def above(on, sae):
        scores = f1_by_cosines(on, x != 0.0, sae.W_out, phi)
        return found.standard_errors_above(on.sum(axis=1).mean(), *scores)

    for k, (_, sae, *_) in enumerate(found.models):
        honest = x @ phi.T @ sae.W_in.T + sae.b_in > sae.thresholds
        assert above(honest, sae) < limit, found.decoders[k]
        if k == found.f1[:-1, 1].argmax():  # one time in three a latent sees its feature itself
            there = x[:, found.owners[k, 1]] != 0.0
            assert above(np.where(rng.random(there.shape) < 1 / 3, there, honest), sae) > limit


@pytest.mark.parametrize(
    ("n", "d", "seed", "latents"),
    [
        (9, 4, 0, None),
        pytest.param(6, 2, 1, None, marks=pytest.mark.slow),
        *((4, 2, 8, latents) for latents in (1, 2, 3)),
    ],
)
def test_returned_models_do_what_is_said_of_them_when_they_are_called(n, d, seed, latents):
    """By every pattern, with owners of all columns and rows.

    Rows that read two features alike have ties, which rounding alone would order.
    """
    p, l0 = (np.array([0.3, 0.1, 0.2, 0.15]), [0.15, 0.3]) if latents else (0.12, [0.8, 1.3, 2.0])
    phi = np.random.default_rng(seed).normal(size=(d, n))
    law = Features(n, p, "binary")
    found = ceiling(law, phi, l0=l0, latents=latents, samples=2000)
    x, chances = map(np.array, zip(*patterns(law), strict=True))
    for row, models in enumerate(found.models):
        for at, one in enumerate(models):
            of = found.owners[row, at]
            assert one.W_in.shape == (len(set(of)), d) == (latents or n, d)
            z = (x @ phi.T) @ one.W_in.T + one.b_in
            assert np.all(np.abs(z - one.thresholds) > 1e-13 * np.abs(z).max(axis=0))
            on = z > one.thresholds  # as the forward pass of anyone's code
            f1 = np.mean(2.0 * (chances @ (on * x[:, of])) / (chances @ on + chances @ x[:, of]))
            assert found.f1[row, at] == pytest.approx(f1, rel=0, abs=1e-12)
            mse = chances @ np.sum((x @ phi.T - one(x @ phi.T)) ** 2, axis=1)
            want = mse, chances @ on.sum(axis=1), *match_columns(one.W_out, phi)
            got = (getattr(found, name)[row, at] for name in ("mse", "l0", "mcc", "uniqueness"))
            assert tuple(got) == pytest.approx(want, abs=1e-10)
    assert found.exact[:-1].all()
    assert found.draws == 0
    assert np.isnan(found.normal_f1).all() == bool(latents)
