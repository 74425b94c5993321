"""The outputs of a live module, which is left unchanged, and whether they are those of a model of its arrays.

A module is copied, and the copy is called in evaluation mode and double precision, without gradients. A
module that cannot be copied is called itself, and its mode, parameters and buffers are restored. So are the
states of the random generators. Inputs are of both signs and several scales: zero, single features, sparse
and dense mixtures; then, for a model whose outputs agree, inputs on both sides of the kinks of neurons and
outputs, and inputs at which all neurons are on.

Arguments of several functions: `n`, features of an input; `n_instances`, models in one module; `form`, the
order of the axes of the module's input, as in `_FORMS`; `torch`, the imported package.
"""

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...theory.validation import FloatArray, short_repr
from .parts import StackedModel, magnitude, outputs, preactivation

# Relative difference that is allowed of what is summed to an output, in double precision.
TOLERANCE = 1e-6
# Beyond that a module that has no double precision may be off by rounding: so many units for each summand.
_UNITS_MORE = 8
# Unit roundoffs of kinds of numbers.
_ROUNDOFFS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# Features whose own inputs are tried, and inputs of each kind of mixture.
_SINGLES, _MIXTURES = 24, 24
# Largest and least size of inputs; the first also for modules of half precision.
_SIZES, _HALF_SIZE = (1e-3, 1e3), 8.0
# Neurons and outputs that are taken to both sides of their kinks.
_KINKS = 48
# How far beside them, least and most, in units of a neuron's weights and bias.
_BESIDE = (1e-4, 3.0)
# Entries of an encoder up to which inputs are found that turn all neurons on.
_SOLVED = 2**22
# Newton steps towards the kinks of outputs; few suffice, as outputs are linear between kinks of neurons.
_NEWTON = 4
# Inputs of a small batch.
_SMALL_BATCH = 8
# Containers within each other in which outputs are looked for.
_DEEPEST = 4
# Steps towards inputs that turn many neurons on.
_PERCEPTRON = 60
# Axes along which batches lie, in letters: b inputs, f features, i instances, o one.
_FORMS = ("bf", "bof", "fb", "f")
_FORMS_OF_SEVERAL = ("bif", "ibf", "bf")


def random_inputs(n: int, rng: np.random.Generator, largest: float = _SIZES[1]) -> FloatArray:
    """Return random inputs (count, n): zero, single features and mixtures, with sizes up to `largest`.

    The count depends on n alone; n is the number of features.
    """
    single, shape = np.eye(n)[rng.permutation(n)[:_SINGLES]], (_MIXTURES, n)
    dense = [rng.normal(size=shape), rng.uniform(size=shape), -rng.uniform(size=shape)]
    sparse = [draw(size=shape) * (rng.random(shape) < 0.2) for draw in (rng.normal, rng.uniform)]
    sizes = np.geomspace(_SIZES[0], largest, 2 * _MIXTURES)[:, None]
    scaled = sizes * rng.normal(size=(2 * _MIXTURES, n))
    large = largest * rng.normal(size=shape)
    return np.concatenate([np.zeros((1, n)), single, -single, *dense, *sparse, scaled, -scaled, large])


def _kink_distances(count: int, rng: np.random.Generator) -> FloatArray:
    """Return `count` random signed distances of pre-activations from a kink, log-uniform in size.

    Sizes are from 1e-4 to 3, in units of the length of the neuron's weights plus its |bias|.
    """
    logs = rng.uniform(float(np.log(_BESIDE[0])), float(np.log(_BESIDE[1])), count)
    return np.asarray(rng.choice([-1.0, 1.0], count) * np.exp(logs))


