"""What the phase diagrams of two features in one dimension say: text, figures, tables."""

from functools import partial

import numpy as np
import xarray as xr

from ...solvers.relu import PHASES
from ...theory.relu import onset_importance
from ..experiment import Figure, Table
from .phases import MODELS, phases_figure, plot_pattern_excess

__all__ = ["Part", "listed", "percent", "phases_part"]

Part = tuple[str, list[Figure], list[Table]]


def listed(words: list[str]) -> str:
    """Join words with commas."""
    return ", ".join(words) if words else "none"


def percent(value: float) -> str:
    """Write a share as a percentage with three digits."""
    return f"{100 * value:.3g}%"


def phases_part(ds: xr.Dataset) -> Part:
    """Return text, figures and tables of `run_phases`."""
    said = ["Two features in one dimension."]
    for model, name in enumerate(MODELS):
        one = ds.isel(model=model)
        cells = one["phase"].size
        counts = [(PHASES[k], int((one["phase"] == k).sum())) for k in range(len(PHASES))]
        never = [phase for phase, count in counts if count == 0]
        said.append(
            f"With {name}, on a grid of {cells} cells: "
            + listed([f"{phase} in {percent(count / cells)}" for phase, count in counts if count])
            + (f"; nowhere: {listed(never)}. " if never else ". ")
            + "For features of equal importance an antipodal pair of equal norms is best up to p = "
            f"{float(one['symmetric_until']):.4f}."
        )
        excess = one["pattern_loss"] / one["loss"] - 1.0
        differs = float((one["pattern"] != one["phase"]).mean())
        said.append(
            "The best of four patterns picked by hand with fixed biases names "
            f"another phase in {percent(differs)} of the cells, and its loss is up to "
            f"{percent(float(excess.max()))} above the least."
        )
    said.append(_kinds(ds))
    figures = [
        phases_figure(ds),
        Figure(
            "patterns",
            "What is missed by comparing patterns picked by hand",
            "Loss of the best of four patterns, encodings (1, 0), (0, 1), (1, -1) and (1, 1) with fixed "
            "biases, above the least loss. Hatched: where it belongs to another phase.",
            ds,
            (partial(plot_pattern_excess, model=0), partial(plot_pattern_excess, model=1)),
        ),
    ]
    return " ".join(said), figures, [_transition_table(ds), _certificate_table(ds)]


def _kinds(ds: xr.Dataset) -> str:
    """Say where a dropped feature enters continuously, and compare with the closed form."""
    mine = ds.isel(transition=(ds["transition_model"].values == 0))
    enters = (mine["before"].values == 0) & (mine["after"].values == 2)
    smooth = enters & ~mine["is_jump"].values
    p = mine["transition_p"].values
    inside = (mine["before"].values == mine["after"].values) & mine["is_jump"].values
    text = (
        f"With free biases the transition into superposition was located at {int(enters.sum())} values of p: "
        f"{int((enters & ~smooth).sum())} are jumps."
    )
    if smooth.any():
        exact = onset_importance(p[smooth], -1)
        off = np.max(np.abs(mine["transition_importance"].values[smooth] / exact - 1.0))
        text += (
            f" From p = {p[smooth].min():.2f} to {p[smooth].max():.2f} the dropped feature enters "
            f"continuously, where the closed form has it to {off:.0e}."
        )
    if inside.any():
        text += (
            f" Within the antipodal phase the encodings jump at {int(inside.sum())} values of p from "
            f"{p[inside].min():.2f} on, from a weakly stored second feature to a strongly stored one, or, at "
            "equal importances, as the features exchange their roles."
        )
    return text


def _transition_table(ds: xr.Dataset) -> Table:
    rows = []
    for k in range(ds.sizes["transition"]):
        one = ds.isel(transition=k)
        p, importance = float(one["transition_p"]), float(one["transition_importance"])
        rows.append(
            [
                MODELS[int(one["transition_model"])],
                f"{p:.4f}",
                f"{importance:.6f}",
                f"{PHASES[int(one['before'])]} → {PHASES[int(one['after'])]}",
                f"jump by {float(one['jump']):.3f}" if one["is_jump"] else "continuous",
            ]
        )
    return Table(
        "Transitions of two features in one dimension",
        ("model", "p", "importance", "phases", "kind"),
        rows,
        "As the importance of the second feature grows up to 1; above 1 the features exchange their roles. A "
        "jump is the largest step of an encoding's absolute value.",
    )


def _certificate_table(ds: xr.Dataset) -> Table:
    rows = []
    for model, name in enumerate(MODELS):
        for k in range(ds.sizes["point"]):
            one = ds.isel(model=model, point=k)
            loss, lower = float(one["point_loss"]), float(one["point_lower"])
            rows.append(
                [
                    name,
                    f"{float(one['point_p']):g}",
                    f"{float(one['point_importance']):g}",
                    f"{loss:.6g}",
                    f"{lower:.6g}",
                    percent(1.0 - lower / loss),
                    int(one["point_boxes"]),
                ]
            )
    return Table(
        "Certificates",
        ("model", "p", "importance", "least loss found", "proven lower bound", "gap", "boxes"),
        rows,
        f"Branch and bound over all models, stopped at a relative gap of {ds.attrs['gap']:g}.",
    )
