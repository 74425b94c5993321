"""What a live module computes in place of a model: another activation, a normalised input, the top k."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from scipy.special import erf, expit

from ...theory.arguments import FloatArray
from .calling import Answers, allowed_share
from .parts import Parts, activated, magnitude, preactivation, times
from .parts import outputs as outputs_of
from .readings import Reading

__all__ = ["difference"]

Function = Callable[[FloatArray], FloatArray]
# What the hidden neurons receive of so many inputs; those of one model are always the same.
_Received = dict[int, Any]

# Models whose variants are tried, and those of them with variants that depend on the whole batch.
_BASES, _OF_BATCHES = 120, 4
# Inputs of each at first: most variants fail there.
_ROWS = 12
# Top k are tried up to this one.
_MOST_K = 64
# Words of variants that are models too.
_OF_MODELS = ("has a ReLU on", "has no activation", "has ReLUs")
# Entries of an encoder up to which batches are looked at.
_SMALL = 2**14
# Seconds after which no further model is looked at.
_SECONDS = 5.0
# What a model's own activations are called.
_OWN = {"identity": "no activation", "relu": "a ReLU"}


def _leaky(slope: float) -> Function:
    return lambda z: np.where(z > 0.0, z, slope * z)


def _gelu_by_tanh(z: FloatArray) -> FloatArray:
    return np.asarray(0.5 * z * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (z + 0.044715 * z**3))))


def _elu(z: FloatArray) -> FloatArray:
    return np.where(z > 0.0, z, np.expm1(np.minimum(z, 0.0)))


def _softmax(z: FloatArray) -> FloatArray:
    e = np.exp(z - z.max(axis=2, keepdims=True))
    return np.asarray(e / e.sum(axis=2, keepdims=True))


# Of leaky ReLUs; 0.25 is where a PReLU begins.
_SLOPES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5)
# Activations of public code that no `Model` has, by the words that name them.
_ACTIVATIONS: dict[str, Function] = {
    "no activation": lambda z: z,
    "a ReLU": lambda z: np.maximum(z, 0.0),
    "a GELU": lambda z: z * 0.5 * (1.0 + erf(z / np.sqrt(2.0))),
    "a GELU (by tanh)": _gelu_by_tanh,
    **{f"a leaky ReLU of slope {slope:g}": _leaky(slope) for slope in _SLOPES},
    "an ELU": _elu,
    "a SiLU": lambda z: z * expit(z),
    "a softplus": lambda z: np.logaddexp(0.0, z),
    "a tanh": np.tanh,
    "a tanh of a ReLU": lambda z: np.tanh(np.maximum(z, 0.0)),
    "a sigmoid": expit,
    "a ReLU6": lambda z: np.clip(z, 0.0, 6.0),
    "a clamp to [0, 1]": lambda z: np.clip(z, 0.0, 1.0),
    "an absolute value": np.abs,
    "a squared ReLU": lambda z: np.maximum(z, 0.0) ** 2,
    "a softmax": _softmax,
}  # fmt: skip


def _largest(z: FloatArray, k: int) -> FloatArray:
    """Return ReLU(z) at the k largest entries of each row, and 0 elsewhere."""
    least = np.partition(z, -k, axis=2)[..., [-k]]
    return np.where(z >= least, np.maximum(z, 0.0), 0.0)


def _largest_of_batch(z: FloatArray, k: int) -> FloatArray:
    """Return ReLU(z) at the largest entries of all rows together, k for each row, and 0 elsewhere."""
    least = np.partition(z.ravel(), -k * len(z))[-k * len(z)]
    return np.where(z >= least, np.maximum(z, 0.0), 0.0)


def _normalised(x: FloatArray, how: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return normalised inputs, with what outputs are multiplied by and shifted by to undo it."""
    mean = np.zeros((*x.shape[:2], 1))
    if "layer" in how:
        mean = x.mean(axis=2, keepdims=True)
        usual = how == "layer normalisation"
        size = (
            np.sqrt(np.var(x, axis=2, keepdims=True) + 1e-5)
            if usual
            else x.std(axis=2, keepdims=True, ddof=1)
        )
    else:
        size = np.linalg.norm(x, axis=2, keepdims=True) / (np.sqrt(x.shape[2]) if "√" in how else 1.0)
    size = np.where(size > 0.0, size, 1.0)
    return (x - mean) / size, size, mean


_NORMALISATIONS = ("layer normalisation", "layer normalisation of SAELens", "unit norm", "a norm of √n")


def _with(model: Parts, hidden: Function | None, output: Function | None, received: _Received) -> Function:
    """Return a model with other activations; None is the model's own."""

    def answer(x: FloatArray) -> FloatArray:
        z = received.setdefault(len(x), None)
        if z is None:
            z = received[len(x)] = preactivation(model, x)
        h = hidden(z) if hidden else activated(z, model.hidden, model.thresholds)
        y = times(model.W_out, h) + model.b
        return output(y) if output else activated(y, model.output, model.thresholds)

    return answer


