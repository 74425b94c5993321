"""Hypothesis strategies for laws, weights and models, with the corners at which inequalities fail.

All draws are digits below 100. Hypothesis mixes constants of loaded modules into larger draws, and the same
seed would not give the same examples in another program.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ....theory import validation
from ....theory.features import VALUES, Features, SparseUniform, exclusive, synchronous
from ....theory.results import result
from ....theory.validation import FloatArray

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_MOST_FEATURES = 64


@dataclass(frozen=True)
class Range:
    """The limits of a strategy's numbers and sizes, within which a search may move them.

    `fixed` are the fields that a search does not move.
    """

    low: float
    high: float
    n_features: tuple[int, int] = (1, _MOST_FEATURES)
    n_hidden: tuple[int, int] = (1, _MOST_FEATURES)
    fixed: tuple[str, ...] = ()


_RANGES: WeakKeyDictionary[Any, Range] = WeakKeyDictionary()


@result
class TiedModel:
    """A model ReLU(W_out W' x + b).

    >>> TiedModel([[1], [-1]]).M
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    W: Any
    """Encodings, one a row: the transpose of `W_in`."""
    b: Any = 0.0
    """Bias; 0 if not given."""
    decoder: Any = None
    """`W_out`; `W` itself, so that the model is tied, if not given."""

    def __post_init__(self) -> None:
        W = validation.matrix("W", self.W)
        object.__setattr__(self, "W", W)
        object.__setattr__(self, "b", validation.numbers_or_repeat("b", self.b, len(W)))
        if self.decoder is not None:
            object.__setattr__(self, "decoder", validation.matrix("decoder", self.decoder, W.shape))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.W)

    @property
    def n_hidden(self) -> int:
        """Number of hidden neurons."""
        return int(self.W.shape[1])

    @property
    def W_in(self) -> FloatArray:
        """Encoder, shape (n_hidden, n_features)."""
        return np.asarray(self.W.T)

    @property
    def W_out(self) -> FloatArray:
        """Decoder, shape (n_features, n_hidden)."""
        return np.asarray(self.W if self.decoder is None else self.decoder)

    @property
    def M(self) -> FloatArray:
        """Decoder times encoder, shape (n_features, n_features)."""
        return self.W_out @ self.W_in


def hypothesis() -> Any:
    """Return the module hypothesis; an ImportError says how to install it."""
    try:
        import hypothesis
        import hypothesis.strategies
    except ImportError as error:
        message = (
            "a search for counterexamples needs Hypothesis: pip install -e '.[properties]' in the checkout"
        )
        raise ImportError(message) from error
    return hypothesis


@contextmanager
def temporary_storage() -> Iterator[None]:
    """Within this context, Hypothesis writes its files to a temporary folder, not to the user's."""
    from hypothesis import configuration

    old_folder: Any = configuration.storage_directory(intent_to_write=False)
    with tempfile.TemporaryDirectory(prefix="superposition-") as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(getattr(old_folder, "path", old_folder))


def range_of(strategy: Any) -> Range | None:
    """Return the range within which a search may move a strategy's values, or None.

    Strategies that this module did not make, such as Hypothesis' own, have None.
    """
    try:
        return _RANGES.get(strategy)
    except TypeError:  # no weak references to it
        return None


def _with_range(strategy: Any, limits: Range) -> Any:
    """Store `limits`, the range within which a search may move values, with a strategy, and return it."""
    _RANGES[strategy] = limits
    return strategy


def _size_range(name: str, value: Any) -> tuple[int, int]:
    """Return the validated ends of `value`, a range of sizes; (n, n) for one size. Errors call it `name`."""
    ends = value if isinstance(value, tuple) else (value, value)
    if len(ends) != 2:
        raise ValueError(f"`{name}` must be a size or a range of two; got {validation.short_repr(value)}.")
    low = validation.integer(name, ends[0], 1, _MOST_FEATURES)
    return low, validation.integer(name, ends[1], low, _MOST_FEATURES)


def _number_range(name: str, value: Any, least: float = -np.inf, most: float = np.inf) -> tuple[float, float]:
    """Return the validated ends of `value`, a range of numbers between `least` and `most`.

    Errors call it `name`.
    """
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"`{name}` must be a range of two numbers; got {validation.short_repr(value)}.")
    low = validation.number(name, value[0], least, most)
    return low, validation.number(name, value[1], low, most)


