"""What the best models look like over the grid, as tables."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from .grid import IMPORTANCES
from .store import Entry, entries

# From this share of the tied loss on, free weights count as better.
_BETTER = 0.01


def _kinds(structure: str) -> str:
    """Return the groups of a structure, counted, without the features; what is dropped is last."""
    counts = Counter(group.rpartition(" ")[0] for group in structure.split(", "))
    order = sorted(counts, key=lambda name: (name == "dropped", name))
    return ", ".join(name if counts[name] == 1 else f"{name} ({counts[name]})" for name in order)


def structures(importance: str = "equal", tied: bool = True) -> list[list[str]]:
    """Return which groups the encodings form: a row for each size, a column for each p.

    Parameters
    ----------
    importance, tied
        As for `entries`.

    Returns
    -------
    list of list of str
        The first row holds the headings.

    Examples
    --------
    >>> [row[:2] for row in structures()[:2]]
    [['n, m', 'p = 0.01'], ['2, 1', 'antipodal pair']]
    """
    found = entries(importance=importance, tied=tied)
    rows: dict[tuple[int, int], list[str]] = {}
    for one in found:
        rows.setdefault((one.n_features, one.n_hidden), []).append(_kinds(one.structure))
    heads = [f"p = {p:g}" for p in dict.fromkeys(one.p for one in found)]
    return [["n, m", *heads], *([f"{n}, {m}", *texts] for (n, m), texts in rows.items())]


def _compared(tied: Sequence[Entry], free: Sequence[Entry]) -> list[str]:
    gains = np.array([1.0 - two.loss / one.loss for one, two in zip(tied, free, strict=True)])
    most = tied[int(np.argmax(gains))]
    several = [sum(one.minima > 1 for one in some) for some in (tied, free)]
    rare = [sum(one.hits <= 1 for one in some) for some in (tied, free)]
    return [
        f"{np.sum(gains > _BETTER)} of {len(gains)}",
        f"{gains.max():.0%} ({most.n_features} in {most.n_hidden})",
        f"{np.median([one.held for one in free]):g}",
        "{}, {}".format(*several),
        "{}, {}".format(*rare),
    ]


def comparison() -> list[list[str]]:
    """Return free weights beside tied ones, and how many minima there are, for all p and importances.

    Returns
    -------
    list of list of str
        The first row holds the headings.

    Examples
    --------
    >>> comparison()[1][:2]
    ['0.01, equal', '26 of 26']
    """
    heads = ["p, importance", "free better by 1 %", "at most by", "free weights at 2 (median)"]
    rows = [[*heads, "several minima: tied, free", "best found at most once: tied, free"]]
    for importance in IMPORTANCES:
        for p in dict.fromkeys(one.p for one in entries()):
            pair = [entries(p=p, importance=importance, tied=tied) for tied in (True, False)]
            rows.append([f"{p:g}, {importance}", *_compared(*pair)])
    return rows
