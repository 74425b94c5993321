"""What polygons, classes of inputs, the sphere picture and training say: text, figures, tables."""

from functools import partial

import numpy as np
import xarray as xr

from ..experiment import Figure, Table
from .pair_findings import Part, listed, percent
from .polygons import plot_polygons
from .sphere import plot_thomson
from .trained import LEVEL, plot_excess, plot_reached, reached, share
from .truncation import plot_cost, plot_shares

__all__ = ["polygons_part", "sphere_part", "trained_part", "truncation_part"]

# --- Polygons ----------------------------------------------------------------------------------------------


def polygons_part(ds: xr.Dataset) -> Part:
    """Return text, figures and tables of `run_polygons`."""
    winners = [str(ds["arrangement"].values[k]) for k in ds["saved"].values.argmax(axis=0)]
    changes = [
        f"{low} to {high} at p = {at:.3f}"
        for at, low, high in zip(
            *(ds[f"crossing_{name}"].values for name in ("p", "below", "above")), strict=True
        )
    ]
    never = [str(name) for name in ds["arrangement"].values if str(name) not in winners]
    low, high = float(ds["p"][0]), float(ds["p"][-1])
    said = (
        f"Many features in two dimensions. Of the regular arrangements compared, from p = {low:g} to "
        f"{high:g} the one that saves most changes from {listed(changes)}; never the best: {listed(never)}."
    )
    rows = [
        [f"{p:g}", winners[j], f"{float(ds['saved'].values[:, j].max()):.4f}"]
        + [str(shape) for shape in ds["shape"].values[:, j]]
        for j, p in enumerate(ds["p"].values)
    ]
    table = Table(
        "The best models in two dimensions",
        ("p", "best arrangement", "saves", *(f"best of {n} features" for n in ds["n_features"].values)),
        rows,
        "What is saved is counted in losses of a dropped feature, p/3 - p²/4. The best models of few "
        f"features are the least of {ds.attrs['starts']} random and all structured starts on the exact loss.",
    )
    figure = Figure(
        "polygons",
        "Regular arrangements in two dimensions",
        "Loss saved by the best norm and bias of each; vertical lines where the winner changes. Markers: the "
        "best models found of a given number of features, which may be irregular and may drop some.",
        ds,
        plot_polygons,
        size=(7.0, 3.6),
    )
    return said, [figure], [table]


# --- Classes of inputs -------------------------------------------------------------------------------------


