"""What is minimised: the exact loss of ReLU(W_out W_in x + b) with a penalty, as a function of one vector."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, as_features
from ...theory.loss.cube import pattern_sums
from ..loss import exact_loss, value_and_gradient

__all__ = ["BIASES", "Objective", "Penalty"]

BIASES = (True, False, "common")

Penalty = tuple[str, float] | Callable[..., Any] | None

# The exact sum over all patterns takes 3 ms for 6 features and five times that for each further one. Up to
# `_FEW` features a descent uses it throughout, up to `_MOST_ON` after a first descent on the transform.
_FEW = 7
# Patterns of few classes are summed as long as they are no more than this, with no more than so many on.
_PATTERNS, _MOST_ON = 2**14, 9
# Tolerances of the loss in a descent, and at its end, relative to the loss of the zero model.
_DESCENT, _END = 1e-10, 1e-12
# What one pattern's loss is off by, relative to the square of the largest output.
_ROUNDING = 1e-14


def _patterns(law: Features, up_to: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return all patterns of up to so many features on that can occur, and their probabilities."""
    n = law.n_features
    rows = [on for k in range(up_to + 1) for on in combinations(range(n), k)]
    patterns = np.zeros((len(rows), n), np.int64)
    for row, on in zip(patterns, rows, strict=True):
        row[list(on)] = 1
    grouped = np.zeros(n, np.bool_)
    weights = np.ones(len(patterns))
    for indices, table, probabilities in law.groups:
        grouped[indices] = True
        same = (patterns[:, None, indices] == table).all(axis=2)
        weights *= same @ probabilities
    free = np.flatnonzero(~grouped)
    weights *= np.where(patterns[:, free] == 1, law.p[free], 1.0 - law.p[free]).prod(axis=1)
    if law.exactly is not None:
        weights *= patterns.sum(axis=1) == law.exactly
        weights /= weights.sum()
    kept = weights > 0.0
    return patterns[kept], weights[kept]


