"""What the report shows of the width law: experiments and topics for the room's section."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL as CONFIDENCE
from ....solvers.statistics import line, student
from ....theory.validation import FloatArray
from ...runner.declarations import STOPPED, Figure, ReproductionCheck, Run, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, Finding, derived, post_hoc, preregistered
from ..drawing import plot_function, plot_theory_vs_experiment
from .descended import run_descended
from .width import run_split, run_width, source_law

TEXT = """
Features differ in how often they are on and in how much their errors weigh. The capacities of the outputs of
a matrix of rank m sum to at most m. With one Lagrange multiplier for capacity they are split best: features
are dropped, kept exactly, put in pairs, or receive normal interference. Frequencies p that fall as i^-alpha
give a law of loss against m. Two losses bracket it: a proved lower bound for every model, and a code whose
exact loss is known.
"""

# Columns of tables, as formats.
_PLACE = {"alpha": "{alpha:g}", "m": "{n_hidden}"}
ABOVE = Criterion("trained loss / proved bound", ">=", derived(1))
# What counts as level between two lengths of training, and as higher after more steps.
LEVEL = Criterion("|loss after fewer steps / after more - 1|", "<", post_hoc(0.05))
WORSE = Criterion("loss after fewer steps / after more - 1", "<", -post_hoc(0.05))
# Fixed before the descents, and the models with half of their features on, were run.
LEVEL_END = Criterion("gain of the last tenth of steps", "<", preregistered(0.005))
NEAR_CODE = Criterion("|best end / code - 1|", "<=", preregistered(0.05))
NEAR = Criterion("|best of the trained / envelope - 1|", "<=", preregistered(0.05))


def exponents(loss: FloatArray, n_hidden: FloatArray) -> FloatArray:
    """Return least-squares exponents e of a loss that falls as n_hidden^-e; n_hidden is the first axis.

    Examples
    --------
    >>> exponents(np.array([[1.0, 2.0], [0.1, 0.02]]), np.array([1, 10])).round(12)
    array([1., 2.])
    """
    return -line(np.log(n_hidden), np.log(loss))[1]


@plot_function
def plot_width(ds: xr.Dataset, ax: Axes, alpha: float) -> Axes:
    """Draw trained losses beside the bound, the code and the split, at one alpha; of both runs, merged."""
    at = ds.sel(alpha=alpha)
    lines: list[xr.DataArray | tuple[Any, ...]] = [
        at[name].assign_attrs(label=label)
        for name, label in (
            ("bound", "proved bound"),
            ("priority", "priority code, exact"),
            ("split", "best split, normal interference"),
        )
    ]
    runs = at["loss"].isel(steps=-1, weight_decay=0).sel(tied=0).transpose("n_hidden", "seed", ...)
    runs.attrs["long_name"] = "loss per feature"
    plot_theory_vs_experiment(lines, runs, ax)
    ax.set(xscale="log", yscale="log", title=f"alpha = {alpha:g}")
    ax.legend()
    return ax


def judge_width(ds: xr.Dataset, split: xr.Dataset, descended: xr.Dataset) -> list[Finding]:
    """Return whether models are above the bound, and exact descents end near the code."""
    free = ds["loss"].sel(tied=0, alpha=split["alpha"], n_hidden=split["n_hidden"])
    best = descended["loss"].min("begin")
    return [
        ABOVE.finding(free.isel(weight_decay=0, steps=-1) / split["bound"], origin=ds),
        NEAR_CODE.finding(abs(best / descended["priority"] - 1), origin=descended),
    ]


def _best(ds: xr.Dataset, split: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the losses of the best of the models that were trained for longest, and over the envelope."""
    free = ds["loss"].sel(alpha=split["alpha"], n_hidden=split["n_hidden"]).isel(weight_decay=0, tied=0)
    best = free.isel(steps=-1).min("seed")
    return best, best / split["envelope"]


def judge_often(ds: xr.Dataset, split: xr.Dataset) -> list[Finding]:
    """Return whether the best trained models are near the envelope."""
    return [NEAR.finding(abs(_best(ds, split)[1] - 1), origin=ds)]