def inputs_at_kinks(model: StackedModel, rng: np.random.Generator, largest: float) -> FloatArray:
    """Return inputs (count, n) just below and above the kinks of a model's neurons and outputs.

    At a kink a pre-activation is 0, or at the threshold. Inputs with an entry above ten times `largest`, the
    largest size of other inputs, are left out.
    """
    n = model.W_in.shape[1]
    parts: list[FloatArray] = [np.zeros((1, n))]
    W, b, threshold = model.W_in, model.b_in, model.thresholds if model.hidden == "jumprelu" else 0.0
    if model.hidden == "identity" and model.W_out.size + model.W_in.size <= _SOLVED:
        W, b = model.W_out @ model.W_in, model.W_out @ model.b_in + model.b
    elif model.output != "identity":
        parts.append(_at_kinks_of_outputs(model, rng))
    units = np.resize(rng.permutation(len(W)), _KINKS)
    squares = np.sum(W[units] ** 2, axis=1)
    units, squares = units[squares > 0.0], squares[squares > 0.0]
    if units.size:
        start = rng.normal(size=(units.size, n)) * np.exp(rng.uniform(-3.0, 1.0, (units.size, 1)))
        scale = np.sqrt(squares) + np.abs(b[units])
        aim = np.broadcast_to(threshold, len(W))[units] + scale * _kink_distances(units.size, rng)
        z = np.sum(start * W[units], axis=1) + b[units]
        parts.append(start + ((aim - z) / squares)[:, None] * W[units])
        if W.size <= _SOLVED:  # all units on, as far as that can be
            parts += [_inputs_with_most_on(W, b - threshold, size, rng) for size in (1.0, 10.0)]
    x = np.concatenate(parts)
    largest_entries = np.abs(x).max(axis=1)
    return np.asarray(x[np.isfinite(largest_entries) & (largest_entries <= 10.0 * largest)])


def _at_kinks_of_outputs(model: StackedModel, rng: np.random.Generator) -> FloatArray:
    """Return inputs (count, n) just below and above the kinks of a model's outputs, by Newton's method.

    `model` has one instance, and hidden ReLUs or JumpReLUs.
    """
    units = rng.integers(0, len(model.W_out), _KINKS)
    x = rng.normal(size=(_KINKS, model.W_in.shape[1]))
    threshold = model.thresholds if model.output == "jumprelu" else np.zeros(len(model.W_out))
    beside = _kink_distances(_KINKS, rng)
    for _ in range(_NEWTON):
        z = x @ model.W_in.T + model.b_in
        on = z > (model.thresholds if model.hidden == "jumprelu" else 0.0)
        y = np.sum(model.W_out[units] * z * on, axis=1) + model.b[units]
        slope = (model.W_out[units] * on) @ model.W_in
        square = np.maximum(np.sum(slope**2, axis=1), 1e-12)
        aim = threshold[units] + beside * (np.sqrt(square) + np.abs(model.b[units]))
        x = x + ((aim - y) / square)[:, None] * slope
    return x


def _inputs_with_most_on(W: FloatArray, b: FloatArray, size: float, rng: np.random.Generator) -> FloatArray:
    """Return inputs (8, n) at which many units W x + b are above 0, by a short perceptron search.

    The search starts from 4 least-squares solutions for preactivations of order `size`.
    """
    norms = np.maximum(np.linalg.norm(W, axis=1), 1e-300)
    x = np.linalg.lstsq(W, (size * rng.uniform(0.2, 1.0, (4, len(W))) - b).T, rcond=None)[0].T
    best, most = x, np.sum(x @ W.T + b > 0.0, axis=1)
    for step in range(_PERCEPTRON):
        off = x @ W.T + b <= 0.0
        count = np.sum(~off, axis=1)
        better = count > most
        best, most = np.where(better[:, None], x, best), np.maximum(count, most)
        x = x + size / (1.0 + step) * ((off / norms) @ W) / np.maximum(off.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.concatenate([best, x]))


