"""The part of the report on structured codes and the symmetry of trained weights."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from ....solvers.statistics import LEVEL, mean
from ...runner.declarations import (
    STOPPED,
    Figure,
    ReproductionCheck,
    Run,
    Section,
    Table,
    Topic,
    TopicContent,
)
from ..rug.grids import SIZES
from . import runs
from .envelope import envelope_figure, run_envelope
from .lines import run_lines
from .marks import map_figure, plot_shares, run_marks
from .structure import SHARES
from .symmetry import (
    CELLS,
    STATISTICS,
    TRAINED,
    above_copies,
    by_cell,
    change,
    plot_symmetry,
    run_stored,
)

TEXT = """
A model ReLU(M x + b) whose matrix has rank n_hidden need not look like the Persian rug. It can keep features
in blocks that do not interfere, such as pairs on one line, or leave features out; several such codes have
less loss.

Pairs need not be even. With W_out and W_in free, one direction holds two features as M = [[1, -c], [-1/c,
1]], whose loss when both are on is (1 + c^-2) (1/3 - 1/(6c)) in sum for c >= 1. Its derivative by 1/c
vanishes at c = 1, the antipodal pair, which is its maximum, and at c = 3, the minimum: 25 p^2/162 for each
feature in place of p^2/6. The rows of such a pair come in two kinds, so that permutation symmetry is broken
even where all features are served alike.

The end of a training is not an optimum. A large model can be made of copies of a small one, each with
features and neurons of its own, so that the least loss at a ratio never rises from n_features to a multiple
of it.

