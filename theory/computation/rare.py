r"""Rare features: the leading order of the loss as p -> 0, where one feature is on at a time.

A network with few neurons then sees one feature at a time, and each neuron can serve several features. For a
target alpha ReLU(x) + gamma ReLU(-x) the lower bound leaves (alpha^2 + gamma^2)/6 for each dropped feature,
over p. For ReLU the naive network attains it. For \|x\| and x + ReLU(x), which take two neurons ReLU each if
every neuron is for one feature, a *fan* comes within a fraction of one feature of the lower bound at any n.
"""

import numpy as np

from .. import validation
from ..results import frozen, result
from ..validation import FloatArray

__all__ = ["RareLosses", "SharedNeuronLoss", "fan_network", "rare_losses", "shared_loss"]

# What each feature costs over p if it is dropped: half the mean square of its target when it is on.
_WHOLE = {"relu": 1 / 6, "abs": 1 / 3, "mixed": 5 / 6}
# What one neuron for one feature leaves of it at best, over p; of x + ReLU(x) see `best_single_neuron`.
_SINGLE = {"relu": 0.0, "abs": 1 / 6}
# What a fan leaves of its carriers, together.
_CARRIERS = {"relu": 0.0, "abs": 1 / 3, "mixed": 1 / 6}


@result
class RareLosses:
    """Losses per feature over p, in the limit of rare features; see `rare_losses`."""

    lower_bound: float
    """Lower bound, for any n functions of the input with a linear readout."""
    naive: float
    """Least loss of networks with an output bias whose neurons serve one feature each."""
    fan: float
    """Loss of the fan as eps -> 0; that of `naive` if less, or if there are too few neurons for a fan."""

    @property
    def gap(self) -> float:
        """`fan` - `lower_bound`: between these bounds lies the least loss per feature, divided by p."""
        return self.fan - self.lower_bound


def best_single_neuron() -> tuple[float, float]:
    """Return (a, loss/p) of the best neuron c ReLU(x + a) for the target x + ReLU(x), as p -> 0.

    The feature x is on with probability p and then uniform on [-1, 1]. The output weight c is the best one,
    and there is no output bias; the loss is the expected squared error.
    """
    from scipy.optimize import brentq  # a quarter of a second of import, needed only here

    a = float(brentq(lambda z: z**4 - z**3 + 3 * z - 1, 0.0, 1.0, xtol=1e-16))
    product = (2 / 3 + a / 2 - a**3 / 6) / 2
    square = (1 / 3 + a**2 - 2 * a**3 / 3) / 2
    return a, 5 / 6 - product**2 / square