@dataclass
class Answers:
    """A module as called in one way (precision, device), and its outputs so far."""

    call: Callable[[FloatArray], Any]
    unit_roundoff: float = 2.0**-53
    """Unit roundoff of the numbers that the module computes with."""
    largest_input: float = _SIZES[1]
    error: str = ""
    """Type and message of the last exception of a call."""
    is_random: bool = False
    """Whether two calls with the same inputs gave different outputs."""
    signs: str = "both"
    """Inputs to use: "both" signs, or "positive" (from 0 to 1) alone."""
    training: "Answers | None" = None
    """The module in training mode, if it was passed in this mode."""
    outputs_by_form: dict[tuple[str, int, int], list[FloatArray]] = field(default_factory=dict, init=False)
    inputs_by_size: dict[tuple[int, int], FloatArray] = field(default_factory=dict, init=False)

    def inputs(self, n: int, n_instances: int) -> FloatArray:
        """Return the random inputs (count, `n_instances`, n) of a module's first call, always the same."""
        key = n, n_instances
        if key not in self.inputs_by_size:
            rng = np.random.default_rng(0)
            x = random_inputs(n, rng, self.largest_input)
            if self.signs == "positive":
                x = np.minimum(np.abs(x), 1.0)
            self.inputs_by_size[key] = np.stack([np.roll(x, k, axis=0) for k in range(n_instances)], axis=1)
        return self.inputs_by_size[key]

    def outputs(self, x: FloatArray, form: str) -> list[FloatArray]:
        """Return all arrays (count, instances, outputs) of the module's result for x (count, instances, n).

        `form` is the order of the axes in which it is called: b inputs, i instances, f features, o of length
        one, such as "bif"; with "f" vectors are passed one by one. The list is empty if the call fails.
        """
        if form == "f":
            answers = [self._arrays(vector) for vector in x[:, 0]]
            if not all(answers) or len(set(map(len, answers))) > 1:
                return []
            by_place = zip(*answers, strict=True)
            return [
                np.stack(y)[:, None] for y in by_place if y[0].ndim == 1 and len({*map(np.shape, y)}) == 1
            ]
        # "bf" gives all instances the same inputs.
        batch = {"bif": x, "ibf": x.swapaxes(0, 1), "bof": x, "bf": x[:, 0], "fb": x[:, 0].T}[form]
        arrays = [_as_instances(array, form, x.shape[:2]) for array in self._arrays(batch)]
        return [array for array in arrays if array is not None]

    def _arrays(self, x: FloatArray) -> list[FloatArray]:
        """Return the arrays of the module's result for x, as doubles; [] if the call fails (see `error`).

        x is passed as it is, its axes in the order that the module takes.
        """
        try:
            arrays = list(_arrays_in(self.call(x)))
        except Exception as error:  # another signature, or other shapes: whatever code of the user's raises
            self.error = f"{type(error).__name__}: {short_repr(str(error), 120)}"
            return []
        for array in arrays:  # which may be cast within a module
            kind = str(array.dtype).rpartition(".")[2]
            self.unit_roundoff = max(self.unit_roundoff, _ROUNDOFFS.get(kind, 0.0))
        return [np.asarray(array.double() if hasattr(array, "detach") else array, float) for array in arrays]

    def differs_in_training(self) -> bool:
        """Return whether the module was passed in training mode, and its outputs differ in this mode."""
        if self.training is None:
            return False
        training = replace(self.training, signs=self.signs)
        for (form, n, n_instances), answers in self.outputs_by_form.items():
            if answers:
                return not _are_close(answers, training.first_outputs(n, n_instances, form))
        return False

    def first_outputs(self, n: int, n_instances: int, form: str) -> list[FloatArray]:
        """Return all arrays (count, instances, outputs) of the module's result for its first inputs.

        These inputs have n features for each of `n_instances` models, in the order of axes `form`, such as
        "bif" (see `outputs`). If a second call gives other outputs, `is_random` is set. The result is stored.
        """
        key = form, n, n_instances
        if key not in self.outputs_by_form:
            x = self.inputs(n, n_instances)
            answers = self.outputs(x, form)
            if answers and not self.is_random:
                again = self.outputs(x[: len(x) if form != "f" else 8], form)
                self.is_random = not _are_close(answers, again)
            self.outputs_by_form[key] = answers
        return self.outputs_by_form[key]

    def factor(self, model: StackedModel, rows: int | None = None) -> float | None:
        """Return c > 0 such that an array of the module's result is c times the outputs of `model`, or None.

        Outputs are compared, up to rounding, at random inputs and at kinks of the model, where neurons turn
        on; with `rows` at the first `rows` random inputs alone. The module is called with its axes in each
        order that it may take. `model` has a model for each instance.
        """
        n_instances, _, n = model.W_in.shape
        for form in _FORMS if n_instances == 1 else _FORMS_OF_SEVERAL:
            if form == "f" and self.first_outputs(n, n_instances, "bf"):
                continue  # what takes batches answers them, or is another model
            x = self.inputs(n, n_instances)
            for k, answers in enumerate(self.first_outputs(n, n_instances, form)):
                if form == "bf" and n_instances > 1:
                    x = np.repeat(x[:, :1], n_instances, axis=1)
                factor = _common_factor(model, x[:rows], answers[:rows], self.unit_roundoff)
                if factor is not None and (rows is not None or self._agrees_at_kinks(model, form, k, factor)):
                    return factor
        return None

    def _agrees_at_kinks(self, model: StackedModel, form: str, k: int, factor: float) -> bool:
        """Return whether the module's k-th array of results is `factor` times the model's outputs near kinks.

        Both must agree but for rounding at random inputs at which a neuron or output of `model` is just on or
        off (`inputs_at_kinks`), and at some of these as a smaller batch. `form` is the order of axes in which
        the module is called, such as "bif" (inputs, instances, features).
        """
        rng = np.random.default_rng(1)
        kink_inputs = [inputs_at_kinks(instance, rng, self.largest_input) for instance in model.instances()]
        count = min(map(len, kink_inputs))
        x = np.stack([inputs[:count] for inputs in kink_inputs], axis=1)
        if self.signs == "positive":
            x = x[np.all((x >= 0.0) & (x <= 1.0), axis=(1, 2))]
        if form == "bf":
            x = np.repeat(x[:, :1], x.shape[1], axis=1)
        if not len(x):
            return True
        # Inputs with most neurons on are repeated as a batch: outputs must not depend on the batch.
        most = np.argsort(np.sum(preactivation(model, x) > 0.0, axis=(1, 2)))[-_SMALL_BATCH:]
        for batch in (x, x[most]):
            answers = self.outputs(batch, form)
            if k >= len(answers) or not _common_factor(model, batch, answers[k], self.unit_roundoff, factor):
                return False
        return True