def numbers(low: float, high: float) -> "SearchStrategy[float]":
    """Return a strategy for numbers in [low, high], which are often an end, 0, ±1/2, ±1 or ±2.

    Parameters
    ----------
    low, high : float
        Ends of the interval, included. If `low` is positive and `high` at least 100 times as large,
        logarithms are drawn.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(numbers(0.01, 1))
    ... def test_root(p):
    ...     assert p**0.5 >= p
    >>> test_root()
    """
    low, high = _number_range("low, high", (low, high))
    st = hypothesis().strategies
    digits = st.integers(0, 99)
    corners = [x for x in (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, low, high) if low <= x <= high]

    def number_inside(drawn: tuple[int, ...]) -> float:
        """Return the number in [low, high] at a fraction of the range, whose base-100 digits are `drawn`."""
        share = sum(digit / 100 ** (k + 1) for k, digit in enumerate(drawn))
        x = low * (high / low) ** share if over_decades(low, high) else low + share * (high - low)
        return float(min(max(x, low), high))

    coarse, fine = st.tuples(digits).map(number_inside), st.tuples(digits, digits, digits).map(number_inside)
    return _with_range(st.one_of(st.sampled_from(corners), coarse, fine), Range(low, high))  # type: ignore[no-any-return]


def whole_numbers(name: str, low: Any, high: Any) -> Any:
    """Return a strategy for whole numbers from `low` to `high`; `name` is for the text of errors."""
    low = validation.integer(name, low, -(10**9))
    high = validation.integer(name, high, low, 10**9)
    return _with_range(hypothesis().strategies.integers(low, high), Range(low, high))


def over_decades(low: float, high: float) -> bool:
    """Return whether the range from `low` to `high` is positive and spans two decades or more."""
    return low > 0 and high >= 100 * low


def weights(
    n_features: int | tuple[int, int] = (1, 6),
    n_hidden: int | tuple[int, int] = (1, 4),
    *,
    decades: int = 1,
) -> "SearchStrategy[FloatArray]":
    """Return a strategy for encodings W (n_features, n_hidden), with special cases.

    Rows are new, with their own scale, zero, equal to an earlier row (a tie) or opposite to it (an antipode).
    Some matrices have equal singular values, so that all nonzero eigenvalues of W W' are equal.

    Parameters
    ----------
    n_features, n_hidden : int or (int, int), optional
        Sizes, or ranges of them, ends included; at most 64.
    decades : int, optional
        Scales of rows go from 10^-decades to 10^decades, and no entry is larger; at most 6.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(weights((1, 5), 2))
    ... def test_rank(W):
    ...     assert np.linalg.matrix_rank(W) <= 2
    >>> test_rank()
    """
    features, hidden = _size_range("n_features", n_features), _size_range("n_hidden", n_hidden)
    most = validation.integer("decades", decades, 0, 6)
    st = hypothesis().strategies
    entries = numbers(-1, 1)
    kinds = ("zero", "new", "new", "new", "new", "tie", "antipode")
    exponents = st.sampled_from([0, 0, 0, *range(-most, most + 1)])

    def draw_weights(draw: "DrawFn") -> FloatArray:
        """Return random encodings W (n_features, n_hidden); `draw` is that of Hypothesis."""
        n, m = draw(st.integers(*features)), draw(st.integers(*hidden))
        W, common = np.zeros((n, m)), draw(exponents)
        for i in range(n):
            kind = draw(st.sampled_from(kinds if i else kinds[:5]))
            if kind == "new":
                size = 10.0 ** max(min(common + draw(exponents), most), -most)
                W[i] = [size * draw(entries) for _ in range(m)]
            elif kind != "zero":
                W[i] = (1 if kind == "tie" else -1) * W[draw(st.integers(0, i - 1))]
        if draw(st.sampled_from((False, False, False, True))):
            # The polar factor: ties and antipodes stay, and zeros, for which singular values may vanish.
            left, _, right = np.linalg.svd(W, full_matrices=False)
            W = (left @ right) * W.any(axis=1, keepdims=True)
        return W

    limits = Range(-(10.0**most), 10.0**most, features, hidden)
    return _with_range(st.composite(draw_weights)(), limits)  # type: ignore[no-any-return]


