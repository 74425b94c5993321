"""Encodings of random directions if few features are on, where interference is a mixture of normal laws."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ...theory import validation
from ...theory.features import Features
from ...theory.rug import closed
from ...theory.unequal.capacity import independent_uniform
from ...theory.validation import FloatArray
from ..results import result
from .allocation import allocate
from .curve import DROPPED, EXACT

__all__ = ["MeanField", "mean_field"]

# Nodes of the law of the noise's variance, before and after neighbours are put together.
_FINE, _NODES = 2048, 40
_CHANCES = 32  # values of p at which outputs are optimised, for all features


@result
class MeanField:
    """A model of random directions where few features are on; arrays have the shape (n_features,)."""

    loss: float
    """Loss per feature: the mean of importance times `per_feature`."""
    per_feature: FloatArray
    """Loss of each output, without importance."""
    n_directions: int
    """Number of features with a direction of their own."""
    a: FloatArray
    """Scale of each output; the squared length of its encoding if tied."""
    b: FloatArray
    """Bias, with the mean of the interference."""
    capacity: FloatArray
    """Share of each output's variance that comes from its own feature."""


def _noise_law(p: FloatArray, strength: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (nodes, weights) of a discrete law that approximates Q/E Q, Q = sum_j strength_j u_j².

    The sum is over the features j that are on, each with its probability p_j, with u_j uniform on [0, 1].
    """
    # Each law of strength u² is put on a grid with the same mass and mean; they are convolved by FFT.
    mean = float(p @ strength) / 3.0
    spread = float(np.sqrt(p @ strength**2 / 5.0))
    top = mean + 10.0 * spread + 3.0 * float(strength.max())
    step, size = top / _FINE, 2 * _FINE
    log = np.zeros(size // 2 + 1, np.complex128)
    edges = np.arange(_FINE + 1.0)
    # Features of nearly one strength share a transform: the strengths of at most 64 groups are averaged.
    group = np.floor(np.log(strength / strength.max()) / 0.05).astype(int)
    for group_index in np.unique(group):
        mine = group == group_index
        reach = float(p[mine] @ strength[mine] / p[mine].sum()) / step
        # the integral of P(reach u² <= x) = sqrt(x/reach); second differences put the mass on the grid
        inside = np.minimum(edges, reach)
        ramp = 2.0 / 3.0 * inside**1.5 / np.sqrt(reach) + (edges - inside)
        mass = np.zeros(size)
        mass[1:_FINE] = np.diff(ramp, 2)
        mass[0] = ramp[1]
        turn = np.fft.rfft(mass) - 1.0
        counts, levels = np.histogram(np.log(p[mine]), bins=64)
        if mine.sum() <= 64:
            counts, chances = np.ones(int(mine.sum())), p[mine]
        else:
            sums = np.histogram(np.log(p[mine]), bins=levels, weights=p[mine])[0]
            counts, chances = counts[counts > 0], (sums[counts > 0] / counts[counts > 0])
        for count, chance in zip(counts, chances, strict=True):
            log += count * np.log1p(chance * turn)
    weights = np.maximum(np.fft.irfft(np.exp(log), size)[:_FINE], 0.0)
    weights /= weights.sum()
    at = step * np.arange(_FINE)
    # Nodes are merged to equal shares of mass and mean, but for the one where no feature is on.
    share = np.cumsum(weights[1:] * (1.0 + at[1:] / mean))
    node_edges = np.append(0, 1 + np.floor(share / share[-1] * _NODES * (1.0 - 1e-12)).astype(int))
    total = np.bincount(node_edges, weights)
    nodes = np.bincount(node_edges, weights * at) / np.maximum(total, 1e-300)
    used = total > 0.0
    chances = np.asarray(total[used], np.float64)
    return nodes[used] / float(chances @ nodes[used]), chances


def _best_outputs(
    p: FloatArray, sigma: FloatArray, nodes: FloatArray, weights: FloatArray, scale: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return arrays (scale a, bias b, loss): each output ReLU(a (x + noise) + b) at its best a and b.

    a is `scale` if that is not None. x is on with probability p, and then uniform on [0, 1]. The noise is a
    mixture of normal laws, of standard deviation sigma sqrt(nodes[k]) with probability weights[k]; p and
    sigma have an entry for each output.
    """
    noise = sigma[:, None] * np.sqrt(nodes)

    def output_loss(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss, and the scale, at the bias shift times sigma times the scale."""
        beta = (shift * sigma)[:, None]
        if scale is not None:
            return closed.loss_kernel(scale, scale * beta, noise, p[:, None]) @ weights, np.full(
                p.size, scale
            )
        # the loss is quadratic in the scale: p/3 at 0, and two values of it
        half, full = (closed.loss_kernel(a, a * beta, noise, p[:, None]) @ weights for a in (1.0, 2.0))
        none = p / 3.0
        square = 0.5 * (full - 2.0 * half + none)
        best = np.maximum(0.5 * (none + square - half) / square, 1e-9)
        return none - square * best**2, best

    # The best of a scan over all shifts, and of three finer ones around it.
    columns = np.arange(p.size)
    left, right = -np.sqrt(-2.0 * np.log(p)) - 4.0, np.full(p.size, 8.0)
    for count in (33, 9, 9, 9):
        biases = np.linspace(left, right, count)
        k = np.argmin([output_loss(half)[0] for half in biases], axis=0)
        left, right = biases[np.maximum(k - 1, 0), columns], biases[np.minimum(k + 1, count - 1), columns]
    shift = 0.5 * (left + right)
    loss, best = output_loss(shift)
    return best, best * shift * sigma, loss


def mean_field(law: Features, n_hidden: int, *, tied: bool = True) -> MeanField:
    r"""Return the loss of encodings of random directions where few features are on.

    With few features on, the interference of an output is not normal. Given x, it is normal over random
    directions with a variance proportional to :math:`Q = \sum_j \tau_j x_j^2`, and the macroscopic loss is
    averaged over the law of Q. Tied models W W' have k features with a direction of their own, and encodings
    of one squared length a in the other m - k dimensions (:math:`\tau_j = 1`), with the best a, k and biases.
    Untied ones have the capacities of `allocate` (:math:`\tau_j = c_j/v_j`), and the best scales and biases.

    Parameters
    ----------
    tied : bool, optional
        Whether the model is W W'.
    law, n_hidden : Features, int
        Law of independent features with uniform values, and number of hidden neurons, from 1 to
        n_features - 1. Errors are those of `allocate`.

    Returns
    -------
    MeanField
        An approximation, as Q includes the output's own feature. Numerical errors are 1e-3 at most.

    Examples
    --------
    >>> from superposition.theory.unequal import power_law
    >>> found = mean_field(power_law(1.5, 300), 10)
    >>> found.n_directions, round(1e5 * found.loss, 1)
    (3, 21.5)
    """
    features = independent_uniform(law)
    n = features.n_features
    m = validation.integer("n_hidden", n_hidden, 1, n - 1)
    if validation.flag("tied", tied):
        return _tied_model(features, m)
    split = allocate(features, m)
    shared = (split.kind > DROPPED) & (split.kind < EXACT)
    a, b, losses = split.a.copy(), split.b.copy(), split.per_feature.copy()
    if np.any(shared):
        scale = features.scale[shared]
        nodes = _noise_law(features.p[shared], split.capacity[shared] / features.variance[shared] * scale**2)
        outputs = _output_by_output(features.p[shared], split.sigma[shared] / scale, scale, nodes, None)
        a[shared], b[shared], losses[shared] = outputs[0], outputs[1] * scale, outputs[2] * scale**2
    losses = np.minimum(losses, features.variance)
    total = float(np.mean(features.importance * losses))
    return MeanField(total, losses, int(np.sum(split.kind == EXACT)), a, b, split.capacity)


def _output_by_output(
    p: FloatArray, sigma: FloatArray, scale: FloatArray, law: tuple[FloatArray, FloatArray], a: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return arrays (a, bias, loss) of outputs ReLU(a (x + noise) + bias), with x in units of its scale.

    The bias is the best one, and so is a if the argument is None. x is on with probability p, and then
    uniform on [0, 1]; the noise is normal of standard deviation sigma sqrt(node), and `law` is (nodes, their
    probabilities). `scale` has the features' scales; if all are equal, more than 32 outputs are interpolated
    in log p.
    """
    nodes = np.geomspace(p.min(), p.max(), _CHANCES)
    if p.size <= _CHANCES or np.any(scale != scale[0]):
        return _best_outputs(p, sigma, *law, a)
    order = np.argsort(p)
    noise = np.interp(np.log(nodes), np.log(p[order]), sigma[order])
    outputs = _best_outputs(nodes, noise, *law, a)
    best, bias, loss = (
        np.interp(np.log(p), np.log(nodes), part) for part in (*outputs[:2], np.log(outputs[2]))
    )
    return best, bias, np.exp(loss)


def _tied_model(law: Features, m: int) -> MeanField:
    """Return the tied model of m hidden neurons with the best number of features of their own direction.

    The encodings of the other features have one length, the best.
    """
    order = np.argsort(-law.variance, kind="stable")
    tail = np.cumsum(law.variance[order][::-1])[::-1]
    results: dict[int, tuple[float, float, Any]] = {}

    def at(n_represented: int) -> float:
        """Return the least total loss if `n_represented` features have a direction of their own.

        Infinity if the interference of one of the others would have no positive variance.
        """
        rest = order[n_represented:]
        p, scale, v = law.p[rest], law.scale[rest], law.variance[rest]
        variance = tail[n_represented] / (m - n_represented) - v
        if variance.min() <= 0.0:
            return float("inf")
        noise = _noise_law(p, scale**2)
        sigma = np.sqrt(variance) / scale

        def output_loss(a: float) -> tuple[float, Any]:
            """Return the total loss of the others at squared length a, and (biases, losses) of outputs."""
            outputs = _output_by_output(p, sigma, scale, noise, a)
            losses = np.minimum(outputs[2] * scale**2, v)
            return float(law.importance[rest] @ losses), (outputs[1] * scale, losses)

        middle = minimize_scalar(lambda a: output_loss(a)[0], bounds=(0.5, 2.5), options={"xatol": 2e-3}).x
        total, parts = output_loss(float(middle))
        results[n_represented] = total, float(middle), parts
        return total

    n_represented = 0
    while not np.isfinite(
        at(n_represented)
    ):  # with one dimension for the rest, the others are noise in each case
        n_represented += 1
    worse = 0
    for n_next in range(n_represented + 1, m):
        worse = 0 if at(n_next) < min(result[0] for k, result in results.items() if k < n_next) else worse + 1
        if worse == 2:
            break
    n_represented = min(results, key=lambda result: results[result][0])
    total, length, (bias, losses) = results[n_represented]
    n, rest = law.n_features, order[n_represented:]
    a, b, capacity, per_feature = np.ones(n), np.zeros(n), np.ones(n), np.zeros(n)
    a[rest], b[rest], per_feature[rest] = length, bias, losses
    capacity[rest] = law.variance[rest] * (m - n_represented) / tail[n_represented]
    return MeanField(total / n, per_feature, n_represented, a, b, capacity)
