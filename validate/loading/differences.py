"""How a live module differs from the models of its arrays: activation, normalisation of inputs, top k."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np
from scipy.special import erf, expit

from ...theory.validation import FloatArray
from .calling import Answers, allowed_share
from .parts import StackedModel, apply_activation, magnitude, preactivation, times
from .parts import outputs as outputs_of
from .readings import Reading

Function = Callable[[FloatArray], FloatArray]

# Models whose variants are tried, and those of them with variants that depend on the whole batch.
_BASES, _OF_BATCHES = 120, 4
# Inputs of each at first: most variants fail there.
_ROWS = 12
# Top k are tried up to this one.
_MOST_K = 64
# Entries of an encoder up to which batches are looked at.
_SMALL = 2**14
# Seconds after which no further model is looked at.
_SECONDS = 5.0
# What a model's own activations are called.
_ACTIVATION_PHRASES = {"identity": "no activation", "relu": "a ReLU"}


def _leaky_relu(slope: float) -> Function:
    """Return the function that is z for z > 0 and slope * z below."""
    return lambda z: np.where(z > 0.0, z, slope * z)


def _softmax(z: FloatArray) -> FloatArray:
    """Return the softmax of z over its last axis."""
    e = np.exp(z - z.max(axis=2, keepdims=True))
    return np.asarray(e / e.sum(axis=2, keepdims=True))


# Of leaky ReLUs; 0.25 is where a PReLU begins.
_SLOPES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5)
# Activations of public code that no `Model` has, by the words that name them.
_ACTIVATIONS: dict[str, Function] = {
    "no activation": lambda z: z,
    "a ReLU": lambda z: np.maximum(z, 0.0),
    "a GELU": lambda z: z * 0.5 * (1.0 + erf(z / np.sqrt(2.0))),
    "a GELU (by tanh)": lambda z: z * 0.5 * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (z + 0.044715 * z**3))),
    **{f"a leaky ReLU of slope {slope:g}": _leaky_relu(slope) for slope in _SLOPES},
    "an ELU": lambda z: np.where(z > 0.0, z, np.expm1(np.minimum(z, 0.0))),
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


def _top_k(z: FloatArray, k: int) -> FloatArray:
    """Return ReLU(z) at the k largest entries of each row, and 0 elsewhere."""
    least = np.partition(z, -k, axis=2)[..., [-k]]
    return np.where(z >= least, np.maximum(z, 0.0), 0.0)


def _batch_top_k(z: FloatArray, k: int) -> FloatArray:
    """Return ReLU(z) at the largest entries of all rows together, k for each row, and 0 elsewhere."""
    least = np.partition(z.ravel(), -k * len(z))[-k * len(z)]
    return np.where(z >= least, np.maximum(z, 0.0), 0.0)


def _normalisations(x: FloatArray) -> Iterator[tuple[str, FloatArray, FloatArray, FloatArray]]:
    """Yield ways to normalise inputs x (count, instances, n): (name, shift, divisor, factor).

    A module computes with (x - shift) / divisor; one that undoes this multiplies its outputs by the factor
    and adds the shift. Shift, divisor and factor are (count, instances, 1).
    """
    mean, norm = x.mean(axis=2, keepdims=True), np.linalg.norm(x, axis=2, keepdims=True)
    zero, deviation = np.zeros_like(mean), x.std(axis=2, keepdims=True, ddof=1)
    spread = np.sqrt(np.var(x, axis=2, keepdims=True) + 1e-5)
    for name, shift, size, factor in (
        ("layer normalisation", mean, spread, spread),
        ("layer normalisation of SAELens", mean, deviation + 1e-5, deviation),
        ("unit norm", zero, norm, norm),
        ("a norm of √n", zero, norm / np.sqrt(x.shape[2]), norm / np.sqrt(x.shape[2])),
    ):
        yield name, shift, np.where(size > 0.0, size, 1.0), factor


def _variants(model: StackedModel) -> Iterator[tuple[str, Function | None, Function | None]]:
    """Yield (phrase, hidden activation, output activation) of variants of a model.

    The phrase describes the variant, such as "has a GELU on its outputs". An activation of None stands for
    the model's own.
    """
    identity, relu = (_ACTIVATIONS[name] for name in ("no activation", "a ReLU"))
    for name, f in _ACTIVATIONS.items():
        if name != _ACTIVATION_PHRASES.get(model.hidden):
            yield f"has {name} on its hidden neurons", f, None
        if name != _ACTIVATION_PHRASES.get(model.output):
            yield f"has {name} on its outputs", None, f
        if model.output != "identity":
            yield f"has {name} on its hidden neurons and nothing on its outputs", f, identity
    for k in range(1, min(model.W_in.shape[1], _MOST_K)):
        yield f"takes the top {k} of its hidden neurons", partial(_top_k, k=k), None
    yield "has ReLUs on its hidden neurons and on its outputs", relu, relu


@np.errstate(all="ignore")
def _matching_variant(
    model: StackedModel, x: FloatArray, answer: FloatArray, allowed: FloatArray, batches: bool
) -> str:
    """Return the phrase of a model's variant with outputs `answer` at `x`, or "" if there is none.

    Variants have other activations, take the top k neurons, or normalise inputs; a phrase is "has a GELU on
    its outputs". x is (count, instances, n), `answer` (count, instances, n_outputs). Outputs may differ by
    `allowed` (count, instances, 1); with `batches`, the top k of a whole batch are tried too.
    """
    z, n_hidden = preactivation(model, x), model.W_in.shape[0] * model.W_in.shape[1]

    def is_answer(y: FloatArray, rows: slice = slice(None)) -> bool:
        """Return whether outputs y equal the answer in these rows, up to the allowed difference."""
        return bool(np.all(np.abs(answer[rows] - y) <= allowed[rows]))

    def agrees(hidden: Function | None, output: Function | None, rows: slice = slice(None)) -> bool:
        """Return whether the variant with these activations has the answer as outputs in these rows.

        `hidden` and `output` are functions of preactivations; None stands for the model's own activation.
        """
        h = hidden(z[rows]) if hidden else apply_activation(z[rows], model.hidden, model.thresholds)
        y = times(model.W_out, h) + model.b
        return is_answer(output(y) if output else apply_activation(y, model.output, model.thresholds), rows)

    # First, as such a module answers most inputs as one with ReLUs does.
    for k in range(1, min(n_hidden, _MOST_K)) if batches else ():
        if agrees(partial(_batch_top_k, k=k), None):
            return f"takes the top {k} a row of a whole batch (batch top k)"
    first_rows = slice(1, None, max(len(x) // _ROWS, 1))
    for name, hidden, output in _variants(model):
        if agrees(hidden, output, first_rows) and agrees(hidden, output):
            return name
    for name, shift, size, factor in _normalisations(x):
        y = outputs_of(model, (x - shift) / size)
        for end, restored in (("", y), (" and undoes it in its outputs", y * factor + shift)):
            if is_answer(restored):
                return f"normalises its input ({name}){end}"
    return ""


def describe_difference(readings: Iterable[Reading], answers: Answers, names: Iterable[str]) -> str:
    """Return how a module differs from all models of its arrays, as a phrase that continues "a module that".

    `readings` are models that the arrays may be, `answers` calls the module, `names` are those of its arrays.
    If a reading has the module's outputs once its activation or the normalisation of inputs is changed, the
    phrase names that change; else it gives the distance of the closest reading.
    """
    if answers.is_random:
        return "has random outputs in evaluation mode too"
    if any("gate" in name or "r_mag" in name for name in names):
        return "is gated"
    closest, least_error, compared, begin = "", np.inf, 0, perf_counter()
    bases = (reading for reading in readings if reading.parts.hidden != "jumprelu")
    for reading in islice(bases, _BASES):
        if perf_counter() - begin > _SECONDS:
            break
        model = reading.parts
        several, _, n = model.W_in.shape
        x = answers.inputs(n, several)
        y, size = outputs_of(model, x), magnitude(model, x).max(axis=2, keepdims=True)
        for answer in answers.first_outputs(n, several, "bf" if several == 1 else "bif"):
            if y.shape != answer.shape:
                continue
            error = float(np.nanmax(np.abs(answer - y) / np.maximum(size, 1e-300)))
            closest, least_error = (reading.name, error) if error < least_error else (closest, least_error)
            compared += 1
            allowed = 2.0 * allowed_share(model, answers.unit_roundoff) * size
            batches = compared <= _OF_BATCHES and model.W_in.size <= _SMALL
            if name := _matching_variant(model, x, answer, allowed, batches):
                return f"{name}, where it was read as {reading.name}"
    if not closest:
        return "takes no inputs or gives no outputs that its arrays allow"
    return f"answers otherwise, by up to {100 * least_error:.2g} % of what is summed; closest is {closest}"
