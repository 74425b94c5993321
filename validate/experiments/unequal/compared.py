"""How trained pairs of features compare with the best codes of blocks: the criteria, and what they find."""

import numpy as np
import xarray as xr

from ....solvers.statistics import Estimate, line, mean, mean_within
from ...runner.findings import Criterion, preregistered, rounding

WITHIN = 3  # standard errors
EXACT = Criterion("loss of a code", "<=", rounding(1e-12))
# A model whose loss differs from the code's by less has found it; fixed before small models were trained.
AT_CODE = Criterion("|loss / that of the code - 1|", "<=", preregistered(1e-3))


def shared_gain(*datasets: xr.Dataset) -> list[xr.Dataset]:
    """Return datasets with the cases that all of them have, in the order of the first.

    Raises
    ------
    ValueError
        If there are none.
    """
    keys = [
        [*zip(*(ds[name].values.tolist() for name in ("kind", "strength", "p", "ratio")), strict=True)]
        for ds in datasets
    ]
    common = [key for key in keys[0] if all(key in others for others in keys)]
    if not common:
        raise ValueError(f"`datasets` must have a case in common; got {keys}.")
    return [ds.isel(case=[own.index(key) for key in common]) for ds, own in zip(datasets, keys, strict=True)]


def merge_runs(trained: xr.Dataset, solved: xr.Dataset) -> xr.Dataset:
    """Return the trained losses with those of the codes beside, matrices along a dimension of their own."""
    made = solved["constructed"].rename(seed="matrix")
    return trained.assign(predicted=solved["predicted"], constructed=made, priority=solved["priority"])


def extrapolated(ds: xr.Dataset) -> xr.DataArray:
    """Return trained losses of each seed in the limit: the intercept of a line in 1/n_features."""
    last = ds["trained"].isel(steps=-1).transpose("n_features", "case", "seed")
    return last.isel(n_features=0, drop=True).copy(data=line(1.0 / ds["n_features"], last)[0])


def off_line(trained: xr.Dataset) -> list[Estimate]:
    """Return for each case how far losses at the largest size lie from a line in 1/n through the others.

    Relative to the line, over the seeds. An interval without 0 refutes the line.
    """
    last = trained["trained"].isel(steps=-1).sortby("n_features").transpose("n_features", "case", "seed")
    at = 1.0 / last["n_features"].values
    limit, slope = line(at[:-1], last.values[:-1])
    return [mean_within(one, WITHIN) for one in last.values[-1] / (limit + slope * at[-1]) - 1]


def against_code(trained: xr.Dataset, solved: xr.Dataset) -> list[tuple[Estimate, str]]:
    """Return for each case the trained limit over the code's loss, and how it compares with 1.

    The limit is `extrapolated`, the code the best of blocks of one or two pairs; where its loss is 0, the
    limit itself is returned. "agrees": the code is within `WITHIN` standard errors over the seeds; with four
    seeds a true equality is missed in one of 17 cases (Student's t, 3 degrees of freedom). Otherwise trained
    models are "below" the code, which is not the best then, or "above" it. "no limit": there is a third size,
    and its losses refute the line in some case, so that nothing is read off a line.
    """
    found = []
    straight = trained.sizes["n_features"] < 3 or all(one.low <= 0 <= one.high for one in off_line(trained))
    limit = extrapolated(trained).transpose("case", "seed").values
    for own, code in zip(limit, solved["predicted"].min("pairs").values, strict=True):
        target = int(not EXACT.satisfied(code))
        over = mean_within(own / code if target else own, WITHIN)
        side = "below" if over.high < target else "above" if over.low > target else "agrees"
        found.append((over, side if straight else "no limit"))
    return found


def loss_reached(small: xr.Dataset, code: xr.DataArray) -> list[tuple[int, float, Estimate]]:
    """Return for each case how many models end at the code, and over it the best end, and the mean.

    Of `run_groups` at one size, at places where the code's matrices have its loss at any size. A model is at
    the code if its loss is within `AT_CODE` of it, two or three times the error of sampling. Row P5 of the
    ledger has what was predicted before the models were trained. (First planned by exact descents from
    there, which take hours; one model had been seen.)
    """
    over = (small["trained"].isel(steps=-1, n_features=0) / code).transpose("case", "seed").values
    return [(int(np.sum(AT_CODE.satisfied(np.abs(one - 1)))), float(one.min()), mean(one)) for one in over]
