r"""One step of noisy gradient descent on one encoding without interference, and the loss after it.

On input e_i, with the output's own ReLU on and all others off, the error is
:math:`e = |W|^2 - 1 + W \cdot \xi` and a step is :math:`W' = W - 2\eta e (2W + \xi)`. The source puts
|W| = 1; here W has any length. Symbols: ``p2``, ``p4``, ... are sums of powers of the weights (p2 = |W|^2),
``u`` is W.xi, ``R`` is |xi|^2, ``mu2`` is sigma^2, ``eta`` the learning rate.
"""

from functools import cache
from typing import Any

import numpy as np

from ..arguments import number, vector
from .moments import derive_moment, noise_moments, power_sum

__all__ = ["derive_gradient", "derive_next_step_loss", "derive_squared_norm", "expectation", "next_step_loss"]


def derive_gradient(n_features: int = 3, n_hidden: int = 3) -> Any:
    r"""Gradient of the loss on input e_1, less the printed one, on the unit sphere.

    The loss is differentiated with a symbol 0 or 1 for each ReLU, then the first is on, the others are off.

    Returns
    -------
    residual : Matrix (n_features, n_hidden)
        Zero: the first row is :math:`2 (W_1 \cdot \xi)(2 W_1 + \xi)`, the others are 0. (In the source's
        chain rule the Jacobian of h is the identity of size m; it prints n.)

    References
    ----------
    Lecomte et al. (2024), §3.2, App. C.1.

    Examples
    --------
    >>> derive_gradient(2, 2)
    Matrix([
    [0, 0],
    [0, 0]])
    """
    import sympy

    W = sympy.Matrix(n_features, n_hidden, lambda i, j: sympy.Symbol(f"W_{i}{j}", real=True))
    noise = sympy.Matrix(1, n_hidden, lambda _, j: sympy.Symbol(f"xi_{j}", real=True))
    on = [sympy.Symbol(f"on_{i}") for i in range(n_features)]
    hidden = W.row(0) + noise
    loss = sum((on[i] * W.row(i).dot(hidden) - int(i == 0)) ** 2 for i in range(n_features))
    switched = {gate: int(i == 0) for i, gate in enumerate(on)}
    # A rational unit vector: the projection of a point of a plane on the sphere.
    plane = sympy.symbols(f"t1:{n_hidden}", real=True)
    height = sum(t**2 for t in plane)
    unit = [(1 - height) / (1 + height), *(2 * t / (1 + height) for t in plane)]
    sphere = dict(zip(W.row(0), unit, strict=True))
    printed = 2 * W.row(0).dot(noise) * (2 * W.row(0) + noise)

    def residual(i: int, j: int) -> Any:
        slope = sympy.diff(loss, W[i, j]).subs(switched)
        return sympy.simplify((slope - (printed[j] if i == 0 else 0)).subs(sphere))

    return sympy.Matrix(n_features, n_hidden, residual)


def derive_squared_norm() -> Any:
    r"""Squared length after one step, in the symbols eta, p2, u, R; exact.

    Returns
    -------
    Expr
        :math:`|W'|^2` with W.W = p2, W.xi = u and xi.xi = R.

    References
    ----------
    Lecomte et al. (2024), App. C.2 (at p2 = 1).

    Examples
    --------
    >>> derive_squared_norm().subs("p2", 1)
    4*R*eta**2*u**2 + 16*eta**2*u**3 + 16*eta**2*u**2 - 4*eta*u**2 - 8*eta*u + 1
    """
    import sympy

    eta, u, R = sympy.symbols("eta u R")
    square = power_sum(2)
    error = square - 1 + u
    along, noisy = 1 - 4 * eta * error, -2 * eta * error  # W' = along W + noisy xi
    return sympy.expand(along**2 * square + 2 * along * noisy * u + noisy**2 * R)


def expectation(expression: Any) -> Any:
    """Mean over the noise of a polynomial in u and R, exact for any m."""
    import sympy

    u, R = sympy.symbols("u R")
    terms = sympy.Poly(sympy.expand(expression), u, R).terms()
    return sympy.expand(sum(factor * derive_moment(a, b) for (a, b), factor in terms))


@cache
def derive_next_step_loss() -> dict[str, Any]:
    r"""Derive the expected loss after one step, exactly: a polynomial of degree 4 in eta, with SymPy.

    Returns
    -------
    dict of str to Expr
        ``"square"``: :math:`E |W'|^2`. ``"error"``: :math:`E (|W'|^2 - 1)^2`, the part without new noise.
        ``"loss"``: their sum with weights sigma^2 and 1. ``"split"``: what is left of
        :math:`E (|W'|^2 - 1 + W' \cdot \xi')^2` less that sum, 0. Symbols eta, m, p2, p4, p6, mu2 ... mu8.

    Notes
    -----
    At |W| = 1 the part of ``"loss"`` of order eta^2 that knows the shape of W is
    :math:`16 \eta^2 (\mu_4 - 3\sigma^4)|W|_4^4`, the source's implicit regulariser. That is a property of the
    *loss*. Where the encoding drifts is another matter: see :func:`derive_fourth_norm_drift`.

    References
    ----------
    Lecomte et al. (2024), App. C.2.

    Examples
    --------
    >>> derive_next_step_loss()["split"]
    0
    """
    import sympy

    square = derive_squared_norm()
    new, mu2 = sympy.Symbol("v"), sympy.Symbol("mu2")  # v is W'.xi', of variance mu2 |W'|^2
    conditional = sympy.Poly(sympy.expand((square - 1 + new) ** 2), new).coeff_monomial
    whole = expectation(conditional(1) + mu2 * square * conditional(new**2))
    mean, error = expectation(square), expectation((square - 1) ** 2)
    loss = sympy.expand(error + mu2 * mean)
    return {"square": mean, "error": error, "loss": loss, "split": sympy.expand(whole - loss)}


def next_step_loss(
    w: Any, noise: str, noise_std: float, learning_rate: float, *, excess_kurtosis: float | None = None
) -> float:
    r"""Return the expected loss of an isolated encoding after one noisy step of descent: exact.

    Parameters
    ----------
    w : array_like of float, shape (m,)
        The encoding before the step, of any length.
    noise : {"bipolar", "uniform", "normal", "laplace", "three-point"}
        Noise on the hidden neurons, fresh in the step and in the loss after it.
    noise_std : float
        Its standard deviation, not negative.
    learning_rate : float
        Any finite number.
    excess_kurtosis : float, optional
        For ``"three-point"`` noise only.

    Returns
    -------
    float
        :math:`E (|W'|^2 - 1 + W' \cdot \xi')^2`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Rounding only; the ReLU counts as on, which it is if |w.xi| stays below |w|^2.

    References
    ----------
    Lecomte et al. (2024), App. C.2.

    Examples
    --------
    >>> round(next_step_loss([1.0, 0.0], "bipolar", 0.1, 0.0), 12)
    0.01
    """
    import sympy

    weights, rate = vector("w", w), number("learning_rate", learning_rate)
    mu = noise_moments(noise, noise_std, excess_kurtosis=excess_kurtosis)
    values = {f"mu{2 * k}": mu[k - 1] for k in range(1, 5)} | {"eta": rate, "m": weights.size}
    values |= {f"p{k}": float(np.sum(weights**k)) for k in (2, 4, 6)}
    loss = derive_next_step_loss()["loss"]
    return float(loss.subs({s: sympy.Float(float(values[s.name]), 30) for s in loss.free_symbols}))
