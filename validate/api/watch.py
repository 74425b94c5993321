"""A log of a model in training beside the best known one, for any training loop."""

from collections.abc import Callable
from typing import Any

import xarray as xr

from ...solvers.minimise import lower_bound
from ...theory.features import Features
from ...theory.validation import count_noun, generator, integer, number
from ..audit.networks import seconds_of
from ..audit.search import KnownModels
from ..audit.training_log import Schedule, TrainingLog
from .answer import Answer
from .best import require_features
from .entry import entry

__all__ = ["watch"]

# Share of the lower bound by which a `best` may be below it, as rounding.
_ROUNDING = 1e-9


@entry
def watch(
    law: Any,
    n_hidden: int,
    *,
    best: Any = None,
    seconds: Any = 10.0,
    share: float = 0.05,
    instance: int | None = None,
    rng: Any = 0,
    progress: Callable[[str], None] | bool | None = None,
) -> TrainingLog:
    """Return an object to call in a training loop, which logs how far the model is from the optimum.

    >>> import numpy as np
    >>> from superposition.theory.features import Features
    >>> log = watch(Features(5, p=0.05), 2)
    >>> for step in range(3):  # of a loop that trains `model`
    ...     model = 0.3 * (step + 1) * np.eye(5, 2)
    ...     record = log(model, step)  # numbers for your logger, or None where none is due
    >>> last = log.finish(model)
    >>> round(last["loss"], 6), round(last["best_known"], 6), last["represented"]
    (0.010241, 0.001781, 2.0)

    Parameters
    ----------
    law : Features
        Law of the data that the model is trained for.
    n_hidden : int
        Number of hidden neurons.
    best : Answer or float, optional
        What `best` answered for this law and size, or a loss to compare with. By default the first call
        searches, as `audit` does.
    seconds : float, optional
        Budget of that search; with 0 there is none.
    share : float, optional
        Largest share of the time since the first call that records may take, without compiling; with 1 no
        record that is due is left out.
    instance : int, optional
        Index of the model that is watched, if several are trained at once.
    rng : Generator, int or None, optional
        Draws the starts of the search.
    progress : callable or False, optional
        Called with a line of text now and then during the search, as in `best`: by default a status line
        appears, with False nothing.

    Returns
    -------
    TrainingLog
        Call it as ``log(model, step, train_loss=None, force=False)``. It returns a record at steps that grow
        by an eighth or so, and None without delay at others. A record is a dict of floats as in `audit`:
        ``loss`` (exact), ``loss_error``, ``best_known``, ``lower_bound`` (proved), ``gap_to_best`` and
        ``gap_to_lower_bound`` (the loss minus each), ``represented`` (number of features of which at least
        half the variance is saved), ``dead`` (number of outputs that are 0 for every input),
        ``gradient_norm`` (over the zero model's loss; nan above 128 features). The record's ``method`` is
        "samples" if the exact loss takes longer than 0.3 s and than `share` has left. Its ``advice`` is a
        sentence if the loss stays although its gradient is not 0, or if ``train_loss``, the loop's own loss,
        differs from the exact one. ``log.finish(model)`` returns the last record, however long it takes.
        ``log.records``, ``log.to_dataset()`` and ``log.plot()`` have all records; ``log.lightning()`` is a
        callback for Lightning.
    """
    law = require_features(law)
    n, m = law.n_features, integer("n_hidden", n_hidden, 1)
    share = number("share", share, 0.0, 1.0, brackets="(]")
    return TrainingLog(
        law=law,
        n_hidden=m,
        draw=_draw,
        known=None if best is None else _given_known_model(best, law, n, m),
        seconds=seconds_of(seconds),
        schedule=Schedule(share),
        instance=None if instance is None else integer("instance", instance, 0),
        rng=generator("rng", rng),
        progress=progress,
    )


def _given_known_model(best: Any, law: Features, n: int, m: int) -> KnownModels:
    """Return the model to compare with, and the lower bound, for n features on m hidden neurons.

    `best` is an answer of the function `best`, or a loss alone. An answer for another law or size, or a loss
    below the bound, raises a ValueError.
    """
    lower = lower_bound(n, m, law)
    if isinstance(best, Answer):
        if getattr(best, "law", None) != law or getattr(best, "W_out", law.p).shape != (n, m):
            rule = f"what `best` answered for this law and {count_noun(m, 'hidden neuron')}"
            raise ValueError(f"`best` must be {rule}; got an answer on other things: {best.lines[0]}.")
        return KnownModels(
            law, lower, best=best.loss, name="an answer of `best`", searched=best.starts, hits=best.hits
        )
    loss = number("best", best, 0.0)
    if loss < lower * (1.0 - _ROUNDING):
        raise ValueError(f"`best` must be at least the proved lower bound, {lower:.6g}; got {loss:.6g}.")
    return KnownModels(law, lower, best=loss, name="the loss that was given")


def _draw(data: xr.Dataset, ax: Any) -> Any:
    """Draw the loss in a training log's dataset over its steps on `ax`, None for new axes; return them."""
    from .pictures import axes, draw_training

    return draw_training(data, axes(ax))
