"""The best single latent for a parent and its child: a search over all weights beside the closed form."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.sae import AutoencoderObjective, best_autoencoder
from ....theory import sae as theory
from ....theory.annotations import as_annotated
from ....theory.sae.hedging import code_cost
from ...runner.declarations import Figure, Run, Topic, TopicContent, from_rows, span
from ..drawing import finish_axes, plot_function
from .pairs import binary_pair_law


@as_annotated
def run_hedging(
    l1: Sequence[float] = (0.0, 0.2, 0.5, 1.0, 1.5),
    both: Sequence[float] = (0.02, 0.05, 0.1, 0.2),
    parent: float = 0.2,
    *,
    starts: int = 6,
    seed: int = 0,
) -> xr.Dataset:
    """Return the angle of the best latent for a binary parent and child: by search, and in closed form.

    Parameters
    ----------
    l1 : sequence of float
        Strengths of the penalty, in [0, 2).
    both : sequence of float
        Probabilities that parent and child are both on; the child is never on alone.
    parent : float
        Probability that the parent is on alone.
    starts, seed : int
        Random starts of each search, and their seed.

    Returns
    -------
    xarray.Dataset
        Of (both, l1): ``angle`` in degrees from the parent, in closed form, and ``found`` by the search;
        ``excess``, (objective of the search) / (that in closed form) - 1.

    Examples
    --------
    >>> ds = run_hedging([0.2], [0.05])
    >>> bool(abs(ds["found"] - ds["angle"]) < 1e-3)
    True
    """
    rows = []
    for q12, strength in itertools.product(both, l1):
        angle = theory.hedging_angle_l1(parent, q12, strength)
        c, s = math.cos(angle), math.sin(angle)
        least = parent * code_cost(1.0, c, strength) + q12 * code_cost(2.0, c + s, strength)
        objective = AutoencoderObjective(binary_pair_law(parent, 0.0, q12), np.eye(2), l1=strength)
        best = best_autoencoder(objective, 1, decoder_bias=False, starts=starts, rng=seed)
        d = best.sae.W_out[:, 0]
        row = {
            "angle": math.degrees(angle),
            "found": math.degrees(math.atan2(d[1], d[0])),
            "excess": best.value / least - 1.0,
        }
        rows.append(row)
    ds = from_rows(rows, both=list(both), l1=list(l1))
    return ds.assign_attrs(parent=float(parent), starts=int(starts))


@plot_function
def plot_hedging(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the angle between the best latent and the parent against the penalty: closed form and searches.

    `ds` is from `run_hedging`.
    """
    for k, both in enumerate(ds["both"].values):
        at = ds.sel(both=both)
        ax.plot(ds["l1"], at["angle"], "-", color=f"C{k + 1}", label=f"both on: {both:g}")
        ax.plot(ds["l1"], at["found"], "o", color=f"C{k + 1}", ms=4)
    return finish_axes(ax, xlabel="l1 strength", ylabel="angle from the parent, degrees")


def _show_hedging(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part "hedging", from `ds` of `run_hedging`.

    The figure has the angle between the best latent and the parent feature against the penalty, in closed
    form and by search; the text has the range of the angle and the differences of the two.
    """
    error = float(np.abs(ds["found"] - ds["angle"]).max())
    least, most = float(ds["angle"].min()), float(ds["angle"].max())
    text = (
        f"A parent is on alone with probability {ds.attrs['parent']:g}, together with its child with "
        "those in the figure. The best single latent is at an angle from the parent that solves a "
        "quartic equation: the slope of the objective "
        "at the parent's direction is negative for every penalty, so that the best latent always mixes. On "
        f"this grid the angle is between {least:.3g} and {most:.3g} degrees; from one penalty to the next it "
        f"rises by {span(ds['angle'].diff('l1'), '.2g')} degrees. The best of {ds.attrs['starts']} starts, "
        f"encoder, decoder and bias free, is within {error:.1g} degrees of it, and its objective "
        f"within {float(np.abs(ds['excess']).max()):.0e} of the one in closed form."
    )
    caption = "Lines: closed form. Dots: the best of a search over all weights and the latent's bias."
    return TopicContent(text, [Figure("hedging", "One latent has to hedge", caption, ds, plot_hedging)])


RUNS = {"hedging": Run(run_hedging, full={"starts": 20}, seconds=3.0)}
TOPICS = [Topic("hedging", ["hedging"], _show_hedging, claims=["S1", "S2"])]
