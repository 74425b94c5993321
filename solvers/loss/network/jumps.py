r"""Series for neurons that jump, or for probabilities that they are on, where values are atoms.

A sum over frequencies takes the middle of a jump at an atom of the pre-activation z, and blurs it nearby.
Where all z lie on a lattice, b + k d with whole k, a finite Fourier series is any function there exactly:
`lattice_series`. Otherwise `mass_at_threshold` bounds what the blur may do. With Gaussian weights on its
frequencies the square wave becomes a function S of z that rises from 0 to 1 through 1/2 at the threshold, as
it is the wave's mean over a normal variable. So

    |1(z > t) - S(z)| <= 2 S(z) (1 - S(z)),

whose mean is a sum over frequencies too, of both parities and twice as far.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....theory.model import rounding_of_sum
from ....theory.validation import ComplexArray, FloatArray
from .groups import unit_products
from .pair_fourier_kernels import characteristic_function

if TYPE_CHECKING:
    from .neuron_means import HiddenNeuron

__all__ = ["LatticeSeries", "blur_series", "gaussian_taper", "lattice_series", "mass_at_threshold"]

MOST_POINTS = 2**14  # of a lattice
MOST_PARTS = 64  # of the least weight that are tried as the lattice's step
WHOLE = 2.0**-46  # what multiples of a step may differ from whole numbers by, relative to the largest
# The last frequency in standard deviations of the Gaussian weights: what is left out is e^(-36).
DEVIATIONS = 8.5


class LatticeSeries(NamedTuple):
    """Finite Fourier series of functions of one neuron: frequencies, inputs' transforms, coefficients."""

    s: FloatArray
    """(count,): 0 and positive ones; sums of real parts stand for both signs."""
    phi: ComplexArray
    """(3, inputs, count): E v^r e^{isvw} of each input's value v with its weight w, r = 0, 1, 2."""
    weight: ComplexArray
    """(count,): coefficients of the activation."""
    slope: ComplexArray
    """(count,): coefficients of its derivative by the bias, half at the kink of a ReLU."""
    step: ComplexArray
    """(count,): coefficients of 1(z > t)."""
    rounding: float
    """Rounding error of a sum over frequencies, over the sum of |coefficients|."""


def _common_step(sizes: FloatArray) -> float:
    """Return the largest number of which all `sizes` are multiples, but for rounding; 0 if there is none."""
    largest = float(sizes.max())
    sizes = sizes[sizes > WHOLE * largest]
    least = float(sizes.min())
    for parts in range(1, MOST_PARTS + 1):
        multiples = sizes * (parts / least)
        integers = np.rint(multiples)
        if np.all(np.abs(multiples - integers) <= WHOLE * largest * parts / least):
            return float(sizes @ integers / (integers @ integers))
    return 0.0


def lattice_series(unit: "HiddenNeuron") -> LatticeSeries | None:
    """Return finite Fourier series, exact on all values of z, of functions of the neuron `unit`.

    z is its pre-activation; the functions are the activation, its derivative by the bias, and 1(z > t). None
    if the values of z lie on no lattice of few points.
    """
    context, w = unit.context, unit.w[unit.inputs]
    steps = np.outer(w, context.atoms[:, 0])
    sizes = np.abs(steps[steps != 0.0])
    step = _common_step(sizes) if sizes.size else 1.0
    if step == 0.0 or sizes.sum() > MOST_POINTS * step:
        return None
    multiples = np.rint(steps / step)
    low, high = np.minimum(multiples, 0.0).min(axis=1).sum(), np.maximum(multiples, 0.0).max(axis=1).sum()
    k = np.arange(low, high + 1.0)
    z = unit.b + step * k
    slack = rounding_of_sum(abs(unit.b) + unit.t + sizes.sum(), w.size)
    on = z > unit.t + slack
    half = (np.abs(z) <= slack) & (unit.t == 0.0)
    twice = np.full(k.size // 2 + 1, 2.0)
    twice[0] = 1.0
    if k.size % 2 == 0:
        twice[-1] = 1.0

    def coefficients(values: FloatArray) -> ComplexArray:
        """Return the Fourier coefficients of a function with these values at the lattice's points."""
        placed = np.zeros(k.size)
        placed[np.asarray(k, int) % k.size] = values
        coefficients: ComplexArray = np.fft.rfft(placed) / k.size * twice
        return coefficients

    # In z - b; the features' transforms are at s times their weights.
    s = np.asarray(2.0 * np.pi / (k.size * step) * np.arange(twice.size), np.float64)
    y, values = np.outer(w, s), context.law.values
    phi = characteristic_function(values, float(np.abs(y).max(initial=0.0))).at(values, y)
    rounding = 2.0**-50 * (w.size + 4.0 * float(np.abs(multiples).max(axis=1).sum()))
    return LatticeSeries(
        s, phi, coefficients(np.where(on, z, 0.0)), coefficients(on + 0.5 * half), coefficients(1.0 * on),
        rounding,
    )  # fmt: skip


def gaussian_taper(count: int) -> FloatArray:
    """Return weights (1 + count,) of frequency 0 and `count` odd ones: 1, then Gaussian ones from 2 to 0.

    With these the Fourier series of a step rises without overshooting.
    """
    x = np.arange(1.0, 2.0 * count, 2.0) / (2.0 * count)
    return np.asarray(np.r_[1.0, 2.0 * np.exp(-0.5 * (DEVIATIONS * x) ** 2)])


def blur_series(unit: "HiddenNeuron", count: int) -> tuple[ComplexArray, ComplexArray]:
    """Return (transforms of the inputs, Fourier coefficients c_k of 2 S(z) (1 - S(z))), of a neuron.

    2 S (1 - S) = Re sum_k c_k e^{i s_k (z - b)}; z is the pre-activation of `unit`, b its bias, t its
    threshold. S is a smooth step, the Fourier series of 1(z > t) with `count` frequencies and Gaussian
    weights. c is (frequencies,), with 2 `count` frequencies s_k; the transforms, (inputs, frequencies), are E
    e^{i s_k w v} for an input of weight w and its value v when on.
    """
    k = np.arange(1.0, 2.0 * count, 2.0)
    odd = np.zeros(4 * count + 1, np.complex128)  # of S - 1/2, from -2 count to 2 count
    wave = 0.5 * gaussian_taper(count)[1:] / (1j * np.pi * k)
    odd[2 * count + k.astype(int)], odd[2 * count - k.astype(int)] = wave, wave.conj()
    square = np.fft.ifft(np.fft.fft(odd, 2 * odd.size) ** 2)[4 * count : 8 * count : 2]
    s = 2.0 * np.pi / unit.reach[1] * np.arange(square.size)
    y, values = np.outer(unit.w[unit.inputs], s), unit.context.law.values
    phi = characteristic_function(values, float(np.abs(y).max(initial=0.0))).at(values, y)[0]
    coefficients = -2.0 * square * np.exp(1j * s * (unit.b - unit.t)) * np.r_[1.0, np.full(s.size - 1, 2.0)]
    coefficients[0] += 0.5
    return phi, coefficients


def mass_at_threshold(unit: "HiddenNeuron", count: int) -> float:
    """Return a bound of E |1(z > t) - S(z)| where two inputs or more are on, for the blurred step S.

    S is the Fourier series of 1(z > t) with `count` frequencies and Gaussian weights; z and t are those of
    the neuron `unit`.
    """
    phi, coefficients = blur_series(unit, count)
    rest = unit_products(unit.input_law, 2, phi)
    return float(max(np.sum(coefficients * rest).real, 0.0)) + 2.0**-44
