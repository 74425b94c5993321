"""The exact loss before a deadline, as many digits as there is time for, or by the kernel of descents."""

from dataclasses import replace

import numpy as np

from ..deadline import Deadline, work_seconds
from .dispatch import EXACT, METHODS, MOST_NODES_WITHOUT_FREQUENCIES, NAMES
from .exact import evaluate
from .methods import folding, uniform_fourier
from .problem import Accuracy, LossProblem
from .result import Loss

__all__ = ["loss_by_descent_kernel", "loss_within_deadline"]

# Features up to which a loss and its derivatives take at most a tenth of a second.
_FEW_FEATURES = 64
# Tolerances that are tried one after the other before the last one.
_TOLERANCES = (1e-3, 1e-6)
# Seconds that a first number may take although the deadline is over.
_LEAST_SECONDS = 0.3
# Share of the seconds left that further digits may take.
_SHARE_OF_SECONDS_LEFT = 0.25


def loss_within_deadline(deadline: Deadline, problem: LossProblem, accuracy: Accuracy) -> Loss | None:
    """Return the loss of a problem to an accuracy, or to as many digits as there is time for.

    Parameters
    ----------
    deadline : Deadline
        Tolerances 1e-3, 1e-6 and `accuracy.tol` are tried in turn. Each attempt may take a quarter of the
        seconds left, the first one at least 0.3 seconds.
    problem : LossProblem
        Outputs of a model at a law of the data.
    accuracy : Accuracy
        Error to aim at, and limits of the cost.

    Returns
    -------
    Loss or None
        None if even three digits would take longer.

    Examples
    --------
    >>> loss_within_deadline(Deadline(1.0), LossProblem.of(np.eye(3), 0.0, 0.1), Accuracy()).loss < 1e-15
    True
    """
    if not deadline.is_limit():
        return evaluate(problem, accuracy)
    loss = None
    longest = problem.picked([int(np.argmax(np.abs(problem.weights).sum(axis=1)))])
    for tol in (*(tolerance for tolerance in _TOLERANCES if tolerance > accuracy.tol), accuracy.tol):
        left = max(_SHARE_OF_SECONDS_LEFT * deadline.seconds_left(), 0.0 if loss else _LEAST_SECONDS)
        digits = replace(accuracy, tol=tol)
        for _ in range(2):  # the first time something may be prepared that all rows share
            start = work_seconds()
            evaluate(longest, digits)
            needed = problem.biases.size * (work_seconds() - start)
            if needed <= left or needed > 20.0 * left:
                break
        if needed > left:
            break
        loss = evaluate(problem, digits)
        if all(METHODS.get(name) in EXACT for name in loss.method.split(", ")):
            break
    return loss


def loss_by_descent_kernel(problem: LossProblem, accuracy: Accuracy) -> Loss | None:
    """Return the loss of few independent uniform features by the kernel that descents use, or else None.

    That kernel computes derivatives too, in up to ten times the time. Where there are descents, no other need
    be compiled, which takes over a second.

    Parameters
    ----------
    problem : LossProblem
        Outputs of a model at a law of the data.
    accuracy : Accuracy
        Error to aim at, and limits of the cost.

    Returns
    -------
    Loss or None
        None for other laws, for up to 14 features, for more than 64, or if the error is over twice the one to
        aim at.

    Examples
    --------
    >>> loss_by_descent_kernel(LossProblem.of(np.eye(20), 0.0, 0.1), Accuracy()).loss < 1e-15
    True
    """
    law = problem.law
    if not (law.independent and law.values.uniform and law.classes is None and law.n <= _FEW_FEATURES):
        return None
    if folding.terms(law) <= MOST_NODES_WITHOUT_FREQUENCIES:  # by one kernel with derivatives or without
        return None
    by_levels = replace(accuracy, method=NAMES[uniform_fourier], refuse_lost=False)
    loss = evaluate(problem, by_levels, gradient=True)
    aimed = accuracy.tol * np.maximum(loss.per_feature, (law.square * law.scale**2)[problem.target])
    return loss if np.all(loss.per_feature_error <= 2.0 * aimed) else None
