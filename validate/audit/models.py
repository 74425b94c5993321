"""Audits of trained toy models beside the best known model of their size."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...solvers.deadline import Deadline
from ...solvers.loss.result import Loss
from ...solvers.minimise.objective import Objective
from ...solvers.relu import named_groups
from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.relu import feature_dimensionality
from ...theory.results import result
from ...theory.validation import FloatArray, short_repr
from ..loading import Hints, Weights, load, state_of
from ..loading.live import is_live
from ..reference import files
from .descents import dead_outputs, descents, gradient_norm
from .losses import with_losses
from .networks import STILL, seconds_of
from .results import REPRESENTED, SAME, ModelAudit
from .search import HITS, KnownModels, known_limits, search_size

# A fall of the loss by less than this share, to what is above the best known, leaves a model stuck.
SMALL_FALL = 0.01
# Most features of which the gradient is computed, from which descents start, whose structure is described.
_GRADIENT_FEATURES = 64
DESCENT_FEATURES = 128
_STRUCTURE_FEATURES = 40
# Most features and neurons of a model.
_LARGEST = 2**14
# Samples of a loss that is only compared with one twice as large.
_SAMPLES = 4_000


@result
class Audit:
    """The audits of all models of a file."""

    layout: str
    """Name of the layout in which the weights were found."""
    models: tuple[ModelAudit, ...]

    def write_page(self, path: str | Path, name: str = "a model") -> Path:
        """Write one HTML file that loads nothing, readable on phones, on paper and on dark screens.

        Each model has its sentence, its numbers, and figures: the matrix W_out W_in, the encodings in the
        plane of two hidden neurons (with more, the features' dimensionalities), its loss beside known losses.

        Parameters
        ----------
        path : str or Path
            File to write, whole or not at all; a file that is no page is refused.
        name : str, optional
            What was audited, for the title; any text.

        Returns
        -------
        Path
            The file written.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> from superposition.validate.audit import audit
        >>> pair_audit = audit({"W": np.array([[1.0], [-1.0]]), "b": np.zeros(2)}, 0.1, starts=2)
        >>> with TemporaryDirectory() as folder:
        ...     pair_audit.write_page(f"{folder}/pair.html", "two features").name
        'pair.html'
        """
        from .page import render  # with Matplotlib and the ledger, which take longer to load than to audit

        target = files.page_file(path)
        files.write_text(target, render(self.layout, self.models, name))
        return target


def shares_saved(per_feature: FloatArray, law: Features) -> FloatArray:
    """Return 1 - loss / variance (n,), the share of each feature's variance that a model saves.

    The variance is the loss of always answering the feature's mean. `per_feature` are the features' mean
    squared errors (n,). The share is nan for a feature that does not vary.

    >>> shares_saved(np.array([0.0, 0.2]), Features(2, 1.0, "symmetric"))
    array([1. , 0.4])
    """
    out = np.full(law.n_features, np.nan)
    return np.asarray(1.0 - np.divide(per_feature, law.variance, out=out, where=law.variance > 0.0))


def _loss_with_hidden_relu(model: Weights, law: Features) -> float:
    """Return the loss, by samples, of a model with ReLUs added to its hidden neurons.

    The loss is the mean over features of importance times squared error. Each call draws the same 4,000
    samples.
    """
    x = law.sample(_SAMPLES, np.random.default_rng(0))
    y = Model(model.W_in, hidden="relu", W_out=model.W_out, b=model.b)(x)
    return float(np.mean((x - y) ** 2 @ law.importance) / law.n_features)


def _measured_fields(k: int, model: Weights, law: Features, exact: Loss) -> dict[str, Any]:
    """Return by name the `ModelAudit` fields of model k of a file that need neither search nor descent.

    The fields are its weights, losses and structure. `exact` is its loss, exact or by samples.
    """
    n, m = model.W_out.shape
    zero_loss = Objective(n, m, law, model.tied).unit
    saved = shares_saved(exact.per_feature, law)
    return {
        "instance": k,
        "n_features": n,
        "n_hidden": m,
        **{name: getattr(model, name) for name in ("W_out", "W_in", "b", "tied")},
        "bias_assumed": not model.b_saved,
        "loss": exact.loss,
        "loss_error": exact.error_estimate,
        "method": exact.method,
        "per_feature": exact.per_feature,
        "share_saved": saved,
        "zero_loss": zero_loss,
        "represented": int(np.sum(saved >= REPRESENTED)),
        "dimensionality": feature_dimensionality(model.W_in.T),
        "structure": named_groups(model.W_in.T) if n <= _STRUCTURE_FEATURES else "",
        "dead": dead_outputs(model.W_out, model.W_in, model.b, law),
        "loss_with_hidden_relu": _loss_with_hidden_relu(model, law) if exact.loss > zero_loss else np.nan,
        "law": law,
    }


def _descent_fields(
    k: int, model: Weights, known: KnownModels, loss: float, steps: int, rng: Any, deadline: Deadline
) -> dict[str, Any]:
    """Return by name the fields of instance k's `ModelAudit` from its gradient and descents.

    The fields are the gradient's norm, the losses at the ends of descents of at most `steps` steps, and
    whether time ran out. `loss` is the model's. The ends of descents are added to `known`, the best known
    model of its size. Losses are nan if the model is too large or the time until `deadline` is over.
    """
    n, m = model.W_out.shape
    has_descent = steps > 0 and n <= DESCENT_FEATURES
    fields = {"gradient_norm": np.nan, "end_loss": np.nan, "reset_loss": np.nan, "hit_time_limit": False}
    if has_descent or n <= _GRADIENT_FEATURES:
        fields["gradient_norm"] = gradient_norm(Objective(n, m, known.law, model.tied), model, deadline)
    known.add(loss, "instance", model, k=k)
    if not has_descent or deadline.is_over():
        return fields | {"hit_time_limit": has_descent}
    end, reset = descents(model, known.law, steps, loss, rng, deadline)
    fields |= {"end_loss": end.loss, "hit_time_limit": deadline.is_over()}
    known.add(end.loss, "descent", Weights(end.W_out, end.W_in, end.b), k=k)
    if reset is not None:
        fields["reset_loss"], name = reset.loss, "descent with the biases of dead outputs reset"
        known.add(reset.loss, name, Weights(reset.W_out, reset.W_in, reset.b), k=k)
    return fields


def _verdict(model: ModelAudit, known: KnownModels) -> str:
    """Return the verdict on a model, one of `VERDICTS`, such as "stuck", by its losses and `known`.

    `known` has the bounds, the best model and the search of its size.
    """
    rounding = SAME * model.loss + model.loss_error
    if np.isnan(model.end_loss):
        return "not tried"
    if model.end_loss < model.loss - rounding:
        if model.gradient_norm < STILL:
            return "saddle"
        small = model.end_loss > (1.0 - SMALL_FALL) * model.loss and not model.hit_time_limit
        return "stuck" if small and model.end_loss > known.best * (1.0 + SAME) + rounding else "unfinished"
    slack = SAME * model.zero_loss * (model.n_hidden >= model.n_features)
    if model.loss <= model.lower_bound + rounding + slack:
        return "proved best"
    if model.hit_time_limit:
        return "not tried"
    if model.reset_loss < model.loss - rounding:
        return "flat"
    if model.loss > known.best * (1.0 + SAME) + rounding:
        return "stuck"
    if not known.searched:
        return "stays, not searched"
    return "best of a search" if known.hits >= HITS else "not beaten by a search"


def _best_name(known: KnownModels, instance: int) -> str:
    """Return a phrase on the origin of the best known model, such as "descent from instance 2".

    The audited `instance` itself is called "this model".
    """
    if known.instance is None:
        return known.name
    itself = known.instance == instance
    whose = "this model" if itself else f"instance {known.instance}"
    if known.name.startswith("descent"):
        return known.name.replace("descent", f"descent from {whose}", 1)
    return f"{whose} itself" if itself else whose


def _compare_with_known(fields: dict[str, Any], known: KnownModels) -> ModelAudit:
    """Return the `ModelAudit` of a model beside the best known one of its size, with its verdict.

    `fields` are the model's own by name: weights, losses, ends of descents. `known` has the best known model,
    the bounds and the search of this size.
    """
    assert known.model is not None
    same = ("searched", "hits", "unseen", "seconds", "rug", "limit", "limit_name")
    model = ModelAudit(
        **fields,
        **{name: getattr(known, name) for name in same},
        best_known=known.best,
        best_name=_best_name(known, fields["instance"]),
        best_W_out=known.model.W_out,
        best_W_in=known.model.W_in,
        best_b=known.model.b,
        planned=max(known.planned, known.searched),
        lower_bound=known.lower,
        verdict="not tried",
    )
    return replace(model, verdict=_verdict(model, known))


def _check_models(k: int, model: Weights) -> Weights:
    """Return the weights of a model, instance k of its file, if they are valid; else raise ValueError.

    Shapes must fit, entries be at most 1e6 in size, features and neurons at most 16,384.
    """
    W_out = validation.matrix(f"W_out of instance {k}", model.W_out)
    n, m = W_out.shape
    if max(n, m) > _LARGEST:
        raise ValueError(f"`model` must have at most {_LARGEST} features and neurons; got {n} and {m}.")
    W_in = validation.matrix(f"W_in of instance {k}", model.W_in, (m, n))
    b = validation.vector(f"b of instance {k}", model.b, n)
    for name, array in (("W_out", W_out), ("W_in", W_in), ("b", b)):
        validation.real(f"{name} of instance {k}", array, -1e6, 1e6)
    return Weights(W_out, W_in, b, model.b_saved)


def read(model: Any, layout: str | None, keys: Mapping[str, str] | None) -> tuple[str, list[Weights]]:
    """Return (layout name, toy models) of `model`, which is a module, state dict, file or `Weights`.

    `layout` is the name of a layout of public code, `keys` maps "W_in", "W_out" and "b" to names of arrays;
    if both are None, the layout is recognised by the arrays' names and shapes.
    """
    models = [model] if isinstance(model, Weights) else model
    if isinstance(models, Sequence) and models and all(isinstance(weights, Weights) for weights in models):
        return "weights", list(models)
    if not isinstance(model, str | os.PathLike | Mapping) and not is_live(model):
        state_of(model)  # refuses what holds no names
    loaded = load(model, None, Hints(layout, keys))
    return loaded.layout, loaded.weights()


def audit(
    model: Any,
    law: Any,
    *,
    layout: str | None = None,
    keys: Mapping[str, str] | None = None,
    instances: Any = None,
    steps: int = 300,
    starts: int | None = None,
    rng: Any = 0,
    seconds: Any = 20.0,
    on_audited: Callable[[int], None] = lambda instance: None,
    progress: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Return for each trained model ReLU(W_out W_in x + b) its loss, the best known, and a verdict.

    Parameters
    ----------
    model : torch.nn.Module, mapping, path, Weights or sequence of Weights
        A module, a state dict of tensors or arrays, or a file of one: .npz, .safetensors, or a PyTorch file
        of a state dict. Layouts of public code (`LAYOUTS`: which array is the encoder, the decoder, the bias)
        are recognised by names and shapes. Pass your own arrays as `Weights`.
    law : float, Features or sequence of these
        The data it is meant for: the probability that a feature is on, values then uniform on [0, 1], or any
        law; one for each instance, or one for all.
    layout : str, optional
        Name of a layout, if the shapes fit several.
    keys : mapping of str to str, optional
        Names of the arrays that are "W_in", "W_out" and "b", for layouts that are not known.
    instances : sequence of int, optional
        Which instances to audit, from 0; all by default.
    steps : int, optional
        Most steps of a descent on the exact loss from the model's weights, for 128 features at most. The
        descent tells minima, saddles and unfinished models apart. With 0 there is none.
    starts : int, optional
        Random starts of a search for the least loss at this size, for 64 features at most. With 0 there is no
        search. By default 60 for tied models of up to 9 features, 100 of uniform ones up to 14, else 20, as
        descents take ten times as long; while fewer than 5 of them end at the best model, up to four times as
        many are added.
    rng : Generator, int or None, optional
        Generator or seed for the starts of the search, and for small perturbations of weights in descents.
    seconds : float, optional
        Budget for the models of one size and law. Half of it is for the search; the rest is shared equally by
        the descents from the models. Compilation at the first call and lower bounds do not count. With 0
        there is neither a search nor a descent. Search and descents of up to 12 features mostly need less
        than the budget; the result then depends on the seed alone. If the budget stops them, it also depends
        on the speed of the machine, and ``left_out`` says what was stopped. Losses have all their digits if
        time allows, else fewer, or they are sampled (never with inf); ``loss_error`` is their error.
    on_audited : callable, optional
        Called with the number of each instance that is finished.
    progress : callable, optional
        Called with a line of text as the search and the descent from each model proceed.

    Returns
    -------
    Audit
        ``layout``, the name of the layout found, and ``models``, a `ModelAudit` for each instance: losses per
        feature, with importance; the verdict, one of `VERDICTS` such as "best of a search" or "unfinished";
        weights of the model and of the best known one.

    Notes
    -----
    Tied models are compared with tied ones. The best known model is one of this very size: the best of a
    search, an entry of the atlas (stored best models of small sizes), the end of descent from a model of the
    file, or the model of the most important features alone. The result holds its weights.

    A model is called the best of a search only if 5 starts ended at its loss and nothing lower was found. A
    feature counts as represented if the model saves at least half of the loss of answering its mean. A
    model is called stuck only if a lower one of its size was found, and descent lowers its loss by less than
    1 %. Losses in a limit, of many features (`solvers.codes.envelope`, the rug) or of very different lengths
    (`theory.unequal.priority_loss`), are shown for comparison; no verdict depends on them.

    If a file has no bias, the bias of least loss for its weights is assumed.

    Examples
    --------
    >>> pair = np.array([[1.0], [-1.0]])
    >>> pair_audit = audit({"W": pair, "b": np.zeros(2)}, 0.1)
    >>> pair_audit.layout, pair_audit.models[0].verdict, pair_audit.models[0].structure
    ('liuyz0/SuperpositionScaling', 'unfinished', 'antipodal pair 0-1')
    """
    steps = validation.integer("steps", steps, 0, 10**6)
    if starts is not None:
        starts = validation.integer("starts", starts, 0, 10**6)
    seconds = seconds_of(seconds)
    generator = validation.generator("rng", rng)
    name, weights = read(model, layout, keys)
    count = len(weights)
    laws = list(law) if validation.is_list(law) else [law] * count
    models = {k: _check_models(k, weights[k]) for k in _chosen_instances(instances, count)}
    if len(laws) != count:
        raise ValueError(f"`law` must be one law, or one for each of {count} instances; got {len(laws)}.")
    measured = {}
    groups: dict[tuple[int, int, Features, bool], list[tuple[int, Weights]]] = {}
    for k, part in models.items():
        n, m = part.W_out.shape
        groups.setdefault((n, m, as_features(laws[k], n), part.tied), []).append((k, part))
    for (n, m, group_law, tied), models_of_size in groups.items():
        known = known_limits(n, m, group_law, tied)  # bounds are not part of the seconds
        known.deadline = Deadline(seconds)
        group, losses = with_losses(models_of_size, group_law, known.deadline)
        search_size(group, starts, known, generator, progress)
        for done, ((k, model_k), exact) in enumerate(zip(group, losses, strict=True)):
            if steps:
                progress(f"descent from the weights of model {k}")
            deadline = known.deadline.part(1.0 / (len(group) - done))
            by_descent = _descent_fields(k, model_k, known, exact.loss, steps, generator, deadline)
            measured[k] = _measured_fields(k, model_k, group_law, exact) | by_descent, known
            on_audited(k)
    return Audit(layout=name, models=tuple(_compare_with_known(*measured[k]) for k in models))


def _chosen_instances(instances: Any, count: int) -> Sequence[int]:
    """Return the indices of the instances to audit, all `count` by default; ValueError if out of range."""
    if instances is None:
        return range(count)
    if not isinstance(instances, Sequence | np.ndarray | range):
        raise ValueError(f"`instances` must be a list of whole numbers; got {short_repr(instances)}.")
    return [validation.integer("instances", k, 0, count - 1) for k in instances]
