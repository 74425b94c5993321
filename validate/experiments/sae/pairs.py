"""The best pair of latents for two equal features: both tilt, or one atom serves both features."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.optimize import brentq

from ....solvers.sae import AutoencoderObjective, best_autoencoder, best_pair, measure, phase
from ....theory import sae as theory
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows
from ...runner.findings import Criterion, Finding, derived, rounding
from ..drawing import LEGEND_ABOVE, finish_axes, plot_function

LOWER = Criterion("better of the two families less the lower bound", ">=", derived(0))
UPPER = Criterion("the same less the upper bound", "<=", rounding(1e-12))

# P(both) / P(one alone) between which the boundary of the phases is looked for.
LEAST_RATIO = 1e-3
LARGEST_RATIO = 1e3
# Certificates are sought at the boundary's ratio times and over this factor.
CERTIFIED_FACTOR = 1.1
# Angle, in radians, from which an atom counts as turned away from a feature's direction.
TURNED_ANGLE = 0.1
# Gap of the branch and bound that certifies, as a share of what the families differ by, and at least.
GAP_SHARE = 0.12
LEAST_GAP = 1e-9


def binary_pair_law(first: float, second: float, both: float) -> Features:
    """Return the law of two binary features: P(first alone), P(second alone), P(both on)."""
    chances = [max(1.0 - first - second - both, 0.0), first, second, both]
    return Features(2, 0.5, "binary", groups=[([0, 1], [[0, 0], [1, 0], [0, 1], [1, 1]], chances)])


def _family_objectives(alone: float, both: float, l1: float) -> tuple[float, float]:
    """Return the least l1 objectives of pairs of latents that (tilt, absorb), for two equal features.

    The objective is the mean of |error|^2 + l1 |latents|_1. `alone` is the probability that a given feature
    is on alone, `both` that both are on. If a pair tilts, each atom lies between a feature and the other one.
    If it absorbs, one atom has a feature's direction, and the other represents both the other feature and the
    two at once (`theory.sae.absorbing_pair`).
    """
    tilted_loss = theory.tilted_pair(alone, both, l1)[1]
    return tilted_loss, theory.absorbing_pair(alone, alone, both, l1)[1]


@as_annotated
def run_pairs(
    l1: Sequence[float] = (0.1, 0.3, 0.6, 1.0, 1.4),
    ratio: Sequence[float] = (0.2, 0.5, 1.0, 2.0, 5.0),
    alone: float = 0.1,
    *,
    gap: float = 1e-3,
    starts: int = 6,
    seed: int = 0,
) -> xr.Dataset:
    """Return objectives of pairs of latents for two binary features: closed forms, lower bound, search.

    Parameters
    ----------
    l1 : sequence of float
        Strengths of the penalty, in (0, 2).
    ratio : sequence of float
        P(both features on) / P(a given feature on alone).
    alone : float
        Probability that a given feature is on alone.
    gap : float
        Largest gap between certified lower bound and objective, as a share of the error of rebuilding
        nothing.
    starts, seed : int
        Random starts of each search, and their seed.

    Returns
    -------
    xarray.Dataset
        Of (ratio, l1), objectives over that of rebuilding nothing: closed forms of pairs that tilt
        (``tilted``), of pairs of which one atom absorbs (``absorbing``), and of the true dictionary
        (``true``); ``lower_bound`` and ``value`` of the branch and bound; ``found`` by the search, with the
        ``phase`` of that autoencoder. Of (l1): ``boundary``, the ratio above which absorbing is better, nan
        if there is none; ``low``, a ratio below it at which branch and bound certifies that both atoms of the
        best pair tilt, and ``high``, one above it at which it certifies that they do not; nan without
        certificate.

    Examples
    --------
    >>> ds = run_pairs([1.0], [0.5])
    >>> ds["phase"].item()
    'hedges'
    """
    rows = []
    for r, strength in itertools.product(ratio, l1):
        q, q12 = float(alone), float(r) * float(alone)
        nothing = 2.0 * q + 2.0 * q12
        certified = best_pair(q, q, q12, strength, gap=gap)
        law = binary_pair_law(q, q, q12)
        objective = AutoencoderObjective(law, np.eye(2), l1=strength)
        best = best_autoencoder(objective, 2, decoder_bias=False, starts=starts, rng=seed)
        tilted_loss, absorbing = _family_objectives(q, q12, strength)
        values = {
            "tilted": tilted_loss,
            "absorbing": absorbing,
            "true": theory.true_pair_loss(q, q, q12, strength),
            "lower_bound": certified.lower_bound,
            "value": certified.value,
            "found": best.value,
        }
        relative = {name: value / nothing for name, value in values.items()}
        rows.append({**relative, "phase": phase(measure(best.sae, law))})
    ds = from_rows(rows, ratio=list(ratio), l1=list(l1))
    boundary = np.array([_boundary_ratio(float(alone), float(strength)) for strength in l1])
    ds["boundary"] = ("l1", boundary)
    for name, factor in (("low", 1.0 / CERTIFIED_FACTOR), ("high", CERTIFIED_FACTOR)):
        is_certified = [
            _is_certified(float(alone), r, float(strength))
            for r, strength in zip(factor * boundary, l1, strict=True)
        ]
        ds[name] = ("l1", np.where(is_certified, factor * boundary, np.nan))
    return ds.assign_attrs(alone=float(alone), gap=float(gap), starts=int(starts))


def _boundary_ratio(alone: float, l1: float) -> float:
    """Return the P(both)/P(one alone) above which absorbing is better than tilting; nan if there is none.

    Pairs of latents for two features tilt or absorb as for `_family_objectives`, and compared are their least
    objectives; `alone` is P(one alone), `l1` the strength of the penalty.
    """

    def advantage(ratio: float) -> float:
        """Return (least objective of tilted pairs) - (least objective of absorbing pairs) at this `ratio`."""
        tilted_loss, absorbing = _family_objectives(alone, ratio * alone, l1)
        return tilted_loss - absorbing

    low, high = LEAST_RATIO, min(LARGEST_RATIO, (1.0 - 2.0 * alone) / alone)
    if high <= low or advantage(high) <= 0.0:
        return math.nan
    return low if advantage(low) > 0.0 else float(brentq(advantage, low, high))


def _is_certified(alone: float, ratio: float, l1: float) -> bool:
    """Return whether a branch and bound proves which kind of pairs of latents is better at `ratio`.

    In one kind both atoms are more than 0.1 radians from both features' directions, as if they tilt; all
    other pairs are of the other kind, such as those of which one atom absorbs. The proof shows that all pairs
    of the kind that is worse in closed form cost more than the better kind's least objective. `ratio` is
    P(both)/P(one alone), `alone` is P(one alone), `l1` the strength of the penalty. False too if the ratio is
    nan or gives probabilities above 1, or the proof takes too many boxes.
    """
    both = ratio * alone
    if not 0.0 < both <= 1.0 - 2.0 * alone:
        return False
    tilted_loss, absorbing = _family_objectives(alone, both, l1)
    gap = max(GAP_SHARE * abs(tilted_loss - absorbing) / (2.0 * alone + 2.0 * both), LEAST_GAP)
    kind = "along" if tilted_loss < absorbing else "turned"
    try:
        worse = best_pair(alone, alone, both, l1, gap=gap, kind=kind, near=TURNED_ANGLE)
    except ValueError:  # too many boxes
        return False
    return worse.lower_bound > min(tilted_loss, absorbing)


@plot_function
def plot_pairs(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the kind of the best pair of latents over (l1, P(both)/P(one)), and the boundary in closed form.

    `ds` is from `run_pairs`.
    """
    ratio, l1 = (grid.ravel() for grid in np.meshgrid(ds["ratio"], ds["l1"], indexing="ij"))
    phases = ds["phase"].transpose("ratio", "l1").values.ravel()
    for k, name in enumerate(sorted(set(phases))):
        has_phase = phases == name
        ax.plot(l1[has_phase], ratio[has_phase], "os^vD"[k % 5], color=f"C{k + 1}", label=str(name))
    ax.plot(ds["l1"], ds["boundary"], "k-", label="boundary, closed form")
    ax.fill_between(ds["l1"], ds["low"], ds["high"], color="0.85", label="between certificates")
    finish_axes(ax, LEGEND_ABOVE, yscale="log", xlabel="l1 strength", ylabel="P(both) / P(one alone)")
    ax.set_yticks(ds["ratio"].values, [f"{tick:g}" for tick in ds["ratio"].values])
    ax.minorticks_off()
    return ax


