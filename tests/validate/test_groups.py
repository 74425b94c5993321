"""Trained pairs and tables of patterns at small sizes, and what the report shows of them."""

import numpy as np
import pytest
import xarray as xr

from superposition.theory.features import Features, exclusive, synchronous
from superposition.theory.unequal import independent_copies
from superposition.validate.experiments import papers, unequal
from superposition.validate.experiments.papers.prieto import circular_law, constructive_share
from superposition.validate.experiments.unequal import groups
from superposition.validate.experiments.unequal.pairs import common_cases, geometry, pair_law
from superposition.validate.training.data import sampler

CASES = [("exclusive", 1.0, 0.2, 0.5), ("synchronous", 0.5, 0.2, 0.5)]


@pytest.mark.slow
def test_descents_of_trained_pairs_end_lower_and_only_common_cases_are_compared(torch):
    trained = unequal.run_groups(CASES, [8, 16], [0, 1], steps=[20, 40], samples=1024)
    solved = unequal.run_blocks(CASES, [8, 16], [0], starts=0)
    polished = unequal.run_polished(CASES, [0, 1], n_features=8, steps=40, descents=3)
    assert np.all(polished["polished"] <= polished["trained"])
    for found in common_cases(trained, solved.isel(case=[1])):
        assert found["kind"].values.tolist() == ["synchronous"]
    with pytest.raises(ValueError, match=r"`datasets` must have a case in common.*'exclusive'"):
        common_cases(trained.isel(case=[0]), solved.isel(case=[1]))


@pytest.mark.slow
def test_best_models_of_tables_are_below_linear_and_trained_ones(torch):
    ds = papers.run_tables([1, 2], [0.0], [0, 1], n_features=6, steps=50, starts=1)
    assert np.all(ds["best"] <= ds["linear"] + 1e-12)
    assert np.all(ds["best"] <= ds["trained"].min(("decay", "seed")) + 1e-9)


def dataset(sizes, values):
    """Return trained losses by size and seed, and a code at the loss 1 as `run_blocks` predicts it."""
    at = ("case", "n_features", "steps", "seed")
    return xr.Dataset({"trained": (at, np.asarray(values)[None, :, None])}, {"n_features": sizes})


def compared(ds, predicted):
    code = ds["trained"].isel(n_features=0, seed=0, steps=0, drop=True) * 0 + predicted
    return groups.compare_with_code(ds, code.expand_dims("pairs").to_dataset(name="predicted"))[0]


def test_the_limit_is_the_intercept_of_each_seed_and_the_line_is_held_against_the_largest():
    """Through 1/32 and 1/64, c/n^2 leaves c (1/128 - 1/32)(1/128 - 1/64) at 128, of both seeds alike."""
    sizes = np.array([32.0, 64, 128])
    limits = groups.extrapolate(dataset(sizes, 2.0 + [[3.0, 5.0]] / sizes[:, None]))
    np.testing.assert_allclose(limits.values, [[2, 2]], rtol=1e-12)
    sizes = np.array([128.0, 32, 64])
    line = 2.0 + np.array([[3.0, 3.0]]) / sizes[:, None]
    assert groups.deviation_from_line(dataset(sizes, line))[0].value == pytest.approx(0, abs=1e-14)
    found = groups.deviation_from_line(dataset(sizes, line + 64.0 / sizes[:, None] ** 2))[0]
    steps = (1 / 128 - 1 / 32) * (1 / 128 - 1 / 64)
    at = 2 + 3 / 128 + 64 / 128**2 - 64 * steps
    assert [found.value, found.low, found.high] == pytest.approx([64 * steps / at] * 3, rel=1e-9, abs=1e-13)


def test_no_limit_is_read_off_a_line_that_a_third_size_refutes():
    """A line and a code at its limit, and 1 % more of the loss at the largest size alone."""
    sizes = np.array([32.0, 64, 128])
    scatter = 1e-3 * np.array([[-1.0, 0.2, 1.0, 0.1], [0.3, -1, 0, 1], [1, 0.1, -0.4, -1]])
    bent = np.array([0.0, 0.0, 0.02])[:, None]
    for off, found in ((0 * bent, "agrees"), (bent, "no limit")):
        assert compared(dataset(sizes, 1.0 + scatter + 3 / sizes[:, None] + off), 1.0)[1] == found


def test_three_standard_errors_decide_and_a_wrong_code_is_noticed():
    """Relative to the code's loss, or by differences where it has none."""
    sizes, scatter = np.array([32.0, 64]), 0.01 * np.array([[-1.0, 0.2, 1.0, 0.1]])
    for limit, predicted, found in (
        (1.0, 1.0, "agrees"), (1.1, 1.0, "above"), (0.9, 1.0, "below"), (1.0, 1.1, "below"),
        (0.0, 0.0, "agrees"), (0.1, 0.0, "above"),
    ):  # fmt: skip
        over, verdict = compared(dataset(sizes, limit + scatter + 3 / sizes[:, None]), predicted)
        assert verdict == found
        assert over.value == pytest.approx((limit + scatter.mean()) / (predicted or 1.0))
        if predicted:
            assert over.high - over.value == pytest.approx(3 * scatter.std(ddof=1) / 2 / predicted)


def test_samples_have_the_covariance_of_their_law(torch):
    size = 2**16
    laws = [
        independent_copies(Features(2, 0.2, values, groups=pair_law(kind, 0.7, 0.2).groups), 2)
        for kind, values in (("exclusive", "uniform"), ("synchronous", "binary"))
    ]
    several = [exclusive([4, 1], 0.2), synchronous([0, 3], 0.2), exclusive([2, 6], 0.2)]
    for law in (*laws, Features(7, 0.2, groups=several)):
        x = torch.empty(size, law.n_features)
        sampler(torch, law, x.device)(x, torch.Generator().manual_seed(0))
        products = (x[:, :, None] * x[:, None]).double().numpy()
        error = products.std(axis=0) / np.sqrt(size)
        # at most 49 products, 5 standard errors: a false alarm in 10^4 runs; the seed is fixed
        assert np.all(np.abs(products.mean(axis=0) - law.second_moment_matrix()) <= 5 * error)


def test_geometry_of_pairs_of_pairs_and_constructive_interference():
    ends, law = np.array([1.0, 1.0, -1.0, -1.0]), independent_copies(pair_law("synchronous", 1.0, 0.1), 2)
    # The last of four features is dropped, and of the others the first alone is opposed to another pair's.
    M = np.diag([1.0, 1.0, 1.0, 0.01])
    M[0, 2], M[2, 3] = -0.6, -0.9
    for matrix, wanted in (
        (np.outer(ends, ends) / 2,
         {"partner": 1.0, "opposed": 1.0, "dropped": 0.0, "together": 0.5, "apart": 0.0}),
        (M, {"partner": -0.3, "opposed": 1 / 3, "dropped": 0.25}),
    ):  # fmt: skip
        found = geometry(matrix, law)
        assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)
    M = np.random.default_rng(0).normal(size=(6, 6))
    assert constructive_share(M, circular_law(6, strength=0.0).covariance()) == pytest.approx(0, abs=1e-14)
    S = circular_law(6).covariance()
    assert constructive_share(S, S) > 0.5
    np.testing.assert_allclose(S, S[::-1, ::-1], atol=1e-15)
