"""Whether the l1 objective wants the true dictionary, where features outnumber dimensions: problem O43.

An autoencoder with the columns q and -q of an orthonormal basis, and as encoder the same, rebuilds every
input exactly, and its l1 norm is that of the coordinates: nothing is recovered, all is dense.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes

from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features, parent_child
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ...runner.findings import Criterion, Finding, preregistered
from ..drawing import finish_axes, plot_function

Floats = npt.NDArray[np.floating[Any]]

# Definition 4.1 of the problem's agenda at epsilon = 0.05.
_RECOVERED = 0.95
_BATCH = 512
_RATE = 3e-3  # Adam's, falling to 0 linearly
_DECAYS = 0.9, 0.999
_ENCODER_BIAS = -0.3  # of the start at the true dictionary: it silences small interference
_KINDS = ("dense", "true, encoder trained", "trained from there", "trained from random")

PREFERRED = Criterion(
    "objective of the true dictionary, with its encoder trained, / dense", ">=", preregistered(1.0)
)
LEFT = Criterion(
    "share of features recovered after training from the true dictionary", "<", preregistered(1.0)
)


class _Weights(NamedTuple):
    """Weights of an autoencoder psi relu(W y + b), the columns of psi of length 1."""

    psi: Floats
    W: Floats
    b: Floats


def _gradient(at: _Weights, y: Floats, l1: float) -> tuple[float, _Weights]:
    """Return the mean of half the squared error plus `l1` times the l1 norm of the code, and its gradient.

    It is that of the autoencoder with the weights `at` on the activations y, (samples, dimensions).
    """
    code = np.maximum(y @ at.W.T + at.b, 0)
    error = code @ at.psi.T - y
    slope = (error @ at.psi + l1) * (code > 0) / len(y)
    value = (0.5 * float(np.sum(error**2)) + l1 * float(np.sum(code))) / len(y)
    return value, _Weights(error.T @ code / len(y), slope.T @ y, slope.sum(0))


def _train(at: _Weights, y: Floats, l1: float, steps: int, rng: np.random.Generator, free: bool) -> _Weights:
    """Return the weights after Adam on random batches of y; unless `free`, the dictionary psi stays.

    It starts `at` weights, for `steps` steps; `l1` is the strength of the l1 norm of the code.
    """
    first, second = ([np.zeros_like(part) for part in at] for _ in range(2))
    for step in range(1, steps + 1):
        _, gradient = _gradient(at, y[rng.integers(len(y), size=_BATCH)], l1)
        rate = _RATE * (1 - step / (steps + 1))
        parts = list(at)
        for k in range(0 if free else 1, 3):
            first[k] += (1 - _DECAYS[0]) * (gradient[k] - first[k])
            second[k] += (1 - _DECAYS[1]) * (gradient[k] ** 2 - second[k])
            spread = np.sqrt(second[k] / (1 - _DECAYS[1] ** step)) + 1e-8
            parts[k] = parts[k] - rate * (first[k] / (1 - _DECAYS[0] ** step)) / spread
        at = _Weights(parts[0] / np.linalg.norm(parts[0], axis=0), parts[1], parts[2])
    return at


def nested_law(n_features: int, nested: float, p: float) -> Features:
    """Return the law of pairs of features of which the share `nested` is nested, values uniform on [1, 2].

    There are `n_features`, on with probability p. In a nested pair the child is on only with its parent.
    """
    pairs = range(int(n_features // 2 * nested + 1e-9))
    groups = [parent_child(2 * pair, [2 * pair + 1], p, p) for pair in pairs]
    return Features(n_features, p, "uniform(0.5)", 2.0, groups=groups)


@as_annotated
def run_dense(
    nested: Sequence[float] = (0.0, 1.0), l1: Sequence[float] = (1e-3, 1e-2), *, n_hidden: int = 16,
    n_features: int = 64, p: float = 1 / 32, steps: int = 1000, samples: int = 2**13, seed: int = 0,
) -> xr.Dataset:  # fmt: skip
    """Return l1 objectives of a dense code, of the true dictionary, and of trained autoencoders.

    The dense code has the columns q and -q of an orthonormal basis: it rebuilds all and recovers no feature.
    Training starts from the true dictionary and from random weights.

    Parameters
    ----------
    nested : sequence of float
        Shares of the pairs of features that are nested: the child's indicator is the product of both.
    l1 : sequence of float
        Strengths of the penalty; half the squared error is penalised.
    n_hidden, n_features : int
        Dimensions, and features in random directions; there are as many latents as features.
    p : float
        Probability of each indicator.
    steps, samples, seed : int
        Steps of Adam, fixed samples of training (evaluation is on as many fresh ones), and the seed.

    Returns
    -------
    xarray.Dataset
        ``objective``, ``active`` (latents on at once) and ``recovered`` (share of features with an atom of
        cosine 0.95 or more), by kind, nested and l1.

    Examples
    --------
    >>> ds = run_dense([0.0], [1e-2], steps=1, samples=1000)
    >>> float(ds["recovered"].sel(kind="true, encoder trained").squeeze())
    1.0
    """
    d, n = validation.integers(n_hidden=(n_hidden, 1), n_features=(n_features, 2))
    validation.integers(steps=(steps, 1), samples=(samples, 1), seed=(seed, 0))
    shape = len(_KINDS), len(nested), len(l1)
    found = {name: np.empty(shape) for name in ("objective", "active", "recovered")}
    for i, share in enumerate(validation.real("nested", nested, 0, 1)):
        law, rng = nested_law(n, float(share), p), np.random.default_rng([seed, i])
        phi = rng.normal(size=(d, n)).astype(np.float32)
        phi /= np.linalg.norm(phi, axis=0)
        y, fresh = (law.sample(samples, rng).astype(np.float32) @ phi.T for _ in range(2))
        start = rng.normal(size=(d, n)).astype(np.float32)
        start /= np.linalg.norm(start, axis=0)
        basis = np.hstack([np.eye(d, dtype=np.float32), -np.eye(d, dtype=np.float32)])
        zero = np.zeros(n, np.float32)
        for j, strength in enumerate(validation.real("l1", l1, 0).astype(np.float32)):
            true = _train(_Weights(phi, phi.T, zero + _ENCODER_BIAS), y, strength, steps, rng, free=False)
            kinds = (
                _Weights(basis, basis.T, np.zeros(2 * d, np.float32)),
                true,
                _train(true, y, strength, steps, rng, free=True),
                _train(_Weights(start, start.T, zero), y, strength, steps, rng, free=True),
            )
            for k, at in enumerate(kinds):
                found["objective"][k, i, j] = _gradient(at, fresh, strength)[0]
                found["active"][k, i, j] = np.mean(np.sum(fresh @ at.W.T + at.b > 0, axis=1))
                found["recovered"][k, i, j] = np.mean(np.max(phi.T @ at.psi, axis=1) >= _RECOVERED)
    dims = "kind", "nested", "l1"
    return xr.Dataset(
        {name: (dims, values) for name, values in found.items()},
        {"kind": list(_KINDS), "nested": list(nested), "l1": list(l1)},
        {"n_hidden": d, "n_features": n, "p": float(p), "steps": int(steps), "samples": int(samples)},
    )


@plot_function
def plot_dense(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the objective over the penalty's strength, for each kind of autoencoder.

    `ds` is of `run_dense`; the least and the largest share of nested pairs are drawn.
    """
    for kind in ds["kind"].values.astype(str):
        for share, dash in zip(ds["nested"].values[[0, -1]], ("-", "--"), strict=True):
            at = ds["objective"].sel(kind=kind, nested=share)
            colour = f"C{_KINDS.index(kind)}"
            label = f"{kind}, nested {share:g}"
            ax.plot(at["l1"], at / at["l1"], dash, color=colour, marker=".", label=label)
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2, "fontsize": "small"}
    return finish_axes(ax, above, xscale="log", yscale="log", xlabel="l1", ylabel="objective / l1")


