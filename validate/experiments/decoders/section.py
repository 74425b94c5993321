"""The part of the report on decoders."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.statistics import LEVEL, crossing, student
from ...runner.declarations import Figure, ReproductionCheck, Run, Section, Table, Topic, TopicContent, span
from ...runner.findings import Criterion, post_hoc, rounding
from ..drawing import draw_means, finish_axes, plot_function, size_axis
from .runs import run_map, run_passing, run_recovery, run_rugs
from .trained import run_trained

NAMES = {"affine": "affine", "soft": "soft threshold", "hard": "hard threshold", "relu": "ReLU"}
NAMES |= {"jumprelu": "JumpReLU", "topk": "TopK", "bayes": "Bayes", "iterated": "iterated"}
# Losses that differ by less are those of one decoder.
EQUAL = Criterion("ReLU over JumpReLU, less 1", "<", post_hoc(1e-6))
LOST = Criterion("error of state evolution", ">", rounding(1e-12))
FOLLOWED = Criterion("standard errors from state evolution", "<=", post_hoc(2))

TEXT = """
A feature that is stored in superposition is read through the interference of the others, which is Gaussian
where many are on. Which function of each output is then best? Given the noise, the least loss of any function
of one output is that of the posterior mean (Bayes). Thresholds and lines above them (ReLU, JumpReLU) are
optimised exactly, and TopK of many features is a JumpReLU. A decoder that sees all outputs can do more:
message passing decodes, estimates the interference that is left, and decodes again. State evolution says
what it attains, and from which ratio on it recovers every feature. Losses are per feature, at the least
interference that a linear projection can have.
"""


@plot_function
def plot_map(ds: xr.Dataset, ax: Axes, ratio: float = 0.25) -> Axes:
    """Draw the losses of decoders over that of Bayes against p, at one ratio; of `run_map`."""
    at = ds.sel(ratio=ratio, method="nearest")
    least = at["loss"].sel(decoder="bayes")
    for name in ("soft", "hard", "relu", "jumprelu"):
        ax.plot(ds["p"], at["loss"].sel(decoder=name) / least, ".-", label=NAMES[name])
    ax.plot(ds["p"], at["iterated"] / least, "k.:", label="iterated to its end")
    ax.set(xscale="log", xlabel="p", ylabel="loss / Bayes, one step", ylim=(-0.1, 4.1))
    return finish_axes(ax, title=f"ratio {float(at['ratio']):g}")


@plot_function
def plot_recovery_line(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the ratio from which on iteration recovers all features, and the least possible; of `run_map`."""
    p, line = ds["p"].values, ds["recovery"].values
    ax.fill_between(p, line, 1, color="C3", alpha=0.15, linewidth=0, label="all recovered by iteration")
    ax.plot(p, line, ".-", color="C3", label="message passing")
    ax.plot(p, p, "k--", label="ratio = p: no decoder below")
    ax.set(xscale="log", yscale="log", ylim=(p.min(), 1))
    return finish_axes(ax, "lower right", xlabel="p", ylabel="neurons per feature")


