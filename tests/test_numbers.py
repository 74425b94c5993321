"""Every public function of the lower layers gives, at its documented call and beside it, the numbers stored.

Beside it: each number, array, flag or word of the call is replaced by another. See `snapshot.py`; other tests
say whether the numbers are right.
"""

import dataclasses
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest
import xarray as xr

from . import snapshot
from .test_bad_input import LOWER, Case, cases

# What differs between machines or releases.
NOT_COMPARED = re.compile("seconds|evaluations|iterations|nfev|message|work")
SLOW = {"solvers.relu.certify", "solvers.sae.best_pair"}  # beside the documented call they take a minute


def parts_of(value: Any) -> Any:
    """Return what a result consists of, or None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not NOT_COMPARED.search(field.name)]
        return [getattr(value, name) for name in names if not name.startswith("_")]
    if isinstance(value, xr.Dataset):
        return [number for _, number in snapshot.of_dataset(value)]
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list | tuple) else None


def numbers_of(value: Any) -> Iterator[float]:
    """Yield a digest of each array, number and word in a result."""
    parts = parts_of(value)
    if parts is not None:
        for part in parts:
            yield from numbers_of(part)
    elif isinstance(value, Enum):
        yield snapshot.digest([value.name])
    elif isinstance(value, str | bool | int | float | np.generic | np.ndarray | xr.DataArray):
        array = np.asarray(value)
        if array.dtype.kind == "c":
            yield snapshot.digest([array.real, array.imag])
        elif array.dtype.kind in "biufUO":
            yield snapshot.digest(array)


def other_words(case: Case, argument: str) -> list[str]:
    """Return what an argument takes, as the error says where it is given another word."""
    try:
        call(case, argument, "no such word")
    except ValueError as error:
        allowed = str(error).partition("; got")[0]
        return re.findall(r"'([\w +-]+)'", allowed) if f"`{argument}`" in allowed else []
    return []


def others(case: Case) -> Iterator[tuple[str, str, Any]]:
    """Yield (name, argument, value) of the calls beside the documented one."""
    for argument, value in case.bound.arguments.items():
        if isinstance(value, bool):
            yield f"{argument}={not value}", argument, not value
        elif isinstance(value, int):
            yield f"{argument}={value + 1}", argument, value + 1
        elif isinstance(value, float):
            yield f"{argument}*0.75", argument, 0.75 * value
            yield f"{argument}*1.2", argument, 1.2 * value
        elif isinstance(value, str):
            for word in other_words(case, argument):
                if word != value:
                    yield f"{argument}={word}", argument, word
        elif isinstance(value, list | tuple | np.ndarray):
            try:
                array = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                continue
            factors = 0.9 - 0.3 * np.modf(0.6180339887 * np.arange(array.size))[0].reshape(array.shape)
            yield f"{argument} shrunk", argument, array * factors


def call(case: Case, argument: str = "", value: Any = None) -> list[float]:
    """Return the digests of what a call gives, or of that it is refused."""
    given = dict(case.bound.arguments) | ({argument: value} if argument else {})
    bound = inspect.BoundArguments(case.bound.signature, given)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return list(numbers_of(case.function(*bound.args, **bound.kwargs)))


def calls(package: str) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Yield the name of each call, and what makes it."""
    for case in cases(package):
        if case.bound is None or "derive_" in case.key:
            continue
        name = case.key.removeprefix(f"{package}.")
        yield name, lambda case=case: call(case)
        for beside, argument, value in others(case) if case.key not in SLOW else ():
            yield f"{name} {beside}", lambda case=case, at=(argument, value): call(case, *at)


@pytest.mark.parametrize("package", LOWER)
def test_numbers_are_those_stored(package, pytestconfig):
    found = {}
    for name, make in calls(package):
        try:
            digests = make()
        except Exception as error:
            digests = [snapshot.digest([type(error).__name__])]
        found |= {f"{name} {k}" if k else name: number for k, number in enumerate(digests)}
    snapshot.compare(package, found, pytestconfig.getoption("--renew-numbers"))
