"""How fast models are trained on this machine, beside the loop that one would write without this project."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...theory import arguments
from ..annotations import as_annotated
from . import engine
from .points import LARGEST_SIZE

# Steps of one model when models are counted by the hour.
STEPS = 10_000

# Side of the square product whose rate a device is held against.
SQUARE = {"cpu": 1024, "cuda": 8192}


def flops(n_features: int, n_hidden: int, batch_size: int = 1024) -> float:
    """Operations of the five matrix products of a step of one model, additions and multiplications."""
    return 10.0 * batch_size * n_features * n_hidden


def plain_steps(
    torch: Any, device: Any, n_features: int, n_hidden: int, p: float, batch_size: int
) -> Callable[[int], None]:
    """Return a function that makes so many steps on one model, as the source's code does.

    Linear layers, autograd and Adam of PyTorch, learning rate 3e-3/sqrt(n_features); nothing compiled.
    """
    linear = torch.nn.Linear
    layers = (linear(n_features, n_hidden, bias=False), linear(n_hidden, n_features), torch.nn.ReLU())
    model = torch.nn.Sequential(*layers).to(device)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3 / n_features**0.5)

    def steps(count: int) -> None:
        shape = (batch_size, n_features)
        for _ in range(count):
            x = torch.rand(shape, device=device) * (torch.rand(shape, device=device) < p)
            loss = ((model(x) - x) ** 2).sum(dim=1).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()

    return steps


def stack_steps(
    torch: Any,
    device: Any,
    n_features: int,
    n_hidden: int,
    p: float,
    batch_size: int,
    models: int,
    precision: str = "float32",
    captured: bool = False,
) -> Callable[[int], None]:
    """Return a function that makes so many steps on each model of a stack, as `train` does."""
    shape = (n_features, n_hidden, p)
    stack = [engine.new_model(torch, device, *shape, seed, False, "linear") for seed in range(models)]
    rate = 3e-3 / n_features**0.5

    def steps(count: int) -> None:
        engine.run_block(torch, stack, np.full((count, models), rate), batch_size, precision, captured)

    return steps


def product_steps(torch: Any, device: Any, side: int, precision: str = "float32") -> Callable[[int], None]:
    """Return a function that makes so many square products, at a precision that the device has."""
    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(1, side, side, device=device, generator=generator) for _ in range(2))
    out = torch.empty_like(a)
    multiply = engine.multiplier(torch, precision if device.type == "cuda" else "float32", device)

    def steps(count: int) -> None:
        with engine.tensor_cores(torch, precision, device):
            for _ in range(count):
                multiply(out, a, b)

    return steps


def seconds(torch: Any, device: Any, steps: Callable[[int], None], count: int, rounds: int = 3) -> float:
    """Return the median time of a step, after one round that is not counted.

    A GPU is waited for; on a CPU it is the time of the process, so that other work does not count.
    """
    on_cpu = device.type == "cpu"
    clock, lengths = time.process_time if on_cpu else time.perf_counter, []
    for _ in range(rounds + 1):
        began = clock()
        steps(count)
        if not on_cpu:
            torch.cuda.synchronize(device)
        lengths.append((clock() - began) / count)
    return float(np.median(lengths[1:]))


@as_annotated
def measure(
    n_features: int = 512,
    *,
    ratio: float = 0.25,
    p: float = 0.05,
    models: int = 1,
    batch_size: int = 1024,
    steps: int = 100,
    precision: str = "float32",
    captured: bool = False,
    device: str = "auto",
) -> dict[str, float | str]:
    """Time the training of stacked models beside the plain loop of one model, and beside a matrix product.

    Parameters
    ----------
    n_features, ratio, p
        Of the models; n_hidden is ratio * n_features, rounded.
    models, batch_size, steps : int
        In one stack; samples of a batch; steps of a round, of which there are four, the first not counted.
    precision, captured, device
        As in `train`. On a CPU all is done on one thread, and the bare product is of float32.

    Returns
    -------
    dict
        ``device``, ``precision``, ``captured``; ``step``, seconds for a step of one model, and
        ``plain_step``, of the plain loop; ``models_per_hour``, of 10 000 steps each, and
        ``times_plain``, plain_step/step; ``rate``, operations a second in the matrix products of a step;
        ``bare_rate``, those of a large square product alone; ``share``, of the two.

    Examples
    --------
    >>> found = measure(16, steps=2, batch_size=32, device="cpu")
    >>> found["device"], found["models_per_hour"] > 0
    ('cpu', True)
    """
    n = arguments.integer("n_features", n_features, 2, 2**16)
    hidden = max(1, round(arguments.number("ratio", ratio, 0, 1, brackets="(]") * n))
    p = arguments.number("p", p, 0, 1, brackets="(]")
    counts = {"models": models, "batch_size": batch_size, "steps": steps}
    models, batch, steps = (arguments.integer(name, k, 1, LARGEST_SIZE) for name, k in counts.items())
    precision = arguments.choice("precision", precision, tuple(engine.PRECISIONS))
    engine.check_memory("n_features", n, 10 * n * hidden)
    engine.check_memory("models", models, models * (10 * n * hidden + 4 * batch * n))
    torch = engine.load_torch()
    place = engine.choose_device(torch, device)
    engine.check_precision(torch, precision, place)
    if arguments.flag("captured", captured) and place.type != "cuda":
        raise ValueError("`captured` must be False for the device 'cpu'; got True.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        shape = (torch, place, n, hidden, p, batch)
        ours = seconds(torch, place, stack_steps(*shape, models, precision, captured), steps) / models
        plain = seconds(torch, place, plain_steps(*shape), steps)
        side = min(SQUARE[place.type], 8 * n)
        bare = seconds(torch, place, product_steps(torch, place, side, precision), 3)
    finally:
        torch.set_num_threads(threads)
    rate, bare_rate = flops(n, hidden, batch) / ours, 2.0 * side**3 / bare
    return {
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        "n_features": n,
        "n_hidden": hidden,
        "models": models,
        "precision": precision,
        "captured": str(captured),
        "step": ours,
        "plain_step": plain,
        "models_per_hour": 3600 / (STEPS * ours),
        "times_plain": plain / ours,
        "rate": rate,
        "bare_rate": bare_rate,
        "share": rate / bare_rate,
    }
