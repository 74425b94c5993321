"""Experiments on trained collisions: co-occurrence, the split of neurons, untied weights, the figures."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import optimize, stats

from superposition.solvers.collisions import outcomes, split_neurons
from superposition.solvers.collisions.counts import ZERO
from superposition.theory.collisions import separated_share
from superposition.theory.collisions.neuron import untied_length_ratio
from superposition.validate.experiments import collisions
from superposition.validate.experiments.collisions import train_l1

pytest.importorskip("torch")


def drawn(plot, ds, *rest):
    figure, ax = plt.subplots()
    try:
        assert plot(ds, ax, *rest) is ax
        with pytest.raises(TypeError, match="`ax` must be an Axes; got "):
            plot(ds, "here", *rest)
        points = [container.lines[0].get_xydata() for container in ax.containers]
        return points, [line.get_xydata() for line in ax.lines]
    finally:
        plt.close(figure)


# Splitting


@pytest.mark.parametrize("protocol", ["tied", "untied"])
def test_a_split_without_noise_keeps_the_function(protocol):
    W = np.array([[1.0, 0, 0, 0], [-0.9, 0, 0, 0], [0, 0.8, 0, 0.3], [0, 0.7, 0, 0], [0, -0.9, 0, 0]])
    kept = W.copy()
    found = split_neurons(W, 0.0, protocol=protocol)
    np.testing.assert_array_equal(W, kept)
    # A few roundings.
    np.testing.assert_allclose(found.decoder @ found.encoder.T, W @ W.T, rtol=0, atol=1e-15)
    # The neuron with three features is left alone.
    assert found.pairs.tolist() == [[0, 1]]
    assert found.copies.tolist() == [[0, 4]]
    assert (found.encoder is found.decoder) == (protocol == "tied")
    if protocol == "untied":
        np.testing.assert_array_equal(found.encoder[:, [0, 4]], W[:, [0, 0]])
        np.testing.assert_array_equal(found.decoder[:, [0, 4]], W[:, [0, 0]] / 2)
    assert split_neurons(np.eye(3), 0.1).pairs.shape == (0, 2)


@pytest.mark.parametrize("rho", [0.0, 0.6, 1.0])
def test_the_noise_of_a_split_has_the_stated_law(rho):
    W = np.zeros((4, 200))
    W[0], W[1] = 1.0, -1.0
    rng = np.random.default_rng(0)
    noise = []
    for _ in range(10):
        found = split_neurons(W, 0.1, correlation=rho, rng=rng)
        noise.append((found.encoder - np.hstack([W, W]) * np.sqrt(0.5)) / 0.1)
    noise = np.hstack(noise)
    # All four tests at 1e-4.
    assert stats.kstest(noise[2], "norm").pvalue > 1e-4
    if rho < 1:
        # Fisher's transform of the correlation of 4000 pairs is normal with s.d. 1/sqrt(3997).
        gap = np.arctanh(np.corrcoef(noise[0], noise[1])[0, 1]) - np.arctanh(rho)
        assert abs(gap) * np.sqrt(3997) < stats.norm.isf(0.5e-4)
    else:
        np.testing.assert_allclose(noise[0], noise[1], rtol=0, atol=1e-13)
    between = np.arctanh(np.corrcoef(noise[0, ::400], noise[0, 200::400])[0, 1])
    assert abs(between) * np.sqrt(7) < stats.norm.isf(0.5e-4)


def test_outcomes():
    pairs, copies = [[0, 1]], [[1, 2]]

    def outcome(first, second):
        found = outcomes([[9, *first], [9, *second]], pairs, copies)
        assert sum(found.values()) == 1
        return max(found, key=found.get)

    assert outcome([1, 0], [0, -1]) == "apart"
    assert outcome([0, 1], [0.01, -1]) == "together"
    assert outcome([0.7, 0.7], [0, -1]) == "undecided"
    assert outcome([0, 0], [0, -1]) == "lost"
    assert outcome([np.nan, np.nan], [0, -1]) == "lost"


@pytest.fixture(scope="module")
def remedy():
    return collisions.run_remedy(
        16, 16, [0.16], [1e-2], range(40), times=[4.0, 10.0], device="cpu"
    )  # fmt: skip


@pytest.mark.slow
def test_half_of_the_pairs_part_in_the_predicted_time(remedy):
    pairs, apart, together = (
        int(remedy[name].isel(lam=0).values.flat[-1]) for name in ("pairs", "apart", "together")
    )
    assert pairs > 80
    assert apart + together >= pairs - 1
    # In the end one half, exact binomial test at 1e-4; the canary is the hope that nearly all part.
    assert stats.binomtest(apart, pairs, 0.5).pvalue > 1e-4
    assert stats.binomtest(apart, pairs, 0.9).pvalue < 1e-4
    # On the way: the clock of the prediction is good to O(lam_normal) = 4 %; one-sided tests at 1e-4 against
    # the prediction a tenth later and a tenth earlier. Canary: a clock that lost the factor sqrt(2).
    early = int(remedy["apart"][0, 0, 0])
    low, high = (separated_share(clock, 1.0, 1e-2, left=ZERO)[0] for clock in (3.6, 4.4))
    assert stats.binomtest(early, pairs, low, "less").pvalue > 1e-4
    assert stats.binomtest(early, pairs, high, "greater").pvalue > 1e-4
    lost = separated_share(4.0 / np.sqrt(2), 1.0, 1e-2, left=ZERO)[0]
    assert stats.binomtest(early, pairs, lost, "greater").pvalue < 1e-4


@pytest.mark.slow
def test_shared_noise_parts_all_and_without_l1_nothing_happens():
    options = {"seeds": range(12), "times": [10.0], "device": "cpu"}
    shared = collisions.run_remedy(16, 16, [0.16], [3e-3], correlation=1.0, **options)
    assert shared["apart"].item() >= shared["pairs"].item() - 1
    free = collisions.run_remedy(16, 16, [0.16], [3e-3], regularised=False, **options)
    assert free["undecided"].item() == free["pairs"].item() > 0


@pytest.mark.slow
def test_halving_outgoing_weights_works_in_half_of_the_cases_too():
    ds = collisions.run_remedy(
        16, 16, [0.16], [1e-2], range(30), protocol="untied", times=[12.0], device="cpu"
    )
    apart, pairs = ds["apart"].item(), ds["pairs"].item()
    assert apart + ds["together"].item() >= pairs - 1
    assert stats.binomtest(apart, pairs, 0.5).pvalue > 1e-4


def test_remedy_figure_shows_the_shares(remedy):
    points, lines = drawn(collisions.plot_remedy, remedy)
    np.testing.assert_allclose(
        points[0], np.c_[remedy["time"], remedy["apart"][0, 0] / remedy["pairs"][0]]
    )  # fmt: skip
    assert any(
        np.allclose(line[:, 1], separated_share(line[:, 0], 1.0, 1e-2, left=ZERO)[0]) for line in lines
    )


# Co-occurrence


@pytest.fixture(scope="module")
def together():
    return collisions.run_cooccurrence(12, 12, [0.16], [0.0, 0.04, 0.12], range(24), device="cpu")


@pytest.mark.slow
def test_cooccurrence_prevents_collisions_and_does_not_cure_them(together):
    counts = together["polysemantic"].isel(lam=0)
    np.testing.assert_array_equal(counts.sel(p=0.0), together["before"].isel(lam=0))
    drop = (counts.sel(p=0.0) - counts.sel(p=0.04)).values
    # Paired by first weights: Student's t, one-sided, must show a drop at 1e-3 (it is about 1 of 3).
    assert stats.ttest_1samp(drop, 0, alternative="greater").pvalue < 1e-3
    # Shared one-hot neurons, which the high threshold counts, are nearly gone at p = 3 lam_normal.
    assert together["polysemantic_0.8"].isel(lam=0).sel(p=0.12).mean() < 0.2 * counts.sel(p=0.0).mean()
    # What is over there are mostly Hadamard pairs, which no run with one feature at a time has.
    assert (together["malign"].sel(p=0.0) == 0).all()
    assert together["malign"].sel(p=0.12).sum() > 0.5 * together["benign"].sel(p=0.12).sum() > 0
    # Pairs that had formed stay, every one.
    np.testing.assert_array_equal(
        together["after"].isel(lam=0), np.broadcast_to(together["before"].isel(lam=0), (3, 24))
    )
    assert (together["dead"] == 0).all()
    assert together["on"].values.tolist() == [0.0, 0.48, 1.44]


def test_cooccurrence_figure_shows_the_ratio():
    together = collisions.run_cooccurrence(6, 6, [0.32], [0.0, 0.08, 0.24], range(6), device="cpu")
    ratio = together["polysemantic"].isel(lam=0).mean("run") / together["before"].mean()
    points, _ = drawn(collisions.plot_cooccurrence, together)
    np.testing.assert_allclose(points[0], np.c_[[1.0, 3.0], ratio[1:]])
    points, _ = drawn(collisions.plot_cooccurrence, together, "after")
    after = together["after"].isel(lam=0).mean("run") / together["before"].mean()
    np.testing.assert_allclose(points[0], np.c_[[1.0, 3.0], after[1:]])
    with pytest.raises(ValueError, match=r"`name` must be one of .*; got 'p'"):
        drawn(collisions.plot_cooccurrence, together, "p")


# Untied weights


def test_untied_weights_drift_apart_as_derived():
    gaps = []
    for lam in (0.08, 0.04, 0.02):
        ds = train_l1(
            3, 4, lam, 0, tied=False, start=np.eye(3, 4)[None], start_decoder=np.eye(3, 4)[None],
            learning_rate=0.05, steps=[round(k / (lam * 0.05)) for k in (1, 4)], device="cpu",
        )  # fmt: skip
        # For one step both lengths are equal; t lam_normal = 1, 4.
        gaps.append(np.abs(ds["norm_ratio"].values[:, 0] / untied_length_ratio([1.0, 4.0]) - 1).max())
    # O(lam): each halving of lam halves the gap (within 20 %); the canary, equal lengths, is far off.
    assert gaps[0] < 0.1
    np.testing.assert_allclose([gaps[0] / gaps[1], gaps[1] / gaps[2]], 2, rtol=0.2)
    assert untied_length_ratio(4.0) > 4


def test_weight_decay_stops_the_drift_where_the_balance_says():
    lam, decay = 0.05, 0.2
    ds = train_l1(
        2, 3, lam, 0, tied=False, start=np.eye(2, 3)[None], start_decoder=np.eye(2, 3)[None],
        weight_decay=decay, steps=4000, device="cpu", keep_weights=True,
    )  # fmt: skip

    def rest(w):
        e, d = w
        return [2 * (1 - d * e) * d - lam - decay * e, 2 * (1 - d * e) * e - decay * d]

    e, d = optimize.fsolve(rest, [0.9, 1.0], xtol=1e-12)
    # float32 fixed point: rounding over the slowest rate times the learning rate, about 1e-7 / 0.01.
    assert ds["encoder"].values[0, 0, 0, 0] == pytest.approx(e, abs=2e-5)
    assert ds["decoder"].values[0, 0, 0, 0] == pytest.approx(d, abs=2e-5)


def test_untied_experiment_and_figure():
    ds = collisions.run_untied(
        6, 12, 0.05, range(6), times=[1.0, 4.0], cases=["l1 on activations", "l1 on both"], device="cpu"
    )
    apart, both = (ds["norm_ratio"].sel(case=case, time=4.0) for case in ds["case"].values)
    assert (apart > 3).all()
    # With the l1 term on both the difference decays; by lam t = 4 to a thousandth.
    assert (np.abs(both - 1) < 0.01).all()
    assert ds["mismatch"].sel(case="l1 on both", time=4.0).max() < 0.05
    points, lines = drawn(collisions.plot_untied, ds)
    np.testing.assert_allclose(points[0], np.c_[[1.0, 4.0], ds["norm_ratio"][0].mean("run")])
    assert any(np.allclose(line[:, 1], untied_length_ratio(line[:, 0])) for line in lines)
    with pytest.raises(ValueError, match=r"`cases` must be one of .*; got 'none'"):
        collisions.run_untied(cases=["none"])
    with pytest.raises(ValueError, match=r"`lam` must lie in .*; got 0"):
        collisions.run_untied(lam=0.0)
    with pytest.raises(ValueError, match=r"`times` must lie in .*; got 0"):
        collisions.run_untied(times=[0.0])


# Counts against the number of neurons


def test_trained_counts_and_the_figure():
    ds = collisions.run_trained(8, [8, 16], 0.2, range(6), adamw_steps=300, device="cpu")
    assert ds["polysemantic"].dims == ("optimiser", "n_hidden", "run")
    np.testing.assert_allclose(ds["quoted"], [2.0, 1.0])
    points, _ = drawn(collisions.plot_ratio, ds)
    counts = ds["polysemantic"].sel(optimiser="adamw")
    np.testing.assert_allclose(points[1][:, 1], counts.mean("run") / [2.0, 1.0])
    with pytest.raises(ValueError, match=r"`time` must lie in .*; got 0"):
        collisions.run_trained(time=0.0)
    with pytest.raises(ValueError, match=r"`optimisers` must be a list of words out of .*; got \['sgd'\]"):
        collisions.run_trained(optimisers=["sgd"])


@pytest.mark.parametrize("run", [collisions.run_trained, collisions.run_printed])
def test_training_for_fig3_rejects_bad_arguments(run):
    with pytest.raises(ValueError, match=r"`seeds` must be at least two, for an interval; got \[0\]"):
        run(seeds=[0])
    with pytest.raises(ValueError, match=r"`lam` must lie in .*; got 0"):
        run(lam=0.0)
    with pytest.raises(ValueError, match=r"`n_hidden` must be an integer of at least 1; got 0"):
        run(n_hidden=[0])


def test_the_printed_experiment_counts_as_the_published_code():
    ds = collisions.run_printed([8, 16], range(3), n_features=8, lam=0.1, steps=[10, 400], device="cpu")
    assert ds["polysemantic"].dims == ("step", "n_hidden", "run")
    for k, m in enumerate((8, 16)):
        W = train_l1(
            8, m, 0.1, range(3), optimiser="adamw", steps=400, scale=1.0, device="cpu", keep_weights=True
        )["W"].values[0]
        size = np.abs(W)
        active = ((size >= 0.8) & (size <= 1.2)).sum(axis=1)  # as in the published code
        np.testing.assert_array_equal(ds["polysemantic"][1, k], (active > 1.1).sum(axis=1))
    np.testing.assert_allclose(ds["quoted"], [2.0, 1.0])
