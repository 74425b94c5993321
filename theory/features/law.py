"""The law of sparse features that may differ, fire together, exclude each other, or number exactly k."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .. import validation
from ..results import frozen, result
from ..validation import FloatArray
from .counts import IndependentGroup, count_polynomial, draw_given, possible, probabilities_given
from .groups import Group, PackedGroups, group, pack_groups, set_patterns, set_values
from .sparse import SparseUniform
from .values import law_named
from .values.law import transforms_at

__all__ = ["Features", "Group", "as_features"]

_SMALLEST, _LARGEST = 1e-100, 1e100  # scales whose squares are doubles


@result
class Features:
    r"""Law of n sparse features :math:`x_i = c_i v_i`: on or off, times a value that is drawn if on.

    >>> Features(20, sparsity=0.95) == Features(20, p=0.05)
    True

    A feature is on with probability p, independently of the others, unless it belongs to a group or
    `exactly` is given. Given which features are on, their values are independent.

    Parameters
    ----------
    n_features : int
        Number of features n.
    p : float or (n_features,) array_like
        Probability that a feature is on, in (0, 1], before conditioning on `exactly`. Not used for features
        in groups, and not needed if all are: the attribute has the probabilities by the groups' patterns.
    values : str or ValueDistribution, optional
        Law of the value of a feature that is on: "uniform" on [0, scale]; "uniform(low)" on [low scale,
        scale], see `uniform_from`; "binary", always scale; "half-normal", scale times \|N(0, 1)\|;
        "exponential" with mean scale; "symmetric", uniform on [-scale, scale]; "normal" with standard
        deviation scale; "rectified-normal(ratio)", scale times max(0, ratio + N(0, 1)), see
        `rectified_normal`; or your own `ValueDistribution`. The attribute is always a `ValueDistribution`,
        which equals its name.
    scale : float or (n_features,) array_like, optional
        Factor of the values, between 1e-100 and 1e100.
    importance : float or (n_features,) array_like, optional
        Weight of a feature in a loss; not negative, not all 0. No method here depends on it.
    groups : sequence of (indices, patterns, probabilities), optional
        Features that are not independent. Row r of `patterns`, of shape (k, len(indices)), says by 0 and 1
        which of them are on, with probability `probabilities[r]`. See `synchronous`, `exclusive` and
        `parent_child`. Probabilities are made to sum to 1, if they do to 1e-12. Groups do not overlap.
    exactly : int, optional
        Condition the law on exactly this number of features on; for at most 100,000 features.
    sparsity : float or (n_features,) array_like, optional
        S = 1 - p of Elhage et al., in [0, 1), instead of `p`. The attribute is 1 - `p`.

    Raises
    ------
    ValueError
        If an argument is out of range, groups overlap, or `exactly` has probability 0.

    Examples
    --------
    >>> from superposition.theory.features import exclusive
    >>> x = Features(3, [0.5, 0.2, 0.2], "exponential", groups=[exclusive([1, 2], 0.2)])
    >>> x.mean, x.covariance().round(2)
    (array([0.5, 0.2, 0.2]), array([[ 0.75,  0.  ,  0.  ],
           [ 0.  ,  0.36, -0.04],
           [ 0.  , -0.04,  0.36]]))
    >>> Features(4, 0.1, exactly=2).on_probability()
    array([0.5, 0.5, 0.5, 0.5])
    """

    n_features: int
    p: Any = None
    values: Any = "uniform"
    scale: Any = 1.0
    importance: Any = 1.0
    groups: Sequence[Any] = ()
    exactly: int | None = None

    @validation.check_keywords
    def __init__(
        self, n_features: int, p: Any = None, values: Any = "uniform", scale: Any = 1.0,
        importance: Any = 1.0, groups: Sequence[Any] = (), exactly: int | None = None, *,
        sparsity: Any = None,
    ) -> None:  # fmt: skip
        # `sparsity` is no field: it follows from p, which `dataclasses.replace` may change.
        if p is not None and sparsity is not None:
            both = f"{validation.short_repr(p)} and {validation.short_repr(sparsity)}"
            raise ValueError(f"`p` must be given, or `sparsity` instead; got {both}.")
        on = p if sparsity is None else validation.from_sparsity("sparsity", sparsity)
        if sparsity is not None and np.ndim(on):
            validation.vector("sparsity", on, validation.integer("n_features", n_features, 1))
        settings = {
            "n_features": n_features,
            "p": on,
            "values": values,
            "scale": scale,
            "importance": importance,
        }
        for name, value in {**settings, "groups": groups, "exactly": exactly}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        n = validation.integer("n_features", self.n_features, 1)
        validation.check_fits("n_features", n, 8.0 * min(n, 2**62))
        if not isinstance(self.groups, Sequence):
            raise ValueError(f"`groups` must be a sequence; got {validation.short_repr(self.groups)}.")
        groups = tuple(
            group(f"groups[{i}]", members_and_patterns, n)
            for i, members_and_patterns in enumerate(self.groups)
        )
        members = np.concatenate([np.empty(0, np.int64), *(indices for indices, _, _ in groups)])
        if np.unique(members).size < members.size:
            shared = int(np.flatnonzero(np.bincount(members) > 1)[0])
            raise ValueError(f"`groups` must not overlap; got feature {shared} in two.")
        if self.p is None and members.size < n:
            raise ValueError(
                f"`p` must be given, or `sparsity` instead; got neither for {n - members.size} features."
            )
        # The groups have their own probabilities.
        p = np.ones(n) if self.p is None else validation.numbers_or_repeat("p", self.p, n).copy()
        validation.probability("p", np.delete(p, members))
        scale = validation.real(
            "scale", validation.numbers_or_repeat("scale", self.scale, n), _SMALLEST, _LARGEST
        )
        importance = validation.real(
            "importance", validation.numbers_or_repeat("importance", self.importance, n), 0
        )
        if not np.any(importance):
            raise ValueError("`importance` must not be all 0.")
        for indices, patterns, probabilities in groups:
            p[indices] = np.minimum(probabilities @ patterns, 1.0)
        values = law_named("values", self.values)
        exactly = None if self.exactly is None else validation.integer("exactly", self.exactly, 0, n)
        checked = {"n_features": n, "p": p, "scale": scale, "importance": importance, "groups": groups}
        for name, value in {**checked, "values": values, "exactly": exactly}.items():
            object.__setattr__(self, name, value)
        if exactly is not None and n > 100_000:  # they are taken one by one
            raise ValueError(f"`n_features` must be at most 100,000 given `exactly`; got {n}.")
        sure = int(np.count_nonzero(np.delete(p, members) == 1))
        if exactly is not None and not possible(self._groups, sure, n - sure - int(members.size), exactly):
            raise ValueError(f"`exactly` must have a positive probability; got {exactly}.")

    @property
    def sparsity(self) -> FloatArray:
        """Probability 1 - p that a feature is off, shape (n_features,), before conditioning on `exactly`."""
        return np.asarray(1.0 - self.p)

    @property
    def _groups(self) -> list[IndependentGroup]:
        """The groups of features that depend on each other, as `IndependentGroup`."""
        return [IndependentGroup(*group) for group in self.groups]

    @property
    def blocks(self) -> list[IndependentGroup]:
        """The groups, and each other feature as a group of one; weights are not conditioned on `exactly`."""
        members = [np.empty(0, np.int64), *(indices for indices, _, _ in self.groups)]
        alone = np.delete(np.arange(self.n_features)[:, None], np.concatenate(members), axis=0)
        table, chances = np.array([[0], [1]]), np.stack([1 - self.p, self.p], axis=1)
        return self._groups + [IndependentGroup(feature, table, chances[feature[0]]) for feature in alone]

    @property
    def independent(self) -> bool:
        """Whether the features are independent: no groups, and `exactly` is not given."""
        return not self.groups and self.exactly is None

    @property
    def has_exact_sums(self) -> bool:
        """Whether losses of networks with hidden ReLUs are exact sums or integrals, for any n_features."""
        return self.exactly is None and self.values.has_exact_losses

    @property
    def has_equal_features(self) -> bool:
        """Whether the features are independent and uniform on [0, scale], with one p and one scale."""
        is_simple = self.independent and self.values.uniform
        return bool(is_simple and np.all(self.p == self.p[0]) and np.all(self.scale == self.scale[0]))

    # --- On and off -----------------------------------------------------------------------------------------

    @cached_property
    def _packed_groups(self) -> tuple[PackedGroups | None, FloatArray]:
        """The groups as `PackedGroups` or None, and p, (n_features,), with 0 for features in groups."""
        if not self.groups:
            return None, self.p
        groups = pack_groups(self.groups)
        p_alone = self.p.copy()
        p_alone[groups.members] = 0.0
        return groups, p_alone

    @cached_property
    def _p_on(self) -> FloatArray:
        """P(x_i is on), shape (n_features,), read-only."""
        if self.exactly is None:
            return cast(FloatArray, self.p)
        self._check_memory(self.exactly + 1)
        return frozen(probabilities_given(self.blocks, self.exactly, pairs=False))

    def _check_memory(self, columns: int) -> None:
        """Raise a ValueError unless an array of n_features times `columns` doubles fits in memory."""
        validation.check_fits("n_features", self.n_features, float(self.n_features) * columns)

    def on_probability(self) -> FloatArray:
        """P(x_i is on), shape (n_features,); given `exactly`, cost O(n_features exactly)."""
        return self._p_on

    def pair_probability(self) -> FloatArray:
        """P(x_i and x_j are on), shape (n_features, n_features); given `exactly`, in O(n_features² exactly).

        >>> Features(3, [0.9, 0.1, 0.1], exactly=1).pair_probability().round(4)
        array([[0.9759, 0.    , 0.    ],
               [0.    , 0.012 , 0.    ],
               [0.    , 0.    , 0.012 ]])
        """
        self._check_memory(self.n_features)
        if self.exactly is not None:
            self._check_memory(3 * (self.exactly + 1))
            return probabilities_given(self.blocks, self.exactly, pairs=True)
        pairs = np.multiply.outer(self.p, self.p)
        np.fill_diagonal(pairs, self.p)
        for indices, patterns, probabilities in self.groups:
            pairs[np.ix_(indices, indices)] = (patterns.T * probabilities) @ patterns
        return np.asarray(pairs)

    def sparsity_pmf(self) -> FloatArray:
        """Probabilities that exactly 0, 1, ..., n_features are on; relative error below n_features 2^-52.

        >>> from superposition.theory.features import synchronous
        >>> Features(3, [0.5, 0.2, 0.2], groups=[synchronous([1, 2], 0.2)]).sparsity_pmf()
        array([0.4, 0.4, 0.1, 0.1])
        """
        if self.exactly is not None:
            return np.asarray(np.eye(1, self.n_features + 1, self.exactly)[0])
        if not self.groups and np.all(self.p == self.p[0]):
            return SparseUniform(self.p[0]).sparsity_pmf(self.n_features)
        pmf = count_polynomial(self.blocks)
        return np.pad(pmf, (0, self.n_features + 1 - pmf.size))

    # --- Moments --------------------------------------------------------------------------------------------

    def moment(self, k: int) -> FloatArray:
        """Return E x_i^k for an integer k of at least 1, shape (n_features,); ValueError if it overflows.

        >>> Features(2, 0.1, "exponential").moment(3).round(12)
        array([0.6, 0.6])
        """
        k = validation.integer("k", k, 1, 150)
        with np.errstate(over="ignore"):
            moment = self._p_on * (self.values.moment(k) * self.scale**k)
        if not np.all(np.isfinite(moment)):
            raise ValueError(f"`k` must be smaller at this `scale`: the moment overflows; got {k}.")
        return np.asarray(moment)

    @property
    def mean(self) -> FloatArray:
        """E x_i, shape (n_features,)."""
        return self.moment(1)

    @property
    def second_moment(self) -> FloatArray:
        """E x_i², shape (n_features,): the loss of each feature if the output is always 0."""
        return np.asarray(self._p_on * (self.values.square * self.scale**2))

    @property
    def variance(self) -> FloatArray:
        """Var x_i, shape (n_features,), as a sum of positive terms."""
        first, second = (self.values.moment(k) for k in (1, 2))
        spread = (second - first**2) + (1 - self._p_on) * first**2
        return np.asarray(self.scale**2 * self._p_on * spread)

    def _pair_matrix(self, pairs: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the matrix pairs_ij E v_i E v_j, in the features' units, with `diagonal` on its diagonal.

        `pairs`, (n_features, n_features), has the probabilities that both features are on, v_i is the value
        of feature i when on.
        """
        means = self.values.moment(1) * self.scale
        matrix = pairs * means * means[:, None]
        np.fill_diagonal(matrix, diagonal)
        return np.asarray(matrix)

    def covariance(self) -> FloatArray:
        """Covariance matrix, shape (n_features, n_features); entries of independent features are exactly 0.

        Absolute error a few 2^-53 times the products of means; O(n_features² exactly) given `exactly`.
        """
        self._check_memory(self.n_features)
        if self.exactly is not None:
            joint = self.pair_probability() - np.multiply.outer(self._p_on, self._p_on)
            return self._pair_matrix(joint, self.variance)
        joint = np.zeros((self.n_features, self.n_features))
        for indices, patterns, probabilities in self.groups:
            centred = patterns - self.p[indices]
            joint[np.ix_(indices, indices)] = (centred.T * probabilities) @ centred
        return self._pair_matrix(joint, self.variance)

    def second_moment_matrix(self) -> FloatArray:
        """E x x', shape (n_features, n_features)."""
        return self._pair_matrix(self.pair_probability(), self.second_moment)

    def transform(self, s: npt.ArrayLike, feature: int | None = None) -> npt.NDArray[np.complex128]:
        r"""E exp(s x_i) at complex s: of one `feature` in the shape of s, or of all, features last.

        The transform is :math:`1 - q + q\,\varphi_0(s\,\mathrm{scale})`, with the probability q that the
        feature is on and the transform :math:`\varphi_0(z) = E e^{zv}` of the values v at scale 1. For
        exponential values the real part of s times scale must be below 1. The relative error is below 4e-15
        times max(1, \|s scale\|), squared for normal laws, as large as that of a rounding of s.

        >>> Features(2, [0.5, 1.0], "binary").transform(1j * np.pi).round(12)
        array([ 0.+0.j, -1.+0.j])
        """
        at = _checked_complex("s", s)
        which: Any = slice(None)
        if feature is None:
            at = at[..., None]
        else:
            which = validation.integer("feature", feature, 0, self.n_features - 1)
        on = self._p_on[which]
        return np.asarray(1 - on + on * transforms_at(self.values, "s", at * self.scale[which])[0])

    # --- Samples --------------------------------------------------------------------------------------------

    def sample(self, size: int, rng: np.random.Generator | int | None) -> FloatArray:
        """Draw independent samples, shape (size, n_features); memory O(size n_features).

        Given `exactly`, features and groups are drawn in turn, conditional on the number still to be on:
        exact, without rejection.

        >>> Features(4, 0.5, "binary", exactly=3).sample(2, rng=0)
        array([[1., 0., 1., 1.],
               [1., 0., 1., 1.]])
        """
        size = validation.integer("size", size, 1)
        validation.check_fits("size", size, 3.0 * min(size, 2**62) * self.n_features)
        generator = validation.generator("rng", rng)
        if self.exactly is not None:
            self._check_memory(self.exactly + 1)
            on = draw_given(self.blocks, self.exactly, size, generator)
        else:
            groups, p_alone = self._packed_groups
            on = generator.random((size, self.n_features)) < p_alone
            if groups is not None:
                set_patterns(groups, generator.random((len(self.groups), size)), on)
        x, values = np.zeros(on.shape), np.ones(np.count_nonzero(on))
        values *= self.values.draw(generator, values.size)
        set_values(on, self.scale, values, x)
        return x


