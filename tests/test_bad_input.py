"""Bad input to every public function: each call refuses it by name, or answers well.

A valid call of each function is taken from its docstring, or from the tables below. One argument after the
other is then replaced by something absurd. What may happen: a `ValueError`, a `TypeError` or an exception
that the docstring names, with an argument in backquotes; finite numbers; or a result whose status says what
went wrong. A warning, another exception, nan or inf that no docstring mentions, more than ten seconds of
processor time, a file outside of the working folder, and a number made of what is none are faults.
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
import os
import random
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import xarray as xr

import superposition
from superposition import solvers, theory, validate
from superposition.solvers import statistics
from superposition.theory.lazy import public_modules
from superposition.validate.experiments.codes.structure import code_structure
from superposition.validate.reference.read import REFERENCE

SECONDS = 10
LATE = f"takes more than {SECONDS} s"
# Calls of the two lower layers, and of the upper one.
ORDINARY, MANY = (1000, 250), (10_000, 10_000)
# What a call may take beside what is there: sizes without memory must be refused before they are made.
SPARE_BYTES = 8 * 2**30

LOWER = {
    package.__name__.partition(".")[2]: package
    for layer in (theory, solvers)
    for package in public_modules(layer)
    if hasattr(package, "__path__") or package is statistics
}
# What users import of the upper layer; other tests refuse bad input to what stands behind `sp`.
UPPER = {
    package.__name__.partition(".")[2]: package
    for package in public_modules(validate)
    if re.match(r"superposition\.validate\.(proofs|training)\b", package.__name__)
}
UPPER["sp"] = superposition
PACKAGES = LOWER | UPPER
CERTIFICATE = REFERENCE / "certificates" / "wiring-n2-m1-p1-4.json"

# Valid calls where the docstring shows none, or one that takes more than a tenth of a second. They see what
# the function's own module sees, and `np`.
_PAIR = "Features(2, 0.1)"
CALLS: dict[str, str] = {
    "solvers.codes.lines": "lines(['triangle'], low=0.8, tol=0.1)",
    "solvers.noise.descend": "descend(np.eye(3), 'normal', 0.1, 0.01, 20, 0)",
    "solvers.relu.pair_transitions": "pair_transitions([0.2], lowest=0.5)",
    "solvers.rug.RugMatrix.matvec": "(np.ones(4))",
    "solvers.unequal.realise_blocks": f"realise_blocks(block_optimum({_PAIR}, 0.5, starts=1), {_PAIR}, 8)",
    "theory.features.ValueDistribution.nodes": "()",
    "solvers.sparsification.limit_law": "limit_law([1.0], 0.1, 100, 0.9)",
    "sp.audit": "audit(np.array([[1.0], [-1.0]]), 0.3, starts=1, steps=3, seconds=0.0)",
    "sp.best": "best(Features(2, 0.3), 1, starts=1)",
    "sp.explore": "explore('page.html')",
    "sp.sweep": "sweep(lambda p: p, dict(p=[0.1]))",
    "sp.phases": "phases(grid=dict(sparsity=[0.1], importance=[0.5]))",
    "sp.predict": "predict(Features(3, 0.3), 2)",
    "sp.sae": "sae(dict(W_enc=np.eye(3), W_dec=np.eye(3), b_enc=[-0.1] * 3, b_dec=[0] * 3), 0.1, seconds=0)",
    "solvers.statistics.Family.of": "(mean, [1.0, 2.0])",
    "solvers.statistics.crossing": "crossing([0.0, 1.0], np.array([[1.0, -1.0], [0.5, -1.0]]))",
    "solvers.statistics.growth_power": "growth_power([1.0, 2.0])",
}

# Calls in validate, which write to the working folder; keys leave that out.
SHORT = {
    "proofs.certificates.alignment_certificate": "alignment_certificate(2, 1, '1/4', '1/100', path='a.json')",
    "proofs.certificates.certify": "certify([[1], [-1]], [0, 0], '1/10', '1/299', path='pair.json')",
    "proofs.certificates.check": "check(CERTIFICATE)",
    "proofs.certificates.lean_goal": "lean_goal(CERTIFICATE)",
    "proofs.certificates.learning_certificate": (
        "learning_certificate([[1.01], [-1.01]], [[1.01, -1.01]], [0.02, 0.02], 0.3, path='one.json')"
    ),
    "proofs.certificates.pair_certificate": (
        "pair_certificate(-0.28, ['1/10', '1/10'], ['7/100', '11/100'], 1, path='pair.json')"
    ),
    "proofs.certificates.pentagon_certificate": "pentagon_certificate(path='pentagon.json')",
    "proofs.certificates.network_certificate": "network_certificate(2, 1, '1/10', path='network.json')",
    "proofs.certificates.wiring_certificate": "wiring_certificate(2, 1, '1/4', path='wiring.json')",
    "training.models_at": "models_at(TRAINED, 0.05, 0.25)",
    "training.train": "train(8, [4], [0.1], [0], steps=2, evaluation_samples=64, device='cpu')",
}
CALLS |= {f"validate.{key}": call for key, call in SHORT.items()}

# What the command line, or a function that is handed on, calls an argument.
OPTIONS = {"solvers.statistics.Family.of": ("values",)}

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


def _around(module: Any) -> dict[str, Any]:
    """Return what the calls of a module see."""
    scope: dict[str, Any] = dict(vars(module), np=np, sympy=sympy)
    if module.__name__.startswith("superposition.validate"):
        scope |= {"CERTIFICATE": CERTIFICATE, "TRAINED": xr.Dataset()}
    return scope


def _first_call(key: str, name: str, around: Any, function: Any) -> inspect.BoundArguments | None:
    """Return the arguments of the first call of the name in the examples, without making that call."""

    def seen(*args: Any, **kwargs: Any) -> Any:
        raise _Seen(args, kwargs)

    scope = _around(importlib.import_module(around.__module__))
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


def cases(package_name: str) -> Sequence[Case]:
    """All public functions of a package, the classes that its users make themselves, and their methods."""
    return _lower_cases(package_name) if package_name in LOWER else tuple(_cases(package_name))


@functools.cache
def _lower_cases(package_name: str) -> Sequence[Case]:
    """Return the cases of a package that sees no folder: examples before the first call may take seconds."""
    return tuple(_cases(package_name))


def _cases(package_name: str) -> Iterator[Case]:
    package = PACKAGES[package_name]
    for name in getattr(package, "__all__", ()):
        public, key = getattr(package, name), f"{package_name}.{name}"
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
                        scope = _around(importlib.import_module(public.__module__))
                        given = eval(f"bind{text}", scope | {"bind": inspect.signature(function).bind})
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
    "None": None, "text": "abc", "a number as text": "0.1", "True": True, "complex": 1j,
    "a date": np.datetime64("2020-01-01"), "a span of time": np.timedelta64(3, "ns"),
    "bytes": b"abc", "a view of bytes": memoryview(b"abc"), "nan": np.nan, "inf": np.inf, "-inf": -np.inf,
    "1e300": 1e300, "-1e300": -1e300, "5e-324": 5e-324, "10**400": 10**400, "-1": -1, "0": 0, "0.0": 0.0,
    "2.5": 2.5, "1e-150": 1e-150, "[]": [], "ragged": [[1.0, 2.0], [3.0]], "a dict": {},
    "objects": np.array([object(), 1.0]), "masked": np.ma.array([1.0, 2.0], mask=[False, True]),
    "a tensor": Tensor(), "three axes": np.ones((2, 2, 2)), "a function": len, "[None]": [None],
    "['a']": ["a"], "[True]": [True], "[nan]": [np.nan], "[-1.0]": [-1.0],
}  # fmt: skip
SIZES: dict[str, Any] = {"10**9": 10**9, "10**12": 10**12, "-10**9": -(10**9)}
# What NumPy or Python would turn into numbers: where a number is wanted, no answer may come.
NO_NUMBERS = {
    "text", "a number as text", "True", "complex", "a date", "a span of time", "bytes", "a view of bytes",
    "nan", "a dict", "objects", "masked", "a function", "[None]", "['a']", "[True]", "[nan]",
    "complex entries", "text entries", "flags", "masked of it", "dates of it", "with nan",
}  # fmt: skip
PATHS: dict[str, Any] = {
    "no name": "", "a folder": ".", "in no folder": "no/such/folder.nc", "a null character": "a\0b",
    "a long name": "x" * 10**6, "no UTF-8": "\udcff.nc", "a device": "/dev/full",
}  # fmt: skip
SETS: dict[str, Any] = {"another dataset": xr.Dataset({"a": ("x", [1.0])}), "no dataset": xr.DataArray([1.0])}
WORDS: dict[str, Any] = {
    "no word": "", "another word": "nonsense", "letters": "ABC", "a list of words": ["a"],
}  # fmt: skip


def _arrays(value: np.ndarray) -> dict[str, Any]:
    """Spoil an array in all ways."""
    with_nan, with_inf, negative = value.copy(), value.copy(), -value
    with_nan.flat[:1], with_inf.flat[-1:] = np.nan, np.inf
    return {
        "with nan": with_nan, "with inf": with_inf, "negative": negative, "zeros": 0 * value,
        "all 1e300": np.full(value.shape, 1e300), "all 5e-324": np.full(value.shape, 5e-324),
        "times 1e150": value * 1e150, "times 1e-150": value * 1e-150, "a row less": value[1:],
        "a row more": np.concatenate([value, value[:1]]),
        "a column more": np.concatenate([value, value[..., :1]], axis=-1),
        "flat": value.ravel() if value.ndim > 1 else value[:, None], "an axis more": value[None, None],
        "no rows": value[:0], "complex entries": value + 0j, "text entries": value.astype(str),
        "flags": value > 0, "objects of it": value.astype(object),
        "masked of it": np.ma.array(value, mask=value == value.flat[0]),
        "dates of it": np.zeros(value.shape, "datetime64[s]"),
    }  # fmt: skip


# Arguments of the upper layer that ask for work, or are a seed: many of them are no bad input.
WORK = {"draws", "descents", "examples", "runs", "samples", "seed", "starts", "steps", "train_steps", "reach"}


def mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Values that are absurd in place of the valid one, each with its name."""
    pools = [ANYWHERE]
    if isinstance(value, int) and not isinstance(value, bool):
        pools.append(SIZES)
    if isinstance(value, str):
        pools.append(WORDS)
    if isinstance(value, str | Path):
        pools.append(PATHS)
    if isinstance(value, xr.Dataset):
        pools.append(SETS)
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
    rung, spent = False, 0.0


