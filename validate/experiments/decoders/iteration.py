"""Message passing on random rugs: its errors beside state evolution, and where it recovers all features."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import decoders, rug
from ....solvers.statistics import LEVEL, crossing
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows
from ...runner.findings import Criterion, post_hoc, rounding
from ..drawing import draw_means, finish_axes, plot_function
from .labels import Case, coordinates

SUCCESS = 1e-6  # largest error of a feature that counts as recovered


RECOVERY_INCOMPLETE = Criterion("error of state evolution", ">", rounding(1e-12))


NEAR_STATE_EVOLUTION = Criterion("standard errors from state evolution", "<=", post_hoc(2))


def _draw_projection(n: int, m: int, projection: str, rng: np.random.Generator) -> rug.RugMatrix | FloatArray:
    """Return a random projection of n features to m dimensions.

    If `projection` is "orthogonal" it is a `RugMatrix`, (n, n): n/m times the projector on m random rows of a
    Hadamard matrix. Else it is an array (m, n) of independent normal entries of variance 1/m.
    """
    return rug.rug_matrix(n, m, rng) if projection == "orthogonal" else rng.normal(size=(m, n)) / np.sqrt(m)


@as_annotated
def run_passing(
    cases: Sequence[Case] = ((0.05, 0.25), (0.05, 0.09), (0.2, 0.25)),
    *,
    n_features: int = 2**14,
    projection: str = "orthogonal",
    steps: Sequence[int] = (1, 2, 3, 5, 8, 12),
    seeds: Sequence[int] = range(8),
) -> xr.Dataset:
    """Decode random features by message passing, and return errors beside those of state evolution.

    Parameters
    ----------
    cases : sequence of (p, ratio)
    n_features : int
        A power of two.
    projection : {"orthogonal", "gaussian"}
        "orthogonal" are random rugs, "gaussian" has independent normal entries, stored in 8 n_features
        n_hidden bytes.
    steps : sequence of int
        Steps after which errors are measured.
    seeds : sequence of int
        Two or more.

    Returns
    -------
    xarray.Dataset
        ``error`` (case, step, seed), the mean squared error after each of `steps`, and ``law`` (case, step),
        the error that state evolution predicts.

    Examples
    --------
    >>> ds = run_passing([(0.1, 0.5)], n_features=256, steps=[1, 2], seeds=[0, 1])
    >>> ds["error"].dims
    ('case', 'step', 'seed')
    """
    n = validation.power_of_two("n_features", n_features)
    steps = [validation.integer("steps", k, 1) for k in steps]
    rows = []
    for i, (p, ratio) in enumerate(cases):
        m = round(validation.number("cases", ratio, 1 / n, 1.0) * n)
        path = decoders.state_evolution(p, m / n, projection=projection, steps=max(steps), tol=0.0).path
        law = np.pad(path, (0, max(steps) - path.size), mode="edge")[np.array(steps) - 1]
        errors = []
        for seed in seeds:
            rng = np.random.default_rng([seed, i, n])
            (x,), A = Features(n, p).sample(1, rng), _draw_projection(n, m, projection, rng)
            estimates = [decoders.message_passing(A, A @ x, p, steps=k, tol=0.0).x for k in steps]
            errors.append([np.mean((estimate - x) ** 2) for estimate in estimates])
        rows.append({"error": (("step", "seed"), np.transpose(errors)), "law": ("step", law)})
    ds = from_rows(rows, case=len(cases)).assign_coords({**coordinates(cases, seeds), "step": steps})
    return ds.assign_attrs(n_features=n, projection=projection)


@as_annotated
def run_recovery(
    p: float = 0.1,
    sizes: Sequence[int] = (512, 2048, 8192),
    around: Sequence[float] = (0.85, 0.9, 0.95, 1.0, 1.05, 1.1),
    runs: int = 24,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Count how often message passing recovers all features of random codes, at ratios around a threshold.

    The threshold, called the line, is the ratio n_hidden/n_features above which all features are recovered in
    the limit of many features (`solvers.decoders.recovery_ratio`). Codes are rugs, projections by random
    Hadamard rows.

    Parameters
    ----------
    p : float
        Probability that a feature is on.
    sizes : sequence of int
        Numbers of features, powers of two.
    around : sequence of float
        Ratios, in units of the line.
    runs : int
        Runs at each size and ratio.
    seed : int
        Seed of all random numbers.

    Returns
    -------
    xarray.Dataset
        ``recovered`` (n_features, around, run), 1 where all features are right to 1e-6, else 0; the attribute
        ``line`` is the threshold.

    Examples
    --------
    >>> ds = run_recovery(0.2, [128], [0.5, 1.5], 4)
    >>> ds["recovered"].mean("run").values.tolist()
    [[0.0, 1.0]]
    """
    sizes, runs = [validation.power_of_two("sizes", n) for n in sizes], validation.integer("runs", runs, 1)
    line = float(decoders.recovery_ratio(p))
    validation.real("around", around, 0.5 / (line * min(sizes)), 1 / line, hint=f"The line is {line:g}.")
    rows = []
    for n, (j, by), k in itertools.product(sizes, enumerate(around), range(runs)):
        rng = np.random.default_rng([seed, n, j, k])
        (x,), R = Features(n, p).sample(1, rng), rug.rug_matrix(n, round(by * line * n), rng)
        end = decoders.message_passing(R, R @ x, p, steps=300, tol=1e-6)
        rows.append({"recovered": int(np.abs(end.x - x).max() < SUCCESS)})
    return from_rows(rows, n_features=sizes, around=around, run=range(runs)).assign_attrs(p=p, line=line)


