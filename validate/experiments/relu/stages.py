"""Stages of training of small ReLU models: plateaus at saddles, and the times at which the flow leaves."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers.loss import ToyLoss
from ....solvers.statistics import first_level
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.model import Model
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, ReproductionCheck, Run, Topic, TopicContent
from ...runner.findings import Criterion, Finding, preregistered
from ..drawing import finish_axes, plot_function

# Laws and numbers of neurons; importances fall.
MODELS = {
    "pair": (Features(2, 0.3, importance=[1.0, 0.5]), 1),
    "three": (Features(3, 0.3, importance=[1.0, 0.6, 0.25]), 2),
}
STAGES = 3  # of the largest model: as many as it has neurons, and the last one
# Where half of what a feature takes off the loss is gone: (1 - w^2)^2 = 1/2.
_HALF = 1.0 - np.sqrt(0.5)
# Time that is left for the last stage.
_LAST_STAGE = 700.0

# --- Fixed before the flow ran on these laws --------------------------------------------------------------

SLOPE = Criterion("|slope of measured on predicted escape times - 1|, largest", "<=", preregistered(0.01))
OFFSET = Criterion("|mean of measured / predicted escape times - 1|, largest", "<=", preregistered(0.02))
HEIGHT = Criterion("|loss halfway between escapes / height - 1|, largest mean", "<=", preregistered(0.02))
DRIVEN = Criterion("|time of the last stage / that of its path - 1|, mean", "<=", preregistered(0.02))
OPPOSITE = Criterion("share of pairs that end with opposite weights", ">=", preregistered(1.0))
CANARY = Criterion("permutations of rates that pass", "<=", preregistered(0.0))


def heights_and_rates(law: Features) -> tuple[FloatArray, FloatArray]:
    """Return (losses of the saddles, growth rates of the features), of shapes (n + 1,) and (n,).

    At saddle k the first k features have a hidden dimension each, and the others have encoding 0 and the mean
    as bias; losses are summed over features. Under the gradient flow of this loss a small encoding grows as
    exp(4 I v t), for the importance I and the variance v of its feature: to first order the outputs are
    affine.
    """
    saved = law.importance * (law.second_moment - law.mean**2)
    return np.append(np.cumsum(saved[::-1])[::-1], 0.0), 4.0 * saved


def predicted_times(start: FloatArray, rates: FloatArray) -> FloatArray:
    """Return the times (k, m) at which half of the loss of each of the first m features is gone.

    `start` are first weights (k, n, m), `rates` the features' growth rates (m,). Let w be the length of the
    part of a feature's encoding orthogonal to the encodings of the features before it. Then dw/dt = rate w (1
    - w^2), and the loss of the feature is proportional to (1 - w^2)^2.
    """
    residuals = np.diagonal(np.linalg.qr(start.mT)[1], axis1=-2, axis2=-1)[:, : rates.size] ** 2
    return np.asarray(np.log(_HALF / (1.0 - _HALF) * (1.0 / residuals - 1.0)) / (2.0 * rates))


def flow(toy: ToyLoss, weights: FloatArray, duration: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Return weights (k, size) after a gradient flow from `weights`, and losses on the way (steps + 1, k).

    `toy` returns loss and gradient per feature of k flat models at once; flow and losses are those of the sum
    over the n features. `duration` is the flow's time, in steps of length `step` of fourth-order Runge-Kutta.
    """
    n, losses = toy.n, []
    for _ in range(round(duration / step)):
        loss, gradient = toy(weights)
        losses.append(n * loss)
        slopes = [-n * gradient]
        for part in (0.5, 0.5, 1.0):
            slopes.append(-n * toy(weights + part * step * slopes[-1])[1])
        weights = weights + step / 6.0 * (slopes[0] + 2.0 * slopes[1] + 2.0 * slopes[2] + slopes[3])
    return weights, np.array([*losses, n * toy(weights)[0]])


def _padded(values: FloatArray) -> FloatArray:
    """Return a vector, with one value for each escape from a saddle, padded with nan to length three."""
    return np.pad(values, (0, STAGES - values.size), constant_values=np.nan)


