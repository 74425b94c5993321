"""Gradient flows of linear autoencoders at any covariance, integrated to a tolerance in its eigenbasis."""

import numpy as np
import numpy.typing as npt

from ...theory.compile.kernels import kernel
from ...theory.linear.spectrum import Covariance, checked_weights, sized_spectrum
from ...theory.validation import FloatArray, check_fits, choice
from ..flow import integrate
from ..results import Status, result

__all__ = ["LinearFlow", "gradient_flow", "initial_weights", "losses"]

# Shares of the encoder's and the decoder's flow on tied weights.
_SHARES = {"tied": (1.0, 1.0), "encoder": (1.0, 0.0), "decoder": (0.0, 1.0)}


@result
class LinearFlow:
    """Weights along a flow at the times `t`; see :func:`gradient_flow`. Weights not reached are nan.

    The integration ended at the time `t_end`, after so many accepted `steps` (0 for a closed form) and
    `rejected` ones; `status` says why.
    """

    t: FloatArray
    W: FloatArray
    """Encodings, row i for feature i, or decoders A of a pair; (n_times, n_features, n_hidden)."""
    B: FloatArray
    """Encoders, shape (n_times, n_hidden, n_features); W' if weights are tied."""
    loss: FloatArray
    """Loss per feature of x -> W B x, shape (n_times,)."""
    t_end: float
    steps: int = 0
    rejected: int = 0
    status: Status = Status.REACHED


