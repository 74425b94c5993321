"""The numerical core in PyTorch: data, gradients by hand, Adam, and losses on fresh data.

Models of equal shape are stacked in one tensor, and all parameters of a model are one flat row, so that Adam
is a handful of elementwise operations for any number of models. Arguments of several functions: `torch`, the
imported package; `device`, a torch device; `precision`, one of `PRECISIONS`, of the factors of products.
"""

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...solvers.loss import exact_loss
from ...theory import validation
from ...theory.features import Features
from .data import Law, sampler
from .schedule import CONVERGED, STOPPING_RULE

# Adam's usual constants. The loss that is differentiated is the sum over the features (Cowsik et al.
# (2024), Eq. 2), averaged over the batch: with the mean over the features gradients at small p and
# large n_features would fall to the size of EPSILON and training would slow down for no good reason.
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

# Error to aim at of an exact loss, relative: below that of float32 weights, and cheap.
EXACT = 1e-6

# Bits after the leading one that the factors of the matrix products of a step have.
PRECISIONS = {"float32": 23, "tf32": 10, "bf16": 7}

# What the random streams of one model are for. Each has a seed of its own.
STREAMS = ("initial weights", "training", STOPPING_RULE, CONVERGED)


@dataclass
class ModelState:
    """A model in training: sizes, parameters in a flat row, Adam's moments, losses and ends so far."""

    n_features: int
    n_hidden: int
    law: Law
    seed: int
    tied: bool
    parameters: Any  # torch.Tensor (size,): W_in' (n_features, n_hidden), W_out unless tied, b
    first_moment: Any
    second_moment: Any
    generator: Any  # torch.Generator of the training data
    weight_decay: float = 0.0
    epsilon: float = EPSILON  # of Adam
    step: int = 0
    history: list[float] = field(default_factory=list)  # mean losses of blocks of 100 batches
    ends: dict[str, np.ndarray] = field(default_factory=dict)  # flat parameters at each end reached
    end_steps: dict[str, int] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    finished: bool = False

    @property
    def p(self) -> float:
        """Probability that a feature is on, the mean over the features."""
        return float(np.mean(self.law.p)) if isinstance(self.law, Features) else self.law


def load_torch() -> Any:
    """Return the module torch; an ImportError says how to install it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("training needs PyTorch: pip install -e '.[torch]' in the checkout") from error
    return torch


def choose_device(torch: Any, device: str) -> Any:
    """Return the torch device of "auto", "cpu" or "cuda"; ValueError for "cuda" without a CUDA device."""
    device = validation.choice("device", device, ("auto", "cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("`device` must be 'auto' or 'cpu' where no CUDA device is available; got 'cuda'.")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def check_memory(name: str, value: int, numbers: int) -> None:
    """Raise ValueError if float32 arrays of `numbers` entries exceed the memory.

    The message says that the argument `name` has to be smaller than `value`.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**40
    if 4 * numbers > memory:
        need = f"{4 * numbers / 2**30:.3g} GiB of memory would be needed"
        raise ValueError(f"`{name}` must be smaller: {need}; got {value}.")


def check_precision(torch: Any, precision: str, device: Any) -> None:
    """Raise ValueError if `precision` is unknown, or this PyTorch lacks its products on the device."""
    validation.choice("precision", precision, tuple(PRECISIONS))
    if precision == "bf16" and device.type == "cuda" and not hasattr(torch.ops.aten.bmm, "dtype"):
        raise ValueError(f"`precision` must be another one with PyTorch {torch.__version__}; got 'bf16'.")


def provenance(torch: Any, device: Any, began: float) -> dict[str, str | float]:
    """Return device_name, torch_version and wall_time_seconds since `began`, as attributes of a dataset.

    `began` is a value of ``time.perf_counter``.
    """
    return {
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch_version": str(torch.__version__),
        "wall_time_seconds": time.perf_counter() - began,
    }


def law_digest(law: Features) -> int:
    """Return a 64-bit hash of all numbers of a law."""
    parts = [law.values.name.encode(), str(law.exactly).encode()]
    arrays = [law.p, law.scale, law.importance, *(array for group in law.groups for array in group)]
    parts += [np.asarray(array, np.float64).tobytes() for array in arrays]
    return int.from_bytes(hashlib.sha256(b"|".join(parts)).digest()[:8], "little")