def _show_descended(ds: xr.Dataset) -> tuple[str, Table]:
    """Return what exact descents say of the code, and their table."""
    best = ds["loss"].min("begin")
    won = ds.isel(begin=ds["loss"].argmin("begin"))
    slope = span(won["gradient"].values, ".1g")
    level = LEVEL_END.satisfied(won["gain"])
    ratio = best / ds["priority"]
    near, places = NEAR_CODE.satisfied(abs(ratio - 1)), best.size
    gained = ds["loss"].sel(begin="trained") / ds["start"].sel(begin="trained")
    begun = ds["start"].sel(begin="code") / ds["priority"]
    text = (
        f"Is that the optimiser, or the optimum? At n = {ds.attrs['n_features']} we continue for "
        f"{ds.attrs['steps']} steps of the exact gradient, from models trained for "
        f"{ds.attrs['train_steps']} steps and from the code at finite lengths (the encodings of a plane "
        f"differ by at most {ds.attrs['reach']:g}). Fixed before these runs: at how many of 15 settings is "
        f"the code within {NEAR_CODE:.0%} of the best end? Of the {places} settings that were run (alpha = "
        f"{', '.join(f'{float(a):g}' for a in ds['alpha'].values)}) it is so at {int(near.sum())}, and at "
        f"{int((near & level).sum())} of the {int(level.sum())} whose last tenth of steps gains less than "
        f"{LEVEL_END:.1%}. That is no proof "
        f"of a minimum: gradients are still {slope} of the loss of the zero model. "
        f"Descents take trained models to {span(gained, '.2f')} of their loss. The loss of the best ends is "
        f"{span(ratio, '.2f')} times that of the code, and below it at {int((ratio < 1).sum())} settings. "
        "Descents from the code's own weights end lower than those from trained models at "
        f"{int((won['begin'] == 'code').sum())}: the code's loss is a limit of lengths that differ by many "
        f"decades, and at finite lengths it starts {span(begun, '.2g')} times as high."
    )
    ends = {
        f"{one} {end}": ds[name].sel(begin=one, drop=True)
        for one in ds["begin"].values
        for end, name in (("start", "start"), ("end", "loss"))
    }
    columns = _PLACE | {"bound": "{bound:.3g}", "code": "{priority:.3g}"}
    columns |= {name: f"{{{name}:.3g}}" for name in ends}
    columns |= {"ratio": "{ratio:.2f}", "last gain": "{gain:.3g}", "gradient": "{gradient:.3g}"}
    columns |= {"strongest": "{strongest:.3g}", "negative": "{negative:.0%}"}
    caption = (
        "Exact losses before and after the descents. Ratio: the best end over the code. Of the best end: "
        "what the last tenth of steps gains, the gradient over the loss of the zero model, the strongest "
        "weight of another feature over the output's own, and the share of others' weights that is negative."
    )
    shown = won.drop_vars("begin").assign({**ends, "ratio": ratio})
    title = "Exact descents from the code and from trained models"
    return text, Table.formatted(title, shown, columns, caption)


