"""The loss from inputs with two or more features on, and the cost of ignoring these in training."""

import numpy as np
import numpy.typing as npt

from ...theory.features import Features, SparseUniform
from ...theory.loss import class_loss, dropped_bound
from ...theory.validation import FloatArray, generator, integer, matrix, number
from ..loss import exact_loss
from ..loss.problem import LEAST
from ..minimise import Minimum, minimise
from ..results import result

# Below, the loss leaves the range that the minimiser takes.
LEAST_P = 1e-100
# So many truncated minimisers are starts for the full loss.
FURTHER = 8
# Losses this close, in units of p times the loss of the zero model, count as one minimum.
SAME = 1e-4


@result
class ClassShares:
    """Shares of a model's loss that come from inputs with no feature on, with one, and with more."""

    loss: float
    """Exact loss per feature over sparse data."""
    shares: FloatArray
    """Shares of the three classes in `loss`, with the sum 1, or 0 if `loss` is 0. Shape (3,)."""
    probabilities: FloatArray
    """Probabilities of the three classes. Shape (3,)."""
    upper_bound: float
    """Upper bound on the last share, from the weights alone."""
    error_estimate: float
    """Largest error of each share."""


def class_shares(M: npt.ArrayLike, b: npt.ArrayLike, p: float) -> ClassShares:
    """Return the shares of inputs with no, one and more features on in the exact loss of ReLU(M x + b).

    The last share is 1 minus the other two.

    Parameters
    ----------
    M : (n, n) array_like of float
        Row i makes output i.
    b : float or (n,) array_like of float
        Bias of the outputs.
    p : float
        Probability that a feature is on, in [1e-290, 1], for independent features uniform on [0, 1].

    Returns
    -------
    ClassShares
        Loss per feature, shares and probabilities of the three classes, and an upper bound on the last share.
        Errors are those of `superposition.theory.loss.dropped_bound`.

    Examples
    --------
    >>> pair = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> classes = class_shares(pair, 0.0, 0.001)
    >>> classes.shares.round(9), classes.probabilities.round(6)   # two features on: a millionth of the inputs
    (array([0., 0., 1.]), array([9.98001e-01, 1.99800e-03, 1.00000e-06]))
    """
    M = matrix("M", M)
    n = M.shape[0]
    p = number("p", p, LEAST, 1)
    exact = exact_loss(M, b, Features(n, p))
    loss, law = n * exact.loss, SparseUniform(p)
    low_losses = [p**k * (1 - p) ** (n - k) * class_loss(M, b, k, of_map=True) for k in (0, 1)]
    scale = 1.0 / loss if loss > 0.0 else 0.0
    return ClassShares(
        loss=exact.loss,
        shares=np.array([*low_losses, max(loss - sum(low_losses), 0.0)]) * scale,
        probabilities=np.array([*law.sparsity_pmf(n)[:2], law.tail(n, 2)]),
        upper_bound=min(dropped_bound(M, b, p, 1) * scale, 1.0),
        error_estimate=n * exact.error_estimate * scale + 1e-14,
    )


@result
class Dropping:
    """Cost per feature of choosing a model by its loss on inputs with at most one feature on."""

    truncated: float
    """Loss on inputs with at most one feature on, of the truncated minimiser with the largest full loss."""
    loss: float
    """Full loss of this truncated minimiser."""
    left_out: float
    """Upper bound of `loss` - `truncated` by `dropped_bound`, and so of the gain by not truncating."""
    best: Minimum
    """Best model found for the full loss."""

    @property
    def regret(self) -> float:
        """`loss` of the truncated minimiser over the loss of the best model, minus 1.

        If the best loss is 0, the regret is 1 for a positive `loss`, else 0.
        """
        return self.loss / self.best.loss - 1.0 if self.best.loss > 0.0 else float(self.loss > 0.0)


def cost_of_dropping(
    n_features: int,
    n_hidden: int,
    p: float,
    *,
    starts: int = 16,
    rng: np.random.Generator | int | None = 0,
) -> Dropping:
    """Return the full loss of a model that minimises the loss on inputs with at most one feature on.

    Among the minimisers of this truncated loss the one of largest full loss is taken; minima within 1e-4 p
    times the loss of W = 0 count as equal. Minima are the least of many starts, not proved. If `truncated` is
    the true minimum, `loss` exceeds the least full loss by at most `left_out`.

    Parameters
    ----------
    n_features, n_hidden : int
        From 2, and from 1, to 64.
    p : float
        Probability that a feature is on, in [1e-100, 1).
    starts, rng : int, Generator, int or None, optional
        Random starts of each of the two searches (`minimise`), and what draws them. The search for the least
        full loss also starts from the truncated minimisers.

    Returns
    -------
    Dropping

    Examples
    --------
    >>> cost = cost_of_dropping(2, 1, 0.01, starts=4)
    >>> round(cost.truncated, 9), round(cost.loss / (0.01**2 / 6), 3)          # an antipodal pair
    (0.0, 1.0)
    """
    n = integer("n_features", n_features, 2, 64)
    p = number("p", p, LEAST_P, 1, brackets="[)")
    law = Features(n, p)
    rng = generator("rng", rng)
    cut = minimise(n, n_hidden, law, classes=1, starts=starts, rng=rng)
    limit = cut.objective + SAME * p * p / 3.0
    ends = [minimum for minimum in cut.minima if minimum.objective <= limit]
    full = [exact_loss(end.W_out @ end.W_in, end.b, law).loss for end in ends]
    order = np.argsort(full)
    worst = ends[order[-1]]
    first = [(ends[k].W_out, ends[k].W_in, ends[k].b) for k in [order[-1], *order[: FURTHER - 1]]]
    return Dropping(
        truncated=worst.objective,
        loss=full[order[-1]],
        left_out=dropped_bound(worst.W_out @ worst.W_in, worst.b, p, 1) / n,
        best=minimise(n, n_hidden, law, starts=starts, first=first, rng=rng),
    )
