"""The exact loss of networks with a hidden layer beside samples in eager PyTorch, at equal accuracy.

As for toy models, samples are extrapolated by the law of their standard error, from the error and the time
that were measured.
"""

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.theory.features import Features
from superposition.theory.models import Model

BATCH = 1024


def network(n, hidden):
    """Return a random network with as many outputs as features."""
    rng = np.random.default_rng(n)
    U, V = rng.standard_normal((hidden, n)) / np.sqrt(n), rng.standard_normal((n, hidden)) / np.sqrt(hidden)
    return Model(U, 0.1 * rng.standard_normal(hidden), "relu", V, output="identity")


def sampled(torch, tensors, p, batches, generator):
    """Return the loss of each sample, of targets relu(x) of values uniform on [-1, 1]."""
    U, b, V = tensors
    losses = []
    for _ in range(batches):
        shape = (BATCH, U.shape[1])
        x = 2.0 * torch.rand(shape, generator=generator) - 1.0
        x *= torch.rand(shape, generator=generator) < p
        losses.append((torch.relu(x @ U.T + b) @ V.T - torch.relu(x)).square().mean(dim=1))
    return torch.cat(losses).double()


@pytest.mark.parametrize("gradient", [False, True], ids=["loss", "with gradient"])
@pytest.mark.parametrize(
    ("n", "hidden", "p", "tol"),
    [(3, 2, 0.1, 1e-12), (4, 4, 0.1, 1e-12), (5, 4, 0.1, 1e-12), (40, 8, 0.05, 1e-6), (100, 50, 0.05, 1e-6)],
)
def test_network(race, n, hidden, p, tol, gradient):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    model, f = network(n, hidden), evaluator(Features(n, p, "symmetric"), tol=tol)
    found = f(model, gradient=gradient, target="relu")
    own = found.error_estimate / found.loss
    tensors = [torch.tensor(one, dtype=torch.float32) for one in (model.W_in, model.b_in, model.W_out)]
    generator = torch.Generator().manual_seed(0)
    losses = sampled(torch, tensors, p, 50, generator)
    se = (losses.std() / len(losses) ** 0.5).item()
    assert abs(losses.mean().item() - found.loss) < 5 * se + found.error_estimate + 1e-5 * found.loss
    name, batches = "samples in eager PyTorch", 5
    needed = (se * len(losses) ** 0.5 / found.error_estimate) ** 2
    race(
        f"exact loss of a network{', with gradient' if gradient else ''}", f"{n} features on {hidden} hidden",
        lambda: f(model, gradient=gradient, target="relu"),
        {name: lambda: sampled(torch, tensors, p, batches, generator)},
        their_units={name: batches * BATCH / needed}, errors={"ours": own, name: own}, size=n,
        note=f"extrapolated to {needed:.1e} samples", rounds=1 if n == 100 else 3,
    )  # fmt: skip