def models(
    n_features: int | tuple[int, int] = (1, 6),
    n_hidden: int | tuple[int, int] = (1, 4),
    *,
    tied: bool = True,
    bias: bool = True,
    decades: int = 1,
) -> "SearchStrategy[TiedModel]":
    """Return a strategy for models of `weights` and biases: none, one for all, or one for each feature.

    Parameters
    ----------
    n_features, n_hidden : int or (int, int), optional
        Sizes, or ranges of them, as in `weights`.
    decades : int, optional
        Scales of the rows of weights go from 10^-decades to 10^decades.
    tied : bool, optional
        Whether the decoder is the encoder's transpose in all models, or only in some.
    bias : bool, optional
        Whether there are biases other than 0, in [-1, 1].

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(models(4, 2, tied=False))
    ... def test_shapes(model):
    ...     assert model.M.shape == (4, 4)
    >>> test_shapes()
    """
    tied, bias = validation.flag("tied", tied), validation.flag("bias", bias)
    encodings = weights(n_features, n_hidden, decades=decades)
    limits = replace(_RANGES[encodings], fixed=() if bias else ("b",))
    st = hypothesis().strategies
    entries = numbers(-1, 1)

    def draw_model(draw: "DrawFn") -> TiedModel:
        """Return a random model; `draw` is that of Hypothesis."""
        W = draw(encodings)
        n, m = W.shape
        b = np.zeros(n)
        kind = draw(st.sampled_from(("none", "one", "each"))) if bias else "none"
        if kind != "none":
            b += draw(entries) if kind == "one" else [draw(entries) for _ in range(n)]
        free = not tied and draw(st.sampled_from((False, True, True)))
        return TiedModel(W, b, draw(weights(n, m, decades=decades)) if free else None)

    return _with_range(st.composite(draw_model)(), limits)  # type: ignore[no-any-return]


def laws(
    n_features: int | None = None,
    *,
    p: tuple[float, float] = (1e-3, 1.0),
    values: Sequence[str] = ("uniform",),
    dependent: bool = False,
) -> "SearchStrategy[Any]":
    """Return a strategy for laws of the data: `SparseUniform`, or `Features` if `n_features` is given.

    Parameters
    ----------
    n_features : int, optional
        Draw `Features` of this number of features, all equal or each with its p, scale and importance (from
        0.1 to 10). By default `SparseUniform`, a law for any number of equal features.
    p : (float, float), optional
        Range of the probability that a feature is on.
    values : sequence of str, optional
        Kinds of values to draw from, for `Features`: names of `theory.features.VALUES`, such as "uniform".
    dependent : bool, optional
        Whether in some `Features` two features exclude each other or fire together, or exactly k are on.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(laws(3, dependent=True))
    ... def test_chances(law):
    ...     assert np.all(law.on_probability() <= 1)
    >>> test_chances()
    """
    low, high = _number_range("p", p, 1e-100, 1.0)
    kinds, dependent = validation.choices("values", values, VALUES), validation.flag("dependent", dependent)
    chance, sizes = numbers(low, high), numbers(0.1, 10.0)
    st = hypothesis().strategies
    if n_features is None:
        return _with_range(chance.map(SparseUniform), Range(low, high))  # type: ignore[no-any-return]
    n = validation.integer("n_features", n_features, 1, _MOST_FEATURES)

    def draw_law(draw: "DrawFn") -> Features:
        """Return a random law of n features; `draw` is that of Hypothesis."""

        def one_or_each(of: Any, default: float | None = None) -> Any:
            """Return n values of the strategy `of`, or at random one value for all: `default`, if given."""
            kind = draw(st.sampled_from(("one", "each")))
            law = draw(of) if default is None else default
            return np.array([draw(of) for _ in range(n)]) if kind == "each" else law

        chances, scale, importance = one_or_each(chance), one_or_each(sizes, 1.0), one_or_each(sizes, 1.0)
        kind = draw(st.sampled_from(("free", "groups", "exactly"))) if dependent else "free"
        groups: Sequence[Any] = ()
        if kind == "groups" and n > 1:
            bound = draw(st.sampled_from((exclusive, synchronous)))
            # One of two that exclude each other may be on.
            groups = [bound([0, 1], float(np.mean(chances)) / 2)]
        # With some feature always on, a number below that is impossible.
        exactly = draw(st.integers(1, n)) if kind == "exactly" and np.all(np.less(chances, 1)) else None
        return Features(n, chances, draw(st.sampled_from(kinds)), scale, importance, groups, exactly)

    return _with_range(st.composite(draw_law)(), Range(low, high, (n, n)))  # type: ignore[no-any-return]
