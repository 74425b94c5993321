"""Where training ends: small networks by the exact gradient, over naive ones."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.optimize import minimize

from ....solvers.computation import best_network, network_loss
from ....theory.annotations import as_annotated
from ....theory.computation import loss_lower_bound, target_moments
from ....theory.features import Features
from ....theory.model import Model
from ....theory.validation import FloatArray
from ...runner.declarations import Figure, Run, Table, Topic, TopicContent, from_rows, span
from ...runner.findings import Criterion, Finding, derived, preregistered, rounding
from ..drawing import finish_axes, plot_function
from .fans import label_lower_bound
from .gain_map import LOSS_ERROR

# Fixed before any network was trained, with the places.
ABOVE = Criterion("loss less the lower bound, with its error", ">=", derived(0))
NEAR = Criterion("|loss / naive - 1|", "<=", preregistered(1e-3))
BELOW = Criterion("loss / naive - 1", "<", rounding(-1e-9))
HALF_NEAR = Criterion(f"share of seeds within {NEAR:g} of naive, first place", ">=", preregistered(0.5))
HALF_BELOW = Criterion("share of seeds below naive, second and third place", ">=", preregistered(0.5))
ONE_BELOW = Criterion("seeds below naive, fourth place", ">=", preregistered(1))

TrainingCase = tuple[str, bool, int, int, float]  # target, output bias, n_features, n_hidden and p
TRAINING_CASES: tuple[TrainingCase, ...] = (
    ("relu", True, 3, 2, 0.1),
    ("relu", False, 3, 2, 0.1),
    ("relu", False, 2, 1, 1.0),
    ("abs", True, 3, 3, 0.01),
)


def _train_network(case: TrainingCase, seed: int, steps: int) -> dict[str, float]:
    """Train a network with ReLU neurons to compute a target, ReLU(x) or |x| of each feature.

    `case` is (target, whether outputs have a bias, n_features, n_hidden, p). `seed` fixes the first weights;
    training takes at most `steps` of L-BFGS. Return by name: the exact "loss" per feature and its "error",
    both divided by p; "gradient", the largest |entry| of the loss's gradient over the mean square of the
    targets; and "dead", the number of neurons that no input turns on.
    """
    target, bias, F, n, p = case
    law, rng = Features(F, p, "symmetric"), np.random.default_rng([seed, F, n])
    sizes = ((n, F), (n,), (F, n), (F if bias else 0,))
    ends = np.cumsum([int(np.prod(size)) for size in sizes])[:-1]
    scale = float(target_moments(law, target).second.diagonal().mean())

    def model(z: FloatArray) -> Model:
        """Return the network of a flat vector of parameters, z."""
        U, b, V, c = (part.reshape(size) for part, size in zip(np.split(z, ends), sizes, strict=True))
        return Model(U, b_in=b, hidden="relu", W_out=V, b=c if bias else 0.0, output="identity")

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        """Return loss and flat gradient at parameters z, divided by the mean square of the targets."""
        result = network_loss(model(z), law, target, gradient=True)
        gradient = result.gradient or {}
        names = ("W_in", "b_in", "W_out", "b")[: 4 if bias else 3]
        return result.loss / scale, np.concatenate([gradient[name].ravel() for name in names]) / scale

    widths = [np.sqrt(6 / F), 0.01, np.sqrt(6 / n), 0.01]
    z = np.concatenate([w * rng.uniform(-1, 1, size).ravel() for w, size in zip(widths, sizes, strict=True)])
    end = minimize(
        value,
        z,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 4 * steps, "ftol": 1e-15, "gtol": 1e-9},
    )
    network = model(end.x)
    result = network_loss(network, law, target)
    return {
        "loss": result.loss / p,
        "error": result.error_estimate / p,
        "gradient": float(np.abs(end.jac).max()),
        "dead": int((network.b_in + np.abs(network.W_in).sum(axis=1) <= 0).sum()),
    }


@as_annotated
def run_trained(
    places: Sequence[TrainingCase] = TRAINING_CASES,
    *,
    seeds: Sequence[int] = range(20),
    steps: int = 2000,
) -> xr.Dataset:
    """Train all weights and biases by the exact gradient until it vanishes, from the usual random weights.

    First weights are uniform, of variance 2 over the number of inputs of a neuron (Kaiming). First biases are
    uniform on [-0.01, 0.01], as a hidden bias of 0 is a kink. Steps are those of L-BFGS.

    Parameters
    ----------
    places : sequence of (target, bias, n_features, n_hidden, p)
        The target is "relu" or "abs", the bias whether outputs have one; at most 5 features.
    seeds : sequence of int
    steps : int
        Most steps; a run ends earlier if the gradient is 1e-9 of the mean square of the targets.

    Returns
    -------
    xarray.Dataset
        Of (place, seed): the exact ``loss``, its ``error``, the largest entry of the ``gradient``, and
        ``dead``, the number of neurons that no input turns on. Of (place): ``lower_bound`` and ``naive``, of
        neurons that serve one feature each. Losses are per feature over p.

    Examples
    --------
    >>> ds = run_trained([("relu", True, 2, 1, 0.5)], seeds=[0], steps=100)
    >>> bool((ds["loss"] >= ds["lower_bound"] - ds["error"]).all())
    True
    """
    rows = [_train_network(case, seed, steps) for case, seed in itertools.product(places, seeds)]
    references = []
    for target, bias, F, n, p in places:
        law = Features(F, p, "symmetric")
        naive = best_network(law, n, target, bias=bias, starts=1, steps=1, rng=0).naive
        lower_bound = loss_lower_bound(law, n, target, bias=bias)
        references.append({"lower_bound": lower_bound / p, "naive": naive / p})
    ds = from_rows(rows, place=len(places), seed=list(seeds))
    ds = ds.merge(from_rows(references, place=len(places)))
    names = [f"{t}{'' if bias else ' without bias'}, {F} on {n}, p = {p:g}" for t, bias, F, n, p in places]
    return ds.assign_coords(name=("place", names))


@plot_function
def plot_trained(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw losses of trained networks over the naive loss, one column for each case.

    A case (``place``) is a target, whether outputs have a bias, the sizes, and p. `ds` is from `run_trained`.
    """
    for i in range(ds.sizes["place"]):
        at = ds.isel(place=i)
        ax.plot(np.full(at.sizes["seed"], i), at["loss"] / at["naive"], "o", color=f"C{i}", ms=3, alpha=0.6)
        ax.plot([i - 0.3, i + 0.3], [at["lower_bound"] / at["naive"]] * 2, "k-", linewidth=1)
    ax.axhline(1, color="0.5", linewidth=0.8)
    ax.set_xticks(range(ds.sizes["place"]), [str(k + 1) for k in range(ds.sizes["place"])])
    label_lower_bound(ax, -0.3, float((ds["lower_bound"] / ds["naive"]).isel(place=0)))
    return finish_axes(ax, None, xlabel="place", ylabel="loss / naive")