def _stream_seed(model_key: Sequence[Any], stream: str) -> np.random.SeedSequence:
    """Return the seed of `stream`, one of `STREAMS`, distinct for all models and streams.

    Streams are those of the first weights, the training data, and the evaluation at each end. `model_key` is
    (n_features, n_hidden, law, seed).
    """
    n_features, n_hidden, law, seed = model_key
    bits = law_digest(law) if isinstance(law, Features) else int(np.float64(law).view(np.uint64))
    return np.random.SeedSequence([seed, n_features, n_hidden, bits, STREAMS.index(stream)])


def _stream_generator(torch: Any, device: Any, model_key: Sequence[Any], stream: str) -> Any:
    """Return the torch generator, on `device`, of a model's `stream`, one of `STREAMS`.

    `model_key` is (n_features, n_hidden, law, seed).
    """
    generator = torch.Generator(device)
    generator.manual_seed(int(_stream_seed(model_key, stream).generate_state(1, np.uint64)[0]))
    return generator


def _parameter_shapes(n_features: int, n_hidden: int, tied: bool) -> list[tuple[int, ...]]:
    """Return the shapes of W_in' (n_features, n_hidden), the transpose, of W_out unless tied, and of b."""
    return [(n_features, n_hidden)] * (1 if tied else 2) + [(n_features,)]


def _parameter_views(flat: Any, n_features: int, n_hidden: int, tied: bool) -> list[Any]:
    """Return views of the last axis of `flat` (tensor or array): W_in transposed, W_out unless tied, b.

    The sizes of a model are n_features and n_hidden.
    """
    views, start = [], 0
    for shape in _parameter_shapes(n_features, n_hidden, tied):
        stop = start + math.prod(shape)
        views.append(flat[..., start:stop].reshape(*flat.shape[:-1], *shape))
        start = stop
    return views


def new_model(
    torch: Any,
    device: Any,
    n_features: int,
    n_hidden: int,
    law: Law,
    seed: int,
    tied: bool,
    init: str,
    weight_decay: float = 0.0,
    epsilon: float = EPSILON,
) -> ModelState:
    """Return an untrained model on a device; its first weights depend on sizes, law, seed, `tied` and `init`.

    `init` is "aligned", "normal" or "linear": encodings on the unit sphere, Gaussian, or uniform, as for
    `train`; `epsilon` is Adam's. Each step multiplies the weights by 1 - rate * `weight_decay`; a negative
    one makes the lengths of rows decay towards 1 instead.
    """
    key = (n_features, n_hidden, law, seed)
    rng = np.random.default_rng(_stream_seed(key, "initial weights"))
    shapes = _parameter_shapes(n_features, n_hidden, tied)
    flat = np.zeros(sum(math.prod(shape) for shape in shapes), dtype=np.float32)
    views = _parameter_views(flat, n_features, n_hidden, tied)
    encoder, decoder, bias = views[0], views[-2], views[-1]
    if init == "aligned":
        encoder[...] = rng.standard_normal(encoder.shape)
        encoder /= np.linalg.norm(encoder, axis=1, keepdims=True)
        decoder[...] = encoder
    elif init == "normal":
        for rows in views[:-1]:
            rows[...] = rng.standard_normal(rows.shape) / math.sqrt(n_hidden)
        bias[...] = rng.standard_normal(bias.shape)
    else:
        encoder[...] = rng.uniform(-1, 1, encoder.shape) / math.sqrt(n_features)
        if not tied:
            decoder[...] = rng.uniform(-1, 1, decoder.shape) / math.sqrt(n_hidden)
        bias[...] = rng.uniform(-1, 1, bias.shape) / math.sqrt(n_hidden)
    parameters = torch.from_numpy(flat).to(device)
    first, second = torch.zeros_like(parameters), torch.zeros_like(parameters)
    generator = _stream_generator(torch, device, key, "training")
    return ModelState(
        n_features, n_hidden, law, seed, tied, parameters, first, second, generator, weight_decay, epsilon
    )


