"""What a network with a nonlinear hidden layer computes, and whether it beats computing a part exactly."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...solvers.loss import evaluator
from ...solvers.loss.evaluator import Loss
from ...solvers.loss.hidden.layer import Setting
from ...solvers.loss.hidden.network import importance_of, rest_of, targets
from ...solvers.loss.hidden.rectified import covers
from ...solvers.loss.methods.outputs import Law
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, as_features
from ...theory.models import Model
from ...theory.results import frozen, result
from .. import networks
from ..annotations import as_annotated
from ..layouts import named
from .read import answers, state_of

__all__ = ["NetworkAudit", "audit_network", "naive_loss", "read_network"]

_INPUTS, _SINGLE = 64, 1e-3
_SAMPLES, _BLOCK, _BLOCKS = "samples", 10_000, 40


@result
class NetworkAudit:
    """A network beside the naive solution, which computes as many targets as it has neurons for."""

    model: Model
    target: str
    """What the outputs are to be."""
    loss: float
    """Expected loss: mean over outputs of importance times squared error."""
    loss_error: float
    """What `loss` is off by at most; four standard errors where `method` is "samples"."""
    per_output: FloatArray
    """Expected squared error of each output, without importance."""
    method: str
    """How the loss was computed."""
    zero_loss: float
    """Loss of answering each output by the mean of its target."""
    naive: float
    """Loss of the naive solution; nan where features are not independent."""
    naive_features: int
    """How many features it computes."""
    gradient_norm: float
    """Length of the gradient by all weights, biases and thresholds; nan where outputs bend.

    A residual path is part of the target, and not of the weights.
    """

    @property
    def beats_naive(self) -> bool | None:
        """Whether the loss is below that of the naive solution; None where that is not decided."""
        if np.isnan(self.naive) or abs(self.loss - self.naive) <= self.loss_error:
            return None
        return self.loss < self.naive

    @property
    def sentence(self) -> str:
        """What was found."""
        loss = f"Loss {self.loss:.6g}"
        if self.method == _SAMPLES:
            loss += f" +- {self.loss_error:.1g} by samples"
        if np.isnan(self.naive):
            return f"{loss}. For features that are not independent no naive solution is known."
        naive = (
            f"the naive solution, which computes {self.naive_features} of {self.model.n_features} features "
            f"with as many neurons and answers the others by their means, {self.naive:.6g}"
        )
        gap = abs(self.loss - self.naive) / self.naive if self.naive else np.inf
        if self.beats_naive is None:
            return f"{loss}, as {naive}."
        side = "below" if self.beats_naive else "above"
        by = f"{100.0 * gap:.3g} % {side} " if np.isfinite(gap) else f"{side} "
        return f"{loss}, {by}{naive}."


def naive_loss(
    law: Any, n_hidden: int, target: Any = "identity", n_outputs: int | None = None
) -> tuple[float, int]:
    r"""Return the loss of computing the targets of as many features as neurons allow, and how many these are.

    The features are those whose targets matter most; all others are answered by their means. A feature takes
    one hidden ReLU, or two where its target is no ReLU of it: \|x\| of values of both signs, or such a value
    itself if it has no bounds.

    Parameters
    ----------
    law : float or Features
        Of independent features.
    n_hidden : int
        Number of hidden neurons.
    target
        As of `solvers.loss.evaluator`.
    n_outputs : int, optional
        By default one for each feature of the law.

    Raises
    ------
    ValueError
        If the features of `law` are not independent, or an argument is out of range.

    Examples
    --------
    >>> naive_loss(Features(4, 0.1, "symmetric"), 2, "relu")     # E relu(x)^2 = p/6, of mean p/4
    (0.008020833333333333, 2)
    """
    if not isinstance(law, Features):
        raise ValueError(f"`law` must be Features; got {arguments.shown(law)}.")
    n_hidden = arguments.integer("n_hidden", n_hidden, 1)
    if not law.independent:
        raise ValueError("`law` must be of independent features; got groups or `exactly`.")
    outputs = law.n_features if n_outputs is None else arguments.integer("n_outputs", n_outputs, 1)
    A, name, B = targets(target, outputs, law.n_features)
    setting, mean = Setting.of(Law(law), name, 1e-12, 1.0), float(law.values.moment(1))
    importance = law.importance if outputs == law.n_features else np.full(outputs, law.importance[0])
    A, B = (np.zeros(A.shape) if one is None else one * law.scale for one in (A, B))
    # Variances of f(x) and of x, and their covariance.
    of_f = law.p * setting.square - (law.p * setting.mean) ** 2
    of_x = law.p * float(law.values.moment(2)) - (law.p * mean) ** 2
    shared = law.p * setting.cross - law.p**2 * setting.mean * mean
    shares = importance @ (A**2 * of_f + 2.0 * A * B * shared + B**2 * of_x) / outputs
    low, high = law.values.support
    two = low < 0.0 and (name == "abs" or (name == "identity" and not np.isfinite([low, high]).all()))
    kept = min(n_hidden // (2 if two else 1), law.n_features)
    computed = shares
    if B.any() and not two:  # a neuron f(x) is read for its part of B x
        computed = importance @ (A * of_f + B * shared) ** 2 / np.where(of_f > 0.0, of_f, 1.0) / outputs
    order = np.argsort(-computed, kind="stable")
    return float(np.sum(shares) - np.sum(computed[order[:kept]])), int(kept)


@as_annotated
def audit_network(model: Model, law: Any, target: Any = "identity", *, tol: float = 1e-6) -> NetworkAudit:
    """Return what a network is worth beside the naive solution.

    Parameters
    ----------
    model : Model
        With nonlinear hidden neurons and linear outputs.
    law : float or Features
    target
        As of `solvers.loss.evaluator`.
    tol : float, optional
        Error to aim at, as there.

    Raises
    ------
    ValueError
        As `solvers.loss.evaluator` does.

    Examples
    --------
    >>> one = Model([[1.0, 0.0]], hidden="relu", output="identity")
    >>> found = audit_network(one, Features(2, 0.1, "symmetric"), "relu")
    >>> round(found.loss, 9), round(found.naive, 9), found.beats_naive
    (0.008333333, 0.008020833, False)
    """
    features = as_features(law, model.n_features)
    A, name, B = targets(target, model.n_outputs, model.n_features)
    given, (model, B) = model, rest_of(model, B)
    goal = (A, name) if B is None else (A, name, B)
    bends = model.output != "identity"
    if bends and not covers(model):
        found = _sampled(model, features, goal)
    else:
        found = evaluator(features, tol=tol)(model, gradient=not bends, target=goal)
    zero = Model(np.zeros((1, model.n_features)), W_out=np.zeros((model.n_outputs, 1)), output="identity")
    f = evaluator(features)
    nothing = f(zero, gradient=True, target=goal)
    assert nothing.gradient is not None
    means = -0.5 * model.n_outputs * nothing.gradient["b"]  # importance times the targets' means
    importance = importance_of(Law(features), model.n_outputs)
    of_mean = np.divide(means**2, importance, out=np.zeros_like(means), where=importance > 0.0)
    naive, kept = np.nan, 0
    if features.independent:
        naive, kept = naive_loss(features, model.n_hidden, goal, model.n_outputs)
    length = np.nan
    if found.gradient is not None:
        length = float(np.sqrt(sum(np.sum(one**2) for one in found.gradient.values())))
    return NetworkAudit(
        model=given,
        target=target if isinstance(target, str) else f"a matrix of {name}",
        loss=found.loss,
        loss_error=found.error_estimate,
        per_output=frozen(np.array(found.per_feature)),
        method=found.method,
        zero_loss=nothing.loss - float(np.mean(of_mean)),
        naive=naive,
        naive_features=kept,
        gradient_norm=length,
    )


def _sampled(model: Model, law: Features, goal: tuple[Any, ...]) -> Loss:
    """Return a loss with four standard errors, from samples in which a feature is on."""
    (A, name, B), rng = (*goal, None)[:3], np.random.default_rng(0)
    importance = importance_of(Law(law), model.n_outputs)
    quiet = float(np.prod(1.0 - law.p)) if law.independent else 0.0
    first = np.cumsum(law.p * np.cumprod(np.r_[1.0, 1.0 - law.p])[:-1])  # which one is the first that is on

    def errors(x: FloatArray) -> FloatArray:
        f = x if name == "identity" else (np.abs(x) if name == "abs" else np.maximum(x, 0.0))
        wanted = f @ A.T if B is None else f @ A.T + x @ B.T
        return np.asarray((wanted - model(x)) ** 2)

    def draw() -> FloatArray:
        if not law.independent:
            return law.sample(_BLOCK, rng)
        places, at = np.arange(law.n_features), np.searchsorted(first / first[-1], rng.random(_BLOCK))
        on = (rng.random((_BLOCK, law.n_features)) < law.p) & (places > at[:, None])
        on |= places == at[:, None]
        x = on * law.scale
        x[on] *= law.values.draw(rng, np.count_nonzero(on))
        return np.asarray(x)

    silent, sums = errors(np.zeros((1, law.n_features)))[0], np.zeros((2, model.n_outputs + 1))
    for _ in range(_BLOCKS):
        each = errors(draw())
        each = np.concatenate([each, each @ importance[:, None] / model.n_outputs], axis=1)
        sums += each.sum(axis=0), (each**2).sum(axis=0)
    count = _BLOCK * _BLOCKS
    mean, square = sums / count
    off = 4.0 * (1.0 - quiet) * np.sqrt(np.maximum(square - mean**2, 0.0) / count)
    mean = (1.0 - quiet) * mean + quiet * np.r_[silent, importance @ silent / model.n_outputs]
    return Loss(float(mean[-1]), float(off[-1]), mean[:-1], off[:-1], method=_SAMPLES)


def read_network(
    model: Any, layout: str | None, keys: Mapping[str, str] | None = None
) -> tuple[str, list[Model]] | None:
    """Return the layout and the instances of a nonlinear network, or None if what is given is none.

    A live module must compute what its weights say.
    """
    if keys is not None or not (isinstance(model, str | Path | Mapping) or hasattr(model, "state_dict")):
        return None
    arrays = named(state_of(model))
    if not all(isinstance(one, np.ndarray) and one.dtype.kind in "fiu" for one in arrays.values()):
        return None
    found = networks.recognised(arrays, layout)
    if found is not None and callable(model) and hasattr(model, "children"):
        _check(model, found[1])
    return found


def _check(module: Any, models: list[Model]) -> None:
    """Refuse a live module that computes something else than its weights say."""
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (_INPUTS, models[0].n_features))
    if len(models) > 1:
        x = np.repeat(x[:, None], len(models), axis=1)
    found = answers(module, x)
    if found is None:
        return
    wanted = np.stack([one(x[:, k] if len(models) > 1 else x) for k, one in enumerate(models)], axis=1)
    wanted = wanted if len(models) > 1 else wanted[:, 0]
    if found.shape != wanted.shape or np.abs(found - wanted).max() > _SINGLE * np.abs(wanted).max():
        raise ValueError(
            f"`model` must compute what its weights were taken for, {models[0]!r}; got a module with other "
            "outputs, as of another activation."
        )
