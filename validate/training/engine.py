"""The numerical core in PyTorch: data, gradients by hand, Adam, and losses on fresh data.

Models of equal shape lie stacked in one tensor. Each model keeps all its parameters in one flat row,
so that Adam is a handful of elementwise operations whatever the number of models.
"""

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...solvers.loss import exact_loss
from ...theory import arguments
from ...theory.features import Features
from .schedule import CONVERGED, STOPPING_RULE

# Adam's usual constants. The loss that is differentiated is the sum over the features (Cowsik et al.
# (2024), Eq. 2), averaged over the batch: with the mean over the features gradients at small p and
# large n_features would fall to the size of EPSILON and training would slow down for no good reason.
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

# Below this p it is faster to draw the gaps between the entries that are on than every entry.
GAPS_BELOW = 0.03

# Error to aim at of an exact loss, relative: below that of float32 weights, and cheap.
EXACT = 1e-6

# Law of the data: a number is the p of features that are alike and uniform on [0, 1].
Law = float | Features

# What the random streams of one model are for. Each has a seed of its own.
STREAMS = ("initial weights", "training", STOPPING_RULE, CONVERGED)


@dataclass
class Model:
    """One model in training: its sizes, its parameters in a flat row, and what it has gone through."""

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
    """Import torch, or say in one line how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("training needs PyTorch: pip install 'superposition[torch]'") from error
    return torch


def choose_device(torch: Any, device: str) -> Any:
    """Return the torch device that is asked for, if it is there."""
    device = arguments.choice("device", device, ("auto", "cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("`device` must be 'auto' or 'cpu' where no CUDA device is available; got 'cuda'.")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def provenance(torch: Any, place: Any, began: float) -> dict[str, str | float]:
    """Say on what was trained, and how long since `began`."""
    return {
        "device_name": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        "torch_version": str(torch.__version__),
        "wall_time_seconds": time.perf_counter() - began,
    }


def digest(law: Features) -> int:
    """Return a number of 64 bits that tells laws apart."""
    parts = [law.values.encode(), str(law.exactly).encode()]
    arrays = [law.p, law.scale, law.importance, *(array for group in law.groups for array in group)]
    parts += [np.asarray(array, np.float64).tobytes() for array in arrays]
    return int.from_bytes(hashlib.sha256(b"|".join(parts)).digest()[:8], "little")


def _seed(model_key: Sequence[Any], stream: str) -> np.random.SeedSequence:
    """Seed of one stream of one model; two models share none unless all their numbers agree."""
    n_features, n_hidden, law, seed = model_key
    bits = digest(law) if isinstance(law, Features) else int(np.float64(law).view(np.uint64))
    return np.random.SeedSequence([seed, n_features, n_hidden, bits, STREAMS.index(stream)])


def _generator(torch: Any, device: Any, model_key: Sequence[Any], stream: str) -> Any:
    generator = torch.Generator(device)
    generator.manual_seed(int(_seed(model_key, stream).generate_state(1, np.uint64)[0]))
    return generator


def _shapes(n_features: int, n_hidden: int, tied: bool) -> list[tuple[int, ...]]:
    weights = (n_features, n_hidden)
    return [weights, (n_features,)] if tied else [weights, weights, (n_features,)]


def _views(flat: Any, n_features: int, n_hidden: int, tied: bool) -> list[Any]:
    """Cut the last axis of `flat` (tensor or array) into views, one for each parameter."""
    views, start = [], 0
    for shape in _shapes(n_features, n_hidden, tied):
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
) -> Model:
    """Make a model with initial weights that depend on its own numbers only, not on the device."""
    key = (n_features, n_hidden, law, seed)
    rng = np.random.default_rng(_seed(key, "initial weights"))
    shapes = _shapes(n_features, n_hidden, tied)
    flat = np.zeros(sum(math.prod(shape) for shape in shapes), dtype=np.float32)
    views = _views(flat, n_features, n_hidden, tied)
    encoder, decoder, bias = views[0], views[-2], views[-1]
    if init == "aligned":
        encoder[...] = rng.standard_normal(encoder.shape)
        encoder /= np.linalg.norm(encoder, axis=1, keepdims=True)
        decoder[...] = encoder
    else:
        encoder[...] = rng.uniform(-1, 1, encoder.shape) / math.sqrt(n_features)
        if not tied:
            decoder[...] = rng.uniform(-1, 1, decoder.shape) / math.sqrt(n_hidden)
        bias[...] = rng.uniform(-1, 1, bias.shape) / math.sqrt(n_hidden)
    parameters = torch.from_numpy(flat).to(device)
    first, second = torch.zeros_like(parameters), torch.zeros_like(parameters)
    generator = _generator(torch, device, key, "training")
    return Model(n_features, n_hidden, law, seed, tied, parameters, first, second, generator, weight_decay)


def _draw(torch: Any, x: Any, law: Law, generator: Any) -> None:
    """Fill the contiguous float32 tensor `x` (samples, features) with samples of the law.

    Independent c u, c Bernoulli(p), u uniform on [0, 1], are drawn here: one uniform v serves for both, as
    1 - v/p is uniform if v < p. For small p, where most entries are zero and the 2^-24 grid of v would be
    coarse beside p, the gaps between the entries that are on are drawn instead, geometric and in float64.
    Other laws sample themselves, but for independent uniform features, of which few may be on; the generator
    seeds them, so that its state is all that continuing needs.
    """
    if isinstance(law, Features):
        if law.independent and law.values == "uniform" and law.p.max() < 1:
            _draw_points(torch, x, law, generator)
            return
        seed = torch.randint(2**62, (), generator=generator, device=x.device)
        x.copy_(torch.from_numpy(law.sample(len(x), int(seed))))
        return
    p = law
    if p > GAPS_BELOW:
        x.uniform_(generator=generator).mul_(-1 / p).add_(1).relu_()
        return
    size = x.numel()
    # So many gaps reach the end of x but for a chance below 1e-15 (10 standard deviations).
    count = math.ceil(size * p + 10 * math.sqrt(size * p) + 20)
    gaps = torch.empty(count, dtype=torch.float64, device=x.device).exponential_(generator=generator)
    on = gaps.mul_(-1 / math.log1p(-p)).floor_().add_(1).cumsum_(0).sub_(1)
    values = torch.empty(count, device=x.device).uniform_(generator=generator)
    # Entries past the end are added as zeros to the last place, which needs no data-dependent size.
    values.mul_(on < size)
    x.zero_().view(-1).index_add_(0, on.clamp_(max=size - 1).long(), values)


def _draw_points(torch: Any, x: Any, law: Features, generator: Any) -> None:
    """Fill `x` with samples of independent uniform features, at a cost of the number that are on.

    Points of a Poisson process fall on the entries, -log(1 - p) on average, so that none falls on an entry
    with probability 1 - p. One on which some fall is on, with the value that came last.
    """
    edges = torch.from_numpy(np.cumsum(-np.log1p(-law.p))).to(x.device)
    options = {"generator": generator, "device": x.device}
    count = int(torch.poisson(edges[-1] * len(x), generator=generator))
    places = torch.rand(count, dtype=torch.float64, **options).mul_(edges[-1])
    feature = torch.searchsorted(edges, places, right=True).clamp_(max=len(edges) - 1)
    sample = torch.randint(len(x), (count,), **options)
    values = torch.rand(count, **options).mul_(x.new_tensor(law.scale)[feature])
    x.zero_().index_put_((sample, feature), values)


def _reconstruct(torch: Any, views: Sequence[Any], x: Any, z: Any, y: Any) -> None:
    """Write W_in x into `z` and ReLU(W_out z + b) into `y`, for stacked models and batches."""
    encoder, decoder, bias = views[0], views[-2], views[-1]
    torch.bmm(x, encoder, out=z)
    torch.baddbmm(bias[:, None, :], z, decoder.mT, out=y)
    y.relu_()


def _weights(law: Law, like: Any) -> Any:
    """Return the features' importances as a tensor; None if all are 1."""
    if not isinstance(law, Features) or np.all(law.importance == 1.0):
        return None
    return like.new_tensor(law.importance)