def _round_to_bits(torch: Any, values: Any, bits: int) -> Any:
    """Return float32 values rounded to `bits` bits after the leading one, to nearest, ties away from zero."""
    cut = 23 - bits
    return values.view(torch.int32).add(1 << (cut - 1)).bitwise_and_(-(1 << cut)).view(torch.float32)


def multiplier(torch: Any, precision: str, device: Any) -> Callable[..., None]:
    """Return ``multiply(out, a, b, add=None, scale=1)``, which writes add + scale a b into `out`.

    Arguments are stacks of float32 matrices on `device`, sums are always float32. The precisions "tf32" and
    "bf16" round the factors to 10 and 7 bits, as the tensor cores of GPUs do; on a CPU they are rounded
    beforehand, which shows the effect.
    """
    bits = PRECISIONS[precision]

    def whole(out: Any, a: Any, b: Any, add: Any = None, scale: float = 1.0) -> None:
        """Write add + scale a b into `out`, from float32 factors, on a CPU rounded to the precision."""
        if device.type == "cpu" and bits < 23:
            a, b = _round_to_bits(torch, a.contiguous(), bits), _round_to_bits(torch, b.contiguous(), bits)
        torch.baddbmm(out if add is None else add, a, b, beta=0 if add is None else 1, alpha=scale, out=out)

    def half(out: Any, a: Any, b: Any, add: Any = None, scale: float = 1.0) -> None:
        """Write add + scale a b into `out`, from bfloat16 factors on a GPU."""
        product = torch.bmm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
        if add is None:
            torch.mul(product, scale, out=out)
        else:
            torch.add(add, product, alpha=scale, out=out)

    return half if precision == "bf16" and device.type == "cuda" else whole


@contextmanager
def tensor_cores(torch: Any, precision: str, device: Any) -> Iterator[None]:
    """In a context, compute float32 products on a GPU in TF32 if that is the `precision`, else in full."""
    previous = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)


def _reconstruct(multiply: Callable[..., None], views: Sequence[Any], x: Any, z: Any, y: Any) -> None:
    """Write W_in x into `z` and ReLU(W_out z + b) into `y`, for x (models, batch, features).

    z is (models, batch, n_hidden), y has the shape of x. `multiply`, from `multiplier`, is the product of
    stacked matrices, written into its first argument. `views` are the parameters, stacked along a first axis
    of models: W_in transposed, W_out unless tied, b.
    """
    encoder, decoder, bias = views[0], views[-2], views[-1]
    multiply(z, x, encoder)
    multiply(y, z, decoder.mT, bias[:, None, :])
    y.relu_()


def _importance_weights(law: Law, like: Any) -> Any:
    """Return the importances (features,) as a tensor of the type and device of `like`; None if all are 1."""
    if not isinstance(law, Features) or np.all(law.importance == 1.0):
        return None
    return like.new_tensor(law.importance)


def _decay_rows(weights: Sequence[Any], strength: float, rates: Any) -> None:
    """Multiply stacked weights by 1 - strength * rate in place, with the models' learning rates.

    `weights` are tensors (models, n_features, n_hidden), `rates` is one of (models,). If `strength` is
    negative, the distance from 1 of each row's length is multiplied by 1 - |strength| * rate instead.
    """
    for rows in weights:
        by = abs(strength) * rates[:, None, None]
        if strength > 0:
            rows.mul_(1 - by)
        else:
            rows.mul_(1 + by * (1 / rows.norm(dim=2, keepdim=True).clamp_(min=EPSILON) - 1))