def _checked_complex(name: str, value: npt.ArrayLike) -> npt.NDArray[np.complex128]:
    """Return `value` as an array of complex numbers; raise a ValueError about `name` if one is not finite."""
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # rows of different lengths, tensors that have a gradient
        array = np.empty(0, object)
    if array.dtype.kind == "c" and not np.ma.isMaskedArray(value):
        values = array.astype(np.complex128)
    else:
        values = validation.real(name, value).astype(np.complex128)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"`{name}` must be finite; got {values[~np.isfinite(values)].flat[0]}.")
    return values


def as_features(law: Any, n_features: int, name: str = "law") -> Features:
    """Return `law` as a `Features` of n_features; a number p becomes independent uniform features.

    Parameters
    ----------
    law : float, SparseUniform or Features
        A number is the probability p that a feature is on, in (0, 1].
    n_features : int
    name : str, optional
        Name of the caller's argument, for messages.

    Returns
    -------
    Features

    Raises
    ------
    ValueError
        If the law is for another number of features, or of another type.

    Examples
    --------
    >>> as_features(0.3, 4).p
    array([0.3, 0.3, 0.3, 0.3])
    """
    if isinstance(law, Features):
        if law.n_features != n_features:
            raise ValueError(f"`{name}` must be for {n_features} features; got one for {law.n_features}.")
        return law
    p = law.p if isinstance(law, SparseUniform) else law
    if validation.is_list(p):
        rule = f"one probability, or a law such as Features({n_features}, p=[...]) if features differ"
        raise ValueError(f"`{name}` must be {rule}; got {validation.short_repr(p)}.")
    return Features(n_features, validation.number(name, p, 0, 1, brackets="(]"))
