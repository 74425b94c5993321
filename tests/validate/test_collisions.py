"""Experiments on trained collisions: split neurons, co-occurrence, untied weights, the report's part."""

import numpy as np
import pytest
import xarray as xr
from scipy import optimize, stats

from superposition.solvers.collisions.counts import ZERO
from superposition.theory.collisions import separated_share
from superposition.theory.collisions.neuron import untied_length_ratio
from superposition.validate.experiments import collisions
from superposition.validate.experiments.collisions import train_l1

from ..oracles import predicted_splits

pytest.importorskip("torch")

TINY = {
    "fig3": {"n_features": 8, "n_hidden": (8, 16), "runs": 4, "lam": 0.02},
    "course": {"n_features": 8, "n_hidden": 8, "runs": 4, "lam": 0.02},
    "trained": {"n_features": 8, "n_hidden": (8,), "lam": 0.2, "adamw_steps": 300, "seeds": range(4)},
    "cooccurrence": {"n_features": 6, "n_hidden": 6, "lam": (0.3,), "p": (0.0, 0.1), "seeds": range(6)},
    "remedy": {"n_features": 8, "n_hidden": 8, "lam": (0.2,), "eps": (1e-2, 1e-1), "seeds": range(8)},
    "variants": {"n_features": 8, "n_hidden": 8, "lam": 0.2, "seeds": range(8), "times": (8.0,)},
    "untied": {"n_features": 6, "n_hidden": 12, "lam": 0.2, "times": (1.0, 6.0), "seeds": range(4)},
}


def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    lab, shown = sections.show("collisions", TINY, tmp_path)
    assert all("nan" not in content.text for content in shown.values())
    # The seeds of the lab are those of the models.
    assert lab["collisions.trained"]["seed"].values.tolist() == [0, 1, 2, 3]


# Split neurons


def test_median_times():
    split = predicted_splits(np.arange(0.25, 12, 0.25), 10_000, lam=1e-4)
    for k in (0, 1):
        time, predicted = collisions.remedy.median_time(split, 0, k)
        assert time.low < time.value < time.high
        assert time.value == pytest.approx(predicted, abs=0.02)  # linear between times 0.25 apart
        share = np.sum(separated_share(predicted, 1.0, float(split["eps"][k]), left=ZERO))
        assert share == pytest.approx(0.5, abs=1e-4)
    never, _ = collisions.remedy.median_time(split.isel(time=slice(0, 4)), 0, 0)
    assert np.isnan([never.value, never.low, never.high]).all()


# Co-occurrence


@pytest.mark.slow
def test_cooccurrence_prevents_collisions_and_does_not_cure_them():
    together = collisions.run_cooccurrence(12, 12, [0.16], [0.0, 0.04, 0.12], range(24), device="cpu")
    together = together.isel(lam=0)
    counts, before = together["polysemantic"], together["before"]
    np.testing.assert_array_equal(counts.sel(p=0.0), before)
    drop = (counts.sel(p=0.0) - counts.sel(p=0.04)).values
    # Paired by first weights: Student's t, one-sided, must show a drop at 1e-3 (it is about 1 of 3).
    assert stats.ttest_1samp(drop, 0, alternative="greater").pvalue < 1e-3
    # Shared one-hot neurons, which the high threshold counts, are nearly gone at p = 3 lam_normal.
    assert together["polysemantic_0.8"].sel(p=0.12).mean() < 0.2 * counts.sel(p=0.0).mean()
    # What is over there are mostly Hadamard pairs, which no run with one feature at a time has.
    assert (together["malign"].sel(p=0.0) == 0).all()
    assert together["malign"].sel(p=0.12).sum() > 0.5 * together["benign"].sel(p=0.12).sum() > 0
    # Pairs that had formed stay, every one.
    np.testing.assert_array_equal(together["after"], np.broadcast_to(before, (3, 24)))
    assert (together["dead"] == 0).all()
    assert together["on"].values.tolist() == [0.0, 0.48, 1.44]


def test_half_points():
    for counts_left, expected in (([4, 3, 1, 0], 1.5), ([4, 4, 4, 3], np.nan), ([4, 2, 0, 0], 1.0)):
        counts = np.repeat(counts_left, 5).reshape(1, 4, 5)
        before = ("lam", "run"), np.full((1, 5), 4.0)
        places = {"p": [0.0, 0.1, 0.2, 0.3], "lam_normal": ("lam", [0.1])}
        ds = xr.Dataset({"count": (("lam", "p", "run"), counts), "before": before}, places)
        half = collisions.cooccurrence.half_point(ds, "count", 0)
        # All runs are alike, so that leaving one out changes nothing.
        np.testing.assert_allclose([half.value, half.low, half.high], expected, rtol=1e-12)


