"""The part of the report on sparse autoencoders of known features."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....theory.validation import choice
from ...runner.declarations import Figure, Run, Section, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, Finding, derived, rounding
from ..drawing import finish_axes, plot_function
from .runs import BESIDE, NEAR, run_hedging, run_pairs, run_reached

__all__ = ["SECTION", "plot_hedging", "plot_pairs", "plot_reached"]

TEXT = r"""
Does the objective of a sparse autoencoder want the true features? Here the features are known, binary and in
orthonormal directions, the objective is the squared error plus an l1 penalty, without decoder bias, and its
expectation is exact, so that the optimum is compared with closed forms and not a run with a run. One latent
on a parent and its child mixes them. Two latents on two features that are alike tilt towards each other, or
one of them stands for both features. And decoders that know features and dictionary say what a score is
worth.
"""
# A legend above the axes, where it hides no point.
_ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "fontsize": 8, "frameon": False}
LOWER = Criterion("better of the two families less the lower bound", ">=", derived(0))
UPPER = Criterion("the same less the upper bound", "<=", rounding(1e-12))
_AXES = {
    "f1": "F1, mean over features",
    "mse": "squared error",
    "explained_variance": "explained variance",
}
# A decoder's encoder is told by its line, and its thresholds by their colour: 5 and 3 names in place of 13.
_LINES = {
    "dictionary encoder": ":",
    "linear encoder": "-.",
    "logistic encoder": (0, (3, 1, 1, 1, 1, 1)),
    "trained encoder": "-",
    "pursuit": "--",
}
_THRESHOLDS = {
    "common threshold": "#0072B2",
    "thresholds for F1": "#D55E00",
    "thresholds for error": "#009E73",
}


@plot_function
def plot_hedging(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the angle of the best latent against the penalty: closed form and searches; of `run_hedging`."""
    for k, both in enumerate(ds["both"].values):
        at = ds.sel(both=both)
        ax.plot(ds["l1"], at["angle"], "-", color=f"C{k + 1}", label=f"both on: {both:g}")
        ax.plot(ds["l1"], at["found"], "o", color=f"C{k + 1}", ms=4)
    return finish_axes(ax, xlabel="l1 strength", ylabel="angle from the parent, degrees")


