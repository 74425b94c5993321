"""What methods take and return: outputs of a model, the law of the data, and what is wanted."""

from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ....theory.features import Features
from ....theory.validation import FloatArray, IntArray

__all__ = ["AccuracyRequest", "BoolArray", "Law", "Outputs", "Rows", "merge_equal_inputs", "rounding"]

BoolArray = npt.NDArray[np.bool_]


class Rows(NamedTuple):
    """Outputs of a model: row k of `M` and b[k] make the output that wants features[k].

    They are in units of the features' scales: y_i/scale_i has the weights M_ij scale_j/scale_i. With `relu`
    false the outputs are affine.
    """

    M: FloatArray
    features: IntArray
    b: FloatArray
    relu: bool = True

    def at_kinks(self) -> BoolArray:
        """Return which pre-activations vanish unless features other than their own are active, (k,)."""
        return np.asarray((self.b == 0.0) & (self.M[np.arange(self.b.size), self.features] == 0.0))

    def picked(self, which: Any) -> "Rows":
        """Return the outputs in `which`, a mask or indices."""
        return Rows(self.M[which], self.features[which], self.b[which], self.relu)


class AccuracyRequest(NamedTuple):
    """What a method is to compute: derivatives if `slopes`, to the error `tol` in units of E x_i^2.

    A sum over frequencies has `frequencies` at most, or `most` factors in all.
    """

    slopes: bool
    tol: float
    frequencies: int | None
    most: float
    workers: int | None


@dataclass(frozen=True)
class Outputs:
    """Losses (count,), their errors, derivatives by rows (count, n) and biases, and their largest errors.

    A method without derivatives leaves these empty or 0.
    """

    losses: FloatArray
    errors: FloatArray
    by_M: FloatArray
    by_b: FloatArray
    slope_errors: FloatArray


def merge_equal_inputs(into: Outputs, where: IntArray, part: Outputs, which: BoolArray) -> None:
    """Write the outputs `which` of `part` to the indices `where` of `into`, but for empty arrays."""
    for field in fields(Outputs):
        part_values, all_values = getattr(part, field.name), getattr(into, field.name)
        if part_values.size and all_values.size:
            all_values[where] = part_values[which]


class Law:
    """A law of the data in units of its scales, with what methods compute of it once."""

    def __init__(self, features: Features):
        self.features, self.n, self.values = features, features.n_features, features.values
        self.independent, self.scale = features.independent, features.scale
        self.p = np.array(features.on_probability())
        self.cache: dict[Any, Any] = {}

    def moment(self, k: int) -> float:
        """E v^k of the value v of a feature that is on."""
        return float(self.values.moment(k))

    @cached_property
    def square(self) -> FloatArray:
        """E x_i^2."""
        return np.asarray(self.p * self.moment(2))

    @cached_property
    def aim(self) -> FloatArray:
        """E x_i^2, (n,), the units of the tolerance: of the whole law, where this one is a part of it."""
        return self.square

    @cached_property
    def mean(self) -> FloatArray:
        """E x_i."""
        return np.asarray(self.p * self.moment(1))

    @cached_property
    def pairs(self) -> FloatArray:
        """E x_i x_j, (n, n)."""
        return np.asarray(self.features.second_moment_matrix() / np.outer(self.scale, self.scale))

    def given_on(self, on: FloatArray, members: IntArray) -> "Law":
        """Return the law of the features `members` given groups: independent, on with probabilities `on`."""
        part = copy(self.features)
        vars(part).pop("_on", None)
        changed = {"n_features": members.size, "p": on, "groups": ()}
        for name in ("scale", "importance"):
            changed[name] = getattr(self.features, name)[members]
        for name, value in changed.items():
            object.__setattr__(part, name, value)
        law = Law(part)
        law.aim = self.aim[members]
        return law

    def without(self, is_kept: BoolArray) -> "Law":
        """Return the law of the features in the mask `is_kept` alone; all are independent."""
        features = self.features
        return Law(
            Features(int(is_kept.sum()), features.p[is_kept], features.values, features.scale[is_kept])
        )


def rounding(law: Law) -> float:
    """Return the rounding error of a sum over all features, relative to the sum of absolute values."""
    return float(2.0**-53 * (16.0 + 4.0 * np.sqrt(law.n)))
