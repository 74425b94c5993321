"""Checks of arguments at the edge: every public function calls these once, kernels never.

Each check returns the argument in the form that the kernels want and raises a ``ValueError`` that
names the argument, says what is allowed and shows the value.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "FloatArray",
    "Real",
    "choice",
    "fits",
    "flag",
    "generator",
    "integer",
    "matrix",
    "number",
    "plain",
    "power_of_two",
    "real",
    "vector",
    "whole",
]

FloatArray = npt.NDArray[np.float64]
Real = float | FloatArray


def plain(value: FloatArray) -> Real:
    """Return a 0-d array as a number, any other as it is."""
    return float(value) if value.ndim == 0 else value


def _floats(name: str, value: Any) -> FloatArray:
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers have no order")
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be real numbers; got {value!r}.") from error


def real(
    name: str,
    value: npt.ArrayLike,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    brackets: str = "[]",
    hint: str = "",
) -> FloatArray:
    """Return `value` as float64 after checking that every entry is finite and in the interval.

    Parameters
    ----------
    name : str
        What the caller calls the argument.
    value : array_like of float
        Any shape.
    low, high : float, optional
        Ends of the interval that is allowed. An infinite end is never included.
    brackets : {"[]", "(]", "[)", "()"}, optional
        Whether the ends belong to the interval.
    hint : str, optional
        A sentence added to the message.

    Returns
    -------
    ndarray of float64
        Same shape as `value`.

    Raises
    ------
    ValueError
        If an entry is not a number, not finite or outside the interval.

    Examples
    --------
    >>> real("p", 1.2, 0, 1, brackets="(]")
    Traceback (most recent call last):
        ...
    ValueError: `p` must lie in (0, 1]; got 1.2.
    """
    array = _floats(name, value)
    above = array >= low if brackets[0] == "[" else array > low
    below = array <= high if brackets[1] == "]" else array < high
    good = above & below & np.isfinite(array)
    if not np.all(good):
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
    name: str, value: npt.ArrayLike, low: float = -np.inf, high: float = np.inf, *, brackets: str = "[]"
) -> float:
    """Return one float after checking that it is one number, finite and in the interval.

    Raises
    ------
    ValueError
        If it is an array, not finite or out of range.
    """
    array = real(name, value, low, high, brackets=brackets)
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {array.shape}.")
    return float(array)


def whole(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return counts as floats after checking that they are whole numbers of at least 1.

    Raises
    ------
    ValueError
        If one is not.
    """
    array = real(name, value, 1)
    broken = array[array != np.floor(array)]
    if broken.size:
        raise ValueError(f"`{name}` must be whole; got {broken.flat[0]:g}.")
    return array


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int after checking that it is whole and at least `low`, at most `high`.

    Raises
    ------
    ValueError
        If it is not a whole number or out of range.

    Examples
    --------
    >>> integer("n_features", 8, 1)
    8
    """
    rule = f"be an integer of at least {low}" + (f" and at most {high}" if high is not None else "")
    shown = value.item() if isinstance(value, np.generic) else value
    message = f"`{name}` must {rule}; got {shown!r}."
    if isinstance(value, bool | np.bool_) or np.ndim(value) != 0:
        raise ValueError(message)
    try:
        whole = int(value)
        exact = bool(whole == value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(message) from error
    if not exact or whole < low or (high is not None and whole > high):
        raise ValueError(message)
    return whole


def power_of_two(name: str, value: Any) -> int:
    """Return `value` as an int after checking that it is a power of two, 1 included.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> power_of_two("n_features", 12)
    Traceback (most recent call last):
        ...
    ValueError: `n_features` must be a power of two; got 12.
    """
    whole = integer(name, value, 1)
    if whole & (whole - 1):
        raise ValueError(f"`{name}` must be a power of two; got {whole}.")
    return whole


def _shaped(name: str, value: npt.ArrayLike, shape: Sequence[int | None]) -> FloatArray:
    array = _floats(name, value)
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"`{name}` must have shape ({wanted}); got {array.shape}.")
    if array.size == 0:
        raise ValueError(f"`{name}` must not be empty; got shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"`{name}` must be finite; got {array[bad]:g} at index {bad}.")
    return array


def vector(name: str, value: npt.ArrayLike, size: int | None = None) -> FloatArray:
    """Return `value` as a finite, non-empty float64 vector, of the given size if one is given.

    Raises
    ------
    ValueError
        If it has another shape, is empty or has an entry that is not finite.
    """
    return _shaped(name, value, (size,))


def matrix(
    name: str, value: npt.ArrayLike, shape: tuple[int | None, int | None] = (None, None)
) -> FloatArray:
    """Return `value` as a finite, non-empty float64 matrix; ``None`` in `shape` allows any size.

    Raises
    ------
    ValueError
        If it has another shape, is empty or has an entry that is not finite.
    """
    return _shaped(name, value, shape)


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return `value` after checking that it is one of the words in `allowed`.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> choice("device", "tpu", ["auto", "cpu", "cuda"])
    Traceback (most recent call last):
        ...
    ValueError: `device` must be one of 'auto', 'cpu', 'cuda'; got 'tpu'.
    """
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"`{name}` must be one of {words}; got {value!r}.")
    return value


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool after checking that it is True or False.

    Raises
    ------
    ValueError
        If it is anything else, also 0, 1 or a word.

    Examples
    --------
    >>> flag("tied", "no")
    Traceback (most recent call last):
        ...
    ValueError: `tied` must be True or False; got 'no'.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a Generator as it is, or a new one from a seed; None draws a fresh seed (SPEC 7).

    Raises
    ------
    ValueError
        If it is neither a Generator, nor an integer of at least 0, nor None.

    Examples
    --------
    >>> generator("rng", -1)
    Traceback (most recent call last):
        ...
    ValueError: `rng` must be a numpy.random.Generator, an integer of at least 0 or None; got -1.
    """
    if isinstance(value, np.random.Generator):
        return value
    seed = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
    if value is not None and not seed:
        rule = "be a numpy.random.Generator, an integer of at least 0 or None"
        raise ValueError(f"`{name}` must {rule}; got {value!r}.")
    return np.random.default_rng(value)


# Doubles in the largest array that a function makes unasked: 8 GiB.
_MOST_DOUBLES = 2**30


def fits(name: str, value: Any, doubles: float) -> None:
    """Check that the arrays which an argument asks for fit into memory.

    Raises
    ------
    ValueError
        If so many doubles would be more than 8 GiB.

    Examples
    --------
    >>> fits("n_features", 10**6, 10**12)
    Traceback (most recent call last):
        ...
    ValueError: `n_features` must be smaller: arrays of 7.5e+03 GiB would be needed; got 1000000.
    """
    if doubles > _MOST_DOUBLES:
        size = f"arrays of {doubles / 2**27:.2g} GiB would be needed"
        raise ValueError(f"`{name}` must be smaller: {size}; got {value!r}.")
