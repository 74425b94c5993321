"""Experiments by name: the same numbers as the functions', with their provenance."""

import inspect
import json
from collections.abc import Sequence
from unittest.mock import create_autospec

import numpy.typing as npt
import pytest
import xarray as xr

from superposition.theory.annotations import as_annotated
from superposition.validate.experiments import collisions
from superposition.validate.runner import execute, registry

SMALL = {"n_features": 8, "n_hidden": [8, 16], "runs": 2, "lam": 0.02}


def test_a_run_is_the_functions_with_provenance():
    ds = execute.run_with_provenance(registry.find_run("collisions.fig3"), SMALL)
    xr.testing.assert_equal(ds, collisions.run_fig3(**SMALL))
    assert json.loads(ds.attrs["settings"]) == SMALL
    assert ds.attrs["experiment"] == "collisions.fig3"
    assert ds.attrs["wall_seconds"] > 0
    few = {name: value for name, value in SMALL.items() if name != "lam"}
    with_option = execute.run_with_provenance(registry.find_run("collisions.fig3"), few, {"lam": 0.02})
    xr.testing.assert_equal(with_option, ds)
    assert json.loads(with_option.attrs["settings"]) == few, "an option is no setting"


# What must be given, and what no argument of a kind can be; whether it is in range the functions check.
VALID = {int: 4, float: 0.5, Sequence[int]: [4], Sequence[float]: [0.5], Sequence[str]: ["x"]}
VALID |= {npt.ArrayLike: 0.5, xr.Dataset: xr.Dataset()}
VALID |= {Sequence[Sequence[float]]: [[0.5, 0.5]], Sequence[tuple[float, float]]: [(0.5, 0.5)]}
NUMBERS = (None, "x", float("nan"), True, [1], {}, [[]], 10**400)
LISTS = (None, "x", 3, [], [None], [[]], {}, [float("nan")], [True])
WRONG = {
    bool: (None, "x", 1, []), str: (None, 3, ["x"], b"x"), int: (*NUMBERS, -1, 0.5, 2**31), float: NUMBERS,
    Sequence[int]: (*LISTS, ["x"], [-1], [0.5], range(2**40)), Sequence[float]: (*LISTS, ["x"]),
    Sequence[str]: LISTS, Sequence[Sequence[float]]: (*LISTS, ["x"], [[0.1, "x"]]),
    Sequence[tuple[float, float]]: (*LISTS, [(0.1,)]),
    npt.ArrayLike: (None, "x", {}, [None], [float("nan")], [True]),
}  # fmt: skip


def test_settings_of_another_kind_are_refused_by_name():
    """The documented settings are of their kind; any other is refused before anything is run."""
    runs = registry.list_runs().values()
    functions = {run.experiment: run.function for run in runs if run.function.__name__.startswith("run_")}
    assert len(functions) > 60
    for function in functions.values():
        parameters = inspect.signature(function).parameters.values()
        given = {one.name: VALID.get(one.annotation) for one in parameters if one.default is one.empty}
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
        as_annotated(record := create_autospec(function))(**given | defaults)
        record.assert_called_once_with(**given | defaults)
        for parameter in parameters:
            for wrong in WRONG.get(parameter.annotation, ()):
                with pytest.raises(ValueError, match=rf"`{parameter.name}` must .*; got "):
                    function(**given | {parameter.name: wrong})
