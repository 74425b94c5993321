"""What a trained model is, how good it could be, and whether training found it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ...solvers.codes import envelope
from ...solvers.loss import exact_loss
from ...solvers.minimise import descend, minimise
from ...solvers.minimise.objective import Objective
from ...solvers.relu import structure
from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.features import Features, as_features
from ...theory.relu import feature_dimensionality
from ...theory.unequal import loss_bound, priority_loss
from .layouts import Weights, recognise
from .read import state_of
from .results import SAME, Audit, Audited

# A gradient below this, of the loss of the zero model, is that of single precision.
STILL = 1e-5
# Kicks at weights that descent does not leave: how many, and their size in units of the weights'.
KICKS, KICK = 3, 0.01
# A feature whose output at its largest value is below this, of that value, counts as dropped.
KEPT = 1e-3
# Features: whose gradient, descent and structure are cheap; for which a search finds the least loss.
_GRADIENT, _DESCENT, _STRUCTURE, _SEARCH = 64, 128, 40, 9
_LARGEST = 2**14
# Of the search for a bias: points of the first look, whose errors may be coarse, and steps of golden section.
_POINTS, _COARSE, _STEPS = 33, 1e-4, 30
# Errors of the losses in these: descent judges models of few features, and a thousand take minutes.
_FINE, _MANY = 1e-10, 1e-8
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0

_codes = cache(envelope)  # the instances of a file often share them


@dataclass
class _Known:
    """What is known of all models of one size and law, tied or not."""

    best: float
    name: str
    lower: float
    rug: float
    instance: int | None = None
    """From whose weights descent ended at `best`."""


def _known(n: int, m: int, law: Features, tied: bool, starts: int, rng: np.random.Generator) -> _Known:
    """Return the least known loss, what has it, the proved lower bound, the rug's loss."""
    known = [(np.inf, "nothing")]
    lower, rug = 0.0, np.nan
    found = minimise(n, m, law, tied=tied, starts=starts, rng=rng) if starts and n <= _SEARCH else None
    if law.alike and np.all(law.importance == law.importance[0]) and 1e-6 <= law.p[0] < 1.0 and m < n:
        unit = float(law.scale[0] ** 2 * law.importance[0])
        codes = _codes(float(law.p[0]), m / n, models="tied" if tied else "free")
        lower, rug = unit * float(codes.lower_bound), unit * float(codes.rug)
        names = [codes.names[int(k)] for k in (codes.first, codes.second)]
        if found is None:  # a mixture of codes need not be possible with few features
            name = f"{' and '.join(dict.fromkeys(names))}, in the limit of many features"
            known.append((unit * float(codes.loss), name))
    elif found is None and m < n:
        of_dropped = np.sort(law.importance * law.variance)[: n - m]
        known.append((float(of_dropped.sum() / n), f"the {m} features that matter most, the others dropped"))
        if law.values == "uniform" and law.exactly is None:
            lower = loss_bound(law, m)
            if not tied:
                known.append(
                    (priority_loss(law, m), "planes by priority, in the limit of very different lengths")
                )
    if found is not None:
        known.append((found.loss, f"the least of {found.starts} descents"))
        lower = max(lower, found.certificate.lower_bound)
    if m >= n:
        known.append((0.0, "features kept exactly"))
    return _Known(*min(known), lower, rug)


