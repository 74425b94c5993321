r"""Lower bound on the squared loss of n functions and a linear readout, and losses of known networks.

Proof of the bound, for outputs y = V h + c and targets t, both with K components. Let P be the orthogonal
projection on the complement of the span of V, of rank K - n at least. Then P y = P c does not depend on the
input, so :math:`E|t - y|^2 \ge E|P(t - c)|^2 \ge \mathrm{tr}\,P\,\mathrm{Cov}(t)`, and a trace of that kind
is at least the sum of the K - n smallest eigenvalues (Fan 1949). Nothing is assumed about h.
"""

import numpy as np
import numpy.typing as npt

from .. import validation
from ..features import Features
from ..features.values import law_named
from ..results import frozen, result
from ..validation import FloatArray, Real

__all__ = ["NETWORKS", "TARGETS", "Moments", "equal_features_loss", "loss_lower_bound", "target_moments"]

TARGETS = ("identity", "relu", "abs")
NETWORKS = ("lower_bound", "naive", "pairs", "zero", "unbiased", "readout", "constant")

# The law of |v|, of values that are as likely as their negatives.
_HALVES = {"symmetric": "uniform", "normal": "half-normal"}


@result
class Moments:
    """Mean and covariance of the targets t of all outputs.

    Parameters
    ----------
    mean : (n_outputs,) ndarray of float64
    covariance : (n_outputs, n_outputs) ndarray of float64
    """

    mean: FloatArray
    covariance: FloatArray

    @property
    def second(self) -> FloatArray:
        """Second moments E t t' of the targets t, shape (n_outputs, n_outputs)."""
        return np.asarray(self.covariance + np.multiply.outer(self.mean, self.mean))


def _target_value_moments(law: Features, target: str) -> tuple[float, float, float]:
    """Return E f, E f^2 and E f v, where v is the value of a feature that is on and f its target f(v).

    v has the law `law.values`, at scale 1; f(v) is v, ReLU(v) or |v| for the `target` "identity", "relu" or
    "abs". A ValueError is raised if E |v| is needed and not known.
    """
    values = law.values
    first, second = float(values.moment(1)), float(values.moment(2))
    if target == "identity" or values.support[0] >= 0.0:
        return first, second, second
    if str(values) not in _HALVES:
        raise ValueError(f"`target` must be 'identity' for {values!r} values; got {target!r}.")
    size = float(law_named("values", _HALVES[str(values)]).moment(1))
    return (size / 2, second / 2, second / 2) if target == "relu" else (size, second, 0.0)


def target_moments(law: Features, target: str = "relu", *, mixing: npt.ArrayLike | None = None) -> Moments:
    r"""Mean and covariance of the targets :math:`t = f(x) + M x`, exactly.

    Parameters
    ----------
    law : Features
        Any law: features may differ, form groups, or be on in a fixed number.
    target : {"relu", "abs", "identity"}, optional
        The function f of each feature.
    mixing : (n_features, n_features) array_like of float, optional
        M, such as the identity for x + ReLU(x); entries up to 1e50. None for 0.

    Returns
    -------
    Moments
        The mean in the units of the features, the covariance in their square; relative error a few roundings
        for each sum.

    Raises
    ------
    ValueError
        If an argument has another shape or is out of range, or |v| of the law's values has no known law.

    Examples
    --------
    >>> found = target_moments(Features(2, 0.1, "symmetric"))         # p/4 and p/6 - p^2/16
    >>> found.mean, found.covariance.diagonal().round(8)
    (array([0.025, 0.025]), array([0.01604167, 0.01604167]))
    """
    law = validation.instance("law", law, Features)
    name = validation.choice("target", target, TARGETS)
    n = law.n_features
    first, second, cross = _target_value_moments(law, name)
    mean_x, q, scale = float(law.values.moment(1)), law.on_probability(), law.scale
    if law.independent:
        joint = np.zeros((n, n))
    else:
        joint = law.pair_probability() - np.multiply.outer(q, q)
        np.fill_diagonal(joint, 0.0)
    units = np.multiply.outer(scale, scale)

    def moments(of_one: float, of_two: float, product: float) -> FloatArray:
        """Return the covariance matrix of f(x_i) and g(x_j), from E f, E g and E f g of a feature's value."""
        matrix = joint * of_one * of_two
        np.fill_diagonal(matrix, q * (product - of_one * of_two) + q * (1 - q) * of_one * of_two)
        return np.asarray(matrix * units)

    mean, covariance = q * first * scale, moments(first, first, second)
    if mixing is not None:
        M = validation.real("mixing", validation.matrix("mixing", mixing, (n, n)), -1e50, 1e50)
        shared = moments(first, mean_x, cross) @ M.T
        covariance = covariance + shared + shared.T + M @ law.covariance() @ M.T
        mean = mean + M @ law.mean
    return Moments(frozen(mean), frozen(covariance))


