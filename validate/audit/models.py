"""What a trained model is, how good it could be, and whether training found it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from ...solvers.deadline import Deadline, work_seconds
from ...solvers.loss import exact_loss
from ...solvers.loss.budget import loss_by
from ...solvers.loss.evaluator import Evaluator, Loss
from ...solvers.minimise import Minimum, descend, lower_bound, minimise
from ...solvers.minimise.objective import Objective
from ...solvers.progress import time_left
from ...solvers.relu import named_groups
from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.relu import feature_dimensionality
from ...theory.unequal import priority_loss
from ...theory.validation import FloatArray, IntArray
from ..experiments import atlas
from ..experiments.codes import known_envelope
from ..loading import Weights, load, state_of
from ..loading.live import is_live
from .networks import STILL, sampled_loss, seconds_of
from .results import REPRESENTED, SAME, Audit, ModelAudit

# Kicks at weights that descent does not leave: how many, and their size in units of the weights'.
KICKS, KICK = 3, 0.01
# A fall of the loss by less than this share, to what is above the best known, leaves a model stuck.
SMALL_FALL = 0.01
# A loss that is computed whether or not there are seconds left.
_DEFAULT_TOL = 1e-12
# Features: whose gradient, descent and structure are cheap; up to which there is a search.
_GRADIENT, _DESCENT, _STRUCTURE, _SEARCH = 64, 128, 40, 64
# Starts of a search that have to end at its best model before that is called the best: a lower minimum that
# attracts as many starts would have been missed with probability e^-5.
HITS = 5
# Above so many features a search moves features, and begins at the models themselves, so many of them.
_FEW, _GIVEN = 9, 4
# Share of the seconds after which a search ends, so that descents from the models have the rest.
_SHARE = 0.5
# Share of them that the search for biases may take which a file leaves out.
_BIAS_SHARE = 0.3
# Random starts by default, and of tied models of few features.
_STARTS, _CHEAP = 20, 60
_LARGEST = 2**14
# Samples of a loss that is only compared with one twice as large.
_SAMPLES = 4_000
# Of the search for a bias: points of the first look, whose errors may be coarse, and steps of golden section.
_POINTS, _COARSE, _STEPS = 33, 1e-4, 30
# Errors of the losses in these: descent judges models of few features, and a thousand take minutes.
_FINE, _MANY = 1e-10, 1e-8
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass
class _Known:
    """What is known of the models of one size and law: the best of them, and what that rests on."""

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
    """When the seconds for this size and law are over."""
    instance: int | None = None
    """From whose weights descent ended at `best`."""

    def add(
        self, loss: float, name: str, model: Weights, searched: int = 0, hits: int = 0, k: int | None = None
    ) -> None:
        """Take note of a model of this size, and of the starts that led to it."""
        self.searched += searched
        if loss < self.best * (1.0 - SAME):
            self.hits, self.name, self.instance = 0, name, k
        if loss <= self.best * (1.0 + SAME):
            self.hits += hits
        if loss < self.best:
            self.best, self.model = loss, model


_codes = cache(known_envelope)  # the instances of a file often share them


def _limits(n: int, m: int, law: Features, tied: bool) -> _Known:
    """Return a proved bound, and losses in limits, of many features or very different lengths."""
    known = _Known(lower_bound(n, m, law))
    if m >= n:
        return known
    if law.alike and np.all(law.importance == law.importance[0]):
        if 1e-6 <= law.p[0] < 1.0:
            unit = float(law.scale[0] ** 2 * law.importance[0])
            codes = _codes(float(law.p[0]), m / n, models="tied" if tied else "free")
            names = dict.fromkeys(codes.names[int(k)] for k in (codes.first, codes.second))
            known.limit, known.rug = unit * float(codes.loss), unit * float(codes.rug)
            known.limit_name = f"{' and '.join(names)} in the limit of many features"
    elif not tied and law.values.uniform and law.exactly is None:
        known.limit = priority_loss(law, m)
        known.limit_name = "planes by priority in the limit of very different lengths"
    return known


def _search(
    group: Sequence[tuple[int, Weights]],
    law: Features,
    starts: int | None,
    known: _Known,
    rng: np.random.Generator,
    progress: Callable[[str], None],
) -> None:
    """Add to what is known of models of the size of the given ones, by a search if there are seconds left."""
    given = [one for _, one in group]
    (n, m), tied = given[0].W_out.shape, given[0].tied
    order = np.argsort(-law.importance * law.variance, kind="stable")
    eye = np.zeros((n, m))
    eye[order[:m], np.arange(min(n, m))] = 1.0
    b = law.mean.copy()
    b[order[:m]] = 0.0
    simple = Weights(eye, eye.T, b)
    lost = float(np.sum((law.importance * law.variance)[order[m:]]) / n)
    known.add(lost, f"the {m} features that matter most, the others dropped" if m < n else "all kept", simple)
    for entry in best_known(n, m, law, tied):
        name = f"entry {entry.name} of the atlas"
        model = Weights(entry.W_out, entry.W_in, entry.b)
        known.add(entry.loss, name, model, entry.starts, entry.hits)
    hits = HITS if starts is None else 0  # where nobody says how many, too few lead to more
    if starts is None:
        starts = usual_starts(n, tied)
    known.planned = known.searched
    if starts and m < n <= _SEARCH and m <= _SEARCH:
        if known.deadline.is_over():
            known.planned += starts
            return
        begun = work_seconds()

        def tell(done: int, count: int, least: float) -> None:
            left = time_left(work_seconds() - begun, done, count)
            progress(f"search at this size: {done} of {count} descents, least loss {least:.6g}{left}")

        first = [(one.W_out, one.W_in, one.b) for one in given[:_GIVEN]] if n > _FEW else []
        settings: Any = {"tied": tied, "starts": starts, "hits": hits, "rng": rng, "first": first}
        minimum = minimise(n, m, law, **settings, seconds=known.deadline.part(_SHARE), progress=tell)
        known.seconds = work_seconds() - begun
        known.planned = known.searched + minimum.planned - len(first)
        made = minimum.starts - len(first)
        name = f"a search of {made} starts, of which {minimum.hits} ended there"
        known.unseen = minimum.unseen
        known.add(minimum.loss, name, Weights(minimum.W_out, minimum.W_in, minimum.b), made, minimum.hits)


def usual_starts(n_features: int, tied: bool) -> int:
    """Return how many random starts a search for the best model of a size makes if nothing else is said."""
    return _CHEAP if tied and n_features <= _FEW else _STARTS


def best_known(n: int, m: int, law: Features, tied: bool) -> list[Any]:
    """Return the entries of the atlas that solve this very problem."""
    return [entry for entry in atlas.entries(n_features=n, n_hidden=m, tied=tied) if entry.law == law]


def loss_within(one: Weights, law: Features, deadline: Deadline) -> Loss:
    """Return the exact loss of a model with as many digits as there is time for, or its loss by samples."""
    M = np.ascontiguousarray(one.W_out @ one.W_in)
    if not deadline.is_limit():
        return exact_loss(M, one.b, law)
    found = loss_by(deadline, M, one.b, lambda tol: Evaluator(law, tol=tol), _DEFAULT_TOL)
    return sampled_loss(Model(one.W_in, W_out=one.W_out, b=one.b), law) if found is None else found


def best_bias(M: FloatArray, law: Features, deadline: Deadline | None = None) -> FloatArray:
    """Return the biases b for which ReLU(M x + b) has the least exact loss, to 1e-5 of the scale or so.

    Each output has its own bias, so that all are searched at once: on a grid from where an output never
    answers to its feature to where it always does, then by golden section around the best point.
    (SciPy's elementwise minimiser asks for ever fewer outputs; the exact loss gives those of all.) At the
    deadline it is what is known by then.

    Examples
    --------
    >>> best_bias(np.zeros((2, 2)), Features(2, 0.1)).round(4)  # a dropped feature is answered by its mean
    array([0.05, 0.05])
    """

    def losses(b: FloatArray, tol: float) -> FloatArray:
        return exact_loss(M, b, law, tol=tol).per_feature

    fine, deadline = _FINE if law.n_features <= _DESCENT else _MANY, deadline or Deadline()
    mean = M @ law.mean
    reach = np.abs(mean) + 5.0 * np.sqrt(np.sum((M @ law.covariance()) * M, axis=1))
    low, high = -reach - np.maximum(M.diagonal(), 0.0) * law.scale, reach + np.abs(law.mean)
    grid = np.linspace(low, high, _POINTS)
    tried = []
    for b in (grid[k] for k in np.argsort(np.abs(np.arange(_POINTS) - _POINTS // 2), kind="stable")):
        tried.append((b, losses(b, _COARSE)))
        if deadline.is_over():
            order = np.argmin([one for _, one in tried], axis=0)
            return np.asarray(np.array([b for b, _ in tried])[order, np.arange(len(M))])
    tried.sort(key=lambda pair: float(pair[0].sum()))
    best = np.argmin([one for _, one in tried], axis=0)
    step = (high - low) / (_POINTS - 1)
    low, high = low + (best - 1) * step, low + (best + 1) * step
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = losses(left, fine), losses(right, fine)
    for _ in range(_STEPS):
        if deadline.is_over():
            break
        down = at_left < at_right  # the best lies below `right`, else above `left`
        low, high = np.where(down, low, left), np.where(down, right, high)
        new = np.where(down, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = losses(new, fine)
        left, right = np.where(down, new, right), np.where(down, left, new)
        at_left, at_right = np.where(down, at_new, at_right), np.where(down, at_left, at_new)
    return np.asarray((low + high) / 2.0)


@dataclass(frozen=True)
class _Ends:
    """Where descents from a model end."""

    end: Minimum
    """Of descent itself, from a place that it does not leave also after small kicks."""
    reset: Minimum | None
    """Of descent with the means as biases of dead outputs; None if no output is dead."""


def _descents(
    one: Weights, law: Features, steps: int, loss: float, rng: np.random.Generator, deadline: Deadline
) -> _Ends:
    """Return where descents end, or are at the deadline.

    At a saddle the gradient vanishes, and at a kink, as of a bias of 0, no Hessian tells: so kicks do. A dead
    output has no gradient, and no small kick changes that.
    """

    def ended(W_out: FloatArray, W_in: FloatArray, b: FloatArray, reset: bool = False) -> Minimum:
        settings: Any = {"tied": one.tied, "steps": steps, "reset_dead": reset}
        return descend(W_out, W_in, b, law, seconds=deadline, **settings)

    W_in = one.W_out.T if one.tied else one.W_in
    end = ended(one.W_out, W_in, one.b)
    size = KICK * np.sqrt(np.mean(one.W_out**2))
    for _ in range(KICKS if end.loss >= loss * (1.0 - SAME) else 0):
        if deadline.is_over():
            break
        out = one.W_out + size * rng.normal(size=one.W_out.shape)
        other = ended(out, out.T if one.tied else W_in + size * rng.normal(size=W_in.shape), one.b)
        end = other if other.loss < end.loss else end
    reset = None
    if dead_outputs(end.W_out, end.W_in, end.b, law).size and not deadline.is_over():
        reset = ended(end.W_out, end.W_in, end.b, reset=True)
    return _Ends(end, reset)


def dead_outputs(W_out: FloatArray, W_in: FloatArray, b: FloatArray, law: Features) -> IntArray:
    """Return the outputs that are 0 for every input, and stay so after a small change of the weights.

    >>> dead_outputs(np.zeros((2, 1)), np.zeros((1, 2)), np.array([1e-9, -0.1]), Features(2, 0.1))
    array([1])
    """
    low, high = law.values.support
    M = (W_out @ W_in) * law.scale
    with np.errstate(invalid="ignore"):  # 0 times a value without bound
        most = np.maximum(np.where(M == 0.0, 0.0, M * high), np.where(M == 0.0, 0.0, M * low))
    top = np.maximum(most, 0.0).sum(axis=1) + b
    return np.flatnonzero((top <= 0.0) & (b < 0.0) & (law.importance > 0.0) & (law.variance > 0.0))


def shares_saved(per_feature: FloatArray, law: Features) -> FloatArray:
    """Return the share of each feature's loss that a model saves, beside answering the feature's mean.

    It is nan for a feature that does not vary.

    >>> shares_saved(np.array([0.0, 0.2]), Features(2, 1.0, "symmetric"))
    array([1. , 0.4])
    """
    out = np.full(law.n_features, np.nan)
    return np.asarray(1.0 - np.divide(per_feature, law.variance, out=out, where=law.variance > 0.0))


def _has_kink(one: Weights, law: Features) -> float:
    """Return the loss by samples if hidden neurons had a ReLU: of files that do not tell."""
    x = law.sample(_SAMPLES, np.random.default_rng(0))
    y = Model(one.W_in, hidden="relu", W_out=one.W_out, b=one.b)(x)
    return float(np.mean((x - y) ** 2 @ law.importance) / law.n_features)


def _slope(aim: Objective, one: Weights, deadline: Deadline) -> float:
    """Return the length of the gradient; where no seconds are left that of a loss good to five digits."""
    x = aim.join(one.W_out, one.W_in, one.b)
    if aim.exact or not deadline.is_over():
        return float(np.linalg.norm(aim.slope(x)))
    with aim.coarse():
        return float(np.linalg.norm(aim.slope(x)))


def _measure(
    k: int, one: Weights, law: Features, known: _Known, here: Loss, steps: int, rng: Any, deadline: Deadline
) -> ModelAudit:
    """Return a model with what it is by itself; what is best known, and the verdict, need all models."""
    n, m = one.W_out.shape
    aim = Objective(n, m, law, one.tied)
    slope = end = reset = np.nan
    stopped = False
    asked = steps > 0 and n <= _DESCENT
    if asked or n <= _GRADIENT:
        slope = _slope(aim, one, deadline)
    known.add(here.loss, "instance", one, k=k)
    if asked and deadline.is_over():
        stopped = True
    elif asked:
        ends = _descents(one, law, steps, here.loss, rng, deadline)
        end, stopped = ends.end.loss, deadline.is_over()
        known.add(end, "descent", Weights(ends.end.W_out, ends.end.W_in, ends.end.b), k=k)
        if ends.reset is not None:
            reset, name = ends.reset.loss, "descent with the biases of dead outputs reset"
            known.add(reset, name, Weights(ends.reset.W_out, ends.reset.W_in, ends.reset.b), k=k)
    saved = shares_saved(here.per_feature, law)
    return ModelAudit(
        instance=k,
        n_features=n,
        n_hidden=m,
        W_out=one.W_out,
        W_in=one.W_in,
        b=one.b,
        bias_assumed=not one.b_saved,
        tied=one.tied,
        loss=here.loss,
        loss_error=here.error_estimate,
        method=here.method,
        per_feature=here.per_feature,
        share_saved=saved,
        zero_loss=aim.unit,
        best_known=np.nan,
        best_name="",
        best_W_out=one.W_out,
        best_W_in=one.W_in,
        best_b=one.b,
        searched=known.searched,
        planned=max(known.planned, known.searched),
        hits=0,
        unseen=known.unseen,
        seconds=known.seconds,
        lower_bound=known.lower,
        rug=known.rug,
        limit=known.limit,
        limit_name=known.limit_name,
        represented=int(np.sum(saved >= REPRESENTED)),
        dimensionality=feature_dimensionality(one.W_in.T),
        structure=named_groups(one.W_in.T) if n <= _STRUCTURE else "",
        gradient_norm=slope,
        end_loss=end,
        reset_loss=reset,
        dead=dead_outputs(one.W_out, one.W_in, one.b, law),
        stopped=stopped,
        verdict="not tried",
        bent_loss=_has_kink(one, law) if here.loss > aim.unit else np.nan,
        law=law,
    )


def _verdict(one: ModelAudit, known: _Known) -> str:
    rounding = SAME * one.loss + one.loss_error
    if np.isnan(one.end_loss):
        return "not tried"
    if one.end_loss < one.loss - rounding:
        if one.gradient_norm < STILL:
            return "saddle"
        small = one.end_loss > (1.0 - SMALL_FALL) * one.loss and not one.stopped
        return "stuck" if small and one.end_loss > known.best * (1.0 + SAME) + rounding else "unfinished"
    if one.loss <= one.lower_bound + rounding + SAME * one.zero_loss * (one.n_hidden >= one.n_features):
        return "proved best"
    if one.stopped:
        return "not tried"
    if one.reset_loss < one.loss - rounding:
        return "flat"
    if one.loss > known.best * (1.0 + SAME) + rounding:
        return "stuck"
    if not known.searched:
        return "stays, not searched"
    return "best of a search" if known.hits >= HITS else "not beaten by a search"


def _with_verdict(one: ModelAudit, known: _Known) -> ModelAudit:
    name, best = known.name, known.model
    assert best is not None
    if known.instance is not None:
        itself = known.instance == one.instance
        whose = "this model" if itself else f"instance {known.instance}"
        name = (
            name.replace("descent", f"descent from {whose}", 1)
            if name.startswith("descent")
            else f"{whose} itself"
            if itself
            else whose
        )
    return replace(
        one,
        best_known=known.best,
        best_name=name,
        best_W_out=best.W_out,
        best_W_in=best.W_in,
        best_b=best.b,
        hits=known.hits,
        verdict=_verdict(one, known),
    )


def _check_models(k: int, one: Weights) -> Weights:
    W_out = validation.matrix(f"W_out of instance {k}", one.W_out)
    n, m = W_out.shape
    if max(n, m) > _LARGEST:
        raise ValueError(f"`model` must have at most {_LARGEST} features and neurons; got {n} and {m}.")
    W_in = validation.matrix(f"W_in of instance {k}", one.W_in, (m, n))
    b = validation.vector(f"b of instance {k}", one.b, n)
    for name, array in (("W_out", W_out), ("W_in", W_in), ("b", b)):
        validation.real(f"{name} of instance {k}", array, -1e6, 1e6)
    return Weights(W_out, W_in, b, one.b_saved)


def read(model: Any, layout: str | None, keys: Mapping[str, str] | None) -> tuple[str, list[Weights]]:
    """Return the name of the layout of a module, state dict or file, and the toy models in it."""
    given = [model] if isinstance(model, Weights) else model
    if isinstance(given, Sequence) and given and all(isinstance(one, Weights) for one in given):
        return "weights", list(given)
    if not isinstance(model, str | os.PathLike | Mapping) and not is_live(model):
        state_of(model)  # refuses what holds no names
    found = load(model, layout=layout, keys=keys)
    return found.layout, found.weights()


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
    reached: Callable[[int], None] = lambda instance: None,
    progress: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Say what a trained model ReLU(W_out W_in x + b) is, how good it could be, whether training found it.

    Parameters
    ----------
    model : torch.nn.Module, mapping, path, Weights or sequence of Weights
        A module, a state dict of tensors or arrays, or a file of one: .npz, .safetensors, or a PyTorch file
        of a state dict. Layouts of public code are recognised by names and shapes, see `LAYOUTS`. Pass your
        own arrays as `Weights`.
    law : float, Features or sequence of these
        The data it is meant for: the probability that a feature is on, values then uniform on [0, 1], or any
        law; one for each instance, or one for all.
    layout : str, optional
        Name of a layout, where shapes leave several.
    keys : mapping of str to str, optional
        Names of the arrays that are "W_in", "W_out" and "b", for layouts that are not known.
    instances : sequence of int, optional
        Which instances to audit, from 0; all by default.
    steps : int, optional
        Steps of descent on the exact loss from the weights, which tell minima, saddles and unfinished models
        apart; for 128 features at most. None with 0.
    starts : int, optional
        Random starts of a search for the least loss at this size, for 64 features at most. No search with 0.
        By default 60 for tied models of up to 9 features, 20 for others, whose descents take ten times as
        long; then up to four times as many more, while fewer than 5 of them ended at the best.
    rng : Generator, int or None, optional
        For the search.
    seconds : float, optional
        Budget for each size and law: half of it for the search, what is left then for the descents from the
        models, an equal share for each. Both end early where they need less, as most of up to 12 features do;
        the result is then the same for the same seed. One that is stopped depends on the speed of the
        machine, and ``left_out`` says what was stopped. Losses have all their digits where there is time for
        them, and say by ``loss_error`` what they are off by. What is compiled at the first call, and lower
        bounds, do not count. With 0 there is neither a search nor a descent.
    reached : callable, optional
        Called with the number of each instance that is finished.
    progress : callable, optional
        Called with a line of text as the search and the descent from each model proceed.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        If the layout is not known, weights are not finite, or law and model do not fit.

    Notes
    -----
    Tied models are compared with tied ones. The best known model is one of this very size: the best of a
    search, an entry of the atlas, where descent from a model of the file ends, or the features that matter
    most with the others dropped. The result holds its weights.

    A model is called the best of a search only if 5 starts ended at its loss and nothing lower was found. A
    feature counts as represented if the model saves at least half of the loss that answering its mean has. A
    model is called stuck only if a lower one of its size was found, and descent lowers its loss by less than
    1 %. Losses in a limit, of many features
    (`solvers.codes.envelope`, the rug) or of very different lengths (`theory.unequal.priority_loss`), are
    shown and decide nothing.

    If a file has no bias, the bias of least loss for its weights is assumed.

    Examples
    --------
    >>> pair = np.array([[1.0], [-1.0]])
    >>> found = audit({"W": pair, "b": np.zeros(2)}, 0.1)
    >>> found.layout, found.models[0].verdict, found.models[0].structure
    ('liuyz0/SuperpositionScaling', 'unfinished', 'antipodal pair 0-1')
    """
    steps = validation.integer("steps", steps, 0, 10**6)
    if starts is not None:
        starts = validation.integer("starts", starts, 0, 10**6)
    seconds = seconds_of(seconds)
    generator = validation.generator("rng", rng)
    name, found = read(model, layout, keys)
    if instances is not None and not isinstance(instances, Sequence | np.ndarray | range):
        raise ValueError(
            f"`instances` must be a list of whole numbers; got {validation.short_repr(instances)}."
        )
    picked = (
        range(len(found))
        if instances is None
        else [validation.integer("instances", one, 0, len(found) - 1) for one in instances]
    )
    models = {k: _check_models(k, found[k]) for k in picked}
    several = isinstance(law, Sequence | np.ndarray) and not isinstance(law, str) and np.ndim(law) == 1
    laws = list(law) if several else [law] * len(found)
    if len(laws) != len(found):
        raise ValueError(
            f"`law` must be one law, or one for each of {len(found)} instances; got {len(laws)}."
        )
    groups: dict[Any, list[tuple[int, Weights]]] = {}
    for k, one in models.items():
        n, m = one.W_out.shape
        groups.setdefault((n, m, as_features(laws[k], n), one.tied), []).append((k, one))
    measured = {}
    for (n, m, own, tied), group in groups.items():
        known = _limits(n, m, own, tied)  # bounds are not part of the seconds
        known.deadline = Deadline(seconds)
        group, losses = _with_losses(group, own, known.deadline)
        _search(group, own, starts, known, generator, progress)
        for done, ((k, one), here) in enumerate(zip(group, losses, strict=True)):
            if steps:
                progress(f"descent from the weights of model {k}")
            deadline = known.deadline.part(1.0 / (len(group) - done))
            measured[k] = _measure(k, one, own, known, here, steps, generator, deadline), known
            reached(k)
    return Audit(layout=name, models=tuple(_with_verdict(*pair) for pair in (measured[k] for k in models)))


def _with_losses(
    group: list[tuple[int, Weights]], law: Features, deadline: Deadline
) -> tuple[list[tuple[int, Weights]], list[Loss]]:
    """Return models, with the best biases where the file has none, and their losses."""
    whole, losses = [], []
    for done, (k, one) in enumerate(group):
        part = deadline.part(1.0 / (len(group) - done))
        if not one.b_saved:
            one = replace(one, b=best_bias(one.W_out @ one.W_in, law, part.part(_BIAS_SHARE)))
        whole.append((k, one))
        losses.append(loss_within(one, law, part))
    return whole, losses