def _decay(weights: Sequence[Any], strength: float, rates: Any) -> None:
    """Shrink the rows of stacked weights, or draw them to length 1 if `strength` is negative."""
    for rows in weights:
        by = abs(strength) * rates[:, None, None]
        if strength > 0:
            rows.mul_(1 - by)
        else:
            rows.mul_(1 + by * (1 / rows.norm(dim=2, keepdim=True).clamp_(min=EPSILON) - 1))


def run_block(torch: Any, models: Sequence[Model], rates: np.ndarray, batch_size: int) -> np.ndarray:
    """Train models of equal shape, step count, importances and device for some batches, in place.

    Takes learning rates (batches, models); returns the losses per feature of the batches, each before its
    step, in the same shape.
    """
    first = models[0]
    n_features, n_hidden, tied = first.n_features, first.n_hidden, first.tied
    with torch.no_grad():
        flat = torch.stack([model.parameters for model in models])
        mean = torch.stack([model.first_moment for model in models])
        square = torch.stack([model.second_moment for model in models])
        gradient = torch.empty_like(flat)
        views = _views(flat, n_features, n_hidden, tied)
        slopes = _views(gradient, n_features, n_hidden, tied)
        x = flat.new_empty(len(models), batch_size, n_features)
        y, error = torch.empty_like(x), torch.empty_like(x)
        z = flat.new_empty(len(models), batch_size, n_hidden)
        z_slope, update = torch.empty_like(z), torch.empty_like(flat)
        norms = flat.new_empty(len(rates), len(models))
        importance = _weights(first.law, flat)
        root = None if importance is None else importance.sqrt()
        rates_there = torch.from_numpy(rates.astype(np.float32)).to(flat.device)
        for k in range(len(rates)):
            for model, rows in zip(models, x, strict=True):
                _draw(torch, rows, model.law, model.generator)
            _reconstruct(torch, views, x, z, y)
            torch.sub(y, x, out=error)
            if root is not None:
                error.mul_(root)
            torch.linalg.vector_norm(error, dim=(1, 2), out=norms[k])
            error.mul_(y.sign_())  # y >= 0, so its sign is the slope of the ReLU
            if root is not None:
                error.mul_(root)
            torch.bmm(error, views[-2], out=z_slope)
            torch.bmm(x.mT, z_slope, out=slopes[0])
            if tied:
                slopes[0].baddbmm_(error.mT, z)
            else:
                torch.bmm(error.mT, z, out=slopes[1])
            torch.sum(error, dim=1, out=slopes[-1])
            gradient.mul_(2 / batch_size)
            step = first.step + k + 1
            if first.weight_decay:
                _decay(views[:-1], first.weight_decay, rates_there[k])
            mean.lerp_(gradient, 1 - BETA1)
            square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            torch.sqrt(square, out=update).mul_(1 / math.sqrt(1 - BETA2**step)).add_(EPSILON)
            torch.div(mean, update, out=update)
            flat.addcmul_(update, rates_there[k, :, None], value=-1 / (1 - BETA1**step))
        for i, model in enumerate(models):
            model.parameters = flat[i].clone()
            model.first_moment, model.second_moment = mean[i].clone(), square[i].clone()
            model.step += len(rates)
        return np.asarray(norms.cpu().numpy().astype(np.float64) ** 2 / (batch_size * n_features))


