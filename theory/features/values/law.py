r"""Laws of values: the value v of a feature that is on, at scale 1, and the parts that methods need.

A law of values is one file that makes one `ValueDistribution`. Kernels get its numbers as `KernelLaw` and
know no law: the transform is called by its address, and a density that is a polynomial between places is
integrated by Gauss points.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ... import validation
from ...special.normal import POINTS, WEIGHTS
from ...validation import ComplexArray, FloatArray
from .parts import KernelLaw, Three, all_transforms, given_nonzero, transform_pointer

__all__ = [
    "Definition",
    "Three",
    "ValueDistribution",
    "definition",
    "law_named",
    "register",
    "registered_names",
]

Posterior = tuple[FloatArray, FloatArray, FloatArray]
# Behind the name of a law: given that the value is not 0.
_NOT_ZERO = ", not 0"


class Definition(NamedTuple):
    """Density and atoms of a law of values as SymPy expressions."""

    v: Any
    """A positive symbol."""
    right: Any
    """Density at v."""
    left: Any
    """Density at -v."""
    end: Any
    """Bound on |v| beyond which the density is 0; infinity if there is none."""
    atoms: dict[Any, Any]
    """Values of positive probability, mapped to this probability."""


class ValueDistribution:
    r"""Law of the value v of a feature that is on, at scale 1.

    Every law has the first four parts. Methods that need another part refuse laws without it.

    Parameters
    ----------
    name : str
        As `Features` takes it once the law is registered. A law equals its name.
    support : (float, float)
        Least interval that holds v; ends may be infinite.
    moment : callable
        moment(k) = E v^k for whole numbers k >= 0.
    draw : callable
        draw(rng, size) draws so many values with a `numpy.random.Generator`.
    definition : callable, optional
        Returns the `Definition` in SymPy, for derivations.
    atoms : sequence of (float, float), optional
        Values of v with positive probability, each with this probability.
    density : callable, optional
        Density of v outside the atoms, a function of an array, for integrals over v.
    typical : (float, float), optional
        Interval that holds v up to probability e^-50, if the support is longer.
    pieces : sequence of (low, high, coefficients), optional
        Intervals on which the density is a polynomial, of degree 8 at most, lowest power first; `density`
        then need not be passed. Losses under a bounded law with pieces and a transform are exact.
    transform : callable, optional
        transform(z) returns E v^r e^{zv} for r = 0, 1, 2 at a complex z, in Python that Numba compiles; a
        function under `superposition.theory.compile.kernels.inlined` if other such functions call it.
    shape : float, optional
        For a family of laws: the second argument of `transform`.
    pole : float, optional
        The transform exists where the real part of z is below this.
    edge : float, optional
        A number with \|E e^{zv}\| <= edge (1 + e^{r\|Re z\|})/\|z\|, r the largest \|v\|. By default the
        total variation of the density.
    wedge : (float, float), optional
        For unbounded values, whose losses are then integrals along two rays: an angle such that the transform
        is bounded for z at this angle to the real axis, up to a right angle, on both sides; and the size of
        the values, 1 or so.
    quantile : callable, optional
        quantile(torch, u) makes values of a tensor u of uniform numbers by PyTorch, for training; entries of
        u from 1 on are not used.
    posterior : callable, optional
        posterior(y, sigma) returns, for y = v + sigma Z, the logarithm of the density at y, and mean and
        variance of v given y, for decoders.
    noisy_support : callable, optional
        noisy_support(sigma) returns an interval that holds y up to a negligible probability. By default the
        values v, widened by 12 sigma.
    nonzero_transform : callable, optional
        The transform of v given that it is not 0, of a family whose laws have an atom at 0: compiled once.

    Raises
    ------
    ValueError
        If the parts do not fit together.

    Examples
    --------
    >>> thirds = ValueDistribution("thirds", (1 / 3, 1 / 3), lambda k: 3.0**-k,
    ...                            lambda rng, size: np.full(size, 1 / 3), atoms=[(1 / 3, 1.0)])
    >>> thirds == "thirds", thirds.ramp_moments(0.0, 3.0, 2).round(12)
    (True, array([1., 1., 1.]))
    """

    name: str
    support: tuple[float, float]
    moment: Callable[[int], float]
    draw: Callable[[np.random.Generator, int], Any]
    definition: Callable[[], Definition] | None
    atoms: Any
    density: Callable[[FloatArray], FloatArray] | None
    typical: tuple[float, float] | None
    pieces: Any
    transform: Callable[..., Three] | None
    shape: float | None
    pole: float
    edge: float | None
    wedge: tuple[float, float] | None
    quantile: Callable[[Any, Any], Any] | None
    posterior: Callable[[FloatArray, float], Posterior] | None
    noisy_support: Callable[[float], tuple[float, float]] | None
    nonzero_transform: Callable[..., Three] | None

    def __init__(
        self, name: str, support: tuple[float, float], moment: Callable[[int], float], draw:
        Callable[[np.random.Generator, int], Any], definition: Callable[[], Definition] | None = None, atoms:
        Any = (), density: Callable[[FloatArray], FloatArray] | None = None, typical: tuple[float, float] |
        None = None, pieces: Any = (), transform: Callable[..., Three] | None = None, shape: float | None =
        None, pole: float = np.inf, edge: float | None = None, wedge: tuple[float, float] | None = None,
        quantile: Callable[[Any, Any], Any] | None = None, posterior: Callable[[FloatArray, float], Posterior]
        | None = None, noisy_support: Callable[[float], tuple[float, float]] | None = None, nonzero_transform:
        Callable[..., Three] | None = None,
    ) -> None:  # fmt: skip
        vars(self).update({field: value for field, value in locals().items() if field != "self"})
        interval = validation.doubles("support", support)
        if interval.shape != (2,) or not interval[0] <= interval[1]:
            raise ValueError(f"`support` must be an interval; got {validation.short_repr(support)}.")
        if density is not None and not callable(density):
            raise ValueError(f"`density` must be a function; got {validation.short_repr(density)}.")
        _check_rows("atoms", atoms, ("place", "probability"))
        _check_rows("pieces", pieces, ("low", "high", "coefficients"))
        if not (isinstance(pole, float) and pole == np.inf):  # the value for none
            self.pole = validation.number("pole", pole, 0.0)
        low, high = self.support
        for first, last, coefficients in self.pieces:
            if not low <= first < last <= high or not 1 <= len(coefficients) <= 9:
                raise ValueError(f"`pieces` must be polynomials inside of the support; got {first}, {last}.")
        if (self.pieces or not self.density) and abs(self._mass() - 1.0) > 1e-12:
            raise ValueError(f"`atoms` and `pieces` must have probability 1; got {self._mass():g}.")
        if self.pieces and self.density is None:
            self.density = self._piecewise_density

    def _mass(self) -> float:
        """Return the total probability of the atoms and of the pieces with a polynomial density."""
        inside = (
            np.diff(np.polyval([0.0, *_integrate_polynomial(c)][::-1], [a, b]))[0] for a, b, c in self.pieces
        )
        return float(sum(inside) + sum(chance for _, chance in self.atoms))

    def _piecewise_density(self, v: FloatArray) -> FloatArray:
        """Return the density at v from the pieces, intervals on which the density is a polynomial."""
        density = np.zeros(np.shape(v))
        for low, high, coefficients in self.pieces:
            density += np.where((v >= low) & (v < high), np.polyval(coefficients[::-1], v), 0.0)
        return density

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and self.name == other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)

    def __reduce__(self) -> Any:
        if _KNOWN.get(self.name) is self or _family(self.name) is self:
            return law_named, ("values", self.name)
        return ValueDistribution, tuple(
            getattr(self, annotation) for annotation in ValueDistribution.__annotations__
        )

    @cached_property
    def bounded(self) -> bool:
        """Whether v is bounded, with atoms and polynomial pieces alone; losses are then frequency sums."""
        return bool(np.isfinite(self.support).all() and (self.pieces or not self.density))

    @property
    def has_exact_losses(self) -> bool:
        """Whether losses of any number of independent features are sums or integrals of the transform."""
        return self.transform is not None and (self.bounded or self.wedge is not None)

    @cached_property
    def discrete(self) -> bool:
        """Whether the law has atoms alone, no density."""
        return self.density is None

    @cached_property
    def uniform(self) -> bool:
        """Whether v is uniform on [0, 1], the law that closed forms are for."""
        return self.sides == 1

    @cached_property
    def square(self) -> float:
        """E v^2."""
        return float(self.moment(2))

    @cached_property
    def sides(self) -> int:
        """Code of the law for kernels: 1 if uniform on [0, 1], 2 on [-1, 1], 0 if always 1, -1 otherwise."""
        shapes = {"(), ((0.0, 1.0, (1.0,)),)": 1, "(), ((-1.0, 1.0, (0.5,)),)": 2, "((1.0, 1.0),), ()": 0}
        atoms = tuple((float(at), float(chance)) for at, chance in self.atoms)
        pieces = tuple((float(a), float(b), tuple(map(float, c))) for a, b, c in self.pieces)
        return shapes.get(f"{atoms}, {pieces}", -1)

    @property
    def reach(self) -> tuple[float, float]:
        """Ends of an interval that contains v except with probability e^-50."""
        return self.typical or self.support

    @property
    def reach_with_zero(self) -> tuple[float, float]:
        """Ends of an interval with 0, the value of a feature that is off, and the interval `reach` of v."""
        low, high = self.reach
        return min(low, 0.0), max(high, 0.0)

    @cached_property
    def parts(self) -> KernelLaw:
        """The law as numbers and arrays for compiled kernels; `KernelLaw` describes its fields."""
        low, high = self.support
        pieces = [(float(a), float(b), np.asarray(c, float)) for a, b, c in self.pieces]
        degree = max([0, *(c.size - 1 for _, _, c in pieces)])
        density = np.zeros((len(pieces), degree + 1))
        for row, (_, _, coefficients) in zip(density, pieces, strict=True):
            row[: coefficients.size] = coefficients
        atoms = np.array(self.atoms, float).reshape(-1, 2)
        ends = np.array([piece[:2] for piece in pieces], float).reshape(-1, 2)
        jumps = _jumps(pieces)
        nodes, weights = np.polynomial.legendre.leggauss(max(degree + 2, 3))
        edge = np.inf if atoms.size or not pieces else self.edge
        if edge is None:
            edge = float(jumps[jumps[:, 2] == 0.0, 1].sum()) + sum(_variation(*piece) for piece in pieces)
        angle, size = self.wedge or (0.0, 0.0)
        return KernelLaw(
            transform=transform_pointer(self.transform, self.shape),
            low=float(low),
            high=float(high),
            reach=float(max(abs(low), abs(high))),
            mean=float(self.moment(1)),
            square=self.square,
            atoms=atoms,
            ends=ends,
            density=density,
            corners=np.unique([0.0, *atoms[:, 0], *ends.ravel()]),
            nodes=0.5 + 0.5 * nodes,
            weights=0.5 * weights,
            jumps=jumps,
            edge=float(edge),
            sides=self.sides,
            angle=float(angle),
            size=float(size),
        )

    @cached_property
    def zero(self) -> float:
        """Probability that the value of a feature is 0 although the feature is on."""
        return float(sum(chance for value, chance in self.atoms if value == 0.0))

    @cached_property
    def nonzero(self) -> "ValueDistribution":
        """The law of v given that v is not 0; the same law if v is never 0, or always.

        >>> law_named("values", "rectified-normal").nonzero.atoms, law_named("values", "uniform").nonzero
        ((), 'uniform')
        """
        share = 1.0 - self.zero
        if share in (0.0, 1.0):
            return self
        density, transform = self.density, self.nonzero_transform
        if transform is None and self.transform is not None:
            transform = given_nonzero(self.transform, self.shape is not None, share)

        def moment(k: int) -> float:
            """Return E v^k given that v is not 0."""
            return float(self.moment(k)) / share if k else 1.0

        def draw(rng: np.random.Generator, size: int) -> FloatArray:
            """Return `size` values, drawn again until none is 0."""
            draws = np.asarray(self.draw(rng, size), float) * np.ones(size)
            while np.any(draws == 0.0):
                draws[draws == 0.0] = self.draw(rng, int(np.sum(draws == 0.0)))
            return draws

        return ValueDistribution(
            f"{self.name}{_NOT_ZERO}",
            self.support,
            moment,
            draw,
            atoms=tuple((value, chance / share) for value, chance in self.atoms if value != 0.0),
            density=None if density is None else lambda v: np.asarray(density(v) / share),
            typical=self.typical,
            pieces=tuple((low, high, np.asarray(c) / share) for low, high, c in self.pieces),
            transform=transform,
            shape=self.shape,
            pole=self.pole,
            edge=None if self.edge is None else self.edge / share,
            wedge=self.wedge,
        )

    def nodes(self, centre: float = 0.0, width: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Return values v and weights, flat, of a quadrature over the law: E f(v) = sum of weights f(v).

        The rule resolves a function f that changes fast within `width` of v = `centre`.
        """
        centre, width = validation.number("centre", centre), validation.number("width", width, 0.0)
        at = [np.array([where for where, _ in self.atoms])]
        weight = [np.array([chance for _, chance in self.atoms])]
        if self.density is not None:
            low, high = self.reach
            regular = np.linspace(low, high, 1 + int(np.ceil((high - low) / 6.0)))
            corners = [end for piece in self.pieces for end in piece[:2]]
            inside = np.concatenate(
                [[low, high], regular, corners, centre + 6.0 * width * np.arange(-2.0, 3.0)]
            )
            edges = np.unique(np.clip(inside, low, high))
            step = np.diff(edges)[:, None]
            v = (edges[:-1, None] + step * POINTS).ravel()
            at.append(v)
            weight.append((step * WEIGHTS).ravel() * self.density(v))
        return np.concatenate(at), np.concatenate(weight)

    def ramp_moments(self, t: float, m: float, order: int) -> FloatArray:
        """Return E (t + m v)_+^k for k = 0, ..., `order`, shape (order + 1,); relative error 1e-13 or so.

        Examples
        --------
        >>> law_named("values", "exponential").ramp_moments(-1.0, 1.0, 2).round(6)  # e^-1 (1, 1, 2)
        array([0.367879, 0.367879, 0.735759])
        """
        t, m = validation.number("t", t), validation.number("m", m)
        order = validation.integer("order", order, 0, 150)
        v, weights = self.nodes(float(np.clip(-t / m, -1e300, 1e300)) if m else 0.0)
        y = t + m * v
        with np.errstate(over="ignore"):
            powers = np.maximum(y, 0.0) ** np.arange(order + 1)[:, None]
        if not np.isfinite(powers).all():
            raise ValueError(f"`t` and `m` must be so small that powers are finite; got {t:g} and {m:g}.")
        powers[0] = y > 0.0
        return np.asarray(powers @ weights)