def _ring(number: int, _: Any) -> None:
    spent = time.process_time()
    if number == signal.SIGALRM and spent > _Late.spent + 1:  # it works, on a busy machine
        _Late.spent = spent
        return
    _Late.rung = True  # also where compiled code makes another error of it
    raise _Late


def wants_numbers(case: Case, argument: str) -> bool:
    """Whether an argument is made of numbers alone."""
    value = case.bound.arguments[argument]
    kind = str(case.bound.signature.parameters[argument].annotation)
    if isinstance(value, str | bool) or re.search(r"\b(Features|None|Any|str\]|tuple|Model|dict)\b", kind):
        return False
    if isinstance(value, int | float | np.ndarray):
        return True
    leaves = _leaves(value) if isinstance(value, list | tuple) else []
    return bool(leaves) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in leaves)


def _leaves(value: Any) -> list[Any]:
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, list | tuple) else [value]


def outcome(case: Case, argument: str, name: str, bad: Any) -> str:
    """Call with one bad argument; return what is wrong with what happens, or nothing."""
    several = case.bound.signature.parameters[argument].kind is inspect.Parameter.VAR_POSITIONAL
    given = {**case.bound.arguments, argument: (bad,) if several else bad}
    bound = inspect.BoundArguments(case.bound.signature, given)  # type: ignore[arg-type]
    names = "|".join((*case.bound.signature.parameters, *OPTIONS.get(case.key, ())))
    _Late.rung, _Late.spent = False, time.process_time()
    signal.signal(signal.SIGPROF, _ring)
    signal.signal(signal.SIGALRM, _ring)
    # Processor time, which other work on the machine does not lengthen.
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS, 10 * SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = case.function(*bound.args, **bound.kwargs)
        if name in NO_NUMBERS and wants_numbers(case, argument):
            return f"makes a number of it: {found!r}"[:200]
        return _trouble(found, case.documents)
    except _Late:
        return LATE
    except SystemExit as end:  # of a command, which has said why
        return "" if end.code == 2 else f"ends with {end.code!r}"
    except Exception as error:
        # what a function of the user raises is passed on, with a note that names its argument
        notes = "\n".join(getattr(error, "__notes__", ()))
        if _Late.rung:
            return LATE
        is_documented = isinstance(error, ValueError | TypeError) or type(error).__name__ in case.documents
        words = str(error) if is_documented else ""
        if re.search(rf"`({names})\b", f"{words}\n{notes}"):
            return ""
        return f"does not name an argument: {type(error).__name__}: {error}"[:200].replace("\n", " ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _trouble(found: Any, documents: str) -> str:
    """Say what is not finite in a result, unless a status or a docstring owns up to it."""
    status = getattr(found, "status", None)
    if isinstance(status, Enum) and not getattr(status, "good", True):
        return ""
    parts: list[tuple[Any, Any]] = []
    if dataclasses.is_dataclass(found):
        parts = [(field.name, getattr(found, field.name)) for field in dataclasses.fields(found)]
        documents += inspect.getdoc(type(found)) or ""
        documents += inspect.getsource(type(found)) if "__dataclass_fields__" in vars(type(found)) else ""
    elif isinstance(found, dict):
        parts = list(found.items())
    elif isinstance(found, list | tuple):
        parts = list(enumerate(found))
    elif isinstance(found, float | np.floating | np.ndarray) and np.asarray(found).dtype.kind in "fc":
        if np.any(np.isnan(found)) and not re.search(r"\bnan\b|\bNaN\b", documents):
            return "gives nan"
        if np.any(np.isinf(found)) and not re.search(r"\binf\b|infinit", documents):
            return "gives inf"
    troubles = ((name, _trouble(part, documents)) for name, part in parts)
    return next((f"{name}: {trouble}" for name, trouble in troubles if trouble), "")


# --- The tests ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Bound the memory; what `_twice` has set to end the process is cancelled at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, hard))
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _is_asked_for(case: Case, argument: str, name: str, value: Any) -> bool:
    """Whether a value is no bad input: much work, or the default."""
    default = case.bound.signature.parameters[argument].default
    is_default = value is default or (isinstance(value, str | int | float) and value == default)
    return is_default or (name in SIZES and argument in WORK)


def all_calls(package: str) -> list[list[tuple[Case, str, str, Any]]]:
    """Return the bad calls of each function."""
    return [
        [
            (case, argument, name, bad)
            for argument, value in case.bound.arguments.items()
            if case.bound.signature.parameters[argument].kind is not inspect.Parameter.VAR_KEYWORD
            for name, bad in mutations(value)
            if not (package in UPPER and _is_asked_for(case, argument, name, bad))
        ]
        for case in cases(package)
        if case.bound is not None and case.bound.arguments
    ]


def chosen(package: str, calls: tuple[int, int], seed: int) -> Iterator[tuple[Case, str, str, Any]]:
    """Draw the package's share of so many calls of its layers, spread evenly over its functions."""
    layer_packages, all_of_them = (LOWER, calls[0]) if package in LOWER else (UPPER, calls[1])
    sizes = {name: len(getattr(one, "__all__", ())) for name, one in layer_packages.items()}
    share = -(-all_of_them * sizes[package] // sum(sizes.values()))
    draw = random.Random(f"{package} {seed}")
    functions = [draw.sample(one, len(one)) for one in all_calls(package)]
    turns = itertools.zip_longest(*functions)
    yield from itertools.islice((call for turn in turns for call in turn if call is not None), share)


def _faults(package: str, calls: tuple[int, int], seed: int) -> list[str]:
    drawn = list(chosen(package, calls, seed))
    with _limits():
        return [
            f"{case.key}({argument}={name}): {wrong}"
            for case, argument, name, bad in drawn
            if (wrong := _twice(case, argument, name, bad))
        ]


def _twice(case: Case, argument: str, name: str, bad: Any) -> str:
    """Return what is wrong with a call; one that is late is made again, as it may have compiled kernels."""
    # Ten minutes from now the process ends, should a compiled loop never come back.
    faulthandler.dump_traceback_later(600, exit=True, file=sys.__stderr__)
    found = outcome(case, argument, name, bad)
    return outcome(case, argument, name, bad) if found == LATE else found


def _around_the_folder(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of each file of the upper layer and beside the working folder."""
    found = {}
    for root in (folder.parent, Path(validate.__file__).parent):
        for at, below, names in os.walk(root):
            below[:] = [one for one in below if one[0] not in "._" and Path(at, one) != folder]
            found |= {f"{at}/{one}": os.stat(f"{at}/{one}") for one in names}
    return {name: (one.st_size, one.st_mtime_ns) for name, one in found.items()}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own; nothing outside of it may change."""
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    monkeypatch.setattr("sys.argv", ["superposition"])
    before = _around_the_folder(inside)
    yield inside
    assert _around_the_folder(inside) == before


@pytest.mark.parametrize("package", LOWER)
def test_bad_input_is_refused_by_name_or_answered_well(package):
    """Each function has a valid call, of which test_numbers.py compares what comes out."""
    assert [case.key for case in cases(package) if case.bound is None] == []
    assert _faults(package, ORDINARY, seed=0) == []


@pytest.mark.slow
def test_much_bad_input_is_refused_by_name_or_answered_well(random_seed):
    found = [fault for package in LOWER for fault in _faults(package, MANY, random_seed)]
    assert (random_seed, found) == (random_seed, [])


@pytest.mark.parametrize("calls", [ORDINARY, pytest.param(MANY, marks=pytest.mark.slow)])
def test_bad_input_of_the_upper_layer_is_nearly_always_refused_by_name(calls, random_seed):
    """No call is without end, or makes a number of what is none."""
    seed = random_seed if calls is MANY else 0
    assert [case.key for package in UPPER for case in cases(package) if case.bound is None] == []
    found = [fault for package in UPPER for fault in _faults(package, calls, seed)]
    assert (seed, [one for one in found if LATE in one or " makes a number " in one]) == (seed, [])
    assert len(found) < 0.01 * calls[1], (seed, found)


@pytest.mark.parametrize("size", [1e-200, 1e308])
def test_the_structure_of_a_matrix_has_no_scale(size):
    assert code_structure(np.eye(4) * size) == code_structure(np.eye(4))
