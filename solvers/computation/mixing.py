r"""Best networks for mixed targets ReLU(x) + M x where one feature is on at a time.

A network without biases then answers v > 0 of feature j by v V ReLU(u_j), and v < 0 by |v| V ReLU(-u_j), with
u_j its encoding. For values uniform on [-1, 1] the loss per feature, over p and as p -> 0, is

.. math:: \frac{1}{6F}\,\big|\,(M + 1, -M) - V\,(\mathrm{ReLU}(U), \mathrm{ReLU}(-U))\,\big|^2,

a factorisation of a matrix that is cheap at hundreds of features. The readout V is at its best all the way.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ...theory import validation
from ...theory.model import Model
from ...theory.validation import FloatArray
from ..results import result

__all__ = ["MixedNetwork", "best_mixed_network"]

_CUT = 1e-12  # eigenvalues of R R' below this share of the largest are not inverted


@result
class MixedNetwork:
    """The best network found for mixed targets of rare features; see `best_mixed_network`."""

    model: Model
    """The network, without biases."""
    loss: float
    """Limit of the network's loss per feature over p, as p -> 0, exactly."""
    lower_bound: float
    """Lower bound of this limit for any n functions with a linear readout."""
    naive: float
    """This limit for the best n neurons ReLU(x_i), at their best readout."""


def _split_signs(U: FloatArray) -> FloatArray:
    """Return (ReLU(U), ReLU(-U)) side by side, with twice the columns of U."""
    return np.concatenate([np.maximum(U, 0.0), np.maximum(-U, 0.0)], axis=1)


def _best_readout(T: FloatArray, R: FloatArray) -> FloatArray:
    """Return the readout V, (outputs, neurons), of least Frobenius norm |T - V R|.

    A column of T has the targets, and one of R the values of the neurons, at the same input. Eigenvalues of
    R R' below 1e-12 of the largest are not inverted.
    """
    values, vectors = np.linalg.eigh(R @ R.T)
    is_large = values > _CUT * values[-1]
    return np.asarray((T @ R.T @ vectors[:, is_large] / values[is_large]) @ vectors[:, is_large].T)


def best_mixed_network(
    mixing: npt.ArrayLike,
    n_hidden: int,
    *,
    starts: int = 3,
    steps: int = 500,
    rng: np.random.Generator | int | None = None,
) -> MixedNetwork:
    r"""Return the network y = V ReLU(U x) of least loss found for ReLU(x) + M x with rare features.

    Features are uniform on [-1, 1] when on. They are independent and on with the same small probability p, so
    that at most one is on at a time. Descents start in turn near the naive network, in which each neuron
    serves one feature, at random positive weights, and at random weights of both signs.

    Parameters
    ----------
    mixing : (n_features, n_features) array_like of float
        M.
    n_hidden : int
        Number of neurons, at most n_features.
    starts, steps, rng : int, int, Generator or int, optional
        Starts, steps of each descent at most, and what draws the starts.

    Returns
    -------
    MixedNetwork
        What is found is an upper bound on the least loss; `lower_bound` is a lower one.

    Examples
    --------
    >>> M = 0.1 * np.random.default_rng(0).normal(size=(8, 8))
    >>> found = best_mixed_network(M, 4, rng=0)
    >>> found.lower_bound < found.loss < found.naive
    True
    """
    M = validation.real("mixing", validation.matrix("mixing", mixing), -1e50, 1e50)
    F = M.shape[0]
    validation.matrix("mixing", M, (F, F))
    n = validation.integer("n_hidden", n_hidden, 1, F)
    count, most = validation.integers(starts=(starts, 1, 10**6), steps=(steps, 1))
    generator = validation.generator("rng", rng)
    T = np.concatenate([M + np.eye(F), -M], axis=1)

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        """Return 6/p times the loss per feature of neurons U = z at their best readout, and its gradient."""
        U = z.reshape(n, F)
        R = _split_signs(U)
        V = _best_readout(T, R)
        rest = T - V @ R
        by = -2.0 / F * (V.T @ rest)
        return float(np.sum(rest**2)) / F, (by[:, :F] * (U > 0.0) - by[:, F:] * (U < 0.0)).ravel()

    helped = np.sum(T[:, :F] ** 2, axis=0)
    naive = np.eye(F)[np.argsort(-helped, kind="stable")[:n]]
    candidates = [(value(naive.ravel())[0], naive)]
    for k in range(count):
        U = generator.normal(size=(n, F)) * (0.1 if k % 3 == 0 else 1.0)
        U = naive + U if k % 3 == 0 else (np.abs(U) if k % 3 == 1 else U)
        end = minimize(
            value, U.ravel(), jac=True, method="L-BFGS-B",
            options={"maxiter": most, "maxfun": 2 * most, "ftol": 1e-12, "gtol": 1e-9},
        )  # fmt: skip
        candidates.append((float(end.fun), end.x.reshape(n, F)))
    loss, U = min(candidates, key=lambda candidate: candidate[0])
    lower_bound = float(np.sum(np.linalg.eigvalsh(T @ T.T)[: F - n])) / (6 * F)
    model = Model(U, hidden="relu", W_out=_best_readout(T, _split_signs(U)), output="identity")
    return MixedNetwork(model, loss / 6, max(lower_bound, 0.0), candidates[0][0] / 6)