def _show_width(ds: xr.Dataset, split: xr.Dataset, descended: xr.Dataset) -> TopicContent:
    ds = ds.sel(alpha=split["alpha"], n_hidden=split["n_hidden"])
    long = ds.isel(weight_decay=0, steps=-1)
    free = long.sel(tied=0, drop=True)
    ratio = free["loss"].mean("seed") / split["priority"]
    drift = (ds["loss"].isel(weight_decay=0, steps=0) / long["loss"]).mean("seed")
    gained = drift - 1
    level = int(LEVEL.satisfied(abs(gained)).sum())
    exps, ms = split["alpha"].values, split["n_hidden"].values
    said = []
    for a in exps:
        mean, half = student(exponents(free["loss"].sel(alpha=a).transpose("n_hidden", "seed").values, ms))
        said.append(f"{mean:.2f} ± {half:.2f} at alpha = {a:g}")
    shape = free["loss"] / free["normal"]
    small = [m for m in ms if m < ds.attrs["n_features"] / 2]
    wide = [m for m in small if m >= 10]
    below = int((free["loss"].mean("seed") < split["loss"]).sum())
    worse = int(WORSE.satisfied(gained).sum())
    times = [f"{span(ratio.sel(alpha=a, n_hidden=small), '.2g')} (alpha = {a:g})" for a in exps]
    text = (
        f"Models of {ds.attrs['n_features']} features, {ds.attrs['on']:g} on at a time on average, with free "
        f"weights: from {ms[0]} to {ms[-1]} hidden neurons the loss falls with the exponents "
        f"{', '.join(said)} (least squares over all widths, {CONFIDENCE:.0%} over {ds.sizes['seed']} "
        "seeds). The loss is not a power of the width.\n\n"
        "Few features are on at a time, and the interference is not normal. Trained models with free weights "
        "give up capacity to have nearly all of their interference negative, so that an output that is off "
        f"stays off: from m = 10 to n/2 they lose {span(shape.sel(n_hidden=wide).mean('seed'), '.2f')} times "
        "what normal interference of the same capacities would cost, and at "
        f"{below} of {free['loss'].mean('seed').size} settings less than the best split of capacity. Even so "
        "they are not the best models: the loss of a priority code, in which larger features turn the "
        "outputs of smaller ones off, has a closed form, and below n/2 trained models lose "
        f"{'; '.join(times)} times as much. Both are exact losses; the code's is a limit of lengths that "
        "differ by many decades. Training has not converged either: "
        f"{level} of {int(gained.notnull().sum())} settings move by less than {LEVEL:.0%} from "
        f"{int(ds['steps'][0])} to {int(ds['steps'][-1])} steps, and {worse} end higher after more steps."
    )
    caption = (
        f"Mean losses over {ds.sizes['seed']} seeds after {int(ds['steps'][-1])} steps. Split: the least "
        "loss if interference is normal. Shorter: loss after fewer steps over that, free weights. Shape: the "
        "loss over that of normal interference of the same capacities, and the share of its variance that is "
        "negative."
    )
    more, ends = _show_descended(descended)
    loss = long["loss"].mean("seed")
    means = {"tied" if t else "free": loss.sel(tied=t, drop=True) for t in ds["tied"].values}
    columns = _PLACE | {"bound": "{bound:.3g}", "code": "{priority:.3g}", "split": "{loss:.3g}"}
    columns |= {name: f"{{{name}:.3g}}" for name in means}
    columns |= {"shorter": "{shorter:.2f}", "shape": "{shape:.2f}", "negative": "{negative:.0%}"}
    means |= {"shorter": drift.sel(tied=0, drop=True), "shape": shape.mean("seed")}
    shown = split.drop_dims("kind").assign(means).assign(negative=free["opposed"].mean("seed"))
    merged = split.rename(loss="split").merge(ds[["loss"]])
    merged.attrs = dict(ds.attrs)
    return TopicContent(
        f"{text}\n\n{more}",
        [
            Figure(
                "width",
                "Loss against width",
                f"Trained models with free weights, {CONFIDENCE:.0%} intervals, beside theory without a "
                "fitted constant.",
                merged,
                [partial(plot_width, alpha=float(a)) for a in exps],
                columns=3,
            )
        ],
        [Table.formatted("Theory and training over the widths", shown, columns, caption), ends],
        f"The least loss of n = {ds.attrs['n_features']} features is known within a factor of "
        f"{float((split['priority'] / split['bound']).max()):.1f} at every width, and gradient descent stays "
        f"up to {float(ratio.sel(n_hidden=small).max()):.1f} times above a code whose loss is exact (m < "
        "n/2).",
    )


def _show_many(ds: xr.Dataset, split: xr.Dataset) -> TopicContent:
    ds = ds.sel(alpha=split["alpha"], n_hidden=split["n_hidden"])
    at = ds.isel(weight_decay=0, steps=-1, tied=0)
    over = at["loss"].mean("seed") / split["loss"]
    text = (
        f"With {ds.attrs['on']:g} of {ds.attrs['n_features']} features on at a time the interference is "
        f"nearer to normal: models trained for {int(ds['steps'][-1])} steps lose {span(over, '.2f')} times "
        "what the best split predicts, nothing fitted."
    )
    caption = "Split: normal interference. Realised: exact loss of a matrix with these capacities."
    columns = _PLACE | {"bound": "{bound:.3g}", "code": "{priority:.3g}", "split": "{loss:.3g}"}
    columns |= {"realised": "{realised:.3g}", "trained": "{trained:.3g}"}
    merged = split.assign(trained=at["loss"].mean("seed")).drop_dims("kind")
    return TopicContent(text, (), [Table.formatted("Many features on at a time", merged, columns, caption)])


