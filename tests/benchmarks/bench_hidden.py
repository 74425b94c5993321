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

# PyTorch's compiler warns of its own parts.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch:DeprecationWarning")
BATCH, BATCHES = 1024, 5


def network(n, hidden):
    """Return a random network with as many outputs as features."""
    rng = np.random.default_rng(n)
    U, V = rng.standard_normal((hidden, n)) / np.sqrt(n), rng.standard_normal((n, hidden)) / np.sqrt(hidden)
    return Model(U, 0.1 * rng.standard_normal(hidden), "relu", V, output="identity")


def autoencoder(latents, features, inputs):
    """Return a tied sparse autoencoder on random directions of features, its latents those of the first."""
    phi = np.random.default_rng(0).standard_normal((inputs, features))
    phi /= np.linalg.norm(phi, axis=0)
    E = phi.T[:latents]
    return Model(E, -0.1, "relu", E.T, output="identity"), phi


def of_batch(torch, U, b, V, target, values, p):
    """Return the function that makes the losses of a batch."""

    def losses():
        shape = (BATCH, U.shape[1])
        x = torch.randn(shape).abs() if values == "half-normal" else torch.rand(shape)
        x = 2.0 * x - 1.0 if values == "symmetric" else x
        x = x * (torch.rand(shape) < p)
        wanted = torch.relu(x) if target is None else x @ target.T
        return (torch.relu(x @ U.T + b) @ V.T - wanted).square().mean(dim=1)

    return losses


def against_samples(race, work, at, model, law, tol, target=None, gradient=False, size=None, rounds=3):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    f, named = evaluator(law, tol=tol), "relu" if target is None else target
    found = f(model, gradient=gradient, target=named)
    tensors = [torch.tensor(one, dtype=torch.float32) for one in (model.W_in, model.b_in, model.W_out)]
    for one in tensors if gradient else []:
        one.requires_grad_()
    to = None if target is None else torch.tensor(target, dtype=torch.float32)
    eager = of_batch(torch, *tensors, to, str(law.values), float(law.p[0]))

    def ways(losses):
        def run():
            for _ in range(BATCHES):
                one = losses()
                if gradient:
                    torch.autograd.grad(one.mean(), tensors)

        return run

    beside = {"samples in eager PyTorch": ways(eager)}
    if shutil.which("g++"):
        beside["samples in compiled PyTorch"] = ways(torch.compile(eager))
    losses = torch.cat([eager().detach() for _ in range(50)]).double()
    deviation = losses.std().item()
    se = deviation / len(losses) ** 0.5
    assert abs(losses.mean().item() - found.loss) < 5 * se + found.error_estimate + 1e-5 * found.loss
    own = found.error_estimate / found.loss
    needed = (deviation / found.error_estimate) ** 2
    race(
        work, at, lambda: f(model, gradient=gradient, target=named), beside,
        their_units=dict.fromkeys(beside, BATCHES * BATCH / needed),
        errors={"ours": own} | dict.fromkeys(beside, own), size=size,
        note=f"extrapolated to {needed:.1e} samples", rounds=rounds,
    )  # fmt: skip


@pytest.mark.parametrize("gradient", [False, True], ids=["loss", "with gradient"])
@pytest.mark.parametrize(("n", "hidden", "p", "tol"), [(5, 4, 0.1, 1e-12), (100, 50, 0.05, 1e-6)])
def test_network(race, n, hidden, p, tol, gradient):
    work = f"exact loss of a network{', with gradient' if gradient else ''}"
    against_samples(
        race, work, f"{n} features on {hidden} hidden", network(n, hidden), Features(n, p, "symmetric"), tol,
        gradient=gradient, rounds=1 if n > 5 else 3,
    )  # fmt: skip


@pytest.mark.parametrize("n", [10, 20, 40, 80])
def test_where_samples_win(race, n):
    against_samples(
        race, "exact loss of a network, good to some 1e-03", f"{n} features on {n // 2} hidden",
        network(n, n // 2), Features(n, 0.05, "symmetric"), 1e-3, size=n, rounds=1,
    )  # fmt: skip


@pytest.mark.parametrize("values", ["uniform", "half-normal"])
def test_sparse_autoencoder(race, values):
    """All that `measure` finds, probabilities of pairs too, beside samples for the squared error alone."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sae, phi = autoencoder(64, 128, 64)
    law, tol = Features(128, 0.03, values), 1e-5
    found = measure(sae, law, phi, tol=tol)
    whole = [torch.tensor(one, dtype=torch.float32) for one in (sae.W_in @ phi, sae.b_in, sae.W_out)]
    eager = of_batch(torch, *whole, torch.tensor(phi, dtype=torch.float32), values, 0.03)
    losses = len(phi) * torch.cat([eager() for _ in range(50)]).double()
    deviation = losses.std().item()
    se = deviation / len(losses) ** 0.5
    assert abs(losses.mean().item() - found.mse) < 5 * se + found.mse_error + 1e-5 * found.mse
    needed, own = (deviation / found.mse_error) ** 2, found.mse_error / found.mse
    beside = {"samples in eager PyTorch": lambda: [eager() for _ in range(BATCHES)]}
    race(
        f"all of a sparse autoencoder, {values} values", "64 latents on 128 features in 64 dimensions",
        lambda: measure(sae, law, phi, tol=tol), beside,
        their_units=dict.fromkeys(beside, BATCHES * BATCH / needed),
        errors={"ours": own} | dict.fromkeys(beside, own), note=f"extrapolated to {needed:.1e} samples",
        rounds=1,
    )  # fmt: skip
