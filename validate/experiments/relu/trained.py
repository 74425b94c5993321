"""Small models trained on samples beside the exact minimisers, and the ends of gradient flow."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ....solvers.minimise import minimise
from ....solvers.relu.ends import ExactLoss
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import entry_of
from ...training.engine import load_torch
from ...training.loop import descend
from ..drawing import plot_function

OPTIMISERS = ("adam", "sgd")
# Learning rates fall to 0 in equal steps. Those of SGD add up to this time of the flow for the loss over p.
ADAM_RATE, SGD_TIME = 0.03, 25.0

# Losses this close, relative, belong to one minimum.
SAME = 1e-5


def _train(
    W0: FloatArray, p: float, optimiser: str, steps: int, batch: int, seed: Sequence[int]
) -> list[FloatArray]:
    """Train models with these first encodings (seed, n, m), biases 0; return their (W, b), flattened."""
    torch = load_torch()
    seeds, n, _ = W0.shape
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state))
    W = torch.tensor(W0, dtype=torch.float32, requires_grad=True)
    b = torch.zeros(seeds, 1, n, requires_grad=True)
    first = ADAM_RATE if optimiser == "adam" else 2.0 * SGD_TIME / steps
    kind: Any = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD

    def loss() -> Any:
        # One draw serves both: below p a feature is on, and u/p is uniform.
        u = torch.rand((seeds, batch, n), generator=generator)
        x = torch.where(u < p, u / p, 0.0)
        error = x - torch.relu(x @ W @ W.transpose(1, 2) + b)
        return error.square().sum() / (batch * p)

    list(descend(kind([W, b], lr=first), loss, [steps], lambda step: first * (1.0 - step / steps)))
    found = torch.cat([W.flatten(1), b.flatten(1)], 1).detach().double().numpy()
    if not np.isfinite(found).all():
        raise ArithmeticError(f"training with {optimiser} diverged at p = {p:g}.")
    return list(found)


@as_annotated
def run_trained(
    cases: Sequence[Sequence[float]] = ((2, 1, 0.1), (3, 2, 0.5), (5, 2, 0.05)),
    optimisers: Sequence[str] = OPTIMISERS,
    seeds: int = 48,
    *,
    steps: int = 1500,
    batch: int = 256,
    init_std: float = 0.5,
    seed: int = 0,
) -> xr.Dataset:
    """Train small models on samples, many seeds at once, and compare them with the exact minimisers.

    Parameters
    ----------
    cases : sequence of (int, int, float)
        n_features (2 to 7), n_hidden and p of each; importances are 1, biases free.
    optimisers : sequence of {"adam", "sgd"}
        Learning rates fall to 0 in equal steps, Adam's from 0.03, that of gradient descent from 50/steps
        (for the loss over p), so that the more steps, the nearer it is to the flow.
    seeds, steps, batch : int
        Models of each case, at least 2; steps of training; fresh samples a step, for each model its own.
    init_std, seed : float, int
        Standard deviation of the first encodings, the same ones for all optimisers and the flow; biases start
        at 0. Seed of everything random.

    Returns
    -------
    xarray.Dataset
        Exact losses per feature: ``trained`` (case, optimiser, run) as training leaves the models,
        ``settled``, of the minima of the exact loss below them, ``flow`` (case, run), of the minima in which
        gradient flow on the exact loss ends from the same first encodings, ``least`` (case), the least one
        that `solvers.minimise` finds.

    Raises
    ------
    ArithmeticError
        If training diverges.

    Examples
    --------
    >>> ds = run_trained([(2, 1, 0.2)], ["adam"], 4, steps=300)
    >>> bool((ds["settled"] > ds["least"] * (1 - 1e-9)).all())
    True
    """
    optimisers = validation.choices("optimisers", optimisers, OPTIMISERS)
    seeds, steps, batch = validation.integers(seeds=(seeds, 2), steps=(steps, 1), batch=(batch, 1))
    std = validation.number("init_std", init_std, 0.01, 10)
    checked = []
    for case in cases:
        if len(case) != 3:
            raise ValueError(f"`cases` must be (n_features, n_hidden, p); got {validation.short_repr(case)}.")
        n, m, p = case
        with entry_of("cases"):
            size = validation.integer("n_features", n, 2, 7)
            hidden = validation.integer("n_hidden", m, 1, size)
            checked.append((size, hidden, validation.number("p", p, 1e-4, 1, brackets="[)")))
    parts = []
    for i, (n, m, p) in enumerate(checked):
        exact, scale = ExactLoss(n, m, p), p / n
        # As `solvers.relu.pair_basins` draws them, which is the same flow by another method.
        W0 = std * np.random.default_rng([seed, i, 0]).standard_normal((seeds, n, m))
        starts = np.concatenate([W0.reshape(seeds, -1), np.zeros((seeds, n))], axis=1)
        ends = [_train(W0, p, optimiser, steps, batch, [seed, i, 1]) for optimiser in optimisers]
        trained = [[scale * exact.value(x) for x in models] for models in ends]
        settled = [[scale * exact.settled(x) for x in models] for models in ends]
        part = {
            "trained": (("optimiser", "run"), trained),
            "settled": (("optimiser", "run"), settled),
            "flow": ("run", [scale * exact.flow(x) for x in starts]),
            "least": minimise(n, m, p, starts=8, rng=seed).loss,
        }
        sizes = {"case": f"{n} in {m}, p = {p:g}", "n_features": n, "n_hidden": m, "p": p}
        parts.append(xr.Dataset(part, {"optimiser": list(optimisers), **sizes}))
    ds = xr.concat(parts, "case", coords="different", compat="equals")
    return ds.assign_attrs(steps=steps, batch=batch, init_std=std, seed=seed)


@plot_function
def trained_loss(ds: xr.Dataset, name: str) -> xr.DataArray:
    """Return which models of `run_trained` end in the least minimum; `name` is "settled" or "flow"."""
    validation.choice("name", name, ("settled", "flow"))
    return ds[name] <= ds["least"] * (1.0 + SAME)
