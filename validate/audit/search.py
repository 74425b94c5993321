"""Known models of one size and law: bounds, limits, the atlas, and a search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...solvers.deadline import Deadline, work_seconds
from ...solvers.minimise import lower_bound, minimise
from ...solvers.progress import time_left
from ...theory.features import Features
from ...theory.unequal import priority_loss
from ...theory.validation import count_noun
from ..experiments import atlas
from ..loading import Weights
from .results import SAME

if TYPE_CHECKING:
    from ...solvers.codes import Envelope

# Starts of a search that have to end at its best model before that is called the best: a lower minimum that
# attracts as many starts would have been missed with probability e^-5.
HITS = 5
# Most features, and most neurons, of a size that is searched.
_LARGEST_SEARCH = 64
# A search of more features than these also begins at the first of the audited models, so many of them.
_FEW_FEATURES = 9
_AUDITED_STARTS = 4
# Share of the seconds after which a search ends, so that descents from the models have the rest.
SEARCH_SHARE = 0.5
# Random starts by default, and of tied models of few features, of some more, up to so many.
_STARTS = 20
_STARTS_FEW_TIED = 60
_STARTS_MORE_TIED = 100
_MORE_FEATURES = 14


@cache  # the instances of a file often share them
def _envelope(p: float, ratio: float, models: str) -> "Envelope":
    """Return the least loss of known codes in the limit of many features, as an `Envelope`.

    A code is a block of a few features on neurons of its own; a model has many copies. Features are on with
    probability p, then uniform on [0, 1], and the loss is per feature. `ratio` is n_hidden / n_features;
    `models` is "tied", "balanced" (free decoder, features of a code alike) or "free".
    """
    from ..experiments.codes import known_envelope  # with Matplotlib, which a search does not need

    return known_envelope(p, ratio, models=models)


@dataclass
class KnownModels:
    """The best known model of one size and law, the starts and hits of searches, bounds and limits.

    ``lower`` is a proved lower bound of the loss, ``limit`` the loss in the limit called ``limit_name``,
    ``rug`` that of random codes in the limit of many features. ``best`` is the least known loss, ``model``
    has this loss, and ``name`` is the model's origin. Of ``planned`` starts of searches ``searched`` are
    done, and ``hits`` of them ended at ``best``; ``unseen`` is the share of further starts that would end at
    a new minimum, ``seconds`` the time that searches took.
    """

    law: Features
    lower: float
    limit: float = np.nan
    limit_name: str = ""
    rug: float = np.nan
    best: float = np.inf
    name: str = "nothing"
    model: Weights | None = None
    searched: int = 0
    hits: int = 0
    unseen: float = np.nan
    seconds: float = 0.0
    planned: int = 0
    deadline: Deadline = field(default_factory=Deadline)
    """Deadline for this size and law."""
    instance: int | None = None
    """Instance whose weights, or a descent from them, have the loss `best`; None for other origins."""

    def add(
        self, loss: float, name: str, model: Weights, searched: int = 0, hits: int = 0, k: int | None = None
    ) -> None:
        """Add a model of this size: it replaces the best if its loss is lower; starts and hits are counted.

        `name` is its origin, `k` the instance whose weights it has or whose descent it ends. Of the
        `searched` starts of its search, `hits` ended at this loss.
        """
        self.searched += searched
        if loss < self.best * (1.0 - SAME):
            self.hits, self.name, self.instance = 0, name, k
        if loss <= self.best * (1.0 + SAME):
            self.hits += hits
        if loss < self.best:
            self.best, self.model = loss, model


def known_limits(n: int, m: int, law: Features, tied: bool) -> KnownModels:
    """Return a `KnownModels` of a size and law with the proved lower bound and the least loss in a limit.

    The size is n features on m hidden neurons, models `tied` or free. The limit is that of many equal
    features, or of features of very different frequencies and scales; its loss is nan if none is known.
    """
    known = KnownModels(law, lower_bound(n, m, law))
    if m >= n:
        return known
    if law.has_equal_features and np.all(law.importance == law.importance[0]):
        if 1e-6 <= law.p[0] < 1.0:
            unit = float(law.scale[0] ** 2 * law.importance[0])
            codes = _envelope(float(law.p[0]), m / n, "tied" if tied else "free")
            names = dict.fromkeys(codes.names[int(k)] for k in (codes.first, codes.second))
            known.limit, known.rug = unit * float(codes.loss), unit * float(codes.rug)
            known.limit_name = f"{' and '.join(names)} in the limit of many features"
    elif not tied and law.values.uniform and law.exactly is None:
        known.limit = priority_loss(law, m)
        known.limit_name = "planes by priority in the limit of very different lengths"
    return known


def search_size(
    group: Sequence[tuple[int, Weights]],
    starts: int | None,
    known: KnownModels,
    rng: np.random.Generator,
    progress: Callable[[str], None],
) -> None:
    """Add to `known` models of one size from three sources: a simple rule, the atlas, and a search.

    The rule keeps the most important features alone. The atlas (`experiments.atlas`) has the best models of
    small sizes. The search runs if time is left. `group` has the audited (instance, model) pairs of this
    size. `starts` is the number of random starts; None for 20 to 100 (`usual_starts`), and more if few end at
    the best. `progress` is called with lines of text.
    """
    models = [model for _, model in group]
    (n, m), tied = models[0].W_out.shape, models[0].tied
    _add_most_important(n, m, known)
    for entry in best_known(n, m, known.law, tied):
        name = f"entry {entry.name} of the atlas"
        known.add(entry.loss, name, Weights(entry.W_out, entry.W_in, entry.b), entry.starts, entry.hits)
    hits = HITS if starts is None else 0  # where nobody says how many, too few lead to more
    starts = usual_starts(known.law, tied) if starts is None else starts
    known.planned = known.searched
    if not starts or not m < n <= _LARGEST_SEARCH:
        return
    if known.deadline.is_over():
        known.planned += starts
        return
    start_seconds = work_seconds()
    audited = models[:_AUDITED_STARTS] if n > _FEW_FEATURES else []
    settings: Any = {"tied": tied, "starts": starts, "hits": hits, "rng": rng}
    settings["first"] = [(model.W_out, model.W_in, model.b) for model in audited]
    settings["progress"] = report_descents(progress, known.deadline, "search at this size: ")
    minimum = minimise(n, m, known.law, **settings, seconds=known.deadline.part(SEARCH_SHARE))
    known.seconds, known.unseen = work_seconds() - start_seconds, minimum.unseen
    known.planned = known.searched + minimum.planned - len(audited)
    random_starts = minimum.starts - len(audited)
    name = f"a search of {count_noun(random_starts, 'start')}, of which {minimum.hits} ended there"
    solution = Weights(minimum.W_out, minimum.W_in, minimum.b)
    known.add(minimum.loss, name, solution, random_starts, minimum.hits)


def report_descents(
    tell: Callable[[str], None], deadline: Deadline, title: str = ""
) -> Callable[[int, int, float], None]:
    """Return a function of (done, planned, least loss) that reports the progress of a search starting now.

    The function calls `tell` with a line of text: the `title`, the counts of descents, the least loss, and
    the time left, at most that until the `deadline`.
    """
    begin = work_seconds()

    def report(done: int, planned: int, least: float) -> None:
        """Report how many of the planned descents are done, their least loss so far, and the time left."""
        left = time_left(work_seconds() - begin, done, planned, deadline.seconds_left())
        tell(f"{title}{done} of {planned} descents, least loss {least:.6g}{left}")

    return report


def _add_most_important(n: int, m: int, known: KnownModels) -> None:
    """Add to `known` the model that represents only the m features of largest importance times variance.

    Its outputs for the other n - m features are their means.
    """
    matters = known.law.importance * known.law.variance
    order = np.argsort(-matters, kind="stable")
    eye = np.zeros((n, m))
    eye[order[:m], np.arange(min(n, m))] = 1.0
    b = known.law.mean.copy()
    b[order[:m]] = 0.0
    name = f"the {m} features that matter most, the others dropped" if m < n else "all kept"
    known.add(float(np.sum(matters[order[m:]]) / n), name, Weights(eye, eye.T, b))


def usual_starts(law: Features, tied: bool) -> int:
    """Return the default number of random starts of a search: more for small tied models.

    It is 60 up to `_FEW_FEATURES` features, 9; 100 up to `_MORE_FEATURES`, 14, independent and uniform; else
    20. Of 12 equal features on 3 neurons, p = 0.05, one start in 25 ends at the best minimum, and every
    second one 4 % above it.
    """
    if tied and law.n_features <= _FEW_FEATURES:
        return _STARTS_FEW_TIED
    is_quick = law.n_features <= _MORE_FEATURES and law.independent and law.values.uniform
    return _STARTS_MORE_TIED if tied and is_quick else _STARTS


def best_known(n: int, m: int, law: Features, tied: bool) -> list[Any]:
    """Return the best stored models, tied or free, for n features, m neurons and this law.

    The models are entries of the atlas, with weights and exact loss.
    """
    return [entry for entry in atlas.entries(n_features=n, n_hidden=m, tied=tied) if entry.law == law]
