"""Small models trained on samples beside the exact minimisers, and the ends of gradient flow."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from scipy import optimize
from scipy.integrate import solve_ivp
from scipy.stats import binomtest

from ...solvers.minimise import minimise
from ...solvers.relu import pair_basins, phase_diagram
from ...theory import arguments
from ...theory.relu import mixture_loss, mixture_loss_gradient
from ..drawing import check_axes
from ..training.engine import load_torch
from .polygons import plain_log

__all__ = ["OPTIMISERS", "plot_excess", "plot_reached", "run_trained"]

OPTIMISERS = ("adam", "sgd")
# Learning rates fall to 0 in equal steps. Those of SGD add up to this time of the flow for the loss over p.
ADAM_RATE, SGD_TIME = 0.03, 25.0

# Losses this close, relative, belong to one minimum.
SAME = 1e-5
# Longest flow, for the loss over p, and the gradient at which a descent takes over.
FLOW_TIME, FLOW_END = 500.0, 1e-4
LEVEL = 0.95

FloatArray = npt.NDArray[np.float64]


class _Exact:
    """Exact loss over p, a total over features of importance 1, and its gradient in (W, b), flattened."""

    def __init__(self, n: int, m: int, p: float):
        self.n, self.m, self.p = n, m, p

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return x[: self.n * self.m].reshape(self.n, self.m), x[self.n * self.m :]

    def value(self, x: FloatArray) -> float:
        return mixture_loss(*self.split(x), self.p).total / self.p

    def gradient(self, x: FloatArray) -> FloatArray:
        by_W, by_b = mixture_loss_gradient(*self.split(x), self.p)
        return np.concatenate([by_W.ravel(), by_b]) / self.p

    def settled(self, x: FloatArray) -> float:
        """Return the loss of the minimum below."""
        found = optimize.minimize(self.value, x, jac=self.gradient, method="BFGS", options={"gtol": 1e-8})
        return float(found.fun)

    def flow(self, x: FloatArray) -> float:
        """Return the loss of the minimum in which gradient flow ends."""

        def near_end(_: float, y: FloatArray) -> float:
            return float(np.linalg.norm(self.gradient(y))) - FLOW_END

        near_end.terminal = True  # type: ignore[attr-defined]
        found = solve_ivp(
            lambda _, y: -self.gradient(y),
            (0.0, FLOW_TIME),
            x,
            method="BDF",
            events=near_end,
            rtol=1e-3,
            atol=1e-6,
        )
        return self.settled(found.y[:, -1])


def _train(
    W0: FloatArray, p: float, optimiser: str, steps: int, batch: int, seed: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Train models with these first encodings (seed, n, m), biases 0, on fresh samples."""
    torch = load_torch()
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state))
    W = torch.tensor(W0, dtype=torch.float32, requires_grad=True)
    b = torch.zeros(W0.shape[0], 1, W0.shape[1], requires_grad=True)
    rate = ADAM_RATE if optimiser == "adam" else 2.0 * SGD_TIME / steps
    kind: Any = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD
    descent = kind([W, b], lr=rate)
    shape = (W0.shape[0], batch, W0.shape[1])
    for step in range(steps):
        descent.param_groups[0]["lr"] = rate * (1.0 - step / steps)
        # One draw serves both: below p a feature is on, and u/p is uniform.
        u = torch.rand(shape, generator=generator)
        x = torch.where(u < p, u / p, 0.0)
        error = x - torch.relu(x @ W @ W.transpose(1, 2) + b)
        descent.zero_grad()
        (error.square().sum() / (batch * p)).backward()
        descent.step()
    found = W.detach().double().numpy(), b.detach().double().numpy()[:, 0]
    if not all(np.isfinite(array).all() for array in found):
        raise ArithmeticError(f"training with {optimiser} diverged at p = {p:g}.")
    return found


