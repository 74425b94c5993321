"""Bad input to every public function of the lower floors: each call refuses it by name, or answers well.

A valid call of each function is taken from its docstring, or from the table below. One argument after the
other is then replaced by something absurd. What may happen: a `ValueError` or `TypeError` that names an
argument in backquotes, finite numbers, or a result whose status says what went wrong. A warning, another
exception, nan or inf that no docstring mentions, and more than ten seconds of processor time are faults.
"""

import contextlib
import dataclasses
import doctest
import faulthandler
import functools
import importlib
import inspect
import io
import itertools
import pkgutil
import random
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest
import sympy

from superposition import solvers, theory

SECONDS = 10
ORDINARY, MANY = 1000, 10_000
# What a call may take beside what is there: sizes without memory must be refused before they are made.
SPARE_BYTES = 8 * 2**30

ROOMS = {
    f"{floor.__name__.partition('.')[2]}.{name}": importlib.import_module(f"{floor.__name__}.{name}")
    for floor in (theory, solvers)
    for _, name, is_room in pkgutil.iter_modules(floor.__path__)
    if is_room
}

# Valid calls where the docstring shows none, or one that takes more than a tenth of a second. They see what
# the function's own module sees, and `np`.
_MODEL = "np.eye(3) - 0.2, np.full(3, -0.1), 0.3"
CALLS: dict[str, str] = {
    "solvers.loss.exact_gradient": f"exact_gradient({_MODEL})",
    "solvers.loss.exact_loss": f"exact_loss({_MODEL})",
    "solvers.loss.value_and_gradient": f"value_and_gradient({_MODEL})",
    "solvers.noise.descend": "descend(np.eye(3), 'normal', 0.1, 0.01, 20, 0)",
    "solvers.relu.pair_transitions": "pair_transitions([0.2], lowest=0.5)",
    "solvers.rug.RugMatrix.matvec": "(np.ones(4))",
    "theory.features.Features": "Features(3, 0.3)",
    "theory.features.as_features": "as_features(0.3, 3)",
    "theory.noise.expectation": "expectation(sympy.Symbol('u') ** 2)",
    "solvers.sparsification.limit_law": "limit_law([1.0], 0.1, 100, 0.9)",
}

# --- Valid calls --------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """A public function with arguments that it takes."""

    key: str
    function: Callable[..., Any]
    bound: inspect.BoundArguments | None
    documents: str


class _Seen(BaseException):
    pass


def _first_call(key: str, name: str, around: Any, function: Any) -> inspect.BoundArguments | None:
    """Return the arguments of the first call of the name in the examples, without making that call."""

    def seen(*args: Any, **kwargs: Any) -> Any:
        raise _Seen(args, kwargs)

    scope = dict(vars(importlib.import_module(around.__module__)), np=np, sympy=sympy)
    if inspect.isfunction(function) or inspect.isclass(function):
        scope[name] = seen
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(around) or "")
    for source in [CALLS[key]] if key in CALLS else [one.source for one in examples if not one.exc_msg]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source.strip(), key, "single"), scope)
        except _Seen as call:
            bound = inspect.signature(function).bind(*call.args[0], **call.args[1])
            bound.apply_defaults()
            return bound
    return None


def cases(room_name: str) -> Iterator[Case]:
    """All public functions of a room, the classes that its users make themselves, and their methods."""
    room = ROOMS[room_name]
    for name in getattr(room, "__all__", ()):
        public, key = getattr(room, name), f"{room_name}.{name}"
        if not callable(public) or not hasattr(public, "__module__"):
            continue
        bound = _first_call(key, name, public, public)
        if bound is None and inspect.isfunction(public):
            parameters = inspect.signature(public).parameters.values()
            if all(one.default is not one.empty for one in parameters):
                bound = inspect.signature(public).bind()
                bound.apply_defaults()
        if bound is not None or inspect.isfunction(public):
            yield Case(key, public, bound, _documents(public))
        if inspect.isclass(public) and bound is not None:
            made = public(*bound.args, **bound.kwargs)
            for method in (one for one in vars(public) if not one.startswith("_") and one != "from_rows"):
                function = getattr(made, method)
                if inspect.ismethod(function) and inspect.signature(function).parameters:
                    words = re.search(rf"\.{method}\((.*?)\)", inspect.getdoc(function) or "")
                    text = CALLS.get(f"{key}.{method}", f"({words[1]})" if words else None)
                    given = None
                    if text is not None:
                        given = eval(f"bind{text}", {"bind": inspect.signature(function).bind, "np": np})
                        given.apply_defaults()
                    yield Case(f"{key}.{method}", function, given, _documents(public) + _documents(function))