def truncation_part(ds: xr.Dataset) -> Part:
    """Return text, figures and tables of `run_truncation`."""
    rug = ds.sel(kind="Persian rug")
    rare = ds["on"].values <= 0.1
    said = [
        "May inputs with two or more features on be ignored? That they are rare is not enough. Up to twice "
        "as many features as dimensions there are models without any loss on the other inputs, and then the "
        "rare ones decide; beyond, the loss on the others is positive."
    ]
    if rare.any():
        factor = (rug["share"] / rug["given_on"]).values[:, rare]
        said.append(
            f"In Persian rugs, where D (1 - S) is at most 0.1, their share of the loss is {factor.min():.1f} "
            f"to {factor.max():.1f} times their share of the inputs that are not zero: "
            + "; ".join(
                f"{percent(float(shares.min()))} to {percent(float(shares.max()))} at {on:g}"
                for on, shares in zip(ds["on"].values[rare], rug["share"].values[:, rare].T, strict=True)
            )
            + "."
        )
    pairs = ds["share"].sel(kind="antipodal pairs").values
    said.append(
        f"In antipodal pairs their share of the loss is {pairs.min():.6f} to {pairs.max():.6f}, however rare "
        "they are."
    )
    worst = [
        f"{name}: {float(regret.min()):.1e} to {float(regret.max()):.1e}"
        for name, regret in zip(ds["small"].values, ds["regret"].values, strict=True)
    ]
    said.append(
        "A small model chosen by its loss without them (the worst of the minimisers found) has a loss above "
        f"the best by, relative, {listed(worst)}, for p from {float(ds['small_p'].min()):g} to "
        f"{float(ds['small_p'].max()):g}."
    )
    rows: list[list[object]] = []
    for j, n in enumerate(ds["n_features"].values):
        for k, count in enumerate(ds["on"].values):
            one = ds.isel(n_features=j, on=k)
            rows.append(
                [
                    int(n),
                    f"{1 - count / n:.6g}",
                    f"{count:g}",
                    f"{float(one['probability']):.2e}",
                    f"{float(one['given_on']):.2e}",
                    f"{float(one['share'].sel(kind='Persian rug')):.3g}",
                    f"{float(one['bound'].sel(kind='Persian rug')):.3g}",
                    f"{float(one['share'].sel(kind='antipodal pairs')):.3g}",
                    f"{float(one['worst']):.3g}",
                ]
            )
    shares = Table(
        "Inputs with two or more features on, against D and S",
        (
            "D",
            "S",
            "D (1 - S)",
            "probability",
            "given that one is on",
            "rug: share of the loss",
            "rug: bound",
            "pairs: share",
            "bound for all models",
        ),
        rows,
        f"Rugs with n_hidden/n_features = {ds.attrs['ratio']:g} and the best scale and bias. Bounds are "
        "rigorous: from the weights; and, over the loss of the zero model, for any encodings of length up to "
        "1 without positive biases.",
    )
    costs = [
        [
            str(ds["small"].values[i]),
            f"{p:g}",
            *(f"{float(ds[name][i, k]):.3g}" for name in ("small_given_on", "small_share", "small_left_out")),
            f"{float(ds['regret'][i, k]):.2e}",
        ]
        for i in range(ds.sizes["small"])
        for k, p in enumerate(ds["small_p"].values)
    ]
    cost = Table(
        "What ignoring them costs",
        (
            "model",
            "p",
            "share of inputs not 0",
            "share of the loss",
            "bound on what is left out",
            "loss above best",
        ),
        costs,
        "Features in dimensions. Share of the loss: at the best model. The bound is that at the minimiser of "
        "the truncated loss, over the least loss. The last column is relative, of the worst minimiser of the "
        f"truncated loss from {ds.attrs['starts']} starts.",
    )
    figure = Figure(
        "truncation",
        "Ignoring inputs with two or more features on",
        "Left: their share of the exact loss. Right: what it costs to choose a model without them.",
        ds,
        (plot_shares, plot_cost),
    )
    return " ".join(said), [figure], [shares, cost]


# --- The sphere picture ------------------------------------------------------------------------------------


def sphere_part(ds: xr.Dataset) -> Part:
    """Return text, figures and tables of `run_thomson`."""
    crowded = ds["energy"].values > 1e-9
    gain = (ds["biased"] / ds["unit"]).values[crowded]
    same = (ds["sphere"] == ds["without_bias"]).values & (ds["unbiased_kept"] == ds["n_features"]).values
    biased = (ds["sphere"] == ds["with_bias"]).values & (ds["biased_kept"] == ds["n_features"]).values
    alike, alike_biased = int((same & crowded).sum()), int((biased & crowded).sum())
    said = [
        "The sphere picture (unit lengths, no bias, one feature on at a time).",
        f"Of {ds.sizes['size']} sizes {int((~crowded).sum())} have energy 0.",
        f"Of the {int(crowded.sum())} others, the minimiser of L_1 without bias has an arrangement of the "
        f"same name in {alike}, the one with biases in {alike_biased}, and its loss is {gain.min():.3f} to "
        f"{gain.max():.3f} times that of the picture.",
    ]
    wrong = [
        f"{name}, p = {p:g}: {int(ds['full_kept'][i, j])} kept, {ds['full_name'].values[i, j]!s}"
        for i, name in enumerate(ds["full"].values)
        for j, p in enumerate(ds["p"].values)
    ]
    said.append(f"Minimisers of the full loss: {'; '.join(wrong)}.")
    rows = [
        [
            str(ds["size"].values[k]),
            str(ds["sphere"].values[k]),
            *(f"{float(ds[name][k]):.4f}" for name in ("unit", "common", "unbiased", "biased")),
            f"{ds['without_bias'].values[k]!s}, {int(ds['unbiased_kept'][k])} kept",
            f"{ds['with_bias'].values[k]!s}, {int(ds['biased_kept'][k])} kept",
        ]
        for k in range(ds.sizes["size"])
    ]
    table = Table(
        "The sphere picture and true minimisers of the loss with one feature on",
        (
            "size",
            "sphere",
            "unit lengths",
            "common length",
            "no bias",
            "biases",
            "minimiser without bias",
            "minimiser with biases",
        ),
        rows,
        f"Losses L_1, summed over features. All are the least of {ds.attrs['starts']} random starts (in two "
        "dimensions also of the regular polygon): upper bounds. “k in r” is an arrangement without a name.",
    )
    widths = np.unique(ds["n_hidden"].values)
    figure = Figure(
        "sphere",
        "The sphere picture",
        "Loss with one feature on, over that of the model that represents nothing.",
        ds,
        tuple(partial(plot_thomson, n_hidden=int(m)) for m in widths),
    )
    return " ".join(said), [figure], [table]


