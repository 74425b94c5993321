"""Checks of arguments: every public function calls these once, kernels never.

Each check returns the argument in the form that the kernels want, or raises a ``ValueError`` (`instance` a
``TypeError``) that names the argument, says what is allowed and shows the value, shortened. `name` is the
argument's name in the caller's signature, `value` what was passed; numbers lie between `low` and `high`, ends
included unless `brackets` says otherwise. A number is what Python or NumPy counts as a real number. Text,
flags, dates, complex numbers and masked entries are none, also where NumPy would turn them into numbers.
"""

import functools
import inspect
import numbers
from collections.abc import Callable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = [
    "BoolArray",
    "ComplexArray",
    "FloatArray",
    "IntArray",
    "Real",
    "broadcast",
    "check_fits",
    "check_keywords",
    "choice",
    "choices",
    "count_noun",
    "doubles",
    "finite",
    "flag",
    "from_sparsity",
    "generator",
    "indices",
    "instance",
    "integer",
    "integers",
    "is_list",
    "matrix",
    "number",
    "numbers_or_repeat",
    "power_of_two",
    "probability",
    "real",
    "scalar_or_array",
    "short_repr",
    "square",
    "vector",
    "whole_numbers",
    "why_not_dense",
]  # fmt: skip

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
ComplexArray = npt.NDArray[np.complex128]
BoolArray = npt.NDArray[np.bool_]
Real = float | FloatArray
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


def scalar_or_array(value: FloatArray) -> Real:
    """Return a 0-d array as a number, and any other array unchanged."""
    return float(value) if value.ndim == 0 else value


def count_noun(count: int, thing: str) -> str:
    """Return the text "1 neuron", "2 neurons", ... for the number `count` and the noun `thing`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def is_list(value: Any) -> bool:
    """Return whether a value is a sequence other than text, or an array of at least one axis.

    >>> is_list([[1.0], [1.0, 2.0]]), is_list("ab"), is_list(np.array(1.0))
    (True, False, False)
    """
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def short_repr(value: Any, width: int = 80) -> str:
    """Return `repr(value)` on one line, cut to `width` characters.

    >>> short_repr([1, "a"]), short_repr(10**400), len(short_repr([0] * 1000))
    ("[1, 'a']", 'an integer of about 1e400', 80)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "to_numpy") and isinstance(getattr(value, "shape", None), tuple):
        return f"a {type(value).__name__} of shape {value.shape}"  # a frame's text is a table
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        sign = "-" if value < 0 else ""
        return f"an integer of about {sign}1e{int(value.bit_length() * 0.30103)}"
    try:
        text = " ".join(repr(value).split())
    except (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError):
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= width else text[: width - 4] + " ..."


_REFUSED = (ArithmeticError, AttributeError, MemoryError, RuntimeError, TypeError, ValueError)
# Numbers in the largest array that is taken, and doubles in the largest that is made: 2 GiB.
_MOST_TAKEN, _MOST_MADE = 2**30, 2**28
_MOST_LISTED = 10**6  # entries of a list that are looked at one after the other