def _escape_times(name: str, scales: FloatArray, seeds: Sequence[int], step: float) -> xr.Dataset:
    """Return the times at which gradient flow from small weights leaves each saddle, beside predicted times.

    `name` is "pair" (two features, one neuron) or "three" (three, two). Flows in steps of length `step` start
    from normal weights for each of `scales`, their standard deviations, and `seeds`. A saddle is a plateau of
    the loss, at which the next feature still has a small encoding.

    Of (scale, seed, stage): ``escape``, the time at which the loss is halfway between two saddles;
    ``predicted``, the time by `predicted_times`; ``plateau``, the loss halfway in time between escapes. Of
    (stage): ``height``, the loss of the saddle, and ``rate``, at which the next encoding grows. Of (scale,
    seed): ``opposite``, whether the first two weights end with opposite signs. ``path``: the time between
    both escapes of "pair" if only its first feature has a weight at the start.
    """
    law, m = MODELS[name]
    n, bias = law.n_features, law.mean
    heights, rates = heights_and_rates(law)
    first = np.array([np.random.default_rng([seed, n, m]).normal(size=(n, m)) for seed in seeds])
    start = (scales[:, None, None, None] * first).reshape(-1, n, m)
    predicted = np.full((len(start), STAGES), np.nan)
    predicted[:, :m] = predicted_times(start, rates[:m])
    # The last one never takes a dimension: its weight is 0, the smallest scale that of the first feature.
    lone = np.zeros((1, n, m))
    lone[0, 0, 0] = scales.min()
    every = np.concatenate([start, lone])
    toy = ToyLoss(Model(np.ones((m, n)), b=bias), law)
    weights = np.column_stack([every.mT.reshape(len(every), -1), np.tile(bias, (len(every), 1))])
    weights, losses = flow(toy, weights, float(predicted[:, :m].max()) + _LAST_STAGE, step)
    times = step * np.arange(len(losses))
    levels = np.append(heights[: m + 1], losses[-1].min())
    escapes = np.full((len(every), STAGES), np.nan)
    plateaus = np.full((len(every), STAGES), np.nan)
    for k in range(m + 1):
        middle = 0.5 * (levels[k] + levels[k + 1])
        escapes[:, k] = [first_level(times, -loss, -middle) for loss in losses.T]
        halfway = 0.5 * (escapes[:, k] + (escapes[:, k - 1] if k else 0.0))
        plateaus[:, k] = [np.interp(t, times, loss) for t, loss in zip(halfway, losses.T, strict=True)]
    shape = scales.size, len(seeds), STAGES
    dims = ("scale", "seed", "stage")
    columns = {
        "escape": (dims, escapes[:-1].reshape(shape)),
        "predicted": (dims, predicted.reshape(shape)),
        "plateau": (dims, plateaus[:-1].reshape(shape)),
        "height": ("stage", _padded(heights[: m + 1])),
        "rate": ("stage", _padded(rates[:m])),
        "opposite": (dims[:2], (weights[:-1, 0] * weights[:-1, 1] < 0.0).reshape(shape[:2])),
        "path": escapes[-1, 1] - escapes[-1, 0] if m == 1 else np.nan,
    }
    return xr.Dataset(columns)


@as_annotated
def run_stages(
    seeds: Sequence[int], scales: Sequence[float] = (1e-4, 1e-6, 1e-8), *, step: float = 0.25
) -> xr.Dataset:
    """Return measured and predicted times at which the gradient flow of two small models leaves saddles.

    Models ReLU(W W' x + b) start from small weights: "pair", two features on one hidden neuron, and "three",
    three on two; importances fall. At saddle k, a plateau of the loss, the first k features have a hidden
    dimension each and the others have encoding 0. Losses are summed over features.

    Parameters
    ----------
    seeds : sequence of int
        Seeds of the first weights, normal; first biases are the features' means.
    scales : sequence of float
        Standard deviations of the first weights, falling, in (0, 0.01].
    step : float
        Step of the flow's time, in (0, 0.5].

    Returns
    -------
    xarray.Dataset
        Of (model, scale, seed, stage), nan for stages that "pair" lacks: ``escape``, the time at which the
        loss is halfway from the height of a saddle to that of the next; ``predicted``, the time at which half
        of the next feature's loss is to be gone (`predicted_times`), nan where no feature takes a new
        dimension; and ``plateau``, the loss halfway in time between escapes. Of (model, stage): ``height``,
        the loss at the saddle, and ``rate``, at which a small encoding of the next feature grows, as exp(rate
        t). Of (model, scale, seed): ``opposite``, whether the first two features end with weights of opposite
        sign on the first neuron. Of (model): ``path``, the time between the two escapes of "pair" from a
        start where its second feature has weight 0; nan for "three".

    Examples
    --------
    >>> ds = run_stages([0], [1e-4], step=0.5)
    >>> (ds["escape"] / ds["predicted"]).sel(model="three").values.ravel().round(2)
    array([ 1.,  1., nan])
    """
    grid = validation.real("scales", validation.vector("scales", scales), 0.0, 0.01, brackets="(]")
    step = validation.number("step", step, 0.0, 0.5, brackets="(]")
    numbers = [validation.integer("seeds", seed, 0) for seed in seeds]
    ds = xr.concat([_escape_times(name, grid, numbers, step) for name in MODELS], "model", join="outer")
    return ds.assign_coords(model=list(MODELS), scale=grid, seed=numbers).assign_attrs(step=step)


