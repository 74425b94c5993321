"""A step of training beside the plain loop in PyTorch and beside its matrix products; shorter factors."""

import numpy as np
import pytest

from superposition.validate import training
from superposition.validate.training import engine

torch = pytest.importorskip("torch")

P, BATCH = 0.05, 1024


def plain_steps(n_features, n_hidden, p, batch_size):
    """Return a function that makes so many steps on one model, as the source's code does.

    Linear layers, autograd and Adam of PyTorch, learning rate 3e-3/sqrt(n_features); nothing compiled.
    """
    linear = torch.nn.Linear
    layers = (linear(n_features, n_hidden, bias=False), linear(n_hidden, n_features), torch.nn.ReLU())
    model = torch.nn.Sequential(*layers)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3 / n_features**0.5)

    def steps(count):
        shape = (batch_size, n_features)
        for _ in range(count):
            x = torch.rand(shape) * (torch.rand(shape) < p)
            loss = ((model(x) - x) ** 2).sum(dim=1).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()

    return steps


def our_steps(n_features, n_hidden, p, batch_size, precision="float32"):
    """Return a function that makes so many steps on one model, as `train` does."""
    shape = (n_features, n_hidden, p)
    stack = [engine.new_model(torch, torch.device("cpu"), *shape, 0, False, "linear")]

    def steps(count):
        rates = np.full((count, 1), 3e-3 / n_features**0.5)
        engine.run_block(torch, stack, rates, batch_size, precision, False)

    return steps


def products(n, m):
    """Return a function that makes the five products of a step, and nothing else."""
    x, error, z = torch.randn(1, BATCH, n), torch.randn(1, BATCH, n), torch.randn(1, BATCH, m)
    into, out = torch.randn(1, n, m), torch.randn(1, n, m)
    y, back = torch.empty_like(x), torch.empty_like(z)

    def run():
        torch.bmm(x, into, out=back)
        torch.bmm(z, out.mT, out=y)
        torch.bmm(error, out, out=back)
        torch.bmm(x.mT, z, out=into)
        torch.bmm(error.mT, z, out=out)

    return run


@pytest.mark.parametrize("n", [64, 128, 256, 512])
def test_step(race, n):
    ours, plain = (make(n, n // 4, P, BATCH) for make in (our_steps, plain_steps))
    steps = 3200 // n
    name, floor = "eager PyTorch, a model at a time", "its five matrix products"
    race(
        "step of training, batch of 1024", f"n = {n}, m = {n // 4}", lambda: ours(steps),
        {name: lambda: plain(steps)}, {floor: products(n, n // 4)},
        units=steps, their_units={name: steps}, size=n,
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_precision(race, precision):
    """What short factors change: exact losses of trained models, in float64, beside those of float32.

    A CPU imitates the rounding, so that the time says nothing; the errors do.
    """
    seeds = [0, 1, 2, 3]
    options = {"schedule": "converged", "steps": 2000, "evaluation_samples": None, "device": "cpu"}
    whole, short = (
        training.train(64, 16, 0.05, seeds, precision=one, threads=1, **options)["loss"].values[0]
        for one in ("float32", precision)
    )
    change = short / whole - 1
    mean, se = float(change.mean()), float(change.std(ddof=1) / len(seeds) ** 0.5)
    ours = our_steps(64, 16, P, BATCH, precision)
    race(
        f"training with factors of {precision}, imitated", "n = 64, m = 16", lambda: ours(20), units=20,
        errors={"ours": float(np.abs(change).max())},
        note=f"loss of 4 trained models over that of float32, less 1: {mean:+.1e}, standard error {se:.0e}",
    )  # fmt: skip
