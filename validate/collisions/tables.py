"""Tables of the flow's collisions."""

import numpy as np
import xarray as xr

from ...solvers.collisions import collide
from ...theory import collisions as theory
from ..experiment import Table
from ..statistics import LEVEL, student
from .fig3 import quoted_p_values

__all__ = ["count_table", "malign_table", "places_table", "winners_table", "with_error"]


def with_error(mean: float, half: float, digits: int = 2) -> str:
    """Write a mean and half of its interval."""
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def count_table(parts: dict[str, xr.Dataset]) -> Table:
    """Compare counts of the flow with n^2/(4m) and with equally likely places; of `run_fig3`, by origin."""
    rows = []
    for origin, ds in parts.items():
        for k, p in enumerate(quoted_p_values(ds)[0]):
            one = ds.isel(n_hidden=k)
            mean, half = student(one["polysemantic"])
            quoted, exclusive = float(one["quoted"]), float(one["exclusive"])
            rows.append(
                [
                    origin,
                    ds.attrs["n_features"],
                    int(one["n_hidden"]),
                    ds.sizes["run"],
                    with_error(mean, half),
                    with_error(mean / quoted, half / quoted),
                    f"{p:.1g}" if np.isfinite(p) else "–",
                    with_error(mean / exclusive, half / exclusive),
                ]
            )
    head = ("origin", "n", "m", "runs", "count", "count / (n²/4m)", "p-value", "count / one place a feature")
    return Table(
        "Polysemantic neurons of the flow",
        head,
        rows,
        f"Means with Student's {LEVEL:.0%} interval over runs; two-sided p-value of the mean n²/(4m). One "
        "place a feature: n(n-1)/(2(2m-1)), all arrangements on the 2m places equally likely.",
    )


def places_table(parts: dict[str, xr.Dataset]) -> Table:
    """Say how the count comes about: features that keep their first choice, and those that move."""
    rows = []
    for origin, ds in parts.items():
        n = ds.attrs["n_features"]
        for k, m in enumerate(ds["n_hidden"].values):
            one = ds.isel(n_hidden=k)
            placed = n * one["stayed"].values
            chance = float((placed * (placed - 1)).mean() / (2 * (2 * m - 1)))
            mean, half = student(one["stayed_pairs"])
            preference = float(one["preference"])
            rows.append(
                [
                    origin,
                    n,
                    int(m),
                    with_error(*student(one["stayed"]), 3),
                    with_error(mean / chance, half / chance) if chance > 0 else "–",
                    f"{preference:.2f}" if np.isfinite(preference) else "no fit",
                    int(one["dead"].sum()),
                ]
            )
    return Table(
        "Features that keep their neuron, and features that move",
        ("origin", "n", "m", "share that stays", "pairs that stay / chance", "preference", "on no neuron"),
        rows,
        "Those that stay end on the neuron of their largest first weight; a ratio of 1 means that pairs of "
        "them share a neuron as often as chance has it. Preference: how readily the others take the free "
        "place beside another feature, compared with a place on an empty neuron; fitted to the count, and 1 "
        "by chance.",
    )


def winners_table(ds: xr.Dataset) -> Table:
    """Say on which of its first weights a feature ends; of `run_fig3`."""
    rows = [
        [int(m), *(with_error(*student(ds["won"].values[k, :, r]), 3) for r in range(ds.sizes["rank"]))]
        for k, m in enumerate(ds["n_hidden"].values)
    ]
    return Table(
        "Which weight of an encoding wins",
        ("m", *(f"number {r} in size" for r in ds["rank"].values)),
        rows,
        "Share of the features that end on the neuron of their largest, second largest, … first weight, with "
        f"Student's {LEVEL:.0%} interval over {ds.sizes['run']} runs of this machine; n = "
        f"{ds.attrs['n_features']}.",
    )


def malign_table(lam: tuple[float, ...] = (0.1, 0.01, 0.001), larger: float = 0.7) -> Table:
    """Compare the time after which the loser of a malign collision has left with its limit."""
    rows: list[list[object]] = []
    for ratio in (0.2, 0.5, 0.8, 0.95, 0.99):
        exact = [strength * collide(larger, ratio * larger, strength).drop_times[1] for strength in lam]
        limit = float(np.asarray(theory.shared_drop_time(ratio)))
        rows.append([f"{ratio:g}", f"{limit:.3f}", *(f"{t:.3f}" for t in exact)])
    return Table(
        "How long a malign collision takes",
        ("smaller / larger weight", "limit λ → 0", *(f"λ = {strength:g}" for strength in lam)),
        rows,
        "Time times λ (both of the normal form) until the smaller of two equal-signed weights on one neuron "
        f"is gone, if their encodings have nothing else; exact solution, larger weight {larger:g} at first. "
        "With opposite signs, a benign collision, both stay.",
    )
