"""What is minimised: the exact loss of ReLU(W_out W_in x + b) with a penalty, as a function of one vector."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, as_features
from ...theory.loss.classes import class_weights, gradient_of_map, per_feature
from ..loss import exact_loss
from ..loss.exact import Gradient, gradient_of
from ..loss.folds import by_folds
from ..loss.patterns import by_patterns, chances

__all__ = ["BIASES", "Objective", "Penalty"]

BIASES = (True, False, "common")

Penalty = tuple[str, float] | Callable[..., Any] | None

# Features up to which all patterns are summed, by the sides of their values: 60 ms for 8 uniform ones, five
# times that for each more.
_FEW = {0: 12, 1: 8, 2: 4, -1: 0}
# Patterns that may be summed for a loss on few classes, and features that may be on.
_PATTERNS, _MOST_ON = 20_000, 11
# Independent uniform features up to which a gradient is folded: 4 ms for 14, a third of the transform's. Near
# weights of 0 the transform's is off by 1e-4, and folds leave nothing but rounding.
_FOLDED = 14
# Frequencies of the lattice at most: losses good to 1e-8 or so, and to 1e-5 in a race of many starts.
_FREQUENCIES, _RACE = 1024, 64
# Tolerances of the transform in a descent, and of the loss that is returned, in units of E x_i².
_DESCENT, _END = 1e-5, 1e-9
# What one pattern's loss is off by, relative to the square of the largest output.
_ROUNDING = 1e-14


class _Classes:
    """The loss of alike features, summed over the classes k = first, ..., last of k features on.

    `chances[k]` is the probability of one pattern of class k.
    """

    def __init__(self, law: Features, first: int, chances: FloatArray):
        self.first, self.chances, self.scale = first, chances, float(law.scale[0])
        self.share = law.importance * self.scale**2 / law.n_features

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u, ones = b / self.scale, np.ones(b.size)
        losses, by_M, by_u = np.zeros(b.size), np.zeros(M.shape), np.zeros(b.size)
        for k, chance in enumerate(self.chances[self.first :], self.first):
            if chance > 0.0:
                losses += chance * per_feature(M, u, k)
                more, more_u = gradient_of_map(M, u, k, ones)
                by_M += chance * more
                by_u += chance * more_u
        return float(self.share @ losses), self.share[:, None] * by_M, self.share * by_u / self.scale

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss and what rounding may have done to it."""
        size = np.abs(b) / self.scale + np.abs(M).sum(axis=1) + 1.0
        patterns = [comb(b.size, k) for k in range(self.first, self.chances.size)]
        chance = float(np.dot(patterns, self.chances[self.first :]))
        return self(M, b)[0], _ROUNDING * chance * float(self.share @ size**2)

    def slope_errors(self, M: FloatArray, b: FloatArray) -> FloatArray:
        """Return what rounding may have done to the derivatives of each row and its bias."""
        size = np.abs(b) / self.scale + np.abs(M).sum(axis=1) + 1.0
        patterns = [comb(b.size, k) for k in range(self.first, self.chances.size)]
        chance = float(np.dot(patterns, self.chances[self.first :]))
        return np.asarray(2.0 * _ROUNDING * chance * self.share * max(1.0, 1.0 / self.scale) * size)


class _Patterns:
    """The loss of few features, summed over all patterns of up to so many features on."""

    def __init__(self, law: Features, up_to: int):
        count = np.array([pattern.bit_count() for pattern in range(2**law.n_features)])
        self.law, self.chances = law, np.where(count <= up_to, chances(law), 0.0)
        self.stretch = law.scale / law.scale[:, None]
        self.share = law.importance * law.scale**2 / law.n_features

    def _parts(self, M: FloatArray, b: FloatArray) -> tuple[FloatArray, ...]:
        rows, values = np.arange(b.size), self.law.values.parts
        return by_patterns(M * self.stretch, rows, b / self.law.scale, self.chances, values)

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        losses, _, by_M, by_b, _ = self._parts(M, b)
        by_M *= self.share[:, None] * self.stretch
        return float(self.share @ losses), by_M, self.share * by_b / self.law.scale

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss and what it is off by."""
        losses, errors, *_ = self._parts(M, b)
        return float(self.share @ losses), float(self.share @ errors)

    def slope_errors(self, M: FloatArray, b: FloatArray) -> FloatArray:
        """Return what the derivatives of each row and its bias are off by."""
        return _stretched(self, self._parts(M, b)[4])


class _Folds:
    """The loss of few independent uniform features, as `value_and_gradient` folds it without its checks."""

    def __init__(self, law: Features):
        self.law, self.rows = law, np.arange(law.n_features)
        self.stretch = law.scale / law.scale[:, None]
        self.share = law.importance * law.scale**2 / law.n_features

    def _parts(self, M: FloatArray, b: FloatArray) -> tuple[FloatArray, ...]:
        return by_folds(M * self.stretch, self.rows, b / self.law.scale, self.law.p)

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        losses, _, by_M, by_b, _ = self._parts(M, b)
        by_M *= self.share[:, None] * self.stretch
        return float(self.share @ losses), by_M, self.share * by_b / self.law.scale

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss and what it is off by at most."""
        found = exact_loss(M, b, self.law)
        return found.loss, found.error_estimate

    def slope_errors(self, M: FloatArray, b: FloatArray) -> FloatArray:
        """Return what the derivatives of each row and its bias are off by."""
        return _stretched(self, self._parts(M, b)[4])


