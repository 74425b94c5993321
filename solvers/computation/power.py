r"""Exact mean of the fourth, or another even, power of the error of networks of two features.

Given which features are on, the error is a polynomial of the values between the lines where a neuron turns on
and the axes, where the target bends. Gauss points on the pieces integrate it without error: along one value
between the places of the lines, then along the other between the places where these places meet each other or
leave the square.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from ...theory import validation
from ...theory.model import Model
from ...theory.validation import FloatArray
from ..results import frozen, result

__all__ = ["PowerNetwork", "best_power", "power_loss"]

_TARGETS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "abs": np.abs,
}
_MOST = 8  # the largest power


@result
class PowerNetwork:
    """The best network of two features that a search found for a power of the error; see `best_power`."""

    model: Model
    """The network."""
    loss: float
    """Mean over outputs of the mean power of the error: per feature."""
    naive: float
    """Loss of the network whose neuron computes one target, with the best constant for the other."""


def _with_axes_and_ends(points: FloatArray) -> FloatArray:
    """Return -1, 0, 1 and the points in (-1, 1), sorted and distinct."""
    return np.unique(np.r_[-1.0, 0.0, 1.0, points[np.abs(points) < 1.0]])


def _gauss_points(edges: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights, flat, of Gauss-Legendre rules for the mean over [-1, 1].

    Each interval between neighbouring `edges`, which ascend, has `count` points.
    """
    x, w = np.polynomial.legendre.leggauss(count)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * x).ravel(), (half * w).ravel() / 2


def _zeros_of_lines(rows: FloatArray, b: FloatArray) -> FloatArray:
    """Return the numbers x at which rows[k] x + b[k] is 0, for all k with a rows[k] that is not 0."""
    moves = np.abs(rows) > 1e-300
    with np.errstate(over="ignore"):
        kinks = -b[moves] / rows[moves]
    return np.asarray(kinks[np.isfinite(kinks)])


