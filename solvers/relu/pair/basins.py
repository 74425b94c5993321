"""Basins of attraction of two features in one dimension: at which minimum a random gradient flow ends."""

import numpy as np

from ....theory import validation
from ....theory.validation import FloatArray
from ...parallel import parallel_concat
from ...results import result
from .diagram import families, phase_diagram
from .kernels import follow_flows

__all__ = ["Basins", "pair_basins"]

_SAME_LOSS = 1e-7  # losses within this of the best one, relative, belong to the same minimum
_MOST_STEPS = 20_000  # steps after which a flow counts as unresolved


@result
class Basins:
    """Counts of the minima at which gradient flows from random `starts` end, for two features.

    The features have this `p` and `importance`. `fraction` is best/starts, from `low` to `high` with the
    given `confidence` (Wilson's interval). `antipodal`, `dropped` and `same_sign` count the ends with w1 w2
    negative, one encoding zero, and w1 w2 positive, `unresolved` the flows that did not come close to a
    minimum in the steps allowed.
    """

    p: float
    importance: float
    starts: int
    best: int
    """Number of flows that end at the global minimum."""
    fraction: float
    low: float
    high: float
    confidence: float
    antipodal: int
    dropped: int
    same_sign: int
    unresolved: int
    W: FloatArray
    """Final encodings. Shape (starts, 2)."""
    loss: FloatArray
    """Final losses per feature. Shape (starts,)."""


def pair_basins(
    p: float,
    importance: float = 1.0,
    *,
    starts: int = 400,
    bias: bool = True,
    init_std: float = 0.5,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
    workers: int | None = None,
) -> Basins:
    r"""Return how often gradient flow from random starts ends at the global minimum, for two features.

    The flow is dx/dt = -grad L for the exact loss per feature, integrated by Heun's method with steps adapted
    to an error of 1e-4 and finished by Newton's method. An end counts as the global minimum if its loss is
    within a relative difference of 1e-7 of the least one, that of `phase_diagram`.

    Parameters
    ----------
    p, importance : float
        Probability that a feature is on, and importance of the second feature; ranges and errors are those of
        `phase_diagram`.
    bias : bool, optional
        Whether the biases are free. Otherwise they stay zero.
    starts, rng, init_std : int, Generator, float, optional
        Number of starts, up to a million, and what draws the initial encodings, independent and normal with
        this standard deviation; biases start at 0.
    confidence : float, optional
        Confidence of the interval for the fraction, in (0, 1).
    workers : int, optional
        Threads that share the starts; all of Numba's by default. The result does not depend on it.

    Examples
    --------
    >>> found = pair_basins(0.1, starts=200, rng=0)  # encodings keep the signs they start with
    >>> found.best, found.dropped, found.same_sign, found.unresolved
    (103, 0, 97, 0)
    """
    on = validation.number("p", p, 1e-4, 1)
    r = validation.number("importance", importance, 1e-4, 1e4)
    size = validation.integer("starts", starts, 1, 10**6)
    bias = validation.flag("bias", bias)
    std = validation.number("init_std", init_std, 0.01, 10)
    level = validation.number("confidence", confidence, 0, 1, brackets="()")
    x = np.zeros((size, 4))
    x[:, :2] = std * validation.generator("rng", rng).standard_normal((size, 2))
    threads = None if workers is None else validation.integer("workers", workers, 1)
    losses, status_codes = parallel_concat(
        lambda part: follow_flows(x[part], r, on, bias, _MOST_STEPS), size, threads
    )
    least = float(phase_diagram([on], [r], bias=bias).loss[0, 0])
    arrived = status_codes > 0
    best = int(np.sum(arrived & (losses <= least * (1.0 + _SAME_LOSS))))
    from scipy.stats import binomtest  # half a second of import, needed only here

    interval = binomtest(best, size).proportion_ci(level, method="wilson")
    counts = np.bincount(families(x[arrived, :2], bias), minlength=3).tolist()
    return Basins(
        p=on,
        importance=r,
        starts=size,
        best=best,
        fraction=best / size,
        low=float(interval.low),
        high=float(interval.high),
        confidence=level,
        antipodal=counts[0],
        dropped=counts[1],
        same_sign=counts[2],
        unresolved=int(np.sum(~arrived)),
        W=x[:, :2],
        loss=losses,
    )