def require(values: ValueDistribution, name: str, part: str, what: str = "") -> Any:
    """Return the attribute `part` of the law `values`; if the law lacks it, raise a ValueError.

    `name` is the argument's name in the message, `what` describes the part there, by default as "a {part}".
    """
    attribute = getattr(values, part)
    if not attribute:
        raise ValueError(f"`{name}` must be values with {what or f'a {part}'}; got {values.name!r}.")
    return attribute


def transforms_at(values: ValueDistribution, name: str, z: ComplexArray) -> ComplexArray:
    """Return E v^r exp(z v) of the law `values` for r = 0, 1, 2, shape (3, *z.shape).

    A ValueError, with `name` for z, is raised where the transform does not exist.
    """
    require(values, "values", "transform")
    if np.any(z.real >= values.pole):
        rule = f"have a real part (times scale) below {values.pole:g}"
        raise ValueError(f"`{name}` must {rule}; got {z.real.max():g}.")
    out = np.empty((3, z.size), np.complex128)
    all_transforms(values.parts.transform, z.ravel(), out)
    for worst in z.ravel()[~np.isfinite(out).all(axis=0)]:
        raise ValueError(f"`{name}` must be smaller: the transform overflows; got {worst}.")
    return out.reshape((3, *z.shape))


def _check_rows(name: str, rows: Any, columns: tuple[str, ...]) -> None:
    """Raise a ValueError unless `rows` is a sequence of rows with an entry for each of `columns`.

    `name` is the argument's name and `columns` are the columns' names, both for the message. The first two
    entries of a row are numbers, a third one is a list of numbers.
    """
    if not validation.is_list(rows) or not all(
        validation.is_list(row) and len(row) == len(columns) for row in rows
    ):
        form = f"({', '.join(columns)})"
        raise ValueError(f"`{name}` must be a sequence of {form}; got {validation.short_repr(rows)}.")
    for row in rows:
        validation.real(name, validation.vector(name, row[:2]))
        for coefficients in row[2:]:
            validation.vector(name, coefficients)


