"""The stopping rule of a phase of training, and its learning rates."""

from collections.abc import Sequence

import numpy as np

from ...theory import validation
from ...theory.annotations import as_annotated

# The two ends that training can have, and which of them each schedule reaches, in this order.
STOPPING_RULE, CONVERGED = "stopping rule", "converged"
ENDS = {
    "paper": (STOPPING_RULE,),
    "converged": (CONVERGED,),
    "both": (STOPPING_RULE, CONVERGED),
    "liu": (CONVERGED,),
}

# Losses are recorded, and the stopping rule is checked, once in so many batches: the window of
# Cowsik et al. (2024), §2.
BLOCK = 100

# Share of the converging phase in which the learning rate rises; Adam's second moments settle within
# 1/(1 - 0.999) = 1000 steps, which is 5 % of the default budget.
WARM_UP = 0.05

# Share of the steps in which the rate rises, and the last rate over the largest, in the public code of Liu
# et al. (2025): 2000 of 20,000 steps.
LIU = (0.1, 0.05)


def is_falling(history: Sequence[float]) -> bool:
    """Return whether training continues under the stopping rule of Cowsik et al. (2024), §2.

    "Training continues as long as the average loss over the past 100 batches is lower than the average loss
    over the 100 batches prior to that one." The history has mean losses over consecutive blocks of 100
    batches, oldest first, all finite; training continues while there are fewer than two.

    Examples
    --------
    >>> is_falling([0.30, 0.20]), is_falling([0.30, 0.20, 0.20])
    (True, False)
    """
    losses = validation.real("history", history)
    if losses.shape in ((0,), (1,)):
        return True
    previous, last = validation.vector("history", losses)[-2:]
    return bool(last < previous)


@as_annotated
def learning_rates(
    first: int, count: int, steps: int, peak: float, *, warm_up: float = WARM_UP, last: float = 0.0
) -> np.ndarray:
    """Return learning rates (count,) of the converging phase: a linear rise, then half a cosine down.

    The phase has a fixed number of `steps` and follows the stopping rule or replaces it. The rates are those
    of `count` consecutive steps from number `first`, counted from 0 in the phase. They rise to the largest,
    `peak`, over the share `warm_up` of the phase; the cosine falls to `last` times `peak`, so that with 0 the
    last step has a rate of order ``peak / steps**2``.

    Examples
    --------
    >>> learning_rates(0, 4, 4, 1.0).round(3)
    array([1.   , 0.854, 0.5  , 0.146])
    """
    steps = validation.integer("steps", steps, 1)
    first = validation.integer("first", first, 0, steps)
    count = validation.integer("count", count, 0, steps - first)
    validation.real("peak", peak, 0, brackets="()")
    rise = int(validation.number("warm_up", warm_up, 0.0, 1.0, brackets="[)") * steps)
    last = validation.number("last", last, 0.0, 1.0)
    step = np.arange(first, first + count)
    cosine = 0.5 * (1 + np.cos(np.pi * np.maximum(step - rise, 0) / (steps - rise)))
    return peak * np.minimum((step + 1) / (rise + 1), 1) * (last + (1.0 - last) * cosine)
