"""A part of each stored run is made anew by today's code, and compared at the tolerance that its run states.

`make reproduce` runs these tests alone; they are left out of the ordinary ones. A part that comes out
otherwise is an expected failure, with its reason and date, until the run is made anew.
"""

import inspect

import numpy as np
import pytest
import xarray as xr

from superposition.validate.reference import read
from superposition.validate.runner import execute, provenance

RUNS = provenance.shipped_runs()
# Parts that differ from what is stored: the reason, and the day on which that was found.
DIFFERENT: dict[str, str] = {}
# Parts of half a minute and more on a core.
LONG = {
    "codes.lines", "codes.polished", "computation.map", "decoders.trained", "noise.fresh",
    "sae.benchmark", "training.rug_n512", "unequal.descended", "unequal.tables",
}  # fmt: skip
MODEL = ("p", "ratio", "n_hidden", "seed")  # what tells models of one run apart


def is_long(run):
    is_large = run.dataset == "training" and run.full["n_features"] ** 2 * max(run.full["ratio"]) > 2e6
    return run.name in LONG or is_large


def parts():
    for name, run in RUNS.items():
        marks = [pytest.mark.slow] if is_long(run) else []
        if name in DIFFERENT:
            marks.append(pytest.mark.xfail(reason=DIFFERENT[name], strict=True))
        yield pytest.param(name, marks=marks)


def places(old, new, dim):
    """Return where the entries of a new dataset are along a dimension of the stored one."""
    keys = MODEL if dim == "model" else ()
    by = [key for key in keys if all(key in ds and ds[key].dims == (dim,) for ds in (old, new))]
    if by:
        columns = ([ds[key].values.tolist() for key in by] for ds in (old, new))
        there, wanted = (list(zip(*one, strict=True)) for one in columns)
    elif dim in new.indexes and dim in old.indexes:
        there, wanted = old[dim].values.tolist(), new[dim].values.tolist()
    else:
        there, wanted = range(old.sizes.get(dim, 0)), range(new.sizes[dim])
    return [there.index(one) for one in wanted if one in there]


def off(one, other):
    """Return the largest difference over the largest value; infinite where nan is in one only."""
    if one.shape != other.shape or one.size == 0:
        return np.inf
    if one.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(one.astype(str), other.astype(str)) else np.inf
    one, other = one.astype(float), other.astype(float)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return 0.0
    scale = np.max(np.abs(other[np.isfinite(other)]), initial=0.0) or 1.0
    worst = np.max(np.abs(one - other)[~same]) / scale
    return worst if np.isfinite(worst) else np.inf


def differences(old, new, only=()):
    """Return how far each variable of a part is from what is stored, where labels are the same."""
    where = {dim: places(old, new, dim) for dim in new.dims}
    found = {}
    for key in only or [key for key in old.data_vars if key in new]:
        there = old[key].isel({dim: where[dim] for dim in old[key].dims if dim in where})
        fits = set(there.dims) == set(new[key].dims)
        found[key] = off(there.values, new[key].transpose(*there.dims).values) if fits else np.inf
    return found


@pytest.mark.reproduce
@pytest.mark.parametrize("name", list(parts()))
def test_a_part_comes_out_as_stored(name):
    run = RUNS[name]
    settings = {**run.full, **run.check.settings}
    if "device" in inspect.signature(run.function).parameters:
        settings["device"] = "cpu"
    if run.torch:
        pytest.importorskip("torch")
    new = execute.run_with_provenance(run, settings)
    found = differences(read.read(run.dataset, run=name), new, run.check.variables)
    assert found
    worst = max(found, key=found.get)
    assert found[worst] <= run.check.tolerance, f"{worst} is off by {found[worst]:.2g} of its largest value"


def test_every_tolerance_has_a_reason():
    assert [name for name, run in RUNS.items() if run.check.tolerance and not run.check.reason] == []


def test_parts_are_compared_where_their_labels_are():
    at = {"p": ("model", [0.1, 0.1, 0.2]), "seed": ("model", [0, 1, 0]), "name": ("case", ["a", "b"])}
    old = xr.Dataset({"loss": ("model", [1.0, 2.0, 4.0]), **at})
    at |= {"p": ("model", [0.2, 0.1]), "seed": ("model", [0, 1])}
    new = xr.Dataset({"loss": ("model", [4.0, np.nan]), **at})
    same = new.assign(loss=("model", [4.0, 2.0]))
    assert set(differences(old, same).values()) == {0}
    assert differences(old, new)["loss"] == np.inf
    assert differences(old, same.assign(loss=("model", [4.0, 1.0])), ["loss"])["loss"] == 0.25
    assert differences(old, same.assign(name=("case", ["a", "c"])))["name"] == np.inf
    assert differences(old, same.assign(seed=("model", [7, 1])))["loss"] == np.inf
    plane = xr.Dataset({"x": (("p", "q"), [[1.0, 2.0], [3.0, 5.0]])}, {"p": [1, 2]})
    assert differences(plane, plane.sel(p=[2]).transpose("q", "p"))["x"] == 0
    assert differences(plane, plane.isel(q=[0]))["x"] == 0, "without labels the first are taken"
