"""Fig. 6 of Lecomte et al. (2024): an encoding that stays spread while all others sparsify."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ....solvers import noise as solvers
from ....theory import noise as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import from_rows
from .runs import MOST_STEPS, starts
from .shapes import LARGE_STEP, LEVEL, curvature, descend_from, is_settled, is_stuck, shape, symmetric_minimum


@as_annotated
def run_fig6(
    n_features: int = 8,
    n_hidden: int = 16,
    noise_std: float = 0.15,
    learning_rate: float = 0.02,
    steps: int = 50_000,
    runs: int = 8,
    *,
    points: int = 80,
    settle: float = 100.0,
    seed: int = 0,
) -> xr.Dataset:
    """Find a run with a stuck encoding under bipolar noise and explain it by the averaged loss.

    Parameters
    ----------
    n_features, n_hidden : int
        n, at least 3, and m, at most 40.
    noise_std, learning_rate : float
    steps, runs, seed : int
        Of the runs the first with an encoding that is :func:`is_stuck` is taken; the first of all if none is.
    points, settle : int, float
        Steps at which norms are kept, about; time for which the flow of the averaged loss goes on from the
        last weights.

    Returns
    -------
    xarray.Dataset
        ``fourth_norm`` (step, feature) and ``W`` (feature, hidden) of that run, features in ascending order
        of the last fourth norm, neurons in the order of the features whose largest weights they hold;
        ``settled``, W after the flow; ``stuck`` (feature) before and ``still_stuck`` after it. Numbers:
        ``found`` (runs with a stuck encoding), ``slope`` and ``curvature`` at the settled weights, their
        averaged ``loss``; ``loss_spread``, ``loss_sparse`` of the symmetric minima with and without a spread
        encoding; ``spread_norm``, the fourth norm of the spread encoding there; ``owned``, the part of the
        first encoding's squared length on neurons where another one has more than half of its own.

    Examples
    --------
    >>> ds = run_fig6(3, 4, steps=20, runs=1, settle=1.0)
    >>> ds["settled"].shape
    (3, 4)
    """
    n, m, runs = validation.integers(n_features=(n_features, 3), n_hidden=(n_hidden, 2, 40), runs=(runs, 1))
    std = validation.number("noise_std", noise_std, 0.0, brackets="()")
    settle = validation.number("settle", settle, 0.0)
    record = np.unique(np.linspace(0, validation.integer("steps", steps, 1), points + 1).astype(int))
    W0 = starts(n, m, runs, seed)
    rng = np.random.default_rng([seed, 500])
    made = solvers.descend(W0, "bipolar", std, learning_rate, steps, rng, record=record)
    having = is_stuck(made.W).any(axis=1)
    run = int(np.argmax(having))
    order = np.argsort(made.fourth_norm[run, -1])
    W = made.W[run][order]
    share = W**2 / np.sum(W**2, axis=1, keepdims=True)
    # Neurons that a sparse encoding owns first, in the order of these.
    column = np.argsort(np.where(share.max(axis=0) > 0.5, np.argmax(share, axis=0), n), kind="stable")
    rest = is_settled(W, std, settle)
    slope, smallest = curvature(rest, "bipolar", std)
    minima = {name: symmetric_minimum(n, std, spread=name == "spread") for name in ("spread", "sparse")}
    losses = {f"loss_{name}": theory.noise_averaged_loss(V, "bipolar", std) for name, V in minima.items()}
    numbers = {"found": int(having.sum()), "slope": slope, "curvature": smallest, **losses}
    owner = np.any(share[1:] > 0.5, axis=0)
    return xr.Dataset(
        {
            "fourth_norm": (("step", "feature"), made.fourth_norm[run][:, order]),
            "W": (("feature", "hidden"), W[:, column]),
            "settled": (("feature", "hidden"), rest[:, column]),
            "stuck": ("feature", is_stuck(W).astype(np.int8)),
            "still_stuck": ("feature", is_stuck(rest).astype(np.int8)),
            "loss": theory.noise_averaged_loss(rest, "bipolar", std),
            "spread_norm": float(np.sum(minima["spread"][-1] ** 4)),
            "owned": float(share[0, owner].sum()),
            **numbers,
        },
        {"step": record, "t": ("step", record * learning_rate)},
        {"n_features": n, "n_hidden": m, "noise_std": std, "learning_rate": learning_rate, "runs": runs},
    )


@as_annotated
def run_stuck(
    n_features: Sequence[int] = (3, 4, 5, 6, 7, 8, 9, 10, 12),
    n_hidden: int = 8,
    noise_std: float = 0.2,
    learning_rate: float = 0.05,
    time: float = 1000.0,
    runs: int = 20,
    *,
    settle: float = 25.0,
    seed: int = 0,
) -> xr.Dataset:
    """Count stuck encodings against n/m under bipolar noise.

    Parameters
    ----------
    n_features, n_hidden : sequence of int, int
        Values of n, at least 2, and m, at most 40.
    noise_std, learning_rate, time : float
        `time` is learning_rate * steps.
    runs, seed : int
        So many runs for each n.
    settle : float
        Time for which the flow of the averaged loss goes on from the last weights, before they are judged:
        what only the noise of the gradient keeps spread has then left.

    Returns
    -------
    xarray.Dataset
        Over (n_features, run): ``stuck``, the number of encodings that are :func:`is_stuck`, ``sparse``, that
        of encodings with a fourth norm of at least 1/2. ``norm`` (n_features): the mean fourth norm of stuck
        encodings (nan without any).

    Examples
    --------
    >>> run_stuck((3, 4), 4, time=1.0, runs=2, settle=1.0)["stuck"].shape
    (2, 2)
    """
    sizes = [validation.integer("n_features", n, 2) for n in n_features]
    m, runs = validation.integers(n_hidden=(n_hidden, 2, 40), runs=(runs, 1))
    std = validation.number("noise_std", noise_std, 0.0, brackets="()")
    learning_rate = validation.number("learning_rate", learning_rate, 0.0, brackets="(]")
    time = validation.number("time", time, 0.0, MOST_STEPS * learning_rate)
    settle = validation.number("settle", settle, 0.0, MOST_STEPS * LARGE_STEP)
    rows = []
    for n in sizes:
        rng = np.random.default_rng([seed, 600, n])
        W = descend_from(starts(n, m, runs, seed), "bipolar", std, learning_rate, time, rng).W
        W = is_settled(W, std, settle)
        which, fourth = is_stuck(W), shape(W)
        counts = {"stuck": ("run", which.sum(axis=1)), "sparse": ("run", np.sum(fourth >= LEVEL, axis=1))}
        rows.append({**counts, "norm": fourth[which].mean() if which.any() else np.nan})
    ds = from_rows(rows, n_features=sizes).assign_coords(run=range(runs))
    settings = {"n_hidden": m, "noise_std": std, "learning_rate": learning_rate, "time": time, "seed": seed}
    return ds.assign_attrs(settings)