def points(U: FloatArray, b: FloatArray, p: float, power: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes (k, 2) and weights (k,) of a quadrature rule for means over two features x.

    The features are independent, on with probability p and then uniform on [-1, 1]. The rule is exact for
    functions that are polynomials of degree `power` between the axes and the kinks of ReLU(U x + b).
    """
    order = power // 2 + 2
    inputs, weights = [np.zeros((1, 2))], [np.array([(1 - p) ** 2])]
    for k in range(2):
        x, w = _gauss_points(_with_axes_and_ends(_zeros_of_lines(U[:, k], b)), order)
        inputs.append(x[:, None] * np.eye(2)[k])
        weights.append(p * (1 - p) * w)
    meets = [_zeros_of_lines(U[:, 0], b + U[:, 1] * side) for side in (-1.0, 0.0, 1.0)]
    for i, j in combinations(range(len(b)), 2):
        meets.append(
            _zeros_of_lines(
                np.array([U[i, 0] * U[j, 1] - U[j, 0] * U[i, 1]]), np.array([b[i] * U[j, 1] - b[j] * U[i, 1]])
            )
        )
    for x, w in zip(*_gauss_points(_with_axes_and_ends(np.concatenate(meets)), order), strict=True):
        y, v = _gauss_points(_with_axes_and_ends(_zeros_of_lines(U[:, 1], b + U[:, 0] * x)), order)
        inputs.append(np.column_stack([np.full(y.size, x), y]))
        weights.append(p * p * w * v)
    return np.concatenate(inputs), np.concatenate(weights)


def _power_and_gradient(
    U: FloatArray, b: FloatArray, V: FloatArray, c: FloatArray, p: float, power: int, target: str
) -> tuple[float, tuple[FloatArray, ...]]:
    """Return the mean of error^power over inputs and outputs, and its derivatives by U, b, V and c.

    The network is V ReLU(U x + b) + c, the error its difference to the `target` of x, "relu" or "abs". The
    two features x are independent, on with probability p and then uniform on [-1, 1].
    """
    x, w = points(U, b, p, power)
    z = x @ U.T + b
    h = np.maximum(z, 0.0)
    error = h @ V.T + c - _TARGETS[target](x)
    slope = power * w[:, None] * error ** (power - 1) / 2
    back = (slope @ V) * (z > 0)
    return float(w @ (error**power).sum(axis=1)) / 2, (back.T @ x, back.sum(0), slope.T @ h, slope.sum(0))


def power_loss(model: Model, p: float, *, power: int = 4, target: str = "relu") -> float:
    """Return the exact mean of error^power for two independent features, uniform on [-1, 1] when on.

    Parameters
    ----------
    model : Model
        Network of two features and two outputs, with hidden neurons "relu" and the output "identity".
    p : float
        Probability that a feature is on, in (0, 1].
    power : int, optional
        Even, from 2 to 8.
    target : {"relu", "abs"}, optional
        Function of each feature that the outputs should be.

    Returns
    -------
    float
        Mean over the two outputs; relative error some hundred roundings, as all terms are positive.

    Raises
    ------
    ValueError
        If an argument is out of range or the model has another form.

    Examples
    --------
    >>> shared = Model([[1.0, 1.0]], hidden="relu", W_out=[[0.5], [0.5]], output="identity")
    >>> alone = Model([[1.0, 0.0]], hidden="relu", W_out=[[1.0], [0.0]], output="identity")
    >>> [round(power_loss(one, 0.01) / 0.01, 6) for one in (shared, alone)]
    [0.012635, 0.05]
    """
    known = validation.instance("model", model, Model)
    if (known.n_features, known.n_outputs, known.hidden, known.output) != (2, 2, "relu", "identity"):
        rule = "two features, two outputs, ReLU neurons and a linear output"
        raise ValueError(f"`model` must have {rule}; got {known!r}.")
    on = validation.number("p", p, 0.0, 1.0, brackets="(]")
    goal = validation.choice("target", target, tuple(_TARGETS))
    return _power_and_gradient(known.W_in, known.b_in, known.W_out, known.b, on, _checked_even(power), goal)[
        0
    ]


def _checked_even(power: int) -> int:
    """Return `power` as an int; ValueError unless it is even and from 2 to 8."""
    exponent = validation.integer("power", power, 2, _MOST)
    if exponent % 2:
        raise ValueError(f"`power` must be even; got {exponent}.")
    return exponent


def best_power(
    p: float,
    *,
    power: int = 4,
    target: str = "relu",
    starts: int = 2,
    rng: np.random.Generator | int | None = None,
) -> PowerNetwork:
    """Return the best single ReLU neuron found for two features, for an even power of the error.

    Parameters
    ----------
    p : float
        Probability that a feature is on, in [1e-100, 1].
    power, target : int, {"relu", "abs"}, optional
        Even power of the error, from 2 to 8; function of each feature that the outputs should be. Errors are
        those of `power_loss`.
    starts, rng : int, Generator or int, optional
        Random starts, beside the naive neuron (of one feature alone) and the sum of both features, and what
        draws them.

    Returns
    -------
    PowerNetwork
        With biases of the neuron and of the readout; an upper bound on the least loss.

    Examples
    --------
    >>> found = best_power(0.01, starts=1, rng=0)
    >>> found.loss < 0.4 * found.naive, found.model.W_in.round(2)
    (True, array([[1., 1.]]))
    """
    on = validation.number("p", p, 1e-100, 1.0)
    goal, even = validation.choice("target", target, tuple(_TARGETS)), _checked_even(power)
    count, generator = validation.integer("starts", starts, 0, 10_000), validation.generator("rng", rng)

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean power of the error, over p, of the network z = (U, b, V, c), and its gradient."""
        power_value, (by_U, by_b, by_V, by_c) = _power_and_gradient(
            z[None, :2], z[2:3], z[3:5, None], z[5:], on, even, goal
        )
        return power_value / on, np.r_[by_U.ravel(), by_b, by_V.ravel(), by_c] / on

    def ended(z: FloatArray, zero_bias: bool) -> tuple[float, FloatArray]:
        """Return (value, z) at the end of a descent from z, with the hidden bias held at 0 if `zero_bias`."""
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * 7
        if zero_bias:
            bounds[2] = (0.0, 0.0)
        end = minimize(
            value, z, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}
        )
        return float(end.fun), end.x

    # The target that is dropped has a bias, and nothing else.
    naive = minimize_scalar(
        lambda c: value(np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, c]))[0],
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    alone = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, float(naive.x)])
    begun = [alone, np.array([1.0, 1.0, 0.0, 0.5, 0.5, 0.0, 0.0])]
    begun += [generator.normal(size=7) for _ in range(count)]
    ends = [ended(z, zero_bias) for z in begun for zero_bias in (True, False)]
    loss, z = min(ends, key=lambda end: end[0])
    size = np.abs(z[:2]).max() or 1.0
    model = Model(
        frozen(z[None, :2] / size), b_in=z[2] / size, hidden="relu", W_out=z[3:5, None] * size, b=z[5:],
        output="identity",
    )  # fmt: skip
    return PowerNetwork(model, min(loss, float(naive.fun)) * on, float(naive.fun) * on)
