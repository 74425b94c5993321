"""Flows of linear autoencoders (Notes 2022) in closed form: a Riccati solution, and the limit of Eq. 22."""

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from ...theory.linear.spectrum import LARGEST, Covariance, checked_spectrum, sized_spectrum
from ...theory.validation import FloatArray, check_fits, real, vector
from ..flow.explicit import checked_times
from .flow import LinearFlow, initial_weights, losses

__all__ = ["encoder_limit", "exact_decoder_flow"]

_FARTHEST = 1e290  # rates times time are cut off here, where all that grows has long arrived


def exact_decoder_flow(W0: npt.ArrayLike, covariance: Covariance, t: npt.ArrayLike) -> LinearFlow:
    r"""Return weights along Oja's flow of tied weights at the times `t`, in closed form.

    Oja's flow :math:`\dot W = (1-WW')\Sigma W` gives a Riccati equation for M = WW', with the solution

    .. math:: M(t) = e^{\Sigma t}W_0\,[1 + W_0'(e^{2\Sigma t}-1)W_0]^{-1}\,W_0'e^{\Sigma t} .

    Parameters
    ----------
    W0 : (n_features, n_hidden) array_like of float
        Initial encodings, row i is feature i, entries up to 1e50.
    covariance, t : (n_features, n_features), (n_times,) array_like of float
        :math:`\Sigma`, symmetric, without negative eigenvalues, entries up to 1e50; times, sorted, not
        negative.

    Returns
    -------
    LinearFlow
        W is a root of M, W W' = M: the flow's W times an orthogonal matrix on the right. Each row of W in the
        eigenbasis has a relative error of a few n_hidden roundings, times (1 + :math:`\lambda_1 t`) for rows
        that still grow or decay. See Notes (2022), Eq. 21; Yan, Helmke and Moore, IEEE Trans. Neural Networks
        5 (1994) 674.

    Examples
    --------
    >>> result = exact_decoder_flow([[0.1], [0.3]], [[2.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 20.0])
    >>> result.loss.round(6)
    array([1.3955  , 0.906431, 0.5     ])
    """
    W = initial_weights("W0", W0)
    spectrum = sized_spectrum(covariance, len(W))
    U = spectrum.eigenvectors
    lam = (np.bincount(spectrum.space, spectrum.eigenvalues) / spectrum.multiplicities)[spectrum.space]
    times = checked_times(t)
    check_fits("t", times.size, times.size * W.size)
    states = _riccati_solution(U.T @ W, lam, times)
    path, loss = U @ states, losses(states, states, spectrum.eigenvalues)
    return LinearFlow(times, path, np.swapaxes(path, 1, 2), loss, float(times[-1]))


def encoder_limit(w0: npt.ArrayLike, covariance: Covariance) -> FloatArray:
    r"""Return the limit of the encoder's flow of one neuron: :math:`e^{\Sigma\tau}w_0`, of length 1.

    The flow :math:`\dot w = (1-|w|^2)\Sigma w` runs along this curve and stops where the curve meets the unit
    sphere. The limit is an eigenvector only if :math:`w_0` is one, but near the leading one if :math:`w_0` is
    small.

    Parameters
    ----------
    w0 : (n_features,) array_like of float
        Initial weights, not all 0, entries up to 1e50.
    covariance : (n_features, n_features) array_like of float
        :math:`\Sigma`, symmetric, with positive eigenvalues, entries up to 1e50. Errors are those of
        `exact_decoder_flow`.

    Returns
    -------
    w : ndarray (n_features,)
        The limit, with a relative error of about 1e-14 times :math:`1 + \lambda_1|\tau|`.

    Examples
    --------
    >>> encoder_limit([0.5, 0.5], [[2.0, 0.0], [0.0, 1.0]]).round(6)
    array([0.780776, 0.624811])
    """
    w = real("w0", vector("w0", w0), -LARGEST, LARGEST)
    spectrum = checked_spectrum(covariance, n_features=w.size)
    start = spectrum.eigenvectors.T @ w
    live = start != 0
    if not np.any(live):
        raise ValueError("`w0` must not be 0; got all zeros.")
    # in units of the slowest rate, so that the root is bracketed by lengths alone
    rates = (spectrum.eigenvalues / spectrum.eigenvalues[-1])[live]
    logs = np.log(np.abs(start[live]))

    def excess(tau: float) -> float:
        """Return log |e^(Sigma tau) w_0|², which is 0 at the limit; tau in units of the slowest rate."""
        return float(special.logsumexp(2 * (logs + rates * tau)))

    excess_at_zero = excess(0.0)
    other = -np.sign(excess_at_zero) * (
        abs(excess_at_zero) / 2 + 1e-9
    )  # the length changes at least as e^tau
    tau = optimize.brentq(excess, 0.0, other, xtol=1e-300, rtol=1e-15)
    end = np.zeros_like(start)
    end[live] = np.sign(start[live]) * np.exp(logs + rates * tau)
    return np.asarray(spectrum.eigenvectors @ (end / np.linalg.norm(end)))


