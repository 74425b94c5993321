"""The best codes of features that differ: at one Lagrange multiplier each p takes the code best for it."""

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator

from ...theory import validation
from ...theory.codes import CODES, antipodal_loss
from ...theory.features import Features
from ...theory.features.values import law_named
from ...theory.unequal.capacity import independent_uniform
from ...theory.validation import FloatArray, IntArray
from ..codes import MODELS, blocks
from ..codes.envelope import code_points_on_plane
from ..results import result
from .allocation import LagrangianChoices, find_multipliers
from .curve import best_rug

__all__ = ["CodeAllocation", "allocate_codes"]


_NODES = 64  # values of p at which codes are evaluated; losses over p² are smooth in log p, but for blocks


@result
class CodeAllocation:
    """The best codes of features that differ; see `allocate_codes`."""

    loss: float
    """Loss per feature: the mean of importance times the loss of each feature."""
    multiplier: float
    """Lagrange multiplier: by how much one more hidden neuron lowers n_features times the loss."""
    names: tuple[str, ...]
    """Names of codes, which `code` indexes; one for all sizes of cut polygons and of priority codes."""
    code: IntArray
    """Code of each feature, shape (n_features,); of two equally good codes the one of less capacity."""
    capacity: FloatArray
    """n_hidden/n_features of this code, shape (n_features,)."""
    share: FloatArray
    """Share of the features in each code, shape (len(names),)."""
    neurons: FloatArray
    """n_hidden of each code over n_features, shape (len(names),)."""


class _Codes:
    """Capacities and losses of codes and of the rug, for classes of features.

    A class is all features of the same `p` and `weight`, importance times scale². `codes` are names of the
    codes to compare; `models` says which models are allowed, "tied", "balanced" or "free".
    """

    def __init__(self, p: FloatArray, weight: FloatArray, codes: Sequence[str], models: str) -> None:
        self.p, self.weight = p, weight
        self.values = law_named("values", "uniform")
        self.menu = LagrangianChoices(self.values, p, weight, ())
        nodes = np.unique(p)
        if nodes.size > _NODES:
            nodes = np.geomspace(nodes[0], nodes[-1], _NODES)
            nodes[0], nodes[-1] = p.min(), p.max()
        other_codes = [name for name in codes if name != "pair"]
        code_points = code_points_on_plane(
            nodes, blocks(nodes, other_codes, tied=models == "tied") if other_codes else [], models
        )
        if "pair" in codes:
            code_points.append(("pair", 0.5, np.asarray(antipodal_loss(nodes))))
        self.names = (*(name for name, _, _ in code_points), "rug")
        self.ratio = np.array([ratio for _, ratio, _ in code_points])
        losses = np.stack([loss for _, _, loss in code_points]) / nodes**2
        if nodes.size == 1:
            self.losses = np.repeat(losses, p.size, axis=1) * p**2
            return
        # Exactly kept features lose nothing, which has no logarithm.
        line = PchipInterpolator(np.log(nodes), np.log(np.maximum(losses, 1e-300)), axis=1)
        self.losses = np.where(losses[:, :1] > 0.0, np.exp(line(np.log(p))) * p**2, 0.0)

    def at(self, multiplier: float) -> tuple[IntArray, FloatArray]:
        """Return (code, capacity) of least weight * loss + multiplier * capacity for each class.

        The code is an index of `names`. Its capacity is n_hidden/n_features, or the best one in the rug.
        """
        inside = self.menu.rug(multiplier)
        rug = best_rug(self.values, self.p, inside)[2]
        fixed = self.weight * self.losses + multiplier * self.ratio[:, None]
        best = np.argmin(np.vstack([fixed, self.weight * rug + multiplier * inside]), axis=0)
        return best, np.append(self.ratio, 0.0)[best] + np.where(best == self.ratio.size, inside, 0.0)

    def weighted_losses(self, code: IntArray, capacity: FloatArray) -> FloatArray:
        """Return weight * loss of a feature of each class at its code, an index of `names`, and capacity."""
        columns = np.arange(self.p.size)
        losses = self.losses[np.minimum(code, self.ratio.size - 1), columns]
        mine = code == self.ratio.size
        losses[mine] = best_rug(self.values, self.p[mine], capacity[mine])[2]
        return self.weight * losses

    def highest(self) -> float:
        """Return a Lagrange multiplier of capacity so large that all features are dropped."""
        is_positive = self.ratio > 0.0
        worth = (
            self.weight
            * (self.losses[~is_positive] - self.losses[is_positive])
            / self.ratio[is_positive, None]
        )
        return 2.0 * max(float(worth.max()), self.menu.highest())


