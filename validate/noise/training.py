"""PyTorch training under hidden noise (Lecomte et al. 2024, §3.1): another's gradient and random numbers."""

from typing import Any

import numpy as np
import xarray as xr

from ...solvers import noise as solvers
from ...theory import arguments
from ...theory.arguments import FloatArray
from ..training.engine import load_torch
from ..training.loop import descend
from .runs import starts


def run_agreement(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: float = 0.15,
    learning_rate: float = 0.05,
    steps: int = 2000,
    runs: int = 32,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Train the same sizes by PyTorch's autograd and by the compiled solver, from different first weights.

    Parameters
    ----------
    n_features, n_hidden, noise_std, learning_rate, steps, runs, seed : optional
        As in :func:`run_fig4`.

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` over (noise, engine, run) after the last step: the same in distribution.

    Examples
    --------
    >>> run_agreement(2, 3, steps=10, runs=2)["fourth_norm"].shape
    (2, 2, 2)
    """
    runs = arguments.integer("runs", runs, 2)
    load_torch()  # before the compiled descents, not after
    # Starts of their own, so that the two samples are independent.
    W0 = starts(n_features, n_hidden, 2 * runs, seed)
    names, found = ("bipolar", "normal"), np.empty((2, 2, runs))
    for k, name in enumerate(names):
        rng = np.random.default_rng([seed, k])
        made = solvers.descend(W0[:runs], name, noise_std, learning_rate, steps, rng).W
        trained = train(W0[runs:], name, noise_std, learning_rate, steps, 2 * seed + k)
        found[k] = [np.sum(W**4, axis=-1).mean(axis=1) for W in (made, trained)]
    settings = {"noise_std": noise_std, "learning_rate": learning_rate, "steps": steps, "seed": seed}
    coords = {"noise": list(names), "engine": ["Numba", "PyTorch"], "run": range(runs)}
    facts = {"n_features": n_features, "n_hidden": n_hidden, **settings}
    return xr.Dataset({"fourth_norm": (("noise", "engine", "run"), found)}, coords, facts)


def train(W0: FloatArray, noise: str, std: float, rate: float, steps: int, seed: int) -> FloatArray:
    """Train (runs, n, m) encodings by SGD on the printed loss, a sum over inputs; return the last ones."""
    torch = load_torch()
    generator = torch.Generator().manual_seed(seed)
    W = torch.tensor(W0, dtype=torch.float32, requires_grad=True)
    target = torch.eye(W0.shape[1])

    def loss() -> Any:
        hidden = W + std * draw(torch, noise, W0.shape, generator)
        return ((torch.relu(hidden @ W.mT) - target) ** 2).sum()

    list(descend(torch.optim.SGD([W], lr=rate), loss, [steps]))
    return np.asarray(W.detach().numpy(), dtype=np.float64)


def draw(torch: Any, noise: str, shape: tuple[int, ...], generator: Any) -> Any:
    """Draw bipolar or normal noise of variance 1."""
    if noise == "normal":
        return torch.randn(shape, generator=generator)
    return 2.0 * torch.randint(2, shape, generator=generator) - 1.0
