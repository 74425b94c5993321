"""Checks of the arguments of this package."""

from .. import arguments

__all__ = ["checked", "strength"]


def checked(**chances: float) -> tuple[float, ...]:
    """Return probabilities of patterns that exclude each other, after checking them."""
    found = tuple(arguments.number(name, one, 0.0, 1.0, brackets="(]") for name, one in chances.items())
    if sum(found) > 1.0 + 1e-12:
        raise ValueError(
            f"`{next(iter(chances))}` must leave a sum of at most 1; got {', '.join(map(str, found))}."
        )
    return found


def strength(l1: float) -> float:
    """Return an l1 strength, after checking it: from 2 on it switches off what one feature alone does."""
    return arguments.number("l1", l1, 0.0, 2.0, brackets="[)")