class _Sum:
    """The loss as a sum over all patterns, or over those of few classes; values uniform on [0, scale]."""

    def __init__(self, law: Features, patterns: npt.NDArray[np.int64], weights: FloatArray):
        self.law, self.patterns, self.weights = law, patterns, weights
        self.share = law.importance * law.scale**2 / law.n_features

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        scale = self.law.scale
        stretch = scale / scale[:, None]
        losses, by_M, by_b = pattern_sums(M * stretch, b / scale, self.patterns, self.weights)
        by_M *= self.share[:, None] * stretch
        return float(self.share @ losses), by_M, self.share * by_b / scale

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss and what rounding may have done to it."""
        scale = self.law.scale
        size = np.abs(b) / scale + self.patterns @ (np.abs(M) * scale / scale[:, None]).T + self.patterns
        return self(M, b)[0], _ROUNDING * float(self.weights @ size**2 @ self.share)


class _Transform:
    """The loss of any law, from its transform."""

    def __init__(self, law: Features, unit: float):
        self.law, self.unit = law, unit

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        return value_and_gradient(M, b, self.law, tol=_DESCENT * self.unit)

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        found = exact_loss(M, b, self.law, tol=_END)
        return found.loss, found.error_estimate


def _moments(law: Features) -> tuple[FloatArray, FloatArray]:
    """Return E x and E x² of each feature."""
    mean = law.p * law.scale / 2.0
    return mean, law.p * law.scale**2 / 3.0


@dataclass
class Objective:
    """Loss per feature plus penalty, over the loss of the zero model, as a function of one flat vector.

    The vector holds W_out, then W_in unless it is tied, then the free biases.
    """

    n: int
    m: int
    law: Any
    tied: bool = True
    bias: bool | str = True
    penalty: Penalty = None
    classes: int | None = None
    rough: bool = False

    def __post_init__(self) -> None:
        n = self.n
        if self.bias not in BIASES or type(self.bias) is int:
            raise ValueError(f"`bias` must be True, False or 'common'; got {self.bias!r}.")
        self.limit = np.ndim(self.law) == 0 and not isinstance(self.law, str) and self.law == 0
        features = as_features(1.0 if self.limit else self.law, n)
        self.features = features
        self.up_to = n if self.classes is None else arguments.integer("classes", self.classes, 1, n)
        self.mean, self.second = _moments(features)
        with np.errstate(over="ignore"):
            self.unit = float(np.mean(features.importance * self.second))
        if not features.importance.any():
            raise ValueError("`importance` must not be 0 for all features; got 0 for all.")
        if not 1e-300 < self.unit < np.inf:
            raise ValueError(f"`law` must have a loss of the zero model in [1e-300, inf); got {self.unit:g}.")
        self.biases = {True: n, False: 0, "common": 1}[self.bias]
        self._check_penalty()
        self.loss = self._backend()

    def _check_penalty(self) -> None:
        self.l1 = self.interference = 0.0
        if self.penalty is None or callable(self.penalty):
            return
        kinds = ("l1", "interference")
        if not isinstance(self.penalty, tuple) or len(self.penalty) != 2 or self.penalty[0] not in kinds:
            rule = 'None, ("l1", strength), ("interference", strength) or a function'
            raise ValueError(f"`penalty` must be {rule}; got {self.penalty!r}.")
        strength = arguments.number("penalty", self.penalty[1], 0) / (self.n * self.unit)
        if self.penalty[0] == "l1":
            self.l1 = strength
        else:
            self.interference = strength

    def _backend(self) -> Any:
        law, n = self.features, self.n
        if self.limit:
            return _Sum(law, np.eye(n, dtype=np.int64), np.ones(n))
        few = n <= (_FEW if self.rough else _MOST_ON) and law.values == "uniform"
        if self.classes is None and not few:
            return _Transform(law, self.unit)
        if law.values != "uniform":
            raise ValueError(f"`classes` must be None where values are not uniform; got {self.classes!r}.")
        count = sum(comb(n, k) for k in range(self.up_to + 1))
        if count > _PATTERNS or self.up_to > _MOST_ON:
            raise ValueError(
                f"`classes` must leave at most {_PATTERNS} patterns of at most {_MOST_ON} features; "
                f"got {self.up_to}, {count:,} patterns."
            )
        return _Sum(law, *_patterns(law, self.up_to))

    @property
    def begin(self) -> "Objective | None":
        """The same objective from the transform, where that is faster but less accurate."""
        if self.rough or self.limit or self.classes is not None or not _FEW < self.n <= _MOST_ON:
            return None
        return replace(self, rough=True)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.n * self.m * (1 if self.tied else 2) + self.biases

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return W_out, W_in and b."""
        n, m = self.n, self.m
        W_out = x[: n * m].reshape(n, m)
        W_in = W_out.T if self.tied else x[n * m : 2 * n * m].reshape(m, n)
        b = np.zeros(n) if self.bias is False else np.array(np.broadcast_to(x[x.size - self.biases :], n))
        return W_out, W_in, b

    def join(self, W_out: FloatArray, W_in: FloatArray, b: FloatArray) -> FloatArray:
        """Return the vector of a model; of a tied one W_in counts, of one common bias the mean."""
        tail = {True: b, False: b[:0], "common": b.mean(keepdims=True)}[self.bias]
        parts = [W_in.T] if self.tied else [W_out, W_in]
        return np.concatenate([*(part.ravel() for part in parts), tail])

    def smooth(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective without an l1 penalty, and its gradient."""
        W_out, W_in, b = self.split(x)
        M = np.ascontiguousarray(W_out @ W_in)
        value, by_M, by_b = self.loss(M, b)
        value, by_M, by_b = value / self.unit, by_M / self.unit, by_b / self.unit
        if self.interference:
            off = M - np.diag(np.diag(M))
            value += self.interference * float(np.sum(off * off))
            by_M = by_M + 2.0 * self.interference * off
        by_out, by_in = by_M @ W_in.T, W_out.T @ by_M
        if callable(self.penalty):
            more, more_out, more_in, more_b = self.penalty(W_out, W_in, b)
            value += float(more) / self.unit
            by_out, by_in, by_b = (
                a + np.asarray(c) / self.unit
                for a, c in zip((by_out, by_in, by_b), (more_out, more_in, more_b), strict=True)
            )
        tail = {True: by_b, False: by_b[:0], "common": by_b.sum(keepdims=True)}[self.bias]
        parts = [by_out + by_in.T] if self.tied else [by_out, by_in]
        return value, np.concatenate([*(part.ravel() for part in parts), tail])

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        return self.smooth(x)[0] + self.l1 * float(np.abs(x[: x.size - self.biases]).sum())

    def slope(self, x: FloatArray) -> FloatArray:
        """Return the gradient; with an l1 penalty or biases held at 0, the shortest subgradient."""
        by = self.smooth(x)[1]
        weights = slice(0, x.size - self.biases)
        if self.l1:
            at_zero = np.sign(by[weights]) * np.maximum(np.abs(by[weights]) - self.l1, 0.0)
            by[weights] = np.where(x[weights] == 0.0, at_zero, by[weights] + self.l1 * np.sign(x[weights]))
        if self.limit and self.biases:
            tail = by[-self.biases :]
            tail[(x[-self.biases :] >= 0.0) & (tail < 0.0)] = 0.0
        return by

    def symmetries(self, x: FloatArray) -> FloatArray:
        """Return directions, as columns, along which the objective stays as it is."""
        if self.l1 or callable(self.penalty):
            return np.zeros((x.size, 0))
        W_out, W_in, _ = self.split(x)
        m, turns = self.m, []
        for i in range(m):
            for j in range(m):
                A = np.zeros((m, m))
                A[i, j] = 1.0
                if self.tied:
                    if i >= j:
                        continue
                    A[j, i] = -1.0
                parts = [W_out @ A] if self.tied else [W_out @ A, -A @ W_in]
                turns.append(np.concatenate([*(part.ravel() for part in parts), np.zeros(self.biases)]))
        return np.array(turns).T if turns else np.zeros((x.size, 0))
