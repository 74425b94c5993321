"""Liu et al. (2025), the width law at the settings of their public code, and what first biases do to it."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.special import ndtr

from ...theory.arguments import FloatArray
from ...theory.unequal import loss_bound, priority_loss
from ..drawing import finished
from ..experiment import Figure, Part, Section, Shown, Table, Topic, span
from ..findings import Criterion, Finding, before
from ..unequal.scaling import LAW, by_alpha, exact, exponents, trained
from ..unequal.width import source_law

# Fixed before the runs at alpha = 1/2 and 3/2 were made.
NEAR_EXPONENT = Criterion(
    "|exponent of models trained as published, or from biases of 0, - that of the code|", "<=", before(0.05)
)
# Fixed before the runs with the first weights and rates of the source's code, when seed 1 had been inspected
# at six of the nine places: dead outputs began with the lower bias (m = 32 and 100), and make up most of the
# loss, at all places; not so if biases begin at 0 (alpha = 1). With 320 neurons (alpha = 1) the outputs that
# are dead at the start are still there.
LOWER = Criterion("least share of pairs with the silent output's first bias lower", ">=", before(0.9))
UNHEARD = Criterion("least share of silent outputs in the loss", ">=", before(0.5))
UNHEARD_UNBIASED = Criterion("the same, largest, if biases begin at 0", "<=", before(0.1))
FLATTER = Criterion("exponent from m = 100 on, alpha = 1", "<=", before(0.9))
# Fixed then too (0.97 had been seen at alpha = 1).
NEAR_ONE = Criterion("largest |exponent of models trained as published - 1|", "<=", before(0.2))
# What the source says rows that shrink lose: all features but the most frequent, as many as have long rows.
# Fixed before runs at alpha = 3/2, m = 10 and 32. Expected was that it fails at the source's settings, where
# rows are long whose biases began high (1.7 had been seen at alpha = 1, m = 32), and holds from biases of 0.
NEAR_SUM = Criterion("largest |loss / sum - 1| at the source's settings, m = 10 and 32", "<=", before(0.1))
NEAR_SUM_UNBIASED = Criterion(
    "largest |loss / printed sum - 1| if biases begin at 0", "<=", before(float(NEAR_SUM.limit))
)
# Losses whose exponents are told.
LOSSES = ("published", "aligned", "code", "bound")


def printed_sum(ds: xr.Dataset) -> FloatArray:
    """Return what the source says is lost, per feature: all but the most frequent features.

    As many of these are kept as have rows longer than 1/2. `ds` has the one axis n_hidden.
    """
    law = source_law(float(ds["alpha"]), int(ds.attrs["n_features"]), float(ds.attrs["on"]))
    kept = np.rint(ds["long"].values * law.n_features).astype(int)
    return np.array([law.second_moment[k:].sum() / law.n_features for k in kept])


def off_sum(ds: xr.Dataset) -> FloatArray:
    """Return how far losses are from `printed_sum`, relative to it."""
    one = ds.squeeze()
    return np.abs(one["loss"].values / printed_sum(one) - 1)


def series_of(ds: xr.Dataset, aligned: xr.Dataset) -> xr.Dataset:
    """Return losses of (alpha, n_hidden) by name: `LOSSES`, and what silent outputs lose."""
    ms, laws = (
        ds["n_hidden"].values,
        [
            source_law(float(a), int(ds.attrs["n_features"]), float(ds.attrs["on"]))
            for a in ds["alpha"].values
        ],
    )
    runs, ours = (one.squeeze(drop=True).transpose("alpha", "n_hidden") for one in (ds, aligned))
    axes = ("alpha", "n_hidden")
    series = runs[["loss", "unheard"]].rename(loss="published", unheard="silenced")
    return series.assign(
        aligned=ours["loss"],
        code=(axes, [[priority_loss(law, int(m)) for m in ms] for law in laws]),
        bound=(axes, [[loss_bound(law, int(m)) for m in ms] for law in laws]),
    )


def last_exponent(ds: xr.Dataset, wide: xr.Dataset) -> float:
    """Return the exponent of the loss between the last width of `ds` and that of `wide`."""
    last, one = ds["loss"].isel(n_hidden=-1).sel(alpha=wide["alpha"]), wide["loss"]
    found = np.log(last / one) / np.log(wide["n_hidden"] / last["n_hidden"])
    return float(found.squeeze())


def plot_published(ds: xr.Dataset, ax: Axes, alpha: float) -> Axes:
    """Draw losses against the width at one alpha: trained, what silent outputs lose of it, and theory."""
    at = ds.sel(alpha=alpha)
    for name, style, label in (
        ("published", "o-C1", "trained as published"),
        ("silenced", "x--C1", "lost at silent outputs"),
        ("aligned", "s-C2", "from biases of 0"),
        ("code", "-C0", "priority code, exact"),
        ("bound", ":C0", "proved bound"),
    ):
        ax.semilogy(at["n_hidden"], at[name], style, markersize=4, label=label)
    labels = {"xlabel": "n_hidden", "ylabel": "loss per feature"}
    ax.set_ylim(bottom=float(at["bound"].min()) / 10)  # room for the legend
    legend = "lower left" if alpha == ds["alpha"][0] else None  # the panels have the same lines
    return finished(ax, legend, xscale="log", title=f"alpha = {alpha:g}", **labels)


def _silenced(ds: xr.Dataset, wide: xr.Dataset, unbiased: xr.Dataset) -> str:
    """Say what first biases do to outputs."""
    runs, few, none, one = (each.squeeze() for each in (ds, ds.isel(n_hidden=slice(1, None)), unbiased, wide))
    share, left = runs["unheard"] / runs["loss"], none["unheard"] / none["loss"]
    less = few["loss"].sel(alpha=none["alpha"]) / none["loss"]
    widths = ", ".join(str(m) for m in few["n_hidden"].values)
    return (
        "The cause is the initial biases, of variance 1. An output is dead if its own feature does not turn "
        "it on at any value: it hardly learns, and its feature is lost. In "
        f"{span(few['lower'], '.1%')} of the pairs of a dead and a live output, the dead one begins with the "
        f"lower bias (m = {widths}). Dead outputs make up {span(share, '.0%')} of the whole loss. If biases "
        f"begin at 0, rows have length 1, and all else is the source's (alpha = {float(none['alpha']):g}, m "
        f"= {widths}), they make up {span(left, '.1%')}, and the loss is less by factors of "
        f"{span(less, '.2g')}.\n\n"
        "So the law 1/m of these runs counts dead outputs, which are fewer in a wider model, and it has a "
        f"floor. With m = {int(one['n_hidden'])} neurons {float(one['silent']):.1%} of the outputs are "
        f"dead, compared with {float(ndtr(-2.0)):.1%} of unit rows before the first step. They make up "
        f"{float(one['unheard'] / one['loss']):.0%} of the loss, whose exponent from m = "
        f"{int(ds['n_hidden'][-1])} on is {last_exponent(ds, wide):.2f}."
    )


def _shrunk(weak: xr.Dataset, even: xr.Dataset) -> str:
    """Compare the loss of models with shrinking rows with the printed sum."""
    ratios = [one["loss"].values / printed_sum(one) for one in (weak, even)]
    source, zero = (", ".join(f"{one:.2f}" for one in ratio) for ratio in ratios)
    return (
        f"Where a decay of {float(weak['weight_decay']):g} shortens the rows, the source says that the loss "
        f"is that of all features but the most frequent. With alpha = {float(weak['alpha']):g}, m = "
        f"{', '.join(str(m) for m in weak['n_hidden'].values)}, it is {source} times that at the source's "
        f"settings, where rows survive whose biases began high, and {zero} times if all biases begin at 0."
    )


def _figure(series: xr.Dataset) -> Figure:
    return Figure(
        "published",
        "Loss against width at the source's settings",
        "Each point is one model. The gap between the dashed and the full line is the loss of live outputs.",
        series,
        [partial(plot_published, alpha=float(a)) for a in series["alpha"].values],
        columns=3,
    )


def _table(series: xr.Dataset, silent: xr.DataArray) -> Table:
    """Return exponents over all widths and between two, and how many outputs are dead."""
    ms = series["n_hidden"].values
    local = {name: -np.diff(np.log(series[name])) / np.diff(np.log(ms)) for name in ("published", "aligned")}
    shares = silent, series["silenced"] / series["published"]
    rows = [
        [f"{float(a):g}", *(f"{float(exponents(series[name].values[k], ms)):.3f}" for name in LOSSES)]
        + [f"{one:.2f}" for each in local.values() for one in each[k]]
        + [", ".join(f"{one:.0%}" for one in share.values[k]) for share in shares]
        for k, a in enumerate(series["alpha"].values)
    ]
    between = [f"m {x} to {y}" for x, y in itertools.pairwise(ms)]
    columns = ["alpha", *LOSSES, *(f"{name}, {one}" for name in local for one in between)]
    columns += [f"dead, m = {', '.join(str(m) for m in ms)}", "their share of the loss"]
    caption = (
        "Exponents of models trained as published, of those from aligned weights and biases of 0 with our "
        "rates, of the priority code, and of the proved bound."
    )
    return Table("Exponents at the source's settings", columns, rows, caption)


def _show(
    ds: xr.Dataset,
    aligned: xr.Dataset,
    wide: xr.Dataset,
    unbiased: xr.Dataset,
    weak: xr.Dataset,
    even: xr.Dataset,
) -> Shown:
    ms, size = ds["n_hidden"].values, int(ds.attrs["n_features"])
    series = series_of(ds, aligned)
    text = (
        f"At the settings of the source's public code (n = {size}, tied, decay "
        f"{float(ds['weight_decay'][0]):g}, {int(ds['steps'][-1])} steps of {ds.attrs['batch']}, first "
        f"weights and biases normal) the loss over m = {', '.join(str(m) for m in ms)} falls with the "
        "exponents of the table, by least squares; 1 is printed. The criteria were fixed before these runs; "
        "another seed had already been inspected at six of the nine settings."
    )
    share = (series["silenced"] / series["published"]).values
    headline = (
        f"Trained as their public code does, models of Liu et al. lose {span(share, '.0%')} of their loss at "
        "outputs that random initial biases made dead: the law 1/m of these runs counts them."
    )
    said = "\n\n".join((text, _silenced(ds, wide, unbiased), _shrunk(weak.squeeze(), even.squeeze())))
    return Shown(
        said,
        [_figure(series)],
        [_table(series, ds["silent"].squeeze(drop=True).transpose("alpha", "n_hidden"))],
        headline,
    )


def _cell(value: Any, digits: str = ".3g") -> str:
    """Return a number as text, a dash for what was not run."""
    return f"{float(value):{digits}}" if np.isfinite(float(value)) else "-"


def judge(
    ds: xr.Dataset,
    aligned: xr.Dataset,
    wide: xr.Dataset,
    unbiased: xr.Dataset,
    weak: xr.Dataset,
    even: xr.Dataset,
) -> list[Finding]:
    """Return what became of all that was asked of these runs; rows U3 and U4 judge the print by it."""
    drawn = series_of(ds, aligned)
    slopes = {name: exponents(drawn[name].values.T, ds["n_hidden"].values) for name in LOSSES}
    narrow = ds["lower"].isel(n_hidden=slice(1, None))
    return [
        NEAR_ONE.finding(np.abs(slopes["published"] - 1), origin=ds),
        NEAR_EXPONENT.finding(
            [np.abs(slopes[name] - slopes["code"]) for name in ("published", "aligned")], origin=(ds, aligned)
        ),
        LOWER.finding(narrow, origin=ds),
        UNHEARD.finding(ds["unheard"] / ds["loss"], origin=ds),
        UNHEARD_UNBIASED.finding(unbiased["unheard"] / unbiased["loss"], origin=unbiased),
        FLATTER.finding(last_exponent(ds, wide), origin=wide),
        NEAR_SUM.finding(off_sum(weak), origin=weak),
        NEAR_SUM_UNBIASED.finding(off_sum(even), origin=even),
    ]


def _show_decay(ds: xr.Dataset, free: xr.Dataset) -> Shown:
    rows = []
    for a in ds["alpha"].values:
        for decay in (*ds["weight_decay"].values, 0.0):
            source = ds.sel(weight_decay=decay) if decay else free.isel(weight_decay=0)
            at = source.sel(alpha=a, tied=1).isel(steps=-1)
            found = at["loss"].mean("seed").values
            local = -np.diff(np.log(found)) / np.diff(np.log(at["n_hidden"].values))
            cells = [_cell(value, ".2f") for value in local]
            rows.append([f"{a:g}", f"{decay:g}", *cells, span(at["long"].mean("seed"), ".2f")])
    ms = ds["n_hidden"].values
    text = (
        "In the source, a negative weight decay draws rows to length one, which fills the space, and a "
        "positive one shortens them. Exponents between neighbouring widths are not constant in either case, "
        f"with n = {ds.attrs['n_features']} and {int(ds['steps'][-1])} steps."
    )
    columns = [
        "alpha",
        "decay",
        *(f"m {x} to {y}" for x, y in itertools.pairwise(ms)),
        "long rows",
    ]
    caption = (
        "Tied models. Long rows: the share of features whose encoding is longer than 1/2, over the widths."
    )
    return Shown(text, (), [Table("Local exponents with weight decay", columns, rows, caption)])


_LENGTHY = (
    "20,000 steps amplify what processors round differently: of two the results differ by up to 16 % where "
    "rows shrink, and by 2 % elsewhere; the limits were chosen when that had been seen"
)
_DECAY = {"tied": [1], "weight_decay": [-1, 1], "steps": [4000], "seeds": [0]}
_PUBLIC = _DECAY | {"alpha": [0.5, 1, 1.5], "weight_decay": [-1], "n_hidden": [10, 32, 100]}
_PUBLIC |= {"n_features": 1000, "steps": [20_000], "batch": 2048, "seeds": [1]}
# Seed 1 was seen, at six of these places, when it was frozen what is asked of them.
_PUBLISHED = _PUBLIC | {"recipe": "source", "seeds": [2]}
_WEAK = _PUBLISHED | {"alpha": [1.5], "weight_decay": [1], "n_hidden": [10, 32]}
_FIRST = {"seconds": 7200.0, "part": exact(10, alpha=[1])} | by_alpha(0.5, 1, 1.5)


def _lengthy(n_hidden: int, tolerance: float) -> Part:
    return Part({"n_hidden": [n_hidden]}, (), tolerance, _LENGTHY)


_RUNS = {
    "published": trained("published", "Liu et al. as published, three widths", _PUBLISHED, **_FIRST),
    "public": trained("public", "Liu et al. from aligned weights", _PUBLIC, **_FIRST),
    "wide": trained(
        "wide",
        "and a wider model",
        _PUBLISHED | {"alpha": [1], "n_hidden": [320]},
        seconds=3600.0,
        part=_lengthy(320, 0.05),
    ),
    "unbiased": trained(
        "unbiased",
        "and first biases of 0",
        _PUBLISHED | {"alpha": [1], "n_hidden": [32, 100], "recipe": "unbiased"},
        seconds=2400.0,
        part=_lengthy(32, 0.05),
    ),
    **{
        name: trained(
            name,
            "Liu et al., rows that shrink",
            _WEAK | {"recipe": recipe},
            seconds=1200.0,
            part=_lengthy(10, 0.2),
        )
        for name, recipe in (("weak", "source"), ("weak_unbiased", "unbiased"))
    },
}
_WHOLE = {"alpha": [1], "n_hidden": [10, 15, 25, 39, 63, 100], "seeds": [0]}
STUDY = Section(
    "unequal",
    "The width law of Liu et al. (2025)",
    "",
    {
        "decay": trained("decay", f"{LAW}, weight decay", _DECAY, part=exact(3, weight_decay=[-1])),
        **_RUNS,
        "liu": trained("liu", "Liu et al. as published", _PUBLISHED | _WHOLE, seconds=7200.0),
    },
    [
        Topic("decay", ["decay", "width"], _show_decay, claims=["U3"]),
        Topic("public", list(_RUNS), _show, claims=["U3", "U4"], judge=judge),  # as the arguments of `_show`
    ],
)