@plot_function
def plot_pairs(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw which pairs of latents are best, and the boundary in closed form; of `run_pairs`."""
    ratio, l1 = (one.ravel() for one in np.meshgrid(ds["ratio"], ds["l1"], indexing="ij"))
    told = ds["phase"].transpose("ratio", "l1").values.ravel()
    for k, name in enumerate(sorted(set(told))):
        here = told == name
        ax.plot(l1[here], ratio[here], "os^vD"[k % 5], color=f"C{k + 1}", label=str(name))
    ax.plot(ds["l1"], ds["boundary"], "k-", label="boundary, closed form")
    ax.fill_between(ds["l1"], ds["low"], ds["high"], color="0.85", label="between certificates")
    finish_axes(ax, _ABOVE, yscale="log", xlabel="l1 strength", ylabel="P(both) / P(one alone)")
    ax.set_yticks(ds["ratio"].values, [f"{one:g}" for one in ds["ratio"].values])
    ax.minorticks_off()
    return ax


@plot_function
def plot_reached(ds: xr.Dataset, ax: Axes, what: str = "f1") -> Axes:
    """Draw F1, "mse" or "explained_variance" against L0 for decoders that know the dictionary."""
    choice("what", what, tuple(_AXES))
    for name in ds["decoder"].values.astype(str):
        at = ds.sel(decoder=name)
        encoder, comma, thresholds = name.partition(", ")
        bars = at[f"{what}_error"] if f"{what}_error" in ds else None
        dash, colour = _LINES[encoder + " encoder" * bool(comma)], _THRESHOLDS.get(thresholds, "black")
        ax.errorbar(at["l0"], at[what], bars, fmt=".", linestyle=dash, color=colour, ms=4)
    for label, dash in _LINES.items():
        ax.plot([], [], linestyle=dash, color="black", label=label)
    for label, colour in _THRESHOLDS.items():
        ax.plot([], [], ".-", color=colour, label=label)
    return finish_axes(ax, _ABOVE, xlabel="expected L0", ylabel=_AXES[what])


def _show_hedging(ds: xr.Dataset) -> TopicContent:
    off = float(np.abs(ds["found"] - ds["angle"]).max())
    least, most = float(ds["angle"].min()), float(ds["angle"].max())
    text = (
        f"A parent is on alone with probability {ds.attrs['parent']:g}, together with its child with "
        "those in the figure. The best single latent is at an angle from the parent that solves a "
        "quartic equation: the slope of the objective "
        "at the parent's direction is negative for every penalty, so that the best latent always mixes. On "
        f"this grid the angle is between {least:.3g} and {most:.3g} degrees; from one penalty to the next it "
        f"rises by {span(ds['angle'].diff('l1'), '.2g')} degrees. The best of {ds.attrs['starts']} starts, "
        f"encoder, decoder and bias free, is within {off:.1g} degrees of it, and its objective "
        f"within {float(np.abs(ds['excess']).max()):.0e} of the one in closed form."
    )
    caption = "Lines: closed form. Dots: the best of a search over all weights and the latent's bias."
    return TopicContent(text, [Figure("hedging", "One latent has to hedge", caption, ds, plot_hedging)])


def judge_pairs(ds: xr.Dataset) -> list[Finding]:
    """Return whether the better family lies between the bounds; of `run_pairs`."""
    best = np.minimum(ds["tilted"], ds["absorbing"])
    return [
        LOWER.finding(best - ds["bound"], kind="bound searched"),
        UPPER.finding(best - ds["value"], kind="bound searched"),
    ]


def _show_pairs(ds: xr.Dataset) -> TopicContent:
    best = np.minimum(ds["tilted"], ds["absorbing"])
    off = float(np.abs(ds["found"] / best - 1).max())
    agree = ((ds["absorbing"] < ds["tilted"]) == (ds["phase"] == "absorbs")).values
    above = float((ds["true"] / best - 1).min())
    there, kept = ds["boundary"].notnull(), (ds["low"].notnull(), ds["high"].notnull())
    text = (
        f"Two binary features, each alone with probability {ds.attrs['alone']:g}. Two families of one angle: "
        "both atoms tilt towards each other, or one stays and the other stands for both features, and the "
        "first latent is off where both are on. A branch and bound over both angles and all encoders (gap "
        f"{ds.attrs['gap']:g}) brackets the better of the two. Searches end within {off:.0e} of it, and are "
        f"in the phase that the closed forms predict at {int(agree.sum())} of {agree.size} places. The true "
        f"dictionary is optimal at none: its objective is at least {above:.2g} of the best one above it. The "
        f"boundary between both is on the map at {int(there.sum())} strengths. At a ratio {BESIDE:g} times "
        f"smaller, branch and bound over pairs with an atom within {NEAR:g} of a feature's direction "
        f"certifies at {int(kept[0].sum())} of them that these are worse; at one as much larger, over all "
        f"other pairs, at {int(kept[1].sum())}."
    )
    table = Table.formatted(
        "Objectives over that of rebuilding nothing",
        ds[["tilted", "absorbing", "true", "bound", "found", "phase"]],
        {
            "P(both) / P(one)": "{ratio:g}",
            "l1": "{l1:g}",
            "tilted": "{tilted:.5f}",
            "one for both": "{absorbing:.5f}",
            "true dictionary": "{true:.5f}",
            "floor": "{bound:.5f}",
            "found": "{found:.5f}",
            "phase": "{phase}",
        },
        "The floor is that of all encoders; rounding errors are not included.",
    )
    caption = (
        "Markers: the best autoencoder found; a cosine below 0.02 with the other feature counts as "
        "recovered. Line: where the two closed forms are equal; grey: between places where it is certified "
        "which is better."
    )
    figure = Figure("pairs", "Two latents tilt, or one stands for both", caption, ds, plot_pairs)
    return TopicContent(
        text,
        [figure],
        [table],
        "With an l1 penalty, the true dictionary of two binary features that are ever on together is never "
        "the best pair of latents: atoms tilt, or one stands for both.",
    )


def _show_reached(ds: xr.Dataset) -> TopicContent:
    one, pursuit = ds["f1"].drop_sel(decoder="pursuit"), ds["f1"].sel(decoder="pursuit")
    best = one.isel(one.argmax(...))
    text = (
        f"{ds.attrs['n_features']} features, on with probability {ds.attrs['p']:g} and uniform then, in "
        f"{ds.attrs['n_hidden']} dimensions with random unit directions. Of encoders that know law and "
        f"dictionary the best has a mean F1 of {float(best):.3f} ({best['decoder'].item()}, at "
        f"{float(best['share']):g} times as many latents on as features); matching pursuit has up to "
        f"{float(pursuit.max()):.3f}. The advantage of pursuit takes more than one step: these "
        "encoders cannot have it, however they are trained. It is not proved that no other encoder "
        "of one step does better."
    )
    caption = f"Means over {ds.attrs['samples']} samples, ± 1 SE; thresholds were fitted to other samples."
    return TopicContent(
        text, [Figure("reached", "What knowing the dictionary gives", caption, ds, plot_reached)]
    )


SECTION = Section(
    "sae",
    "Sparse autoencoders",
    TEXT,
    {
        "hedging": Run(run_hedging, full={"starts": 20}, seconds=3.0),
        "pairs": Run(
            run_pairs,
            full={
                "l1": tuple(round(0.1 * k, 1) for k in range(1, 17)),
                "ratio": (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0),
                "gap": 3e-4,
                "starts": 20,
            },
            seconds=8.0,
        ),
        "reached": Run(
            run_reached,
            full={"n_features": 512, "n_hidden": 128, "p": 0.02, "samples": 20_000},
            seconds=4.0,
        ),
    },
    [
        Topic("hedging", ["hedging"], _show_hedging, claims=["S1", "S2"]),
        Topic("pairs", ["pairs"], _show_pairs, claims=["S3"], judge=judge_pairs),
        Topic("reached", ["reached"], _show_reached),
    ],
)
