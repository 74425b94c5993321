"""A step of noisy gradient descent beside the loop that a user would write in PyTorch.

Each side has its own random numbers; that ours takes the steps of a loop is a test (solvers/test_noise.py).
"""

import numpy as np
import pytest

from superposition.solvers.noise import descend

torch = pytest.importorskip("torch")
STD, RATE = 0.1, 0.02
# The authors' code has n = 8, m = 16 and 5 runs. Steps are such that a round takes some 20 ms.
STEPS = {(8, 16, 1): 20_000, (8, 16, 5): 4_000, (8, 16, 64): 300, (32, 64, 1): 400}
THEIRS = 200


def start(n, m, runs):
    return np.random.default_rng(0).normal(scale=m**-0.5, size=(runs, n, m))


def eager(noise, n, m, runs, steps):
    """Train as one would with autograd, without compilation or tricks."""
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


@pytest.mark.parametrize("size", STEPS, ids=str)
@pytest.mark.parametrize("noise", ["bipolar", "normal"])
def test_descend(race, noise, size):
    n, m, runs = size
    W0, steps = start(n, m, runs), STEPS[size]
    descend(W0, noise, STD, RATE, 1, 0)  # compile first
    name = "eager PyTorch"
    race(
        f"step of noisy descent, {noise}", f"n = {n}, m = {m}, {runs} runs",
        lambda: descend(W0, noise, STD, RATE, steps, 0),
        {name: lambda: eager(noise, n, m, runs, THEIRS)}, units=steps, their_units={name: THEIRS},
    )  # fmt: skip