def _riccati_solution(X: FloatArray, rates: FloatArray, times: FloatArray) -> FloatArray:
    """Return W in the eigenbasis at the times, shape (n_times, *X.shape), from X at time 0.

    `rates` are the eigenvalues of the covariance. With w = e^(2 rates t) - 1 the bracket in
    `exact_decoder_flow` is R'R, where QR is the decomposition of the identity above sqrt(w) X. So W =
    e^(rates t) X R^(-1).
    """
    states = np.empty((times.size, *X.shape))
    limit = _FARTHEST / max(float(rates.max()), 1e-300)
    for time_index, time in enumerate(times):
        growth = rates * min(float(time), limit)
        share = -np.expm1(-2 * growth)
        with np.errstate(divide="ignore"):
            logs = np.log(share) / 2 + growth  # of sqrt(w)
        top, rest = _orthonormal_factor(logs, X)
        old = logs >= -20  # else there was too little time to be seen in R
        states[time_index] = np.exp(np.where(old, 0, growth))[:, None] * (X @ top)
        states[time_index, old] = (1 / np.sqrt(share[old]))[:, None] * rest[old]
    return states


def _orthonormal_factor(logs: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Q, as its first m rows and its n others, of the QR decomposition of the identity above e^logs X.

    The identity is (m, m), X is (n, m); row i of e^logs X is e^logs[i] X[i].
    """
    # Pivoted Householder reflections keep the digits of rows of all sizes (Cox and Higham, 1998).
    hidden = X.shape[1]
    b, logs = np.vstack((np.eye(hidden), X)), np.concatenate((np.zeros(hidden), logs))
    rows = np.arange(b.shape[0])
    reflectors, weights = np.zeros(b.shape), np.zeros(hidden)
    for k in range(hidden):
        with np.errstate(divide="ignore"):
            i, j = divmod(int(np.argmax(logs[k:, None] + np.log(np.abs(b[k:, k:])))), hidden - k)
        for array in (b, logs, rows, reflectors):
            array[[k, k + i]] = array[[k + i, k]]
        b[:, [k, k + j]] = b[:, [k + j, k]]
        # No quotient exceeds 1 by the choice of the pivot, though its two factors may be huge and tiny.
        root = np.exp(np.minimum(logs[k:] - logs[k], 1400.0) / 2)[:, None]
        scaled = root * (b[k:, k:] / b[k, k]) * root
        length = float(np.linalg.norm(scaled[:, 0]))
        reflectors[k:, k] = scaled[:, 0] / (1 + length)
        reflectors[k, k], weights[k] = 1.0, (1 + length) / length
        change = weights[k] * (reflectors[k:, k] @ scaled[:, 1:])
        b[k + 1 :, k + 1 :] -= np.outer(b[k + 1 :, k] / (1 + length), change)
    Q = np.eye(*b.shape)
    for k in range(hidden - 1, -1, -1):
        Q[k:] -= np.outer(weights[k] * reflectors[k:, k], reflectors[k:, k] @ Q[k:])
    Q[rows] = Q.copy()
    return Q[:hidden], Q[hidden:]