def _integrate_polynomial(coefficients: Any) -> FloatArray:
    """Return the antiderivative's coefficients, power 1 first, of a polynomial's, power 0 first."""
    return np.asarray(coefficients, float) / np.arange(1, len(coefficients) + 1)


def _differentiate_polynomial(coefficients: FloatArray) -> FloatArray:
    """Return the coefficients of a polynomial's derivative; in both the power 0 is first."""
    return coefficients[1:] * np.arange(1, coefficients.size)


def _jumps(pieces: Any) -> FloatArray:
    """Return rows (place, size, order) of the jumps of a density and its derivatives; order 0 is the density.

    `pieces` are (low, high, coefficients) of a piecewise polynomial density, lowest power first.
    """
    jumps: dict[tuple[float, int], float] = {}
    for low, high, coefficients in pieces:
        order, c = 0, coefficients
        while c.size:
            for end, sign in ((low, 1.0), (high, -1.0)):
                jumps[end, order] = jumps.get((end, order), 0.0) + sign * float(np.polyval(c[::-1], end))
            order, c = order + 1, _differentiate_polynomial(c)
    rows = [(at, abs(size), order) for (at, order), size in sorted(jumps.items()) if abs(size) > 1e-13]
    return np.array(rows, float).reshape(-1, 3)