def rare_losses(n_features: int, n_hidden: int, *, target: str = "relu") -> RareLosses:
    r"""Bounds on the least loss of n ReLU neurons with a linear readout, divided by p, as p -> 0.

    The field `lower_bound` holds for any network: `loss_lower_bound` to first order in p. The field `naive`
    is the best loss of networks whose neurons serve one feature each. The field `fan` is an upper bound: the
    loss of `fan_network`, which computes targets as differences of neurons, or `naive` if that is less.
    Features are independent and uniform on [-1, 1] when on.

    Parameters
    ----------
    n_features, n_hidden : int
        F from 1 to 2^53, and n from 1 to F.
    target : {"relu", "abs", "mixed"}, optional
        ReLU(x), \|x\|, or x + ReLU(x).

    Returns
    -------
    RareLosses
        Exact but for roundings. For "relu" all three fields are (1 - n/F)/6: nothing is gained over `naive`.

    Examples
    --------
    >>> found = rare_losses(100, 50, target="abs")
    >>> round(found.lower_bound, 6), round(found.fan, 6), round(found.naive, 6)
    (0.166667, 0.17, 0.25)
    """
    goal = validation.choice("target", target, tuple(_WHOLE))
    F = validation.integer("n_features", n_features, 1, 2**53)
    n = validation.integer("n_hidden", n_hidden, 1, F)
    coefficients = _WHOLE[goal]
    single = best_single_neuron()[1] if goal == "mixed" else _SINGLE[goal]
    lower_bound = (F - n) * coefficients / F
    naive = min(((F - n) * coefficients + n * single) / F, (F - n // 2) * coefficients / F)
    enough = n >= (2 if goal == "abs" else 1)
    fan = lower_bound + _CARRIERS[goal] / F if enough else naive
    return RareLosses(lower_bound, naive, min(fan, naive))


def fan_network(
    n_features: int, n_hidden: int, *, target: str = "abs", eps: float = 0.1
) -> tuple[FloatArray, FloatArray]:
    r"""Weights U, V of a fan V ReLU(U x): outputs near \|x_j\| or x_j + ReLU(x_j) for rare features.

    The n neurons have no biases. While only feature j is on, output j equals its target for the first n - 2
    features ("abs") or n - 1 features ("mixed"): this output is a difference of neurons divided by `eps`.
    *Carriers*, the next two features for "abs" and one for "mixed", have positive weights at all neurons;
    their outputs err for x_j < 0. The other features are dropped.

    As p -> 0 the loss of the first n features, summed and divided by p, is 1/3 for "abs" and 1/6 for "mixed",
    plus a multiple of eps^2 (`derive_fan`). If several features are on, outputs err by up to a multiple of
    1/eps. A ValueError is raised as in `rare_losses`. The page "Computation in superposition" has the
    construction.

    Parameters
    ----------
    n_features, n_hidden : int
        F at least n_hidden, and n at least 3 for "abs", 2 for "mixed".
    target : {"abs", "mixed"}, optional
    eps : float, optional
        Weight of the features that are computed in full, from 1e-150 to 1.

    Returns
    -------
    U : (n_hidden, n_features) ndarray of float64
        A column for each feature: first those that are computed in full, then the carriers, up to column n -
        1, then those that are dropped.
    V : (n_features, n_hidden) ndarray of float64

    Examples
    --------
    >>> U, V = fan_network(3, 3, eps=0.5)
    >>> x = np.array([-0.8, 0.0, 0.0])
    >>> (V @ np.maximum(U @ x, 0.0))[0].round(12)
    0.8
    """
    goal = validation.choice("target", target, ("abs", "mixed"))
    n = validation.integer("n_hidden", n_hidden, 3 if goal == "abs" else 2, 10_000)
    F = validation.integer("n_features", n_features, n, 100_000)
    validation.check_fits("n_features", F, 2.0 * n * F)
    small = validation.number("eps", eps, 1e-150, 1.0)
    U, V = np.zeros((n, F)), np.zeros((F, n))
    i = np.arange(n)
    if goal == "abs":
        kinks = np.arange(1, n - 1)
        U[:, : n - 2] = small * (i[:, None] - kinks)
        for shift, weight in ((-1, 1.0), (0, -2.0), (1, 1.0)):
            V[kinks - 1, kinks + shift] = weight / small
        U[:, n - 2], U[:, n - 1] = 1.0, i + 1.0
        V[n - 2, :2], V[n - 1, :2] = (2.0, -1.0), (-1.0, 1.0)
    else:
        U[:, : n - 1] = -small
        U[i[1:], i[:-1]] = 2.0 * small
        V[: n - 1, 0] = -1.0 / small
        V[i[:-1], i[1:]] = 1.0 / small
        U[:, n - 1], V[n - 1, 0] = 1.0, 2.0
    return frozen(U), frozen(V)


@result
class SharedNeuronLoss:
    """Losses of a neuron that several features share, for the fourth power of errors; see `shared_loss`."""

    loss: float
    """Mean of the fourth power of the error per feature, over p, as p -> 0."""
    naive: float
    """This mean for the network that computes n_hidden targets and drops the others."""
    weight: float
    """Weight of the readout; 1 if each feature has a neuron of its own."""


def shared_loss(n_features: int, n_hidden: int) -> SharedNeuronLoss:
    r"""Mean fourth power of the error for targets ReLU(x), divided by p -> 0, if F/n features share a neuron.

    Each neuron is the ReLU of the sum of its g = F/n features. With k = (g - 1)^(1/3) the best readout weight
    is 1/(1 + k), and the mean fourth power per feature is :math:`\frac{p}{10}\left(\frac{k}{1+k}\right)^3`.
    That of the naive network is (1 - n/F) p/10, which is more if g > 1: sharing lowers this loss, but not the
    squared error (`loss_lower_bound`). Other networks may have less loss. Errors are those of `rare_losses`.

    Parameters
    ----------
    n_features, n_hidden : int
        F a multiple of n.

    Returns
    -------
    SharedNeuronLoss
        Exact but for roundings, for uniform values on [-1, 1].

    Examples
    --------
    >>> found = shared_loss(500, 50)
    >>> round(found.loss, 6), round(found.naive, 6), round(found.weight, 4)
    (0.0308, 0.09, 0.3247)
    """
    n = validation.integer("n_hidden", n_hidden, 1)
    F = validation.integer("n_features", n_features, n, max(n, 2**53))
    if F % n:
        raise ValueError(f"`n_features` must be a multiple of `n_hidden`, {n}; got {F}.")
    k = float(np.cbrt(F // n - 1))
    return SharedNeuronLoss((k / (1 + k)) ** 3 / 10, (1 - n / F) / 10, 1 / (1 + k))
