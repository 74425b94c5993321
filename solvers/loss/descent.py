"""Loss and gradient for optimisers: no validation, and no refusal when digits cancel."""

from copy import copy
from dataclasses import replace

import numpy as np

from ...theory.features import Features
from ...theory.validation import FloatArray
from ..parallel import parallel_map
from .dispatch import EXACT, METHODS, NAMES, average_at_kinks, choose, refuse_uncovered
from .methods import affine, uniform_fourier
from .problem import Accuracy, Law, LossProblem, Outputs, law_of

__all__ = ["DescentLoss"]

# Features up to which outputs share one thread in a descent: several descents run beside each other.
MOST_FEATURES_ON_ONE_THREAD = 64
# Features up to which outputs of many models stay in one thread: others would begin when it nearly ends.
_MOST_FEATURES_OF_MANY = 32
_PIECES = 4  # of many models that threads share


class DescentLoss:
    """Function that returns the loss per feature of ReLU(M x + b) at one law, and its derivatives by M and b.

    `features` is the law of x; unless `classes` is None, inputs with more than `classes` features on do not
    count. The `accuracy` passed here only chooses the method; each call takes the one to aim at. If `exact`,
    the method named `method` serves all calls, with rounding errors alone, and `seconds` is the estimated
    time of a call; else `seconds` is inf. If `is_quick`, `uniform_fourier` serves them.
    """

    def __init__(self, features: Features, classes: int | None, accuracy: Accuracy):
        n = features.n_features
        if classes is None or classes == n:
            self._set_method(law_of(features, n), accuracy)
        if classes is not None and not (classes == n and self.exact):  # all classes are the whole law
            self._set_method(Law(features, classes), accuracy)
        scale, share = features.scale, features.importance / n
        self._share, self._by_b = share * scale**2, share * scale
        self._by_M, self._stretch = share[:, None] * np.outer(scale, scale), scale / scale[:, None]
        self._target = np.arange(n)

    def _set_method(self, law: Law, accuracy: Accuracy) -> None:
        """Choose the method for `law`; store it and flags as attributes; ValueError if no method covers it.

        `method` is the name of the quickest method with derivatives to `accuracy`, other than `affine` and
        `uniform_fourier`. Flags: `exact` (its error is rounding alone), `is_quick` (calls use
        `uniform_fourier` instead), `has_levels` (they could). `seconds` are those of a call, inf if not
        exact; `workers` is the number of threads, None for all.
        """
        generic = LossProblem(law, np.zeros((law.n, law.n)), np.ones(law.n), np.arange(law.n))
        candidates = choose(generic, accuracy, True)
        self.has_levels = candidates.pop(uniform_fourier, None) is not None  # the quick sum
        candidates.pop(affine, None)
        if not candidates:
            refuse_uncovered(law, accuracy, True, {})
        method = next(iter(candidates))
        self.law, self.method = law, NAMES[method]
        self.exact, self.seconds = method in EXACT, np.inf
        if self.exact:
            self.seconds = law.n * float(method.estimated_seconds(generic, accuracy, True))
        self._use_levels(self.has_levels and not self.exact)

    def _use_levels(self, is_quick: bool) -> None:
        """Let calls use `uniform_fourier`, or not; set the number of threads."""
        self.is_quick = is_quick
        # Several descents run beside each other.
        self.workers = 1 if is_quick and self.law.n <= MOST_FEATURES_ON_ONE_THREAD else None

    def by_levels(self) -> "DescentLoss | None":
        """Return this loss by `uniform_fourier`, which is quicker from 11 features on.

        Return None if features are not uniform, or depend on each other.
        """
        if self.is_quick:
            return self
        if not self.has_levels:
            return None
        other = copy(self)
        other.exact, other.seconds = False, np.inf
        other._use_levels(True)
        return other

    def scaled_outputs(self, M: FloatArray, b: FloatArray, accuracy: Accuracy) -> Outputs:
        """Return the `Outputs` of y = ReLU(M x + b), with derivatives, in units of the features' scales.

        M and b act on x itself. The losses are E (x_i - y_i)^2 / scale_i^2, without importance; derivatives
        are with respect to M_ij scale_j / scale_i and b_i / scale_i. `accuracy` is aimed at.
        """
        problem = LossProblem(self.law, M * self._stretch, b / self.law.scale, self._target)
        # What `average_at_kinks` returns, in less time.
        method = METHODS[self.method] if self.exact else uniform_fourier if self.is_quick else None
        if method and (b.all() or not problem.at_kinks().any()):
            outputs: Outputs = method.solve(problem, accuracy, True)
            return outputs
        if self.exact:
            accuracy = replace(accuracy, method=self.method, max_frequencies=None)
        return average_at_kinks(problem, accuracy, True)[0]

    def __call__(
        self, M: FloatArray, b: FloatArray, accuracy: Accuracy
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return (loss per feature, its derivatives by M, its derivatives by b), to this accuracy."""
        outputs = self.scaled_outputs(M, b, accuracy)
        return float(self._share @ outputs.losses), self._by_M * outputs.by_M, self._by_b * outputs.by_b

    def of_many(
        self, models: list[tuple[FloatArray, FloatArray]], accuracy: Accuracy, workers: int | None
    ) -> list[tuple[float, FloatArray, FloatArray]]:
        """Return (loss per feature, its derivatives by M, by b) of each (M, b) in `models`, to this accuracy.

        `workers` is the number of threads, which the outputs of all models share; None for all.
        """
        if not self.is_quick or not all(b.all() for _, b in models):
            return parallel_map(lambda k: self(*models[k], accuracy), len(models), workers)
        M, b = (np.concatenate(parts) for parts in zip(*models, strict=True))
        stretch = np.tile(self._stretch, (len(models), 1))
        scale, target = np.tile(self.law.scale, len(models)), np.tile(self._target, len(models))
        problem = LossProblem(self.law, M * stretch, b / scale, target)
        least = -(-len(models) // _PIECES) * self.law.n
        workers = 1 if self.law.n <= _MOST_FEATURES_OF_MANY else workers
        outputs = uniform_fourier.solve(problem, replace(accuracy, workers=workers), True, least)
        shape = (len(models), self.law.n)
        return list(
            zip(
                (outputs.losses.reshape(shape) @ self._share).tolist(),
                self._by_M * outputs.by_M.reshape(*shape, -1),
                self._by_b * outputs.by_b.reshape(shape),
                strict=True,
            )
        )

    def slope_errors(self, M: FloatArray, b: FloatArray, accuracy: Accuracy) -> FloatArray:
        """Return bounds or estimates (n,) of the errors of the derivatives of a call at this accuracy.

        Entry i is the largest error of the derivatives of the loss per feature by row i of M and by b_i.
        """
        largest = np.maximum(self._by_M.max(axis=1), self._by_b)
        return np.asarray(largest * self.scaled_outputs(M, b, accuracy).slope_errors)

    def loss_and_error(self, M: FloatArray, b: FloatArray, accuracy: Accuracy) -> tuple[float, float]:
        """Return (loss per feature, bound or estimate of its error); `accuracy` is aimed at."""
        outputs = self.scaled_outputs(M, b, accuracy)
        return float(self._share @ outputs.losses), float(self._share @ outputs.errors)