@plot_function
def plot_passing(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the errors of message passing after each step beside state evolution; of `run_passing`."""
    for i in range(ds.sizes["case"]):
        at = ds.isel(case=i)
        label = f"p = {float(at['p']):g}, ratio {float(at['ratio']):g}"
        ax.plot(ds["step"], at["law"], color=f"C{i}", linewidth=1, label=label)
        draw_means(ax, ds["step"].values, at["error"].transpose("step", "seed").values, color=f"C{i}", ms=3)
    return finish_axes(ax, yscale="log", xlabel="step", ylabel="loss per feature")


@plot_function
def plot_success(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of runs that recover all features around the line; of `run_recovery`."""
    for n in ds["n_features"].values:
        share = ds["recovered"].sel(n_features=n).mean("run")
        ax.plot(ds["around"], share, ".-", label=f"n = {n}")
    ax.axvline(1, color="0.5", linestyle="--", label="state evolution")
    return finish_axes(ax, xlabel="ratio / ratio of the line", ylabel="share of runs that recover all")


@plot_function
def plot_rugs(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the losses of the predicted decoders on rugs over the predicted ones; of `run_rugs`."""
    ratio = (ds["on_rug"] / ds["predicted"]).transpose("case", "decoder", "n_features", "seed")
    for i in range(ds.sizes["case"]):
        for marker, name in zip("os", ds["decoder"].values, strict=True):
            label = f"{NAMES[str(name)]}, p = {float(ds['p'][i]):g}"
            values = ratio.isel(case=i).sel(decoder=name).values
            draw_means(ax, ds["n_features"].values, values, color=f"C{i}", fmt=marker, ms=4, label=label)
    ax.axhline(1, color="0.5", linewidth=0.8)
    size_axis(ax, ds["n_features"])
    return finish_axes(ax, ylabel="loss on a rug / Gaussian limit")


def _show_map(ds: xr.Dataset) -> TopicContent:
    loss = ds["loss"]
    gain = loss.sel(decoder="relu") / loss.sel(decoder="jumprelu")
    most = gain.isel(gain.argmax(...))
    same = EQUAL.satisfied(gain - 1).values
    to_bayes = loss.sel(decoder="jumprelu") / loss.sel(decoder="bayes")
    recovered = (ds["iterated"] == 0).values
    text = (
        "ReLU is itself the best JumpReLU where features are not rare: a jump lowers the loss only below a "
        f"certain p, where the threshold moves abruptly. On this grid the two are the same at {same.sum()} "
        f"of {same.size} places, and ReLU loses {float(most):.2f} times as much at p = {float(most['p']):g}, "
        f"ratio {float(most['ratio']):g}. What JumpReLU loses to the posterior mean is a factor of "
        f"{span(to_bayes)}. As p falls at a fixed ratio JumpReLU and Bayes both tend to p sigma², ReLU to (1 "
        "+ t²/4) times that, t² = 2 log(1/p): no constant bounds what a better decoder gains. Iteration "
        f"recovers all features at {recovered.sum()} of {recovered.size} places, where the loss of every "
        "one-step decoder is positive."
    )
    shown = loss.to_dataset("decoder").assign(iterated=ds["iterated"])
    columns = {"p": "{p:g}", "ratio": "{ratio:g}"}
    columns |= {NAMES[str(name)]: f"{{{name}:.3g}}" for name in shown}
    caption = (
        "Loss per feature, errors below 1e-9 of each. TopK of many features is JumpReLU. 0: all recovered."
    )
    figure = Figure(
        "decoders",
        "What ReLU loses to a better decoder, and one step to iteration",
        "Left: losses over that of the best function of one output; 0 is exact recovery. Right: from which "
        "ratio on.",
        ds,
        (plot_map, plot_recovery_line),
    )
    headline = (
        f"A better decoder helps where features are rare: ReLU loses {float(most):.1f} times as much as "
        f"JumpReLU at p = {float(most['p']):g}, and iterated decoding recovers all features from a ratio "
        f"of {float(ds['recovery'].sel(p=0.05, method='nearest')):.2f} on at p = 0.05."
    )
    return TopicContent(
        text, [figure], [Table.formatted("Decoders over p and ratio", shown, columns, caption)], headline
    )


def _show_iteration(passing: xr.Dataset, recovery: xr.Dataset) -> TopicContent:
    deviation = (passing["error"].mean("seed") - passing["law"]) / (
        passing["error"].std("seed", ddof=1) / np.sqrt(passing.sizes["seed"])
    )
    seen = deviation.where(LOST.satisfied(passing["law"]))
    inside = int(FOLLOWED.satisfied(abs(seen)).sum())
    cross = []
    for n in recovery["n_features"].values:
        shares = recovery["recovered"].sel(n_features=n).transpose("around", "run").values
        place = crossing(recovery["around"].values, 0.5 - shares.T)
        cross.append(f"{place.value:.3f} ({place.low:.3f} to {place.high:.3f}, n = {n})")
    text = (
        f"Message passing on random rugs of {passing.attrs['n_features']} features follows its state "
        f"evolution: {inside} of {int(seen.notnull().sum())} mean errors are within two standard errors of "
        f"it, {passing.sizes['seed']} runs each. At p = {recovery.attrs['p']:g} it recovers all features in "
        f"half of the runs at the ratio of the line, {recovery.attrs['line']:.4f}, times {', '.join(cross)}."
    )
    followed = f"{passing.sizes['seed']} rugs each, means with {LEVEL:.0%} intervals; lines: state evolution."
    counted = f"{recovery.sizes['run']} rugs at each point, p = {recovery.attrs['p']:g}."
    figures = [
        Figure("passing", "Message passing and its state evolution", followed, passing, plot_passing),
        Figure("recovery", "Exact recovery sets in at the line", counted, recovery, plot_success),
    ]
    return TopicContent(text, figures)


def _show_rugs(ds: xr.Dataset) -> TopicContent:
    ratio = (ds["on_rug"] / ds["predicted"]).mean("seed")
    ends = [f"{span(ratio.sel(n_features=n), '.2f')} at n = {n}" for n in ds["n_features"].values]
    text = (
        "Interference is Gaussian only where many features are on. On random rugs the predicted decoders "
        f"lose more: {', '.join(ends)}, in units of the prediction. Few features on have heavy tails, "
        "which pass thresholds."
    )
    caption = (
        f"Means over {ds.sizes['seed']} rugs with {LEVEL:.0%} intervals; decoders as for Gaussian noise."
    )
    return TopicContent(text, [Figure("rugs", "From finite rugs to the limit", caption, ds, plot_rugs)])


def _show_trained(ds: xr.Dataset) -> TopicContent:
    short, long = (ds["trained"].isel(steps=k) for k in (0, -1))
    refit, rows = ds["refitted"], []
    for i, k in np.ndindex(ds.sizes["case"], ds.sizes["decoder"]):
        one = ds.isel(case=i, decoder=k)
        trained = one["trained"].transpose("steps", "seed").values
        samples = [trained[-1], *one["refitted"].transpose("output", "seed").values, one["on_rug"].values]
        cells = [f"{mean:.3g} ± {half:.1g}" for mean, half in map(student, samples)]
        place = [f"{float(one['p']):g}", f"{float(one['ratio']):g}", NAMES[str(one["decoder"].values)]]
        cells[1:1] = [f"{np.mean(trained[0] / trained[-1]):.2f}"]
        rows.append([*place, *cells, f"{float(one['predicted']):.3g}"])
    gaps = long.sel(decoder="relu") / long.sel(decoder="jumprelu")
    same_code = (refit.sel(output="relu") / refit.sel(output="jumprelu")).mean("seed")
    wanted = ds["predicted"].sel(decoder="relu") / ds["predicted"].sel(decoder="jumprelu")
    rug = ds["on_rug"].sel(decoder="relu") / ds["on_rug"].sel(decoder="jumprelu")
    missed_before, missed = (
        one.sel(decoder="jumprelu") / refit.sel(decoder="relu", output="jumprelu") for one in (short, long)
    )
    said, read, kept = [], [], []
    for i in range(ds.sizes["case"]):
        where = f"at p = {float(ds['p'][i]):g}, ratio {float(ds['ratio'][i]):g}"
        gap, fixed, miss = (student(one.isel(case=i)) for one in (gaps, rug, missed))
        said.append(
            f"{gap[0]:.3f} ± {gap[1]:.3f} (on rugs of this size {fixed[0]:.3f} ± {fixed[1]:.3f}, predicted "
            f"{float(wanted[i]):.3f}) {where}"
        )
        read.append(f"{span(same_code.isel(case=i), '.3f')} {where}")
        if miss[0] - miss[1] > 1:
            before = float(missed_before.isel(case=i).mean())
            kept.append(f"{miss[0]:.2f} times {where} ({before:.2f} after {int(ds['steps'][0])} steps)")
    text = (
        f"ReLU's loss over that of JumpReLU, both trained: {'; '.join(said)}. The prediction is for equal "
        "interference, and each of the models chooses its own. Which part of a gap is the decoder's is "
        "seen where the same pre-activations are read by the best ReLU and by the best JumpReLU, refitted "
        "for each output. Over the codes that the three trainings found the first loses as much as the "
        f"second, times {'; '.join(read)}. "
    )
    if kept:
        text += (
            "The rest is training: what a JumpReLU would lose on the code that was trained with ReLU, the "
            f"JumpReLU models lose {'; '.join(kept)}. So they are not at their minimum. ReLU is a JumpReLU "
            "with the threshold 0; straight-through steps raise the thresholds first, while the "
            "interference is still that of a rug, and what is below a threshold passes no slope that could "
            "make the code better. "
        )
    text += (
        "Where models lie below the prediction they have codes that are better than rugs (pairs and "
        "blocks); where rugs lie above it, few features are on and the interference is not Gaussian."
    )
    caption = (
        f"n = {ds.attrs['n_features']}, {ds.sizes['seed']} seeds, mean and {LEVEL:.0%} interval, after "
        f"{int(ds['steps'][-1])} steps; then the loss after {int(ds['steps'][0])} over it. Read by: the "
        "best decoder of each pre-activation of these models. On rugs: the predicted decoder. JumpReLU is "
        "trained with straight-through thresholds."
    )
    columns = (
        "p",
        "ratio",
        "output",
        "trained",
        "shorter",
        "read by ReLU",
        "by JumpReLU",
        "on rugs",
        "predicted",
    )
    return TopicContent(text, (), [Table("Trained models with other outputs", columns, rows, caption)])


_ROUNDED = (
    "processors round products of single precision differently, and 2000 steps amplify that; the limit was "
    "chosen when a difference of 2.3e-4 had been seen"
)
SECTION = Section(
    "decoders",
    "Decoders: what a better activation gains, and what iteration does",
    TEXT,
    {
        "map": Run(
            run_map,
            full={"p": np.geomspace(1e-6, 0.5, 20).tolist(), "ratio": np.geomspace(0.02, 0.8, 12).tolist()},
            seconds=20,
        ),
        "passing": Run(run_passing, full={"n_features": 2**16, "seeds": range(16)}, seconds=15),
        "recovery": Run(
            run_recovery,
            quick={"sizes": (256, 1024, 4096), "runs": 20},
            full={"sizes": (512, 2048, 8192, 32768), "runs": 64},
            seconds=10,
        ),
        "rugs": Run(run_rugs, full={"sizes": (128, 1024, 8192, 65536)}, seconds=10),
        "trained": Run.shipped(
            "decoders_trained",
            "JumpReLU and TopK against ReLU",
            run_trained,
            {
                "cases": [[0.01, 0.12], [0.01, 0.25], [0.1, 0.12], [0.1, 0.25]],
                "n_features": 128,
                "steps": [2000, 8000],
                "batch": 256,
                "seeds": [0, 1, 2, 3, 4],
            },
            torch=True,
            check=ReproductionCheck(
                {"cases": [[0.01, 0.12]], "steps": [2000]}, ["trained", "on_rug", "k"], 1e-3, _ROUNDED
            ),
        ),
    },
    [
        Topic("map", ["map"], _show_map, claims=["C23", "C25"]),
        Topic("iteration", ["passing", "recovery"], _show_iteration),
        Topic("rugs", ["rugs"], _show_rugs),
        Topic("trained", ["trained"], _show_trained),
    ],
)
