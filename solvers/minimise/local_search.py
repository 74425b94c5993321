"""Local search from the best ends of descents: features exchange directions, or get new ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...theory.validation import FloatArray
from .descent import DescentResult
from .objective import Objective
from .starts import Model, exchanged_model, redrawn_model

__all__ = ["local_search"]

Pairs = list[tuple[int, int]]
Descend = Callable[[list[FloatArray], int], list[DescentResult]]


@dataclass(frozen=True)
class _Settings:
    """Settings of a local search; shares are of the objective at the model before a move."""

    batch: int = 8
    """Moves that are compared at a time; the best is taken."""
    most_pairs: int = 400
    """Most exchanges of which the objective is computed; drawn at random if there are more."""
    exchanges: int = 24
    """Exchanges of least objective after which there are descents."""
    exchange_steps: int = 5
    redraw_steps: int = 20
    """Steps of a first descent after a feature gets a new direction."""
    promising: float = 2e-3
    """Descents go on from ends of objective up to (1 + this) times that of the model."""
    further_steps: int = 40
    redraws: int = 2
    """Batches of new directions before a kick."""
    kick_exchanges: int = 4
    """Random exchanges of a kick from the best model."""
    least_gain: float = 1e-5
    """Share by which a move must lower the objective."""
    bases: int = 3
    """Models that get new directions in turn, if all features are alike."""


_SETTINGS = _Settings()


class _LocalSearch:
    """A local search on the objective `aim`, with its random numbers and its count of steps.

    descend(vectors, steps) returns the ends of descents on `aim` from a list of vectors, of at most so many
    steps each. `budget` is the number of steps of all descents, `workers` the number of threads (None: all).
    """

    def __init__(
        self,
        aim: Objective,
        descend: Descend,
        rng: np.random.Generator,
        budget: int,
        workers: int | None,
    ):
        self.aim, self.descend, self.rng, self.workers = aim, descend, rng, workers
        self.budget, self.steps = budget, 0
        law = aim.features
        groups = np.zeros(aim.n) if not law.groups else np.arange(aim.n)
        kind = np.stack([law.p, law.scale, law.importance, groups])
        self.pairs = [
            (i, j) for i in range(aim.n) for j in range(i) if not np.array_equal(kind[:, i], kind[:, j])
        ]

    def is_over(self) -> bool:
        """Return whether the budget of steps is used up, or the deadline over."""
        return self.steps >= self.budget or self.aim.deadline.is_over()

    def vector(self, model: Model) -> FloatArray:
        """Return the vector x of `model`, (W_out, W_in, b), with weights clipped to +-`aim.largest`."""
        x, top = self.aim.join(*model), self.aim.largest
        if top is not None:
            x[: x.size - self.aim.biases] = np.clip(x[: x.size - self.aim.biases], -top, top)
        return x

    def ends(self, vectors: list[FloatArray], steps: int) -> list[DescentResult]:
        """Return the ends of descents of at most `steps` steps from `vectors`; count the steps taken."""
        ends = self.descend(vectors, steps)
        self.steps += sum(end.steps + 1 for end in ends)
        return ends

    def with_exchanges(self, x: FloatArray, pairs: Pairs) -> FloatArray:
        """Return the vector x after the features i and j of each pair, in turn, exchanged directions."""
        model = self.aim.split(x)
        for pair in pairs:
            model = exchanged_model(model, *pair)
        return self.vector(model)

    def sorted_pairs(self, x: FloatArray) -> Pairs:
        """Return at most 24 pairs of features by the objective after an exchange of their directions in x.

        The pair of least objective comes first. Pairs that differ in p, scale or importance are compared, or
        all if the law has groups: a random 400 of them, or fewer if the budget of steps ends.
        """
        pairs = self.pairs
        if len(pairs) > _SETTINGS.most_pairs:
            pairs = [pairs[k] for k in self.rng.permutation(len(pairs))[: _SETTINGS.most_pairs]]
        values: list[float] = []
        for first in range(0, len(pairs), _SETTINGS.batch):
            if self.is_over():
                break
            vectors = [self.with_exchanges(x, [pair]) for pair in pairs[first : first + _SETTINGS.batch]]
            values += [value for value, _ in self.aim.smooth_of_many(vectors, self.workers)]
            self.steps += len(vectors)
        return [pairs[k] for k in np.argsort(values, kind="stable")[: _SETTINGS.exchanges]]

    def after_exchanges(self, current: DescentResult) -> DescentResult:
        """Return the end after exchanges of two features, each followed by a descent, while one is lower."""
        is_lower = bool(self.pairs)
        while is_lower and not self.is_over():
            is_lower, pairs = False, self.sorted_pairs(current.x)
            for first in range(0, len(pairs), _SETTINGS.batch):
                vectors = [
                    self.with_exchanges(current.x, [pair]) for pair in pairs[first : first + _SETTINGS.batch]
                ]
                end = min(self.ends(vectors, _SETTINGS.exchange_steps), key=lambda end: end.value)
                if self.is_gain(end, current):
                    further = self.ends([end.x], _SETTINGS.exchange_steps)
                    current, is_lower = min([end, *further], key=lambda end: end.value), True
                if self.is_over():
                    break
        return current

    def is_gain(self, end: DescentResult, current: DescentResult) -> bool:
        """Return whether the value of `end` is below (1 - 1e-5) times that of `current`."""
        return end.value < current.value * (1.0 - _SETTINGS.least_gain)

    def after_redraw(self, current: DescentResult) -> DescentResult | None:
        """Return an end below `current` after one feature got a new direction; None if there is none."""
        for _ in range(_SETTINGS.redraws):
            model = self.aim.split(current.x)
            vectors = [self.vector(redrawn_model(model, self.rng)) for _ in range(_SETTINGS.batch)]
            ends = self.ends(vectors, _SETTINGS.redraw_steps)
            most = current.value * (1.0 + _SETTINGS.promising)
            ends += self.ends([end.x for end in ends if end.value <= most], _SETTINGS.further_steps)
            end = min(ends, key=lambda end: end.value)
            if self.is_gain(end, current):
                return end
            if self.is_over():
                break
        return None

    def after_kick(self, best: DescentResult) -> DescentResult:
        """Return the end of a descent from `best` with the directions of four random pairs exchanged."""
        chosen = self.rng.integers(len(self.pairs), size=_SETTINGS.kick_exchanges)
        x = self.with_exchanges(best.x, [self.pairs[k] for k in chosen])
        return self.ends([x], _SETTINGS.redraw_steps)[0]

    def run(self, bases: list[DescentResult]) -> list[DescentResult]:
        """Return the local minima that are found from `bases`, ends of descents, the best of them first."""
        minima, turn = [], 0
        (current,) = self.ends([bases[0].x], _SETTINGS.exchange_steps)
        while not self.is_over():
            current = self.after_exchanges(current)
            lower = self.after_redraw(current)
            if lower is not None:
                current = lower
                continue
            minima.append(current)
            minima.sort(key=lambda end: end.value)
            if self.pairs:
                current = self.after_kick(minima[0])
            else:
                turn += 1
                rest = [*minima, *bases][: _SETTINGS.bases]
                current = rest[turn % len(rest)]
        return [*minima, current]


def local_search(
    aim: Objective,
    descend: Descend,
    bases: list[DescentResult],
    rng: np.random.Generator,
    budget: int,
    workers: int | None,
) -> list[DescentResult]:
    """Return local minima of the objective `aim` near the ends `bases`, of which the first is the best.

    descend(vectors, steps) returns the ends of descents on `aim` from a list of vectors, of at most so many
    steps each. `budget` is the number of steps of all descents, `workers` the number of threads (None: all).
    """
    return _LocalSearch(aim, descend, rng, budget, workers).run(bases) if budget else []
