"""The codes that trained models use: features in pairs, in blocks, left out, or in a noise-like remainder."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ...training import grid, train
from ..drawing import finish_axes, plot_function
from .structure import CASE_COLUMNS, SHARE_COLUMNS, SHARES, code_shares, interference_kurtosis
from .symmetry import symmetry


@as_annotated
def run_structure(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    schedule: str = "both",
    steps: int = 4000,
    device: str = "auto",
) -> xr.Dataset:
    """Train models for all p × ratio × seeds; return which features are alone, in pairs or in blocks.

    `schedule` says where training ends: at a "stopping rule" ("paper"), "converged" after `steps` steps of
    falling learning rate, or at "both" in turn. `schedule`, `steps` and `device` are settings of
    `superposition.validate.training.train`.

    Returns
    -------
    xarray.Dataset
        Of (model) sizes, of (end, model) losses and weight statistics, as from `symmetry` but with exact
        losses and their errors. Of (end, model) also: the shares of the features that are ``dropped``,
        ``alone``, ``paired``, in larger blocks (``blocked``) or in none (``remainder``), and ``skew``, how
        uneven the pairs are (`CodeStructure`); ``kurtosis`` (median over rows of the exact excess kurtosis of
        the interference); the weights ``W_out``, ``W_in``, ``bias``.
    """
    n_hidden, ps, all_seeds = grid(n_features, p, ratio, seeds)
    settings: dict[str, Any] = {"schedule": schedule, "steps": steps, "device": device, "keep_weights": True}
    # Two samples: losses are computed below, from the weights.
    trained = train(n_features, n_hidden, ps, all_seeds, evaluation_samples=2, **settings)
    weights = trained[["W_out", "W_in", "bias"]].astype(float)
    rows = []
    for end, model in np.ndindex(trained.sizes["end"], ps.size):
        model_weights, model_p = weights.isel(end=end, model=model), float(ps[model])
        M = model_weights["W_out"].values @ model_weights["W_in"].values
        exact = solvers.exact_loss(M, model_weights["bias"].values, model_p, tol=1e-6)
        losses = {"loss": exact.loss, "loss_se": exact.error_estimate}
        rows.append({**code_shares(M), "kurtosis": np.median(interference_kurtosis(M, model_p)), **losses})
    columns = from_rows(rows, end=trained.sizes["end"], model=-1)
    return xr.merge([symmetry(trained.assign(columns)), trained[list(weights)]]).assign(columns)


@plot_function
def plot_shares(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw for each model a bar of the shares of its features alone, in pairs, in blocks and so on.

    `ds` is from `run_structure`; models are those at the last end of training.
    """
    last_end = ds.isel(end=-1)
    start = np.zeros(last_end.sizes["model"])
    rows = np.arange(last_end.sizes["model"])
    for k, name in enumerate(SHARES):
        ax.barh(rows, last_end[name], left=start, color=f"C{k}", label=name)
        start += last_end[name].values
    names = [f"{p:g}, {r:g}" for p, r in zip(last_end["p"].values, last_end["ratio"].values, strict=True)]
    ax.set_yticks(rows, names, fontsize=7)
    ax.invert_yaxis()
    above = {"fontsize": 7, "ncols": 3, "loc": "lower left", "bbox_to_anchor": (0, 1)}
    return finish_axes(ax, above, xlabel="share of the features", ylabel="p, ratio", xlim=(0, 1))


def _show_structure(ds: xr.Dataset) -> TopicContent:
    """Return figure and table of the report's part "structure", from `ds` of `run_structure`.

    Figure and table have the shares of each trained model's features alone, in pairs, in blocks, dropped or
    in none of these. The table also has the loss over the random code's, less 1, the skew of pairs and the
    kurtosis.
    """
    size = f"n_features = {int(ds['n_features'][0])}, trained in this run"
    caption = (
        f"{size}, at the last end: features in pairs, in larger blocks, left out, or in a noise-like "
        "remainder as in the rug."
    )
    shares = ds.drop_vars(("W_out", "W_in", "bias"))
    figure = Figure("shares", "What codes trained models use", caption, shares, plot_shares, size=(5.2, 3.8))
    table = Table.formatted(
        "The codes of trained models",
        ds[[*SHARES, "p", "ratio", "seed", "excess", "skew", "kurtosis"]],
        {
            **CASE_COLUMNS,
            "seed": "{seed}",
            "end": "{end}",
            "loss / rug - 1": "{excess:+.1%}",
            **SHARE_COLUMNS,
            "skew of pairs": "{skew:.2f}",
            "excess kurtosis": "{kurtosis:.2f}",
        },
        f"{size}; losses are exact, without samples. Skew: median over pairs of the larger of -M_ij, -M_ji; "
        "3 is best for small p. Excess kurtosis of the interference, exact: median over rows.",
    )
    return TopicContent("", [figure], [table])


RUNS = {
    "structure": Run(
        run_structure,
        {"n_features": 32, "p": [0.05, 0.4], "ratio": [0.25, 0.5], "seeds": range(1), "steps": 600},
        {
            "n_features": 64,
            "p": [0.01, 0.05, 0.1, 0.4],
            "ratio": [0.125, 0.25, 0.5, 0.75],
            "seeds": range(3),
            "steps": 8000,
        },
        torch=True,
        seconds=25,
    )
}
TOPICS = [Topic("structure", ["structure"], _show_structure)]
