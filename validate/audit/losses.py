"""The losses of models within a budget of seconds, and the best biases for files without them."""

from dataclasses import replace

import numpy as np

from ...solvers.deadline import Deadline
from ...solvers.loss import exact_loss
from ...solvers.loss.budget import loss_by_descent_kernel, loss_within_deadline
from ...solvers.loss.exact import evaluate
from ...solvers.loss.problem import Accuracy, LossProblem
from ...solvers.loss.result import Loss
from ...theory.features import Features
from ...theory.model import Model
from ...theory.validation import FloatArray
from ..loading import Weights
from .networks import sampled_loss

# A loss that is computed whether or not there are seconds left.
_DEFAULT_TOL = 1e-12
# Share of a model's seconds that the search for the biases may take which a file leaves out.
_BIAS_SHARE = 0.3
# Grid points of the first look at a bias, and the error of their losses.
_GRID_POINTS = 33
_GRID_TOL = 1e-4
# Golden section: steps, and the error of its losses up to `_MANY_FEATURES` and above, where a thousand fine
# ones take minutes.
_GOLDEN_STEPS = 30
_GOLDEN_TOL = 1e-10
_GOLDEN_TOL_MANY = 1e-8
_MANY_FEATURES = 128
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def loss_within(
    model: Weights,
    law: Features,
    deadline: Deadline,
    *,
    tol: float = _DEFAULT_TOL,
    sample_on: bool = False,
    has_descents: bool = False,
) -> Loss:
    """Return the exact loss of a model, with fewer digits if time is short, or else its loss by samples.

    `tol` is the error to aim at, in units of E x_i^2. With `sample_on` samples are drawn until the
    `deadline`; otherwise there are 20,000, fewer of many features. A `law` of values for which no exact loss
    is known is sampled with `sample_on`, and otherwise raises a ValueError. If `has_descents`, the caller
    makes descents too: then the loss of few uniform features comes from their kernel.
    """
    problem, loss = LossProblem.of_product(model.W_out, model.W_in, model.b, law), None
    if has_descents:
        loss = loss_by_descent_kernel(problem, Accuracy(tol, workers=None))
        if loss is not None:
            return loss
    try:
        if not deadline.is_limit():
            return evaluate(problem, Accuracy(tol, workers=None))
        loss = loss_within_deadline(deadline, problem, Accuracy(tol))
    except ValueError:
        if not sample_on or law.values.has_exact_losses:
            raise
    if loss is not None:
        return loss
    seconds = deadline.seconds_left() if sample_on else 0.0
    return sampled_loss(Model(model.W_in, W_out=model.W_out, b=model.b), law, seconds=seconds)


def best_bias(M: FloatArray, law: Features, deadline: Deadline | None = None) -> FloatArray:
    """Return the biases b (n,) for which ReLU(M x + b) has the least exact loss, to some 1e-5 of x_i's scale.

    M = W_out W_in is (n, n). Each output's loss depends on its own bias alone, so that all biases are
    searched at once: on a grid, from a bias at which the output is almost never on to one at which it almost
    always is, then by golden section around the best grid point. At the deadline the best biases so far are
    returned.

    Examples
    --------
    >>> best_bias(np.zeros((2, 2)), Features(2, 0.1)).round(4)  # a dropped feature is answered by its mean
    array([0.05, 0.05])
    """

    def losses(b: FloatArray, tol: float) -> FloatArray:
        """Return the loss of each output with the biases b (n,), to an error of `tol`."""
        return exact_loss(M, b, law, tol=tol).per_feature

    # SciPy's elementwise minimiser would drop outputs that have converged; this loss is computed for all.
    fine = _GOLDEN_TOL if law.n_features <= _MANY_FEATURES else _GOLDEN_TOL_MANY
    deadline = deadline or Deadline()
    mean = M @ law.mean
    reach = np.abs(mean) + 5.0 * np.sqrt(np.sum((M @ law.covariance()) * M, axis=1))
    low, high = -reach - np.maximum(M.diagonal(), 0.0) * law.scale, reach + np.abs(law.mean)
    grid = np.linspace(low, high, _GRID_POINTS)
    grid_losses = []
    from_middle = np.argsort(np.abs(np.arange(_GRID_POINTS) - _GRID_POINTS // 2), kind="stable")
    for b in grid[from_middle]:
        grid_losses.append((b, losses(b, _GRID_TOL)))
        if deadline.is_over():
            order = np.argmin([loss for _, loss in grid_losses], axis=0)
            return np.asarray(np.array([b for b, _ in grid_losses])[order, np.arange(len(M))])
    grid_losses.sort(key=lambda pair: float(pair[0].sum()))
    best = np.argmin([loss for _, loss in grid_losses], axis=0)
    step = (high - low) / (_GRID_POINTS - 1)
    low, high = low + (best - 1) * step, low + (best + 1) * step
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = losses(left, fine), losses(right, fine)
    for _ in range(_GOLDEN_STEPS):
        if deadline.is_over():
            break
        down = at_left < at_right  # the best lies below `right`, else above `left`
        low, high = np.where(down, low, left), np.where(down, right, high)
        new = np.where(down, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = losses(new, fine)
        left, right = np.where(down, new, right), np.where(down, left, new)
        at_left, at_right = np.where(down, at_new, at_right), np.where(down, at_left, at_new)
    return np.asarray((low + high) / 2.0)


def with_losses(
    group: list[tuple[int, Weights]], law: Features, deadline: Deadline
) -> tuple[list[tuple[int, Weights]], list[Loss]]:
    """Return (instance, model) pairs, with the best bias where a file has none, and the loss of each model.

    `group` has such pairs with biases as saved; an instance is the number of a model in its file. All have
    equal shares of the time until the deadline.
    """
    with_biases, losses = [], []
    for done, (k, saved) in enumerate(group):
        part, model = deadline.part(1.0 / (len(group) - done)), saved
        if not saved.b_saved:
            model = replace(saved, b=best_bias(saved.W_out @ saved.W_in, law, part.part(_BIAS_SHARE)))
        with_biases.append((k, model))
        losses.append(loss_within(model, law, part, has_descents=True))
    return with_biases, losses