def _as_instances(array: FloatArray, form: str, shape: tuple[int, ...]) -> FloatArray | None:
    """Return outputs, `array`, as (count, instances, outputs); None if their axes do not allow it.

    `form` is the order of axes in which the inputs were passed, such as "bif" (inputs, instances, features);
    `shape` is (count, instances).
    """
    count, several = shape
    if form == "fb" and array.ndim == 2:
        array = array.T
    if array.ndim == 2 and several == 1 and len(array) == count:
        return array[:, None]
    if array.ndim == 3 and array.shape[:2] == (count, several):
        return array
    if array.ndim == 3 and several > 1 and array.shape[:2] == (several, count):
        return array.swapaxes(0, 1)
    return None


def _arrays_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the arrays or tensors of floats in a module's result: an array, or containers of arrays.

    `value` is the result, or a part of it inside `depth` containers.
    """
    if hasattr(value, "detach"):
        if value.is_floating_point():
            yield value.detach().cpu()
    elif hasattr(value, "__array__"):
        if np.asarray(value).dtype.kind == "f":
            yield np.asarray(value)
    elif depth < _DEEPEST and (isinstance(value, Mapping | tuple | list) or hasattr(value, "__dict__")):
        entries = value if isinstance(value, Mapping | tuple | list) else vars(value)
        for entry in entries.values() if isinstance(entries, Mapping) else entries:
            yield from _arrays_in(entry, depth + 1)


def _are_close(answers: Sequence[FloatArray], again: Sequence[FloatArray]) -> bool:
    """Return whether outputs of two calls, `answers` and `again`, agree but for rounding.

    Each has the arrays of a call; those of the second may have fewer rows.
    """
    pairs = zip(answers, again, strict=False)
    return all(
        np.allclose(a[: len(b)], b, rtol=1e-5, atol=1e-7 * np.abs(a).max(), equal_nan=True) for a, b in pairs
    )


def allowed_share(model: StackedModel, unit_roundoff: float) -> float:
    """Return the difference allowed between outputs of a module and `model`, in units of their `magnitude`.

    A `magnitude` is the output's sum with the absolute values of all terms. `unit_roundoff` is that of the
    module's numbers, such as 2^-24.
    """
    return max(TOLERANCE, (sum(model.W_in.shape[1:]) + _UNITS_MORE) * unit_roundoff)


def _common_factor(
    model: StackedModel, x: FloatArray, answers: FloatArray, unit_roundoff: float, factor: float | None = None
) -> float | None:
    """Return c > 0 such that `answers` are c times the outputs of `model` at `x`; None if there is none.

    x is (count, instances, n), `answers` (count, instances, outputs). If a `factor` is passed, only c =
    `factor` is checked. Rounding errors are allowed: a sum of k products is off by at most (k + 2) u times
    the sum of their sizes, where u is `unit_roundoff`; neurons do not amplify the error, as no activation is
    steeper than 1. Inputs at which a JumpReLU is within this error of its threshold do not count.
    """
    wanted = outputs(model, x)
    if wanted.shape != answers.shape:
        return None
    size = magnitude(model, x).max(axis=2, keepdims=True)
    allowed = allowed_share(model, unit_roundoff)
    if model.hidden == "jumprelu":
        z = preactivation(model, x)
        sure = np.abs(z - model.thresholds) > allowed * (
            np.abs(z).max(axis=2, keepdims=True) + np.abs(model.thresholds)
        )
        rows = sure.all(axis=(1, 2))
        wanted, answers, size = wanted[rows], answers[rows], size[rows]
    if not np.isfinite(answers).all():
        return None
    off = np.abs(answers - wanted) <= allowed * size
    if factor in (None, 1.0) and off.all():
        return 1.0
    if factor is None:
        square = float(np.sum(wanted**2))
        factor = float(f"{np.sum(wanted * answers) / square:.12g}") if square > 0.0 else 0.0
    if not factor > 0.0 or not np.all(np.abs(answers - factor * wanted) <= allowed * factor * size):
        return None
    return factor


@contextmanager
def _restore_generators(torch: Any) -> Iterator[None]:
    """Restore the states of all random generators when the context ends, and silence warnings in it.

    Without PyTorch `torch` is None.
    """
    state, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 of the caller's code
    of_torch = nullcontext() if torch is None else torch.random.fork_rng()
    try:
        with warnings.catch_warnings(action="ignore"), of_torch:
            yield
    finally:
        random.setstate(state)
        np.random.set_state(of_numpy)  # noqa: NPY002


@contextmanager
def _restore_module(module: Any, torch: Any) -> Iterator[None]:
    """Restore a module's mode, parameters and buffers when the context ends."""
    modes = [(part, part.training) for part in module.modules()]
    originals = [(tensor, tensor.detach().clone()) for tensor in (*module.parameters(), *module.buffers())]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in originals:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        for part, training in modes:
            part.training = training


