r"""One evaluator of the exact expected loss: the method for a model and a law, and its derivatives."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import comb, prod
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.features.values.law import require
from ...theory.loss.classes import class_weights
from ...theory.model import Model
from ...theory.results import frozen, result
from ...theory.validation import FloatArray, IntArray, matrix, real
from .methods import affine, contour, discrete, folding, fourier, uniform_fourier
from .methods import enumeration as patterns
from .methods import exactly_k as classes
from .methods.outputs import AccuracyRequest, Law, Outputs, Rows, merge_equal_inputs
from .methods.uniform_levels import NEGLIGIBLE

__all__ = ["LARGEST", "LEAST", "METHODS", "Descent", "Evaluator", "Loss"]

# The kernels form fourth powers of entries and of their inverses.
LARGEST = 1e50
# Losses of rarer features leave the range of doubles.
LEAST = 1e-290
# Terms of an output's sum: a second or two. With a budget, terms of all outputs together.
WORK = 2.0**26
# An error estimate above this share of the loss, or of a row's derivatives, and of the largest E x^2 means
# that digits are lost.
REJECT_RTOL = 0.01
# Above this share of the loss or of E x^2 the error of a method gives way to that of the next one.
FALLBACK_RTOL = 1e-4
# Losses below this share of the largest E x^2 are as good as 0.
_LEAST_SIZE = 1e-9
# Bias to both sides of a kink: it moves no output that is not 0.
KINK_OFFSET = 1e-250

# Of those that cover an output, the method that takes the least time is tried first; the next one follows
# where digits are lost. Each says what it takes, by `estimated_seconds`.
METHODS: dict[str, ModuleType] = {
    # Few features on, or one: the only one that has that limit.
    "classes": classes,
    # Outputs that never bend: two moments.
    "moments": affine,
    # Few independent features of uniform values: 2^n or, with two sides, 3^n at worst, and derivatives at the
    # same cost.
    "folds": folding,
    # Few features whose values have one or two sides: 2^n, 5^n, with any dependence.
    "patterns": patterns,
    # Finitely many values: 2^(n/2), then sums that are merged; groups are units like features.
    "discrete": discrete,
    # Independent uniform features: levels of weights of all sizes.
    "uniform": uniform_fourier,
    # Values with bounds: its frequencies grow with the ratio of the weights and as the tolerance falls.
    "lattice": fourier,
    # Values without bounds: the same few nodes for all weights.
    "wedge": contour,
}
# Sums over all states: nothing but rounding is left.
EXACT = ("classes", "folds", "patterns", "discrete")
# Nodes of a fold up to which it takes the place of a sum over a number of frequencies that is asked for, as
# descents do: Hessians by differences of more take many seconds. 14 features on [0, 1], 9 on [-1, 1].
MOST_NODES_WITHOUT_FREQUENCIES = 2.0**15
# Joint states of groups at most that are conditioned on.
MOST_STATES = 2**12
# Features up to which outputs share one thread in a descent: several descents run beside each other.
MOST_FEATURES_ON_ONE_THREAD = 64
# Seconds for each of them, whatever the number of outputs.
SECONDS_PER_STATE = 1e-3


# The method of a `Loss` that is a mean over samples.
SAMPLES = "samples"
# What the error of a method is; those of networks join.
ESTIMATES: dict[str, str] = {
    **{name: method.ESTIMATE for name, method in METHODS.items()},
    SAMPLES: "four standard errors of a mean over samples",
}


@result
class Loss:
    """Expected loss of a model, its error, and its derivatives if they were requested.

    Unpacks as ``loss, by_M, by_b``.
    """

    loss: float
    """Loss per feature: the mean over the chosen outputs of importance times `per_feature`."""
    error_estimate: float
    """Largest error of `loss`; `estimate` says how that is known."""
    per_feature: FloatArray
    """(n,): expected squared error of each output, E (x_i - y_i)^2, without importance."""
    per_feature_error: FloatArray
    """(n,): largest error of each of them."""
    gradient: dict[str, FloatArray] | None = None
    """Derivatives of `loss`: by 'M' (one row for each chosen output) and by 'b'. For a `Model` also by
    'W_in', 'b_in' and, if it is not tied, 'W_out'; 'M' and 'b' are then its `M` and `bias`."""
    gradient_error: FloatArray | None = None
    """(n,): error of each derivative by an output's row of M and its b: an estimate, also where that of the
    loss is proved."""
    method: str = ""
    """The methods that were used, of `solvers.loss.methods`."""

    @property
    def by_M(self) -> FloatArray:
        """Derivatives of the loss by M; KeyError if they were not requested."""
        return (self.gradient or {})["M"]

    @property
    def by_b(self) -> FloatArray:
        """Derivatives of the loss by the bias of the outputs; KeyError if they were not requested."""
        return (self.gradient or {})["b"]

    @property
    def estimate(self) -> str:
        """What the error estimate is, for each method that was used: proved, or heuristic and why."""
        return "; ".join(f"{name}: {ESTIMATES[name]}" for name in self.method.split(", "))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.loss, self.by_M, self.by_b))


@lru_cache(64)
def _equal_features(p: float, n: int) -> Features:
    return as_features(p, n)


def _law(law: Any, n: int) -> Features:
    features = _equal_features(law, n) if type(law) is float else as_features(law, n)
    least = features.p[features.p > 0.0].min(initial=1.0)
    if least < LEAST:
        raise ValueError(f"`law` must have probabilities of 0 or at least {LEAST:g}; got {least:g}.")
    return features


class Evaluator:
    """The exact loss of models ReLU(M x + b) at one law; `evaluator` makes one, which has hidden layers too.

    `classes` restricts the loss to inputs with at most so many features on, or to one feature if it is 0, as
    p -> 0. A sum over frequencies has `frequencies` at most; the error of the loss is then an estimate, as
    that of the gradient is. Without `refuse`, lost digits are seen in the errors alone.
    """

    def __init__(
        self,
        law: Any,
        *,
        tol: float = 1e-12,
        budget: float | None = None,
        method: str = "auto",
        workers: int | None = 1,
        classes: int | None = None,
        frequencies: int | None = None,
        refuse: bool = True,
    ):
        self.law_argument, self.tol, self.budget, self.method = law, tol, budget, method
        self.workers, self.classes, self.frequencies, self.refuse = workers, classes, frequencies, refuse
        self._known: dict[int, Law] = {}

    # --- Arguments -----------------------------------------------------------------------------------------

    def law(self, n: int) -> Law:
        """Return the `Law` of n features, cached with what methods compute from it."""
        if n not in self._known:
            self._known[n] = law = Law(_law(self.law_argument, n))
            if self.classes is not None:
                p = float(law.p[0])
                one_active = np.array([0.0, 1.0])  # the limit p -> 0
                law.cache["classes"] = class_weights(n, p, self.classes) if self.classes else one_active
        return self._known[n]

    def __call__(self, model: Any, gradient: bool = False, rows: npt.ArrayLike | None = None) -> Loss:
        """Return the `Loss` of a `Model` or of arrays (M, b), over all outputs or those with indices `rows`.

        It has derivatives if `gradient`. Raises ValueError for other models, or if no method covers them.
        """
        if isinstance(model, Model):
            is_nonlinear = model.hidden != "identity" or model.output == "jumprelu"
            if is_nonlinear or model.n_outputs != model.n_features:
                rule = "linear hidden neurons and an output, ReLU or identity, for each feature"
                raise ValueError(f"`model` must have {rule}; got {model!r}.")
            loss = self.of_arrays(model.M, model.bias, gradient, rows, relu=model.output == "relu")
            return _of_model(model, loss, rows) if gradient else loss
        try:
            M, b = model
        except (TypeError, ValueError):
            rule = "a Model or a tuple (M, b) of arrays"
            raise ValueError(f"`model` must be {rule}; got {validation.short_repr(model)}.") from None
        return self.of_arrays(M, b, gradient, rows)

    def of_arrays(
        self,
        M: npt.ArrayLike,
        b: npt.ArrayLike,
        gradient: bool = False,
        rows: npt.ArrayLike | None = None,
        relu: bool = True,
    ) -> Loss:
        """Check the arrays, and return the `Loss` of outputs ReLU(M x + b), or M x + b without `relu`."""
        M = real("M", matrix("M", M), -LARGEST, LARGEST)
        n = M.shape[1]
        if M.shape[0] != n:
            raise ValueError(f"`M` must be square; got shape {M.shape}.")
        bias, law = real("b", validation.numbers_or_repeat("b", b, n), -LARGEST, LARGEST), self.law(n)
        picked = np.arange(n)
        if rows is not None:
            picked = validation.indices("rows", rows, n)
            M, bias = M[picked], bias[picked]
        return self.mean(law, M, picked, bias, gradient, relu)

    def mean(
        self, law: Law, M: FloatArray, features: IntArray, b: FloatArray, gradient: bool, relu: bool = True
    ) -> Loss:
        """Return the `Loss` of outputs, without checks: row k of M and b[k] make the one for features[k]."""
        outputs, methods = self.outputs(law, M, features, b, gradient, relu)
        importance = law.features.importance[features]
        weights = importance / features.size
        by, slope_errors = None, None
        if gradient:
            by = {"M": frozen(weights[:, None] * outputs.by_M), "b": frozen(weights * outputs.by_b)}
            slope_errors = frozen(weights * outputs.slope_errors)
        loss, error = float(np.mean(importance * outputs.losses)), float(np.mean(importance * outputs.errors))
        return Loss(loss, error, frozen(outputs.losses), frozen(outputs.errors), by, slope_errors, methods)

    # --- The outputs, in the features' own units and in units of their scales -------------------------------

    def outputs(
        self, law: Law, M: FloatArray, features: IntArray, b: FloatArray, slopes: bool, relu: bool = True
    ) -> tuple[Outputs, str]:
        """Return (outputs, names of the methods used); row k of `M` and b[k] make the output for features[k].

        Raises ValueError if no method covers them, or if digits are lost and `refuse` is set.
        """
        units = law.scale[features]
        scaled_weights = np.require(M * (law.scale / units[:, None]), np.float64, ["C", "W"])
        rows = Rows(scaled_weights, features, np.require(b / units, np.float64, ["C", "W"]), relu)
        scaled_outputs, methods = self.drop_zero_weight_inputs(law, rows, slopes)
        losses = np.maximum(scaled_outputs.losses, 0.0) * units**2  # by rounding they may be below 0
        errors = scaled_outputs.errors * units**2
        if self.refuse:
            self._refuse_lost("loss of", losses, errors, law)
        if not slopes:
            return Outputs(
                losses, errors, scaled_outputs.by_M, scaled_outputs.by_b, scaled_outputs.slope_errors
            ), methods
        scales = np.outer(units, law.scale)
        by_M, slope_errors = scaled_outputs.by_M * scales, scaled_outputs.slope_errors * scales.max(axis=1)
        if self.refuse:
            self._refuse_lost("derivatives by", np.abs(by_M).max(axis=1), slope_errors, law)
        slope_errors = np.maximum(slope_errors, scaled_outputs.slope_errors * units)
        return Outputs(losses, errors, by_M, scaled_outputs.by_b * units, slope_errors), methods

    def _refuse_lost(self, name: str, sizes: FloatArray, errors: FloatArray, law: Law) -> None:
        """Raise ValueError if an error is above 1 % (or 2 `tol`) of its size plus the largest E x^2."""
        least = max(REJECT_RTOL, 2.0 * self.tol)
        lost = ~(errors <= least * (np.abs(sizes) + (law.square * law.scale**2).max()))
        if np.any(lost):
            k, most_frequencies = int(np.flatnonzero(lost)[0]), self.frequencies
            remedy = "" if most_frequencies is None else f", or more `frequencies` than {most_frequencies}"
            raise ValueError(
                f"`M` must have entries that double precision can tell apart{remedy}; the {name} row {k}, "
                f"{sizes[k]:.3g}, would be off by up to {errors[k]:.3g}."
            )

    def drop_zero_weight_inputs(self, law: Law, rows: Rows, slopes: bool) -> tuple[Outputs, str]:
        """Return (outputs, methods), computed without the inputs whose weight is negligible in every row.

        The gradient by a dropped weight is E[x_j] dL/db_i, as x_j is independent of output i.
        """
        if not law.independent or "classes" in law.cache:
            return self.average_at_kinks(law, rows, slopes)
        is_nonzero = np.abs(rows.M).max(axis=0) > NEGLIGIBLE
        is_nonzero[rows.features] = True
        if is_nonzero.all():
            return self.average_at_kinks(law, rows, slopes)
        new_index = np.cumsum(is_nonzero) - 1
        nonzero_rows = Rows(
            np.ascontiguousarray(rows.M[:, is_nonzero]), new_index[rows.features], rows.b, rows.relu
        )
        outputs, methods = self.average_at_kinks(law.without(is_nonzero), nonzero_rows, slopes)
        if slopes:  # E x_j d/db, as they are independent of the outputs
            by_M = outputs.by_b[:, None] * law.mean
            by_M[:, is_nonzero] = outputs.by_M
            outputs = Outputs(outputs.losses, outputs.errors, by_M, outputs.by_b, outputs.slope_errors)
        return outputs, methods

    def average_at_kinks(self, law: Law, rows: Rows, slopes: bool) -> tuple[Outputs, str]:
        """Return (outputs, methods), with the average of the one-sided derivatives at kinks.

        A kink is where the pre-activation vanishes unless other features are active.
        """
        outputs, methods = self.solve_rows(law, rows, slopes)
        if not slopes or rows.b.all() or not rows.relu or "classes" in law.cache:
            return outputs, methods
        kink = rows.at_kinks()
        if kink.any():
            kink_rows = rows.picked(kink)
            offset = np.full(kink_rows.b.size, KINK_OFFSET)
            if law.values.atoms and not law.values.bounded:  # others may be 0, and e^(s b) must fall
                smallest_weight = np.where(kink_rows.M != 0.0, np.abs(kink_rows.M), np.inf).min(axis=1)
                offset = np.where(np.isfinite(smallest_weight), 1e-12 * smallest_weight, KINK_OFFSET)
            on, off = (
                self.solve_rows(law, kink_rows._replace(b=side), True)[0] for side in (offset, -offset)
            )
            outputs.by_M[kink], outputs.by_b[kink] = 0.5 * (on.by_M + off.by_M), 0.5 * (on.by_b + off.by_b)
            outputs.slope_errors[kink] = np.maximum(on.slope_errors, off.slope_errors)
        return outputs, methods

    # --- The dispatcher ------------------------------------------------------------------------------------

    def candidate_methods(
        self, law: Law, slopes: bool, rows: Rows | None = None, request: AccuracyRequest | None = None
    ) -> list[str]:
        """Return names of methods for the law; with `rows` and `request`, those that cover a row, by time."""
        names = list(self._methods_for(law, slopes))
        if rows is None or request is None or len(names) < 2:
            return names
        names = [name for name in names if METHODS[name].covers(rows, law).any()]
        seconds = {name: float(METHODS[name].estimated_seconds(rows, law, request)) for name in names}
        exact = [seconds[name] for name in EXACT if name in seconds]
        if "moments" in seconds and exact:  # after sums over all states, which see outputs that are exactly 0
            seconds["moments"] = 1.001 * min(exact)
        return sorted(names, key=lambda name: seconds[name])

    def _methods_for(self, law: Law, slopes: bool) -> Iterator[str]:
        """Yield the names of the methods that give losses, and derivatives if `slopes`, at this law."""
        for name in METHODS:
            # `frequencies` asks for a sum over them, unless few features make one needless.
            most = MOST_NODES_WITHOUT_FREQUENCIES if self.frequencies else folding.MOST_NODES_WITH_SLOPES
            if name == "folds" and (self.frequencies or slopes) and folding.terms(law) > most:
                continue
            if name == "discrete" and (self.frequencies or (slopes and not discrete.has_slopes(law))):
                continue
            # In the limit of rare features (classes = 0) patterns have no probabilities.
            serves_classes = (
                "classes" not in law.cache or name == "classes" or (name == "patterns" and self.classes != 0)
            )
            excludes_uniform = self.budget is not None and self.method == "auto"  # its terms have no end
            if (
                serves_classes
                and self.method in ("auto", name)
                and not (name == "uniform" and excludes_uniform)
            ):
                yield name

    def refuse_uncovered(self, law: Law, slopes: bool, over_budget: dict[str, float]) -> NoReturn:
        """Raise ValueError: no method covers the outputs; `over_budget` has the terms of costly methods."""
        if over_budget:
            name = min(over_budget, key=lambda method: over_budget[method])
            rule = f"at least {over_budget[name]:.3g} terms for the method {name!r}"
            raise ValueError(f"`budget` must be {rule}; got {self.budget:g}.")
        if self.classes is not None:
            count = sum(comb(law.n, k) for k in range(self.classes + 1))
            raise ValueError(
                f"`classes` must be None for this law, or leave at most {classes.PATTERNS} patterns of at "
                f"most {classes.MOST_ON} alike uniform features; got {self.classes!r}, {count:,} patterns."
            )
        if self.method != "auto":
            what = "derivatives" if slopes else "losses"
            rule = f"one that has {what} of all these outputs at {law.n} features with {law.values!r} values"
            raise ValueError(f"`method` must be {rule}; got {self.method!r}.")
        if not law.values.bounded:
            part = "bounds and `pieces`, or a transform that is bounded along a wedge"
            require(law.values, "law", "wedge", part)
        require(law.values, "law", "transform")
        raise AssertionError  # else a method covers all

    def solve_rows(
        self, law: Law, rows: Rows, slopes: bool, *, first_only: bool = False
    ) -> tuple[Outputs, str]:
        """Return (outputs, names of the methods used), each row by the quickest method that covers it.

        Where that loses digits the next one follows; with `first_only`, only where it gives none. Raises
        ValueError if a row remains.
        """
        count, n = rows.M.shape
        max_terms = WORK if self.budget is None else self.budget / count
        request, outputs = AccuracyRequest(slopes, self.tol, self.frequencies, max_terms, self.workers), None
        used: list[str] = []
        over_budget: dict[str, float] = {}
        names = self.candidate_methods(law, slopes, rows, request)
        if self._conditions_pay(law, rows, names, request):
            outputs, name = self._conditioned(law, rows, slopes)
            used.append(name)
        for name in names:
            method = METHODS[name]
            which = method.covers(rows, law)
            if outputs is not None:  # a loss near 0 has no size of its own
                size = np.maximum(np.abs(outputs.losses), _LEAST_SIZE * law.square.max())
                if np.all(outputs.errors <= max(self.tol, patterns.FALLBACK_RTOL) * size):
                    break
                max_errors = (
                    np.inf
                    if first_only
                    else max(self.tol, getattr(method, "FALLBACK_RTOL", FALLBACK_RTOL)) * size
                )
                which &= ~(outputs.errors <= max_errors) | np.isinf(outputs.errors)
            if not which.any():
                continue
            if self.budget is not None and count * method.terms(law) > self.budget:
                over_budget[name] = count * method.terms(law)
                continue
            used.append(name)
            if outputs is None and which.all():
                outputs = method.solve(rows, law, request)
                if self.refuse and not first_only:
                    continue
                return outputs, name
            part = method.solve(rows if which.all() else rows.picked(which), law, request)
            if outputs is None:
                none = np.zeros((2, count))
                outputs = Outputs(np.zeros(count), np.full(count, np.inf), np.zeros((count, n)), *none)
            better = part.errors < outputs.errors[which]
            merge_equal_inputs(outputs, np.flatnonzero(which)[better], part, better)
        if outputs is None or np.isinf(outputs.errors).any():
            self.refuse_uncovered(law, slopes, over_budget)
        return outputs, ", ".join(used)

    # --- Groups --------------------------------------------------------------------------------------------

    def _conditions_pay(self, law: Law, rows: Rows, names: list[str], request: AccuracyRequest) -> bool:
        """Return whether `_conditioned` would take less than half the time of the method names[0]."""
        features = law.features
        if not features.groups or features.exactly is not None or "classes" in law.cache:
            return False
        states = float(np.prod([float(np.count_nonzero(chances)) for _, _, chances in features.groups]))
        if self.budget is not None or self.method != "auto" or states > MOST_STATES or not names:
            return False
        direct = float(METHODS[names[0]].estimated_seconds(rows, law, request))
        alone = law.given_on(features.p, np.arange(law.n))
        (name, *_) = self.candidate_methods(alone, request.slopes, rows, request) or [names[0]]
        seconds = (
            float(METHODS[name].estimated_seconds(rows, alone, request)) + SECONDS_PER_STATE / rows.b.size
        )
        return 2.0 * states * seconds < direct  # both are rough

    def _conditioned(self, law: Law, rows: Rows, slopes: bool) -> tuple[Outputs, str]:
        """Return (outputs, methods) as means over the joint states of groups, given which all is independent.

        Each state is left to the quickest method: where that loses digits, another one serves all states.
        """
        count, n = rows.M.shape
        sums = [np.zeros(count, np.longdouble) for _ in range(4)]
        by_M, methods_used = np.zeros((count, n), np.longdouble), set()
        for chance, on in _joint_states(law.features):
            for which in _rows_by_target(on, rows.features):
                # A feature that is off counts only as the target of an output.
                members = np.flatnonzero((on > 0.0) | (np.arange(n) == rows.features[which[0]]))
                new_index = np.cumsum(np.isin(np.arange(n), members)) - 1
                M = np.ascontiguousarray(rows.M[np.ix_(which, members)])
                part = Rows(M, new_index[rows.features[which]], rows.b[which], rows.relu)
                key = ("given", on.tobytes(), members.tobytes())
                if key not in law.cache:
                    law.cache[key] = law.given_on(on[members], members)
                outputs, methods = self.solve_rows(law.cache[key], part, slopes, first_only=True)
                methods_used.update(methods.split(", "))
                terms = (outputs.losses, outputs.errors, outputs.by_b, outputs.slope_errors)
                for total, term in zip(sums, terms, strict=True):
                    if term.size:
                        total[which] += chance * term
                if outputs.by_M.size:
                    by_M[np.ix_(which, members)] += chance * outputs.by_M
        losses, errors, by_b, slope_errors = (np.asarray(total, np.float64) for total in sums)
        # Each probability of a joint state is a product of those of the groups.
        errors += 2.0**-52 * (len(law.features.groups) + 2) * np.abs(losses)
        return Outputs(losses, errors, np.asarray(by_M, np.float64), by_b, slope_errors), ", ".join(
            sorted(methods_used)
        )


def _joint_states(features: Features) -> Iterator[tuple[float, FloatArray]]:
    """Yield (probability, (n,) probabilities of features to be on given it) of each joint state of groups."""
    states = [
        [
            (members, pattern, chance)
            for pattern, chance in zip(patterns, chances, strict=True)
            if chance > 0.0
        ]
        for members, patterns, chances in features.groups
    ]
    for state in product(*states):
        on = np.array(features.p)
        for members, pattern, _ in state:
            on[members] = pattern
        yield prod(float(chance) for _, _, chance in state), on


def _rows_by_target(on: FloatArray, targets: IntArray) -> list[IntArray]:
    """Return lists of outputs: of all whose target may be on, then of each target that is off."""
    off = on[targets] == 0.0
    groups = [np.flatnonzero(~off), *(np.flatnonzero(targets == i) for i in np.unique(targets[off]))]
    return [group for group in groups if group.size]


_EXACT = AccuracyRequest(True, 1e-12, None, WORK, 1)


class Descent:
    """Loss and gradient for optimisers: no validation, and no refusal when digits cancel.

    `exact` says whether only rounding is left, with `method`; else `frequencies` and `tol` may be changed.
    `is_quick` says that the levels of uniform features serve it. `end` is the tolerance of `final_loss`.
    """

    def __init__(self, features: Features, classes: int | None, frequencies: int, tol: float, end: float):
        n = features.n_features
        if classes == n and Descent(features, None, frequencies, tol, end).exact:
            classes = None
        self._lenient = Evaluator(
            features, workers=None, refuse=False, classes=classes, frequencies=frequencies
        )
        self._law, self._rows, self.frequencies, self.tol = (
            self._lenient.law(n),
            np.arange(n),
            frequencies,
            tol,
        )
        all_rows = Rows(np.zeros((n, n)), self._rows, np.ones(n))
        names = self._lenient.candidate_methods(
            self._law, True, all_rows, AccuracyRequest(True, tol, frequencies, WORK, 1)
        )
        has_levels = "uniform" in names  # the quick sum for independent uniform features
        names = [name for name in names if name not in ("moments", "uniform")]
        self.method = next((name for name in names if METHODS[name].covers(all_rows, self._law).all()), "")
        if not self.method:
            self._lenient.refuse_uncovered(self._law, True, {})
        self.exact: bool = self.method in ("classes", "folds", "patterns")
        if self.exact:
            self._lenient.method = self.method
        self.is_quick = has_levels and not self.exact
        self._final = Evaluator(features, tol=1e-12 if self.exact else end, workers=None, classes=classes)
        self._stretch, share = features.scale / features.scale[:, None], features.importance / n
        self._share = share * features.scale**2
        self._by_b, self._by_M = (
            share * features.scale,
            share[:, None] * np.outer(features.scale, features.scale),
        )

    def scaled_outputs(self, M: FloatArray, b: FloatArray) -> Outputs:
        """Return the `Outputs` of ReLU(M x + b), with derivatives, in units of the features' scales."""
        rows = Rows(M * self._stretch, self._rows, b / self._law.scale)
        # What `average_at_kinks` returns, in less time.
        if self.exact and b.all():
            outputs: Outputs = METHODS[self.method].solve(rows, self._law, _EXACT)
            return outputs
        if self.is_quick and not rows.at_kinks().any():
            workers = 1 if self._law.n <= MOST_FEATURES_ON_ONE_THREAD else None
            request = AccuracyRequest(True, self.tol, self.frequencies, WORK, workers)
            return uniform_fourier.solve(rows, self._law, request)
        self._lenient.frequencies, self._lenient.tol = None if self.exact else self.frequencies, self.tol
        return self._lenient.average_at_kinks(self._law, rows, True)[0]

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return (loss per feature, its derivatives by M, its derivatives by b)."""
        outputs = self.scaled_outputs(M, b)
        return float(self._share @ outputs.losses), self._by_M * outputs.by_M, self._by_b * outputs.by_b

    def slope_errors(self, M: FloatArray, b: FloatArray) -> FloatArray:
        """Return the largest error, (n,), of the derivatives by each row of M and its bias."""
        return np.asarray(
            np.maximum(self._by_M.max(axis=1), self._by_b) * self.scaled_outputs(M, b).slope_errors
        )

    def loss_and_error(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return (loss per feature, its error) at the current `frequencies` and `tol`."""
        outputs = self.scaled_outputs(M, b)
        return float(self._share @ outputs.losses), float(self._share @ outputs.errors)

    def evaluator_at(self, tol: float) -> Evaluator:
        """Return a validating `Evaluator` of the same law whose tolerance is `tol`."""
        return Evaluator(self._final.law_argument, tol=tol, workers=None, classes=self._final.classes)

    def final_loss(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return (loss per feature, its error) at the final tolerance; ValueError if digits are lost."""
        loss = self._final.of_arrays(M, b)
        return loss.loss, loss.error_estimate


def _of_model(model: Model, loss: Loss, rows: Any) -> Loss:
    """Return `loss`, of a model with linear hidden neurons, with derivatives by its arrays added."""
    by_M, by_b = loss.by_M, loss.by_b
    if rows is not None:
        picked = validation.indices("rows", rows, model.n_outputs)
        all_M, all_b = np.zeros(model.M.shape), np.zeros(model.n_outputs)
        np.add.at(all_M, picked, by_M)
        np.add.at(all_b, picked, by_b)
        by_M, by_b = all_M, all_b
    by_in, by_out = model.W_out.T @ by_M, by_M @ model.W_in.T + np.outer(by_b, model.b_in)
    by = {"W_in": by_in + by_out.T} if model.tied else {"W_in": by_in, "W_out": by_out}
    gradient = {**(loss.gradient or {}), **by, "b_in": model.W_out.T @ by_b}
    return replace(loss, gradient=gradient)
