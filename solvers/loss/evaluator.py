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
    # Independent uniform features: levels of weights of all sizes; losses alone.
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
        """Derivatives of the loss by M."""
        return (self.gradient or {})["M"]

    @property
    def by_b(self) -> FloatArray:
        """Derivatives of the loss by the bias of the outputs."""
        return (self.gradient or {})["b"]

    @property
    def estimate(self) -> str:
        """What the error estimate is, for each method that was used: proved, or heuristic and why."""
        return "; ".join(f"{name}: {ESTIMATES[name]}" for name in self.method.split(", "))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.loss, self.by_M, self.by_b))


@lru_cache(64)
def _are_equal_features(p: float, n: int) -> Features:
    return as_features(p, n)


def _law(law: Any, n: int) -> Features:
    features = _are_equal_features(law, n) if type(law) is float else as_features(law, n)
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
        self.given, self.tol, self.budget, self.method = law, tol, budget, method
        self.workers, self.classes, self.frequencies, self.refuse = workers, classes, frequencies, refuse
        self._known: dict[int, Law] = {}

    # --- Edge ----------------------------------------------------------------------------------------------

    def law(self, n: int) -> Law:
        """Return the law for n features, with what methods have computed of it."""
        if n not in self._known:
            self._known[n] = law = Law(_law(self.given, n))
            if self.classes is not None:
                p = float(law.p[0])
                few = class_weights(n, p, self.classes) if self.classes else np.array([0.0, 1.0])
                law.kept["classes"] = few
        return self._known[n]

    def __call__(self, model: Any, gradient: bool = False, rows: npt.ArrayLike | None = None) -> Loss:
        """Return the loss of a `Model` or of arrays (M, b), of all outputs or of those asked for."""
        if isinstance(model, Model):
            bends = model.hidden != "identity" or model.output == "jumprelu"
            if bends or model.n_outputs != model.n_features:
                rule = "linear hidden neurons and an output, ReLU or identity, for each feature"
                raise ValueError(f"`model` must have {rule}; got {model!r}.")
            found = self.of_arrays(model.M, model.bias, gradient, rows, relu=model.output == "relu")
            return _of_model(model, found, rows) if gradient else found
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
        """Return the loss of the outputs ReLU(M x + b), or M x + b, after checking them."""
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
        """Return the mean loss of outputs, for arguments that are checked."""
        found, names = self.outputs(law, M, features, b, gradient, relu)
        importance = law.features.importance[features]
        weights = importance / features.size
        by, slope_errors = None, None
        if gradient:
            by = {"M": frozen(weights[:, None] * found.by_M), "b": frozen(weights * found.by_b)}
            slope_errors = frozen(weights * found.slope_errors)
        loss, error = float(np.mean(importance * found.losses)), float(np.mean(importance * found.errors))
        return Loss(loss, error, frozen(found.losses), frozen(found.errors), by, slope_errors, names)

    # --- The outputs, in the features' own units and in units of their scales -------------------------------

    def outputs(
        self, law: Law, M: FloatArray, features: IntArray, b: FloatArray, slopes: bool, relu: bool = True
    ) -> tuple[Outputs, str]:
        """Return outputs and the methods used; row k of `M` and b[k] make the output for features[k]."""
        units = law.scale[features]
        stretched = np.require(M * (law.scale / units[:, None]), np.float64, ["C", "W"])
        rows = Rows(stretched, features, np.require(b / units, np.float64, ["C", "W"]), relu)
        found, names = self._heard(law, rows, slopes)
        losses = np.maximum(found.losses, 0.0) * units**2  # by rounding they may be below 0
        errors = found.errors * units**2
        if self.refuse:
            self._refuse_lost("loss of", losses, errors, law)
        if not slopes:
            return Outputs(losses, errors, found.by_M, found.by_b, found.slope_errors), names
        scales = np.outer(units, law.scale)
        by_M, slope_errors = found.by_M * scales, found.slope_errors * scales.max(axis=1)
        if self.refuse:
            self._refuse_lost("derivatives by", np.abs(by_M).max(axis=1), slope_errors, law)
        slope_errors = np.maximum(slope_errors, found.slope_errors * units)
        return Outputs(losses, errors, by_M, found.by_b * units, slope_errors), names

    def _refuse_lost(self, name: str, sizes: FloatArray, errors: FloatArray, law: Law) -> None:
        """Refuse errors above a share of what they belong to and of the largest E x^2."""
        least = max(REJECT_RTOL, 2.0 * self.tol)
        lost = ~(errors <= least * (np.abs(sizes) + (law.square * law.scale**2).max()))
        if np.any(lost):
            k, few = int(np.flatnonzero(lost)[0]), self.frequencies
            more = "" if few is None else f", or more `frequencies` than {few}"
            raise ValueError(
                f"`M` must have entries that double precision can tell apart{more}; the {name} row {k}, "
                f"{sizes[k]:.3g}, would be off by up to {errors[k]:.3g}."
            )

    def _heard(self, law: Law, rows: Rows, slopes: bool) -> tuple[Outputs, str]:
        """Leave out the features that have no weight in any output; derivatives by these follow."""
        if not law.independent or "classes" in law.kept:
            return self.sided(law, rows, slopes)
        heard = np.abs(rows.M).max(axis=0) > uniform_fourier.NEGLIGIBLE
        heard[rows.features] = True
        if heard.all():
            return self.sided(law, rows, slopes)
        places = np.cumsum(heard) - 1
        less = Rows(np.ascontiguousarray(rows.M[:, heard]), places[rows.features], rows.b, rows.relu)
        found, names = self.sided(law.without(heard), less, slopes)
        if slopes:  # E x_j d/db, as they are independent of the outputs
            by_M = found.by_b[:, None] * law.mean
            by_M[:, heard] = found.by_M
            found = Outputs(found.losses, found.errors, by_M, found.by_b, found.slope_errors)
        return found, names

    def sided(self, law: Law, rows: Rows, slopes: bool) -> tuple[Outputs, str]:
        """Return the outputs; where one is 0 unless others are on, the mean of derivatives at both sides."""
        found, names = self._solved(law, rows, slopes)
        if not slopes or rows.b.all() or not rows.relu or "classes" in law.kept:
            return found, names
        kink = (rows.b == 0.0) & (rows.M[np.arange(rows.b.size), rows.features] == 0.0)
        if kink.any():
            at = rows.picked(kink)
            aside = np.full(at.b.size, KINK_OFFSET)
            if law.values.atoms and not law.values.bounded:  # others may be 0, and e^(s b) must fall
                least = np.where(at.M != 0.0, np.abs(at.M), np.inf).min(axis=1)
                aside = np.where(np.isfinite(least), 1e-12 * least, KINK_OFFSET)
            on, off = (self._solved(law, at._replace(b=side), True)[0] for side in (aside, -aside))
            found.by_M[kink], found.by_b[kink] = 0.5 * (on.by_M + off.by_M), 0.5 * (on.by_b + off.by_b)
            found.slope_errors[kink] = np.maximum(on.slope_errors, off.slope_errors)
        return found, names

    # --- The dispatcher ------------------------------------------------------------------------------------

    def tried(
        self, law: Law, slopes: bool, rows: Rows | None = None, ask: AccuracyRequest | None = None
    ) -> list[str]:
        """Return the methods that may serve: those that take the least time first, if outputs are passed."""
        names = list(self._allowed(law, slopes))
        if rows is None or ask is None or len(names) < 2:
            return names
        names = [name for name in names if METHODS[name].covers(rows, law).any()]
        seconds = {name: float(METHODS[name].estimated_seconds(rows, law, ask)) for name in names}
        exact = [seconds[name] for name in EXACT if name in seconds]
        if (
            "moments" in seconds and exact
        ):  # after a sum over all states, which sees outputs that are exactly 0
            seconds["moments"] = 1.001 * min(exact)
        return sorted(names, key=lambda name: seconds[name])

    def _allowed(self, law: Law, slopes: bool) -> Iterator[str]:
        """Yield the methods that have what is asked for."""
        for name in METHODS:
            # Whoever limits frequencies wants a sum over them, unless few features make one needless.
            most = MOST_NODES_WITHOUT_FREQUENCIES if self.frequencies else folding.MOST_NODES_WITH_SLOPES
            if name == "folds" and (self.frequencies or slopes) and folding.terms(law) > most:
                continue
            if name == "discrete" and (self.frequencies or (slopes and not discrete.has_slopes(law))):
                continue
            # In the limit of rare features (classes = 0) patterns have no probabilities.
            few = "classes" not in law.kept or name == "classes" or (name == "patterns" and self.classes != 0)
            no = slopes or (self.budget is not None and self.method == "auto")  # derivatives, nor an end
            if few and self.method in ("auto", name) and not (name == "uniform" and no):
                yield name

    def refuse_uncovered(self, law: Law, slopes: bool, dear: dict[str, float]) -> NoReturn:
        """Say why no method serves; some may have been too expensive."""
        if dear:
            name = min(dear, key=lambda one: dear[one])
            rule = f"at least {dear[name]:.3g} terms for the method {name!r}"
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
            require(law.values, "law", "wedge", "bounds, or a transform that is bounded along a wedge")
        require(law.values, "law", "transform")
        raise AssertionError  # else a method covers all

    def _solved(self, law: Law, rows: Rows, slopes: bool, *, first_only: bool = False) -> tuple[Outputs, str]:
        """Return the outputs, each by the first method that covers it, and leaves enough digits if asked."""
        count, n = rows.M.shape
        most = WORK if self.budget is None else self.budget / count
        ask, found = AccuracyRequest(slopes, self.tol, self.frequencies, most, self.workers), None
        used: list[str] = []
        dear: dict[str, float] = {}
        names = self.tried(law, slopes, rows, ask)
        if self._conditions_pay(law, rows, names, ask):
            found, name = self._conditioned(law, rows, slopes)
            used.append(name)
        for name in names:
            method = METHODS[name]
            which = method.covers(rows, law)
            if found is not None:  # a loss near 0 has no size of its own
                size = np.maximum(np.abs(found.losses), _LEAST_SIZE * law.square.max())
                if np.all(found.errors <= max(self.tol, patterns.LOOSE) * size):
                    break
                allowed = (
                    np.inf if first_only else max(self.tol, getattr(method, "LOOSE", FALLBACK_RTOL)) * size
                )
                which &= ~(found.errors <= allowed) | np.isinf(found.errors)
            if not which.any():
                continue
            if self.budget is not None and count * method.terms(law) > self.budget:
                dear[name] = count * method.terms(law)
                continue
            used.append(name)
            if found is None and which.all():
                found = method.solve(rows, law, ask)
                if self.refuse and not first_only:
                    continue
                return found, name
            part = method.solve(rows if which.all() else rows.picked(which), law, ask)
            if found is None:
                none = np.zeros((2, count))
                found = Outputs(np.zeros(count), np.full(count, np.inf), np.zeros((count, n)), *none)
            better = part.errors < found.errors[which]
            merge_equal_inputs(found, np.flatnonzero(which)[better], part, better)
        if found is None or np.isinf(found.errors).any():
            self.refuse_uncovered(law, slopes, dear)
        return found, ", ".join(used)

    # --- Groups --------------------------------------------------------------------------------------------

    def _conditions_pay(self, law: Law, rows: Rows, names: list[str], ask: AccuracyRequest) -> bool:
        """Return whether each joint state of the groups, by methods for independent features, takes less."""
        features = law.features
        if not features.groups or features.exactly is not None or "classes" in law.kept:
            return False
        states = float(np.prod([float(np.count_nonzero(chances)) for _, _, chances in features.groups]))
        if self.budget is not None or self.method != "auto" or states > MOST_STATES or not names:
            return False
        direct = float(METHODS[names[0]].estimated_seconds(rows, law, ask))
        alone = law.given_on(features.p, np.arange(law.n))
        (name, *_) = self.tried(alone, ask.slopes, rows, ask) or [names[0]]
        seconds = float(METHODS[name].estimated_seconds(rows, alone, ask)) + SECONDS_PER_STATE / rows.b.size
        return 2.0 * states * seconds < direct  # both are rough

    def _conditioned(self, law: Law, rows: Rows, slopes: bool) -> tuple[Outputs, str]:
        """Return the outputs as means over the joint states of groups, given which all is independent.

        Each state is left to the quickest method: where that loses digits, another one serves all states.
        """
        count, n = rows.M.shape
        sums = [np.zeros(count, np.longdouble) for _ in range(4)]
        by_M, used = np.zeros((count, n), np.longdouble), set()
        for chance, on in _joint_states(law.features):
            for which in _rows_by_target(on, rows.features):
                # A feature that is off counts only as the target of an output.
                members = np.flatnonzero((on > 0.0) | (np.arange(n) == rows.features[which[0]]))
                place = np.cumsum(np.isin(np.arange(n), members)) - 1
                M = np.ascontiguousarray(rows.M[np.ix_(which, members)])
                part = Rows(M, place[rows.features[which]], rows.b[which], rows.relu)
                key = ("given", on.tobytes(), members.tobytes())
                if key not in law.kept:
                    law.kept[key] = law.given_on(on[members], members)
                found, names = self._solved(law.kept[key], part, slopes, first_only=True)
                used.update(names.split(", "))
                terms = (found.losses, found.errors, found.by_b, found.slope_errors)
                for total, term in zip(sums, terms, strict=True):
                    if term.size:
                        total[which] += chance * term
                if found.by_M.size:
                    by_M[np.ix_(which, members)] += chance * found.by_M
        losses, errors, by_b, slope_errors = (np.asarray(total, np.float64) for total in sums)
        # Each probability of a joint state is a product of those of the groups.
        errors += 2.0**-52 * (len(law.features.groups) + 2) * np.abs(losses)
        return Outputs(losses, errors, np.asarray(by_M, np.float64), by_b, slope_errors), ", ".join(
            sorted(used)
        )


