"""Checks and forms of arguments that the package's formulas share."""

import numpy as np
import numpy.typing as npt

from .. import arguments

__all__ = ["FloatArray", "Real", "number", "plain", "whole"]

FloatArray = npt.NDArray[np.float64]
Real = float | FloatArray


def plain(value: FloatArray) -> Real:
    """Return a 0-d array as a number, any other as it is."""
    return float(value) if value.ndim == 0 else value


def number(name: str, value: npt.ArrayLike, high: float = np.inf, *, brackets: str = "[]") -> float:
    """Return one number from 0 to `high` after checking that it is.

    Raises
    ------
    ValueError
        If it is an array, not finite or out of range.
    """
    array = arguments.real(name, value, 0.0, high, brackets=brackets)
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
    array = arguments.real(name, value, 1)
    broken = array[array != np.floor(array)]
    if broken.size:
        raise ValueError(f"`{name}` must be whole; got {broken.flat[0]:g}.")
    return array
