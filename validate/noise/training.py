"""PyTorch training under hidden noise (Lecomte et al. 2024, §3.1), many runs at once."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...solvers import noise as solvers
from ...solvers.noise.descent import checked_record, checked_start
from ...theory import arguments
from ..training.engine import load_torch
from .runs import starts

__all__ = ["run_agreement", "train_noise"]

NOISES = ("bipolar", "uniform", "normal", "laplace")


def train_noise(
    W0: npt.ArrayLike,
    noise: str,
    noise_std: float,
    *,
    learning_rate: float = 0.02,
    steps: int = 2000,
    shared: bool = False,
    record: npt.ArrayLike | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> xr.Dataset:
    """Train autoencoders ReLU(W(W' x + xi)) by torch's SGD and autograd on the printed loss, a sum.

    Parameters
    ----------
    W0 : (runs, n_features, n_hidden) array_like of float
        First weights of independent runs, or of one run without the first axis.
    noise : {"bipolar", "uniform", "normal", "laplace"}
    noise_std : float
        Standard deviation of each component of the noise, at least 0.
    learning_rate : float, optional
        Above 0.
    steps : int, optional
    shared : bool, optional
        One noise vector for all inputs of a step, or a fresh one for each input. Runs never share any.
    record : increasing sequence of int, optional
        Steps at which norms are kept; the last only if not given.
    seed : int, optional
        Of the noise, not negative.
    device : str, optional
        As torch names it.

    Returns
    -------
    xarray.Dataset
        Over (step, run, feature): ``fourth_norm``, |W_i|_4^4, and ``l2_norm``. Over (run, feature, hidden):
        the last weights ``W``. Weights are float32.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If torch is not installed.

    Notes
    -----
    Does what :func:`superposition.solvers.noise.descend` does, with another's gradient and random numbers:
    the two agree in distribution.

    Examples
    --------
    >>> train_noise(np.eye(2, 3), "bipolar", 0.1, steps=3)["fourth_norm"].shape
    (1, 1, 2)
    """
    start = checked_start(W0)
    noise = arguments.choice("noise", noise, NOISES)
    std = arguments.number("noise_std", noise_std, 0.0)
    rate = arguments.number("learning_rate", learning_rate, 0.0, brackets="()")
    steps = arguments.integer("steps", steps, 0)
    stops = checked_record(record, steps)
    seed = arguments.integer("seed", seed, 0)
    torch = load_torch()
    runs, n, m = start.shape
    generator = torch.Generator(device).manual_seed(seed)
    W = torch.tensor(start, dtype=torch.float32, device=device, requires_grad=True)
    target = torch.eye(n, device=device)
    optimiser = torch.optim.SGD([W], lr=rate)
    shape = (runs, 1 if shared else n, m)
    kept = []
    for step in range(steps + 1):
        if step in stops:
            kept.append(W.detach().cpu().numpy().astype(np.float64))
        if step < steps:
            optimiser.zero_grad()
            hidden = W + std * _noise(torch, noise, shape, generator)
            output = torch.relu(hidden @ W.mT)
            ((output - target) ** 2).sum().backward()
            optimiser.step()
    path = np.stack(kept)
    return xr.Dataset(
        {
            "fourth_norm": (("step", "run", "feature"), np.sum(path**4, axis=-1)),
            "l2_norm": (("step", "run", "feature"), np.sqrt(np.sum(path**2, axis=-1))),
            "W": (("run", "feature", "hidden"), W.detach().cpu().numpy().astype(np.float64)),
        },
        {"step": stops},
        {"noise": noise, "noise_std": std, "learning_rate": rate, "shared": int(shared), "seed": seed},
    )


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
    n_features, n_hidden, noise_std, learning_rate, steps, runs : optional
        As in :func:`run_fig4`.
    seed : int

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` over (noise, engine, run) after the last step.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If torch is not installed.

    Examples
    --------
    >>> run_agreement(2, 3, steps=10, runs=2)["fourth_norm"].shape
    (2, 2, 2)
    """
    runs = arguments.integer("runs", runs, 2)
    load_torch()  # before the compiled descents, not after
    # Starts of their own, so that the two samples are independent, as two-sample tests want them.
    W0 = starts(n_features, n_hidden, 2 * runs, seed)
    names, found = ("bipolar", "normal"), np.empty((2, 2, runs))
    for k, name in enumerate(names):
        made = solvers.descend(
            W0[:runs], name, noise_std, learning_rate, steps, np.random.default_rng([seed, k])
        )
        found[k, 0] = made.fourth_norm[:, 0].mean(axis=1)
        trained = train_noise(
            W0[runs:], name, noise_std, learning_rate=learning_rate, steps=steps, seed=2 * seed + k
        )
        found[k, 1] = trained["fourth_norm"].isel(step=-1).mean("feature")
    return xr.Dataset(
        {"fourth_norm": (("noise", "engine", "run"), found)},
        {"noise": list(names), "engine": ["Numba", "PyTorch"], "run": range(runs)},
        {
            "n_features": n_features,
            "n_hidden": n_hidden,
            "noise_std": noise_std,
            "learning_rate": learning_rate,
            "steps": steps,
            "seed": seed,
        },
    )


def _noise(torch: Any, noise: str, shape: tuple[int, ...], generator: Any) -> Any:
    """Return noise of variance 1."""
    if noise == "normal":
        return torch.randn(shape, generator=generator, device=generator.device)
    u = torch.rand(shape, generator=generator, device=generator.device) - 0.5
    if noise == "uniform":
        return math.sqrt(12.0) * u
    sign = torch.where(u < 0, -1.0, 1.0)
    if noise == "bipolar":
        return sign
    # 1 - 2|u| is 0 where rand gives 0 itself.
    return -sign * torch.log((1 - 2 * u.abs()).clamp_min(2.0**-26)) * math.sqrt(0.5)