def best_bias(M: FloatArray, law: Features) -> FloatArray:
    """Return the biases b for which ReLU(M x + b) has the least exact loss, to 1e-5 of the scale or so.

    Each output has its own bias, so that all are searched at once: on a grid from where an output never
    answers to its feature to where it always does, then by golden section around the best point.
    (SciPy's elementwise minimiser asks for ever fewer outputs; the exact loss gives those of all.)

    Examples
    --------
    >>> best_bias(np.zeros((2, 2)), Features(2, 0.1)).round(4)  # a dropped feature is answered by its mean
    array([0.05, 0.05])
    """

    def losses(b: FloatArray, tol: float) -> FloatArray:
        return exact_loss(M, b, law, tol=tol).per_feature

    fine = _FINE if law.n_features <= _DESCENT else _MANY
    mean = M @ law.mean
    reach = np.abs(mean) + 5.0 * np.sqrt(np.sum((M @ law.covariance()) * M, axis=1))
    low, high = -reach - np.maximum(M.diagonal(), 0.0) * law.scale, reach + np.abs(law.mean)
    grid = np.linspace(low, high, _POINTS)
    best = np.argmin([losses(b, _COARSE) for b in grid], axis=0)
    step = (high - low) / (_POINTS - 1)
    low, high = low + (best - 1) * step, low + (best + 1) * step
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = losses(left, fine), losses(right, fine)
    for _ in range(_STEPS):
        down = at_left < at_right  # the best lies below `right`, else above `left`
        low, high = np.where(down, low, left), np.where(down, right, high)
        new = np.where(down, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = losses(new, fine)
        left, right = np.where(down, new, right), np.where(down, left, new)
        at_left, at_right = np.where(down, at_new, at_right), np.where(down, at_left, at_new)
    return np.asarray((low + high) / 2.0)


def _end(one: Weights, law: Features, steps: int, loss: float, rng: np.random.Generator) -> float:
    """Return the loss where descent ends; from weights that it does not leave also after small kicks.

    At a saddle the gradient vanishes, and at a kink, as of a bias of 0, no Hessian tells.
    """
    W_in = one.W_out.T if one.tied else one.W_in
    end = descend(one.W_out, W_in, one.b, law, tied=one.tied, steps=steps).loss
    size = KICK * np.sqrt(np.mean(one.W_out**2))
    for _ in range(KICKS if end >= loss * (1.0 - SAME) else 0):
        out = one.W_out + size * rng.normal(size=one.W_out.shape)
        into = out.T if one.tied else W_in + size * rng.normal(size=W_in.shape)
        end = min(end, descend(out, into, one.b, law, tied=one.tied, steps=steps).loss)
    return end


def _measured(k: int, one: Weights, law: Features, known: _Known, steps: int, rng: Any) -> Audited:
    """Return a model with what it is by itself; what is best known, and the verdict, need all models."""
    n, m = one.W_out.shape
    aim, here = Objective(n, m, law, one.tied), exact_loss(one.W_out @ one.W_in, one.b, law)
    slope = end = np.nan
    asked = steps > 0 and n <= _DESCENT
    if asked or n <= _GRADIENT:
        slope = float(np.linalg.norm(aim.slope(aim.join(one.W_out, one.W_in, one.b))))
    if asked:
        end = _end(one, law, steps, here.loss, rng)
        if end < known.best * (1.0 - SAME):
            known.best, known.instance = end, k
    answer = np.maximum(np.sum(one.W_out * one.W_in.T, axis=1) * law.scale + one.b, 0.0)
    answer -= np.maximum(one.b, 0.0)
    return Audited(
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
        per_feature=here.per_feature,
        zero_loss=aim.unit,
        best_known=np.nan,
        best_name="",
        lower_bound=known.lower,
        rug=known.rug,
        represented=int(np.sum(answer > KEPT * law.scale)),
        dimensionality=feature_dimensionality(one.W_in.T),
        structure=structure(one.W_in.T) if n <= _STRUCTURE else "",
        gradient_norm=slope,
        end_loss=end,
        verdict="not asked",
        law=law,
    )


def _judged(one: Audited, known: _Known) -> Audited:
    verdict, name = one.verdict, known.name
    if known.instance is not None:
        itself = known.instance == one.instance
        name = f"descent from {'these weights' if itself else f'instance {known.instance}'}"
    if not np.isnan(one.end_loss):
        rounding = SAME * one.loss + one.loss_error
        if one.end_loss < one.loss - rounding:
            verdict = "saddle" if one.gradient_norm < STILL else "unfinished"
        else:
            verdict = "best known" if one.loss <= known.best * (1.0 + SAME) + rounding else "local minimum"
    return replace(one, best_known=known.best, best_name=name, verdict=verdict)


def _checked(k: int, one: Weights) -> Weights:
    W_out = arguments.matrix(f"W_out of instance {k}", one.W_out)
    n, m = W_out.shape
    if max(n, m) > _LARGEST:
        raise ValueError(f"`model` must have at most {_LARGEST} features and neurons; got {n} and {m}.")
    W_in = arguments.matrix(f"W_in of instance {k}", one.W_in, (m, n))
    b = arguments.vector(f"b of instance {k}", one.b, n)
    for name, array in (("W_out", W_out), ("W_in", W_in), ("b", b)):
        arguments.real(f"{name} of instance {k}", array, -1e6, 1e6)
    return Weights(W_out, W_in, b, one.b_saved)


def _found(model: Any, layout: str | None, keys: Mapping[str, str] | None) -> tuple[str, list[Weights]]:
    given = [model] if isinstance(model, Weights) else model
    if isinstance(given, Sequence) and given and all(isinstance(one, Weights) for one in given):
        return "weights", list(given)
    return recognise(state_of(model), layout=layout, keys=keys)


def audit(
    model: Any,
    law: Any,
    *,
    layout: str | None = None,
    keys: Mapping[str, str] | None = None,
    instances: Any = None,
    steps: int = 300,
    starts: int = 20,
    rng: Any = 0,
    reached: Callable[[int], None] = lambda instance: None,
) -> Audit:
    """Say what a trained model ReLU(W_out W_in x + b) is, how good it could be, and if training found it.

    Parameters
    ----------
    model : torch.nn.Module, mapping, path, Weights or sequence of Weights
        A module, a state dict of tensors or arrays, or a file of one: .npz, .safetensors, or PyTorch's of
        tensors alone. Layouts of public code are recognised by names and shapes, see `LAYOUTS`. Arrays of
        one's own are `Weights`.
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
        Starts of a search for the least loss, for 9 features at most. None with 0.
    rng : Generator, int or None, optional
        For the search.
    reached : callable, optional
        Called with the number of each instance that is finished.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        If the layout is not known, weights are not finite, or law and model do not fit.

    Notes
    -----
    Tied models are compared with tied ones. The best known loss of alike features is that of the envelope of
    codes (`solvers.codes.envelope`) in the limit of many features; of features that differ or depend on each
    other that of `theory.unequal.priority_loss`, for tied models that of keeping as many as there are
    neurons. Where there is a search it is that of the search. Instances of one size and law share the
    search, and what descent from any of them reaches.

    A bias that a file leaves out is assumed to be that of least loss beside the weights.

    Examples
    --------
    >>> pair = np.array([[1.0], [-1.0]])
    >>> found = audit({"W": pair, "b": np.zeros(2)}, 0.1)
    >>> found.layout, found.models[0].verdict, found.models[0].structure
    ('liuyz0/SuperpositionScaling', 'unfinished', 'antipodal pair 0-1')
    """
    steps = arguments.integer("steps", steps, 0, 10**6)
    starts = arguments.integer("starts", starts, 0, 10**6)
    generator = arguments.generator("rng", rng)
    name, found = _found(model, layout, keys)
    picked = (
        range(len(found))
        if instances is None
        else [arguments.integer("instances", one, 0, len(found) - 1) for one in instances]
    )
    models = {k: _checked(k, found[k]) for k in picked}
    several = isinstance(law, Sequence | np.ndarray) and not isinstance(law, str) and np.ndim(law) == 1
    laws = list(law) if several else [law] * len(found)
    if len(laws) != len(found):
        raise ValueError(
            f"`law` must be one law, or one for each of {len(found)} instances; got {len(laws)}."
        )
    known: dict[Any, _Known] = {}
    measured = []
    for k, one in models.items():
        n, m = one.W_out.shape
        own = as_features(laws[k], n)
        if not one.b_saved:
            one = replace(one, b=best_bias(one.W_out @ one.W_in, own))
        alike = n, m, own, one.tied
        if alike not in known:
            known[alike] = _known(n, m, own, one.tied, starts, generator)
        measured.append((_measured(k, one, own, known[alike], steps, generator), known[alike]))
        reached(k)
    return Audit(layout=name, models=tuple(_judged(*pair) for pair in measured))
