"""A problem: the outputs of a model at a law of the data, checked once, and the accuracy of their loss."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.validation import BoolArray, FloatArray, IntArray

__all__ = [
    "LARGEST",
    "LEAST",
    "WORK",
    "Accuracy",
    "Law",
    "LossProblem",
    "NetworkProblem",
    "Outputs",
    "law_of",
    "relative_rounding",
]

# The kernels form fourth powers of entries and of their inverses.
LARGEST = 1e50
# Losses of rarer features leave the range of doubles.
LEAST = 1e-290
# Terms of an output's sum: a second or two.
WORK = 2.0**26


@dataclass(frozen=True)
class Accuracy:
    """How accurate a loss is to be, and what it may cost."""

    tol: float = 1e-12
    """Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger."""
    max_frequencies: int | None = None
    """Most terms of a sum over frequencies, or None. If set, the error of the loss is an estimate, as the
    gradient's always is."""
    budget: float | None = None
    """Most terms of the sums of all outputs together, in place of `max_terms`; None for no such limit."""
    max_terms: float = WORK
    """Most terms of the sum of one output."""
    time_limit: float = np.inf
    """Seconds, without compiling, above which the sums of a network raise `OutOfTime`."""
    method: str = "auto"
    """A method by its name; "auto" for those that `dispatch.choose` returns."""
    workers: int | None = 1
    """Threads that share the outputs; None for all that Numba has."""
    refuse_lost: bool = True
    """Whether lost digits raise a ValueError once all methods were tried. If not, they are seen in the errors
    alone, and the first method that gives all outputs is the last."""


class Law:
    """A law of the data, `features`, in units of its scales, with a cache of what methods compute of it.

    If `classes` is a positive number, at most so many features are on. If it is 0, exactly one is, which is
    the limit of rare features, p -> 0.
    """

    def __init__(self, features: Features, classes: int | None = None):
        self.features, self.n, self.values = features, features.n_features, features.values
        self.independent, self.scale = features.independent, features.scale
        self.p = np.array(features.on_probability())
        self.classes = classes
        self.cache: dict[Any, Any] = {}

    def moment(self, k: int) -> float:
        """Return E v^k of the value v of a feature that is on."""
        return float(self.values.moment(k))

    @cached_property
    def square(self) -> FloatArray:
        """E x_i^2, (n,)."""
        return np.asarray(self.p * self.values.square)

    @cached_property
    def aim(self) -> FloatArray:
        """Unit of the tolerance for each target, (n,): E x_i^2 of the whole law, also in `given_on`."""
        return self.square

    @cached_property
    def mean(self) -> FloatArray:
        """E x_i, (n,)."""
        return np.asarray(self.p * self.moment(1))

    @cached_property
    def pairs(self) -> FloatArray:
        """Second moments E x_i x_j, (n, n)."""
        return np.asarray(self.features.second_moment_matrix() / np.outer(self.scale, self.scale))

    def given_on(self, on: FloatArray, members: IntArray) -> "Law":
        """Return the law of the features `members` given the state of each group of dependent features.

        Given these states, which say which features of a group are on, features are independent. `on`,
        (members.size,), are the probabilities that the `members` are on.
        """
        part = copy(self.features)
        vars(part).pop("_p_on", None)
        changed = {"n_features": members.size, "p": on, "groups": ()}
        for name in ("scale", "importance"):
            changed[name] = getattr(self.features, name)[members]
        for name, value in changed.items():
            object.__setattr__(part, name, value)
        law = Law(part)
        law.aim = self.aim[members]
        return law

    def without(self, is_kept: BoolArray) -> "Law":
        """Return the law of the features where the mask `is_kept` is true; features must be independent."""
        features = self.features
        return Law(
            Features(int(is_kept.sum()), features.p[is_kept], features.values, features.scale[is_kept])
        )


def law_of(law: Any, n: int) -> Law:
    """Return the `Law` of n features from a probability, `Features` or a `Law`; else raise ValueError."""
    if isinstance(law, Law) and law.n == n:
        return law
    if type(law) is float:
        return _law_of_equal_features(law, n)
    features = as_features(law.features if isinstance(law, Law) else law, n)
    least = features.p[features.p > 0.0].min(initial=1.0)
    if least < LEAST:
        raise ValueError(f"`law` must have probabilities of 0 or at least {LEAST:g}; got {least:g}.")
    return Law(features)


