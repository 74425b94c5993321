"""The exact loss of networks with a hidden layer beside samples in PyTorch, at equal error.

As for toy models, samples are extrapolated by the law of their standard error, from the error and the time
that were measured. At a thousandth of the loss samples win from some size on: `test_where_samples_win` shows
where.
"""

import shutil

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.sae import measure
from superposition.theory.features import Features
from superposition.theory.model import Model

torch = pytest.importorskip("torch")

# PyTorch's compiler warns of its own parts.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch:DeprecationWarning")
BATCH, BATCHES = 1024, 5


def network(n, hidden):
    """Return a random network with as many outputs as features."""
    rng = np.random.default_rng(n)
    U, V = rng.standard_normal((hidden, n)) / np.sqrt(n), rng.standard_normal((n, hidden)) / np.sqrt(hidden)
    return Model(U, 0.1 * rng.standard_normal(hidden), "relu", V, output="identity")


def of_batch(U, b, V, target, values, p):
    """Return the function that makes the losses of a batch."""

    def losses():
        shape = (BATCH, U.shape[1])
        x = torch.randn(shape).abs() if values == "half-normal" else torch.rand(shape)
        x = 2.0 * x - 1.0 if values == "symmetric" else x
        x = x * (torch.rand(shape) < p)
        wanted = torch.relu(x) if target is None else x @ target.T
        return (torch.relu(x @ U.T + b) @ V.T - wanted).square().mean(dim=1)

    return losses


def against_samples(race, work, at, ours, exact, error, eager, passes=None, scale=1.0, size=None, rounds=3):
    """Race `ours`, whose value is `exact` to `error`, with the samples of `eager` that come as near.

    `passes` makes of a function for losses of a batch what is timed; a function without it is not compiled.
    """
    losses = scale * torch.cat([eager().detach() for _ in range(50)]).double()
    deviation = losses.std().item()
    assert abs(losses.mean().item() - exact) < 5 * deviation / len(losses) ** 0.5 + error + 1e-5 * exact
    needed, own = (deviation / error) ** 2, error / exact
    beside = {"samples in eager PyTorch": eager}
    if passes and shutil.which("g++"):
        beside["samples in compiled PyTorch"] = torch.compile(eager)

    def repeated(losses):
        return lambda: [passes(losses()) if passes else losses() for _ in range(BATCHES)]

    race(
        work, at, ours, {name: repeated(losses) for name, losses in beside.items()},
        their_units=dict.fromkeys(beside, BATCHES * BATCH / needed),
        errors={"ours": own} | dict.fromkeys(beside, own), size=size,
        note=f"extrapolated to {needed:.1e} samples", rounds=rounds,
    )  # fmt: skip


def network_against_samples(race, work, n, hidden, p, tol, gradient=False, size=None, rounds=3):
    model, f = network(n, hidden), evaluator(Features(n, p, "symmetric"), tol=tol)
    tensors = [torch.tensor(one, dtype=torch.float32) for one in (model.W_in, model.b_in, model.W_out)]
    for one in tensors if gradient else []:
        one.requires_grad_()

    def ours():
        return f(model, gradient=gradient, target="relu")

    def passes(losses):
        if gradient:
            torch.autograd.grad(losses.mean(), tensors)

    found, eager = ours(), of_batch(*tensors, None, "symmetric", p)
    at = f"{n} features on {hidden} hidden"
    against_samples(
        race, work, at, ours, found.loss, found.error_estimate, eager, passes, size=size, rounds=rounds
    )


@pytest.mark.parametrize("gradient", [False, True], ids=["loss", "with gradient"])
@pytest.mark.parametrize(("n", "hidden", "p", "tol"), [(5, 4, 0.1, 1e-12), (100, 50, 0.05, 1e-6)])
def test_network(race, n, hidden, p, tol, gradient):
    work = f"exact loss of a network{', with gradient' if gradient else ''}"
    network_against_samples(race, work, n, hidden, p, tol, gradient, rounds=1 if n > 5 else 3)


@pytest.mark.parametrize("n", [10, 20, 40, 80])
def test_where_samples_win(race, n):
    work = "exact loss of a network, good to some 1e-03"
    network_against_samples(race, work, n, n // 2, 0.05, 1e-3, size=n, rounds=1)


@pytest.mark.parametrize("values", ["uniform", "half-normal"])
def test_sparse_autoencoder(race, values):
    """All that `measure` finds, probabilities of pairs too, beside samples for the squared error alone."""
    phi = np.random.default_rng(0).standard_normal((64, 128))
    phi /= np.linalg.norm(phi, axis=0)
    E = phi.T[:64]  # a tied autoencoder, its latents those of the first features
    sae, law = Model(E, -0.1, "relu", E.T, output="identity"), Features(128, 0.03, values)
    found = measure(sae, law, phi, tol=1e-5)
    whole = [torch.tensor(one, dtype=torch.float32) for one in (sae.W_in @ phi, sae.b_in, sae.W_out, phi)]
    against_samples(
        race, f"all of a sparse autoencoder, {values} values", "64 latents on 128 features in 64 dimensions",
        lambda: measure(sae, law, phi, tol=1e-5), found.mse, found.mse_error, of_batch(*whole, values, 0.03),
        scale=len(phi), rounds=1,
    )  # fmt: skip
