"""The exact loss within a budget of seconds: as many digits as there is time for."""

from collections.abc import Callable

import numpy as np

from ...theory.validation import FloatArray
from ..deadline import Deadline, work_seconds
from .evaluator import Evaluator, Loss

__all__ = ["loss_by"]

# Tolerances that are tried one after the other before the last one.
_TOLERANCES = (1e-3, 1e-6)
# Methods whose error is rounding alone, whatever the tolerance.
_EXACT = {"classes", "folds", "patterns"}
# Seconds that a first number may take although the deadline is over.
_LEAST_SECONDS = 0.3
# Share of the seconds left that further digits may take.
_SHARE = 0.25


def loss_by(
    deadline: Deadline, M: FloatArray, b: FloatArray, evaluator_of: Callable[[float], Evaluator], tol: float
) -> Loss | None:
    """Return the loss of ReLU(M x + b) with an error of about `tol`, or what there is time for.

    Parameters
    ----------
    deadline : Deadline
        A quarter of what is left of it may be spent, and always 0.3 seconds.
    M, b : (n, n), (n,) ndarray
    evaluator_of : callable
        Returns the evaluator of a tolerance.
    tol : float

    Returns
    -------
    Loss or None
        None if even three digits would take longer.

    Examples
    --------
    >>> found = loss_by(Deadline(1.0), np.eye(3), np.zeros(3), lambda tol: Evaluator(0.1, tol=tol), 1e-12)
    >>> found.loss < 1e-15
    True
    """
    if not deadline.is_limit():
        return evaluator_of(tol).of_arrays(M, b)
    loss = None
    longest = [int(np.argmax(np.abs(M).sum(axis=1)))]
    for digits in (*(tolerance for tolerance in _TOLERANCES if tolerance > tol), tol):
        left = max(_SHARE * deadline.seconds_left(), 0.0 if loss else _LEAST_SECONDS)
        evaluator = evaluator_of(digits)
        for _ in range(2):  # the first time something may be prepared that all rows share
            start = work_seconds()
            evaluator.of_arrays(M, b, rows=longest)
            needed = len(M) * (work_seconds() - start)
            if needed <= left or needed > 20.0 * left:
                break
        if needed > left:
            break
        loss = evaluator.of_arrays(M, b)
        if set(loss.method.split(", ")) <= _EXACT:
            break
    return loss
