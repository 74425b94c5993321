"""Small models trained on samples beside the exact minimisers, and the ends of gradient flow."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.minimise import minimise
from ....solvers.relu.ends import PathLoss
from ....solvers.statistics import LEVEL, share
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, entry_of, span
from ...runner.findings import Criterion, post_hoc
from ...training.engine import load_torch
from ...training.loop import take_steps
from ..drawing import draw_estimates, plot_function
from .labels import finish_log_axes

OPTIMISERS = ("adam", "sgd")
# Learning rates fall to 0 in equal steps. Those of SGD add up to this time of the flow for the loss over p.
ADAM_RATE = 0.03
SGD_TIME = 25.0

# Losses this close, relative, belong to one minimum.
SAME = 1e-5
LEAST = Criterion("loss that a model settles at / least loss", "<=", post_hoc(1.0 + SAME))
SAME_MINIMUM = Criterion("|loss that a model settles at / that of the flow - 1|", "<=", post_hoc(SAME))


def _train_seeds(
    W0: FloatArray, p: float, optimiser: str, steps: int, batch: int, seed: Sequence[int]
) -> list[FloatArray]:
    """Return trained models ReLU(W W' x + b), each as a flat vector of W and b, from W0 (seed, n, m).

    Features are on with probability p. `optimiser` is "adam" or "sgd"; each of `steps` draws a fresh `batch`
    of samples from `seed`. ArithmeticError if training diverges.
    """
    torch = load_torch()
    seeds, n, _ = W0.shape
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state))
    W = torch.tensor(W0, dtype=torch.float32, requires_grad=True)
    b = torch.zeros(seeds, 1, n, requires_grad=True)
    first = ADAM_RATE if optimiser == "adam" else 2.0 * SGD_TIME / steps
    kind: Any = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD

    def loss() -> Any:
        """Return the squared error of all models on a fresh batch, summed, per sample and divided by p."""
        # One draw serves both: below p a feature is on, and u/p is uniform.
        u = torch.rand((seeds, batch, n), generator=generator)
        x = torch.where(u < p, u / p, 0.0)
        error = x - torch.relu(x @ W @ W.transpose(1, 2) + b)
        return error.square().sum() / (batch * p)

    list(take_steps(kind([W, b], lr=first), loss, [steps], lambda step: first * (1.0 - step / steps)))
    models = torch.cat([W.flatten(1), b.flatten(1)], 1).detach().double().numpy()
    if not np.isfinite(models).all():
        raise ArithmeticError(f"training with {optimiser} diverged at p = {p:g}.")
    return list(models)


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
        Learning rates fall to 0 in equal steps: for "adam" from 0.03; for "sgd", on the loss over p, from
        50/steps, so that it approaches the flow with more steps.
    seeds, steps, batch : int
        Models of each case, at least 2; steps of training; fresh samples a step, for each model its own.
    init_std, seed : float, int
        Standard deviation of the first encodings, the same ones for all optimisers and the flow; biases start
        at 0. Seed of everything random.

    Returns
    -------
    xarray.Dataset
        Exact losses per feature: ``trained`` (case, optimiser, run), of trained models; ``settled``, after
        descent from these to a minimum of the exact loss; ``flow`` (case, run), of the minima in which
        gradient flow on the exact loss ends from the same first encodings; ``least`` (case), the least one
        that `solvers.minimise` finds.

    Examples
    --------
    >>> ds = run_trained([(2, 1, 0.2)], ["adam"], 2, steps=50)
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
        exact, scale = PathLoss(n, m, p), p / n
        # As `solvers.relu.pair_basins` draws them, which is the same flow by another method.
        W0 = std * np.random.default_rng([seed, i, 0]).standard_normal((seeds, n, m))
        starts = np.concatenate([W0.reshape(seeds, -1), np.zeros((seeds, n))], axis=1)
        ends = [_train_seeds(W0, p, optimiser, steps, batch, [seed, i, 1]) for optimiser in optimisers]
        trained = [[scale * exact.value(x) for x in models] for models in ends]
        descent_losses = [[scale * exact.loss_after_descent(x) for x in models] for models in ends]
        part = {
            "trained": (("optimiser", "run"), trained),
            "settled": (("optimiser", "run"), descent_losses),
            "flow": ("run", [scale * exact.flow(x) for x in starts]),
            "least": minimise(n, m, p, starts=8, rng=seed).loss,
        }
        sizes = {"case": f"{n} in {m}, p = {p:g}", "n_features": n, "n_hidden": m, "p": p}
        parts.append(xr.Dataset(part, {"optimiser": list(optimisers), **sizes}))
    ds = xr.concat(parts, "case", coords="different", compat="equals")
    return ds.assign_attrs(steps=steps, batch=batch, init_std=std, seed=seed)


@plot_function
def ends_in_least_minimum(ds: xr.Dataset, name: str) -> xr.DataArray:
    """Return a mask of the models of `run_trained` whose minimum has the least loss, to 1e-5 relative.

    `ds` is from `run_trained`. `name` is "settled", for the minima below trained models, a mask (case,
    optimiser, run), or "flow", for the minima of gradient flow, (case, run).
    """
    validation.choice("name", name, ("settled", "flow"))
    in_least: xr.DataArray = LEAST.satisfied(ds[name] / ds["least"])
    return in_least


def _finish_case_axis(ds: xr.Dataset, ax: Axes, **settings: Any) -> Axes:
    """Return axes with a legend, and the names of the cases in `ds` (sizes and p) as ticks 0, 1, ...

    The names are the coordinate ``case`` of a dataset from `run_trained`. `settings` are for Matplotlib's
    `Axes.set`; logarithmic axes below four decades get plain numbers.
    """
    ax.set_xticks(range(ds.sizes["case"]), [str(case).replace(", ", "\n") for case in ds["case"].values])
    return finish_log_axes(ax, **settings)


@plot_function
def plot_excess(ds: xr.Dataset, ax: Axes, optimiser: str = "adam") -> Axes:
    """Draw, by case, (exact loss) / (least loss) of models trained by `optimiser`, and of where flow ends.

    `ds` is from `run_trained`; the flow is gradient flow on the exact loss from the same first encodings.
    """
    optimiser = validation.choice("optimiser", optimiser, tuple(map(str, ds["optimiser"].values)))
    losses = ds.sel(optimiser=optimiser)
    spread = np.linspace(-0.15, 0.15, ds.sizes["run"])
    kinds = (("trained", f"trained ({optimiser})"), ("flow", "gradient flow on the exact loss"))
    for k, (name, label) in enumerate(kinds):
        for i, least in enumerate(losses["least"].values):
            style: dict[str, Any] = {"color": f"C{k + 1}", "alpha": 0.7, "label": None if i else label}
            ax.plot(i + 0.4 * (k - 0.5) + spread, losses[name][i] / least, "os"[k], markersize=3, **style)
    ax.axhline(1.0, color="C0", linewidth=1.0, label="exact minimum", zorder=0)
    return _finish_case_axis(ds, ax, yscale="log", ylabel="loss / least loss")


@plot_function
def plot_reached(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of seeds that end in the global minimum, with exact 95 % intervals, by case.

    `ds` is from `run_trained`.
    """
    is_least_by_descent = ends_in_least_minimum(ds, "settled")
    kinds = {"gradient flow": ends_in_least_minimum(ds, "flow")}
    kinds |= {str(name): is_least_by_descent.sel(optimiser=name) for name in ds["optimiser"].values}
    for k, (name, is_hit) in enumerate(kinds.items()):
        shares = [share(int(hits), ds.sizes["run"]) for hits in is_hit.sum("run").values]
        x = np.arange(ds.sizes["case"]) + 0.2 * (k - (len(kinds) - 1) / 2)
        style = {"fmt": "soD^"[k], "color": ("C2", "C1", "C3", "C4")[k], "label": name}
        draw_estimates(ax, x, shares, markersize=4.5, capsize=0, **style)
    return _finish_case_axis(ds, ax, ylim=(-0.03, 1.03), ylabel="share at the global minimum")


def _show_trained(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "trained", from `ds` of `run_trained`.

    The figure has the exact loss of each trained model over the least, and the share of seeds that end in the
    global minimum; the table has the same by model and optimiser, and for gradient flow.
    """
    runs = ds.sizes["run"]
    is_least_by_descent, flow = ends_in_least_minimum(ds, "settled"), ends_in_least_minimum(ds, "flow")
    same = SAME_MINIMUM.satisfied(abs(ds["settled"] / ds["flow"] - 1.0))
    rows, agree = [], []
    for case, name in product(ds["case"].values, ds["optimiser"].values):
        at = {"case": case, "optimiser": name}
        losses, is_hit = ds.sel(at), is_least_by_descent.sel(at).values
        least = float(losses["least"])
        share_same = share(int(same.sel(at).sum()), runs)
        above = span(losses["trained"][is_hit] / least - 1.0, ".1e") if is_hit.any() else "–"
        agree.append((share_same.value, f"{share_same:.2f} ({name}; {case})"))
        row = {
            "model": str(case),
            "optimiser": str(name),
            "least loss": f"{least:.6g}",
            "loss above it, relative": above,
            "ends in the global minimum": f"{share(int(is_hit.sum()), runs):.2f}",
            "gradient flow does": f"{share(int(flow.sel(case=case).sum()), runs):.2f}",
            "same minimum as the flow": f"{share_same:.2f}",
        }
        rows.append(row)
    below = float((ds["settled"] / ds["least"]).min()) - 1.0
    text = (
        f"Training on samples, {runs} seeds each. The least loss of a minimum that a model settles in, over "
        f"the exact minimum, is 1 {below:+.0e}. The share of seeds whose model ends in the minimum of "
        f"gradient flow on the exact loss from the same first encodings is from {min(agree)[1]} to "
        f"{max(agree)[1]}. Where the two differ, the optimiser or the noise of its samples has made the "
        "choice, as all else is the same."
    )
    caption = (
        f"{ds.attrs['steps']} steps on {ds.attrs['batch']} fresh samples each, learning rate falling to 0, "
        f"first encodings normal with standard deviation {ds.attrs['init_std']:g}, biases 0. Exact losses of "
        "the trained weights, smallest to largest over the seeds that end in the global minimum. Shares with "
        f"exact intervals at {LEVEL:.0%}."
    )
    table = Table.of("Trained small models beside the exact minimisers", pd.DataFrame(rows), caption)
    caption = (
        "Left: exact loss of each trained model over the least one, beside the ends of gradient flow on the "
        f"exact loss. Right: shares that reach the global minimum, exact {LEVEL:.0%} intervals."
    )
    panels = (partial(plot_excess, optimiser=str(ds["optimiser"].values[0])), plot_reached)
    figure = Figure("trained", "Small models: trained, and exact", caption, ds, panels)
    return TopicContent(text, [figure], [table])


QUICK = {"cases": ((2, 1, 0.1), (3, 2, 0.5), (5, 2, 0.3)), "seeds": 20, "steps": 500}
CASES = ((2, 1, 0.1), (2, 1, 0.4), (3, 2, 0.1), (3, 2, 0.5), (5, 2, 0.05), (5, 2, 0.3))
FULL = {"cases": CASES, "seeds": 400, "steps": 4000, "batch": 512}
RUNS = {"trained": Run(run_trained, QUICK, FULL, split_by="cases", concat_dim="case", torch=True, seconds=8)}
TOPICS = [Topic("training", ["trained"], _show_trained)]