def _variation(low: float, high: float, coefficients: FloatArray) -> float:
    """Return the total variation on [low, high] of a polynomial, `coefficients` from the lowest power."""
    slopes = _differentiate_polynomial(coefficients)
    turns = np.roots(slopes[::-1]) if slopes.size > 1 else np.empty(0)
    turns = np.real(turns[np.abs(np.imag(turns)) < 1e-9])
    extrema = np.unique(np.clip([low, high, *turns], low, high))
    return float(np.abs(np.diff(np.polyval(coefficients[::-1], extrema))).sum())


# --- Laws by name -------------------------------------------------------------------------------------------

_KNOWN: dict[str, ValueDistribution] = {}
_FAMILIES: dict[str, Callable[[float], ValueDistribution]] = {}


def register(values: ValueDistribution | Callable[[float], ValueDistribution], name: str = "") -> None:
    """Make `law_named` find a law of values by its name, or a family of laws by "name(number)".

    Parameters
    ----------
    values : ValueDistribution or callable
        A law, or a family: a function that returns the law for a number.
    name : str, optional
        Name of a family; for a law its own name is used.

    Raises
    ------
    ValueError
        If another law has the name.

    Examples
    --------
    >>> half = ValueDistribution("half", (0.5, 0.5), lambda k: 0.5**k, lambda rng, size: 0.5,
    ...                          atoms=[(0.5, 1.0)])
    >>> register(half)
    >>> law_named("values", "half") is half
    True
    """
    registry: dict[str, Any] = _KNOWN if isinstance(values, ValueDistribution) else _FAMILIES
    name = values.name if isinstance(values, ValueDistribution) else name
    if registry.get(name, values) is not values:
        raise ValueError(f"`values` must have a name that no other law has; got {name!r}.")
    registry[name] = values


