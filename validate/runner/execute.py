"""One run with settings from text, and its provenance, so that a file says how it was made."""

import inspect
import json
import platform
import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import xarray as xr

from ... import __version__
from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer, short_repr
from .declarations import LARGEST_SEED, Run, as_list

__all__ = ["check_settings", "parse_settings", "run_with_provenance"]

_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"


@as_annotated
def parse_settings(pairs: Mapping[str, str]) -> dict[str, Any]:
    """Parse settings: JSON, or a range of integers such as 0:3 (its end excluded), or else plain text.

    Raises
    ------
    ValueError
        If there is a range of other numbers, or an empty one.

    Examples
    --------
    >>> parse_settings({"n_hidden": "[32, 64]", "lam": "3e-3", "device": "cpu", "seeds": "0:3"})
    {'n_hidden': [32, 64], 'lam': 0.003, 'device': 'cpu', 'seeds': [0, 1, 2]}
    """
    read: dict[str, Any] = {}
    for name, text in pairs.items():
        try:
            read[name] = json.loads(text)
        except (ValueError, RecursionError):
            ends = re.fullmatch(r"(-?\d{1,6}):(-?\d{1,6})", text, re.ASCII)
            read[name] = list(range(int(ends[1]), int(ends[2]))) if ends else text
            several = ":" in text and re.fullmatch(rf"{_NUMBER}(:{_NUMBER})+", text, re.ASCII)
            if several and not (ends and read[name]):
                rule = "a range of whole numbers that rise, such as 0:10, or a list, such as [0.1,0.2]"
                raise ValueError(f"`{name}` must be {rule}; got {short_repr(text)}.") from None
    return read


@as_annotated
def check_parameters(function: Callable[..., Any], name: str, given: Collection[str]) -> None:
    """Check that a function has all these arguments; one that hands on whatever it gets has any."""
    parameters = inspect.signature(function).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        for key in given:
            choice(name, key, tuple(parameters))


@as_annotated
def check_settings(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Check that a function has all given arguments, is given all that it must have, and seeds in range."""
    check_parameters(function, "setting", given)
    for key, parameter in inspect.signature(function).parameters.items():
        needed = parameter.default is inspect.Parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if needed and key not in given:
            raise ValueError(f"`{key}` must be given, as {key}=VALUE; got nothing.")
    for key in ("seed", "seeds"):
        values = given.get(key, [])
        for one in values if isinstance(values, list | tuple | range) else [values]:
            integer(key, one, 0, LARGEST_SEED)


@as_annotated
def run_with_provenance(
    one: Run, given: Mapping[str, Any], how: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Call the function of a run and note in the attributes how the result was made.

    Parameters
    ----------
    one : Run
        One of `registry.list_runs`.
    given : mapping from str to object
        Arguments of its function, by name.
    how : mapping from str to object, optional
        Arguments that say where it is made, and change nothing.

    Returns
    -------
    xarray.Dataset
        With the attributes ``experiment``, ``settings`` (JSON), ``superposition_version``, ``made``,
        ``machine``, ``wall_seconds`` added.

    Examples
    --------
    >>> from superposition.validate.runner.registry import find_run
    >>> given = {"n_features": 8, "n_hidden": [8], "runs": 2, "lam": 0.02}
    >>> ds = run_with_provenance(find_run("collisions.fig3"), given)
    >>> ds.attrs["experiment"], ds["polysemantic"].shape
    ('collisions.fig3', (1, 2))
    """
    check_settings(one.function, {**given, **(how or {})})
    start = time.perf_counter()
    try:
        ds = one.function(**given, **(how or {}))
    except ImportError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as error:
        # Settings may be anything that JSON can say, also lists of lists where the function wants a number.
        said = json.dumps(dict(given), default=as_list)
        raise ValueError(f"`settings` must fit {one.name}; got {said} ({error}).") from error
    return ds.assign_attrs(
        experiment=one.experiment,
        settings=json.dumps(dict(given), default=as_list),
        superposition_version=__version__,
        made=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=f"{platform.system()} {platform.machine()}",
        wall_seconds=time.perf_counter() - start,
    )
