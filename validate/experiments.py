"""Any experiment by name: the ``run_…`` functions of the phenomena, with settings from text.

The results are those of the functions themselves; what is added is their provenance, so that a file says how
it was made.
"""

import importlib
import importlib.metadata
import inspect
import json
import platform
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import xarray as xr

from ..theory.arguments import choice, integer, shown
from .annotations import as_annotated
from .laboratory import LARGEST_SEED, PHENOMENA

__all__ = ["checked", "experiments", "run", "settings"]

_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"


def experiments() -> dict[str, Callable[..., xr.Dataset]]:
    """Return every experiment by name, such as ``collisions.fig3`` for ``validate.collisions.run_fig3``.

    Examples
    --------
    >>> "collisions.fig3" in experiments()
    True
    """
    found: dict[str, Callable[..., xr.Dataset]] = {}
    for room in (*PHENOMENA, "training"):
        module = importlib.import_module(f".{room}", __package__)
        names = [name for name in module.__all__ if name.startswith("run_")]
        found |= {f"{room}.{name.removeprefix('run_')}": getattr(module, name) for name in names}
    return found


@as_annotated
def settings(pairs: Mapping[str, str]) -> dict[str, Any]:
    """Parse settings: JSON, or a range of integers such as 0:3 (its end excluded), or else plain text.

    Raises
    ------
    ValueError
        If there is a range of other numbers, or an empty one.

    Examples
    --------
    >>> settings({"n_hidden": "[32, 64]", "lam": "3e-3", "device": "cpu", "seeds": "0:3"})
    {'n_hidden': [32, 64], 'lam': 0.003, 'device': 'cpu', 'seeds': [0, 1, 2]}
    """
    read: dict[str, Any] = {}
    for name, text in pairs.items():
        try:
            read[name] = json.loads(text)
        except (ValueError, RecursionError):
            ends = re.fullmatch(r"(-?\d{1,6}):(-?\d{1,6})", text, re.ASCII)
            read[name] = list(range(int(ends[1]), int(ends[2]))) if ends else text
            if re.fullmatch(rf"{_NUMBER}(:{_NUMBER})+", text, re.ASCII) and not (ends and read[name]):
                rule = "a range of whole numbers that rise, such as 0:10, or a list, such as [0.1,0.2]"
                raise ValueError(f"`{name}` must be {rule}; got {shown(text)}.") from None
    return read


@as_annotated
def checked(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Check that a function has all given arguments, is given all that it must have, and seeds in range."""
    parameters = inspect.signature(function).parameters
    for key in given:
        choice("setting", key, tuple(parameters))
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in given:
            raise ValueError(f"`{key}` must be given, as {key}=VALUE; got nothing.")
    for key in ("seed", "seeds"):
        values = given.get(key, [])
        for one in values if isinstance(values, list | tuple | range) else [values]:
            integer(key, one, 0, LARGEST_SEED)


@as_annotated
def run(name: str, given: Mapping[str, Any]) -> xr.Dataset:
    """Run an experiment and note in the attributes how it was made.

    Parameters
    ----------
    name : str
        One of :func:`experiments`.
    given : mapping from str to object
        Arguments of its function, by name.

    Returns
    -------
    xarray.Dataset
        With the attributes ``experiment``, ``settings`` (JSON), ``superposition_version``, ``made``,
        ``machine``, ``wall_seconds`` added.

    Examples
    --------
    >>> ds = run("collisions.fig3", {"n_features": 8, "n_hidden": [8], "runs": 2, "lam": 0.02})
    >>> ds.attrs["experiment"], ds["polysemantic"].shape
    ('collisions.fig3', (1, 2))
    """
    known = experiments()
    function = known[choice("experiment", name, sorted(known))]
    checked(function, given)
    start = time.perf_counter()
    try:
        ds = function(**given)
    except ImportError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as error:
        # Settings may be anything that JSON can say, also lists of lists where the function wants a number.
        raise ValueError(f"`settings` must fit {name}; got {json.dumps(dict(given))} ({error}).") from error
    return ds.assign_attrs(
        experiment=name,
        settings=json.dumps(dict(given)),
        superposition_version=importlib.metadata.version("superposition"),
        made=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=f"{platform.system()} {platform.machine()}",
        wall_seconds=time.perf_counter() - start,
    )
