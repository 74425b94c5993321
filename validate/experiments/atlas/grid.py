"""Which models the atlas holds: sizes, frequencies, importances, tied or free."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ....theory.features import Features

__all__ = ["GRID", "IMPORTANCES", "LARGEST", "Problem", "neighbours"]

# Bound of the weights. Tied models stay within it without a constraint; free weights of sparse features
# would grow by decades for the last part of the loss, and no descent would converge.
LARGEST = 2.0
IMPORTANCES = {"equal": 1.0, "falling": 0.7}
"""Importance of feature i: a power i of this number."""
SIZES = tuple((n, m) for n in range(2, 10) for m in range(1, 5) if m < n)
P = (0.01, 0.03, 0.1, 0.3, 0.7)


@dataclass(frozen=True)
class Problem:
    """A problem of the atlas: minimise the exact loss of ReLU(W_out W_in x + b), weights in [-2, 2]."""

    n_features: int
    n_hidden: int
    p: float
    importance: str
    tied: bool

    @property
    def name(self) -> str:
        """Name in the atlas, such as "n5-m2-p0.1-equal-tied"."""
        kind = "tied" if self.tied else "free"
        return f"n{self.n_features}-m{self.n_hidden}-p{self.p:g}-{self.importance}-{kind}"

    @property
    def law(self) -> Features:
        """Law of the data: independent features, uniform on [0, 1] where they are on."""
        importance = IMPORTANCES[self.importance] ** np.arange(self.n_features)
        return Features(self.n_features, self.p, importance=importance)

    @property
    def zero_loss(self) -> float:
        """Loss per feature of the model that always answers 0: the mean of importance times E[x^2]."""
        return float(np.mean(self.law.importance * self.law.second_moment))

    def rng(self, *seed: int) -> np.random.Generator:
        """Return a random generator seeded by `seed` and by the problem's settings."""
        kind = list(IMPORTANCES).index(self.importance), int(self.tied)
        return np.random.default_rng([*seed, self.n_features, self.n_hidden, round(1e6 * self.p), *kind])


GRID = tuple(
    Problem(n, m, p, importance, tied)
    for (n, m), p, importance, tied in product(SIZES, P, IMPORTANCES, (True, False))
)


def neighbours(problem: Problem, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the neighbours of `problem` among `problems`: those that differ in one setting by one step.

    A step is one feature or one neuron more or less, the next p, or the other importances. The tied problem
    of the same settings is also a neighbour of the one with free weights.
    """
    frequencies = sorted({other.p for other in problems})
    for other in problems:
        steps = (
            abs(other.n_features - problem.n_features)
            + abs(other.n_hidden - problem.n_hidden)
            + abs(frequencies.index(other.p) - frequencies.index(problem.p))
            + int(other.importance != problem.importance)
        )
        is_its_tied = steps == 0 and other.tied and not problem.tied
        if is_its_tied or (steps == 1 and other.tied == problem.tied):
            yield other
