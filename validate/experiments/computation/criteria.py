"""What was asked of networks before they were searched and trained, and what became of it."""

import numpy as np
import xarray as xr

from ...runner.findings import Criterion, Finding, derived, post_hoc, preregistered, rounding

# Losses lie above a floor "with their error", so that has a limit of its own.
ERROR = Criterion("what a loss is off by, per feature over p", "<=", post_hoc(1e-5))
FLOOR = Criterion("loss of a part less its floor, with its error", ">=", rounding(-1e-12))
# The rest was fixed before the map was computed, when six places at p = 0.03 had been looked at (no bias, and
# |x|). Shares are those of the naive loss that the best known networks save.
TIE = Criterion("size of the share saved, ReLU with output bias", "<=", preregistered(1e-6))
MEANS = Criterion("share saved without bias, less 3p/8", "<=", rounding(1e-9))
SHARING = Criterion(
    "share saved without bias / p, two features a neuron, p of 0.01 or less (0.150 is derived)",
    ">=",
    preregistered(0.9 * 0.150),
)
FANS = Criterion("share saved, |x| at a neuron a feature, p = 0.001", ">=", preregistered(0.45))
DENSE = Criterion("share saved, |x| at a neuron a feature, p = 0.3", "<", preregistered(0.1))
MIXED = Criterion("share saved, x + ReLU(x) at two features a neuron", "<", preregistered(0.05))
PAIRS = Criterion(
    "share saved, on in pairs, two features a neuron, p of 0.1 or less", ">=", preregistered(0.01)
)

# Of trained networks: fixed before any was trained, with the places.
ABOVE = Criterion("loss less the floor, with its error", ">=", derived(0))
NEAR = Criterion("|loss / naive - 1|", "<=", preregistered(1e-3))
BELOW = Criterion("loss / naive - 1", "<", rounding(-1e-9))
HALF_NEAR = Criterion(f"share of seeds within {NEAR:g} of naive, first place", ">=", preregistered(0.5))
HALF_BELOW = Criterion("share of seeds below naive, second and third place", ">=", preregistered(0.5))
ONE_BELOW = Criterion("seeds below naive, fourth place", ">=", preregistered(1))


def shares(ds: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the shares of the naive loss that are saved and that the floor allows; of `run_map`.

    With a neuron for each feature the naive network may lose nothing, and they are nan.
    """
    naive = ds["naive"].where(ds["naive"] > 1e-9)
    return 1 - ds["best"] / naive, 1 - ds["floor"] / naive


def judge_map(ds: xr.Dataset) -> list[Finding]:
    """Return what became of the criteria of the map, where the grid has their places."""
    saved, _ = shares(ds)
    p = ds["p"]
    two, one = (saved.sel(per_neuron=ratio, method="nearest") for ratio in (2.0, 1.0))
    unbiased = saved.sel(task="relu without bias")
    found = {
        ERROR: ds["error"],
        FLOOR: ds["excess"],
        TIE: abs(saved.sel(task="relu")),
        MEANS: unbiased - 3 * p / 8,
        SHARING: (two.sel(task="relu without bias") / p)[p.values <= 0.01],
        FANS: one.sel(task="abs")[p.values <= 1e-3],
        DENSE: one.sel(task="abs")[np.isclose(p, 0.3)],
        MIXED: two.sel(task="x + relu"),
        PAIRS: two.sel(task="relu, on in pairs")[p.values <= 0.1],
    }
    known = {criterion: values.values[~np.isnan(values.values)] for criterion, values in found.items()}
    return [criterion.finding(values, kind="numeric") for criterion, values in known.items()]


def judge_trained(ds: xr.Dataset) -> list[Finding]:
    """Return what became of the criteria of trained networks; the places are those of `runs.PLACES`."""
    over = (ds["loss"] / ds["naive"] - 1).transpose("place", "seed").values
    near, below = NEAR.satisfied(np.abs(over)), BELOW.satisfied(over)
    return [
        ERROR.finding(ds["error"]),
        ABOVE.finding(ds["loss"] - ds["floor"] + ds["error"]),
        HALF_NEAR.finding(near[:1].mean(axis=1)),
        HALF_BELOW.finding(below[1:3].mean(axis=1)),
        ONE_BELOW.finding(below[3:].sum(axis=1)),
    ]