def _torch_answers(module: Any, torch: Any, kind: Any, device: Any) -> Answers:
    """Return an `Answers`, which calls a PyTorch module with tensors of dtype `kind` on `device`."""

    def call(x: FloatArray) -> Any:
        """Call the module on an array, without gradients."""
        with torch.no_grad():
            return module(torch.as_tensor(np.ascontiguousarray(x), dtype=kind, device=device))

    unit = _ROUNDOFFS.get(str(kind).rpartition(".")[2], 2.0**-24)
    return Answers(call, unit, _HALF_SIZE if kind == torch.float16 else _SIZES[1])


@contextmanager
def ways_to_call(module: Any) -> Iterator[Iterator[Answers]]:
    """Give an iterator over `Answers`, which call a module in different ways, the most precise first.

    A PyTorch module is copied and called in double precision, then in its own. The module and the global
    random generators are restored when the context ends.
    """
    is_torch = hasattr(module, "state_dict") and hasattr(module, "modules")
    if not is_torch:
        try:
            itself = copy.deepcopy(module)
        except Exception:  # whatever an object's own code raises
            itself = module
        with _restore_generators(None):
            yield iter([Answers(itself if callable(itself) else itself.forward)])
        return
    import torch

    inner = getattr(module, "_orig_mod", module)  # of torch.compile, which would compile
    if type(inner).__name__ in ("DataParallel", "DistributedDataParallel"):
        inner = inner.module
    tensors = [buffer for buffer in (*inner.parameters(), *inner.buffers()) if buffer.is_floating_point()]
    kind = tensors[0].dtype if tensors else torch.float32
    device = tensors[0].device if tensors else "cpu"
    modes = [part.training for part in inner.modules()]

    def ways() -> Iterator[Answers]:
        """Yield the module as copies in double precision and in its own, or itself if it cannot be copied."""
        for double in (True, False):
            try:
                twins = [copy.deepcopy(inner) for _ in range(1 + any(modes))]
            except Exception:  # whatever a module's own code raises: it is called itself
                inner.eval()
                yield _torch_answers(inner, torch, kind, device)
                return
            for part, mode in zip(twins[-1].modules(), modes, strict=False):
                part.training = mode
            twins[0].eval()
            inner.eval()  # a copy whose forward was set by hand calls it
            twins = [twin.double() for twin in twins] if double else twins
            as_kind = torch.float64 if double else kind
            answers, *in_training = (_torch_answers(twin, torch, as_kind, device) for twin in twins)
            yield replace(answers, training=in_training[0] if in_training else None)

    with _restore_generators(torch), _restore_module(inner, torch):
        yield ways()
