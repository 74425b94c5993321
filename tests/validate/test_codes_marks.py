"""Trained models beside codes and bound: intervals, what is missing, and that none beats a proof."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from superposition.solvers.rug import exact_loss
from superposition.validate.experiments.codes import map_figure, run_envelope, run_known, run_marks
from superposition.validate.experiments.codes.copies import above_copies
from superposition.validate.experiments.codes.symmetry import CELLS, by_cell, change_with_size, run_stored
from superposition.validate.experiments.drawing import svg
from superposition.validate.training import models_at

PLACE = {"p": 0.1, "ratio": 0.5}


def _trained(losses):
    """Models of 8 and 16 features at (0.1, 0.5), one for each loss; the second size has two seeds."""
    rows = [(8, loss) for loss in losses] + [(16, loss) for loss in losses[:2]]
    model = {name: np.full(len(rows), value) for name, value in PLACE.items()}
    model |= {"n_features": np.array([n for n, _ in rows]), "optimum": np.full(len(rows), 0.01)}
    loss = np.array([[loss for _, loss in rows]] * 2) * [[2.0], [1.0]]
    return xr.Dataset(
        {name: ("model", values) for name, values in model.items()} | {"loss": (("end", "model"), loss)},
        {"end": ["stopping rule", "converged"]},
    )


def _known(ratio=0.5):
    columns = {"p": 0.1, "ratio": ratio, "rug": 0.01}
    columns |= {"balanced": 0.006, "envelope": 0.004, "lower_bound": 1e-4}
    return xr.Dataset({name: ("point", [value]) for name, value in columns.items()})


def test_intervals_are_students_in_units_of_the_rug():
    losses = [0.007, 0.008, 0.0095]
    ds = run_marks(_trained(losses), _known())
    one = ds.sel(n_features=8).isel(point=CELLS.index((0.1, 0.5)))
    low, high = stats.t.interval(0.95, 2, np.mean(losses) / 0.01, stats.sem(losses) / 0.01)
    np.testing.assert_allclose(one["mean"], [2 * np.mean(losses) / 0.01, np.mean(losses) / 0.01], rtol=1e-14)
    np.testing.assert_allclose(one["half"][-1], (high - low) / 2, rtol=1e-12)
    beside = [float(one[name]) for name in ("balanced", "envelope", "lower_bound")]
    np.testing.assert_allclose(beside, [0.6, 0.4, 0.01], rtol=1e-14)


def test_two_seeds_or_none_make_no_interval():
    ds = run_marks(_trained([0.007, 0.008, 0.0095]), _known())
    assert int(ds["seeds"].sel(n_features=16).isel(point=CELLS.index((0.1, 0.5)))) == 2
    assert int(np.isfinite(ds["mean"]).sum()) == 2  # both ends of the one point with three seeds


def test_a_point_without_its_codes_is_named():
    with pytest.raises(ValueError, match=r"`known`.*\(0\.1, 0\.5\) is missing"):
        run_marks(_trained([0.007, 0.008, 0.0095]), _known(ratio=0.25))


def test_figure_is_drawn():
    plane = run_envelope(4, lowest=0.01, codes=["pair"])
    marks = run_marks(_trained([0.007, 0.008, 0.0095]), _known())
    assert svg(map_figure(plane, marks)).startswith("<svg")


@pytest.fixture(scope="module")
def trained():
    return run_stored()


def test_no_reference_model_beats_the_proved_bound(trained):
    """One-sided at five standard errors of each evaluation: one false alarm in 5000 such tables."""
    known = run_known()
    at = {pair: k for k, pair in enumerate(zip(known["p"].values, known["ratio"].values, strict=True))}
    where = [at[pair] for pair in zip(trained["p"].values, trained["ratio"].values, strict=True)]
    bound = known["lower_bound"].values[where]
    assert trained.sizes["model"] >= 240
    reached = trained["loss"].values + 5 * trained["loss_se"].values
    assert np.all((reached >= bound) | trained["broken"].values)
    assert np.all(reached[0] >= bound)  # at the stopping rule there are all
    assert np.all(known["lower_bound"].values > 0)


def test_reference_models_stand_at_twelve_points_of_three_sizes_with_three_seeds(trained):
    for n in (64, 128, 256):
        for p, ratio in CELLS:
            seeds = trained["seed"].values[models_at(trained, p, ratio, n)]
            assert np.unique(seeds).size >= 3, (n, p, ratio)


def test_copies_side_by_side_have_the_loss_of_one():
    """What the table of copies rests on; the exact loss knows nothing of blocks."""
    rng = np.random.default_rng(3)
    M, b = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 5)), rng.normal(-0.2, 0.1, 5)
    one = exact_loss(M, b, 0.2)
    three = exact_loss(np.kron(np.eye(3), M), np.tile(b, 3), 0.2)
    assert abs(three.loss - one.loss) <= one.error_estimate + three.error_estimate
    assert one.error_estimate + three.error_estimate < 1e-8


def test_copies_are_judged_by_the_best_models_within_their_errors():
    models = xr.Dataset(
        {
            "n_features": ("model", [64, 64, 128, 128]),
            "loss": ("model", [1.0, 1.2, 1.3, 1.1]),
            "loss_se": ("model", [0.01, 0.01, 0.02, 0.01]),
        }
    )
    found = above_copies(models, 0.95)
    z = stats.norm.isf(0.05 / 2 / 4)  # four losses share the rate
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx((1.1 - 0.01 * z) / (1 + 0.01 * z) - 1)
    assert found.high == pytest.approx((1.1 + 0.01 * z) / (1 - 0.01 * z) - 1)


def test_models_keep_their_values_when_they_are_arranged_by_cell(trained):
    cells = by_cell(trained)
    for k in range(0, trained.sizes["model"], 37):
        one = trained.isel(model=k)
        near = [ratio for ratio in (0.12, 0.25, 0.5) if abs(float(one["ratio"]) / ratio - 1) < 0.05]
        at = {name: one[name].item() for name in ("p", "n_features", "seed")}
        if near and at["p"] in cells["p"]:
            np.testing.assert_array_equal(cells["bias_sd"].sel(ratio=near[0], **at), one["bias_sd"])
    assert int(cells["loss"].isel(end=0).count()) == sum(
        models_at(trained, p, ratio).size for p, ratio in CELLS
    )


def test_change_compares_seeds_that_both_sizes_have():
    values = xr.DataArray(
        [[1.0, 2.0, 1.0, 9.0], [0.5, 1.0, 0.6, np.nan]], {"n_features": [8, 16], "seed": range(4)}
    )
    logs = np.log([0.5, 0.5, 0.6])
    low, high = np.exp(stats.t.interval(0.9, 2, logs.mean(), stats.sem(logs)))
    found = change_with_size(values, 8, 16, 0.9)
    assert (found.low, found.high, found.runs) == (pytest.approx(low), pytest.approx(high), 3)


def test_stored_runs_of_other_steps_are_not_mixed(tmp_path):
    with pytest.raises(ValueError, match=r"`folder` must be a folder with files of `superposition run`"):
        run_stored(folder=tmp_path)
    with pytest.raises(
        ValueError, match=r"`where` must be of runs of one number of steps; got \[4000, 40000\]"
    ):
        run_stored({"steps": [4000, 40_000]})