def judge_pairs(ds: xr.Dataset) -> list[Finding]:
    """Return findings that the least objective in closed form is between the proved bounds for all pairs.

    The closed forms are those of pairs that tilt and that absorb; bounds are from branch and bound. `ds` is
    from `run_pairs`.
    """
    best = np.minimum(ds["tilted"], ds["absorbing"])
    return [
        LOWER.finding(best - ds["lower_bound"], kind="bound searched"),
        UPPER.finding(best - ds["value"], kind="bound searched"),
    ]


def _show_pairs(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "pairs", from `ds` of `run_pairs`.

    The figure shows the best kind of pairs of latents over penalty and ratio, with the boundary in closed
    form. The table has objectives over that of rebuilding nothing, with the lower bound.
    """
    best = np.minimum(ds["tilted"], ds["absorbing"])
    error = float(np.abs(ds["found"] / best - 1).max())
    agree = ((ds["absorbing"] < ds["tilted"]) == (ds["phase"] == "absorbs")).values
    above = float((ds["true"] / best - 1).min())
    n_boundary, n_low, n_high = (int(ds[name].notnull().sum()) for name in ("boundary", "low", "high"))
    text = (
        f"Two binary features, each alone with probability {ds.attrs['alone']:g}. Two families of one angle: "
        "both atoms tilt towards each other, or one stays and the other stands for both features, and the "
        "first latent is off where both are on. A branch and bound over both angles and all encoders (gap "
        f"{ds.attrs['gap']:g}) brackets the better of the two. Searches end within {error:.0e} of it, and "
        f"are in the phase that the closed forms predict at {int(agree.sum())} of {agree.size} places. The "
        f"true dictionary is optimal at none: its objective is at least {above:.2g} of the best one above "
        f"it. The boundary between both is on the map at {n_boundary} strengths. At a ratio "
        f"{CERTIFIED_FACTOR:g} times smaller, branch and bound over pairs with an atom within "
        f"{TURNED_ANGLE:g} of a feature's direction certifies at {n_low} of them that these are worse; at "
        f"one as much larger, over all other pairs, at {n_high}."
    )
    table = Table.formatted(
        "Objectives over that of rebuilding nothing",
        ds[["tilted", "absorbing", "true", "lower_bound", "found", "phase"]],
        {
            "P(both) / P(one)": "{ratio:g}",
            "l1": "{l1:g}",
            "tilted": "{tilted:.5f}",
            "one for both": "{absorbing:.5f}",
            "true dictionary": "{true:.5f}",
            "lower bound": "{lower_bound:.5f}",
            "found": "{found:.5f}",
            "phase": "{phase}",
        },
        "The lower bound is that of all encoders; rounding errors are not included.",
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


_FULL = {
    "l1": tuple(round(0.1 * k, 1) for k in range(1, 17)),
    "ratio": (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0),
    "gap": 3e-4,
    "starts": 20,
}
RUNS = {"pairs": Run(run_pairs, full=_FULL, seconds=8.0)}
TOPICS = [Topic("pairs", ["pairs"], _show_pairs, claims=["S3"], judge=judge_pairs)]
