r"""Message passing: the Bayes decoder, iterated on one projection of one set of features.

Gaussian projections (approximate message passing, with its Onsager term):

.. math:: y = \hat x + A' z, \qquad \hat x \leftarrow E[x \mid y], \qquad
          z \leftarrow h - A\hat x + z \frac{n}{m} \langle \mathrm{Var}(x \mid y)\rangle/\sigma^2 .

Square matrices M that are a projector over its ratio, such as rugs, with e the mean of Var(x | y):

.. math:: y = s + h - M s, \qquad
          s \leftarrow \frac{E[x \mid y] - c\,y}{1 - c}, \qquad c = \frac{e}{\sigma^2},

whose error is independent of that of y.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import aslinearoperator

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.decoders.channel import denoised
from ...theory.decoders.loss import LEAST_P
from ...theory.features import Values
from ...theory.features.values import named
from ...theory.results import result
from ..results import Status
from ..rug import RugMatrix
from .evolution import RECOVERED

__all__ = ["Passing", "message_passing"]


@result
class Passing:
    """Features decoded by message passing."""

    x: FloatArray
    """Posterior means of the features, shape (n_features,)."""
    sigma: FloatArray
    """Standard deviation of the interference at each step, measured."""
    path: FloatArray
    """Expected loss per feature after each step: the mean posterior variance."""
    steps: int
    """Steps that were made."""
    status: Status
    """How it ended; `message` has the sentence."""


def _decode(values: Values, y: FloatArray, sigma: float, p: float) -> tuple[FloatArray, float]:
    """Return posterior means and the mean of the posterior variances."""
    low = -12.0 if values.support[0] < 0.0 else 0.0
    at = np.clip(y, low - 30.0 * sigma, 60.0)  # what lies beyond belongs to other laws
    mean, variance = denoised(values, at, sigma, p)
    return mean, float(np.mean(variance))


def message_passing(
    A: Any,
    h: npt.ArrayLike,
    p: float,
    *,
    values: str | Values = "uniform",
    steps: int = 100,
    tol: float = 1e-8,
) -> Passing:
    """Decode features from their projection h = A x by iterating the Bayes decoder.

    Parameters
    ----------
    A : (n_hidden, n_features) array_like or LinearOperator, or a square one
        With fewer rows than columns: independent entries of mean 0 and variance 1/n_hidden. Square: a
        projector times n_features/n_hidden, as `superposition.solvers.rug.rug_matrix` and
        `superposition.solvers.rug.random_projector` make them; a `RugMatrix` or an array.
    h : (n_hidden,) or (n_features,) array_like of float
        A x.
    p : float
        Probability that a feature is on, in [1e-100, 1].
    values : str or Values, optional
        Law of the value of a feature that is on, at scale 1.
    steps : int, optional
        Steps at most.
    tol : float, optional
        The iteration ends where the interference changes by less than this share, or falls below 1e-7.

    Returns
    -------
    Passing
        `status` is `Status.DIVERGED` where the interference grows tenfold over its first value, which happens
        if A is not of its kind; x is then that of the step of least interference.

    Raises
    ------
    ValueError
        If an argument is out of range or has another shape.

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
    p = float(arguments.number("p", p, LEAST_P, 1.0))
    values = named("values", values)
    values.need("values", "posterior")
    steps, tol = arguments.integer("steps", steps, 1), arguments.number("tol", tol, 0.0, 1.0)
    if not isinstance(A, RugMatrix) and not hasattr(A, "matvec"):
        A = arguments.matrix("A", A)
    m, n = A.shape
    h = arguments.vector("h", h, m)
    if m > n:
        raise ValueError(f"`A` must have at most as many rows as columns; got shape {A.shape}.")
    if m < n:
        with np.errstate(over="ignore", invalid="ignore"):  # it diverges, which its status says
            return _gaussian(aslinearoperator(A), h, p, values, steps, tol)
    if isinstance(A, RugMatrix):
        ratio = A.rows.size / n
    elif isinstance(A, np.ndarray):
        with np.errstate(over="ignore"):
            size = float(np.sum(A * A))
        if not 0.0 < size < np.inf:
            raise ValueError(f"`A` must have squares whose sum is positive and finite; got {size:g}.")
        ratio = n / size  # of a projector over its ratio
    else:
        raise ValueError(f"`A` must be an array or a RugMatrix if it is square; got {arguments.shown(A)}.")
    with np.errstate(over="ignore", invalid="ignore"):
        return _orthogonal(aslinearoperator(A), h, ratio, p, values, steps, tol)


class _Progress:
    """What was measured on the way, and when to stop."""

    def __init__(self, first: FloatArray, steps: int, tol: float) -> None:
        self.best, self.steps, self.tol = first, steps, tol
        self.sigma: list[float] = []
        self.path: list[float] = []
        self.status: Status | None = None

    def goes_on(self, sigma: float) -> bool:
        """Note the interference; say whether it is to be decoded."""
        if not np.isfinite(sigma) or (self.sigma and sigma > 10.0 * self.sigma[0]):
            self.status = Status.DIVERGED
        elif sigma < RECOVERED or (self.sigma and abs(sigma - self.sigma[-1]) <= self.tol * sigma):
            self.status = Status.CONVERGED
        elif len(self.path) >= self.steps:
            self.status = Status.STEPS
        if self.status is None:
            self.sigma.append(sigma)
        return self.status is None

    def took(self, x: FloatArray, loss: float) -> None:
        if self.sigma[-1] <= min(self.sigma):
            self.best = x
        self.path.append(loss)

    def result(self) -> Passing:
        assert self.status is not None
        sigma, path = np.array(self.sigma), np.array(self.path)
        return Passing(self.best, sigma, path, path.size, self.status)


def _gaussian(A: Any, h: FloatArray, p: float, values: Values, steps: int, tol: float) -> Passing:
    m, n = A.shape
    x = np.full(n, p * values.moment(1))
    z, progress = h - A.matvec(x), _Progress(x, steps, tol)
    sigma = float(np.sqrt(np.mean(z * z)))
    while progress.goes_on(sigma):
        x, loss = _decode(values, x + A.rmatvec(z), sigma, p)
        progress.took(x, loss)
        z = h - A.matvec(x) + z * (n / m * loss / sigma**2)
        sigma = float(np.sqrt(np.mean(z * z)))
    return progress.result()


def _orthogonal(
    M: Any, h: FloatArray, ratio: float, p: float, values: Values, steps: int, tol: float
) -> Passing:
    s = np.full(h.size, p * values.moment(1))
    progress = _Progress(s, steps, tol)
    while True:
        error = h - M.matvec(s)  # M e, whose square is e' e/ratio on average
        sigma = float(np.sqrt((1.0 - ratio) * np.mean(error * error)))
        if not progress.goes_on(sigma):
            return progress.result()
        y = s + error
        x, loss = _decode(values, y, sigma, p)
        progress.took(x, loss)
        share = loss / sigma**2
        s = (x - share * y) / (1.0 - share)
