"""The most features on a number of neurons at a given loss, and the fewest neurons for all features."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ...solvers import rug
from ...solvers.codes.blocks import LEAST_P
from ...solvers.minimise import lower_bound
from ...theory.features import Features
from ...theory.unequal import priority_loss
from ...theory.validation import count_noun, integer, number, short_repr
from ..experiments import atlas
from ..experiments.codes import known_envelope
from . import predict
from .answer import Answer, Certainty, law_in_words
from .entry import entry
from .per_feature import has_equal_features

__all__ = ["how_many"]

# Features up to which is searched: the loss of a code of so many takes a tenth of a second.
_MOST = 100_000

_MEANINGS = {
    predict.LOWER_BOUND: "proved for every model",
    predict.ATTAINED: "a construction: a model of this size has this loss or less",
    predict.CODE: "a construction: models of this size come arbitrarily close to a lower loss",
    predict.LIMIT: "where many features are on; no proof, and no construction at this size",
}

# Loss per feature of n_features on n_hidden.
LossOfSize = Callable[[int, int], float]


class KnownSize(NamedTuple):
    """Size and loss of a bound, construction or limit, `model`, of a `kind` in `predict.KINDS`; a note."""

    model: str
    kind: str
    n_features: float
    n_hidden: int
    loss: float
    note: str = ""


@entry
def how_many(
    law: Any,
    *,
    n_hidden: int | None = None,
    n_features: int | None = None,
    loss: float | None = None,
    relative: float | None = None,
) -> Answer:
    """Return how many features fit on `n_hidden` neurons at a loss, or how few neurons `n_features` need.

    >>> print(how_many(0.05, n_hidden=30, loss=0.001))
    features on 30 hidden neurons at a loss per feature of 0.001 (6 % of answering
      0); each feature is on in 5 % of the inputs
    160      lower bound             no model holds more
    81       best known code         priority codes, free decoder
    81       limit of many features  best known code, free decoder
    67       limit of many features  best known code, tied
    66       attained                whole copies of one or two codes, tied
    46       limit of many features  random codes (the Persian rug)
    31       attained                as many kept as neurons, others dropped

    Parameters
    ----------
    law : float or Features
        Probability that a feature is on, of uniform values; or a law whose features are alike. Its number of
        features does not matter.
    n_hidden : int, optional
        Number of hidden neurons: the answer is the largest number of features.
    n_features : int, optional
        Instead of `n_hidden`: the answer is the least number of hidden neurons.
    loss : float, optional
        Largest loss allowed: the mean over features of importance times squared error, as in
        `superposition.loss`.
    relative : float, optional
        Instead of `loss`: the largest loss allowed, in units of the loss of answering 0.

    Returns
    -------
    Answer
        ``known``: the size that a construction reaches. ``proved``: no model holds more features, or needs
        fewer neurons; inf where no number of features is proved to be too large. ``limit``: what random
        codes reach where many features are on; nan for p < 1e-6 and p = 1. `to_frame` has a row for each of
        these and of other codes (blocks of features on neurons of their own): ``model``, ``kind`` ("lower
        bound", "attained", "best known code" or "limit of many features", see `predict`), ``n_features``,
        ``n_hidden``, ``loss`` at this size, and ``note``. "free decoder" means untied. No more than 100,000
        features are tried.
    """
    feature_law = _single_feature_law(law)
    if (n_hidden is None) is (n_features is None):
        got = "neither" if n_hidden is None else "both"
        raise ValueError(f"`n_hidden` must be given, or `n_features` instead; got {got}.")
    name, value = ("n_features", n_features) if n_hidden is None else ("n_hidden", n_hidden)
    size = integer(name, value, 1, _MOST)
    question = _Question(feature_law, name == "n_hidden", size, _allowed_loss(feature_law, loss, relative))
    rows = sorted(question.rows(), key=lambda row: (-row.n_features, row.n_hidden))
    return _make_answer(question, rows)


@dataclass(frozen=True)
class _Question:
    """The most features on `size` hidden neurons, or the fewest neurons for `size` features."""

    law: Features
    """The law of one of the features."""
    is_of_features: bool
    """Whether features are counted, on a given number of neurons."""
    size: int
    """The given number: of neurons if features are counted, else of features."""
    allowed: float
    """Largest loss per feature."""

    def law_of(self, n: int) -> Features:
        """Return the law of n equal features, with the probability, scale and importance of `law`."""
        law = self.law
        return Features(n, law.p[0], scale=law.scale[0], importance=law.importance[0])

    def rows(self) -> Iterator[KnownSize]:
        """Yield for each bound, construction and limit the extreme size with a loss of at most `allowed`.

        The size is the most features on `size` neurons, or the fewest neurons for `size` features. All
        features have the question's law.
        """
        p, unit = float(self.law.p[0]), float(self.law.scale[0] ** 2 * self.law.importance[0])
        variance = float(self.law.importance[0] * self.law.variance[0])

        def limit(models: str, n: int, m: int) -> float:
            """Return the least known loss of `models`, "tied" or "free", for many features at ratio m / n.

            A model then has many copies of a code, a block of a few features on neurons of its own.
            """
            return unit * float(known_envelope(p, m / n, models=models).loss)

        meaning = "no model holds more" if self.is_of_features else "no model does with fewer"
        yield self.row(meaning, predict.LOWER_BOUND, lambda n, m: lower_bound(n, m, self.law_of(n)))
        yield self.row(
            "priority codes, free decoder", predict.CODE, lambda n, m: priority_loss(self.law_of(n), m)
        )
        yield self.row(
            "as many kept as neurons, others dropped", predict.ATTAINED, lambda n, m: variance * (n - m) / n
        )
        yield from self.solved_models()
        if LEAST_P <= p < 1.0:
            copies = self.row(
                predict.COPIES, predict.ATTAINED, lambda n, m: unit * predict.tied_copies(p, n, m)[0]
            )
            yield copies._replace(note=predict.tied_copies(p, int(copies.n_features), copies.n_hidden)[1])
            for models, what in predict.CODES.items():
                yield self.row(what, predict.LIMIT, partial(limit, models))
            yield self.row(
                predict.RANDOM_CODES, predict.LIMIT, lambda n, m: unit * float(rug.optimum(p, m / n).loss)
            )

    def row(self, what: str, kind: str, loss_of: LossOfSize) -> KnownSize:
        """Return the extreme size with a loss of at most `allowed`: most features, or fewest neurons.

        `loss_of` is a model's loss per feature for (n_features, n_hidden), `what` its name, and `kind` one of
        "lower bound", "attained", "best known code" and "limit of many features".
        """

        def loss(n: int, m: int) -> float:
            """Return the loss of n features on m neurons, 0 with a neuron for each feature."""
            return loss_of(n, m) if m < n else 0.0

        def holds(n: int, m: int) -> bool:
            """Return whether the loss of n features on m neurons is at most the allowed one."""
            if kind == predict.CODE and m < n:  # an infimum: known models come near it
                return loss(n, m) < self.allowed
            return loss(n, m) <= self.allowed

        if not self.is_of_features:
            m = _bisect(lambda m: holds(self.size, m), self.size, 0)
            return KnownSize(what, kind, self.size, m, loss(self.size, m))
        n = _largest_true(lambda n: holds(n, self.size), self.size)
        if kind == predict.LOWER_BOUND and n == _MOST:
            return KnownSize("none is known at this loss", kind, np.inf, self.size, np.nan)
        return KnownSize(what, kind, n, self.size, loss(n, self.size))

    def solved_models(self) -> Iterator[KnownSize]:
        """Yield a row for the best tied and the best free stored model that answers the question, if any.

        The models are entries of `experiments.atlas` that have the question's law and `size`, and a loss of
        at most `allowed`. The best has the most features, or the fewest neurons.
        """
        size_name = "n_hidden" if self.is_of_features else "n_features"
        for tied in (True, False):
            models = [
                entry
                for entry in atlas.entries(tied=tied)
                if getattr(entry, size_name) == self.size
                and entry.loss <= self.allowed
                and entry.law == self.law_of(entry.n_features)
            ]
            if models:
                best = max(models, key=lambda entry: (entry.n_features, -entry.n_hidden))
                what = f"best model found, {'tied' if tied else 'free decoder'}"
                yield KnownSize(what, predict.ATTAINED, best.n_features, best.n_hidden, best.loss, best.name)


def _largest_true(holds: Callable[[int], bool], low: int) -> int:
    """Return the largest n from `low` to 100,000, the most that are tried, with `holds(n)`.

    `holds` must be true at `low`, and once false stay false.
    """
    while low < _MOST:
        high = min(2 * low, _MOST)
        if not holds(high):
            return _bisect(holds, low, high)
        low = high
    return _MOST


def _bisect(holds: Callable[[int], bool], good: int, bad: int) -> int:
    """Return the last integer from `good` towards `bad` at which `holds` is true, by bisection.

    `holds` is true at `good`, false at `bad`, and changes once between them.
    """
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _single_feature_law(law: Any) -> Features:
    """Return the law of a single feature; `law` is one with equal features, or the probability p alone."""
    if not isinstance(law, Features):
        return Features(1, number("law", law, 0.0, 1.0, brackets="(]"))
    if not has_equal_features(law):
        rule = "a probability, or a Features of independent uniform features of one p, scale and importance"
        raise ValueError(f"`law` must be {rule}; got {short_repr(law)}.")
    return Features(1, law.p[0], scale=law.scale[0], importance=law.importance[0])


def _allowed_loss(law: Features, loss: float | None, relative: float | None) -> float:
    """Return the allowed loss per feature; ValueError unless it is below the loss of answering the means.

    Either `loss` is passed, or `relative`, in units of the loss of answering 0; the other is None. `law` is
    that of one feature.
    """
    if (loss is None) is (relative is None):
        got = "neither" if loss is None else "both"
        raise ValueError(f"`loss` must be given, or `relative` instead; got {got}.")
    zero, means = (float(law.importance[0] * moment[0]) for moment in (law.second_moment, law.variance))
    name, value, unit = ("relative", relative, zero) if loss is None else ("loss", loss, 1.0)
    hint = "Answering the means loses as much as the upper end, without a neuron."
    return unit * number(name, np.asarray(value), 0.0, means / unit, brackets="[)", hint=hint)


def _make_answer(question: _Question, rows: list[KnownSize]) -> Answer:
    """Return the answer to `question` with a line for each of `rows`."""
    column = "n_features" if question.is_of_features else "n_hidden"
    by_kind = [(row.kind, row.model, getattr(row, column)) for row in rows]
    (proved,) = (count for kind, _, count in by_kind if kind == predict.LOWER_BOUND)
    attained = [count for kind, _, count in by_kind if kind in (predict.ATTAINED, predict.CODE)]
    known = max(attained) if question.is_of_features else min(attained)
    limits = [float(count) for _, what, count in by_kind if what == predict.RANDOM_CODES]
    zero = float(question.law.importance[0] * question.law.second_moment[0])
    if question.is_of_features:
        size = f"features on {count_noun(question.size, 'hidden neuron')}"
    else:
        size = f"hidden neurons for {count_noun(question.size, 'feature')}"
    lines = [
        f"{size} at a loss per feature of {question.allowed:.6g} ({100.0 * question.allowed / zero:.3g} % of "
        f"answering 0); {law_in_words(question.law)}",
        *(f"{_format_count(count):<9}{kind:23} {what}" for kind, what, count in by_kind),
    ]
    note = "; ".join(f"{kind}: {_MEANINGS[kind]}" for kind in dict.fromkeys(row.kind for row in rows))
    data = xr.Dataset({field: ("row", [getattr(row, field) for row in rows]) for field in KnownSize._fields})
    data.attrs["counted"] = column
    certainty = Certainty.PROVED if proved == known else Certainty.COMPUTED
    values = {"known": known, "proved": proved, "limit": limits[0] if limits else np.nan, "law": question.law}
    return Answer(tuple(lines), certainty, note, predict.SOURCES, values, data, "draw_counts", _wide=True)


def _format_count(count: float) -> str:
    """Return a count as text: "no bound" for inf; with + if it is 100,000, the largest tried."""
    return "no bound" if np.isinf(count) else f"{count}{'+' if count == _MOST else ''}"