The macroscopic loss of the rug depends on the diagonal, the biases and the sums of squares of the rows alone,
so that rotations of the n_hidden dimensions which keep the diagonal leave it as it is: these steps get their
curvature from the deviation of the interference from a normal law, of either sign. The exact Hessian, on
matrices of the rug's rank, is split by the rug's own symmetry into n_features blocks.
"""

CASES = ((0.05, 0.25), (0.05, 0.5), (0.4, 0.25), (0.4, 0.5))
INTERVALS = f"Intervals are Student's over seeds, {LEVEL:.0%}"
# Columns of tables, as formats.
WHERE = {"p": "{p:g}", "ratio": "{ratio:g}"}
_SHARES = {name: f"{{{name}:.0%}}" for name in SHARES}


_NODES = ReproductionCheck(
    {"codes": ["pentagon"]},
    ["least"],
    1e-6,
    "which values of p are added depends on the last digits of losses, and what is interpolated on these; "
    "differences are in units of the largest loss",
)


def _ends(trained: xr.Dataset) -> str:
    return (
        f"Ends: the stopping rule of the source, and a further phase of {trained.attrs['steps']} steps with "
        "a falling learning rate (`converged` in the data)"
    )


def _show_map(trained: xr.Dataset, known: xr.Dataset, plane: xr.Dataset) -> TopicContent:
    marks = run_marks(trained, known)
    half = marks["mean"].isel(end=-1, point=np.isclose(marks["ratio"], 0.5)).values
    return TopicContent(
        f"{_ends(trained)}. Losses of trained models are means over {trained.attrs['samples']} fresh "
        "samples; those of codes, of the rug and of the bound are computed.",
        [map_figure(plane, marks), envelope_figure(plane)],
        headline=f"Trained for {trained.attrs['steps']} steps more than the source's rule asks for, models "
        f"with half as many neurons as features have {np.nanmin(half):.0%} to {np.nanmax(half):.0%} of the "
        "Persian rug's loss: they keep features in pairs.",
    )


def _show_copies(trained: xr.Dataset, longer: xr.Dataset) -> TopicContent:
    rows = []
    for p, ratio in (cell for cell in CELLS if cell[1] != 0.12):  # of which no number of copies is a model
        near = np.isclose(trained["ratio"], ratio) & (trained["p"].values == p)
        models = trained.isel(end=-1, model=near)
        models = models.isel(model=np.isfinite(models["loss"].values))
        losses = [f"{n}: {mean(one['loss']).value:.4g}" for n, one in models.groupby("n_features")]
        rows.append((f"{p:g}", f"{ratio:g}", ", ".join(losses), f"{above_copies(models):+.1%}"))
    n, p, ratio = (float(longer[name][0]) for name in ("n_features", "p", "ratio"))
    same = (trained["n_features"] == n) & (trained["p"] == p) & np.isclose(trained["ratio"], ratio)
    there = trained.isel(model=np.flatnonzero(same))
    before, after = (mean(ds["loss"].isel(end=-1).values) for ds in (there, longer))
    text = (
        f"{_ends(trained)}. More steps change little: for {n:g} features at p = {p:g}, ratio {ratio:g} the "
        f"loss is {before:.4g} after {trained.attrs['steps']} steps and {after:.4g} after "
        f"{longer.attrs['steps']}."
    )
    table = Table(
        "What large models miss: copies of small ones",
        ("p", "ratio", "n_features: mean loss", "best of the largest over copies of the best other"),
        rows,
        f"Losses after {trained.attrs['steps']} steps. Last column: less 1; its interval, {LEVEL:.0%}, "
        "covers the errors of all losses together, so that the best may be picked. Above 0 no model of the "
        "largest size is optimal, whatever its structure.",
    )
    return TopicContent(text, tables=[table])


def _show_symmetry(trained: xr.Dataset, pair: xr.Dataset) -> TopicContent:
    cells, rows = by_cell(trained), []
    for p, ratio in CELLS:
        for end in cells["end"].values:
            at = cells[[*STATISTICS]].sel(p=p, ratio=ratio, end=end).dropna("n_features", how="all")
            for small, large in pairwise(at["n_features"].values):
                if at["lyapunov_max"].sel(n_features=[small, large]).notnull().all("n_features").sum() < 2:
                    continue  # fewer than two seeds have both sizes
                found = [f"{change(at[name], small, large):.2f}" for name in STATISTICS]
                rows.append((f"{p:g}", f"{ratio:g}", end, f"{small} to {large}", *found))
    text = (
        f"{_ends(trained)}. At ratio 1/2 the best model that is known is made of pairs, copies of one model "
        "of two features and one neuron. Its properties are computed without training and do not depend on "
        "n_features."
    )
    title = "Figs. 4-7: does symmetry emerge as models grow?"
    caption = (
        f"Stored models, means over seeds; {INTERVALS[0].lower()}{INTERVALS[1:]}. Open and dotted at the "
        "stopping rule of the source, filled after the further phase."
    )
    panels = [
        partial(plot_symmetry, name=name, label=label, legend=name == "diagonal_sd")
        for name, label in STATISTICS.items()
    ]
    figure = Figure("symmetry", title, caption, trained, panels, size=(4.2, 3.3))
    factors = Table(
        "Does symmetry emerge? Factors from one size to its double",
        ("p", "ratio ≈", "end", "n_features", *STATISTICS.values()),
        rows,
        f"Ratios of geometric means. {INTERVALS}. For Gaussian rows the Lyapunov ratio changes by a factor "
        "of 0.71.",
    )
    columns = {
        "p": "{p:g}",
        "loss / rug at ratio 1/2": "{relative_loss:.4f}",
        "s.d. of the diagonal": "{diagonal_sd:.2g}",
        "s.d. of the bias": "{bias_sd:.2g}",
        "s.d. / mean of row variances": "{row_variance_spread:.4f}",
        "gradient": "{gradient_norm:.0e}",
    }
    caption = "The exact loss minimised from many starts; the same for any number of such pairs."
    optimum = Table.formatted("The optimum of two features on one neuron", pair, columns, caption)
    return TopicContent(text, [figure], [factors, optimum])


def _show_structure(ds: xr.Dataset) -> TopicContent:
    size = f"n_features = {int(ds['n_features'][0])}, trained in this run"
    caption = (
        f"{size}, at the last end: features in pairs, in larger blocks, left out, or in a noise-like "
        "remainder as in the rug."
    )
    shown = ds.drop_vars(("W_out", "W_in", "bias"))
    figure = Figure("shares", "What codes trained models use", caption, shown, plot_shares, size=(5.2, 3.8))
    table = Table.formatted(
        "The codes of trained models",
        ds[[*SHARES, "p", "ratio", "seed", "excess", "skew", "kurtosis"]],
        {
            **WHERE,
            "seed": "{seed}",
            "end": "{end}",
            "loss / rug - 1": "{excess:+.1%}",
            **_SHARES,
            "skew of pairs": "{skew:.2f}",
            "excess kurtosis": "{kurtosis:.2f}",
        },
        f"{size}; losses are exact, without samples. Skew: median over pairs of the larger of -M_ij, -M_ji; "
        "3 is best for small p. Excess kurtosis of the interference, exact: median over rows.",
    )
    return TopicContent("", [figure], [table])


def _show_saddle(hessian: xr.Dataset, departure: xr.Dataset, polished: xr.Dataset) -> TopicContent:
    share = hessian["negative"] / hessian["modes"]
    many = ", ".join(str(n) for n in hessian["n_features"].values)
    title = "The rug is a saddle: least curvature of the exact loss"
    caption = (
        "Minus the curvature in units of p, for steps of unit length on matrices of the rug's rank. Dashed: "
        "the rate at which interference becomes normal."
    )
    figure = Figure("curvature", title, caption, hessian, runs.plot_curvature, size=(5.2, 3.6))
    columns = {
        **WHERE,
        "n_features": "{n_features}",
        "loss / macroscopic": "{relative_loss:.3f}",
        "least curvature / p": "{lowest:+.4f} ± {error:.0e}",
        "negative": "{negative} of {modes}",
        "least, all features alike": "{symmetric:+.4f}",
        "on the diagonal": "{diagonal_share:.2f}",
        "on the bias": "{bias_share:.2f}",
        "antisymmetric": "{skew_share:.2f}",
    }
    caption = (
        "At the critical point near a random rug, which has the least loss among matrices that depend on i "
        "XOR j alone, near it. ± bound of the numerical error. Steps on matrices of rank n_hidden and "
        "biases, of unit length; the last three columns are shares of the squared length of the step of "
        "least curvature."
    )
    curvatures = Table.formatted("Exact Hessian at the rug", hessian, columns, caption)
    columns = {
        **WHERE,
        "loss at the rug": "{start:.3f}",
        "at the end": "{end:.3f}",
        "change of M": "{moved:.2f}",
        **_SHARES,
        "largest off-diagonal": "{largest:.2f}",
        "slope / p": "{slope:.1e}",
    }
    caption = (
        f"n_features = {departure.attrs['n_features']}. Weights of the critical point near the rug, each "
        f"moved by a normal number of standard deviation {departure.attrs['kick']:g}, then L-BFGS on the "
        "exact loss. Losses in units of the macroscopic rug's. `largest off-diagonal` is the largest "
        "|M_ij| with i != j."
    )
    stays = Table.formatted("Started at the rug, does it stay?", departure, columns, caption)
    ends = Table.formatted(
        "Trained models on the exact loss",
        polished.assign({name: polished[name] / polished["optimum"] for name in ("before", "after")}),
        {
            **WHERE,
            "n_features": "{n_features}",
            "trained": "{before:.5f}",
            "polished": "{after:.5f}",
            "slope / p": "{slope:.1e}",
            "least curvature / p": "{lowest:+.1e} ± {lowest_error:.0e}",
            "negative": "{negative}",
            **_SHARES,
        },
        "Exact losses in units of the macroscopic rug's. Without a slope, and without negative curvature "
        "beyond its error, a model is at a local minimum. One that still has a slope was stopped on its way: "
        "its losses and codes are the same on another processor, its curvatures are not.",
    )
    headline = (
        f"The Persian rug is a saddle: at n_features = {many}, {float(share.min()):.0%} to "
        f"{float(share.max()):.0%} of the curvatures of the exact loss are negative."
    )
    return TopicContent("", [figure], [curvatures, stays, ends], headline)


CHANCES, HALVES = {"p": [0.01, 0.05, 0.1, 0.4], "ratio": [0.125, 0.25, 0.5, 0.75]}, [(0.1, 0.5), (0.4, 0.5)]
FEW = [(0.05, 0.25), (0.05, 0.5), (0.1, 0.5), (0.4, 0.25), (0.4, 0.5)]
QUICK: dict[str, dict[str, Any]] = {
    "structure": {"n_features": 32, "p": [0.05, 0.4], "ratio": [0.25, 0.5], "seeds": range(1), "steps": 600},
    "hessian": {"cases": CASES, "n_features": [8, 16, 32]},
    "departure": {"n_features": 16, "cases": HALVES, "steps": 30},
}
FULL: dict[str, dict[str, Any]] = {
    "structure": {"n_features": 64, **CHANCES, "seeds": range(3), "steps": 8000},
    "hessian": {"cases": CASES, "n_features": [16, 32, 64, 128]},
    "departure": {"n_features": 32, "cases": FEW, "steps": 400},
}
LARGE = {"where": {**TRAINED, "n_features": list(SIZES)}}
LATER = {"where": {"schedule": "converged", "steps": 16_000}}
PUBLISHED = {"where": {"experiment": "training.published"}}
FIG3 = {"where": {"schedule": "both", "steps": 4000}}
LONGER = {"where": {"schedule": "converged", "steps": 40_000}}
PAIR = {"p": [0.01, 0.05, 0.1]}
POLISHED: dict[str, Any] = {"n_features": 64, "p": [0.05, 0.1, 0.4], "ratio": [0.25, 0.5], "seeds": [0]}
POLISHED |= {"train_steps": 8000, "steps": 600}
ENDS = ["optimum", "before", "after", "rank", "paired", "dropped"]
SECTION = Section(
    "codes",
    "Structured codes and the symmetry of trained weights",
    TEXT,
    # What runs for minutes and depends on nothing of a run is stored.
    {
        "symmetry": Run(run_stored),
        "large": Run(run_stored, LARGE, LARGE),
        "later": Run(run_stored, LATER, LATER),
        "published": Run(run_stored, PUBLISHED, PUBLISHED),
        "fig3": Run(run_stored, FIG3, FIG3),
        "longer": Run(run_stored, LONGER, LONGER),
        "known": Run(runs.run_known, seconds=2),
        "lines": Run.shipped(
            "codes_lines", "the best blocks at any p", run_lines, seconds=1800.0, check=_NODES
        ),
        "envelope": Run(run_envelope, {"size": 64}, {"size": 64}, seconds=2),
        "polished": Run.shipped(
            "codes_polished",
            "exact descent and Hessian",
            runs.run_polished,
            POLISHED,
            torch=True,
            check=ReproductionCheck({"p": [0.4], "ratio": [0.5]}, ENDS, 1e-3, STOPPED),
        ),
        "pair": Run(runs.run_pair, PAIR, PAIR),
        "structure": Run(runs.run_structure, QUICK["structure"], FULL["structure"], torch=True, seconds=25),
        "hessian": Run(runs.run_hessian, QUICK["hessian"], FULL["hessian"], seconds=8),
        "departure": Run(runs.run_departure, QUICK["departure"], FULL["departure"], seconds=8),
    },
    [
        Topic("map", ["symmetry", "known", "envelope"], _show_map, claims=["C27"]),
        Topic("copies", ["symmetry", "longer"], _show_copies),
        Topic(
            "symmetry",
            ["symmetry", "pair"],
            _show_symmetry,
            claims=["C28", "C29", "C30", "C31", "C33", "C34"],
        ),
        Topic("structure", ["structure"], _show_structure),
        Topic("saddle", ["hessian", "departure", "polished"], _show_saddle),
    ],
)
