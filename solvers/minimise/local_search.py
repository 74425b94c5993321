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
    """Settings of a local search; shares are of the objective at the model that moves begin at."""

    batch: int = 8
    """Moves that are compared, of which the best is taken."""
    most_pairs: int = 400
    """Exchanges of which the objective is computed, drawn at random where there are more."""
    exchanges: int = 24
    """Exchanges, those of least objective, from which there are descents."""
    exchange_steps: int = 5
    redraw_steps: int = 20
    """Steps of a first descent after a feature gets a new direction."""
    promising: float = 2e-3
    """Share by which its end may be above the model for the descent to go on."""
    further_steps: int = 40
    redraws: int = 2
    """Batches of new directions before a kick."""
    kick_exchanges: int = 4
    """Random exchanges of a kick from the best model."""
    least_gain: float = 1e-5
    """Share by which a move lowers the objective, or it is none."""
    bases: int = 3
    """Models that new directions begin at by turns, where all features are alike."""


_SETTINGS = _Settings()


class _LocalSearch:
    """A local search on the objective `aim`: its settings, its count of steps, its random numbers.

    descend(vectors, steps) returns the ends of descents on `aim` from some vectors after so many steps.
    `budget` is the number of steps of all descents, `workers` the number of threads, None for all.
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
        """Return the vector of variables of `model`, with weights clipped to +-`aim.largest` if set."""
        x, top = self.aim.join(*model), self.aim.largest
        if top is not None:
            x[: x.size - self.aim.biases] = np.clip(x[: x.size - self.aim.biases], -top, top)
        return x

    def ends(self, vectors: list[FloatArray], steps: int) -> list[DescentResult]:
        """Return the ends of descents of at most `steps` steps from `vectors`; count the steps taken."""
        ends = self.descend(vectors, steps)
        self.steps += sum(end.steps + 1 for end in ends)
        return ends

    def exchanged(self, x: FloatArray, pairs: Pairs) -> FloatArray:
        """Return a model's vector x after the features (i, j) of each pair in turn exchange directions."""
        model = self.aim.split(x)
        for pair in pairs:
            model = exchanged_model(model, *pair)
        return self.vector(model)

    def sorted_pairs(self, x: FloatArray) -> Pairs:
        """Return the pairs of features whose exchange in x gives the least objectives, the least first.

        Features exchange directions; all pairs count if the law has groups, else those that differ in p,
        scale or importance. Of more than 400 a random 400 are tried; at most 24 are returned, fewer if the
        budget of steps is used up.
        """
        pairs = self.pairs
        if len(pairs) > _SETTINGS.most_pairs:
            pairs = [pairs[k] for k in self.rng.permutation(len(pairs))[: _SETTINGS.most_pairs]]
        values: list[float] = []
        for first in range(0, len(pairs), _SETTINGS.batch):
            if self.is_over():
                break
            vectors = [self.exchanged(x, [pair]) for pair in pairs[first : first + _SETTINGS.batch]]
            values += [value for value, _ in self.aim.smooth_of_many(vectors, self.workers)]
            self.steps += len(vectors)
        return [pairs[k] for k in np.argsort(values, kind="stable")[: _SETTINGS.exchanges]]

    def after_exchanges(self, current: DescentResult) -> DescentResult:
        """Return the end of descents from `current` after exchanges of two features, while one is lower."""
        is_lower = bool(self.pairs)
        while is_lower and not self.is_over():
            is_lower, pairs = False, self.sorted_pairs(current.x)
            for first in range(0, len(pairs), _SETTINGS.batch):
                vectors = [
                    self.exchanged(current.x, [pair]) for pair in pairs[first : first + _SETTINGS.batch]
                ]
                end = min(self.ends(vectors, _SETTINGS.exchange_steps), key=lambda end: end.value)
                if self.is_gain(end, current):
                    further = self.ends([end.x], _SETTINGS.exchange_steps)
                    current, is_lower = min([end, *further], key=lambda end: end.value), True
                if self.is_over():
                    break
        return current

    def is_gain(self, end: DescentResult, current: DescentResult) -> bool:
        """Return whether `end` is lower than `current` by more than a share of 1e-5."""
        return end.value < current.value * (1.0 - _SETTINGS.least_gain)

    def after_redraw(self, current: DescentResult) -> DescentResult | None:
        """Return the lowest end after a feature got a new direction, None if none is below `current`."""
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

    def kicked(self, best: DescentResult) -> DescentResult:
        """Return the end of a descent from `best` after random pairs of features exchanged directions."""
        chosen = self.rng.integers(len(self.pairs), size=_SETTINGS.kick_exchanges)
        x = self.exchanged(best.x, [self.pairs[k] for k in chosen])
        return self.ends([x], _SETTINGS.redraw_steps)[0]

    def run(self, bases: list[DescentResult]) -> list[DescentResult]:
        """Return the local minima that were found from `bases`, ends of descents with the best first."""
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
                current = self.kicked(minima[0])
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

    descend(vectors, steps) returns the ends of descents on `aim` from some vectors after so many steps.
    `budget` is the number of steps of all descents.
    """
    return _LocalSearch(aim, descend, rng, budget, workers).run(bases) if budget else []
