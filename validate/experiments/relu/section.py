"""The part of the report on the ReLU output model."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ....solvers.relu import PHASES
from ....solvers.statistics import LEVEL, share
from ....theory.relu import onset_importance
from ...runner.declarations import Figure, Run, Section, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, post_hoc, rounding
from . import plots
from .phases import MODELS, run_phases
from .polygons import run_polygons
from .sphere import run_thomson
from .trained import SAME, run_trained, trained_loss
from .truncation import run_truncation

TOGETHER = Criterion("|loss that a model settles at / that of the flow - 1|", "<=", post_hoc(SAME))
CROWDED = Criterion("energy of an arrangement on the sphere", ">", rounding(1e-9))

TEXT = """
The loss of the ReLU output model is a mixture over how many features are on, and each class has a closed
form, so small models can be solved without sampling and without training. Everything below is on those exact
losses, except for the models that are trained. Losses are per feature unless said otherwise.
"""


def _show_phases(ds: xr.Dataset) -> TopicContent:
    said = ["Two features in one dimension."]
    excess = ds["pattern_loss"] / ds["loss"] - 1.0
    differs = (ds["pattern"] != ds["phase"]).mean(["p", "importance"])
    for model, name in enumerate(MODELS):
        one = ds.isel(model=model)
        parts = [f"{phase} in {float((one['phase'] == k).mean()):.3g}" for k, phase in enumerate(PHASES)]
        said.append(
            f"With {name}, of the cells of a grid: {', '.join(parts)}. At equal importance an antipodal pair "
            f"of equal norms is best up to p = {float(one['symmetric_until']):.4f}. The best of four "
            f"patterns picked by hand with fixed biases names another phase in {float(differs[model]):.3g} "
            f"of the cells, and its loss is up to {float(excess[model].max()):.1%} above the least."
        )
    gap = float((1.0 - ds["point_lower"] / ds["point_loss"]).max())
    headline = (
        "Two features in one dimension are solved for all densities and importances, with lower bounds by "
        f"branch and bound (in double precision) within {gap:.1%} at {ds.sizes['point']} points of each "
        f"kind: the best of four patterns picked by hand names another phase in {float(differs[0]):.1%} of "
        f"the cells, and loses up to {float(excess[0].max()):.1%} more."
    )
    solved, missed = (
        [partial(draw, model=model) for model in range(len(MODELS))]
        for draw in (plots.plot_phases, plots.plot_pattern_excess)
    )
    of_phases = (
        "Exact minima over encodings and biases; the first feature has importance 1. Dots: where the best "
        "model jumps, and where a dropped feature enters continuously. The paler a colour, the shorter one "
        "encoding is than the other."
    )
    of_patterns = (
        "Loss of the best of four patterns, encodings (1, 0), (0, 1), (1, -1) and (1, 1) with fixed biases, "
        "above the least loss. Hatched: where it belongs to another phase."
    )
    figures = [
        Figure("phases", "Two features in one dimension: the best models", of_phases, ds, solved),
        Figure("patterns", "What is missed by comparing patterns picked by hand", of_patterns, ds, missed),
    ]
    points = ds[[name for name in ds if str(name).startswith("point_")]]
    columns = {
        "model": "{model}",
        "p": "{point_p}",
        "importance": "{point_importance}",
        "least loss found": "{point_loss:.6g}",
        "lower bound": "{point_lower:.6g}",
        "gap": "{gap:.3%}",
        "boxes": "{point_boxes}",
    }
    caption = (
        f"Branch and bound in double precision over all models, to a relative gap of {ds.attrs['gap']:g}."
    )
    shown = points.assign(gap=1.0 - ds["point_lower"] / ds["point_loss"])
    certificates = Table.formatted("Lower bounds", shown, columns, caption)
    return TopicContent(" ".join([*said, _entrance(ds)]), figures, [certificates], headline)


def _entrance(ds: xr.Dataset) -> str:
    """Say how a dropped feature enters as it becomes important, and compare with the closed form."""
    mine = ds.isel(transition=ds["transition_model"].values == 0)
    p, jumps, before, after = (mine[name].values for name in ("transition_p", "is_jump", "before", "after"))
    enters = (before == 0) & (after == 2)
    smooth, inside = enters & ~jumps, (before == after) & jumps
    text = (
        f"With free biases the transition into superposition, located at {enters.sum()} values of p, is a "
        f"jump at {(enters & jumps).sum()}."
    )
    if smooth.any():
        off = np.abs(mine["transition_importance"].values[smooth] / onset_importance(p[smooth], -1) - 1.0)
        text += (
            f" From p = {span(p[smooth], '.2f')} it is continuous; the closed form has it to {off.max():.0e}."
        )
    if inside.any():
        text += (
            f" From p = {p[inside].min():.2f} on the encodings also jump within the antipodal phase, from a "
            "weakly stored second feature to a strongly stored one, or, at equal importances, as the "
            "features exchange their roles."
        )
    return text


def _show_polygons(ds: xr.Dataset) -> TopicContent:
    best = ds["saved"].values.argmax(axis=0)
    names = [str(name) for name in ds["arrangement"].values]
    crossings = (ds[f"crossing_{name}"].values for name in ("below", "above", "p"))
    never = ", ".join(name for k, name in enumerate(names) if k not in best) or "none"
    changes = [f"{low} to {high} at p = {at:.3f}" for low, high, at in zip(*crossings, strict=True)]
    text = (
        f"Many features in two dimensions. Of the regular arrangements compared, from p = {span(ds['p'])} "
        f"the one that saves most changes from {', '.join(changes) or 'none'}; never the best: {never}."
    )
    frame = pd.DataFrame(
        {
            "p": [f"{p:g}" for p in ds["p"].values],
            "best arrangement": [names[k] for k in best],
            "saves": [f"{saved:.4f}" for saved in ds["saved"].values.max(axis=0)],
            **{f"best of {int(n)} features": ds["shape"].sel(n_features=n) for n in ds["n_features"]},
        }
    )
    caption = (
        "What is saved is counted in losses of a dropped feature, p/3 - p²/4. The best models of few "
        f"features are the least of {ds.attrs['starts']} random and all structured starts on the exact loss."
    )
    table = Table.of("The best models in two dimensions", frame, caption)
    title = "Regular arrangements in two dimensions"
    caption = (
        "Loss saved by the best norm and bias of each; vertical lines where the winner changes. Markers: the "
        "best models found of a given number of features, which may be irregular and may drop some."
    )
    figure = Figure("polygons", title, caption, ds, plots.plot_polygons, size=(7.0, 3.6))
    return TopicContent(text, [figure], [table])


def _show_classes(ds: xr.Dataset) -> TopicContent:
    rug = ds.sel(kind="Persian rug").transpose("on", ...)
    pairs = span(ds["share"].sel(kind="antipodal pairs"), ".6f")
    factors = [f"{span(one['share'] / one['given_on'])} at {on:g}" for on, one in rug.groupby("on")]
    costs = zip(ds["small"].values, ds["regret"].values, strict=True)
    regrets = [f"{span(cost, '.1e')} ({name})" for name, cost in costs]
    text = (
        "May inputs with two or more features on be ignored? That they are rare is not enough. Below twice "
        "as many features as dimensions there are many models without any loss on the other inputs, and then "
        "the rare ones decide; beyond, the loss on the others is positive.\n\nIn antipodal pairs their share "
        f"of the loss is {pairs}. In Persian rugs it is this multiple of their share of the inputs that are "
        f"not zero, by D (1 - S): {'; '.join(factors)}. A small model chosen by its loss without them (the "
        "worst of the minimisers found) is worse than the best, relative to its loss, by "
        f"{'; '.join(regrets)}, for p from {span(ds['small_p'])}."
    )
    rarest = rug.isel(on=0)
    headline = (
        "Rare inputs may still decide: those with two or more features on make all of an antipodal pair's "
        f"loss (share {pairs}), and in a Persian rug {span(rarest['share'] / rarest['given_on'])} times "
        f"their share of the inputs, where {float(rarest['on']):g} features are on."
    )
    caption = (
        "Left: their share of the exact loss. Right: what it costs to choose a model without them: the loss "
        f"of the worst minimiser of the truncated loss from {ds.attrs['starts']} starts above the least one."
    )
    panels = (plots.plot_shares, plots.plot_cost)
    figure = Figure("truncation", "Ignoring inputs with two or more features on", caption, ds, panels)
    return TopicContent(text, [figure], [_share_table(ds)], headline)


def _share_table(ds: xr.Dataset) -> Table:
    rug, pairs = (ds.sel(kind=kind, drop=True) for kind in ("Persian rug", "antipodal pairs"))
    shown = ds[["probability", "given_on", "worst"]].transpose("n_features", "on")
    shown = shown.assign(rug=rug["share"], rug_bound=rug["bound"], pairs=pairs["share"])
    columns = {
        "D": "{n_features}",
        "S": "{off:.6g}",
        "D (1 - S)": "{on:g}",
        "probability": "{probability:.3g}",
        "given that one is on": "{given_on:.3g}",
        "rug: share of the loss": "{rug:.3g}",
        "rug: bound": "{rug_bound:.3g}",
        "pairs: share": "{pairs:.3g}",
        "bound for all models": "{worst:.3g}",
    }
    return Table.formatted(
        "Inputs with two or more features on, against D and S",
        shown.assign(off=1 - ds["on"] / ds["n_features"]),
        columns,
        f"Rugs with n_hidden/n_features = {ds.attrs['ratio']:g} and the best scale and bias. Bounds are "
        "those of `relu.dropped_bound`, from the weights; and, over the loss of the zero model, for any "
        "encodings of length up to 1 without positive biases.",
    )


def _show_sphere(ds: xr.Dataset) -> TopicContent:
    crowded = ds.isel(size=CROWDED.satisfied(ds["energy"].values))
    alike = [
        int(((crowded["sphere"] == crowded[name]) & (crowded[kept] == crowded["n_features"])).sum())
        for name, kept in (("without_bias", "unbiased_kept"), ("with_bias", "biased_kept"))
    ]
    count = crowded.sizes["size"]
    text = (
        f"The sphere picture (unit lengths, no bias, one feature on at a time). Of {ds.sizes['size']} sizes "
        f"{ds.sizes['size'] - count} have energy 0. Of the {count} others, the minimiser of L_1 without bias "
        f"has an arrangement of the same name in {alike[0]}, the one with biases in {alike[1]}, and its loss "
        f"is {span(crowded['biased'] / crowded['unit'])} times that of the picture."
    )
    columns = {
        "size": "{size}",
        "sphere": "{sphere}",
        "unit lengths": "{unit:.4f}",
        "common length": "{common:.4f}",
        "no bias": "{unbiased:.4f}",
        "biases": "{biased:.4f}",
        "minimiser without bias": "{without_bias}, {unbiased_kept} kept",
        "minimiser with biases": "{with_bias}, {biased_kept} kept",
    }
    caption = (
        f"Losses L_1, summed over features. All are the least of {ds.attrs['starts']} random starts (in two "
        "dimensions also of the regular polygon): upper bounds. “k in r” is an arrangement without a name."
    )
    title = "The sphere picture and true minimisers of the loss with one feature on"
    table = Table.formatted(title, ds, columns, caption)
    caption = "Loss with one feature on, over that of the model that represents nothing."
    panels = [partial(plots.plot_thomson, n_hidden=int(m)) for m in np.unique(ds["n_hidden"].values)]
    figure = Figure("sphere", "The sphere picture", caption, ds, panels)
    return TopicContent(text, [figure], [table])


def _show_trained(ds: xr.Dataset) -> TopicContent:
    runs = ds.sizes["run"]
    settled, flow = trained_loss(ds, "settled"), trained_loss(ds, "flow")
    same = TOGETHER.satisfied(abs(ds["settled"] / ds["flow"] - 1.0))
    rows, agree = [], []
    for case, name in product(ds["case"].values, ds["optimiser"].values):
        one, at = ds.sel(case=case, optimiser=name), {"case": case, "optimiser": name}
        hit, least = settled.sel(at).values, float(one["least"])
        together = share(int(same.sel(at).sum()), runs)
        above = span(one["trained"][hit] / least - 1.0, ".1e") if hit.any() else "–"
        agree.append((together.value, f"{together:.2f} ({name}; {case})"))
        rows.append(
            {
                "model": str(case),
                "optimiser": str(name),
                "least loss": f"{least:.6g}",
                "loss above it, relative": above,
                "ends in the global minimum": f"{share(int(hit.sum()), runs):.2f}",
                "gradient flow does": f"{share(int(flow.sel(case=case).sum()), runs):.2f}",
                "same minimum as the flow": f"{together:.2f}",
            }
        )
    below = float((ds["settled"] / ds["least"]).min()) - 1.0
    text = (
        f"Training on samples, {runs} seeds each. The least loss of a minimum that a model settles in, over "
        f"the exact minimum, is 1 {below:+.0e}. The share of seeds whose model ends in the minimum of "
        f"gradient flow on the exact loss from the same first encodings is from {min(agree)[1]} to "
        f"{max(agree)[1]}. Where the two differ, the optimiser or the noise of its samples has made the "
        "choice, as all else is the same."
    )
    caption = (
        f"{ds.attrs['steps']} steps on {ds.attrs['batch']} fresh samples each, learning rate falling to 0, "
        f"first encodings normal with standard deviation {ds.attrs['init_std']:g}, biases 0. Exact losses of "
        "the trained weights, smallest to largest over the seeds that end in the global minimum. Shares with "
        f"exact intervals at {LEVEL:.0%}."
    )
    table = Table.of("Trained small models beside the exact minimisers", pd.DataFrame(rows), caption)
    caption = (
        "Left: exact loss of each trained model over the least one, beside the ends of gradient flow on the "
        f"exact loss. Right: shares that reach the global minimum, exact {LEVEL:.0%} intervals."
    )
    panels = (partial(plots.plot_excess, optimiser=str(ds["optimiser"].values[0])), plots.plot_reached)
    figure = Figure("trained", "Small models: trained, and exact", caption, ds, panels)
    return TopicContent(text, [figure], [table])


FINE = np.geomspace(0.003, 0.95, 25).round(4).tolist()
SMALL = ((3, 1), (3, 2), (4, 2), (5, 2), (6, 2), (6, 3), (7, 3))
CASES = ((2, 1, 0.1), (2, 1, 0.4), (3, 2, 0.1), (3, 2, 0.5), (5, 2, 0.05), (5, 2, 0.3))
QUICK: dict[str, dict[str, Any]] = {
    "phases": {"transitions": 5},
    "polygons": {"p": (0.03, 0.1, 0.2, 0.4, 0.6, 0.8), "k": (3, 5, 6), "n_features": (3, 5), "starts": 2},
    "truncation": {"small": ((3, 1), (3, 2), (5, 2)), "small_p": (0.003, 0.01, 0.1), "starts": 4},
    "thomson": {"sizes": [*((n, 2) for n in range(3, 9)), *((n, 3) for n in range(6, 10))], "starts": 6},
    "trained": {"cases": ((2, 1, 0.1), (3, 2, 0.5), (5, 2, 0.3)), "seeds": 20, "steps": 500},
}
FEW = {"small": SMALL, "small_p": (0.003, 0.01, 0.03, 0.1), "starts": 24}
FULL: dict[str, dict[str, Any]] = {
    "phases": {"size": 100, "transitions": 40, "gap": 1e-3},
    "polygons": {"p": FINE, "k": range(3, 11), "n_features": (3, 4, 5, 6, 7), "starts": 12},
    "truncation": {"n_features": (16, 64, 256), **FEW},
    "thomson": {"sizes": [(n, m) for m in (2, 3, 4) for n in range(m + 1, 13)], "starts": 48},
    "trained": {"cases": CASES, "seeds": 400, "steps": 4000, "batch": 512},
}
SPLIT: dict[str, Any] = {"split_by": "cases", "concat_dim": "case", "torch": True}
SECTION = Section(
    "relu",
    "The ReLU output model",
    TEXT,
    {
        "phases": Run(run_phases, QUICK["phases"], FULL["phases"], seconds=8),
        "polygons": Run(run_polygons, QUICK["polygons"], FULL["polygons"], seconds=6),
        "truncation": Run(run_truncation, QUICK["truncation"], FULL["truncation"], seconds=6),
        "thomson": Run(run_thomson, QUICK["thomson"], FULL["thomson"], seconds=10),
        "trained": Run(run_trained, QUICK["trained"], FULL["trained"], seconds=8, **SPLIT),
    },
    [
        Topic("two features in one dimension", ["phases"], _show_phases, claims=["E7"]),
        Topic("polygons", ["polygons"], _show_polygons, claims=["E9"]),
        Topic("classes of inputs", ["truncation"], _show_classes, ["B7", "B14", "E3", "E4", "E5", "E6"]),
        Topic("the sphere", ["thomson"], _show_sphere, claims=["B15", "E8"]),
        Topic("training", ["trained"], _show_trained),
    ],
)