@plot_function
def plot_passing(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw mean squared errors of message passing (points) and of state evolution (lines) after each step.

    `ds` is from `run_passing`.
    """
    for i in range(ds.sizes["case"]):
        at = ds.isel(case=i)
        label = f"p = {float(at['p']):g}, ratio {float(at['ratio']):g}"
        ax.plot(ds["step"], at["law"], color=f"C{i}", linewidth=1, label=label)
        draw_means(ax, ds["step"].values, at["error"].transpose("step", "seed").values, color=f"C{i}", ms=3)
    return finish_axes(ax, yscale="log", xlabel="step", ylabel="loss per feature")


@plot_function
def plot_success(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of runs that recover all features against (ratio) / (ratio of the recovery line).

    `ds` is from `run_recovery`, with a line for each n_features.
    """
    for n in ds["n_features"].values:
        share = ds["recovered"].sel(n_features=n).mean("run")
        ax.plot(ds["around"], share, ".-", label=f"n = {n}")
    ax.axvline(1, color="0.5", linestyle="--", label="state evolution")
    return finish_axes(ax, xlabel="ratio / ratio of the line", ylabel="share of runs that recover all")


def _show_iteration(passing: xr.Dataset, recovery: xr.Dataset) -> TopicContent:
    """Return text and figures of the report's part "iteration": message passing on random codes ("rugs").

    One figure has mean squared errors after each step beside state evolution, the other the share of runs
    that recover all features against the ratio. `passing` is from `run_passing`, `recovery` from
    `run_recovery`.
    """
    standard_error = passing["error"].std("seed", ddof=1) / np.sqrt(passing.sizes["seed"])
    deviation = (passing["error"].mean("seed") - passing["law"]) / standard_error
    visible_deviation = deviation.where(RECOVERY_INCOMPLETE.satisfied(passing["law"]))
    near_count = int(NEAR_STATE_EVOLUTION.satisfied(abs(visible_deviation)).sum())
    cross = []
    for n in recovery["n_features"].values:
        shares = recovery["recovered"].sel(n_features=n).transpose("around", "run").values
        estimate = crossing(recovery["around"].values, 0.5 - shares.T)
        cross.append(f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f}, n = {n})")
    text = (
        f"Message passing on random rugs of {passing.attrs['n_features']} features follows its state "
        f"evolution: {near_count} of {int(visible_deviation.notnull().sum())} mean errors are within two "
        f"standard errors of it, {passing.sizes['seed']} runs each. At p = {recovery.attrs['p']:g} it "
        f"recovers all features in half of the runs at the ratio of the line, {recovery.attrs['line']:.4f}, "
        f"times {', '.join(cross)}."
    )
    passing_caption = (
        f"{passing.sizes['seed']} rugs each, means with {LEVEL:.0%} intervals; lines: state evolution."
    )
    recovery_caption = f"{recovery.sizes['run']} rugs at each point, p = {recovery.attrs['p']:g}."
    figures = [
        Figure("passing", "Message passing and its state evolution", passing_caption, passing, plot_passing),
        Figure("recovery", "Exact recovery sets in at the line", recovery_caption, recovery, plot_success),
    ]
    return TopicContent(text, figures)


RUNS = {
    "passing": Run(run_passing, full={"n_features": 2**16, "seeds": range(16)}, seconds=15),
    "recovery": Run(
        run_recovery,
        quick={"sizes": (256, 1024, 4096), "runs": 20},
        full={"sizes": (512, 2048, 8192, 32768), "runs": 64},
        seconds=10,
    ),
}
TOPICS = [Topic("iteration", ["passing", "recovery"], _show_iteration)]