def _show_often(ds: xr.Dataset, split: xr.Dataset) -> TopicContent:
    ds = ds.sel(alpha=split["alpha"], n_hidden=split["n_hidden"])
    free = ds["loss"].isel(weight_decay=0, tied=0)
    best, ratio = _best(ds, split)
    drift = (free.isel(steps=0) / free.isel(steps=-1)).mean("seed")
    size, on = int(ds.attrs["n_features"]), float(ds.attrs["on"])
    laws = [source_law(float(a), size, on) for a in ds["alpha"].values]
    constant = xr.DataArray([law.variance.mean() for law in laws], {"alpha": ds["alpha"]}, "alpha")
    off: xr.DataArray = ~NEAR.satisfied(abs(ratio - 1))
    widths = ", ".join(str(m) for m in ds["n_hidden"].values[off.any("alpha")])
    built = int((off & (split["realised"] < best)).sum())
    text = (
        f"With {ds.attrs['on']:g} of {ds.attrs['n_features']} features on at a time interference is normal, "
        "and with one Lagrange multiplier for capacity features of each frequency take the code that is best "
        f"for them. The loss of the best of {free.sizes['seed']} models trained for {int(ds['steps'][-1])} "
        f"steps is {span(ratio, '.3f')} times what this envelope predicts, with nothing fitted. Fixed before "
        f"training: at how many of the {ratio.size} settings is it within {NEAR:.0%}? At "
        f"{int((~off).sum())}. The others have m = {widths}, and there the optimiser falls short: at {built} "
        f"of {int(off.sum())} a matrix built from the split has a smaller exact loss, and at "
        f"{int((off & (best > constant)).sum())} even a model that outputs the means of its features has."
    )
    caption = (
        "Built: exact loss of a matrix of this size. Ratio: trained over envelope. Shorter: loss "
        f"after {int(ds['steps'][0])} steps over that after {int(ds['steps'][-1])}."
    )
    columns = _PLACE | {"bound": "{bound:.3g}", "built": "{realised:.3g}", "envelope": "{envelope:.3g}"}
    columns |= {"trained": "{trained:.4g}", "ratio": "{ratio:.3f}", "shorter": "{shorter:.3f}"}
    merged = split.assign(trained=best, ratio=ratio, shorter=drift).drop_dims("kind")
    return TopicContent(
        text, (), [Table.formatted("Half of the features on at a time", merged, columns, caption)]
    )


LAW = "the width law"


def exact(n_hidden: int, tolerance: float = 1e-6, **settings: Any) -> ReproductionCheck:
    """Return the models of one width."""
    reason = "exact losses are computed to 1e-6, by code that has changed"
    return ReproductionCheck({"n_hidden": [n_hidden], **settings}, (), tolerance, reason)


def by_alpha(*alphas: float) -> dict[str, Any]:
    """Return that a run is made apart for each alpha."""
    return {"split_by": [{"alpha": [one]} for one in alphas], "concat_dim": "alpha"}


def trained(what: str, settings: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """Return a stored run of trained models."""
    return Run.shipped("unequal_width", what, run_width, settings, torch=True, **more)


_MANY = {"alpha": [0.5], "n_hidden": [3, 10, 32, 64], "on": 8}
_OFTEN = {"alpha": [0, 0.25, 0.5], "on": 64}
# Five seeds that nothing has used.
_FRESH = {"alpha": [1], "n_hidden": [10, 32], "tied": [0], "steps": [8000], "seeds": [6, 7, 8, 9, 10]}
# What is gained in flat directions, and the gradient left, are rounding.
_GAINED = ["start", "loss", "bound", "priority"]
_DESCENDED: dict[str, Any] = {
    "torch": True,
    "check": ReproductionCheck({"alpha": [0], "n_hidden": [1]}, _GAINED, 1e-3, STOPPED),
}

RUNS = {
    "width": trained(LAW, check=exact(3, tied=[0], steps=[2000], seeds=[0]), **by_alpha(0, 1, 2)),
    "fresh": trained(
        f"{LAW}, seeds that were not seen when U2 was worded", _FRESH, check=exact(10, seeds=[6])
    ),
    "many": trained(
        f"{LAW}, many features on", _MANY | {"tied": [0], "steps": [4000]}, check=exact(3, seeds=[0])
    ),
    "often": trained(
        f"{LAW}, half of the features on",
        _OFTEN | {"tied": [0]},
        seconds=600.0,
        check=exact(3, steps=[2000], seeds=[0]),
    ),
    # Frozen were 15 places, at alpha = 0, 1 and 2; those of alpha = 0 and 1 are run.
    "descended": Run.shipped(
        "unequal_width",
        f"{LAW}, exact descents",
        run_descended,
        {"alpha": [0, 1]},
        **_DESCENDED,
        **by_alpha(0, 1),
    ),
    # The best splits at the places of trained models.
    "split": Run(run_split, seconds=40),
    "split_many": Run(run_split, _MANY, _MANY, seconds=15),
    "split_often": Run(run_split, _OFTEN, _OFTEN, seconds=15),
}
TOPICS = [
    Topic(
        "width",
        ["width", "split", "descended"],
        _show_width,
        claims=["U1", "U2"],
        judge=judge_width,
    ),
    Topic("many", ["many", "split_many"], _show_many),
    Topic("often", ["often", "split_often"], _show_often, judge=judge_often),
]
