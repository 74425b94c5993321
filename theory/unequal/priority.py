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

from .. import arguments
from ..arguments import FloatArray
from ..features import Features
from .capacity import independent

__all__ = ["priority_loss"]

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
    features = independent(law)
    if features.values != "uniform":
        raise ValueError(f"`law` must have uniform values; got {features.values!r}.")
    m = arguments.integer("n_hidden", n_hidden, 1)
    weight = features.importance * features.scale**2
    order = np.argsort(-features.p * np.sqrt(weight), kind="stable")
    p, w = features.p[order], weight[order]
    if m >= p.size:
        return 0.0
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
    return min(found.values()) / features.n_features


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
