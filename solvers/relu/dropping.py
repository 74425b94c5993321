"""When the classes of many features on may be dropped: their share of the loss, and what dropping costs."""

import numpy as np
import numpy.typing as npt

from ...theory.features import Features, SparseUniform
from ...theory.loss import class_loss, dropped_bound
from ...theory.validation import FloatArray, generator, integer, matrix, number, real, vector
from ..loss import exact_loss
from ..loss.evaluator import LEAST
from ..minimise import Minimum, minimise
from ..results import Status, result

# Below, the loss leaves the range that the minimiser takes.
LEAST_P = 1e-100
# So many truncated minimisers are starts for the full loss.
FURTHER = 8
# Losses this close, in units of p times the loss of the zero model, count as one minimum.
SAME = 1e-4


@result
class ClassShares:
    """Which inputs the loss of a model comes from."""

    loss: float
    """Exact loss per feature over sparse data, the mean of importance times squared error."""
    shares: FloatArray
    """Share of the classes 0, ..., K in it, and of all above K together. They add up to 1. Shape (K + 2,)."""
    probabilities: FloatArray
    """Probabilities of the same classes. Shape (K + 2,)."""
    bound: float
    """Upper bound on the last share, from the weights alone."""
    error_estimate: float
    """What each share is off by at most."""


def _weights(importance: npt.ArrayLike | None, n: int) -> FloatArray:
    weights = np.ones(n) if importance is None else real("importance", vector("importance", importance, n), 0)
    if not weights.any():
        raise ValueError("`importance` must not be 0 for all features; got 0 for all.")
    return weights


def class_shares(
    M: npt.ArrayLike, b: npt.ArrayLike, p: float, up_to: int = 1, importance: npt.ArrayLike | None = None
) -> ClassShares:
    """Share of each class of inputs in the exact loss of the model ReLU(M x + b).

    Arguments and errors are those of `dropped_bound`, but p is at least 1e-290, `up_to` is at most 14, and an
    importance is positive.

    Returns
    -------
    ClassShares
        All shares are 0 if the loss is.

    Notes
    -----
    The share above K is what is left of the exact loss. K = 1 serves for thousands of features.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> found = class_shares(pair, 0.0, 0.001)
    >>> found.shares.round(9), found.probabilities.round(6)       # two features on: a millionth of the inputs
    (array([0., 0., 1.]), array([9.98001e-01, 1.99800e-03, 1.00000e-06]))
    """
    M = matrix("M", M)
    n = M.shape[0]
    p = number("p", p, LEAST, 1)
    weights = _weights(importance, n)
    found = exact_loss(M, b, Features(n, p, importance=weights))
    last = integer("up_to", up_to, 0, n)
    loss = n * found.loss
    kept = [p**k * (1 - p) ** (n - k) * class_loss(M, b, k, weights, of_map=True) for k in range(last + 1)]
    pmf = SparseUniform(p).sparsity_pmf(n)[: last + 1]
    scale = 1.0 / loss if loss > 0.0 else 0.0
    return ClassShares(
        loss=found.loss,
        shares=np.array([*kept, max(loss - sum(kept), 0.0)]) * scale,
        probabilities=np.array([*pmf, SparseUniform(p).tail(n, last + 1)]),
        bound=min(dropped_bound(M, b, p, last, weights) * scale, 1.0),
        error_estimate=n * found.error_estimate * scale + 1e-14,
    )


@result
class Dropping:
    """What it costs to choose a model by its loss per feature on the classes 0, ..., K alone."""

    W: FloatArray
    """The worst minimiser found of the truncated loss. Shape (n_features, n_hidden)."""
    b: FloatArray
    """Its biases. Shape (n_features,)."""
    truncated: float
    """Its truncated loss."""
    loss: float
    """Its full loss."""
    left_out: float
    """Bound on `loss` - `truncated` by `dropped_bound`, hence on what can be gained by not truncating."""
    best: Minimum
    """Minimiser found of the full loss."""
    hits: int
    """Starts that ended in a minimum of the truncated loss as low as the least one found."""
    status: Status
    """How the minimisation of the truncated loss ended; `best` has its own."""

    @property
    def regret(self) -> float:
        """Loss above that of the best model, relative to it (0 if both vanish)."""
        return self.loss / self.best.loss - 1.0 if self.best.loss > 0.0 else float(self.loss > 0.0)


def cost_of_dropping(
    n_features: int,
    n_hidden: int,
    p: float,
    up_to: int = 1,
    importance: npt.ArrayLike | None = None,
    *,
    starts: int = 16,
    rng: np.random.Generator | int | None = 0,
) -> Dropping:
    """Compare the minimiser of the loss on inputs with few features on with that of the full loss.

    Parameters
    ----------
    n_features, n_hidden : int
        From 1 to 64.
    p : float
        Probability that a feature is on, in [1e-100, 1). One number: a class weighs all patterns alike.
    up_to : int, optional
        The last class K kept, from 1 to n_features; below that at most 11, with 20,000 patterns at most.
    importance : (n_features,) array_like of float, optional
        Weights of the features' errors, at least 0 and not all 0; 1 by default.
    starts, rng
        As for `minimise`. The full loss is also descended from the truncated minimisers.

    Returns
    -------
    Dropping
        Where the truncated loss has many minimisers, the worst of those found.

    Raises
    ------
    ValueError
        If an argument has another shape or lies outside its range.

    Notes
    -----
    Minima are the least of many starts, not proved; `left_out` bounds the regret wherever
    `truncated` is the true minimum. Truncated minimisers count as equal up to 1e-4 p of the loss of W = 0.

    Examples
    --------
    >>> found = cost_of_dropping(2, 1, 0.01, starts=4)
    >>> round(found.truncated, 9), round(found.loss / (0.01**2 / 6), 3)          # an antipodal pair
    (0.0, 1.0)
    """
    n = integer("n_features", n_features, 1, 64)
    p = number("p", p, LEAST_P, 1, brackets="[)")
    up_to = integer("up_to", up_to, 1, n)
    weights = _weights(importance, n)
    law = Features(n, p, importance=weights)
    rng = generator("rng", rng)
    cut = minimise(n, n_hidden, law, classes=up_to if up_to < n else None, starts=starts, rng=rng)
    limit = cut.objective + SAME * p * p * float(weights.mean()) / 3.0
    ends = [minimum for minimum in cut.minima if minimum.objective <= limit]
    full = [exact_loss(end.W_out @ end.W_in, end.b, law).loss for end in ends]
    order = np.argsort(full)
    worst = ends[order[-1]]
    first = [(ends[k].W_out, ends[k].W_in, ends[k].b) for k in [order[-1], *order[: FURTHER - 1]]]
    best = minimise(n, n_hidden, law, starts=starts, first=first, rng=rng)
    return Dropping(
        W=worst.W_in.T,
        b=worst.b,
        truncated=worst.objective,
        loss=full[order[-1]],
        left_out=dropped_bound(worst.W_out @ worst.W_in, worst.b, p, up_to, weights) / n,
        best=best,
        hits=sum(end.hits for end in ends),
        status=cut.status,
    )
