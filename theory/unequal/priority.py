r"""Priority codes of features that differ: an upper bound of the least loss at every n_features.

Two dimensions hold any number of features, sorted by priority (`theory.codes.priority`): in the limit of a
wide spread of lengths an output is exact unless a feature before it is on that it is not orthogonal to, which
are all but the one before it, for the last one also the first. It then loses x_i² at most. So output i of a
block loses

.. math:: I_i s_i^2 \frac{p_i}{3} \Big(1 - \prod_j (1 - p_j)\Big) .

With P the sum of p in a block the sum over the block is about P²/6 for rare features of one weight. For m/2
blocks of one load that is (number on)²/(3 m): the window's law without its logarithm.
"""

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray
from ..features import Features
from .capacity import independent_uniform

__all__ = ["priority_loss", "priority_weights"]

# Numbers of kept features that are tried before neighbours are.
_TRIED = 25


def priority_loss(law: Features, n_hidden: int) -> float:
    """Loss of a code of features kept exactly and priority codes of two dimensions, of one load.

    Features are sorted by p times the root of importance times scale². The first ones are kept, the rest is
    dealt to the planes in turn and back; how many are kept is searched for.

    Parameters
    ----------
    law : Features
        Law of independent features with values uniform on [0, scale].
    n_hidden : int
        At least 1.

    Returns
    -------
    float
        Mean of importance times the loss of each feature, to rounding: the infimum over a family of models
        ReLU(M x + b) with rank(M) <= n_hidden, so an upper bound of the least loss at this n_features.

    Raises
    ------
    ValueError
        If an argument is out of range, or features are not independent or not uniform.

    See Also
    --------
    loss_bound : From below.

    Examples
    --------
    >>> from superposition.theory import codes
    >>> round(priority_loss(Features(80, 0.01), 20), 9), round(codes.priority_loss(0.01, 8), 9)
    (8.2094e-05, 8.2094e-05)
    """
    return _best(law, n_hidden)[0]


def priority_weights(
    law: Features, n_hidden: int, reach: float = 1e4
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights of the code of `priority_loss` whose encodings differ in length by a finite factor.

    Parameters
    ----------
    law, n_hidden
        As for `priority_loss`.
    reach : float, optional
        The longest encoding of a plane over its shortest one, 1 to 1e12; lengths fall geometrically. The
        loss of `priority_loss` is the limit of large ones, but for outputs that are better dropped.

    Returns
    -------
    W_out : (n_features, n_hidden) ndarray of float64
    W_in : (n_hidden, n_features) ndarray of float64
    b : (n_features,) ndarray of float64
        0; the mean of what is dropped.

    Raises
    ------
    ValueError
        If an argument is out of range, or features are not independent or not uniform.

    Examples
    --------
    >>> W_out, W_in, b = priority_weights(Features(4, 0.1), 2, reach=1e3)
    >>> (W_out @ W_in).diagonal().round(12), np.linalg.norm(W_in, axis=0).round(3)
    (array([1., 1., 1., 1.]), array([1.   , 0.1  , 0.01 , 0.001]))
    """
    reach = arguments.number("reach", reach, 1, 1e12)
    _, order, kept = _best(law, n_hidden)
    n, m = order.size, int(n_hidden)
    arguments.fits("n_hidden", n_hidden, 2 * n * m)
    W_out, W_in, b = np.zeros((n, m)), np.zeros((m, n)), law.mean.copy()
    held = order[:kept]
    W_out[held, np.arange(kept)] = W_in[np.arange(kept), held] = 1.0
    b[held] = 0.0
    planes = (m - kept) // 2
    if planes == 0:
        return W_out, W_in, b
    depth, place = np.divmod(np.arange(n - kept), planes)
    plane = np.where(depth % 2 == 0, place, planes - 1 - place)  # there and back, as in `_total`
    for one in range(planes):
        these = order[kept:][plane == one]
        k = these.size
        first = max(k - 2, 2)  # in the first quadrant; then one at 180 and one at 270 degrees
        angle = np.append(np.linspace(0.0, 0.5 * np.pi, first), [np.pi, 1.5 * np.pi])[:k]
        read = np.append(0.0, np.append(angle[:first] + 0.5 * np.pi, 1.5 * np.pi))[:k]
        size = reach ** -np.linspace(0.0, 1.0, k) if k > 1 else np.ones(1)
        own = size * np.cos(read - angle)
        axes = kept + 2 * one + np.arange(2)
        W_in[np.ix_(axes, these)] = size * np.stack([np.cos(angle), np.sin(angle)])
        W_out[np.ix_(these, axes)] = np.stack([np.cos(read), np.sin(read)], axis=1) / own[:, None]
        b[these] = 0.0
    return W_out, W_in, b


def _best(law: Features, n_hidden: int) -> tuple[float, npt.NDArray[np.intp], int]:
    """Return the loss of the best code, the features by priority, and how many are kept."""
    features = independent_uniform(law)
    m = arguments.integer("n_hidden", n_hidden, 1)
    weight = features.importance * features.scale**2
    order = np.argsort(-features.p * np.sqrt(weight), kind="stable")
    p, w = features.p[order], weight[order]
    if m >= p.size:
        return 0.0, order, p.size
    found: dict[int, float] = {}

    def total(kept: int) -> float:
        if kept not in found:
            found[kept] = _total(p, w, kept, (m - kept) // 2)
        return found[kept]

    tried = np.unique(np.round(m * np.linspace(0.0, 1.0, _TRIED) ** 2)).astype(int)
    tried = np.unique(tried - (m - tried) % 2)  # no dimension is left over, but one where m is odd and 1
    for kept in tried[tried >= 0]:
        total(int(kept))
    step = m
    while step > 1:  # neighbours of the best, ever nearer
        step //= 2
        best = min(found, key=lambda one: found[one])
        for near in (best - 2 * step, best + 2 * step):
            if 0 <= near <= m:
                total(near)
    kept = min(found, key=lambda one: found[one])
    return found[kept] / features.n_features, order, kept


def _total(p: FloatArray, w: FloatArray, kept: int, planes: int) -> float:
    """Return the total loss of features sorted by priority, the first so many of which are kept."""
    p, w = p[kept:], w[kept:]
    dropped = w * (p / 3.0 - p**2 / 4.0)
    if planes == 0:
        return float(dropped.sum())
    depth = -(-p.size // planes)
    rows, chance = np.zeros((depth, planes)), np.zeros((depth, planes))
    rows.ravel()[: p.size], chance.ravel()[: p.size] = w, p
    # there and back, so that loads are alike
    rows[1::2], chance[1::2] = rows[1::2, ::-1].copy(), chance[1::2, ::-1].copy()
    silent = np.ones((depth + 2, planes))
    silent[2:] = np.cumprod(1.0 - chance, axis=0)
    lost = 1.0 - silent[:depth]
    lost[:2] = 0.0
    if depth >= 4:  # the last one is orthogonal to the first as well
        size = np.sum(chance > 0.0, axis=0)
        last, plane = size - 1, np.arange(planes)
        others = np.where(chance[0] < 1.0, silent[last, plane] / np.maximum(1.0 - chance[0], 1e-300), 1.0)
        lost[last, plane] = np.where(size >= 4, 1.0 - others, lost[last, plane])
    return float(np.sum(np.minimum(rows * chance / 3.0 * lost, rows * (chance / 3.0 - chance**2 / 4.0))))
