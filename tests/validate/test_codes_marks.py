"""Trained models beside codes and bound: intervals, what is missing, and that none beats a proof."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from superposition.validate.experiments.codes import map_figure, run_envelope, run_known, run_marks
from superposition.validate.experiments.codes.copies import above_copies
from superposition.validate.experiments.codes.symmetry import CELLS, change_with_size, run_stored
from superposition.validate.experiments.drawing import svg
from superposition.validate.training import models_at

LOSSES = [0.007, 0.008, 0.0095]


@pytest.fixture
def models():
    """Models of 8 and 16 features at (0.1, 0.5), one for each loss; the second size has two seeds."""
    losses = np.array([*LOSSES, *LOSSES[:2]])
    size = np.array([8, 8, 8, 16, 16])
    columns = {"p": 0.1, "ratio": 0.5, "optimum": 0.01, "n_features": size}
    return xr.Dataset(
        {name: ("model", np.broadcast_to(value, size.shape)) for name, value in columns.items()}
        | {"loss": (("end", "model"), losses * [[2.0], [1.0]])},
        {"end": ["stopping rule", "converged"]},
    )


def _known(ratio=0.5):
    columns = {"p": 0.1, "ratio": ratio, "rug": 0.01}
    columns |= {"balanced": 0.006, "envelope": 0.004, "lower_bound": 1e-4}
    return xr.Dataset({name: ("point", [value]) for name, value in columns.items()})


def test_intervals_are_students_in_units_of_the_rug(models):
    ds = run_marks(models, _known())
    one = ds.sel(n_features=8).isel(point=CELLS.index((0.1, 0.5)))
    low, high = stats.t.interval(0.95, 2, np.mean(LOSSES) / 0.01, stats.sem(LOSSES) / 0.01)
    np.testing.assert_allclose(one["mean"], [2 * np.mean(LOSSES) / 0.01, np.mean(LOSSES) / 0.01], rtol=1e-14)
    np.testing.assert_allclose(one["half"][-1], (high - low) / 2, rtol=1e-12)
    beside = [float(one[name]) for name in ("balanced", "envelope", "lower_bound")]
    np.testing.assert_allclose(beside, [0.6, 0.4, 0.01], rtol=1e-14)
    # Two seeds or none make no interval: both ends of the one point with three seeds have one.
    assert int(ds["seeds"].sel(n_features=16).isel(point=CELLS.index((0.1, 0.5)))) == 2
    assert int(np.isfinite(ds["mean"]).sum()) == 2
    with pytest.raises(ValueError, match=r"`known`.*\(0\.1, 0\.5\) is missing"):
        run_marks(models, _known(ratio=0.25))
    plane = run_envelope(4, lowest=0.01, codes=["pair"])
    assert svg(map_figure(plane, ds)).startswith("<svg")


@pytest.fixture(scope="module")
def trained():
    return run_stored()


def test_no_reference_model_beats_the_proved_bound(trained):
    """One-sided at five standard errors of each evaluation: one false alarm in 5000 such tables."""
    known = run_known()
    bounds = dict(
        zip(
            zip(known["p"].values, known["ratio"].values, strict=True),
            known["lower_bound"].values,
            strict=True,
        )
    )
    bound = np.array(
        [bounds[pair] for pair in zip(trained["p"].values, trained["ratio"].values, strict=True)]
    )
    assert trained.sizes["model"] >= 240
    reached = trained["loss"].values + 5 * trained["loss_se"].values
    assert np.all((reached >= bound) | trained["broken"].values)
    assert np.all(reached[0] >= bound)  # at the stopping rule there are all
    assert np.all(known["lower_bound"].values > 0)
    # They stand at twelve points of three sizes with three seeds.
    for n, (p, ratio) in itertools.product((64, 128, 256), CELLS):
        assert np.unique(trained["seed"].values[models_at(trained, p, ratio, n)]).size >= 3, (n, p, ratio)


def test_copies_are_judged_by_the_best_models_within_their_errors():
    columns = {
        "n_features": [64, 64, 128, 128],
        "loss": [1.0, 1.2, 1.3, 1.1],
        "loss_se": [0.01, 0.01, 0.02, 0.01],
    }
    found = above_copies(xr.Dataset({name: ("model", values) for name, values in columns.items()}), 0.95)
    z = stats.norm.isf(0.05 / 2 / 4)  # four losses share the rate
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx((1.1 - 0.01 * z) / (1 + 0.01 * z) - 1)
    assert found.high == pytest.approx((1.1 + 0.01 * z) / (1 - 0.01 * z) - 1)


def test_change_compares_seeds_that_both_sizes_have():
    losses = [[1.0, 2.0, 1.0, 9.0], [0.5, 1.0, 0.6, np.nan]]
    values = xr.DataArray(losses, {"n_features": [8, 16], "seed": range(4)})
    logs = np.log([0.5, 0.5, 0.6])
    low, high = np.exp(stats.t.interval(0.9, 2, logs.mean(), stats.sem(logs)))
    found = change_with_size(values, 8, 16, 0.9)
    assert (found.low, found.high, found.runs) == (pytest.approx(low), pytest.approx(high), 3)


def test_stored_runs_of_other_steps_are_not_mixed(tmp_path):
    for arguments, message in (
        ({"folder": tmp_path}, "`folder` must be a folder with files of `superposition run`"),
        (
            {"where": {"steps": [4000, 40_000]}},
            r"`where` must be of runs of one number of steps; got \[4000, 40000\]",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            run_stored(**arguments)
