"""Execution of a run: settings from text, their validation, and attributes on how the result was made."""

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
    """Return settings from `pairs` of name and text, parsed as JSON, as ranges such as 0:3, or else as text.

    The end of a range is excluded. An empty range, or one that is not of whole numbers, raises a ValueError.

    >>> parse_settings({"n_hidden": "[32, 64]", "lam": "3e-3", "device": "cpu", "seeds": "0:3"})
    {'n_hidden': [32, 64], 'lam': 0.003, 'device': 'cpu', 'seeds': [0, 1, 2]}
    """
    settings: dict[str, Any] = {}
    for name, text in pairs.items():
        try:
            settings[name] = json.loads(text)
        except (ValueError, RecursionError):
            ends = re.fullmatch(r"(-?\d{1,6}):(-?\d{1,6})", text, re.ASCII)
            settings[name] = list(range(int(ends[1]), int(ends[2]))) if ends else text
            several = ":" in text and re.fullmatch(rf"{_NUMBER}(:{_NUMBER})+", text, re.ASCII)
            if several and not (ends and settings[name]):
                rule = "a range of whole numbers that rise, such as 0:10, or a list, such as [0.1,0.2]"
                raise ValueError(f"`{name}` must be {rule}; got {short_repr(text)}.") from None
    return settings


@as_annotated
def check_parameters(function: Callable[..., Any], name: str, settings: Collection[str]) -> None:
    """Raise ValueError, naming `name`, unless a function takes all these settings as arguments."""
    parameters = inspect.signature(function).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for key in settings:
            choice(name, key, tuple(parameters))


@as_annotated
def check_settings(function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raise ValueError if settings are no arguments of a function, lack a required one, or have bad seeds.

    Seeds are whole numbers from 0 to 2^30.
    """
    check_parameters(function, "setting", settings)
    for key, parameter in inspect.signature(function).parameters.items():
        required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if required and key not in settings:
            raise ValueError(f"`{key}` must be given, as {key}=VALUE; got nothing.")
    for key in ("seed", "seeds"):
        seeds = settings.get(key, [])
        for seed in seeds if isinstance(seeds, list | tuple | range) else [seeds]:
            integer(key, seed, 0, LARGEST_SEED)


@as_annotated
def run_with_provenance(
    run: Run, settings: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Return the result of a run with these settings, with attributes on how it was made.

    The attributes are ``experiment``, ``settings`` (JSON), ``superposition_version``, ``made``, ``machine``
    and ``wall_seconds``. `options` are further arguments, which change no number.

    >>> from superposition.validate.runner.registry import find_run
    >>> settings = {"n_features": 8, "n_hidden": [8], "runs": 2, "lam": 0.02}
    >>> ds = run_with_provenance(find_run("collisions.fig3"), settings)
    >>> ds.attrs["experiment"], ds["polysemantic"].shape
    ('collisions.fig3', (1, 2))
    """
    arguments = {**settings, **(options or {})}
    check_settings(run.function, arguments)
    start = time.perf_counter()
    settings_json = json.dumps(dict(settings), default=as_list)
    try:
        ds = run.function(**arguments)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as error:
        # Settings may be anything that JSON can say, also lists of lists where the function wants a number.
        raise ValueError(f"`settings` must fit {run.name}; got {settings_json} ({error}).") from error
    return ds.assign_attrs(
        experiment=run.experiment,
        settings=settings_json,
        superposition_version=__version__,
        made=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=f"{platform.system()} {platform.machine()}",
        wall_seconds=time.perf_counter() - start,
    )
