"""Fig. 3 of Lecomte et al. (2024), trained as printed, beside the flow."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ....solvers.statistics import mean
from ....theory.annotations import as_annotated
from ....theory.collisions import expected_polysemantic, quoted_polysemantic
from ...runner.declarations import SUMS, Figure, ReproductionCheck, Run, Table, Topic, TopicContent
from .fig3 import plot_fig3, plot_ratio
from .labels import INTERVALS
from .training import AUTHORS_SCALE, check_runs, merge_settings, train_l1

WINDOW = (0.8, 1.2)  # weights that the authors' code counts, in absolute value


@as_annotated
def run_printed(
    n_hidden: Sequence[int] = (256, 512, 1024, 2048, 4096),
    seeds: Sequence[int] = tuple(range(16)),
    *,
    n_features: int = 256,
    lam: float = 1e-3,
    steps: Sequence[int] = (1500, 2500, 3500, 5000, 7500),
    device: str = "auto",
) -> xr.Dataset:
    """Train the models of Fig. 3 by the authors' published settings; count polysemantic neurons as they do.

    Parameters
    ----------
    n_hidden, n_features : sequence of int, int
        Values of m, and n.
    seeds, lam : sequence of int, float
        Seeds of the runs, two or more; l1 strength of the printed loss, positive.
    device : {"auto", "cpu", "cuda"}
    steps : increasing sequence of int
        Steps of AdamW at which to count; the published code makes 7500.

    Returns
    -------
    xarray.Dataset
        Of (step, n_hidden, run): ``polysemantic``, neurons on which two or more features have weights between
        0.8 and 1.2 in absolute value; ``polysemantic_0.5``, with weights above 0.5; ``dead`` features;
        ``nonzeros``, nonzero weights per feature; ``loss``. Of (n_hidden): ``quoted``, n^2/(4 m).
        Coordinate ``seed``.

    References
    ----------
    .. [1] Lecomte et al. (2024), §2.5, Fig. 3, and github.com/tmychow/accidental-polysemanticity,
       experiments/collisions.py: AdamW with learning rate 1e-3, lam = 1e-3, 7500 steps, s.d. 1/sqrt(m).

    Examples
    --------
    >>> ds = run_printed([8], range(4), n_features=8, lam=0.1, steps=[1500], device="cpu")
    >>> ds.polysemantic.dims, float(ds.quoted[0])
    (('step', 'n_hidden', 'run'), 2.0)
    """
    lam, seeds = check_runs(lam, seeds)
    options: dict[str, Any] = {"optimiser": "adamw", "steps": steps, "scale": AUTHORS_SCALE}
    columns = []
    for m in n_hidden:
        ds = train_l1(n_features, m, lam, seeds, device=device, keep_weights=True, **options)
        size = np.abs(ds["W"].values)
        holders = np.sum((size >= WINDOW[0]) & (size <= WINDOW[1]), axis=-2)
        column = ds[["polysemantic", "dead", "nonzeros", "loss"]].rename(polysemantic="polysemantic_0.5")
        counts = np.sum(holders >= 2, axis=-1).astype(float)
        columns.append(column.assign(polysemantic=(("step", "run"), counts)))
    ds = merge_settings(columns, n_hidden=n_hidden).transpose("step", "n_hidden", "run")
    ds["quoted"] = ("n_hidden", np.atleast_1d(quoted_polysemantic(n_features, n_hidden)))
    ds = ds.assign_coords(seed=("run", seeds))
    return ds.assign_attrs(n_features=n_features, lam=lam, scale=AUTHORS_SCALE)


def _show_constant(printed: xr.Dataset, long: xr.Dataset, flow: xr.Dataset) -> TopicContent:
    """Return text, figures and tables of the report's part "constant": the constant in the count n^2/(4m).

    Figures have polysemantic neurons, and their ratio to n^2/(4m), against m; tables have counts over both
    predictions, and shares of features that keep the neuron of their largest first weight. `printed` is from
    `run_printed` (trained models), `long` and `flow` are from `run_fig3` (ends of the flow, at the printed
    sizes and at smaller ones).
    """
    last, n, lam = printed.isel(step=-1), printed.attrs["n_features"], printed.attrs["lam"]
    counts = [ds["polysemantic"].reset_coords(drop=True) for ds in (long, last)]
    both = xr.concat(counts, pd.Index(["flow", "adamw"], name="optimiser"), join="outer").to_dataset()
    both = both.assign(quoted=long["quoted"]).assign_attrs(n_features=n, lam=lam).drop_encoding()
    title = "Fig. 3: polysemantic neurons, trained as printed, and of the flow"
    caption = (
        f"AdamW by the settings of the authors' code (λ = {lam:g} of the printed loss, s.d. 1/sqrt(m), "
        f"weights between 0.8 and 1.2 counted), and the flow at λ = {long.attrs['lam']:g} of the normal "
        f"form, s.d. {long.attrs['scale']:g}/sqrt(m). Small dots are runs, those with a count of 0 are below "
        f"the axis; lines are predictions without a fitted constant. {INTERVALS}"
    )
    small = f"The same for n = {flow.attrs['n_features']}, by the flow"
    panels = (plot_fig3, plot_ratio)
    figures = [
        Figure("fig3", title, caption, both, panels),
        Figure("fig3-small", small, f"As above. {INTERVALS}", flow, panels),
    ]
    by_origin = {"trained as printed": last, "flow, stored": long, "flow, run now": flow}
    # Means over m, of each run that has all m.
    ratios = ((ds["polysemantic"] / ds["quoted"]).mean("n_hidden", skipna=False) for ds in (last, long))
    trained, by_flow = (mean(ratio.dropna("run")) for ratio in ratios)
    text = (
        f"Trained as the authors' code does, n = {n} and m from {int(last['n_hidden'].min())} to "
        f"{int(last['n_hidden'].max())}, the count is {trained:.2f} times n²/(4m) on average over m; that of "
        f"the flow, at another λ, {by_flow:.2f} times. By m:"
    )
    headline = (
        f"Two features share a neuron by chance: trained models have {trained.value:.2f} ± "
        f"{trained.high - trained.value:.2f} times the n²/(4m) polysemantic neurons that the source expects, "
        "on average over m."
    )
    return TopicContent(text, figures, [_count_table(by_origin), _places_table(long, flow)], headline)


def _split_by_n_hidden(ds: xr.Dataset) -> Iterator[tuple[int, int, xr.Dataset]]:
    """Yield (n_features, n_hidden, the data of `ds` at this n_hidden)."""
    for m in ds["n_hidden"].values.tolist():
        yield ds.attrs["n_features"], m, ds.sel(n_hidden=m)


def _count_table(by_origin: dict[str, xr.Dataset]) -> Table:
    """Return the table of mean counts of polysemantic neurons, also over n^2/(4m) and n(n-1)/(2(2m-1)).

    n(n-1)/(2(2m-1)) is the expected count if each feature has a neuron and a sign of its own, at random.
    `by_origin` maps a label of what trained the models, such as the flow, to a dataset from `run_printed` or
    `run_fig3`.
    """
    columns = ("by", "n", "m", "runs", "count", "count / (n²/4m)", "count / one place a feature")
    rows = []
    for origin, ds in by_origin.items():
        for n, m, at_m in _split_by_n_hidden(ds):
            count = mean(at_m["polysemantic"].dropna("run"))
            units = float(at_m["quoted"]), float(expected_polysemantic(n, m))
            counts = [f"{c:.2f}" for c in (count, *map(count.divided_by, units))]
            rows.append((origin, n, m, count.runs, *counts))
    caption = "One place a feature: n(n-1)/(2(2m-1)), all arrangements on the 2m places equally likely. "
    return Table("Polysemantic neurons", columns, rows, caption + INTERVALS)


def _places_table(*datasets: xr.Dataset) -> Table:
    """Return a table of the shares of features that end on the neuron of their largest first weight.

    Further columns: the share that ends on the neuron of the second largest first weight; neurons that two
    features share, both by their largest weight, over their number by chance; the fitted ``preference`` of
    `run_fig3`; and features on no neuron. `datasets` are from `run_fig3`; each n_hidden has a row.
    """
    measured = ("share that stays", "second wins", "pairs that stay / chance", "preference", "on no neuron")
    rows = []
    for ds in datasets:
        for n, m, at_m in _split_by_n_hidden(ds):
            placed = n * at_m["stayed"].values
            chance = float((placed * (placed - 1)).mean() / (2 * (2 * m - 1)))
            second = f"{mean(at_m['won'].sel(rank=2)):.3f}" if "won" in at_m else "–"
            pairs = f"{mean(at_m['stayed_pairs']).divided_by(chance):.2f}" if chance > 0 else "–"
            preference, lost = f"{float(at_m['preference']):.2f}", int(at_m["dead"].sum())
            rows.append((n, m, f"{mean(at_m['stayed']):.3f}", second, pairs, preference, lost))
    title = "Features of the flow that keep their neuron, and features that move"
    caption = (
        "Those that stay end on the neuron of their largest first weight; “second wins” is the share that "
        "ends on that of the second largest. A ratio of 1 means that pairs of those that stay share a neuron "
        "as often as chance has it. Preference: how readily the others take the free place on a neuron that "
        "already holds a feature, compared with a place on an empty neuron; fitted to the count, and 1 by "
        f"chance (nan: none fits). {INTERVALS}"
    )
    return Table(title, ("n", "m", *measured), rows, caption)


_CHECK = ReproductionCheck(
    {"n_hidden": [256], "seeds": [0, 1], "steps": [1500]}, ["polysemantic", "dead", "loss"], 1e-4, SUMS
)
RUNS = {
    "printed": Run.shipped(
        "collisions_printed",
        "Fig. 3 of Lecomte et al. as printed",
        run_printed,
        # Of the source's widths, 4096 would take as long as these together.
        {"n_hidden": [256, 512, 1024, 2048]},
        split_by="n_hidden",
        concat_dim="n_hidden",
        torch=True,
        check=_CHECK,
    )
}
TOPICS = [Topic("constant", ["printed", "long", "fig3"], _show_constant, claims=["L1", "L17", "L18", "L19"])]
