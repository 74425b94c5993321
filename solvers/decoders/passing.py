r"""Message passing: the Bayes decoder, iterated on one projection of one set of features.

Gaussian projections (approximate message passing, with its Onsager term):

.. math:: y = \hat x + A' z, \qquad \hat x \leftarrow E[x \mid y], \qquad
          z \leftarrow h - A\hat x + z \frac{n}{m} \langle \mathrm{Var}(x \mid y)\rangle/\sigma^2 .

Square matrices M that are a projector over its ratio, such as rugs, with e the mean of Var(x | y):

.. math:: y = s + h - M s, \qquad
          s \leftarrow \frac{E[x \mid y] - c\,y}{1 - c}, \qquad c = \frac{e}{\sigma^2}.
"""

from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import aslinearoperator

from ...theory import validation
from ...theory.decoders.channel import denoised
from ...theory.decoders.loss import LEAST_P
from ...theory.features import ValueDistribution
from ...theory.features.values import law_named
from ...theory.features.values.law import require
from ...theory.results import result
from ...theory.validation import FloatArray
from ..results import Status
from ..rug import RugMatrix
from .evolution import RECOVERED

__all__ = ["Passing", "message_passing"]


@result
class Passing:
    """Features decoded by message passing, the number of `steps`, and the `status`: why they ended."""

    x: FloatArray
    """Posterior means of the features, shape (n_features,)."""
    sigma: FloatArray
    """Standard deviation of the interference at each step, estimated from the residual."""
    path: FloatArray
    """Expected loss per feature after each step: the mean posterior variance."""
    steps: int
    status: Status


def message_passing(
    A: Any,
    h: npt.ArrayLike,
    p: float,
    *,
    values: str | ValueDistribution = "uniform",
    steps: int = 100,
    tol: float = 1e-8,
) -> Passing:
    """Return the features x decoded from their projection h = A x by iterating the Bayes decoder.

    Parameters
    ----------
    A : (n_hidden, n_features) or (n_features, n_features) array_like, LinearOperator or RugMatrix
        With fewer rows than columns, an array or LinearOperator of independent entries of mean 0 and variance
        1/n_hidden. If square, a `RugMatrix`, or an array that is a projector times n_features/n_hidden, as
        from `superposition.solvers.rug.random_projector`.
    h : (n_hidden,) or (n_features,) array_like of float
        A x.
    p, values : float, str or ValueDistribution
        Probability that a feature is on, in [1e-100, 1], and the law of its value then, at scale 1.
    steps, tol : int, float, optional
        Most steps. They end where a step changes the interference by less than `tol` times its size, or where
        it falls below 1e-7.

    Returns
    -------
    Passing
        `status` is `Status.DIVERGED` where the interference grows tenfold, as happens for an A of neither
        kind above; x is then that of the step of least interference.

    Examples
    --------
    >>> from superposition.solvers.rug import rug_matrix
    >>> from superposition.theory.features import Features
    >>> (x,) = Features(4096, 0.05).sample(1, rng=0)
    >>> R = rug_matrix(4096, 1024, rng=0)
    >>> found = message_passing(R, R @ x, 0.05)
    >>> bool(np.abs(found.x - x).max() < 1e-5)
    True
    """
    p = float(validation.number("p", p, LEAST_P, 1.0))
    values = law_named("values", values)
    require(values, "values", "posterior")
    steps, tol = validation.integer("steps", steps, 1), validation.number("tol", tol, 0.0, 1.0)
    if not isinstance(A, RugMatrix) and not hasattr(A, "matvec"):
        A = validation.matrix("A", A)
    m, n = A.shape
    h = validation.vector("h", h, m)
    if m > n:
        raise ValueError(f"`A` must have at most as many rows as columns; got shape {A.shape}.")
    mean = np.full(n, p * values.moment(1))
    if m < n:
        return _iterate(_gaussian_channel(aslinearoperator(A), h, mean), mean, p, values, steps, tol)
    if isinstance(A, RugMatrix):
        ratio = A.rows.size / n
    elif isinstance(A, np.ndarray):
        with np.errstate(over="ignore"):
            size = float(np.sum(A * A))
        if not 0.0 < size < np.inf:
            raise ValueError(f"`A` must have squares whose sum is positive and finite; got {size:g}.")
        ratio = n / size  # of a projector over its ratio
    else:
        raise ValueError(
            f"`A` must be an array or a RugMatrix if it is square; got {validation.short_repr(A)}."
        )
    return _iterate(_orthogonal_channel(aslinearoperator(A), h, mean, ratio), mean, p, values, steps, tol)


# Yields the interference and the input of the decoder, and takes its output and loss.
Channel = Generator[tuple[float, FloatArray], tuple[FloatArray, float], None]


def _gaussian_channel(A: Any, h: FloatArray, x: FloatArray) -> Channel:
    """Yield (sigma, y) of each step of approximate message passing for h = A x.

    y is x plus interference, nearly normal with standard deviation sigma. Send (estimate of x, its mean
    posterior variance) to get the next pair. The argument x is the first estimate.
    """
    m, n = A.shape
    z = h - A.matvec(x)
    while True:
        sigma = float(np.sqrt(np.mean(z * z)))
        x, loss = yield sigma, x + A.rmatvec(z)
        z = h - A.matvec(x) + z * (n / m * loss / sigma**2)


def _orthogonal_channel(M: Any, h: FloatArray, s: FloatArray, ratio: float) -> Channel:
    """Yield (sigma, y) of each step of orthogonal message passing for h = M x, M a projector over `ratio`.

    y is x plus interference, nearly normal with standard deviation sigma; `ratio` is n_hidden/n_features.
    Send (estimate of x, its mean posterior variance) to get the next pair. s is the first estimate.
    """
    while True:
        error = h - M.matvec(s)  # M e, whose square is e' e/ratio on average
        sigma = float(np.sqrt((1.0 - ratio) * np.mean(error * error)))
        y = s + error
        x, loss = yield sigma, y
        share = loss / sigma**2
        s = (x - share * y) / (1.0 - share)


def _iterate(
    channel: Channel, x: FloatArray, p: float, values: ValueDistribution, steps: int, tol: float
) -> Passing:
    """Return the `Passing` at the end of Bayes decoding on a channel, with the features' mean x as first one.

    A feature is on with probability p and then has the law `values`. Steps end after `steps` of them, where
    one changes the interference by less than `tol` times its size, or where the interference falls below 1e-7
    or grows tenfold.
    """
    sigmas: list[float] = []
    path: list[float] = []
    with np.errstate(over="ignore", invalid="ignore"):  # it may diverge, which its status says
        sigma, y = next(channel)
        while True:
            if not np.isfinite(sigma) or (sigmas and sigma > 10.0 * sigmas[0]):
                status = Status.DIVERGED
            elif sigma < RECOVERED or (sigmas and abs(sigma - sigmas[-1]) <= tol * sigma):
                status = Status.CONVERGED
            elif len(path) >= steps:
                status = Status.STEPS
            else:
                # What lies farther out belongs to other laws.
                at = np.clip(y, (-12.0 if values.support[0] < 0.0 else 0.0) - 30.0 * sigma, 60.0)
                estimate, variance = denoised(values, at, sigma, p)
                loss = float(np.mean(variance))
                sigmas.append(sigma)
                path.append(loss)
                x = estimate if sigma <= min(sigmas) else x
                sigma, y = channel.send((estimate, loss))
                continue
            return Passing(x, np.array(sigmas), np.array(path), len(path), status)
