"""The width law where many features are on at a time, or half of them: interference is nearly normal."""

from typing import Any

import xarray as xr

from ...runner.declarations import Run, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, Finding, preregistered
from .models import PLACE_COLUMNS, source_law
from .split import run_split
from .width import exact_check, stored_run

# Fixed before the models with half of their features on were trained.
NEAR = Criterion("|best of the trained / envelope - 1|", "<=", preregistered(0.05))


def _show_many(ds: xr.Dataset, split: xr.Dataset) -> TopicContent:
    """Return text and table of the report's part "many": trained models if many features are on at a time.

    By exponent of the frequencies and n_hidden, the table has losses: the lower bound; a priority code, in
    which encodings have very different lengths; the best split of the features into groups that are dropped,
    have a neuron each, share neurons, or are in a random code; a matrix that realises the split; and trained
    models. `ds` is from `run_width` (trained models), `split` from `run_split`.
    """
    ds = ds.sel(alpha=split["alpha"], n_hidden=split["n_hidden"])
    trained = ds["loss"].isel(weight_decay=0, steps=-1, tied=0).mean("seed")
    text = (
        f"With {ds.attrs['on']:g} of {ds.attrs['n_features']} features on at a time the interference is "
        f"nearer to normal: models trained for {int(ds['steps'][-1])} steps lose "
        f"{span(trained / split['loss'], '.2f')} times what the best split predicts, nothing fitted."
    )
    caption = "Split: normal interference. Realised: exact loss of a matrix with these capacities."
    columns = PLACE_COLUMNS | {"bound": "{bound:.3g}", "code": "{priority:.3g}", "split": "{loss:.3g}"}
    columns |= {"realised": "{realised:.3g}", "trained": "{trained:.3g}"}
    rows = split.assign(trained=trained).drop_dims("kind")
    return TopicContent(text, (), [Table.formatted("Many features on at a time", rows, columns, caption)])


def _best_trained(ds: xr.Dataset, split: xr.Dataset) -> xr.DataArray:
    """Return the least loss per feature over seeds of the models trained longest, as (alpha, n_hidden).

    `ds`, from `run_width`, has the ``loss`` over (alpha, tied, weight_decay, n_hidden, steps, seed); used are
    its first entries of ``tied`` (free weights) and ``weight_decay``. The result has the alpha and n_hidden
    of `split`, from `run_split`.
    """
    free = ds["loss"].sel(alpha=split["alpha"], n_hidden=split["n_hidden"]).isel(weight_decay=0, tied=0)
    return free.isel(steps=-1).min("seed")


def judge_often(ds: xr.Dataset, split: xr.Dataset) -> list[Finding]:
    """Return the finding on how near the best trained models are to the best known codes.

    Its number is the largest |loss / envelope - 1| over exponents of the frequencies and n_hidden; it holds
    up to 0.05 (`NEAR`). `ds`, from `run_width`, has the losses of trained models over alpha, n_hidden and
    seeds; `split`, from `run_split`, has the ``envelope`` (alpha, n_hidden), the least loss of mixtures of
    known codes.
    """
    return [NEAR.finding(abs(_best_trained(ds, split) / split["envelope"] - 1), origin=ds)]


def _show_often(ds: xr.Dataset, split: xr.Dataset) -> TopicContent:
    """Return text and table of the report's part "often": trained models if half of the features are on.

    By exponent and n_hidden, the table has the lower bound, losses of a matrix, of the best mixture of codes
    ("envelope") and of the best trained model, (trained loss) / (envelope), and the change by longer
    training. `ds` is from `run_width` (trained models), `split` from `run_split` (bounds and codes).
    """
    ds = ds.sel(alpha=split["alpha"], n_hidden=split["n_hidden"])
    free = ds["loss"].isel(weight_decay=0, tied=0)
    best = _best_trained(ds, split)
    ratio = best / split["envelope"]
    drift = (free.isel(steps=0) / free.isel(steps=-1)).mean("seed")
    size, on = int(ds.attrs["n_features"]), float(ds.attrs["on"])
    laws = [source_law(float(a), size, on) for a in ds["alpha"].values]
    constant = xr.DataArray([law.variance.mean() for law in laws], {"alpha": ds["alpha"]}, "alpha")
    is_far: xr.DataArray = ~NEAR.satisfied(abs(ratio - 1))
    widths = ", ".join(str(m) for m in ds["n_hidden"].values[is_far.any("alpha")])
    n_below = int((is_far & (split["realised"] < best)).sum())
    text = (
        f"With {ds.attrs['on']:g} of {ds.attrs['n_features']} features on at a time interference is normal, "
        "and with one Lagrange multiplier for capacity features of each frequency take the code that is best "
        f"for them. The loss of the best of {free.sizes['seed']} models trained for {int(ds['steps'][-1])} "
        f"steps is {span(ratio, '.3f')} times what this envelope predicts, with nothing fitted. Fixed before "
        f"training: at how many of the {ratio.size} settings is it within {NEAR:.0%}? At "
        f"{int((~is_far).sum())}. The others have m = {widths}, and there the optimiser falls short: at "
        f"{n_below} of {int(is_far.sum())} a matrix built from the split has a smaller exact loss, and at "
        f"{int((is_far & (best > constant)).sum())} even a model that outputs the means of its features has."
    )
    caption = (
        "Built: exact loss of a matrix of this size. Ratio: trained over envelope. Shorter: loss "
        f"after {int(ds['steps'][0])} steps over that after {int(ds['steps'][-1])}."
    )
    columns = PLACE_COLUMNS | {
        "bound": "{bound:.3g}",
        "built": "{realised:.3g}",
        "envelope": "{envelope:.3g}",
    }
    columns |= {"trained": "{trained:.4g}", "ratio": "{ratio:.3f}", "shorter": "{shorter:.3f}"}
    rows = split.assign(trained=best, ratio=ratio, shorter=drift).drop_dims("kind")
    table = Table.formatted("Half of the features on at a time", rows, columns, caption)
    return TopicContent(text, (), [table])


_MANY: dict[str, Any] = {"alpha": [0.5], "n_hidden": [3, 10, 32, 64], "on": 8}
_OFTEN: dict[str, Any] = {"alpha": [0, 0.25, 0.5], "on": 64}
RUNS = {
    "many": stored_run(
        "the width law, many features on",
        _MANY | {"tied": [0], "steps": [4000]},
        check=exact_check(3, seeds=[0]),
    ),
    "often": stored_run(
        "the width law, half of the features on",
        _OFTEN | {"tied": [0]},
        seconds=600.0,
        check=exact_check(3, steps=[2000], seeds=[0]),
    ),
    # The best splits at the places of trained models.
    "split_many": Run(run_split, _MANY, _MANY, seconds=15),
    "split_often": Run(run_split, _OFTEN, _OFTEN, seconds=15),
}
TOPICS = [
    Topic("many", ["many", "split_many"], _show_many),
    Topic("often", ["often", "split_often"], _show_often, judge=judge_often),
]
