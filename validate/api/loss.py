"""The exact loss of a model in any form."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...solvers.deadline import Deadline
from ...solvers.loss import Loss, value_and_gradient
from ...solvers.loss.exact import model_loss
from ...solvers.loss.network.time_limit import OutOfTime
from ...solvers.loss.problem import Accuracy
from ...solvers.loss.result import SAMPLES
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.validation import FloatArray, count_noun, number
from ..audit.losses import loss_within
from ..audit.networks import GROUP_SECONDS, sampled_loss, seconds_of
from ..loading import Weights, load
from ..loading.models import require_identity_target, toy_model
from .answer import Answer, law_in_words, sampled_or_exact
from .entry import entry

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["loss"]

# Share of the loss from which on the error of an exact sum is compared with that of samples.
LARGE_ERROR = 0.01

_SOURCES = (
    "Elhage et al. (2022), Toy Models of Superposition: the loss, mean of importance times squared error",
    "superposition, page `loss`: how the expectation is taken without samples",
)


@entry
def loss(
    model: Any,
    law: Any,
    *,
    target: Any = "identity",
    tol: float = 1e-12,
    gradient: bool = False,
    seconds: float | None = None,
) -> Answer:
    """Return the exact expected loss of a model, without sampling where that is possible.

    >>> import numpy as np
    >>> answer = loss(np.array([[1.0], [-1.0]]), 0.1)
    >>> round(answer.loss, 12), answer.error_estimate < 1e-15
    (0.001666666667, True)

    Parameters
    ----------
    model : Model, torch.nn.Module, mapping, path, array_like or tuple
        A module, a state dict, a file of one, or arrays W, (W, b) or (W_out, W_in, b), as for `Model.of`.
    law : Features or float
        Law of the data; a number is the probability p that a feature is on.
    target : {"identity", "relu", "abs", "x+relu"} or array_like, optional
        What the outputs should be, by default the features x. For a model with linear outputs also ReLU(x),
        abs(x), x + ReLU(x), or A x, A f(x) or A f(x) + B x, passed as A, (A, "relu") or (A, "relu", B) for
        f = ReLU, with arrays A and B of shape (n_outputs, n_features). The same holds for hidden ReLUs with
        ReLU outputs, if each output reads neurons of one direction (parallel encodings).
    tol : float, optional
        Error to aim at, in units of E x_i^2.
    gradient : bool, optional
        Whether to add derivatives of the loss: `by_M` and `by_b` of ReLU(M x + b), with M = W_out W_in; of
        models with linear outputs those by each array, as `by_W_in`. Each has the shape of its array.
    seconds : float, optional
        Budget, without compiling: an exact loss that takes longer has fewer digits, or is a mean over as many
        samples as there is time for. A gradient that takes longer is refused.

    Returns
    -------
    Answer
        ``loss`` (mean over outputs of importance times expected squared error), ``error_estimate``,
        ``per_feature`` (n_outputs,) and ``per_feature_error`` without importance; of the gradient ``by_M``
        (n_features, n_features), ``by_b`` (n_features,), and ``gradient_error`` (n_outputs,), the error of
        each derivative by an output's row of M and by its b; ``method``, "samples" if the loss is a mean over
        samples. For networks with hidden ReLUs it is in two cases: the exact sum has the larger error, and
        this is above a hundredth of the loss; or no exact sum covers features that depend on each other. For
        any model it is if values have no transform (characteristic function). The error of such a mean is
        four standard errors.
    """
    tol = number("tol", tol, 0.0, 1.0, brackets="()")
    deadline = Deadline() if seconds is None else Deadline(seconds_of(seconds))
    model = load(model, law).one_model()
    features = as_features(law, model.n_features)
    added: dict[str, Any] = {"model": model, "law": features}
    losses: Any
    unit = "output" if model.output == "identity" or model.hidden == "relu" else "feature"
    if unit == "output":
        losses = _exact_or_sampled(model, features, target, tol, gradient, deadline)
        added |= {f"by_{name}": by for name, by in (losses.gradient or {}).items()}
    else:
        require_identity_target(target)
        toy = toy_model(model)
        if gradient:
            losses = value_and_gradient(toy.M, toy.bias, features, tol=tol)
        else:
            weights = Weights(toy.W_out, toy.W_in, toy.bias)
            losses = loss_within(weights, features, deadline, tol=tol, sample_on=True)
    data = partial(_dataset, losses, features.importance)
    certainty, note = sampled_or_exact(losses.method == SAMPLES)
    lines = partial(_lines_of, losses, features, unit)
    return Answer(lines, certainty, note, _SOURCES, losses, data, "draw_losses", _added=added)


def _dataset(losses: Any, importance: FloatArray) -> "xr.Dataset":
    """Return a dataset of ``loss``, and of each output ``per_feature``, its error and `importance`, repeated.

    `losses`, a `Loss`, has the loss (float), and per_feature, the outputs' mean squared errors without
    importance, with their numerical errors, ``per_feature_error``.
    """
    import xarray as xr

    return xr.Dataset(
        {
            **{name: ("feature", getattr(losses, name)) for name in ("per_feature", "per_feature_error")},
            "importance": ("feature", np.resize(importance, losses.per_feature.size)),
            "loss": losses.loss,
        }
    )


def _lines_of(losses: Any, law: Features, unit: str) -> tuple[str, ...]:
    """Return the answer's lines: the law, the loss per `unit`, "feature" or "output", and the worst of these.

    `losses`, a `Loss`, has the model's loss and those of its units. The loss per feature is also given
    relative to that of answering 0, and the worst feature has the largest product of loss and importance.
    """
    is_sampled = losses.method == SAMPLES
    kind, off = ("sampled", "four standard errors") if is_sampled else ("exact", "off by at most")
    weights, zero = np.ones(losses.per_feature.size), 0.0
    if unit == "feature":
        weights, zero = law.importance, float(np.mean(law.importance * law.second_moment))
    worst = int(np.argmax(weights * losses.per_feature))
    relative = (f"relative to answering 0   {100 * losses.loss / zero:.3g} %",) if zero > 0.0 else ()
    return (
        f"{count_noun(law.n_features, 'feature')}; {law_in_words(law)}",
        f"{f'{kind} loss per {unit}':25} {losses.loss:.7g}, {off} {losses.error_estimate:.1g}",
        *relative,
        f"{f'worst {unit}':25} {worst}, of {losses.per_feature.size}: {losses.per_feature[worst]:.7g}",
    )


def _exact_or_sampled(
    model: Model, features: Features, target: Any, tol: float, gradient: bool, deadline: Deadline
) -> Loss:
    """Return the exact loss of a network, or its loss by samples if this has the smaller error.

    The network is `model`, its outputs are compared with `target`, as in `loss`; `tol` is the error to aim at
    in units of E x_i^2. With `gradient` the loss is always exact and has its gradient. Else samples are used
    in three cases: the error of the exact loss is above a hundredth of it; there is no exact sum; or the sum
    would take more than half of the seconds left until `deadline` (for groups of features at most a minute).
    """
    time_limit = deadline.seconds_left()
    if not gradient:
        time_limit = min(0.5 * time_limit, GROUP_SECONDS if features.groups else np.inf)
    exact = None
    try:
        exact = model_loss(model, features, Accuracy(tol, time_limit=time_limit), gradient, target=target)
    except OutOfTime as out:
        if gradient:
            limit = f"about {out.seconds:.2g} or more for the gradient of this network"
            raise ValueError(f"`seconds` must be {limit}; got less.") from None
    except ValueError:  # of features that depend on each other sums may be too long
        if gradient or features.has_exact_sums:
            raise
    if exact is not None and (gradient or exact.error_estimate <= LARGE_ERROR * exact.loss):
        return exact
    sampled = sampled_loss(model, features, target, seconds=deadline.seconds_left())
    return sampled if exact is None else min(exact, sampled, key=lambda loss: loss.error_estimate)