class _Stack:
    """Stacked models and the buffers of their steps.

    All values that change from step to step are in tensors, and no size depends on the data, so that a step
    can be captured as a CUDA graph.
    """

    def __init__(self, torch: Any, models: Sequence[ModelState], batch_size: int, precision: str) -> None:
        first = models[0]
        self.epsilon = first.epsilon
        self.torch, self.scale, self.tied, self.done = torch, 2 / batch_size, first.tied, first.step
        self.flat = torch.stack([model.parameters for model in models])
        self.mean = torch.stack([model.first_moment for model in models])
        self.square = torch.stack([model.second_moment for model in models])
        self.gradient = torch.empty_like(self.flat)
        shape = (first.n_features, first.n_hidden, first.tied)
        self.views, self.slopes = _parameter_views(self.flat, *shape), _parameter_views(self.gradient, *shape)
        self.x = self.flat.new_empty(len(models), batch_size, first.n_features)
        self.y, self.error = torch.empty_like(self.x), torch.empty_like(self.x)
        self.z = self.flat.new_empty(len(models), batch_size, first.n_hidden)
        self.z_slope = torch.empty_like(self.z)
        self.norms = self.flat.new_empty(len(models))
        # Of one step: factors of the update that make up for Adam's start, then the models' rates.
        self.now = self.flat.new_empty(2 + len(models))
        self.adam = _fused_adam_update(self) if self.flat.is_cuda else _adam_update(self)
        importance = _importance_weights(first.law, self.flat)
        self.root = None if importance is None else importance.sqrt()
        self.decay = first.weight_decay
        self.generators = [model.generator for model in models]
        self.draws = [sampler(torch, model.law, self.flat.device) for model in models]
        self.multiply = multiplier(torch, precision, self.flat.device)

    def step(self) -> None:
        """Draw a batch for each model and take one step of Adam.

        The caller first writes into the attribute `now`, a tensor (2 + models,), the two factors that correct
        Adam's moments at this step, and the models' learning rates.
        """
        torch, x, y, z, error, slopes = self.torch, self.x, self.y, self.z, self.error, self.slopes
        for draw, rows, generator in zip(self.draws, x, self.generators, strict=True):
            draw(rows, generator)
        _reconstruct(self.multiply, self.views, x, z, y)
        torch.sub(y, x, out=error)
        if self.root is not None:
            error.mul_(self.root)
        torch.linalg.vector_norm(error, dim=(1, 2), out=self.norms)
        error.mul_(y.sign_())  # y >= 0, so its sign is the slope of the ReLU
        if self.root is not None:
            error.mul_(self.root)
        self.multiply(self.z_slope, error, self.views[-2])
        self.multiply(slopes[0], x.mT, self.z_slope, scale=self.scale)
        if self.tied:
            self.multiply(slopes[0], error.mT, z, slopes[0], self.scale)
        else:
            self.multiply(slopes[1], error.mT, z, scale=self.scale)
        torch.sum(error, dim=1, out=slopes[-1]).mul_(self.scale)
        if self.decay:
            _decay_rows(self.views[:-1], self.decay, self.now[2:])
        self.adam()


def _adam_update(stack: _Stack) -> Callable[[], None]:
    """Return a function that applies Adam's update to all models of `stack`, by elementwise operations."""
    torch, flat, mean, square, gradient = stack.torch, stack.flat, stack.mean, stack.square, stack.gradient
    update = torch.empty_like(flat)

    def step() -> None:
        """Update moments and parameters in place."""
        mean.lerp_(gradient, 1 - BETA1)
        square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        torch.sqrt(square, out=update).mul_(stack.now[0]).add_(stack.epsilon)
        torch.div(mean, update, out=update).mul_(stack.now[1])
        flat.addcmul_(update, stack.now[2:, None])

    return step


def _fused_adam_update(stack: _Stack) -> Callable[[], None]:
    """Return a function that applies Adam's update to all models of `stack`, by PyTorch's fused kernel."""
    # The kernel reads the weights once, elementwise operations a dozen times; at thousands of features these
    # take a GPU longer than the products do. On a CPU the overhead for a small model is larger than the gain,
    # and loading the optimisers takes two seconds.
    torch, groups = stack.torch, []
    for row, slope, rate in zip(stack.flat, stack.gradient, stack.now[2:], strict=True):
        row.grad = slope
        groups.append({"params": [row], "lr": rate})
    betas = (BETA1, BETA2)
    adam = torch.optim.Adam(groups, betas=betas, eps=stack.epsilon, fused=True, capturable=stack.flat.is_cuda)
    for group, mean, square in zip(groups, stack.mean, stack.square, strict=True):
        count = stack.flat.new_full((), float(stack.done))
        adam.state[group["params"][0]] = {"step": count, "exp_avg": mean, "exp_avg_sq": square}
    step: Callable[[], None] = adam.step
    return step