def _is_misread_by_numpy(value: Any) -> bool:
    """Return whether NumPy would read as numbers a `value` with flags, bytes, masked entries or dates."""
    if isinstance(value, list | tuple):
        return any(map(_is_misread_by_numpy, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "bmM" or bool(np.ma.is_masked(value))
    return isinstance(value, bool | bytearray | memoryview)


def _is_real(value: Any) -> bool:
    """Return whether `value` is one real number; flags and NumPy's time spans do not count."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def _to_float(value: Any) -> float:
    """Return `value` as a float; TypeError if it is no real number."""
    if not _is_real(value):
        raise TypeError(f"{type(value).__name__} is no real number")
    return float(value)


def why_not_dense(value: Any) -> str:
    """Return why the tensor `value` cannot become an array, and what to do; "" if it can, or is no tensor."""
    if getattr(value, "is_meta", False) is True:
        return "a tensor on the meta device, where it has no values: load the weights first"
    if getattr(value, "is_nested", False) is True:
        return "a nested tensor"
    if not str(getattr(value, "layout", "strided")).endswith("strided"):
        return "a sparse tensor: pass it as .to_dense()"
    if getattr(value, "is_quantized", False) is True:
        return "a quantised tensor: pass it as .dequantize()"
    return ""


def _describe_mismatch(value: Any, error: Exception) -> str:
    """Return a description of `value`, which is not an array of real numbers, with a hint how to convert it.

    `error` is the exception that NumPy raised for it.
    """
    if why := why_not_dense(value):
        return f"{why}."
    if "inhomogeneous" in str(error):
        return f"{short_repr(value)}, whose rows differ in length."
    text = f"{short_repr(value)}."
    if getattr(value, "requires_grad", False) is True:
        return f"{text} Detach it from its gradient first."
    return f"{text} Pass it as .double()." if str(getattr(value, "dtype", "")) == "torch.bfloat16" else text


def doubles(name: str, value: Any) -> FloatArray:
    """Return `value`, numbers with inf and nan allowed, as a float64 array; otherwise raise a ValueError.

    >>> doubles("W", [1, np.nan])
    array([ 1., nan])
    """
    if type(value) is np.ndarray and value.dtype == np.float64 and value.size <= _MOST_TAKEN:
        return value
    if type(value) in (float, int):  # as quickly as can be
        try:
            return np.asarray(float(value))
        except OverflowError as error:
            raise ValueError(
                f"`{name}` must be real numbers below 1.8e308; got {short_repr(value)}."
            ) from error
    try:
        if _is_misread_by_numpy(value):
            raise TypeError("flags, bytes and entries without a value are no real numbers")
        if isinstance(value, range) and len(value) > _MOST_TAKEN:
            raise MemoryError("so many numbers do not fit into memory")
        array = np.asarray(value)
        if array.dtype.kind in "bMmUScV":
            raise TypeError(f"{array.dtype} are no real numbers")
        if array.dtype.kind == "O":
            array = np.array([_to_float(entry) for entry in array.flat], dtype=np.float64).reshape(
                array.shape
            )
        if array.size > _MOST_TAKEN:
            raise MemoryError("so many numbers do not fit into memory")
        with np.errstate(over="ignore"):  # longer floats than doubles become inf, which is refused
            return np.asarray(array, dtype=np.float64)
    except _REFUSED as error:
        raise ValueError(f"`{name}` must be real numbers; got {_describe_mismatch(value, error)}") from error


def real(
    name: str,
    value: npt.ArrayLike,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    brackets: str = "[]",
    hint: str = "",
) -> FloatArray:
    """Return `value` as a float64 array; raise a ValueError unless all entries are finite and in range.

    The range is from `low` to `high`; `brackets` ("[]", "(]", "[)" or "()") say whether the ends are
    included, which infinite ones never are. `hint` is a sentence added to the message.

    >>> real("p", 1.2, 0, 1, brackets="(]")
    Traceback (most recent call last):
        ...
    ValueError: `p` must lie in (0, 1]; got 1.2.
    """
    array = doubles(name, value)
    above = array >= low if brackets[0] == "[" else array > low
    below = array <= high if brackets[1] == "]" else array < high
    good = above & below & np.isfinite(array)
    if not good.all():
        bad = array[~good].flat[0]
        if np.isneginf(low) and np.isposinf(high):
            rule = "be finite"
        else:
            left = "(" if np.isneginf(low) else brackets[0]
            right = ")" if np.isposinf(high) else brackets[1]
            rule = f"lie in {left}{low:g}, {high:g}{right}"
        raise ValueError(f"`{name}` must {rule}; got {bad:g}." + (f" {hint}" if hint else ""))
    return array


def number(
    name: str,
    value: npt.ArrayLike,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    brackets: str = "[]",
    hint: str = "",
) -> float:
    """Return `value` as a float; ValueError unless it is one finite number in range.

    The range is from `low` to `high`; `brackets` ("[]", "(]", "[)" or "()") say which ends are included, and
    `hint` is added to the message.
    """
    if type(value) is float and low < value < high:  # as quickly as can be
        return value
    array = doubles(name, value)
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {array.shape}.")
    return float(real(name, array, low, high, brackets=brackets, hint=hint))


def probability(name: str, value: npt.ArrayLike, *, low: float = 0.0) -> FloatArray:
    """Return `value` as an array of probabilities; raise a ValueError unless all lie in (0, 1].

    With a positive `low`, they must lie in [low, 1].

    >>> probability("p", 0)
    Traceback (most recent call last):
        ...
    ValueError: `p` must lie in (0, 1]; got 0. For sparsity S pass 1 - S.
    """
    return real(name, value, low, 1, brackets="[]" if low > 0 else "(]", hint="For sparsity S pass 1 - S.")


def from_sparsity(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return p = 1 - S exactly rounded, 0.05 for 0.95; raise a ValueError unless all S are in [0, 1).

    In doubles 1.0 - 0.95 is 0.050000000000000044, which does not equal 0.05.

    Examples
    --------
    >>> from_sparsity("sparsity", [0.95, 0.999]).tolist()
    [0.05, 0.001]
    """
    checked = real(name, value, 0.0, 1.0, brackets="[)", hint="For a probability p pass 1 - p.")
    return np.array([1 - Decimal(repr(S)) for S in checked.ravel().tolist()], float).reshape(checked.shape)


def whole_numbers(name: str, value: npt.ArrayLike, low: float = 1, high: float = np.inf) -> FloatArray:
    """Return counts as a float array; raise a ValueError unless all are whole, from `low` to `high`."""
    array = real(name, value, low, high)
    fractional = array[array != np.floor(array)]
    if fractional.size:
        raise ValueError(f"`{name}` must be whole; got {fractional.flat[0]:g}.")
    return array


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int; raise a ValueError unless it is whole, at least `low` and at most `high`.

    >>> integer("n_features", 8, 1)
    8
    """
    rule = f"be an integer of at least {low}" + (f" and at most {high}" if high is not None else "")
    message = f"`{name}` must {rule}; got {short_repr(value)}."
    try:
        # An array without axes is the number in it; `item` would turn spans of time into integers.
        scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if not _is_real(scalar) or np.ma.is_masked(value):
            raise TypeError(message)
        number = int(scalar)
        exact = bool(number == scalar)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(message) from error
    if not exact or number < low or (high is not None and number > high):
        raise ValueError(message)
    return number


def integers(**arguments: tuple[Any, int] | tuple[Any, int, int]) -> list[int]:
    """Return the arguments as ints, checked by `integer`, from (value, least) or (value, least, largest)."""
    return [integer(name, *argument) for name, argument in arguments.items()]


def power_of_two(name: str, value: Any) -> int:
    """Return `value` as an int; raise a ValueError unless it is a power of two, 1 included."""
    exponent = integer(name, value, 1)
    if exponent & (exponent - 1):
        raise ValueError(f"`{name}` must be a power of two; got {short_repr(exponent)}.")
    return exponent


_ANY_SHAPE: dict[tuple[int | None, ...], str] = {
    (None,): "be a list of numbers, of one axis",
    (None, None): "be a matrix, of two axes",
}


def _checked_shape(
    name: str, array: FloatArray, shape: Sequence[int | None], largest: float = np.inf
) -> FloatArray:
    """Return `array`; ValueError unless it has this shape (None: any size) and sizes of at most `largest`."""
    fits = array.ndim == len(shape)
    for have, expected in zip(array.shape, shape, strict=False):
        fits = fits and expected in (None, have)
    if not fits:
        wanted = ", ".join("any" if expected is None else str(expected) for expected in shape)
        rule, word = f"have shape ({wanted})", ""
        if tuple(shape) in _ANY_SHAPE:
            rule, word = _ANY_SHAPE[tuple(shape)], "shape "
        actual = f"{word}{array.shape}" if array.ndim else "a single number"
        raise ValueError(f"`{name}` must {rule}; got {actual}.")
    if array.size == 0:
        raise ValueError(f"`{name}` must not be empty; got shape {array.shape}.")
    if not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"`{name}` must be finite; got {array[bad]:g} at index {bad}.")
    if (np.abs(array) > largest).any():
        real(name, array, -largest, largest)  # which says so
    return array


def vector(name: str, value: npt.ArrayLike, size: int | None = None) -> FloatArray:
    """Return `value` as a float64 vector; raise a ValueError if it is empty, not finite or not of `size`."""
    return _checked_shape(name, doubles(name, value), (size,))


def indices(name: str, value: npt.ArrayLike, size: int, *, distinct: bool = False) -> IntArray:
    """Return a vector of indices, also of a single one; raise a ValueError unless all are in [0, size).

    If `distinct`, none may be repeated.
    """
    array = numbers_or_repeat(name, value)
    wrong = array[(array < 0) | (array >= size) | (array != np.floor(array))]
    if wrong.size:
        raise ValueError(f"`{name}` must be integers from 0 to {size - 1}; got {wrong[0]:g}.")
    unique, times = np.unique(array, return_counts=True)
    if distinct and unique.size < array.size:
        raise ValueError(f"`{name}` must be distinct; got {unique[times > 1][0]:g} twice.")
    return array.astype(np.int64)


def numbers_or_repeat(
    name: str, value: npt.ArrayLike, size: int | None = None, largest: float = np.inf
) -> FloatArray:
    """Return a vector of `size` numbers, a single one repeated; raise a ValueError for another size.

    Without a `size`, a single number becomes a vector of one. Absolute values are at most `largest`.
    """
    array = doubles(name, value)
    repeated = array if array.ndim else np.full(1 if size is None else size, array)
    return _checked_shape(name, repeated, (size,), largest)


def matrix(
    name: str,
    value: npt.ArrayLike,
    shape: tuple[int | None, int | None] = (None, None),
    largest: float = np.inf,
) -> FloatArray:
    """Return `value` as a float64 matrix; raise a ValueError if it is empty, not finite or not of `shape`.

    ``None`` in `shape` allows any size. Absolute values of entries are at most `largest`.
    """
    return _checked_shape(name, doubles(name, value), shape, largest)


def square(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return `value` as a `matrix`; raise a ValueError unless it has as many rows as columns."""
    array = matrix(name, value)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"`{name}` must be square; got shape {array.shape}.")
    return array


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """Return `value`; raise a ValueError unless it is one of the words in `options`."""
    if not isinstance(value, str) or value not in options:
        words = ", ".join(repr(word) for word in options)
        raise ValueError(f"`{name}` must be one of {words}; got {short_repr(value)}.")
    return value


def choices(name: str, value: Any, options: Sequence[str]) -> tuple[str, ...]:
    """Return words as a tuple; raise a ValueError unless there is at least one and each is in `options`."""
    listed = isinstance(value, Sequence | set | frozenset | dict) and not isinstance(value, str | range)
    words = tuple(value) if listed and len(value) <= _MOST_LISTED else ()
    if not words or not all(isinstance(word, str) and word in options for word in words):
        rule = ", ".join(repr(word) for word in options)
        raise ValueError(f"`{name}` must be a list of words out of {rule}; got {short_repr(value)}.")
    return words


def instance(name: str, value: Any, kind: type[C]) -> C:
    """Return `value`; raise a TypeError unless it is an instance of `kind`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"`{name}` must be {article} {kind.__name__}; got {short_repr(value)}.")
    return value


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool; raise a ValueError unless it is True or False: 0, 1 and words are neither."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False; got {short_repr(value)}.")
    return bool(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """Return `value` if it is a Generator, else a new one from this seed; None draws a fresh seed (SPEC 7).

    Anything else raises a ValueError.
    """
    if isinstance(value, np.random.Generator):
        return value
    if value is None or isinstance(value, np.random.BitGenerator | np.random.SeedSequence):
        return np.random.default_rng(value)
    try:
        return np.random.default_rng(integer(name, value, 0))
    except ValueError as error:
        rule = "be a numpy.random.Generator, an integer of at least 0 or None"
        raise ValueError(f"`{name}` must {rule}; got {short_repr(value)}.") from error


def _address_space() -> float:
    """Return how many more bytes of address space this process may take; inf without a known limit."""
    try:
        import resource
    except ImportError:  # Windows
        return np.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return np.inf
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return float(limit - int(file.read().split()[0]) * resource.getpagesize())
    except OSError:  # no Linux
        return float(limit)


def check_fits(name: str, value: Any, size: float) -> None:
    """Raise a ValueError unless `size` doubles, which the argument `name` needs, fit into memory and 2 GiB.

    If the process has a smaller limit (`ulimit -v`), it applies: beyond it linear algebra ends the process
    without an exception.
    """
    if not size <= min(_MOST_MADE, _address_space() / 8):
        gigabytes = f"{size / 2**27:.2g}" if size < 2**1000 else "more than 1e290"
        rule = f"be smaller: arrays of {gigabytes} GiB would be needed"
        raise ValueError(f"`{name}` must {rule}; got {short_repr(value)}.")


def broadcast(**arrays: FloatArray) -> list[FloatArray]:
    """Return the arrays, given by name, broadcast together; raise a ValueError if their shapes do not fit."""
    try:
        return list(np.broadcast_arrays(*arrays.values()))
    except ValueError as error:
        names = ", ".join(f"`{name}`" for name in arrays)
        shapes = ", ".join(str(array.shape) for array in arrays.values())
        raise ValueError(f"{names} must have shapes that broadcast together; got {shapes}.") from error


# What other projects call our arguments.
_ALSO = {
    "S": "sparsity", "density": "p", "feature_probability": "p", "prob": "p", "probability": "p",
    "d": "n_hidden", "m": "n_hidden", "n_neurons": "n_hidden", "width": "n_hidden", "widths": "n_hidden",
    "d_hidden": "n_hidden", "n": "n_features", "d_in": "n_features", "weights": "importance", "seed": "rng",
    "random_state": "rng", "budget": "seconds", "time": "seconds", "timeout": "seconds", "folder": "store",
    "cache": "store", "n_jobs": "jobs", "workers": "jobs", "n_starts": "starts", "restarts": "starts",
    "n_restarts": "starts", "grad": "gradient", "distribution": "values", "mixing": "dictionary",
    "phi": "dictionary", "p": "law",
}  # fmt: skip


# (function, name): what to do instead, where it is no argument's other name.
_ELSEWHERE = {
    ("Features", "names"): ": give names to `best`, as best(law, n_hidden, names=…).",
    ("watch", "every"): ": where a record is due, call log(model, step, force=True).",
}


def check_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its TypeError for an unknown keyword suggests the argument meant.

    Examples
    --------
    >>> @check_keywords
    ... def best(law, n_hidden, *, starts=20):
    ...     return starts
    >>> best(0.1, 2, start=5)
    Traceback (most recent call last):
        ...
    TypeError: `start` is no argument of best; did you mean `starts`? It takes law, n_hidden, starts.
    """
    parameters = inspect.signature(function).parameters
    names = [name for name in parameters if name != "self"]
    known = set(names) | {"self"}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function

    @functools.wraps(function)
    def with_keyword_check(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, or raise the TypeError for an unknown keyword."""
        for name in kwargs.keys() - known:
            near = [_ALSO[name]] if _ALSO.get(name) in known else get_close_matches(name, names, 1, 0.5)
            meant = f"; did you mean `{near[0]}`?" if near else "."
            qualname = function.__qualname__.removesuffix(".__init__")
            meant = _ELSEWHERE.get((qualname, name), meant)
            raise TypeError(f"`{name}` is no argument of {qualname}{meant} It takes {', '.join(names)}.")
        return function(*args, **kwargs)

    return with_keyword_check


def _shapes_agree(values: Sequence[Any]) -> bool:
    """Return whether the shapes of `values` broadcast together; True also if one of them has no shape."""
    try:
        shapes = [np.shape(value) for value in values]
    except _REFUSED:  # it has no shape, which is another fault
        return True
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def finite(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: raise a ValueError where an entry of its result would be inf or nan.

    The function takes any finite numbers, and returns a number, an array or a tuple of these. The
    ``ValueError`` names the arguments, and replaces NumPy's warnings. It is raised too where arguments do not
    broadcast together.

    >>> finite(lambda x: np.square(x))(1e200)
    Traceback (most recent call last):
        ...
    ValueError: `x` must be such that the result is a finite double; got x = 1e+200.
    """
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def with_finite_check(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and raise the ValueError if its result is not finite."""
        rule = "such that the result is a finite double"
        cause: Exception | None = None
        try:
            with np.errstate(all="ignore"):
                result = function(*args, **kwargs)
            parts = result if isinstance(result, tuple) else (result,)
            if all(np.all(np.isfinite(part)) for part in parts):  # type: ignore[arg-type]
                return result
        except ArithmeticError as error:
            cause = error
        except ValueError as error:
            # A message that names an argument is a check's own; arguments that fit are not at fault.
            if str(error).startswith("`") or _shapes_agree([*args, *kwargs.values()]):
                raise
            rule, cause = "of shapes that broadcast together", error
        arguments = dict(zip(names, args, strict=False)) | kwargs
        which = ", ".join(f"`{name}`" for name in arguments)
        values = ", ".join(f"{name} = {short_repr(value, 40)}" for name, value in arguments.items())
        raise ValueError(f"{which} must be {rule}; got {values}.") from cause

    return with_finite_check
