"""The law of sparse features that may differ, fire together, exclude each other, or be exactly k."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..arguments import FloatArray
from ..results import result
from .sparse import SparseUniform

__all__ = ["VALUES", "Features", "Group", "as_features"]

# Laws of the value of a feature that is on, at scale 1.
VALUES = ("uniform", "binary", "half-normal", "exponential", "symmetric", "normal")

Group = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]


@result
class Features:
    """Law of n sparse features.

    Parameters
    ----------
    n_features : int
    p : float or (n_features,) array_like
        Probability that a feature is on.
    values : str
        One of `VALUES`.
    scale, importance : float or (n_features,) array_like
    groups : sequence of (indices, patterns, probabilities)
    exactly : int, optional
    """

    n_features: int
    p: Any
    values: str = "uniform"
    scale: Any = 1.0
    importance: Any = 1.0
    groups: Sequence[Any] = ()
    exactly: int | None = None

    def __post_init__(self) -> None:
        n = arguments.integer("n_features", self.n_features, 1)
        object.__setattr__(self, "n_features", n)
        p = arguments.real("p", self.p, 0, 1, brackets="(]", hint="For sparsity S pass 1 - S.")
        scale = arguments.real("scale", self.scale, 0, brackets="(]")
        importance = arguments.real("importance", self.importance, 0)
        for name, value in (("p", p), ("scale", scale), ("importance", importance)):
            whole = np.full(n, float(value)) if value.ndim == 0 else arguments.vector(name, value, n)
            object.__setattr__(self, name, np.array(whole))
        arguments.choice("values", self.values, VALUES)
        groups = []
        for indices, patterns, probabilities in self.groups:
            table = np.array(patterns, np.int64)
            groups.append((np.array(indices, np.int64), table, np.array(probabilities, np.float64)))
        object.__setattr__(self, "groups", tuple(groups))
        if self.exactly is not None:
            object.__setattr__(self, "exactly", arguments.integer("exactly", self.exactly, 0, n))


def as_features(law: Any, n_features: int) -> Features:
    """Return a law for so many features: a `Features` as it is, a number p as independent uniform ones.

    Raises
    ------
    ValueError
        If the law is for another number of features, or is none.
    """
    if isinstance(law, Features):
        if law.n_features != n_features:
            raise ValueError(f"`law` must be for {n_features} features; got one for {law.n_features}.")
        return law
    if isinstance(law, SparseUniform):
        law = law.p
    if np.ndim(law) != 0:
        raise ValueError(f"`p` must be one number, or a `Features`; got shape {np.shape(law)}.")
    return Features(n_features, arguments.number("p", law, 0, 1, brackets="(]"))