def _cuda_graph_step(torch: Any, stack: _Stack) -> Callable[[], None]:
    """Return a function that repeats the step of `stack` as one CUDA graph: one launch instead of dozens."""
    graph = torch.cuda.CUDAGraph()
    for generator in stack.generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        stack.step()
    replay: Callable[[], None] = graph.replay
    return replay


def run_block(
    torch: Any,
    models: Sequence[ModelState],
    rates: np.ndarray,
    batch_size: int,
    precision: str = "float32",
    cuda_graph: bool = False,
) -> np.ndarray:
    """Train models of equal shape, step count, importances and device in place; return the batch losses.

    `rates` are learning rates (batches, models); each batch has `batch_size` samples. Losses have the shape
    of `rates`; they are per feature, and taken before the step. `precision`, "float32", "tf32" or "bf16", is
    that of the factors of products. With `cuda_graph`, steps after the first repeat a CUDA graph.
    """
    first = models[0]
    device = first.parameters.device
    with torch.no_grad(), tensor_cores(torch, precision, device):
        stack = _Stack(torch, models, batch_size, precision)
        count = first.step + np.arange(1, len(rates) + 1)
        starts = np.stack([1 / np.sqrt(1 - BETA2**count), -1 / (1 - BETA1**count)], axis=1)
        factors = torch.from_numpy(np.hstack([starts, rates]).astype(np.float32)).to(device)
        norms = stack.flat.new_empty(len(rates), len(models))
        step = stack.step
        for k in range(len(rates)):
            stack.now.copy_(factors[k])
            step()
            norms[k].copy_(stack.norms)
            if cuda_graph and k == 0:  # the first has made what libraries make at their first call
                step = _cuda_graph_step(torch, stack)
        for i, model in enumerate(models):
            model.parameters = stack.flat[i].clone()
            model.first_moment, model.second_moment = stack.mean[i].clone(), stack.square[i].clone()
            model.step += len(rates)
        return np.asarray(norms.cpu().numpy().astype(np.float64) ** 2 / (batch_size * first.n_features))


def unpack_parameters(model: ModelState, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return W_out (n_features, n_hidden), W_in (n_hidden, n_features) and b of a model's flat row."""
    views = _parameter_views(flat.astype(np.float64), model.n_features, model.n_hidden, model.tied)
    return views[-2], views[0].T, views[-1]


def evaluate(
    torch: Any, model: ModelState, end: str, samples: int | None, batch_size: int
) -> tuple[float, float]:
    """Return (loss per feature, standard error) of a model at an end of training, on fresh samples.

    `end` is "stopping rule" or "converged"; samples are drawn `batch_size` at a time. If `samples` is None,
    the result is (exact loss, its error estimate).
    """
    if samples is None:
        decoder, encoder, bias = unpack_parameters(model, model.ends[end])
        exact = exact_loss(decoder @ encoder, bias, model.law, tol=EXACT)
        return exact.loss, exact.error_estimate
    device = model.parameters.device
    key = (model.n_features, model.n_hidden, model.law, model.seed)
    generator = _stream_generator(torch, device, key, end)
    flat = torch.from_numpy(model.ends[end]).to(device)[None]
    views = _parameter_views(flat, model.n_features, model.n_hidden, model.tied)
    importance = _importance_weights(model.law, flat)
    draw, multiply = sampler(torch, model.law, device), multiplier(torch, "float32", device)
    total = squares = 0.0
    with torch.no_grad():
        for start in range(0, samples, batch_size):
            rows = min(batch_size, samples - start)
            x = flat.new_empty(1, rows, model.n_features)
            z, y = flat.new_empty(1, rows, model.n_hidden), torch.empty_like(x)
            draw(x[0], generator)
            _reconstruct(multiply, views, x, z, y)
            errors = y.sub_(x).square_()
            if importance is not None:
                errors.mul_(importance)
            losses = errors.mean(dim=2).double()
            total += float(losses.sum())
            squares += float(losses.square().sum())
    mean = total / samples
    variance = max(squares - samples * mean**2, 0.0) / (samples - 1)
    return mean, math.sqrt(variance / samples)
