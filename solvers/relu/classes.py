"""When the classes of many features on may be dropped: their share of the loss, and what dropping costs."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from ...theory.arguments import FloatArray, integer, matrix, number, real, vector
from ...theory.features import Features, SparseUniform
from ...theory.loss import class_loss_per_feature, dropped_bound, mixture_loss, mixture_loss_gradient
from ..loss import exact_loss
from ..results import result

__all__ = ["ClassShares", "Dropping", "DroppingTable", "class_shares", "cost_of_dropping", "dropping_table"]

# The gradient of all classes is summed for so many features.
LARGEST = 11
# Losses this close, in units of p times the loss of the zero model, count as one minimum.
SAME = 1e-4


@result
class ClassShares:
    """Which inputs the loss of a model comes from.

    Attributes
    ----------
    loss : float
        Exact loss per feature over sparse data, the mean of importance times squared error.
    shares : (K + 2,) ndarray of float64
        Share of the classes 0, ..., K in it, and of all above K together. They add up to 1.
    probabilities : (K + 2,) ndarray of float64
        Probabilities of the same classes.
    bound : float
        Upper bound on the last share, from the weights alone.
    error_estimate : float
        What each share is off by at most.
    """

    loss: float
    shares: FloatArray
    probabilities: FloatArray
    bound: float
    error_estimate: float


def _weights(importance: npt.ArrayLike | None, n: int) -> FloatArray:
    weights = np.ones(n) if importance is None else real("importance", vector("importance", importance, n), 0)
    if not weights.any():
        raise ValueError("`importance` must not be 0 for all features; got 0 for all.")
    return weights


def class_shares(
    M: npt.ArrayLike, b: npt.ArrayLike, p: float, up_to: int = 1, importance: npt.ArrayLike | None = None
) -> ClassShares:
    """Share of each class of inputs in the exact loss of the model ReLU(M x + b).

    Parameters
    ----------
    M : (n, n) array_like of float
        Decoder times encoder, row i makes output i. Not modified.
    b : float or (n,) array_like of float
        Bias of the outputs.
    p : float
        Probability that a feature is on, in (0, 1].
    up_to : int, optional
        The last class K that is shown by itself, 0 <= K <= n and at most 14.
    importance : (n,) array_like of float, optional
        Weights of the features' errors, at least 0 and not all 0; 1 by default.

    Returns
    -------
    ClassShares
        All shares are 0 if the loss is.

    Raises
    ------
    ValueError
        If an argument has another shape, is not finite or lies outside its range.

    See Also
    --------
    superposition.theory.loss.mixture_loss : All classes one by one, for few features.

    Notes
    -----
    Classes up to K come from `theory.loss.class_loss`, the loss from `solvers.loss.exact_loss`; the rest is
    their difference. K = 1 takes n² steps and serves for thousands of features. Features are alike but for
    their importance, as a class weighs all its patterns the same.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> found = class_shares(pair, 0.0, 0.001)
    >>> found.shares.round(9), found.probabilities.round(6)       # two features on: a millionth of the inputs
    (array([0., 0., 1.]), array([9.98001e-01, 1.99800e-03, 1.00000e-06]))
    """
    M = matrix("M", M)
    n = M.shape[0]
    p = number("p", p, 0, 1, brackets="(]")
    weights = _weights(importance, n)
    found = exact_loss(M, b, Features(n, p, importance=weights))
    last = integer("up_to", up_to, 0, n)
    loss = n * found.loss
    kept = [p**k * (1 - p) ** (n - k) * (weights @ class_loss_per_feature(M, b, k)) for k in range(last + 1)]
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
    """What it costs to choose a model by its loss on the classes 0, ..., K alone; see `cost_of_dropping`.

    Attributes
    ----------
    W : (n_features, n_hidden) ndarray of float64
        The worst minimiser found of the truncated loss.
    b : (n_features,) ndarray of float64
        Its biases.
    truncated : float
        Its truncated loss, a total over features.
    loss : float
        Its full loss.
    left_out : float
        Rigorous bound on `loss` - `truncated`, hence on what can be gained by not truncating.
    best_W, best_b
        Minimiser found of the full loss.
    best_loss : float
        Its full loss.
    ends : int
        Starts that ended in a minimum of the truncated loss as low as the least one found.
    """

    W: FloatArray
    b: FloatArray
    truncated: float
    loss: float
    left_out: float
    best_W: FloatArray
    best_b: FloatArray
    best_loss: float
    ends: int

    @property
    def regret(self) -> float:
        """Loss above that of the best model, relative to it (0 if both vanish)."""
        return self.loss / self.best_loss - 1.0 if self.best_loss > 0.0 else float(self.loss > 0.0)


def _axes(n: int, m: int) -> FloatArray:
    """Return unit vectors along the axes: one on each, then the opposite ones, then none."""
    W = np.zeros((n, m))
    for i in range(min(n, 2 * m)):
        W[i, i % m] = 1.0 if i < m else -1.0
    return W


def _descend(
    starts: FloatArray, n: int, p: float, importance: FloatArray, up_to: int
) -> list[tuple[float, FloatArray, FloatArray]]:
    """Return the ends of the descents from all starts (x = W, b in a row): losses, W and b."""
    scale = 1.0 / (p * (1.0 - p) ** (n - 1) * importance.sum() / 3.0)

    def split(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return x[:-n].reshape(n, -1), x[-n:]

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        W, b = split(x)
        by_W, by_b = mixture_loss_gradient(W, b, p, importance, up_to)
        value = float(mixture_loss(W, b, p, importance, up_to).terms.sum())
        return scale * value, scale * np.concatenate([by_W.ravel(), by_b])

    options = {"maxiter": 500, "maxfun": 800, "ftol": 1e-14, "gtol": 1e-8, "maxcor": 20}
    minimize: Any = optimize.minimize  # its stubs know no objective that returns its gradient too
    ends = []
    for x in starts:
        found = minimize(loss, x, jac=True, method="L-BFGS-B", options=options)
        ends.append((float(found.fun) / scale, *split(found.x)))
    return ends


def cost_of_dropping(
    n_features: int,
    n_hidden: int,
    p: float,
    up_to: int = 1,
    importance: npt.ArrayLike | None = None,
    *,
    starts: int = 16,
    rng: np.random.Generator | int = 0,
) -> Dropping:
    """Compare the minimiser of the loss on few-sparse inputs with that of the full loss.

    The question behind "ignore two-sparse inputs" is not how rare they are, but whether the model found
    without them is as good as the best.

    Parameters
    ----------
    n_features : int
        Number of features, from 1 to 11.
    n_hidden : int
        Number of hidden neurons, at least 1.
    p : float
        Probability that a feature is on, in (0, 1).
    up_to : int, optional
        The last class K that is kept, 1 <= K <= n_features.
    importance : (n_features,) array_like of float, optional
        Weights of the features' errors, at least 0 and not all 0; 1 by default.
    starts : int, optional
        Random starts of the descent beside unit vectors along the axes, m antipodal pairs at most. Those for
        the full loss also go on from the ends of the truncated one.
    rng : Generator or int, optional
        Generator, or seed of one, that draws the starts.

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
    L-BFGS on exact losses and gradients. Minima are the least of many starts, not proved; `left_out` bounds
    the regret rigorously wherever `truncated` is the true minimum. Truncated minimisers are equal up to
    1e-4 p of the loss of the zero model.

    Examples
    --------
    >>> found = cost_of_dropping(2, 1, 0.01, starts=4)
    >>> round(found.truncated, 9), round(found.loss / (0.01**2 / 3), 3)          # an antipodal pair
    (0.0, 1.0)
    """
    n = integer("n_features", n_features, 1, LARGEST)
    m = integer("n_hidden", n_hidden, 1)
    p = number("p", p, 0, 1, brackets="()")
    up_to = integer("up_to", up_to, 1, n)
    weights = np.ones(n) if importance is None else real("importance", vector("importance", importance, n), 0)
    if not weights.any():
        raise ValueError("`importance` must not be 0 for all features; got 0 for all.")
    generator = np.random.default_rng(rng)
    begin = generator.normal(scale=m**-0.5, size=(integer("starts", starts, 0) + 1, n * (m + 1)))
    begin[:, -n:] *= 0.1
    begin[0] = np.concatenate([_axes(n, m).ravel(), np.zeros(n)])
    ends = _descend(begin, n, p, weights, up_to)
    limit = min(end[0] for end in ends) + SAME * p * p * weights.sum() / 3.0
    minima = [(mixture_loss(W, b, p, weights).total, low, W, b) for low, W, b in ends if low <= limit]
    loss, truncated, W, b = max(minima, key=lambda minimum: minimum[0])
    further = np.array([np.concatenate([W.ravel(), b]) for _, W, b in ends])
    best_loss, best_W, best_b = min(
        _descend(np.concatenate([begin, further]), n, p, weights, n), key=lambda end: end[0]
    )
    left_out = dropped_bound(W @ W.T, b, p, up_to, weights)
    return Dropping(W, b, truncated, loss, left_out, best_W, best_b, best_loss, len(minima))


@result
class DroppingTable:
    """When the classes above K may be dropped, over a grid of p; see `dropping_table`. Arrays have its size.

    Attributes
    ----------
    p : ndarray of float64
        Probability that a feature is on.
    probability : ndarray of float64
        P(more than K features on).
    given_on : ndarray of float64
        The same among inputs with a feature on at all.
    share : ndarray of float64
        Share of those inputs in the loss of the best model found.
    left_out : ndarray of float64
        Rigorous bound on the loss that the truncated minimiser leaves out, relative to the best loss found.
    regret : ndarray of float64
        What choosing the model without those inputs costs, relative to the best loss found.
    """

    p: FloatArray
    probability: FloatArray
    given_on: FloatArray
    share: FloatArray
    left_out: FloatArray
    regret: FloatArray


def dropping_table(
    n_features: int,
    n_hidden: int,
    p: npt.ArrayLike,
    up_to: int = 1,
    *,
    starts: int = 8,
    rng: np.random.Generator | int = 0,
) -> DroppingTable:
    """Tabulate four measures of what inputs with more than `up_to` features on matter, importances 1.

    Parameters
    ----------
    n_features, n_hidden, up_to, starts, rng
        As for `cost_of_dropping`.
    p : (size,) array_like of float
        Probabilities that a feature is on, in (0, 1).

    Returns
    -------
    DroppingTable

    Raises
    ------
    ValueError
        If an argument lies outside its range.

    Notes
    -----
    `regret` answers "may they be dropped?", and is good to about 1e-6. `probability` does not: for n_features
    below 2 n_hidden it may be small where the regret is not.

    Examples
    --------
    >>> table = dropping_table(2, 1, [0.1], starts=2)
    >>> table.probability.round(12), table.share.round(2)
    (array([0.01]), array([1.]))
    """
    grid = real("p", vector("p", p), 0, 1, brackets="()")
    generator = np.random.default_rng(rng)
    rows = []
    for q in map(float, grid):
        found = cost_of_dropping(n_features, n_hidden, q, up_to, starts=starts, rng=generator)
        shares = class_shares(found.best_W @ found.best_W.T, found.best_b, q, up_to)
        beyond = shares.probabilities[-1]
        given_on = beyond / SparseUniform(q).tail(n_features, 1)
        rows.append((beyond, given_on, shares.shares[-1], found.left_out / found.best_loss, found.regret))
    return DroppingTable(grid, *np.array(rows).T)
