"""The audit of a trained model: its loss beside the best known, a verdict, and advice."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import xarray as xr
from matplotlib.axes import Axes

from ...solvers.progress import status
from ...theory.features import as_features
from ...theory.model import Model
from ..audit import ModelAudit
from ..audit import audit as audit_weights
from ..audit.advice import advice, in_words
from ..audit.networks import audit_networks, seconds_of
from ..loading import Hints, load
from ..loading.models import require_identity_target
from .answer import Answer, Certainty, law_in_words, sampled_or_exact
from .best import search_note
from .entry import entry
from .per_feature import feature_names, feature_table, unrepresented

__all__ = ["audit"]

_SOURCES = (
    "Elhage et al. (2022), Toy Models of Superposition: model, loss, feature dimensionality",
    "superposition, page `audit`: verdicts by descent on the exact loss and a search at the model's size",
)


@entry
def audit(
    model: Any,
    law: Any,
    *,
    seconds: Any = None,
    starts: int | None = None,
    steps: int = 300,
    rng: Any = 0,
    layout: str | None = None,
    keys: Any = None,
    progress: Callable[[str], None] | bool | None = None,
    target: Any = "identity",
    names: Any = None,
) -> Answer:
    """Return whether a model is trained, how good it could be, and what to do next.

    >>> import numpy as np
    >>> answer = audit(np.array([[1.0, -0.7]]), 0.1)
    >>> answer.verdict, answer.advice.partition(" (")[0]
    ('unfinished', 'Train on: descent from here goes down by 71 %, to the best loss known')

    Parameters
    ----------
    model : Model, torch.nn.Module, mapping, path, array_like or tuple
        A module, a state dict, a file of one, or arrays W, (W, b) or (W_out, W_in, b), as for `Model.of`; of
        a file with several instances all are audited.
    law : Features, float, or a sequence of these
        Law of the data that the model is meant for; one for each instance, or one for all.
    seconds : float, optional
        Budget for each size and law, by default 20: half for the search for a better model, the rest for
        descent from the model itself. With 0 there is neither search nor descent. ``left_out`` says what the
        budget cut short. What is imported, compiled or loaded at the first call, and lower bounds, do not
        count. A loss whose exact sums take longer has fewer digits, or is sampled; with inf it is exact
        wherever it can be, however long that takes. For a network with nonlinear hidden neurons, which has no
        search and no descent, the budget is for its loss and gradient.
    starts, steps, rng, layout, keys
        Random starts of the search (by default 60 or 20), most steps of a descent, seed or generator of the
        starts, name of the layout of the arrays, and a mapping of "W_in", "W_out" and "b" to their names, as
        in `superposition.validate.audit.audit`.
    progress : callable or False, optional
        Called with a line of text now and then. By default a status line appears on standard error after two
        seconds. With False nothing is shown.
    target : {"identity", "relu", "abs", "x+relu"} or array_like, optional
        What a network with linear outputs is to compute, as in `loss`. Such a network is compared with the
        naive solution, which computes as many of the targets as there are neurons.
    names : sequence of str, optional
        Names of the features, such as the index of a frame; by default numbers from 0.

    Returns
    -------
    Answer
        Of the first model ``advice`` (text), ``verdict`` ("unfinished", "saddle", "stuck", "best of a
        search", "proved best", …), ``loss``, ``best_known`` (least loss known at its size), ``lower_bound``
        (proved), ``structure`` (groups of features, as text) and the other attributes of
        `superposition.validate.audit.ModelAudit`; ``models`` has one such object for each model. For networks
        with nonlinear hidden neurons these objects are `superposition.validate.audit.NetworkAudit`, with
        ``loss`` and ``naive``, the loss of the naive solution. Numbers that were not computed are nan.
        `to_frame` has a row for each feature of each model: p, importance, norm of the encoding, loss, the
        share of its variance that the model saves, and the strongest interference with the feature it comes
        from; ``to_dataset().to_dataframe()`` has a row for each model.
    """
    loaded = load(model, law, Hints(layout, keys))
    taken_for, models = str(loaded), list(loaded.models)
    if models[0].hidden != "identity":
        return _answer_of_networks(taken_for, models, law, target, seconds)
    require_identity_target(target)
    weights = loaded.weights()
    labels = feature_names(names, weights[0].b.size)
    tell = progress if callable(progress) else status
    settings: Any = {"seconds": _budget(seconds), "starts": starts, "steps": steps, "rng": rng}
    audited = audit_weights(weights, law, **settings, progress=tell)
    first = audited.models[0]
    tables = [
        feature_table(seen.W_out, seen.W_in, seen.per_feature, seen.law, labels) for seen in audited.models
    ]
    lines = [f"taken for {taken_for}; {law_in_words(*(seen.law for seen in audited.models))}"]
    for seen, table in zip(audited.models, tables, strict=True):
        name = f"{seen.instance}: " if len(audited.models) > 1 else ""
        bound = f"lower bound {seen.lower_bound:.6g}" if seen.lower_bound else "no lower bound but 0 known"
        lines += [
            f"{name}loss per feature {seen.loss:.6g}, best known {seen.best_known:.6g}, {bound}",
            f"{name}{seen.verdict}. {advice(seen)}",
        ]
        if seen.left_out:
            lines.append(f"{name}{seen.left_out}")
        if seen.represented < seen.n_features:
            noun = "feature" if seen.n_features - seen.represented == 1 else "features"
            which = f"{seen.represented} of {seen.n_features} features, without {noun}"
            lines.append(f"{name}represented: {which} {unrepresented(table)}")
        if seen.structure:
            lines.append(f"{name}structure: {in_words(seen.structure, table['feature'].values.tolist())}")
        if seen.learning_coefficient is not None:
            lines.append(f"{name}{seen.learning_coefficient}")
    added = {
        "models": audited.models, "advice": advice(first), "model": models[0], "taken_for": taken_for,
        "write_page": audited.write_page, "features": tables[0],
    }  # fmt: skip
    by_feature = [
        xr.Dataset({"instance": ("feature", [seen.instance] * seen.n_features), **table}, table.coords)
        for seen, table in zip(audited.models, tables, strict=True)
    ]
    columns = (
        "instance", "loss", "best_known", "lower_bound", "end_loss", "zero_loss", "represented", "verdict",
    )  # fmt: skip
    data = _over_instances(audited.models, columns)
    extras: Any = {"_table": xr.concat(by_feature, "feature"), "_added": added}
    draw = "draw_audit" if len(audited.models) > 1 else partial(_draw_single, first)
    return Answer(tuple(lines), *certainty_of(first), _SOURCES, first, data, draw, _wide=True, **extras)


def _draw_single(audited: ModelAudit, _: xr.Dataset, ax: Axes) -> Axes:
    """Draw one model: each feature's loss beside the best known model's, and its weights if they fit.

    `audited` has the model's numbers; the dataset of the answer is not used.
    """
    from ..audit.page import data_of
    from .pictures import draw_audited

    return draw_audited(data_of(audited), ax)


def _over_instances(audits: Sequence[Any], names: Sequence[str]) -> xr.Dataset:
    """Return the attributes `names` of audits as variables of a dataset over ``instance``."""
    return xr.Dataset({name: ("instance", [getattr(seen, name) for seen in audits]) for name in names})


def _budget(seconds: float | None) -> float:
    """Return the validated budget of seconds, by default 20."""
    return 20.0 if seconds is None else seconds_of(seconds)


def _answer_of_networks(
    taken_for: str, models: list[Model], law: Any, target: Any, seconds: float | None
) -> Answer:
    """Return the answer of `audit` on networks with nonlinear hidden neurons, one or several instances.

    `models` are the instances, `law` one law for all or a list; `target` is what outputs are compared with.
    `taken_for` names the recognised layout of the weights, `seconds` is the budget.
    """
    laws = list(law) if isinstance(law, list | tuple) else [law] * len(models)
    if len(laws) != len(models):
        raise ValueError(f"`law` must be one, or one for each of {len(models)} instances; got {len(laws)}.")
    audits = list(audit_networks(models, laws, target, _budget(seconds)))
    features = [as_features(law, model.n_features) for law, model in zip(laws, models, strict=True)]
    lines = [
        f"taken for {taken_for}; {law_in_words(*features)}",
        f"its outputs are to be: {audits[0].target}",
    ]
    for k, seen in enumerate(audits):
        name = f"{k}: " if len(audits) > 1 else ""
        lines += [
            f"{name}{seen.sentence}",
            f"{name}answering the means alone: {seen.zero_loss:.6g}",
            f"{name}{seen.advice}",
        ]
    data = _over_instances(audits, ("loss", "loss_error", "naive", "zero_loss", "gradient_norm"))
    certainty, note = sampled_or_exact(any(network_audit.method == "samples" for network_audit in audits))
    added = {"models": tuple(audits), "taken_for": taken_for}
    return Answer(tuple(lines), certainty, note, _SOURCES, audits[0], data, _added=added)


def certainty_of(audited: ModelAudit) -> tuple[Certainty, str]:
    """Return (certainty, note) on whether the best known loss of a model's size is the least.

    `audited` is the audit of the model: `verdict`, and the counts of its search (`searched`, `hits`), decide.
    """
    if audited.verdict == "proved best":
        return Certainty.PROVED, "the best known loss is that of the lower bound"
    if not audited.searched:
        return Certainty.NOT_DECIDED, "no search was made at this size"
    is_other = not audited.hits and not audited.best_name.startswith("a search")
    origin = f" and {audited.best_name}" if is_other else ""
    note = search_note(audited.searched, audited.hits, audited.unseen, audited.planned, origin)
    return Certainty.BEST_OF, note
