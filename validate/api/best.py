"""The best model of a size, to which a toy model can be compared."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...solvers.deadline import Deadline
from ...solvers.minimise import Minimum, minimise
from ...solvers.progress import status
from ...solvers.relu import named_groups
from ...theory.features import Features
from ...theory.model import Model
from ...theory.relu import feature_dimensionality
from ...theory.validation import FloatArray, count_noun, integer, short_repr
from ..audit.advice import chance_of_better, in_words
from ..audit.losses import loss_within
from ..audit.networks import seconds_of
from ..audit.search import HITS, report_descents, usual_starts
from ..loading import Weights
from .answer import Answer, Certainty, law_in_words
from .entry import entry
from .per_feature import feature_names, feature_table, near_equal, unrepresented

__all__ = ["best", "geometry"]

_SOURCES = (
    "Elhage et al. (2022), Toy Models of Superposition: model and loss",
    "superposition, page `minimise`: descents on the exact loss from many starts; pages `codes` and "
    "`unequal`: the lower bound",
)
# Seconds at most for the losses of features, of the best model and of those that are nearly as good.
_TABLE_SECONDS = 4.0
# Features and neurons up to which there is a search.
_MOST = 64
# Features, and features that depend on each other, up to which it goes on without a budget.
_CHEAP = 12
_CHEAP_GROUPS = 8
# Features up to which groups of encodings are named.
_NAMED = 40
# Share of the loss of answering 0 that is rounding.
_ROUNDING = 1e-12


def geometry(W: Any) -> str:
    """Return names of the groups of features that share directions, such as "antipodal pair 0-1".

    `W` is (n_features, n_hidden); empty above 40 features.
    """
    return named_groups(np.asarray(W)) if len(W) <= _NAMED else ""


def cosines_of_groups(W: FloatArray, law: Features) -> list[str]:
    """Return a line on the cosines between encodings of one group of `law`, and between all other pairs.

    Encodings are the rows of `W` (n_features, n_hidden); pairs with an encoding of length 0 are left out. The
    list is empty if no pair is left.

    >>> from superposition.theory.features import exclusive
    >>> law = Features(4, groups=[exclusive([0, 1], 0.1), exclusive([2, 3], 0.1)])
    >>> cosines_of_groups(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), law)
    ['cosines            -1 to -1 within groups, 0 to 0 between others']
    """
    group_of = np.arange(-law.n_features, 0)
    for k, (indices, *_) in enumerate(law.groups):
        group_of[np.asarray(indices)] = k
    norms = np.linalg.norm(W, axis=1)
    first, second = np.triu_indices(law.n_features, 1)
    has_direction = norms > _ROUNDING * norms.max()
    is_pair = has_direction[first] & has_direction[second]
    first, second = first[is_pair], second[is_pair]
    cosines = (W[first] * W[second]).sum(axis=1) / (norms[first] * norms[second])
    cosines = np.where(np.abs(cosines) < 0.005, 0.0, cosines)
    same = group_of[first] == group_of[second]
    parts = [
        f"{selection.min():.2g} to {selection.max():.2g} {where}"
        for selection, where in ((cosines[same], "within groups"), (cosines[~same], "between others"))
        if selection.size
    ]
    return [f"cosines            {', '.join(parts)}"] if parts else []


def is_nothing(loss: float, zero: float) -> bool:
    """Return whether a loss is 0 but for rounding; `zero` is the loss of the model that always answers 0."""
    return loss <= _ROUNDING * zero


def search_note(starts: int, hits: int, unseen: float, planned: int = 0, origin: str = "") -> str:
    """Return a note on a search: its starts and hits, and, if hits are few, the chance of a better model.

    Of `planned` random starts `starts` were made, and `hits` of them ended at the best model. If none did,
    `origin` is a clause on where the best model comes from. `unseen` is the share of further starts that
    would end at a new minimum.
    """
    of = f" of {planned}" if planned > starts else ""
    moved = "" if hits or origin else ": no start ended here, but exchanging features of another end did"
    chance_note = f"; {chance_of_better(unseen, starts)}" if hits < HITS and unseen > 0.0 else ""
    noun = "start" if starts == 1 and not of else "starts"
    return f"{starts}{of} {noun} ({count_noun(hits, 'hit')}{moved}){origin}{chance_note}"


def certainty_of(minimum: Minimum, zero: float) -> tuple[Certainty, str]:
    """Return (certainty, note) on whether a minimum's loss is the least; `zero` is the zero model's loss."""
    bound, gap = minimum.certificate.lower_bound, minimum.loss - minimum.certificate.lower_bound
    if is_nothing(minimum.loss, zero):
        return Certainty.PROVED, "the loss is 0, and a loss is never negative"
    if bound > 0.0 and gap <= 1e-9 * minimum.loss:
        return Certainty.PROVED, "the loss is that of the lower bound"
    return Certainty.BEST_OF, search_note(minimum.starts, minimum.hits, minimum.unseen)


def require_features(law: Any) -> Features:
    """Return `law` if it is a `Features`; else, as for a probability alone, raise ValueError."""
    if not isinstance(law, Features):
        raise ValueError(f"`law` must be a Features, such as Features(20, p=0.05); got {short_repr(law)}.")
    return law


@entry
def best(
    law: Any,
    n_hidden: int,
    *,
    tied: bool = True,
    bias: Any = True,
    starts: int | None = None,
    seconds: float | None = None,
    rng: Any = 0,
    progress: Callable[[str], None] | bool | None = None,
    names: Any = None,
) -> Answer:
    """Return the best model ReLU(W_out W_in x + b) found with `n_hidden` hidden neurons, and a lower bound.

    >>> from superposition.theory.features import Features
    >>> answer = best(Features(5, p=0.05), 2)
    >>> round(answer.loss, 7), answer.geometry
    (0.0017807, 'pentagon 0-1-2-3-4')

    Parameters
    ----------
    law : Features
        Law of the data, with the features' importances.
    n_hidden : int
        Number of hidden neurons.
    tied : bool, optional
        Whether W_out is the transpose of W_in, as in the toy models of the literature.
    bias : {True, False, "common"}, optional
        A bias for each output, none, or one for all.
    starts : int, optional
        Random starts. By default 60 for tied models of up to 9 features, 100 of uniform ones up to 14, else
        20. While fewer than 5 of them end at the best model, more are added, up to four times as many;
        without `seconds` only for up to 12 features, or 8 that depend on each other.
    seconds : float, optional
        Budget, which the search exceeds by a second or so; what is imported, compiled or loaded at the first
        call does not count. Without one, the same seed gives the same numbers.
    rng : Generator, int or None, optional
        Draws the starts.
    progress : callable or False, optional
        Called with a line of text now and then. By default a status line appears on standard error after two
        seconds, with the time left if that is over a minute. With False nothing is shown.
    names : sequence of str, optional
        Names of the features, such as the index of a frame; by default numbers from 0.

    Returns
    -------
    Answer
        ``model`` (a `Model`), ``loss`` (mean over features of importance times squared error),
        ``error_estimate``, ``lower_bound`` (what no model of this size can beat, proved; 0 if none is known),
        ``hits``, ``starts``, ``certainty``, ``geometry``, ``unseen`` (share of further starts that would end
        at a minimum not seen yet), ``represented`` (names of the features of which the model saves at least
        half of the loss that answering their means has), and all of `superposition.solvers.minimise.Minimum`,
        the result of the search: ``W_out`` (n_features, n_hidden), ``W_in``, ``b``, its other ``minima``, ….
        `to_frame` has one row for each feature: p, importance, norm of the encoding, loss, share saved, and
        the strongest interference with its origin.
    """
    law = require_features(law)
    n, m = law.n_features, integer("n_hidden", n_hidden, 1)
    if n > _MOST:
        raise ValueError(
            f"`law` must have at most {_MOST} features for a search; got {n}. `predict` has bounds and the "
            "best known codes of any size; `superposition.solvers.minimise.descend` takes given weights."
        )
    integer("n_hidden", m, 1, _MOST)
    labels = feature_names(names, n)
    count = usual_starts(law, tied) if starts is None else integer("starts", starts, 1)
    tell = progress if callable(progress) else status
    # The search goes on where too few starts reach the best, unless nothing says for how long.
    cheap = n <= (_CHEAP if law.independent else _CHEAP_GROUPS)
    hits = HITS if starts is None and (seconds is not None or cheap) else 0
    deadline = Deadline() if seconds is None else Deadline(seconds_of(seconds))
    settings: Any = {"tied": tied, "bias": bias, "starts": count, "hits": hits, "rng": rng}
    minimum = minimise(n, m, law, **settings, seconds=deadline, progress=report_descents(tell, deadline))
    return answer_of(minimum, law, labels, deadline)


def answer_of(minimum: Minimum, law: Features, names: Sequence[Any], deadline: Deadline) -> Answer:
    """Return the answer of `best` for the model `minimum` that a search found for `law`.

    `names` are those of the features. `deadline` limits the time for the losses of single features, and for
    lines on the search's other minima.
    """
    n, m = minimum.W_out.shape
    is_tied = np.array_equal(minimum.W_out, minimum.W_in.T)
    model = Model(minimum.W_in, W_out=None if is_tied else minimum.W_out, b=minimum.b)
    bound, zero = minimum.certificate.lower_bound, float(np.mean(law.importance * law.second_moment))
    shape, (certainty, note) = geometry(minimum.W), certainty_of(minimum, zero)
    sure = certainty.with_note(note)
    limit = Deadline(min(deadline.seconds_left(), _TABLE_SECONDS))
    weights = Weights(minimum.W_out, minimum.W_in, minimum.b)
    losses = loss_within(weights, law, limit, has_descents=True)
    table = feature_table(minimum.W_out, minimum.W_in, losses.per_feature, law, names)
    represented = table["represented"].values
    groups = f": {in_words(shape, names)}" if shape else ""
    least = "0: a loss is never negative" if is_nothing(minimum.loss, zero) else "none is known for this law"
    lines = [
        f"best model found of {count_noun(n, 'feature')} on {count_noun(m, 'hidden neuron')}, "
        f"{'tied' if model.tied else 'free decoder'}; {law_in_words(law)}",
        f"loss per feature   {minimum.loss:.7g} ({100 * minimum.loss / zero:.3g} % of answering 0), {sure}",
        f"lower bound        {bound:.7g}" if bound else f"lower bound        {least}",
        f"represented        {represented.sum()} of {n} features{groups}",
    ]
    if n - represented.sum() > 0:
        lines.append(f"not represented    {unrepresented(table)} (less than half of their loss is saved)")
    if law.groups:
        lines += cosines_of_groups(minimum.W, law)
    lines += near_equal(minimum, law, represented, names, limit)
    if m < n:
        lines.append("compare            `predict`: what codes lose at this size, as infima and limits")
    if minimum.starts < minimum.planned:
        lines.append(f"the budget ended the search after {minimum.starts} of {minimum.planned} starts")
    added = {
        "model": model, "lower_bound": bound, "law": law, "geometry": shape, "features": table,
        "represented": tuple(table["feature"].values[represented].tolist()),
    }  # fmt: skip
    data = xr.Dataset(
        {
            "W": (("feature", "hidden"), minimum.W),
            "W_out": (("feature", "hidden"), minimum.W_out),
            "b": ("feature", minimum.b),
            "importance": ("feature", law.importance),
            "dimensionality": ("feature", feature_dimensionality(minimum.W)),
            "loss": minimum.loss,
            "lower_bound": bound,
        },
        attrs={"geometry": shape, "certainty": sure},
    )
    if names != list(range(n)):
        data = data.assign_coords(feature=list(names))
    extras: Any = {"_table": table, "_added": added}
    return Answer(tuple(lines), certainty, note, _SOURCES, minimum, data, "draw_model", **extras)
