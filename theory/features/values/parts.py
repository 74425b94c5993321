"""The form in which kernels take a law of values."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ...compile.kernels import call_pointer, compile_pointer, inlined, kernel
from ...validation import ComplexArray, FloatArray

__all__ = ["KernelLaw", "Three", "all_transforms", "given_nonzero", "transform_pointer", "transforms"]

Three = tuple[complex, complex, complex]


class KernelLaw(NamedTuple):
    """The law of a feature's value when on, in numbers and arrays, as compiled kernels take it.

    v is the value. The density of v is a polynomial on each of several intervals, the pieces; atoms are
    values of positive probability.
    """

    transform: tuple[int, float]
    """Address of the compiled E v^r exp(z v), r = 0, 1, 2, and its shape parameter; see `transforms`."""
    low: float
    high: float
    reach: float
    """The largest |v|."""
    mean: float
    square: float
    atoms: FloatArray
    """(k, 2): values of positive probability, and these probabilities."""
    ends: FloatArray
    """(l, 2): ends of the intervals on which the density is a polynomial."""
    density: FloatArray
    """(l, degree + 1): coefficients of these polynomials, lowest power first."""
    corners: FloatArray
    """0, all atoms and the ends of all pieces, ascending."""
    nodes: FloatArray
    """Points of a Gauss-Legendre rule on [0, 1], exact for the density times a squared error."""
    weights: FloatArray
    jumps: FloatArray
    """(j, 3): place, size and order of the jumps of the density and its derivatives."""
    edge: float
    """\\|E exp(z v)\\| <= edge (1 + exp(reach \\|Re z\\|))/\\|z\\|."""
    sides: int
    """1 for values uniform on [0, 1], 2 on [-1, 1], 0 for values that are 1, -1 for all others."""
    angle: float
    """The transform is bounded for z between this angle and a right angle; 0 if no angle is known."""
    size: float
    """Size of the values where `angle` is used."""


def transform_pointer(transform: Callable[..., Three] | None, shape: float | None) -> tuple[int, float]:
    """Compile a law's transform; return its address and its shape parameter, (0, 0.0) for no transform.

    `transform` returns E v^r exp(z v), r = 0, 1, 2, at a complex z, and takes the float `shape` as a second
    argument unless that is None.
    """
    if transform is None:
        return 0, 0.0
    compiled = transform if hasattr(transform, "py_func") else _compiled(transform)
    return compile_pointer(compiled, shape is not None), float(shape or 0.0)


@cache
def _compiled(function: Any) -> Any:
    """Return the function compiled for other kernels, cached."""
    return inlined(function)


def given_nonzero(transform: Callable[..., Three], shaped: bool, share: float) -> Any:
    """Return the compiled transform of a value v given v != 0, an event of probability `share`.

    A transform returns E v^r exp(z v), r = 0, 1, 2, at a complex z. `transform` is the unconditional one of
    v. If `shaped`, both take the law's shape parameter as a second argument.
    """
    full_transform: Any = transform if hasattr(transform, "py_func") else _compiled(transform)
    none = 1.0 - share

    if shaped:

        @inlined
        def conditional_transform(z: complex, shape: float) -> Three:
            """Return E v^r e^(zv), r = 0, 1, 2, given that v is not 0."""
            a, b, c = full_transform(z, shape)
            return (a - none) / share, b / share, c / share

    else:

        @inlined
        def conditional_transform(z: complex) -> Three:  # type: ignore[misc]
            """Return E v^r e^(zv), r = 0, 1, 2, given that v is not 0."""
            a, b, c = full_transform(z)
            return (a - none) / share, b / share, c / share

    return conditional_transform


@inlined
def transforms(transform: tuple[int, float], z: complex) -> Three:
    """Return E v^r exp(z v) for r = 0, 1, 2 of a law of values.

    `transform` is `KernelLaw.transform`: the address of the law's compiled function, its shape parameter.
    """
    return call_pointer(transform[0], z, transform[1])


@kernel
def all_transforms(transform: tuple[int, float], z: ComplexArray, out: ComplexArray) -> None:
    """Write E v^r exp(z v) of a law of values, r = 0, 1, 2, to the rows of `out`, (3, z.size), z a vector.

    `transform` is `KernelLaw.transform`: the address of the law's compiled function, its shape parameter.
    """
    for i in range(z.size):
        out[0, i], out[1, i], out[2, i] = transforms(transform, z[i])
