"""Features of which draws are made, but expectations are unknown: copulas, values scaled by parents."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from .. import validation
from ..results import result
from ..validation import FloatArray
from .trees import Node, walk

__all__ = ["CopulaFeatures"]


@result
class CopulaFeatures:
    r"""Law of features that are on where a normal variable is large; it can only be sampled.

    Feature i fires where :math:`(F g + \sigma e)_i > \Phi^{-1}(1 - p_i)`, for independent standard normal g
    and e, and then has the value max(0, mean + std N(0, 1)). In a hierarchy it stays only if its parent's
    value is positive; see `trees.Node`.

    Parameters
    ----------
    p : (n_features,) array_like
        Probability that a feature fires, in (0, 1].
    mean, std : float or (n_features,) array_like, optional
        Mean and standard deviation of the normal variable that is cut at 0.
    factor : (n_features, rank) array_like, optional
        The matrix F, with rows of length at most 1; then :math:`\sigma_i^2 = 1 - \sum_k F_{ik}^2`. By
        default features fire independently.
    roots : sequence of Node, optional
        Hierarchies, without a feature in common.

    Examples
    --------
    >>> from superposition.theory.features.trees import Node
    >>> CopulaFeatures([0.9, 0.5], mean=[1.0, 2.0], roots=[Node(0, (Node(1),))]).sample(3, rng=0)
    array([[1., 2.],
           [1., 0.],
           [1., 2.]])
    """

    p: Any
    mean: Any = 1.0
    std: Any = 0.0
    factor: Any = None
    roots: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        p = validation.probability("p", validation.vector("p", self.p))
        mean = validation.numbers_or_repeat("mean", self.mean, p.size)
        std = validation.real("std", validation.numbers_or_repeat("std", self.std, p.size), 0)
        loadings = np.zeros((p.size, 1)) if self.factor is None else self.factor
        factor = validation.matrix("factor", loadings, (p.size, None))
        longest = float(np.max(np.sum(factor**2, axis=1), initial=0.0))
        if longest > 1.0 + 1e-6:
            raise ValueError(f"`factor` must have rows of length at most 1; got {longest**0.5:g}.")
        steps = list(walk(self.roots))
        features = [step.node.feature for step in steps if step.node.feature is not None]
        validation.indices("roots", features or [0], p.size, distinct=True)
        for parent in [
            step.parent_feature for step in steps if step.scaled and mean[step.parent_feature] <= 0
        ]:
            rule = "positive where children are scaled by it"
            raise ValueError(f"`mean` must be {rule}; got {mean[parent]:g} of feature {parent}.")
        checked = {"p": p, "mean": mean, "std": std, "factor": factor, "roots": tuple(self.roots)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.p.size)

    def sample(self, size: int, rng: np.random.Generator | int | None) -> FloatArray:
        """Draw independent samples, shape (size, n_features); memory O(size n_features)."""
        size = validation.integer("size", size, 1)
        validation.check_fits("size", size, 3.0 * min(size, 2**62) * self.n_features)
        generator = validation.generator("rng", rng)
        shape = self.n_features, size  # the features are rows, as parents and children are taken one by one
        alone = np.sqrt(np.maximum(1.0 - np.sum(self.factor**2, axis=1), 0.0))
        z = alone[:, None] * generator.standard_normal(shape)
        z += self.factor @ generator.standard_normal((self.factor.shape[1], size))
        on = z > -ndtri(self.p)[:, None]
        which = np.nonzero(on)[0]
        x = np.zeros(shape)
        x[on] = np.maximum(self.mean[which] + self.std[which] * generator.standard_normal(which.size), 0.0)
        for node, parent, scaled in walk(self.roots):
            if node.feature is not None and parent is not None:
                x[node.feature] *= x[parent] / self.mean[parent] if scaled else x[parent] > 0
            if node.rivals:
                _keep_one(x, node.rivals, generator)
        return np.ascontiguousarray(x.T)


def _keep_one(x: FloatArray, rivals: list[int], rng: np.random.Generator) -> None:
    """In each column of x where several of the rows `rivals` are positive, set all but one to 0, in place.

    The row kept is drawn at random.
    """
    values = x[rivals]
    several = np.flatnonzero(np.count_nonzero(values, axis=0) > 1)
    order = rng.random((len(values), several.size)) * (values[:, several] > 0)
    winners = order.argmax(axis=0)
    chosen = np.zeros_like(values[:, several])
    chosen[winners, np.arange(several.size)] = values[winners, several]
    values[:, several] = chosen
    x[rivals] = values