def _documents(public: Any) -> str:
    """Return the docstring with those of the classes that it returns."""
    returned = str(inspect.signature(public).return_annotation) if callable(public) else ""
    module = importlib.import_module(public.__module__)
    classes = [one for name, one in vars(module).items() if inspect.isclass(one) and name in returned]
    return "\n".join(inspect.getdoc(one) or "" for one in (public, *classes))


# --- Bad input ----------------------------------------------------------------------------------------------


class Tensor:
    """What torch does with a tensor that has a gradient."""

    requires_grad = True
    shape, ndim = (2, 2), 2

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __len__(self) -> int:
        return 2


ANYWHERE: dict[str, Any] = {
    "None": None,
    "text": "abc",
    "a number as text": "0.1",
    "True": True,
    "complex": 1j,
    "a date": np.datetime64("2020-01-01"),
    "nan": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "1e300": 1e300,
    "-1e300": -1e300,
    "5e-324": 5e-324,
    "10**400": 10**400,
    "-1": -1,
    "0": 0,
    "0.0": 0.0,
    "2.5": 2.5,
    "1e-150": 1e-150,
    "[]": [],
    "ragged": [[1.0, 2.0], [3.0]],
    "a dict": {},
    "objects": np.array([object(), 1.0]),
    "masked": np.ma.array([1.0, 2.0], mask=[False, True]),
    "a tensor": Tensor(),
    "three axes": np.ones((2, 2, 2)),
    "a function": len,
    "[None]": [None],
    "['a']": ["a"],
    "[True]": [True],
    "[nan]": [np.nan],
    "[-1.0]": [-1.0],
}
SIZES: dict[str, Any] = {"10**9": 10**9, "10**12": 10**12, "-10**9": -(10**9)}
WORDS: dict[str, Any] = {
    "no word": "",
    "another word": "nonsense",
    "letters": "ABC",
    "a list of words": ["a"],
}


def _arrays(value: np.ndarray) -> dict[str, Any]:
    """Spoil an array in all ways."""
    with_nan, with_inf, negative = value.copy(), value.copy(), -value
    with_nan.flat[:1], with_inf.flat[-1:] = np.nan, np.inf
    return {
        "with nan": with_nan,
        "with inf": with_inf,
        "negative": negative,
        "zeros": 0 * value,
        "all 1e300": np.full(value.shape, 1e300),
        "all 5e-324": np.full(value.shape, 5e-324),
        "times 1e150": value * 1e150,
        "times 1e-150": value * 1e-150,
        "a row less": value[1:],
        "a row more": np.concatenate([value, value[:1]]),
        "a column more": np.concatenate([value, value[..., :1]], axis=-1),
        "flat": value.ravel() if value.ndim > 1 else value[:, None],
        "an axis more": value[None, None],
        "no rows": value[:0],
        "complex entries": value + 0j,
        "text entries": value.astype(str),
        "flags": value > 0,
        "objects of it": value.astype(object),
        "masked of it": np.ma.array(value, mask=value == value.flat[0]),
        "dates of it": np.zeros(value.shape, "datetime64[s]"),
    }


def mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Values that are absurd in place of the valid one, each with its name."""
    pools = [ANYWHERE]
    if isinstance(value, int) and not isinstance(value, bool):
        pools.append(SIZES)
    if isinstance(value, str):
        pools.append(WORDS)
    if isinstance(value, list | tuple | np.ndarray):
        with contextlib.suppress(TypeError, ValueError):
            array = np.asarray(value, dtype=np.float64)
            if array.ndim and array.size:
                pools.append(_arrays(array))
    for pool in pools:
        for name, bad in pool.items():
            if callable(bad) and callable(value):
                continue
            if not (type(bad) is type(value) and isinstance(bad, int | float | str | None) and bad == value):
                yield name, bad


# --- What may happen ----------------------------------------------------------------------------------------


class _Late(BaseException):
    pass


def _ring(*_: Any) -> None:
    raise _Late


def outcome(case: Case, argument: str | None = None, bad: Any = None) -> str:
    """Call, with one bad argument if one is named; return what is wrong with what happens, or nothing."""
    given = dict(case.bound.arguments)
    if argument is not None:
        several = case.bound.signature.parameters[argument].kind is inspect.Parameter.VAR_POSITIONAL
        given[argument] = (bad,) if several else bad
    bound = inspect.BoundArguments(case.bound.signature, given)  # type: ignore[arg-type]
    names = "|".join(case.bound.signature.parameters)
    signal.signal(signal.SIGPROF, _ring)
    # Processor time, which other work on the machine does not lengthen. A valid call may take longer.
    signal.setitimer(signal.ITIMER_PROF, SECONDS if argument else 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = case.function(*bound.args, **bound.kwargs)
        return _trouble(found, case.documents)
    except _Late:
        return f"takes more than {SECONDS} s"
    except Exception as error:
        # what a function of the user raises is passed on, with a note that names its argument
        notes = "\n".join(getattr(error, "__notes__", ()))
        words = str(error) if isinstance(error, ValueError | TypeError) else ""
        if re.search(rf"`({names})\b", f"{words}\n{notes}"):
            return ""
        return f"does not name an argument: {type(error).__name__}: {error}"[:200].replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _trouble(found: Any, documents: str) -> str:
    """Say what is not finite in a result, unless a status or a docstring owns up to it."""
    status = getattr(found, "status", None)
    if isinstance(status, Enum) and not getattr(status, "good", True):
        return ""
    if dataclasses.is_dataclass(found):
        parts = [(field.name, getattr(found, field.name)) for field in dataclasses.fields(found)]
        documents += inspect.getdoc(type(found)) or ""
        documents += inspect.getsource(type(found)) if "__dataclass_fields__" in vars(type(found)) else ""
    elif isinstance(found, dict):
        parts = list(found.items())
    elif isinstance(found, list | tuple):
        parts = list(enumerate(found))
    else:
        if isinstance(found, float | np.floating | np.ndarray) and np.asarray(found).dtype.kind in "fc":
            if np.any(np.isnan(found)) and not re.search(r"\bnan\b|\bNaN\b", documents):
                return "gives nan"
            if np.any(np.isinf(found)) and not re.search(r"\binf\b|infinit", documents):
                return "gives inf"
        return ""
    for name, part in parts:
        trouble = _trouble(part, documents)
        if trouble:
            return f"{name}: {trouble}"
    return ""


# --- The tests ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Bound the memory, and end the process should a compiled loop never come back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, hard))
    faulthandler.dump_traceback_later(600, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def all_calls(room: str) -> list[list[tuple[Case, str, str, Any]]]:
    """Return the bad calls of each function."""
    return [
        [
            (case, argument, name, bad)
            for argument, value in case.bound.arguments.items()
            for name, bad in mutations(value)
        ]
        for case in cases(room)
        if case.bound is not None and case.bound.arguments
    ]


def chosen(room: str, calls: int, seed: int) -> Iterator[tuple[Case, str, str, Any]]:
    """Draw the room's share of so many calls, spread evenly over its functions."""
    sizes = {name: len(getattr(one, "__all__", ())) for name, one in ROOMS.items()}
    share = -(-calls * sizes[room] // sum(sizes.values()))
    draw = random.Random(f"{room} {seed}")
    functions = [draw.sample(one, len(one)) for one in all_calls(room)]
    turns = itertools.zip_longest(*functions)
    yield from itertools.islice((call for turn in turns for call in turn if call is not None), share)


@functools.cache
def at_first(room: str) -> dict[str, str]:
    """Return what is wrong with the valid call of each function, but for derivations.

    Those take seconds, and `theory/test_derivations.py` makes all of them.
    """
    called = [one for one in cases(room) if one.bound and "derive_" not in one.key]
    return {one.key: outcome(one) for one in called}


def _faults(room: str, calls: int, seed: int) -> list[str]:
    drawn = list(chosen(room, calls, seed))
    with _limits():
        at_first(room)  # compiles what the others use
        return [
            f"{case.key}({argument}={name}): {wrong}"
            for case, argument, name, bad in drawn
            if (wrong := outcome(case, argument, bad))
        ]


@pytest.mark.parametrize("room", ROOMS)
def test_every_function_has_a_valid_call(room):
    wrong = [case.key for case in cases(room) if case.bound is None]
    with _limits():
        wrong += [f"{key}: {trouble}" for key, trouble in at_first(room).items() if trouble]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_bad_input_is_refused_by_name_or_answered_well(room):
    assert _faults(room, ORDINARY, seed=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_much_bad_input_is_refused_by_name_or_answered_well(room):
    seed = random.SystemRandom().randrange(2**32)
    assert (seed, _faults(room, MANY, seed)) == (seed, [])