def _escape_errors(ds: xr.Dataset, predicted: xr.DataArray) -> tuple[float, float]:
    """Return (largest |slope - 1|, largest |mean ratio - 1|) of measured against predicted escape times.

    Slopes are of lines fitted to measured against `predicted` times, ratios are measured / predicted; the
    largest are over models and stages. `ds` is from `run_stages`, whose ``predicted`` has the dimensions of
    `predicted`.
    """
    errors = []
    for name, (_, m) in MODELS.items():
        for stage in range(m):
            x, y = (a.sel(model=name).isel(stage=stage).values.ravel() for a in (predicted, ds["escape"]))
            errors.append((abs(np.polyfit(x, y, 1)[0] - 1.0), abs(np.mean(y / x) - 1.0)))
    slope, offset = np.max(errors, axis=0)
    return float(slope), float(offset)


def _permuted_that_pass(ds: xr.Dataset) -> int:
    """Return how many wrong predictions would pass both criteria on escape times: a test of the criteria.

    Wrong predictions use a model's growth rates in permuted order. They pass if lines of measured against
    predicted times have slopes within 0.01 of 1, and mean ratios are within 0.02. `ds` is from `run_stages`.
    """
    count = 0
    for name, (law, m) in MODELS.items():
        rates = heights_and_rates(law)[1]
        for order in itertools.permutations(range(rates.size)):
            if order != tuple(range(rates.size)):
                wrong = ds["predicted"].copy()
                factor = np.full(STAGES, np.nan)
                factor[:m] = rates[:m] / rates[list(order)][:m]
                wrong.loc[{"model": name}] = wrong.sel(model=name) * xr.DataArray(factor, dims="stage")
                slope, offset = _escape_errors(ds, wrong)
                count += bool(SLOPE.satisfied(slope) and OFFSET.satisfied(offset))
    return count


def _judge(ds: xr.Dataset) -> list[Finding]:
    """Return the findings on the criteria that were set before the run; `ds` is from `run_stages`.

    Criteria are on slope and mean ratio of measured against predicted escape times, (losses between escapes)
    / (losses of the saddles), (time of the last stage) / (time along its path), the share of pairs that end
    with opposite weights, and the number of wrong predictions that would pass.
    """
    slope, offset = _escape_errors(ds, ds["predicted"])
    small, last = ds.isel(scale=slice(1, None)), ds.isel(scale=-1).sel(model="pair")
    heights = abs(small["plateau"] / ds["height"] - 1.0).mean(["scale", "seed"])
    lasted = (last["escape"].isel(stage=1) - last["escape"].isel(stage=0)) / last["path"]
    return [
        SLOPE.finding(slope),
        OFFSET.finding(offset),
        HEIGHT.finding(heights.max()),
        DRIVEN.finding(abs(lasted - 1.0).mean()),
        OPPOSITE.finding(last["opposite"].mean()),
        CANARY.finding(_permuted_that_pass(ds)),
    ]


@plot_function
def plot_stages(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw measured against predicted escape times; `ds` is from `run_stages`."""
    for name, (_, m) in MODELS.items():
        for stage in range(m):
            at = ds.sel(model=name).isel(stage=stage)
            x, y = at["predicted"].values.ravel(), at["escape"].values.ravel()
            ax.plot(x, y, ".", ms=3, label=f"{name}, dimension {stage + 1}")
    ax.axline((0.0, 0.0), slope=1.0, color="k", lw=0.8)
    return finish_axes(ax, {"loc": "upper left"}, xlabel="predicted escape time", ylabel="measured")


def _show(ds: xr.Dataset) -> TopicContent:
    """Return text and figure of the report's part on stages of training; `ds` is from `run_stages`.

    The figure has the times at which the gradient flow leaves saddles against those predicted.
    """
    slope, offset = _escape_errors(ds, ds["predicted"])
    pair = ds.sel(model="pair")
    lasted = (pair["escape"].isel(stage=1) - pair["escape"].isel(stage=0)).mean("seed").values
    times = ", ".join(f"{t:.0f}" for t in lasted)
    scales = ", ".join(f"{scale:g}" for scale in ds["scale"].values)
    text = (
        "From small weights the flow visits saddles at which 0, 1, ... features have a hidden dimension "
        f"each. The times at which a feature takes a new one are log(scale)/rate, of {ds.sizes['seed']} "
        f"starts at {ds.sizes['scale']} scales to {offset:.1%} in the mean, with slopes 1 to {slope:.1e}. A "
        "feature that joins a dimension which another has takes a time that does not depend on the scale: in "
        f"pairs {times} at scales {scales}, and {float(pair['path']):.0f} where its first weight is 0."
    )
    figure = Figure("stages", "Escapes from saddles", "Points: starts at all scales.", ds, plot_stages)
    return TopicContent(text, [figure])


RUNS = {
    "stages": Run.shipped(
        "relu_stages",
        "when the flow of small ReLU models leaves its saddles",
        run_stages,
        {"seeds": list(range(100))},
        check=ReproductionCheck(
            {"seeds": [0, 1]}, ["escape", "predicted", "plateau"], 1e-6, "sums are ordered otherwise"
        ),
    )
}
TOPICS = [Topic("stages of training", ["stages"], _show, judge=_judge)]