def judge_trained(ds: xr.Dataset) -> list[Finding]:
    """Return findings on the criteria of trained networks; `ds` is from `run_trained` at its four cases.

    Losses have small errors and are not below the lower bound. At least half of the runs end within 1e-3 of
    the naive loss at the first case, and below it at the second and third; at least one run ends below it at
    the fourth.
    """
    excess = (ds["loss"] / ds["naive"] - 1).transpose("place", "seed").values
    near, below = NEAR.satisfied(np.abs(excess)), BELOW.satisfied(excess)
    return [
        LOSS_ERROR.finding(ds["error"]),
        ABOVE.finding(ds["loss"] - ds["lower_bound"] + ds["error"]),
        HALF_NEAR.finding(near[:1].mean(axis=1)),
        HALF_BELOW.finding(below[1:3].mean(axis=1)),
        ONE_BELOW.finding(below[3:].sum(axis=1)),
    ]


def _show_trained(ds: xr.Dataset) -> TopicContent:
    """Return text, figure and table of the report's part "trained", from `ds` of `run_trained`.

    The figure has the loss of each trained network over the naive loss, by case. The table has the number of
    runs at and below the naive loss, the least and median ratio to it, and the lower bound's ratio.
    """
    ratio, rows = ds["loss"] / ds["naive"], []
    for i, name in enumerate(ds["name"].values):
        at = ratio.isel(place=i).values
        n_below, n_near = int(BELOW.satisfied(at - 1).sum()), int(NEAR.satisfied(np.abs(at - 1)).sum())
        losses = (at.min(), np.median(at), float(ds["lower_bound"][i] / ds["naive"][i]))
        rows.append([i + 1, str(name), at.size, n_near, n_below, *(f"{loss:.3f}" for loss in losses)])
    n_dead = [str(int(count)) for count in (ds["dead"] > 0).sum("seed")]
    text = (
        "All weights and biases, trained by the exact gradient with L-BFGS from random weights. Places and "
        f"criteria were fixed before. {rows[0][3]} of {rows[0][2]} seeds end at the naive loss at the first "
        f"place, and below it {', '.join(f'{row[4]} of {row[2]}' for row in rows[1:])} at the others. Runs "
        f"with a neuron that no input turns on: {', '.join(n_dead)}. Gradients at the ends are at "
        f"most {span(ds['gradient'].max('seed'), '.0e')} at the places, of the mean square of the targets."
    )
    columns = ("place", "network", "seeds", "at naive", "below it", "least / naive", "median", "lower bound")
    caption = "Each dot is a seed."
    return TopicContent(
        text,
        [Figure("trained", "Where training ends", caption, ds, plot_trained)],
        [Table("Trained networks over naive ones", columns, rows)],
    )


RUNS = {"trained": Run(run_trained, quick={"seeds": range(4)}, full={"seeds": range(20)}, seconds=40.0)}
TOPICS = [Topic("trained", ["trained"], _show_trained, judge=judge_trained)]