def allocate_codes(
    law: Features, n_hidden: int, codes: Sequence[str] = ("pair",), *, models: str = "free"
) -> CodeAllocation:
    r"""Return the least loss of features that differ, over structured codes, the rug, and dropping.

    The loss is the limit N -> infinity for N copies of each feature of `law` on N `n_hidden` neurons, so that
    copies of a feature can share a code. Each code of `solvers.codes.envelope` is a point (c, L), with the
    capacity c = n_hidden/n_features of the code and its loss L(p) per feature at scale 1. With a Lagrange
    multiplier lambda, feature i gets the code of least :math:`I_i s_i^2 L(p_i) + \lambda c`, for the
    importance I_i and the scale s_i. The rug is the random code of Cowsik et al. (2024).

    Parameters
    ----------
    law, n_hidden : Features, int
        Law of independent features with values uniform on [0, scale]; from 1 to n_features - 1.
    codes : sequence of str, optional
        Codes to compare, in addition to dropped features, those kept exactly, and the rug; all but pairs need
        p of 1e-6 or more.
    models : {"tied", "balanced", "free"}, optional
        Which models are allowed: W W' only; also decoders that are not the encoder's transpose; also weights
        that differ by orders of magnitude from feature to feature (`solvers.codes.envelope`).

    Returns
    -------
    CodeAllocation
        The relative error is 1e-9. It is 1e-3 where a priority code or a cut polygon (see
        `solvers.codes.envelope`) has a size above 40, as these sizes are on a grid, and 1e-4 for more than 64
        different p, between which losses are interpolated.

    Raises
    ------
    ValueError
        If an argument is out of range, or features are not independent or not uniform.

    Examples
    --------
    >>> law = Features(3000, np.repeat([0.1, 0.01], [1000, 2000]))
    >>> best = allocate_codes(law, 600)
    >>> [best.names[k] for k in best.code[[0, -1]]], round(best.loss, 7)
    (['skew pair', 'priority'], 0.0008801)
    """
    features = independent_uniform(law)
    n = features.n_features
    m = validation.integer("n_hidden", n_hidden, 1, n - 1)
    names = validation.choices("codes", codes, CODES)
    models = validation.choice("models", models, MODELS)
    p = validation.probability("p", features.p, low=1e-100)
    rows = np.stack([p, features.importance * features.scale**2])
    live = rows[1] > 0.0  # the others are dropped
    if m >= np.count_nonzero(live):
        is_represented = live.astype(np.float64)
        parts = np.array([1.0 - is_represented.mean(), is_represented.mean()])
        ends = ("dropped", "identity"), live.astype(np.int64), is_represented, parts, parts * [0.0, 1.0]
        return CodeAllocation(0.0, 0.0, *ends)
    classes, back, counts = np.unique(rows[:, live], axis=1, return_inverse=True, return_counts=True)
    menu = _Codes(classes[0], classes[1], names, models)
    multipliers = find_multipliers(menu, counts, m)
    (upper_code, wide), (code, capacity) = (menu.at(multiplier) for multiplier in multipliers)
    left, right = float(counts @ capacity), float(counts @ wide)
    mixed = (m - left) / (right - left) if right > left else 0.0
    losses = [
        float(counts @ menu.weighted_losses(*choice)) for choice in ((code, capacity), (upper_code, wide))
    ]
    # One name for all sizes of a code.
    kinds = tuple(dict.fromkeys(menu.names))
    number = np.array([kinds.index(name) for name in menu.names])

    def weighted_total(of_code: FloatArray, of_more: FloatArray) -> FloatArray:
        """Return each code's share of a quantity per feature, mixed of both solutions at the multiplier.

        `of_code` and `of_more` have the quantity for each class of features in the one and the other.
        """
        left, right = (
            np.bincount(number[choice], counts * counts_of_code, len(kinds)) / n
            for choice, counts_of_code in ((code, of_code), (upper_code, of_more))
        )
        return (1.0 - mixed) * left + mixed * right

    share = weighted_total(np.ones(counts.size), np.ones(counts.size))
    share[0] += 1.0 - np.mean(live)
    code_of_feature, size = np.zeros(n, np.int64), np.zeros(n)
    code_of_feature[live], size[live] = number[code][back.ravel()], capacity[back.ravel()]
    return CodeAllocation(
        loss=((1.0 - mixed) * losses[0] + mixed * losses[1]) / n,
        multiplier=multipliers[1],
        names=kinds,
        code=code_of_feature,
        capacity=size,
        share=share,
        neurons=weighted_total(capacity, wide),
    )
