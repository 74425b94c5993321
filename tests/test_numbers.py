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

from superposition.theory.features import VALUES

from . import snapshot
from .test_bad_input import LOWER, Case, cases

# Of a search or a machine.
NOT_COMPARED = re.compile("_.*|.*seconds|evaluations|iterations|nfev|steps|hits|gradient_norm|message|work")
# Beside the documented call they take ten seconds to a minute.
SLOW = {
    "solvers.codes.lines", "solvers.computation.best_mixed_network", "solvers.computation.best_power",
    "solvers.relu.certify", "solvers.sae.best_pair",
}  # fmt: skip


def parts_of(value: Any) -> dict[str, Any] | None:
    """Return what a result consists of, by name or index; None of what is one number, array or word."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names if not NOT_COMPARED.fullmatch(name)}
    if isinstance(value, xr.Dataset):
        return dict(snapshot.of_dataset(value))
    if isinstance(value, dict):
        return value
    return {str(k): part for k, part in enumerate(value)} if isinstance(value, list | tuple) else None


def numbers_of(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Yield the place in a result, and a digest, of each array, number and word."""
    parts = parts_of(value)
    if parts is not None:
        for name, part in parts.items():
            yield from numbers_of(part, f"{place} {name}")
    elif isinstance(value, Enum):
        yield place, snapshot.digest([value.name])
    elif isinstance(value, str | bool | int | float | np.generic | np.ndarray | xr.DataArray):
        array = np.asarray(value)
        if array.dtype.kind == "c":
            yield place, snapshot.digest([array.real, array.imag])
        elif array.dtype.kind in "biufUO":
            yield place, snapshot.digest(array)


def other_words(case: Case, argument: str) -> list[str]:
    """Return what an argument takes, as the error says where it is given another word."""
    try:
        call(case, argument, "no such word")
    except ValueError as error:
        allowed = str(error).partition("; got")[0]
        words = re.findall(r"'([\w +-]+)'", allowed) if f"`{argument}`" in allowed else []
        # Other tests may have registered laws of their own.
        return [word for word in words if word in VALUES] if argument == "values" else words
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


def call(case: Case, argument: str = "", value: Any = None) -> Any:
    """Return the result of the documented call, of another `value` of an argument if one is named."""
    given = dict(case.bound.arguments) | ({argument: value} if argument else {})
    bound = inspect.BoundArguments(case.bound.signature, given)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return case.function(*bound.args, **bound.kwargs)


def calls(package: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each call, and what makes it."""
    for case in cases(package):
        # A law is registered once in a process, by this test or by another one that ran before.
        if case.bound is None or "derive_" in case.key or case.key == "theory.features.register":
            continue
        name = case.key.removeprefix(f"{package}.")
        yield name, lambda case=case: call(case)
        for beside, argument, value in others(case) if case.key not in SLOW else ():
            yield f"{name} {beside}", lambda case=case, at=(argument, value): call(case, *at)


@pytest.mark.parametrize("package", LOWER)
def test_numbers_are_those_stored(package, pytestconfig):
    found: dict[str, float] = {}
    for name, make in calls(package):
        try:
            result = make()
        except Exception as error:  # that it is refused, and how, is a number too
            result = type(error).__name__
        found |= numbers_of(result, name)
    snapshot.compare(package, found, pytestconfig.getoption("--renew-numbers"))