# Untied weights


def test_untied_weights_drift_apart_as_derived():
    gaps, start = [], np.eye(3, 4)[None]
    for lam in (0.08, 0.04, 0.02):
        settings = {"learning_rate": 0.05, "steps": [round(k / (lam * 0.05)) for k in (1, 4)]}
        settings |= {"tied": False, "start": start, "start_decoder": start, "device": "cpu"}
        ds = train_l1(3, 4, lam, 0, **settings)
        # For one step both lengths are equal; t lam_normal = 1, 4.
        gaps.append(np.abs(ds["norm_ratio"].values[:, 0] / untied_length_ratio([1.0, 4.0]) - 1).max())
    # O(lam): each halving of lam halves the gap (within 20 %); the canary, equal lengths, is far off.
    assert gaps[0] < 0.1
    np.testing.assert_allclose([gaps[0] / gaps[1], gaps[1] / gaps[2]], 2, rtol=0.2)
    assert untied_length_ratio(4.0) > 4


def test_weight_decay_stops_the_drift_where_the_balance_says():
    lam, decay, start = 0.05, 0.2, np.eye(2, 3)[None]
    settings = {"tied": False, "start": start, "start_decoder": start, "weight_decay": decay}
    ds = train_l1(2, 3, lam, 0, steps=4000, device="cpu", keep_weights=True, **settings)

    def rest(w):
        e, d = w
        return [2 * (1 - d * e) * d - lam - decay * e, 2 * (1 - d * e) * e - decay * d]

    e, d = optimize.fsolve(rest, [0.9, 1.0], xtol=1e-12)
    # float32 fixed point: rounding over the slowest rate times the learning rate, about 1e-7 / 0.01.
    assert ds["encoder"].values[0, 0, 0, 0] == pytest.approx(e, abs=2e-5)
    assert ds["decoder"].values[0, 0, 0, 0] == pytest.approx(d, abs=2e-5)


def test_untied_experiment():
    cases = ["l1 on activations", "l1 on both"]
    ds = collisions.run_untied(6, 12, 0.05, range(6), times=[1.0, 4.0], cases=cases, device="cpu")
    apart, both = (ds["norm_ratio"].sel(case=case, time=4.0) for case in cases)
    assert (apart > 3).all()
    # With the l1 term on both the difference decays; by lam t = 4 to a thousandth.
    assert (np.abs(both - 1) < 0.01).all()
    assert ds["mismatch"].sel(case="l1 on both", time=4.0).max() < 0.05


def test_trained_counts_and_the_published_code():
    """The counts of the published code: weights between 0.8 and 1.2, of two features or more."""
    ds = collisions.run_trained(8, [8, 16], 0.2, range(6), adamw_steps=300, device="cpu")
    np.testing.assert_allclose(ds["quoted"], [2.0, 1.0])
    ds = collisions.run_printed([8, 16], range(3), n_features=8, lam=0.1, steps=[10, 400], device="cpu")
    for k, m in enumerate((8, 16)):
        settings = {"optimiser": "adamw", "steps": 400, "scale": 1.0, "keep_weights": True}
        size = np.abs(train_l1(8, m, 0.1, range(3), device="cpu", **settings)["W"].values[0])
        active = ((size >= 0.8) & (size <= 1.2)).sum(axis=1)
        np.testing.assert_array_equal(ds["polysemantic"].isel(step=1, n_hidden=k), (active > 1.1).sum(axis=1))


# Counts against the number of neurons


def test_the_flow_is_a_route_of_training():
    ds = collisions.run_trained(8, [8], 0.1, range(6), optimisers=["flow", "gd"], device="cpu")
    flow, gd = (ds["polysemantic"].sel(optimiser=name).values for name in ("flow", "gd"))
    # Gradient descent takes steps of 0.2 in the flow's clock; which of two near weights wins may differ.
    assert np.sum(flow == gd) >= 5
    assert (ds["dead"] == 0).all()
    assert f"in {np.sum(flow == gd)} of 6 runs" in collisions.trained._show_optimisers(ds).text