def run_trained(
    cases: Sequence[Sequence[float]] = ((2, 1, 0.1), (3, 2, 0.5), (5, 2, 0.05)),
    optimisers: Sequence[str] = ("adam",),
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
    seeds : int
        Models of each case, at least 2. All optimisers, and the flow, start from the same encodings.
    steps : int
        Steps of training.
    batch : int
        Fresh samples a step, for each model its own.
    init_std : float
        Standard deviation of the first encodings; biases start at 0.
    seed : int
        Of everything random.

    Returns
    -------
    xarray.Dataset
        Exact losses per feature: ``trained`` (case, optimiser, run) as training leaves the models,
        ``settled``, of the minima of the exact loss below them, ``flow`` (case, run), of the minima in which
        gradient flow on the exact loss ends from the same first encodings, ``least`` (case), the least one
        known from the solvers.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ImportError
        If PyTorch is not installed.
    ArithmeticError
        If training diverges.

    Notes
    -----
    For two features in one dimension flow and minimum come from `solvers.relu.pair_basins` and
    `phase_diagram`, for others from the exact gradient, SciPy's BDF and BFGS, and `solvers.minimise`.

    Examples
    --------
    >>> ds = run_trained([(2, 1, 0.2)], ["adam"], 4, steps=300)
    >>> bool((ds["settled"] > ds["least"] * (1 - 1e-9)).all())
    True
    """
    for optimiser in optimisers:
        arguments.choice("optimisers", optimiser, OPTIMISERS)
    seeds = arguments.integer("seeds", seeds, 2)
    steps, batch = arguments.integer("steps", steps, 1), arguments.integer("batch", batch, 1)
    std = arguments.number("init_std", init_std, 0.01, 10)
    checked = []
    for n, m, p in cases:
        size = arguments.integer("n_features", n, 2, 7)
        hidden = arguments.integer("n_hidden", m, 1, size)
        checked.append((size, hidden, arguments.number("p", p, 1e-4, 1, brackets="[)")))
    shape = (len(checked), len(optimisers), seeds)
    trained, settled = np.empty(shape), np.empty(shape)
    flow, least = np.empty((shape[0], seeds)), np.empty(shape[0])
    for i, (n, m, p) in enumerate(checked):
        exact = _Exact(n, m, p)
        # As `pair_basins` draws them.
        W0 = std * np.random.default_rng([seed, i, 0]).standard_normal((seeds, n, m))
        for j, optimiser in enumerate(optimisers):
            W, b = _train(W0, p, optimiser, steps, batch, [seed, i, 1])
            ends = np.concatenate([W.reshape(seeds, -1), b], axis=1)
            trained[i, j] = [exact.value(x) * p / n for x in ends]
            settled[i, j] = [exact.settled(x) * p / n for x in ends]
        if (n, m) == (2, 1):
            rng = np.random.default_rng([seed, i, 0])
            flow[i] = pair_basins(p, 1.0, starts=seeds, init_std=std, rng=rng).loss
            least[i] = float(phase_diagram([p], [1.0]).loss[0, 0])
        else:
            starts = np.concatenate([W0.reshape(seeds, -1), np.zeros((seeds, n))], axis=1)
            flow[i] = [exact.flow(x) * p / n for x in starts]
            least[i] = minimise(n, m, p, starts=8, rng=seed).loss
    axes = ("case", "optimiser", "run")
    return xr.Dataset(
        {
            "trained": (axes, trained),
            "settled": (axes, settled),
            "flow": (("case", "run"), flow),
            "least": ("case", least),
        },
        {
            "case": [f"{n} in {m}, p = {p:g}" for n, m, p in checked],
            "optimiser": list(optimisers),
            "n_features": ("case", [n for n, _, _ in checked]),
            "n_hidden": ("case", [m for _, m, _ in checked]),
            "p": ("case", [p for _, _, p in checked]),
        },
        {"steps": steps, "batch": batch, "init_std": std, "seed": seed},
    )


def reached(ds: xr.Dataset, name: str) -> xr.DataArray:
    """Return which models end in the least minimum; `name` is "settled" or "flow"."""
    return ds[name] <= ds["least"] * (1.0 + SAME)


def share(hits: int, runs: int) -> tuple[float, float, float]:
    """Return a share with its two-sided interval (Wilson)."""
    interval = binomtest(hits, runs).proportion_ci(LEVEL, method="wilson")
    return hits / runs, float(interval.low), float(interval.high)


def plot_excess(ds: xr.Dataset, ax: Axes, optimiser: str = "adam") -> Axes:
    """Draw each trained model's exact loss over the least one, and where gradient flow ends.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_trained`.
    ax : matplotlib.axes.Axes
    optimiser : str, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    optimiser = arguments.choice("optimiser", optimiser, tuple(str(x) for x in ds["optimiser"].values))
    one = ds.sel(optimiser=optimiser)
    spread = np.linspace(-0.15, 0.15, ds.sizes["run"])
    for i in range(ds.sizes["case"]):
        least = float(one["least"][i])
        first = i == 0
        ax.plot(
            i - 0.2 + spread,
            one["trained"][i] / least,
            "o",
            color="C1",
            markersize=3,
            alpha=0.7,
            label=f"trained ({optimiser})" if first else None,
        )
        ax.plot(
            i + 0.2 + spread,
            one["flow"][i] / least,
            "s",
            color="C2",
            markersize=3,
            alpha=0.7,
            label="gradient flow on the exact loss" if first else None,
        )
    ax.axhline(1.0, color="C0", linewidth=1.0, label="exact minimum", zorder=0)
    ax.set(yscale="log", ylabel="loss / least loss")
    plain_log(ax.yaxis)
    ax.set_xticks(range(ds.sizes["case"]), [str(case).replace(", ", "\n") for case in ds["case"].values])
    ax.legend()
    return ax


def plot_reached(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of the seeds that end in the global minimum, with 95 % intervals.

    Parameters
    ----------
    ds : xarray.Dataset
        From `run_trained`.
    ax : matplotlib.axes.Axes

    Returns
    -------
    matplotlib.axes.Axes
    """
    check_axes(ax)
    runs = ds.sizes["run"]
    kinds = [("gradient flow", reached(ds, "flow"))]
    kinds += [(str(name), reached(ds, "settled").sel(optimiser=name)) for name in ds["optimiser"].values]
    for k, (name, hit) in enumerate(kinds):
        shares = np.array([share(int(count), runs) for count in hit.sum("run").values])
        ax.errorbar(
            np.arange(ds.sizes["case"]) + 0.2 * (k - (len(kinds) - 1) / 2),
            shares[:, 0],
            np.abs(shares[:, 1:] - shares[:, :1]).T,
            fmt="soD^"[k],
            color=("C2", "C1", "C3", "C4")[k],
            markersize=4.5,
            label=name,
        )
    ax.set(ylim=(-0.03, 1.03), ylabel="share at the global minimum")
    ax.set_xticks(range(ds.sizes["case"]), [str(case).replace(", ", "\n") for case in ds["case"].values])
    ax.legend()
    return ax