def _variants(model: Parts, received: _Received) -> Iterator[tuple[str, Function]]:
    """Yield a model with other activations, or of a normalised input, with what it then does."""
    plain = _ACTIVATIONS["no activation"]
    for name, f in _ACTIVATIONS.items():
        if name != _OWN.get(model.hidden):
            yield f"has {name} on its hidden neurons", _with(model, f, None, received)
        if name != _OWN.get(model.output):
            yield f"has {name} on its outputs", _with(model, None, f, received)
        if model.output != "identity":
            yield (
                f"has {name} on its hidden neurons and nothing on its outputs",
                _with(model, f, plain, received),
            )
    for k in range(1, min(model.W_in.shape[1], _MOST_K)):
        yield f"takes the top {k} of its hidden neurons", _with(model, partial(_largest, k=k), None, received)
    for how in _NORMALISATIONS:

        def answer(x: FloatArray, how: str = how, undo: bool = False) -> FloatArray:
            inner, size, mean = _normalised(x, how)
            return outputs_of(model, inner) * size + mean if undo else outputs_of(model, inner)

        yield f"normalises its input ({how})", answer
        yield f"normalises its input ({how}) and undoes it in its outputs", partial(answer, undo=True)
    both = _ACTIVATIONS["a ReLU"]
    yield "has ReLUs on its hidden neurons and on its outputs", _with(model, both, both, received)


def _of_batches(model: Parts, received: _Received) -> Iterator[tuple[str, Function]]:
    """Yield a model whose neurons depend on the whole batch, with what it then does."""
    for k in range(1, min(model.W_in.shape[0] * model.W_in.shape[1], _MOST_K)):
        f = partial(_largest_of_batch, k=k)
        yield f"takes the top {k} a row of a whole batch (batch top k)", _with(model, f, None, received)


def _named_variant(
    model: Parts, x: FloatArray, found: FloatArray, allowed: FloatArray, batches: bool, others_only: bool
) -> str:
    """Return what a module does whose answers are those of a variant of a model, or nothing."""
    few = slice(1, None, max(len(x) // _ROWS, 1))
    received: _Received = {}
    with np.errstate(all="ignore"):
        for name, f in _of_batches(model, received) if batches else ():
            if np.all(np.abs(found - f(x)) <= allowed):
                return name
        for name, f in _variants(model, received):
            if others_only and any(words in name for words in _OF_MODELS):
                continue
            if np.all(np.abs(found[few] - f(x[few])) <= allowed[few]) and np.all(
                np.abs(found - f(x)) <= allowed
            ):
                return name
    return ""


def difference(
    readings: Iterable[Reading],
    answers: Answers,
    names: list[str],
    *,
    searched: bool,
    others_only: bool = False,
) -> str:
    """Return what a module does that none of some models does, as the end of a sentence on it.

    It names the activation or normalisation with which one of the models would answer as the module does;
    else how far off the closest one is, or, with `others_only`, nothing, and activations that a `Model` may
    have are passed over. Where all models of its arrays were searched, it is none of ReLUs alone, though it
    may be so at most inputs.
    """
    if answers.is_random:
        return "has random outputs in evaluation mode too"
    if any("gate" in name or "r_mag" in name for name in names):
        return "is gated"
    closest, apart, tried, begin = "", np.inf, 0, perf_counter()
    for reading in islice((one for one in readings if one.parts.hidden != "jumprelu"), _BASES):
        if perf_counter() - begin > _SECONDS:
            break
        model = reading.parts
        several, _, n = model.W_in.shape
        for found in answers.first(n, several, "bf" if several == 1 else "bif"):
            x = answers.inputs(n, several)
            wanted = outputs_of(model, x)
            if wanted.shape != found.shape:
                continue
            size = magnitude(model, x).max(axis=2, keepdims=True)
            off = float(np.nanmax(np.abs(found - wanted) / np.maximum(size, 1e-300)))
            closest, apart = (reading.name, off) if off < apart else (closest, apart)
            tried += 1
            allowed = 2.0 * allowed_share(model, answers.unit_roundoff) * size
            batches = searched and tried <= _OF_BATCHES and model.W_in.size <= _SMALL
            if name := _named_variant(model, x, found, allowed, batches, others_only):
                return f"{name}, where it was read as {reading.name}"
    if others_only:
        return ""
    if not closest:
        return "takes no inputs or gives no outputs that its arrays allow"
    return f"answers otherwise, by up to {100 * apart:.2g} % of what is summed; closest is {closest}"
