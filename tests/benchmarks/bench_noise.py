"""A step of noisy gradient descent beside the loop that a user would write in PyTorch, and averaged descent.

Both sides run on one thread, each with its own random numbers; that they agree in distribution is a test
(tests/solvers/test_noise.py). Rounds of the two take turns, so that other load on the machine meets both.
"""

import time

import numpy as np
import pytest

from superposition.solvers.noise import descend, descend_averaged

STD, RATE = 0.1, 0.02
# The authors' code has n = 8, m = 16 and 5 runs. Steps are such that a round takes some 20 ms.
STEPS = {(8, 16, 1): 20_000, (8, 16, 5): 4_000, (8, 16, 64): 300, (32, 64, 1): 400}
SIZES = list(STEPS)


def start(n, m, runs):
    return np.random.default_rng(0).normal(scale=m**-0.5, size=(runs, n, m))


def eager(noise, n, m, runs, steps):
    """Train as one would with autograd, without compilation or tricks."""
    import torch

    W = torch.tensor(start(n, m, runs), dtype=torch.float32)
    W = (W[0] if runs == 1 else W).clone().requires_grad_()
    inputs, optimiser = torch.eye(n), torch.optim.SGD([W], lr=RATE)
    for _ in range(steps):
        optimiser.zero_grad()
        if noise == "bipolar":
            xi = STD * (2.0 * torch.randint(0, 2, W.shape) - 1.0)
        else:
            xi = STD * torch.randn(W.shape)
        outputs = torch.relu((inputs @ W + xi) @ W.mT)
        loss = torch.nn.functional.mse_loss(outputs, inputs.expand_as(outputs), reduction="sum")
        loss.backward()
        optimiser.step()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("noise", ["bipolar", "normal"])
def test_descend_beside_pytorch(benchmark, noise, size):
    torch = pytest.importorskip("torch", reason="compares with a PyTorch loop")
    n, m, runs = size
    benchmark.group = f"noise: descend, n = {n}, m = {m}, {runs} runs"
    steps, their_steps, theirs = STEPS[size], 200, []
    W0 = start(n, m, runs)

    def after_theirs():
        began = time.perf_counter()
        eager(noise, n, m, runs, their_steps)
        theirs.append((time.perf_counter() - began) / their_steps / runs)

    descend(W0, noise, STD, RATE, 1, 0)  # compile first
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        eager(noise, n, m, runs, 50)
        benchmark.pedantic(descend, (W0, noise, STD, RATE, steps, 0), setup=after_theirs, rounds=9)
    finally:
        torch.set_num_threads(threads)
    ours, torchs = benchmark.stats.stats.median / steps / runs, float(np.median(theirs))
    benchmark.extra_info.update(
        microseconds=1e6 * ours, pytorch_microseconds=1e6 * torchs, times_faster=torchs / ours
    )
    print(f"\n{noise}, n = {n}, m = {m}, {runs} runs: {1e6 * ours:.2f} microseconds for a step of one run,")
    print(f"PyTorch {1e6 * torchs:.1f}: {torchs / ours:.0f} times as long", end="")
    print(" (50 were asked for)" if size == SIZES[0] else "")


@pytest.mark.parametrize("shared", [False, True], ids=["fresh", "shared"])
@pytest.mark.parametrize("noise", ["bipolar", "uniform", "normal", "laplace"])
def test_descend(benchmark, noise, shared):
    benchmark.group = "noise: descend, 10000 steps, n = 8, m = 16"
    W0 = start(8, 16, 1)
    descend(W0, noise, STD, RATE, 1, 0)  # compile first
    benchmark.pedantic(descend, (W0, noise, STD, RATE, 10_000, 0), {"shared": shared}, rounds=9)


@pytest.mark.parametrize("noise", ["bipolar", "normal"])
def test_averaged_step(benchmark, noise):
    benchmark.group = "noise: a step on the noise-averaged loss, n = 8, m = 16"
    W0 = start(8, 16, 1)[0]
    descend_averaged(W0, noise, STD, RATE, 1)  # compile first
    benchmark.pedantic(descend_averaged, (W0, noise, STD, RATE, 100), rounds=7)
    print(f"\naveraged, {noise}: {1e4 * benchmark.stats.stats.median:.0f} microseconds a step")