def loss_lower_bound(
    law: Features,
    n_hidden: int,
    target: str = "relu",
    *,
    mixing: npt.ArrayLike | None = None,
    bias: bool = True,
) -> float:
    r"""Lower bound on the loss of any n functions of the input with a linear readout, per output.

    For every random vector h of n components, every V and every c,

    .. math:: \frac1K\sum_k I_k\,E\big(t_k-(Vh+c)_k\big)^2 \;\ge\; \frac1K\sum_{i>n}\lambda_i

    with the eigenvalues :math:`\lambda_1\ge\lambda_2\ge\dots` of :math:`I^{1/2}\,\mathrm{Cov}(t)\,I^{1/2}`,
    or, where c = 0, of this matrix with :math:`E\,t t'` in place of the covariance. Equality holds where h
    spans the n leading eigenvectors' components of the weighted targets. That is Eckart and Young's theorem
    for random vectors (Psychometrika 1, 1936; K. Fan, PNAS 35, 1949). The readout has to be linear and the
    loss the square. Errors are those of `target_moments`.

    Parameters
    ----------
    law : Features
        Law of the features; its importance is I.
    n_hidden : int
        Number n of functions, at least 0.
    target, mixing : optional
        The function f of each feature, "relu", "abs" or "identity", and the matrix M of the targets f(x) + M
        x, as in `target_moments`.
    bias : bool, optional
        Whether the readout has a bias c.

    Returns
    -------
    float
        Mean over outputs. Absolute error n_features roundings of the largest eigenvalue.

    Examples
    --------
    >>> law = Features(4, 0.1, "symmetric")
    >>> round(loss_lower_bound(law, 2), 12) == round((1 - 2 / 4) * (0.1 / 6 - 0.1**2 / 16), 12)
    True
    """
    count = validation.integer("n_hidden", n_hidden, 0)
    moments = target_moments(law, target, mixing=mixing)
    root = np.sqrt(law.importance)
    matrix = moments.covariance if validation.flag("bias", bias) else moments.second
    values = np.linalg.eigvalsh(root[:, None] * matrix * root)  # the smallest first
    return float(np.maximum(values[: max(values.size - count, 0)], 0.0).sum() / values.size)


def equal_features_loss(
    network: str,
    p: npt.ArrayLike,
    n_features: npt.ArrayLike,
    n_hidden: npt.ArrayLike,
    *,
    target: str = "relu",
) -> Real:
    r"""Loss per feature of a network, in closed form, for independent features uniform on [-1, 1] when on.

    With v and mu the variance and mean of a target (p/6 - p^2/16 and p/4 for ReLU, p/3 - p^2/4 and p/2 for
    \|x\|, 5p/6 - p^2/16 and p/4 for x + ReLU(x)), over F features and n <= F neurons ReLU(u x + beta):

    - "lower_bound": (1 - n/F) v, for any n functions, with an output bias or, for n >= 1, without.
    - "naive": n targets from one neuron ReLU(x_i) each, the others from an output bias. For ReLU this attains
      the lower bound; for the other targets each of the n has the error v - Cov^2/Var ReLU.
    - "pairs": n // 2 targets, exactly, from two neurons ReLU(x_i), ReLU(-x_i) each, the others from a bias.
    - "zero": neither neurons nor a bias: mu^2 + v.
    - "unbiased": n targets from one neuron each, 0 for the others. For ReLU alone, like the next two.
    - "readout": "unbiased" with the others read from the n neurons, with weights mu^2/(v + n mu^2).
    - "constant": n - 1 targets from one neuron each, the others from a constant neuron, read as a bias.

    The last three exceed the lower bound: "unbiased" by 3p/8 of its own loss, "readout" by at most as much,
    and "constant" by v/F.

    Parameters
    ----------
    network : str
        One of the names above.
    p : float or array_like
        Probability that a feature is on, in (0, 1].
    n_features, n_hidden : int or array_like of int
        F at least 1, and n from 0 to F.
    target : {"relu", "abs", "mixed"}, optional

    Returns
    -------
    float or ndarray
        Relative error a few roundings.

    Raises
    ------
    ValueError
        If an argument is out of range, or the network is for ReLU alone.

    Examples
    --------
    >>> equal_features_loss("lower_bound", 0.01, 100, 50) == equal_features_loss("naive", 0.01, 100, 50)
    True
    >>> names = ("unbiased", "readout", "constant", "lower_bound")
    >>> [round(equal_features_loss(name, 1.0, 100, 50), 6) for name in names]
    [0.083333, 0.053091, 0.053125, 0.052083]
    """
    name = validation.choice("network", network, NETWORKS)
    goal = validation.choice("target", target, ("relu", "abs", "mixed"))
    if goal != "relu" and name in NETWORKS[4:]:
        raise ValueError(f"`network` must be one of {NETWORKS[:4]} for this target; got {name!r}.")
    on, F, n = validation.broadcast(
        p=validation.probability("p", p),
        n_features=validation.whole_numbers("n_features", n_features),
        n_hidden=validation.whole_numbers("n_hidden", n_hidden, 0),
    )
    if np.any(n > F):
        raise ValueError(
            f"`n_hidden` must be at most `n_features`; got {n.flat[np.argmax(n - F)]:g} with "
            f"{F.flat[np.argmax(n - F)]:g} features."
        )
    mean, square = _MOMENTS[goal]
    mu, v = mean * on, on * (square - mean**2 * on)
    dropped = F - n
    if name == "pairs":
        return validation.scalar_or_array((F - n // 2) * v / F)
    if name == "zero":
        return validation.scalar_or_array(square * on + 0.0 * F)
    if name == "unbiased":
        return validation.scalar_or_array(dropped * (square * on) / F)
    if name == "readout":
        return validation.scalar_or_array(dropped * (v + mu * mu * (v / (v + n * mu * mu))) / F)
    if name == "constant":
        if np.any(n < 1):
            raise ValueError("`n_hidden` must be at least 1 for a neuron that is constant; got 0.")
        return validation.scalar_or_array((dropped + 1) * v / F)
    linear_gain = 0.0 if goal == "relu" or name == "lower_bound" else on * (4 - 3 * on) / (3 * (8 - 3 * on))
    return validation.scalar_or_array((dropped * v + n * linear_gain) / F)


# Mean and mean square of the target of a feature that is on.
_MOMENTS: dict[str, tuple[float, float]] = {
    "relu": (1 / 4, 1 / 6),
    "abs": (1 / 2, 1 / 3),
    "mixed": (1 / 4, 5 / 6),
}