def _stretched(loss: _Patterns | _Folds, errors: FloatArray) -> FloatArray:
    """Return errors of derivatives in units of the features' scales as those of the loss per feature."""
    return np.asarray(loss.share * np.maximum(loss.stretch.max(axis=1), 1.0 / loss.law.scale) * errors)


class _Transform:
    """The loss of many features, by few frequencies; descents go on whatever error that leaves."""

    def __init__(self, law: Features):
        self.law, self.frequencies, self.tol = law, _FREQUENCIES, _DESCENT

    def _found(self, M: FloatArray, b: FloatArray) -> Gradient:
        return gradient_of(M, b, self.law, tol=self.tol, frequencies=self.frequencies, refuse=False)

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        found = self._found(M, b)
        return found.loss, found.by_M, found.by_b

    def slope_errors(self, M: FloatArray, b: FloatArray) -> FloatArray:
        """Return what the derivatives of each row and its bias are off by."""
        return self._found(M, b).gradient_error

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss and what it is off by."""
        found = exact_loss(M, b, self.law, tol=_END)
        return found.loss, found.error_estimate


@dataclass
class Objective:
    """Loss per feature plus penalty, over the loss of the zero model, as a function of one flat vector.

    The vector holds W_out, then W_in unless it is tied, then the free biases. `until` is the time of
    `perf_counter` at which descents stop.
    """

    n: int
    m: int
    law: Any
    tied: bool = True
    bias: bool | str = True
    penalty: Penalty = None
    classes: int | None = None
    largest: float | None = None
    until: float = np.inf

    def __post_init__(self) -> None:
        n = self.n
        if not isinstance(self.bias, bool | str) or self.bias not in BIASES:
            raise ValueError(f"`bias` must be True, False or 'common'; got {arguments.shown(self.bias)}.")
        self.limit = isinstance(self.law, int | float) and not isinstance(self.law, bool) and self.law == 0
        features = as_features(1.0 if self.limit else self.law, n)
        self.features = features
        if self.largest is not None:
            self.largest = arguments.number("largest", self.largest, 0.0, brackets="()")
        self.up_to = n if self.classes is None else arguments.integer("classes", self.classes, 1, n)
        self.mean, self.second = features.mean, features.second_moment
        with np.errstate(over="ignore"):
            self.unit = float(np.mean(features.importance * self.second))
        if not 1e-300 < self.unit < np.inf:
            raise ValueError(f"`law` must have a loss of the zero model in [1e-300, inf); got {self.unit:g}.")
        self.biases = {True: n, False: 0, "common": 1}[self.bias]
        self._check_penalty()
        self.loss = self._backend()
        self.exact = not isinstance(self.loss, _Transform)
        # Many starts race where one descent takes more than a tenth of a second.
        self.raced = not self.exact or (isinstance(self.loss, _Folds) and n > 9)
        # Steps of 50 ns of a gradient, by patterns and by folds; 5^n is no float from 441 on.
        self.work = n * (2.0 if isinstance(self.loss, _Folds) else 5.0) ** min(n, 99)

    def _check_penalty(self) -> None:
        self.l1 = self.interference = 0.0
        if self.penalty is None:
            return
        if callable(self.penalty):
            try:
                signature(self.penalty).bind(None, None, None)
            except (TypeError, ValueError):  # other arguments, or a function in C that does not say which
                raise ValueError(f"`penalty` must take W_out, W_in and b; got {self.penalty!r}.") from None
            return
        kinds = ("l1", "interference")
        if not isinstance(self.penalty, tuple) or len(self.penalty) != 2 or self.penalty[0] not in kinds:
            rule = 'None, ("l1", strength), ("interference", strength) or a function'
            raise ValueError(f"`penalty` must be {rule}; got {self.penalty!r}.")
        strength = arguments.number("penalty", self.penalty[1], 0) / (self.n * self.unit)
        self.l1, self.interference = (strength, 0.0) if self.penalty[0] == "l1" else (0.0, strength)

    def _backend(self) -> Any:
        law, n = self.features, self.n
        if self.limit:
            return _Classes(law, 1, np.array([0.0, 1.0]))
        plain = law.independent and law.values.uniform
        if plain and n <= _FOLDED and self.up_to == n:
            return _Folds(law)
        few = n <= _FEW[law.values.sides]
        if self.classes is None and not few:
            return _Transform(law)
        count = sum(comb(n, k) for k in range(self.up_to + 1))
        if law.alike and self.up_to <= _MOST_ON and count <= _PATTERNS:
            return _Classes(law, 0, class_weights(n, float(law.p[0]), self.up_to))
        if few:
            return _Patterns(law, self.up_to)
        raise ValueError(
            f"`classes` must be None for this law, or leave at most {_PATTERNS} patterns of at most "
            f"{_MOST_ON} alike uniform features; got {self.classes!r}, {count:,} patterns."
        )

    @contextmanager
    def coarse(self) -> Iterator[None]:
        """Take a tenth of the time for each gradient meanwhile, with losses of many features good to 1e-5."""
        before = getattr(self.loss, "frequencies", None)
        if before is not None:
            self.loss.frequencies = _RACE
        try:
            yield
        finally:
            if before is not None:
                self.loss.frequencies = before

    def refine(self) -> None:
        """Take four times as long for each gradient of many features from here on."""
        self.loss.frequencies, self.loss.tol = 4 * self.loss.frequencies, _END

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

    def _vector(self, of_out: FloatArray, of_in: FloatArray, of_b: FloatArray) -> FloatArray:
        return np.concatenate([of_out.ravel(), *([] if self.tied else [of_in.ravel()]), of_b])

    def join(self, W_out: FloatArray, W_in: FloatArray, b: FloatArray) -> FloatArray:
        """Return the vector of a model; of a tied one W_in counts, of one common bias the mean."""
        free = {True: b, False: b[:0], "common": b.mean(keepdims=True)}[self.bias]
        return self._vector(W_in.T if self.tied else W_out, W_in, free)

    def smooth(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective without an l1 penalty, and its gradient."""
        n, m, (W_out, W_in, b) = self.n, self.m, self.split(x)
        M = np.ascontiguousarray(W_out @ W_in)
        value, by_M, by_b = self.loss(M, b)
        value, by_M, by_b = value / self.unit, by_M / self.unit, by_b / self.unit
        if self.interference:
            off = M - np.diag(np.diag(M))
            value += self.interference * float(np.sum(off * off))
            by_M = by_M + 2.0 * self.interference * off
        by_out, by_in = by_M @ W_in.T, W_out.T @ by_M
        if callable(self.penalty):
            more = self.penalty(W_out, W_in, b)
            if not isinstance(more, tuple) or [np.shape(one) for one in more] != [(), (n, m), (m, n), (n,)]:
                rule = "return a number and its derivatives by W_out, W_in and b"
                raise ValueError(f"`penalty` must {rule}; got {arguments.shown(more)}.")
            value += float(more[0]) / self.unit
            by_out, by_in, by_b = (
                a + np.asarray(c) / self.unit for a, c in zip((by_out, by_in, by_b), more[1:], strict=True)
            )
        free = {True: by_b, False: by_b[:0], "common": by_b.sum(keepdims=True)}[self.bias]
        return value, self._vector(by_out + by_in.T if self.tied else by_out, by_in, free)

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        return self.smooth(x)[0] + self.l1 * float(np.abs(x[: x.size - self.biases]).sum())

    def slope(self, x: FloatArray) -> FloatArray:
        """Return the gradient; with an l1 penalty or variables at their bounds, the shortest subgradient."""
        by = self.smooth(x)[1]
        weights = slice(0, x.size - self.biases)
        if self.l1:
            at_zero = np.sign(by[weights]) * np.maximum(np.abs(by[weights]) - self.l1, 0.0)
            by[weights] = np.where(x[weights] == 0.0, at_zero, by[weights] + self.l1 * np.sign(x[weights]))
        if self.limit and self.biases:
            tail = by[-self.biases :]
            tail[(x[-self.biases :] >= 0.0) & (tail < 0.0)] = 0.0
        by[self.held(x) & (by * x < 0.0)] = 0.0
        return by

    def slope_error(self, x: FloatArray) -> float:
        """Return what the length of `slope` may be off by."""
        W_out, W_in, b = self.split(x)
        errors = self.loss.slope_errors(np.ascontiguousarray(W_out @ W_in), b)
        reach = np.sqrt(self.n) * (np.linalg.norm(W_out, 2) + np.linalg.norm(W_in, 2)) + 1.0
        return float(reach * np.linalg.norm(errors / self.unit))

    def held(self, x: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which entries of the vector are weights at their bound."""
        held = np.zeros(x.size, np.bool_)
        if self.largest is not None:
            held[: x.size - self.biases] = np.abs(x[: x.size - self.biases]) >= self.largest
        return held

    def symmetries(self, x: FloatArray) -> FloatArray:
        """Return directions, as columns, along which the objective stays as it is."""
        if self.l1 or callable(self.penalty):
            return np.zeros((x.size, 0))
        W_out, W_in, _ = self.split(x)
        fixed, turns = np.zeros(self.biases), []
        for i, j in np.ndindex(self.m, self.m):
            A = np.zeros((self.m, self.m))
            A[i, j] = 1.0
            if not self.tied:
                turns.append(self._vector(W_out @ A, -A @ W_in, fixed))
            elif i < j:  # only rotations leave W_out the transpose of W_in
                turns.append(self._vector(W_out @ (A - A.T), W_in, fixed))
        return np.array(turns).T if turns else np.zeros((x.size, 0))
