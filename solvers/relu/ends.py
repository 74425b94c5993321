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
    """Exact loss of n features in m dimensions, divided by p, and its gradient, as functions of flat (W, b).

    It is the sum over features of importance 1.
    """

    def __init__(self, n: int, m: int, p: float):
        self.n, self.m, self.p = n, m, p

    def _split(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return W (n, m) and b (n,) from the flat vector x."""
        return x[: self.n * self.m].reshape(self.n, self.m), x[self.n * self.m :]

    def value(self, x: FloatArray) -> float:
        """Return the loss of ReLU(W W' x + b) summed over features, divided by p; x is (W, b), flattened."""
        return float(mixture_loss(*self._split(x), self.p).total) / self.p

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the gradient of `value`, of the shape of x."""
        by_W, by_b = mixture_loss(*self._split(x), self.p, gradient=True)
        return np.concatenate([by_W.ravel(), by_b]) / self.p

    def loss_after_descent(self, x: FloatArray) -> float:
        """Return the `value` of the minimum in which a descent by L-BFGS-B from x ends."""
        # One descent: `minimise` also brings dropped features back and leaves saddles, as training does not.
        return lbfgs(lambda y: (self.value(y), self.gradient(y)), x, gtol=1e-8).value

    def flow(self, x: FloatArray) -> float:
        """Return the `value` of the minimum in which gradient flow from x ends."""

        def near_end(_: float, y: FloatArray) -> float:
            """Return by how much the gradient's norm at y exceeds `FLOW_END`."""
            return float(np.linalg.norm(self.gradient(y))) - FLOW_END

        near_end.terminal = True  # type: ignore[attr-defined]
        # Stiff: near a minimum with a nearly dropped feature, rates differ by far.
        stepping: dict[str, Any] = {"method": "BDF", "events": near_end, "rtol": 1e-3, "atol": 1e-6}
        ivp = solve_ivp(lambda _, y: -self.gradient(y), (0.0, FLOW_TIME), x, **stepping)
        return self.loss_after_descent(ivp.y[:, -1])