def registered_names() -> tuple[str, ...]:
    """Names of the laws that are registered, the default first."""
    return tuple(sorted(_KNOWN, key=lambda name: (name != "uniform", name)))


def _family(name: str) -> ValueDistribution | None:
    """Return the law with a name like "rectified-normal(2)"; None if no such family is registered.

    A ValueError is raised if the family refuses the number. A name that ends in ", not 0" stands for the law
    of v given that v is not 0.
    """
    whole = name.removesuffix(_NOT_ZERO)
    if whole != name:
        law = _KNOWN.get(whole) or _family(whole)
        return law and law.nonzero
    match = re.fullmatch(r"(.+)\((.+)\)", name)
    if match is None or match[1] not in _FAMILIES:
        return None
    if match[2].count(",") == 1:  # as of other libraries, by low and high
        rule = '"uniform(low/high)" with the scale `high` for values on [low, high]'
        raise ValueError(f"`values` must have one number in brackets, such as {rule}; got {name!r}.")
    try:
        return _FAMILIES[match[1]](float(match[2]))
    except ValueError as error:
        raise ValueError(f"`values` must be a law; got {name!r}: {error}") from None


def definition(values: Any) -> Definition:
    """Return the SymPy `Definition` of `values`, a law or a law's name; raise a ValueError if it has none."""
    law_definition: Definition = require(
        law_named("values", values), "values", "definition", "a definition in SymPy"
    )()
    return law_definition


def law_named(name: str, values: Any) -> ValueDistribution:
    """Return `values` if it is a law, else the law of that name; raise a ValueError for an unknown name.

    `name` is the argument's name in the message.
    """
    if isinstance(values, ValueDistribution):
        return values
    if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str):
        rule = "one law for all features, whose sizes may differ by `scale`"
        raise ValueError(f"`{name}` must be {rule}; got {validation.short_repr(values)}.")
    law = _KNOWN.get(values) or _family(values) if isinstance(values, str) else None
    return law or _KNOWN[validation.choice(name, values, registered_names())]
