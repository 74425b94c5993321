"""The result of a derivation: a SymPy expression, its symbols, and its assumptions."""

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from .results import result
from .validation import integer, short_repr

__all__ = ["Derivation", "cached_derivation", "derived", "sp"]

P = ParamSpec("P")
R = TypeVar("R")

# Digits that are computed beyond those asked for, more each time until two answers agree.
_GUARDS = (15, 60, 240, 960, 3840)


class _Lazy:
    """Stand-in for the module sympy, which is imported at the first attribute: that takes a second."""

    def __getattr__(self, name: str) -> Any:
        import sympy

        return getattr(sympy, name)


sp: Any = _Lazy()


@result
class Derivation:
    """An expression that was derived, with the symbols that it is a function of.

    Parameters
    ----------
    expression : SymPy expression or matrix
    symbols : tuple of SymPy symbols
        Arguments of the expression, in this order: all its free symbols, and maybe symbols that dropped out.
    assumptions : tuple of str
        Sentences with the conditions under which the expression holds.

    Raises
    ------
    ValueError
        If the expression has a free symbol that is not among the symbols, or two symbols have one name.

    Examples
    --------
    >>> import sympy as sp
    >>> x = sp.Symbol("x", positive=True)
    >>> half = Derivation(1 - sp.cos(x), (x,), ("x is an angle.",))
    >>> half
    Derivation(expression=1 - cos(x), symbols=(x,), assumptions=('x is an angle.',))
    >>> float(half.numeric()(1e-12)), float(half.evaluate({"x": 1e-12}))  # the second loses no digits
    (0.0, 5e-25)
    """

    expression: Any
    symbols: tuple[Any, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if hasattr(self.expression, "as_immutable"):
            object.__setattr__(self, "expression", self.expression.as_immutable())
        names = [str(symbol) for symbol in self.symbols]
        missing = {str(free_symbol) for free_symbol in self.expression.free_symbols.difference(self.symbols)}
        if missing or len(set(names)) < len(names):
            raise ValueError(
                f"`symbols` must be all free symbols of the expression, {sorted(missing | set(names))}, "
                f"each name once; got {names}."
            )

    def evaluate(self, values: Mapping[str, Any], digits: int = 50) -> Any:
        """Evaluate the expression with mpmath to `digits` correct digits.

        The working precision grows until two results agree, so terms that cancel in doubles do no harm.

        Parameters
        ----------
        values : mapping of str to number
            A value for the name of each symbol: an int, a float (taken as the exact binary number that it
            is), a Fraction or an mpmath number.
        digits : int, optional
            Significant digits of the result.

        Returns
        -------
        mpmath number or matrix

        Raises
        ------
        ValueError
            If the names in `values` are not those of the symbols, or so many digits cannot be reached.
        """
        import mpmath

        digits = integer("digits", digits, 1, 10_000)
        names = [str(symbol) for symbol in self.symbols]
        if sorted(values) != sorted(names):
            raise ValueError(
                f"`values` must have the names {sorted(names)}; got {short_repr(sorted(values))}."
            )
        function = self._lambdify("mpmath")
        previous = None
        for guard in _GUARDS:
            with mpmath.workdps(digits + guard):
                value = function(*(mpmath.mpmathify(values[name]) for name in names))
                # 0 may be what cancelled, so the most digits that are tried decide on it
                sure = guard == _GUARDS[-1] or 0 not in _entries(value)
                if previous is not None and sure and _agree_to_digits(previous, value, digits):
                    return value
            previous = value
        raise ValueError(f"`digits` must be fewer for {self.expression}; got {digits}.")

    def numeric(self) -> Callable[..., Any]:
        """Return the expression as a function of NumPy arrays, one argument a symbol, in their order.

        Its rounding errors are those of the expression as it stands, in which terms may cancel.
        """
        return self._lambdify(["scipy", "numpy"])  # type: ignore[no-any-return]

    def _lambdify(self, modules: Any) -> Any:
        """Return a function of the values of `symbols` that evaluates the expression, by SymPy's `lambdify`.

        `modules` is an argument of `lambdify`, such as "mpmath" or ["scipy", "numpy"].
        """
        return sp.lambdify(self.symbols, self.expression, modules)


def derived(expression: Any, *assumptions: str) -> Derivation:
    """Return a `Derivation` of `expression`, with its free symbols sorted by name.

    `assumptions` are sentences.
    """
    return Derivation(expression, tuple(sorted(expression.free_symbols, key=str)), assumptions)


def cached_derivation(derive: Callable[P, R]) -> Callable[P, R]:
    """Decorate the function `derive` so that its result is cached by its arguments: SymPy takes seconds."""
    cached: Any = lru_cache(maxsize=None, typed=True)(derive)

    @wraps(derive)
    def derive_once(*args: P.args, **kwargs: P.kwargs) -> R:
        """Return the cached derivation for these arguments."""
        try:
            hash((args, *kwargs.values()))
        except TypeError:  # not a valid argument, which the derivation says
            return derive(*args, **kwargs)
        return cast(R, cached(*args, **kwargs))

    return derive_once


def _entries(value: Any) -> list[Any]:
    """Return the entries of the mpmath matrix `value`, or a list of the number itself."""
    import mpmath

    return [*value] if isinstance(value, mpmath.matrix) else [value]


def _agree_to_digits(left: Any, right: Any, digits: int) -> bool:
    """Return whether all entries of the results `left` and `right` agree to `digits` digits."""
    import mpmath

    small = mpmath.mpf(10) ** -digits
    nothing = small * mpmath.mpf(10) ** -600  # what shrinks as digits are added is zero
    return all(
        abs(a - b) <= max(small * abs(b), nothing)
        for a, b in zip(_entries(left), _entries(right), strict=True)
    )