def product(model: Model, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W_out (n_features, n_hidden), W_in (n_hidden, n_features) and b, in float64."""
    views = _views(flat.astype(np.float64), model.n_features, model.n_hidden, model.tied)
    return views[-2], views[0].T, views[-1]


def evaluate(torch: Any, model: Model, end: str, samples: int | None, batch_size: int) -> tuple[float, float]:
    """Loss per feature of the parameters at an end: on data never seen before, with its standard error.

    Without samples it is the exact loss with its error estimate.
    """
    if samples is None:
        decoder, encoder, bias = product(model, model.ends[end])
        exact = exact_loss(decoder @ encoder, bias, model.law, tol=EXACT)
        return exact.loss, exact.error_estimate
    device = model.parameters.device
    generator = _generator(torch, device, (model.n_features, model.n_hidden, model.law, model.seed), end)
    flat = torch.from_numpy(model.ends[end]).to(device)[None]
    views = _views(flat, model.n_features, model.n_hidden, model.tied)
    importance = _weights(model.law, flat)
    total = squares = 0.0
    with torch.no_grad():
        for start in range(0, samples, batch_size):
            rows = min(batch_size, samples - start)
            x = flat.new_empty(1, rows, model.n_features)
            z, y = flat.new_empty(1, rows, model.n_hidden), torch.empty_like(x)
            _draw(torch, x[0], model.law, generator)
            _reconstruct(torch, views, x, z, y)
            errors = y.sub_(x).square_()
            if importance is not None:
                errors.mul_(importance)
            losses = errors.mean(dim=2).double()
            total += float(losses.sum())
            squares += float(losses.square().sum())
    mean = total / samples
    variance = max(squares - samples * mean**2, 0.0) / (samples - 1)
    return mean, math.sqrt(variance / samples)