# --- Training ----------------------------------------------------------------------------------------------


def trained_part(ds: xr.Dataset) -> Part:
    """Return text, figures and tables of `run_trained`."""
    runs = ds.sizes["run"]
    settled, flow = reached(ds, "settled"), reached(ds, "flow")
    rows: list[list[object]] = []
    agree = []
    for i, case in enumerate(ds["case"].values):
        for name in ds["optimiser"].values:
            hit = settled.isel(case=i).sel(optimiser=name).values
            excess = ds["trained"].isel(case=i).sel(optimiser=name).values[hit] / float(ds["least"][i]) - 1.0
            same = np.isclose(
                ds["settled"].isel(case=i).sel(optimiser=name).values,
                ds["flow"].isel(case=i).values,
                rtol=1e-5,
            )
            agree.append((float(same.mean()), str(name), str(case)))
            error = f"{excess.mean():.2e} ± {excess.std(ddof=1) / hit.sum() ** 0.5:.0e}"
            rows.append(
                [
                    str(case),
                    str(name),
                    f"{float(ds['least'][i]):.6g}",
                    error if hit.sum() > 1 else "–",
                    _share(int(hit.sum()), runs),
                    _share(int(flow.isel(case=i).sum()), runs),
                    _share(int(same.sum()), runs),
                ]
            )
    below = float((ds["settled"] / ds["least"]).min()) - 1.0
    least, most = min(agree), max(agree)
    said = (
        f"Training on samples, {runs} seeds each. "
        + (
            "No model settles below the exact minimum"
            if below > -1e-7
            else f"A model settles below the minimum of the solver by {percent(-below)}"
        )
        + f" (least loss over it: 1 {below:+.0e}). The minimum that a model ends in is that of gradient flow "
        f"on the exact loss from the same first encodings in {percent(least[0])} ({least[1]}; {least[2]}) to "
        f"{percent(most[0])} ({most[1]}; {most[2]}) of the seeds. Where the two differ, the optimiser or the "
        "noise of its samples has made the choice, as all else is the same."
    )
    table = Table(
        "Trained small models beside the exact minimisers",
        (
            "model",
            "optimiser",
            "least loss",
            "loss above it, relative",
            "ends in the global minimum",
            "gradient flow does",
            "same minimum as the flow",
        ),
        rows,
        f"{ds.attrs['steps']} steps on {ds.attrs['batch']} fresh samples each, learning rate falling to 0, "
        f"first encodings normal with standard deviation {ds.attrs['init_std']:g}, biases 0. Exact losses of "
        "the trained weights; mean ± standard error over the seeds that end in the global minimum. Shares "
        f"with {LEVEL:.0%} Wilson intervals.",
    )
    names = [str(name) for name in ds["optimiser"].values]
    figure = Figure(
        "trained",
        "Small models: trained, and exact",
        "Left: exact loss of each trained model over the least one, beside the ends of gradient flow on the "
        f"exact loss. Right: shares that reach the global minimum, {LEVEL:.0%} intervals.",
        ds,
        (partial(plot_excess, optimiser=names[0]), plot_reached),
    )
    return said, [figure], [table]


def _share(hits: int, runs: int) -> str:
    mean, low, high = share(hits, runs)
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"