@lru_cache(64)
def _law_of_equal_features(p: float, n: int) -> Law:
    """Return the `Law` of n independent uniform features, each on with probability p, from a cache."""
    return law_of(as_features(p, n), n)


@dataclass(frozen=True)
class LossProblem:
    """Outputs of a model without hidden ReLUs at a law of the data, each with its target, a feature.

    Output k is g(weights[k] x + biases[k]) and is to equal feature target[k]. All is in units of the
    features' scales: y_i/scale_i has the weights M_ij scale_j/scale_i.
    """

    law: Law
    weights: FloatArray
    biases: FloatArray
    target: IntArray
    activation: str = "relu"
    """The function g: "relu" or "identity"."""

    @classmethod
    def of(
        cls, M: npt.ArrayLike, b: npt.ArrayLike, law: Any, rows: Any = None, activation: str = "relu"
    ) -> "LossProblem":
        """Return the problem of the model g(M x + b), M (n, n) and b (n,) or one number, after checks.

        `law` is that of the features x: a `Features`, or the probability p of independent uniform ones. g is
        `activation`, "relu" or "identity". `rows` are the indices of the outputs to take, all for None.
        """
        M = validation.matrix("M", M, largest=LARGEST)
        n = M.shape[1]
        if M.shape[0] != n:
            raise ValueError(f"`M` must be square; got shape {M.shape}.")
        b = validation.numbers_or_repeat("b", b, n, LARGEST)
        target, law = np.arange(n), law_of(law, n)
        if rows is not None:
            target = validation.indices("rows", rows, n)
            M, b = M[target], b[target]
        return cls.scaled(law, M, b, target, activation)

    @classmethod
    def of_product(cls, W_out: FloatArray, W_in: FloatArray, b: FloatArray, law: Any) -> "LossProblem":
        """Return the problem of ReLU(W_out W_in x + b); of arrays that were checked, only sizes are again."""
        M, target = np.ascontiguousarray(W_out @ W_in), np.arange(b.size)
        for name, array in (("M", M), ("b", b)):
            if np.abs(array).max() > LARGEST:
                validation.real(name, array, -LARGEST, LARGEST)  # which says so
        return cls.scaled(law_of(law, target.size), M, b, target)

    @classmethod
    def scaled(
        cls, law: Law, M: FloatArray, b: FloatArray, target: IntArray, activation: str = "relu"
    ) -> "LossProblem":
        """Return the problem in units of the features' scales, from arrays that need no checks.

        Output k is g(M_k . x + b_k) with the row M_k, and its target is feature target[k]; g is `activation`.
        The problem's weights and biases are M_kj scale_j/scale_t and b_k/scale_t with t = target[k].
        """
        units = law.scale[target]
        weights = np.require(M * (law.scale / units[:, None]), np.float64, ["C", "W"])
        return cls(law, weights, np.require(b / units, np.float64, ["C", "W"]), target, activation)

    def at_kinks(self) -> BoolArray:
        """Return a mask (k,) of outputs whose ReLU's input is 0 unless features besides the target are on."""
        own_weights = self.weights[np.arange(self.biases.size), self.target]
        return np.asarray((self.biases == 0.0) & (own_weights == 0.0))

    def picked(self, which: Any) -> "LossProblem":
        """Return the problem of the outputs in `which`, a mask or an index array."""
        return replace(
            self, weights=self.weights[which], biases=self.biases[which], target=self.target[which]
        )


@dataclass(frozen=True)
class NetworkProblem:
    """A model with linear outputs, any hidden layer, and targets A f(x) + B x, at a law of the data."""

    law: Law
    model: Model
    A: FloatArray
    function: str
    """The name of f."""
    B: FloatArray | None
    """None for 0."""
    importance: FloatArray
    """(n_outputs,)."""


@dataclass(frozen=True)
class Outputs:
    """Losses (count,), their errors, derivatives by rows (count, n) and biases, and their largest errors.

    Derivatives are those of each output's loss with respect to its row of M and its bias. A method without
    derivatives leaves these empty or 0.
    """

    losses: FloatArray
    errors: FloatArray
    by_M: FloatArray
    by_b: FloatArray
    slope_errors: FloatArray


def relative_rounding(law: Law) -> float:
    """Return (rounding error of a sum over all features) / (sum of the absolute values of its terms)."""
    return float(2.0**-53 * (16.0 + 4.0 * np.sqrt(law.n)))
