"""What a trained model is, how good it could be, and what to do next."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from ...solvers.progress import status
from ...theory import arguments
from ...theory.models import Model
from ..audit import Audited, NetworkAudit
from ..audit import audit as audit_weights
from ..audit.networks import audit_networks
from ..loading import features_alone, load
from .answer import Answer
from .best import in_words
from .entry import entry

__all__ = ["audit"]

_SOURCES = (
    "Elhage et al. (2022), Toy Models of Superposition: model, loss, feature dimensionality",
    "superposition, page `audit`: verdicts by descent on the exact loss and a search at the model's size",
)
# An output that never answers: its largest value, in units of its feature's.
_DEAD = 1e-9


@entry
def audit(
    model: Any,
    law: Any,
    *,
    seconds: float | None = None,
    starts: int | None = None,
    steps: int = 300,
    rng: Any = 0,
    layout: str | None = None,
    keys: Any = None,
    progress: Callable[[str], None] | None = None,
    target: Any = "identity",
) -> Answer:
    """Say whether a model is trained, how good it could be, and what to do next.

    >>> import numpy as np
    >>> found = audit(np.array([[1.0, -0.7]]), 0.1)
    >>> found.verdict, found.advice
    ('unfinished', 'Train on: descent from here goes down by 71 %, to the best loss known.')

    Parameters
    ----------
    model : Model, torch.nn.Module, mapping, path, array_like or tuple
        As `Model.of`; of a file with several instances all are audited.
    law : Features, float, or a sequence of these
        Law of the data that the model is meant for; one for each instance, or one for all.
    seconds : float, optional
        Budget for each size and law, by default 20: half for the search for a better model, the rest for
        descent from the model itself. ``left_out`` says what this ended early; 0: no search. Computing the
        exact loss, and compilation in the first call, take additional time. Of a network with nonlinear
        hidden neurons the budget is that of its loss, which is sampled where the exact one takes longer; 0:
        exact wherever it can be, however long that takes.
    starts, steps, rng, layout, keys
        As in `superposition.validate.audit.audit`.
    progress : callable, optional
        Called with a line of text now and then; on a terminal a line is shown without it.
    target : {"identity", "relu", "abs", "x+relu"} or array_like, optional
        What a network with linear outputs is to compute, as in `loss`. Such a network is compared with the
        naive solution, which computes as many of the targets as there are neurons.

    Returns
    -------
    Answer
        ``advice`` (a sentence), ``verdict``, ``loss``, ``best_known``, ``lower_bound``, ``structure`` … of
        the first model, as in `superposition.validate.audit.Audited`, and ``models``, all of them; of
        networks as in `superposition.validate.audit.NetworkAudit`. What was not computed is nan.

    Raises
    ------
    ValueError
        If the model is neither known to be ReLU(W_out W_in x + b) nor a network with nonlinear hidden
        neurons, or law and model do not fit.
    """
    loaded = load(model, law, layout=layout, keys=keys)
    said, models = str(loaded), list(loaded.models)
    if models[0].hidden != "identity":
        return _of_networks(said, models, law, target, seconds)
    features_alone(target)
    weights = loaded.weights()
    limit = _limit(seconds)
    tell = progress or status
    found = audit_weights(weights, law, seconds=limit, starts=starts, steps=steps, rng=rng, progress=tell)
    first = found.models[0]
    lines = [f"taken for {said}"]
    for seen in found.models:
        name = f"{seen.instance}: " if len(found.models) > 1 else ""
        lines += [
            f"{name}loss per feature {seen.loss:.6g}, best known {seen.best_known:.6g}, "
            f"proved floor {seen.lower_bound:.6g}",
            f"{name}{seen.verdict}. {advice(seen)}",
        ]
        if seen.left_out:
            lines.append(f"{name}{seen.left_out}")
        if seen.structure:
            lines.append(f"{name}structure: {in_words(seen.structure)}")
    values = {name: getattr(first, name) for name in Audited.__dataclass_fields__}
    values |= {
        "models": found.models, "advice": advice(first), "left_out": first.left_out,
        "sentence": first.sentence, "model": models[0],
        "taken_for": said, "write_page": found.write_page,
    }  # fmt: skip
    numbers = ("loss", "best_known", "lower_bound", "end_loss", "zero_loss", "represented")
    data = xr.Dataset(
        {name: ("instance", [getattr(one, name) for one in found.models]) for name in numbers},
        {"instance": [one.instance for one in found.models]},
    ).assign(verdict=("instance", [one.verdict for one in found.models]))
    from .picture import draw_audit

    sure = certainty_of(first)
    return Answer(tuple(lines), sure, _SOURCES, values, data, draw_audit)


def _limit(seconds: float | None) -> float:
    return 20.0 if seconds is None else arguments.number("seconds", seconds, 0.0)


def _of_networks(said: str, models: list[Model], law: Any, target: Any, seconds: float | None) -> Answer:
    """Return what networks are worth beside the naive solution."""
    laws = list(law) if isinstance(law, list | tuple) else [law] * len(models)
    if len(laws) != len(models):
        raise ValueError(f"`law` must be one, or one for each of {len(models)} instances; got {len(laws)}.")
    found = list(audit_networks(models, laws, target, _limit(seconds)))
    lines = [f"taken for {said}", f"its outputs are to be: {found[0].target}"]
    for k, seen in enumerate(found):
        name = f"{k}: " if len(found) > 1 else ""
        lines += [f"{name}{seen.sentence}", f"{name}answering the means alone: {seen.zero_loss:.6g}"]
    first = found[0]
    values = {name: getattr(first, name) for name in NetworkAudit.__dataclass_fields__}
    values |= {
        "models": tuple(found), "beats_naive": first.beats_naive, "sentence": first.sentence,
        "taken_for": said, "left_out": first.left_out,
    }  # fmt: skip
    numbers = ("loss", "loss_error", "naive", "zero_loss", "gradient_norm")
    data = xr.Dataset({name: ("instance", [getattr(one, name) for one in found]) for name in numbers})
    sampled = any(one.method == "samples" for one in found)
    sure = "sampled, to four standard errors" if sampled else "exact, to the error that is stated"
    return Answer(tuple(lines), sure, _SOURCES, values, data, None)


def certainty_of(one: Audited) -> str:
    """Return how sure it is that the best known loss is the least."""
    if one.verdict == "proved best":
        return "proved"
    if one.searched:
        if one.hits:
            return f"best of {one.searched} starts ({one.hits} hits)"
        if one.best_name.startswith("a search"):
            return f"best of {one.searched} starts (0 hits, found by moving features of another minimum)"
        return f"best of {one.searched} starts (0 hits) and {one.best_name}"
    return "not decided: no search was made at this size"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def advice(one: Audited) -> str:
    """Return in a sentence what to do with a model."""
    dead = _dead(one)
    if dead is not None:
        return (
            f"Output {dead} is dead: it answers to no input, so that no gradient reaches it. Give it a "
            "positive bias, or start it again."
        )
    none = one.best_known <= 1e-12 * one.zero_loss
    above = 0.0 if none else one.loss / one.best_known - 1.0
    if one.verdict in ("unfinished", "saddle"):
        fall = 1.0 - one.end_loss / one.loss if one.loss else 0.0
        left = 0.0 if none else one.end_loss / one.best_known - 1.0
        if one.stopped:
            return (
                f"Train on: descent from here goes down by {_percent(fall)} and more; its seconds were over."
            )
        end = (
            f", still {_percent(left)} above the best known: then try other starts."
            if left > 1e-6
            else (", to the best loss known.")
        )
        how = "Train on" if one.verdict == "unfinished" else "Kick the weights a little and train on"
        small = " at a tenth of the rate" if fall < 0.05 else ""
        return f"{how}{small}: descent from here goes down by {_percent(fall)}{end}"
    return {
        "proved best": "Nothing: no model can be better, which is proved.",
        "best of a search": f"Nothing: it is as good as the best of {one.searched} starts.",
        "not beaten by a search": f"Probably nothing: none of {one.searched} starts is better; only "
        f"{one.hits} ended here, so give the search more seconds to be surer.",
        "above the best known": f"Train again from other starts: this one is stuck, {_percent(above)} above "
        "the best known of its size; longer training will not help.",
        "stays, not searched": "It stays where it is. No better one was searched: give seconds.",
        "not tried": f"It is {_percent(above)} above the best known. Whether descent goes on was not tried.",
    }[one.verdict]


def _dead(one: Audited) -> int | None:
    """Return an output that is 0 for every input although its feature matters, if there is one."""
    law = one.law
    low, high = law.values.support
    if not np.isfinite([low, high]).all():
        return None
    M = (one.W_out @ one.W_in) * law.scale
    top = np.maximum(np.maximum(low * M, high * M), 0.0).sum(axis=1) + one.b
    lost = one.per_feature * law.importance > 0.5 * law.importance * law.second_moment
    dead = np.flatnonzero((top <= _DEAD * law.scale) & lost)
    return int(dead[0]) if dead.size else None
