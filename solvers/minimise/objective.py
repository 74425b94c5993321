"""The objective of a minimisation, of one flat vector: exact loss of ReLU(W_out W_in x + b) plus penalty."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import as_features
from ...theory.validation import FloatArray
from ..deadline import Deadline, work_seconds
from ..loss.budget import loss_by_descent_kernel, loss_within_deadline
from ..loss.descent import DescentLoss
from ..loss.exact import evaluate
from ..loss.problem import Accuracy, LossProblem

__all__ = ["BIASES", "Objective", "Penalty"]

BIASES = (True, False, "common")

Penalty = tuple[str, float] | Callable[..., Any] | None

_FREQUENCIES = 1024  # of the lattice at most: losses good to 1e-8 or so
_COARSE_FREQUENCIES = 64  # the same where starts are screened: good to 1e-5
_COARSE_TOL = 1e-3  # of the transform there, in units of E x_i²
_DESCENT_TOL = 1e-5  # of the transform in a descent, in units of E x_i²
_FINAL_TOL = 1e-9  # of the loss that is returned, in the same units
# Seconds of an exact gradient above which starts race on a cheaper loss, which ends at lower minima in less
# time: from 9 uniform features on, or 8 binary ones. Folds of symmetric values, up to 9, are quick enough.
_RACED_SECONDS = 1e-4
_MORE_DIGITS_FACTOR = 100.0  # times that a loss takes, which must be left for one with more digits


@dataclass
class Objective:
    """Loss per feature plus penalty, divided by the loss of the zero model, as a function of a flat vector.

    The vector x holds W_out, then W_in unless it is tied, then the free biases. Fields are the arguments of
    `minimise` with n features and m neurons; descents end at the `deadline`.
    """

    n: int
    m: int
    law: Any
    tied: bool = True
    bias: bool | str = True
    penalty: Penalty = None
    classes: int | None = None
    largest: float | None = None
    deadline: Deadline = field(default_factory=Deadline)

    def __post_init__(self) -> None:
        n = self.n
        if not isinstance(self.bias, bool | str) or self.bias not in BIASES:
            raise ValueError(
                f"`bias` must be True, False or 'common'; got {validation.short_repr(self.bias)}."
            )
        self.limit = isinstance(self.law, int | float) and not isinstance(self.law, bool) and self.law == 0
        features = as_features(1.0 if self.limit else self.law, n)
        self.features = features
        if self.largest is not None:
            self.largest = validation.number("largest", self.largest, 0.0, brackets="()")
        self.up_to = n if self.classes is None else validation.integer("classes", self.classes, 1, n)
        self.mean, self.second = features.mean, features.second_moment
        with np.errstate(over="ignore"):
            self.unit = float(np.mean(features.importance * self.second))
        if not 1e-300 < self.unit < np.inf:
            raise ValueError(f"`law` must have a loss of the zero model in [1e-300, inf); got {self.unit:g}.")
        self.biases = {True: n, False: 0, "common": 1}[self.bias]
        self.size = n * self.m * (1 if self.tied else 2) + self.biases  # of the vector
        self._check_penalty()
        first = Accuracy(_DESCENT_TOL, _FREQUENCIES, refuse_lost=False)
        self.loss = DescentLoss(features, 0 if self.limit else self.classes, first)
        self.accuracy = replace(first, workers=self.loss.workers)
        self.exact, is_whole = self.loss.exact, not self.limit and self.classes is None
        has_cheaper_loss = is_whole and (self.loss.has_levels or self.loss.method != "folding")
        self.raced = not self.exact or (has_cheaper_loss and self.loss.seconds > _RACED_SECONDS)

    def _check_penalty(self) -> None:
        """Raise ValueError unless the penalty is None, a known tuple, or a function."""
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
        strength = validation.number("penalty", self.penalty[1], 0) / (self.n * self.unit)
        self.l1, self.interference = (strength, 0.0) if self.penalty[0] == "l1" else (0.0, strength)

    @contextmanager
    def coarse(self) -> Iterator[None]:
        """Use few frequencies inside this context: losses with errors of 1e-5 in a tenth of the time."""
        accuracy, self.accuracy = (
            self.accuracy,
            replace(self.accuracy, tol=_COARSE_TOL, max_frequencies=_COARSE_FREQUENCIES),
        )
        try:
            yield
        finally:
            self.accuracy = accuracy

    def with_accuracy(self, **changes: Any) -> "Objective":
        """Return a copy of this objective with `changes` of the fields of its `Accuracy`."""
        other = copy(self)
        other.accuracy = replace(self.accuracy, **changes)
        return other

    def restore(self) -> None:
        """Undo `refine`: set frequencies and tolerance back to those of descents."""
        self.accuracy = replace(self.accuracy, tol=_DESCENT_TOL, max_frequencies=_FREQUENCIES)

    def refine(self) -> None:
        """Use four times as many frequencies and the final tolerance from now on, in four times the time."""
        frequencies = 4 * (self.accuracy.max_frequencies or _FREQUENCIES)
        self.accuracy = replace(self.accuracy, tol=_FINAL_TOL, max_frequencies=frequencies)

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (W_out, W_in, b), of shapes (n, m), (m, n) and (n,), from the flat vector x."""
        n, m = self.n, self.m
        W_out = x[: n * m].reshape(n, m)
        W_in = W_out.T if self.tied else x[n * m : 2 * n * m].reshape(m, n)
        b = np.zeros(n) if self.bias is False else np.array(np.broadcast_to(x[x.size - self.biases :], n))
        return W_out, W_in, b

    def _vector(self, of_out: FloatArray, of_in: FloatArray, of_b: FloatArray) -> FloatArray:
        """Return W_out, W_in (if not tied) and free biases, or arrays of these shapes, as one vector."""
        return np.concatenate([of_out.ravel(), *([] if self.tied else [of_in.ravel()]), of_b])

    def join(self, W_out: FloatArray, W_in: FloatArray, b: FloatArray) -> FloatArray:
        """Return the vector x of a model (W_out, W_in, b).

        A tied model takes W_in' for both weights; a common bias is the mean of b.
        """
        free = {True: b, False: b[:0], "common": b.mean(keepdims=True)}[self.bias]
        return self._vector(W_in.T if self.tied else W_out, W_in, free)

    def smooth(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return (objective without the l1 penalty, its gradient with respect to the vector x)."""
        W_out, W_in, b = self.split(x)
        M = np.ascontiguousarray(W_out @ W_in)
        return self._of_loss((W_out, W_in, b), M, self.loss(M, b, self.accuracy))

    def smooth_of_many(
        self, vectors: list[FloatArray], workers: int | None
    ) -> list[tuple[float, FloatArray]]:
        """Return (objective without the l1 penalty, its gradient) at each of the `vectors`.

        `workers` threads share the outputs of all models.
        """
        models = [self.split(x) for x in vectors]
        products = [np.ascontiguousarray(W_out @ W_in) for W_out, W_in, _ in models]
        biases = [b for _, _, b in models]
        losses = self.loss.of_many(list(zip(products, biases, strict=True)), self.accuracy, workers)
        return [self._of_loss(*parts) for parts in zip(models, products, losses, strict=True)]

    def _of_loss(
        self,
        model: tuple[FloatArray, FloatArray, FloatArray],
        M: FloatArray,
        loss: tuple[float, FloatArray, FloatArray],
    ) -> tuple[float, FloatArray]:
        """Return (objective without the l1 penalty, its gradient as a vector) of `model`, (W_out, W_in, b).

        `loss` is (loss, its derivatives by M = W_out W_in and by b).
        """
        n, m, (W_out, W_in, b), (value, by_M, by_b) = self.n, self.m, model, loss
        value, by_M, by_b = value / self.unit, by_M / self.unit, by_b / self.unit
        if self.interference:
            off = M - np.diag(np.diag(M))
            value += self.interference * float(np.sum(off * off))
            by_M = by_M + 2.0 * self.interference * off
        by_out, by_in = by_M @ W_in.T, W_out.T @ by_M
        if callable(self.penalty):
            penalty_terms = self.penalty(W_out, W_in, b)
            if not isinstance(penalty_terms, tuple) or [np.shape(term) for term in penalty_terms] != [
                (),
                (n, m),
                (m, n),
                (n,),
            ]:
                rule = "return a number and its derivatives by W_out, W_in and b"
                raise ValueError(f"`penalty` must {rule}; got {validation.short_repr(penalty_terms)}.")
            value += float(penalty_terms[0]) / self.unit
            by_out, by_in, by_b = (
                a + np.asarray(c) / self.unit
                for a, c in zip((by_out, by_in, by_b), penalty_terms[1:], strict=True)
            )
        free = {True: by_b, False: by_b[:0], "common": by_b.sum(keepdims=True)}[self.bias]
        return value, self._vector(by_out + by_in.T if self.tied else by_out, by_in, free)

    def value(self, x: FloatArray) -> float:
        """Return the objective at the vector x, with the l1 penalty."""
        return self.smooth(x)[0] + self.l1 * float(np.abs(x[: x.size - self.biases]).sum())

    def slope(self, x: FloatArray) -> FloatArray:
        """Return the gradient at x; with an l1 penalty or variables at bounds, the shortest subgradient."""
        by = self.smooth(x)[1]
        weights = slice(0, x.size - self.biases)
        if self.l1:
            at_zero = np.sign(by[weights]) * np.maximum(np.abs(by[weights]) - self.l1, 0.0)
            by[weights] = np.where(x[weights] == 0.0, at_zero, by[weights] + self.l1 * np.sign(x[weights]))
        if self.limit and self.biases:
            tail = by[-self.biases :]
            tail[(x[-self.biases :] >= 0.0) & (tail < 0.0)] = 0.0
        by[self.at_bound(x) & (by * x < 0.0)] = 0.0
        return by

    def slope_error(self, x: FloatArray) -> float:
        """Return the estimated error of the gradient's norm at x."""
        W_out, W_in, b = self.split(x)
        errors = self.loss.slope_errors(np.ascontiguousarray(W_out @ W_in), b, self.accuracy)
        reach = np.sqrt(self.n) * (np.linalg.norm(W_out, 2) + np.linalg.norm(W_in, 2)) + 1.0
        return float(reach * np.linalg.norm(errors / self.unit))

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return (loss per feature, its largest error) of ReLU(M x + b), as exact as the deadline allows."""
        final = Accuracy(1e-12 if self.exact else _FINAL_TOL, workers=None)
        problem = LossProblem.of(M, b, self.loss.law)
        exact = loss_by_descent_kernel(problem, final)
        if exact is None and (self.exact or not self.deadline.is_limit()):
            exact = evaluate(problem, final)
        if exact is not None:
            return exact.loss, exact.error_estimate
        is_over, start = self.deadline.is_over(), work_seconds()
        with self.coarse() if is_over else nullcontext():
            loss, error = self.loss.loss_and_error(M, b, self.accuracy)
        # More digits need other methods, which may be slower by far, but for sums over finitely many values.
        least = np.inf if is_over else _MORE_DIGITS_FACTOR * (work_seconds() - start)
        if not self.features.values.discrete and self.deadline.seconds_left() < least:
            return loss, error
        finer = loss_within_deadline(self.deadline, problem, final)
        if finer is None or finer.error_estimate > error:
            return loss, error
        return finer.loss, finer.error_estimate

    def at_bound(self, x: FloatArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the entries of x that are weights at their bound `largest`."""
        at_bound = np.zeros(x.size, np.bool_)
        if self.largest is not None:
            at_bound[: x.size - self.biases] = np.abs(x[: x.size - self.biases]) >= self.largest
        return at_bound

    def symmetries(self, x: FloatArray) -> FloatArray:
        """Return directions at x along which the objective is constant, as columns, (x.size, count).

        There are none if the penalty is l1 or a function.
        """
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
