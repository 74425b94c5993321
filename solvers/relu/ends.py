"""The loss at which a descent, or gradient flow, on the exact loss of a small model ends."""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from ...theory.relu import mixture_loss
from ...theory.validation import FloatArray
from ..minimise.descent import lbfgs

# Longest flow, for the loss divided by p, and the gradient at which a descent takes over.
FLOW_TIME, FLOW_END = 500.0, 1e-4


class PathLoss:
    """Exact loss of n features in m dimensions, summed over features and divided by p, and its gradient.

    Both are functions of `parameters`, (n m + n,): W (n, m) row by row, then b (n,).
    """

    def __init__(self, n: int, m: int, p: float):
        self.n, self.m, self.p = n, m, p

    def _split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return W (n, m) and b (n,) from the flat vector `parameters`."""
        size = self.n * self.m
        return parameters[:size].reshape(self.n, self.m), parameters[size:]

    def value(self, parameters: FloatArray) -> float:
        """Return sum_i E (x_i - ReLU(W W' x + b)_i)^2 / p of the features x, for (W, b) in `parameters`."""
        return float(mixture_loss(*self._split(parameters), self.p).total) / self.p

    def gradient(self, parameters: FloatArray) -> FloatArray:
        """Return the gradient of `value`, in the shape of `parameters`."""
        by_W, by_b = mixture_loss(*self._split(parameters), self.p, gradient=True)
        return np.concatenate([by_W.ravel(), by_b]) / self.p

    def loss_after_descent(self, parameters: FloatArray) -> float:
        """Return the `value` of the minimum in which a descent by L-BFGS-B from `parameters` ends."""
        # One descent: `minimise` also brings dropped features back and leaves saddles, as training does not.
        return lbfgs(lambda y: (self.value(y), self.gradient(y)), parameters, gtol=1e-8).value

    def flow(self, parameters: FloatArray) -> float:
        """Return the `value` of the minimum in which gradient flow from `parameters` ends."""

        def near_end(_: float, y: FloatArray) -> float:
            """Return by how much the gradient's norm at y exceeds `FLOW_END`."""
            return float(np.linalg.norm(self.gradient(y))) - FLOW_END

        near_end.terminal = True  # type: ignore[attr-defined]
        # Stiff: near a minimum with a nearly dropped feature, rates differ by far.
        stepping: dict[str, Any] = {"method": "BDF", "events": near_end, "rtol": 1e-3, "atol": 1e-6}
        ivp = solve_ivp(lambda _, y: -self.gradient(y), (0.0, FLOW_TIME), parameters, **stepping)
        return self.loss_after_descent(ivp.y[:, -1])