def _judge(ds: xr.Dataset) -> list[Finding]:
    """Return the findings on the criteria that were set before the run; `ds` is from `run_dense`."""
    objective, recovered = ds["objective"], ds["recovered"]
    ratio = objective.sel(kind=_KINDS[1], drop=True) / objective.sel(kind="dense", drop=True)
    return [PREFERRED.finding(ratio), LEFT.finding(recovered.sel(kind=_KINDS[2], drop=True))]


def _show_dense(ds: xr.Dataset) -> TopicContent:
    """Return the part "dense codes" of the report: its text and figure, from the dataset of its run."""
    objective, recovered, active = ds["objective"], ds["recovered"], ds["active"]
    ratio = objective.sel(kind=_KINDS[1]) / objective.sel(kind="dense")
    from_true, from_random = recovered.sel(kind=_KINDS[2]), recovered.sel(kind=_KINDS[3])
    text = (
        f"{ds.attrs['n_features']} features in {ds.attrs['n_hidden']} dimensions, each on with probability "
        f"{ds.attrs['p']:g}, values uniform on [1, 2], pairs nested or not: the data of problem O43. "
        "An orthonormal basis with its negatives rebuilds every input and recovers nothing. The true "
        "dictionary, with an encoder of one layer trained for it, costs "
        f"{float(ratio.min()):.3g} to {float(ratio.max()):.3g} times as much. Training on from there keeps "
        f"{float(from_true.min()):.2g} to {float(from_true.max()):.2g} of the features, and has "
        f"{float(active.sel(kind=_KINDS[2]).mean()):.3g} latents on at once; training from random atoms ends "
        f"with {float(from_random.max()):.2g} of them at most. With fewer latents than features none can "
        "recover all, by the definition; with more than the dense code needs, dead ones could hold the true "
        "dictionary at no cost."
    )
    caption = "Lines: least nested share; dashed: largest. The true dictionary has the best encoder found."
    figure = Figure("dense", "Dense codes cost less than the true dictionary", caption, ds, plot_dense)
    return TopicContent(text, [figure])


_FULL = {"l1": [1e-4, 1e-2], "n_hidden": 64, "n_features": 256, "steps": 2000, "samples": 2**15}
RUNS = {"dense": Run(run_dense, {"steps": 300}, full=_FULL, seconds=4.0)}
TOPICS = [Topic("dense codes", ["dense"], _show_dense, judge=_judge)]