def _joint_states(features: Features) -> Iterator[tuple[float, FloatArray]]:
    """Yield the joint states of all groups: how likely, and the probability of each feature to be on then."""
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
    """Return the outputs whose features may be on, and those of each feature that is off."""
    off = on[targets] == 0.0
    groups = [np.flatnonzero(~off), *(np.flatnonzero(targets == i) for i in np.unique(targets[off]))]
    return [group for group in groups if group.size]


_EXACT = AccuracyRequest(True, 1e-12, None, WORK, 1)


class Descent:
    """The loss as descents want it: for arrays that are known to be right, and whatever digits are lost.

    It is called with M and b, and returns the loss and its derivatives. `exact` says whether nothing but
    rounding is left, `method` how; else `frequencies` and `tol` may be changed at any time.
    """

    def __init__(self, features: Features, classes: int | None, frequencies: int, tol: float, end: float):
        n = features.n_features
        if classes == n and Descent(features, None, frequencies, tol, end).exact:
            classes = None
        self._loose = Evaluator(
            features, workers=None, refuse=False, classes=classes, frequencies=frequencies
        )
        self._law, self._rows, self.frequencies, self.tol = self._loose.law(n), np.arange(n), frequencies, tol
        whole = Rows(np.zeros((n, n)), self._rows, np.ones(n))
        names = self._loose.tried(self._law, True, whole, AccuracyRequest(True, tol, frequencies, WORK, 1))
        names = [name for name in names if name != "moments"]
        self.method = next((name for name in names if METHODS[name].covers(whole, self._law).all()), "")
        if not self.method:
            self._loose.refuse_uncovered(self._law, True, {})
        self.exact: bool = self.method in ("classes", "folds", "patterns")
        self._end = Evaluator(features, tol=1e-12 if self.exact else end, workers=None, classes=classes)
        self._stretch, share = features.scale / features.scale[:, None], features.importance / n
        self._share = share * features.scale**2
        self._by_b, self._by_M = (
            share * features.scale,
            share[:, None] * np.outer(features.scale, features.scale),
        )

    def _found(self, M: FloatArray, b: FloatArray) -> Outputs:
        """Return the outputs in units of the scales."""
        rows = Rows(M * self._stretch, self._rows, b / self._law.scale)
        if self.exact and b.all():  # as `sided` would, in less time
            found: Outputs = METHODS[self.method].solve(rows, self._law, _EXACT)
            return found
        self._loose.frequencies, self._loose.tol = None if self.exact else self.frequencies, self.tol
        return self._loose.sided(self._law, rows, True)[0]

    def __call__(self, M: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss per feature and its derivatives by M and b."""
        found = self._found(M, b)
        return float(self._share @ found.losses), self._by_M * found.by_M, self._by_b * found.by_b

    def slope_errors(self, M: FloatArray, b: FloatArray) -> FloatArray:
        """Return what the derivatives of each row and its bias are off by."""
        return np.asarray(np.maximum(self._by_M.max(axis=1), self._by_b) * self._found(M, b).slope_errors)

    def loss_and_error(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss as descents see it, and what it is off by."""
        found = self._found(M, b)
        return float(self._share @ found.losses), float(self._share @ found.errors)

    def end_at(self, tol: float) -> Evaluator:
        """Return the evaluator of the loss that is returned, at a tolerance."""
        return Evaluator(self._end.given, tol=tol, workers=None, classes=self._end.classes)

    def end(self, M: FloatArray, b: FloatArray) -> tuple[float, float]:
        """Return the loss and what it is off by, as good as can be."""
        found = self._end.of_arrays(M, b)
        return found.loss, found.error_estimate


def _of_model(model: Model, found: Loss, rows: Any) -> Loss:
    """Return a loss with the derivatives by all arrays of a model with linear hidden neurons."""
    by_M, by_b = found.by_M, found.by_b
    if rows is not None:
        picked = validation.indices("rows", rows, model.n_outputs)
        all_M, all_b = np.zeros(model.M.shape), np.zeros(model.n_outputs)
        np.add.at(all_M, picked, by_M)
        np.add.at(all_b, picked, by_b)
        by_M, by_b = all_M, all_b
    by_in, by_out = model.W_out.T @ by_M, by_M @ model.W_in.T + np.outer(by_b, model.b_in)
    by = {"W_in": by_in + by_out.T} if model.tied else {"W_in": by_in, "W_out": by_out}
    gradient = {**(found.gradient or {}), **by, "b_in": model.W_out.T @ by_b}
    return replace(found, gradient=gradient)