@kernel
def _tied_velocity(t: float, y: FloatArray, parameters: FloatArray, out: FloatArray) -> None:
    """Write the velocity e S (1 - W W') W + d (1 - W W') S W of tied weights y, flat, to `out`.

    y is W, (n_features, n_hidden), in the eigenbasis of the covariance, and S the diagonal matrix of the
    eigenvalues. `parameters` are e, d and the eigenvalues; the time t is not used.
    """
    encoder, decoder, lam = parameters[0], parameters[1], parameters[2:]
    X = y.reshape((lam.size, y.size // lam.size))
    V = out.reshape(X.shape)
    # entries one by one: Numba compiles a broadcast in several times the time
    for i in range(lam.size):
        for j in range(X.shape[1]):
            V[i, j] = lam[i] * X[i, j]
    towards, projection = np.dot(X, np.dot(X.T, X)), np.dot(X, np.dot(X.T, V))
    for i in range(lam.size):
        for j in range(X.shape[1]):
            V[i, j] = encoder * lam[i] * (X[i, j] - towards[i, j]) + decoder * (V[i, j] - projection[i, j])


@kernel
def _pair_velocity(t: float, y: FloatArray, parameters: FloatArray, out: FloatArray) -> None:
    """Write the velocities (1 - A B) S B' of A, S (1 - B'A') A of B' to `out`; y is A above B', flat.

    A is the decoder, B the encoder, in the eigenbasis of the covariance; `parameters` are its eigenvalues,
    the diagonal of S; t is unused.
    """
    n = parameters.size
    X = y.reshape((2 * n, y.size // (2 * n)))
    A, C, scaled = X[:n], X[n:], np.empty((n, X.shape[1]))
    V = out.reshape(X.shape)
    for i in range(n):
        for j in range(X.shape[1]):
            scaled[i, j] = parameters[i] * C[i, j]
    by_C, by_A = np.dot(A, np.dot(C.T, scaled)), np.dot(C, np.dot(A.T, A))
    for i in range(n):
        for j in range(X.shape[1]):
            V[i, j] = scaled[i, j] - by_C[i, j]  # (1 - A B) Sigma B'
            V[n + i, j] = parameters[i] * (A[i, j] - by_A[i, j])


def gradient_flow(
    W0: npt.ArrayLike,
    covariance: Covariance,
    t: npt.ArrayLike,
    rule: str = "tied",
    rtol: float = 1e-10,
    *,
    B0: npt.ArrayLike | None = None,
    steps: int = 100_000,
) -> LinearFlow:
    r"""Return the weights along one of the flows of :func:`superposition.theory.linear.growth_rates`.

    ``"pair"`` is minus half the gradient of :math:`E|x-ABx|^2`. The others are flows of tied weights:
    ``"tied"``, the sum of the last two, is minus half the gradient of :math:`E|x-WW'x|^2`; ``"encoder"``, Eq.
    22 of the Notes (2022), ends at orthonormal columns, in general not the leading eigenvectors;
    ``"decoder"`` is Oja's (Eq. 21).

    Parameters
    ----------
    W0 : (n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, or decoder A of a pair; entries up to 1e50. The source's W is
        the transpose.
    covariance : (n_features, n_features) array_like of float
        :math:`\Sigma = E\,xx'`, symmetric, without negative eigenvalues, entries up to 1e50.
    t : (n_times,) array_like of float
        Times at which weights are wanted, sorted, not negative; one number is one time. A step of gradient
        descent on the loss summed over features, at the learning rate eta, takes 2 eta of this time.
    rule : {"tied", "encoder", "decoder", "pair"}, optional
        The flow, see above.
    rtol : float, optional
        Error allowed in each step, from 1e-13 to 1e-2: the largest entry of any row's error over the row's
        largest entry, in the eigenbasis of the covariance.
    B0 : (n_hidden, n_features) array_like of float, optional
        Initial encoder of a pair, W0' by default.
    steps : int, optional
        Steps after which the run stops with a status.

    Returns
    -------
    LinearFlow
        Errors of W are at most `rtol`/2 (measured for up to 8 features, :math:`\lambda_1 t \le 50`). A start
        from which the exact flow ends in a saddle leaves it once rounding errors, 1e-16 of the largest
        weight, have grown.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or `B0` is given to another rule than ``"pair"``.

    Examples
    --------
    >>> found = gradient_flow([[0.1], [0.3]], [[2.0, 0.0], [0.0, 1.0]], [1.0, 60.0], "pair")
    >>> print(found.W[0].ravel().round(3), found.B[0].ravel().round(3), round(float(found.loss[1]), 9))
    [0.482 0.578] [0.448 0.604] 0.5
    """
    W = initial_weights("W0", W0)
    n, hidden = W.shape
    pair = choice("rule", rule, (*_SHARES, "pair")) == "pair"
    if B0 is not None and not pair:
        raise ValueError(f"`B0` must be left out unless `rule` is 'pair'; got it with {rule!r}.")
    B = W.T if B0 is None else checked_weights("B0", B0, (hidden, n))
    spectrum = sized_spectrum(covariance, n)
    lam, U = spectrum.eigenvalues, spectrum.eigenvectors
    X = np.vstack((U.T @ W, U.T @ B.T)) if pair else U.T @ W
    rows = np.tile(np.arange(n)[:, None], (len(X) // n, hidden))
    velocity, constants = (_pair_velocity, lam) if pair else (_tied_velocity, np.append(_SHARES[rule], lam))
    run = integrate(velocity, X, t, parameters=constants, group=rows, rtol=rtol, steps=steps)
    A, C = run.y[:, :n], run.y[:, -n:]
    path = U @ A
    encoders = np.swapaxes(U @ C if pair else path, 1, 2)
    return LinearFlow(
        run.t, path, encoders, losses(A, C, lam), run.t_end, run.steps, run.rejected, run.status
    )


def initial_weights(name: str, W: npt.ArrayLike) -> FloatArray:
    """Return W as an array; ValueError, with its `name`, if it is no matrix or W'W exceeds the memory."""
    array = checked_weights(name, W)
    check_fits(name, f"shape {array.shape}", 4 * array.shape[1] ** 2)
    return array


def losses(A: FloatArray, C: FloatArray, lam: FloatArray) -> FloatArray:
    """Return E|x - A C'x|^2/n_features at each time, (n_times,), for decoders A and transposed encoders C.

    A and C have the shape (n_times, n_features, n_hidden), in the eigenbasis of the covariance, whose
    eigenvalues are `lam`.
    """
    cross = np.einsum("tik,tik,i->t", A, C, lam)
    square = np.array([np.vdot(a.T @ a, c.T @ (lam[:, None] * c)) for a, c in zip(A, C, strict=True)])
    return np.asarray((np.sum(lam) - 2 * cross + square) / lam.size)
