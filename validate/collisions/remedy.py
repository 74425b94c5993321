"""The remedy of Lecomte et al. (2024), §5: split each polysemantic neuron in two, perturb, train on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from scipy import stats

from ...theory import arguments
from ...theory.collisions.splitting import separated_share
from ..drawing import check_axes
from .counts import ON, ZERO
from .training import train_l1

__all__ = ["REMEDY", "Split", "outcomes", "plot_outcomes", "plot_remedy", "run_remedy", "split_neurons"]

PROTOCOLS = ("tied", "untied")
OUTCOMES = ("apart", "together", "undecided", "lost")
# Arguments of a run of some seconds, and of one of minutes.
REMEDY: dict[str, dict[str, Any]] = {
    "quick": {"n_features": 16, "n_hidden": 16, "lam": (0.16,), "eps": (1e-3, 1e-2, 1e-1)},
    "full": {
        "n_features": 64,
        "n_hidden": 64,
        "lam": (0.02, 0.08, 0.2),
        "eps": (1e-4, 1e-3, 1e-2, 1e-1),
        "seeds": range(64),
        "times": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0),
    },
}
# Of the printed loss, as in training from random weights: perturbations interfere among all features.
RATE = 0.05

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Encoder and decoder after a split, and which pairs of features were to be parted.

    ``encoder``, ``decoder``: (n_features, wider) arrays, the same array if the protocol is "tied"; the second
    copies are the last columns. ``pairs``: (split neurons, 2) features that shared the neuron. ``copies``:
    (split neurons, 2) columns of the two copies.
    """

    encoder: Array
    decoder: Array
    pairs: npt.NDArray[np.int64]
    copies: npt.NDArray[np.int64]


def split_neurons(
    W: npt.ArrayLike,
    eps: float,
    rng: np.random.Generator | int,
    *,
    protocol: str = "tied",
    correlation: float = 0.0,
    threshold: float = ON,
) -> Split:
    r"""Duplicate every neuron that holds two features, and perturb the incoming weights of the copies.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings, one a row. Not modified.
    eps : float
        Standard deviation of the normal noise on every incoming weight of every copy, not negative.
    rng : Generator or int
    protocol : {"tied", "untied"}
        "untied" is the source's: incoming weights are copied and outgoing ones divided by 2, which needs a
        decoder of its own. Tied weights are both at once: divided by sqrt(2) on each copy they leave the
        function as it is (halved, they would halve the output: two copies of a quarter of the product).
    correlation : float
        Correlation in [0, 1] of the noise on the incoming weights of one copy; 1 shifts them all alike.
    threshold : float
        As in `collision_counts`. Neurons that hold three or more features are left alone.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Lecomte et al. (2024), §5.

    Examples
    --------
    >>> found = split_neurons([[1.0, 0.0], [-1.0, 0.0]], 0.0, 0)
    >>> found.encoder.round(3).tolist(), found.pairs.tolist(), found.copies.tolist()
    ([[0.707, 0.0, 0.707], [-0.707, 0.0, -0.707]], [[0, 1]], [[0, 2]])
    """
    W = arguments.matrix("W", W)
    eps = float(arguments.real("eps", eps, 0))
    rho = float(arguments.real("correlation", correlation, 0, 1))
    protocol = arguments.choice("protocol", protocol, PROTOCOLS)
    threshold = float(arguments.real("threshold", threshold, 0, 1, brackets="()"))
    rng = np.random.default_rng(rng)
    holds = np.abs(W) > threshold
    neurons = np.flatnonzero(holds.sum(axis=0) == 2)
    pairs = np.array([np.flatnonzero(holds[:, k]) for k in neurons], dtype=np.int64).reshape(-1, 2)
    copies = np.stack([neurons, W.shape[1] + np.arange(neurons.size)], axis=1)
    incoming, outgoing = (np.sqrt(0.5), np.sqrt(0.5)) if protocol == "tied" else (1.0, 0.5)
    encoder, decoder = (np.hstack([W, W[:, neurons]]) for _ in range(2))
    for column in copies.ravel():
        shared, own = rng.standard_normal(), rng.standard_normal(W.shape[0])
        encoder[:, column] = incoming * encoder[:, column] + eps * (
            np.sqrt(rho) * shared + np.sqrt(1 - rho) * own
        )
        decoder[:, column] *= outgoing
    return Split(encoder, encoder if protocol == "tied" else decoder, pairs, copies)


def outcomes(W: npt.ArrayLike, pairs: npt.ArrayLike, copies: npt.ArrayLike) -> dict[str, int]:
    """Count what became of split neurons.

    Parameters
    ----------
    W : (n_features, n_hidden) array_like of float
        Encodings after training on, one a row.
    pairs, copies : (any, 2) array_like of int
        As in `Split`.

    Returns
    -------
    dict of str to int
        A feature has decided when one copy holds it (weight above `ON`) and the other is below `ZERO`.
        ``apart``, ``together``: both features have decided, for different copies or for the same.
        ``undecided``: at least one has both copies above `ZERO`. ``lost``: at least one is held by neither
        copy, or the run has diverged (NaN).

    Examples
    --------
    >>> outcomes([[1.0, 0.0], [0.0, -1.0]], [[0, 1]], [[0, 1]])
    {'apart': 1, 'together': 0, 'undecided': 0, 'lost': 0}
    """
    W = np.asarray(W, dtype=np.float64)
    found = dict.fromkeys(OUTCOMES, 0)
    for features, columns in zip(np.asarray(pairs), np.asarray(copies), strict=True):
        size = np.abs(W[np.ix_(features, columns)])
        big, small = size.max(axis=1), size.min(axis=1)
        if np.any(small >= ZERO):
            found["undecided"] += 1
        elif not np.all(big > ON):
            found["lost"] += 1
        else:
            first, second = size.argmax(axis=1)
            found["apart" if first != second else "together"] += 1
    return found


def run_remedy(
    n_features: int = 16,
    n_hidden: int = 16,
    lam: Sequence[float] = (0.04, 0.16),
    eps: Sequence[float] = (1e-3, 1e-2, 1e-1),
    seeds: Sequence[int] = tuple(range(24)),
    *,
    protocol: str = "tied",
    correlation: float = 0.0,
    regularised: bool = True,
    times: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
    before: float = 8.0,
    device: str = "auto",
) -> xr.Dataset:
    r"""Train, split every polysemantic neuron, train on, and count how many pairs of features part.

    Parameters
    ----------
    n_features, n_hidden : int
        Sizes of the model; see `train_l1`.
    lam : sequence of float
        l1 strengths of the printed loss, positive.
    eps : sequence of float
        Sizes of the perturbation, positive.
    seeds : sequence of int
        Runs at each l1 strength; the same trained models are split for every eps.
    protocol : {"tied", "untied"}
        As in `split_neurons`. Models are trained tied; after an "untied" split encoder and decoder go on
        separately, from equal weights, with the l1 term on both, as in the authors' code.
    correlation : float
        As in `split_neurons`.
    regularised : bool
        Whether the l1 term stays on after the split.
    times : increasing sequence of float
        When to count, in units of 1/lam_normal since the split.
    before : float
        Length of the training before the split, in the same units.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Dimensions ``lam``, ``eps``, ``time``. ``pairs`` (lam): neurons that were split. Of (lam, eps, time):
        the counts of `outcomes`, the ``share`` that parted with its exact (Clopper and Pearson) 95 %
        interval ``low``, ``high``, and ``predicted`` and ``predicted_together``, the shares that
        `separated_share` gives for tied weights. Shares are NaN where no neuron was split.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] Lecomte et al. (2024), §5.

    Examples
    --------
    >>> ds = run_remedy(8, 8, [0.2], [0.05], range(8), times=[6.0], device="cpu")
    >>> bool(ds.apart[0, 0, 0] + ds.together[0, 0, 0] > 0.8 * ds.pairs[0])
    True
    """
    protocol = arguments.choice("protocol", protocol, PROTOCOLS)
    lams = arguments.real("lam", arguments.vector("lam", lam), 0, brackets="()")
    sizes = arguments.real("eps", arguments.vector("eps", eps), 0, brackets="()")
    clock = arguments.real("times", arguments.vector("times", times), 0, brackets="()")
    before = float(arguments.real("before", before, 0, brackets="()"))
    seeds = list(seeds)
    shape = (lams.size, sizes.size, clock.size)
    counts = {name: np.zeros(shape, dtype=np.int64) for name in OUTCOMES}
    pairs = np.zeros(lams.size, dtype=np.int64)
    predicted, predicted_together = np.full(shape, np.nan), np.full(shape, np.nan)
    for i, strength in enumerate(lams):
        # One step is 4 * RATE * lam / 4 units of time, tied; untied weights have half the gradient.
        first = round(before / (RATE * strength))
        trained = train_l1(
            n_features,
            n_hidden,
            strength,
            seeds,
            learning_rate=RATE,
            steps=first,
            device=device,
            keep_weights=True,
        )["W"].values[0]
        splits = [
            split_neurons(
                W, size, np.random.default_rng([seed, i, k]), protocol=protocol, correlation=correlation
            )
            for k, size in enumerate(sizes)
            for seed, W in zip(seeds, trained, strict=True)
        ]
        pairs[i] = sum(split.pairs.shape[0] for split in splits[: len(seeds)])
        stops = np.maximum(np.round(clock / (RATE * strength)), 1).astype(int)
        after = _train_on(splits, strength if regularised else 0.0, np.unique(stops), protocol, device)
        for j, stop in enumerate(stops):
            for number, split in enumerate(splits):
                found = outcomes(after[int(stop)][number], split.pairs, split.copies)
                for name, count in found.items():
                    counts[name][i, number // len(seeds), j] += count
        for k, size in enumerate(sizes):
            t = clock / (strength / 4)
            found_share = separated_share(t, strength / 4, size, correlation=correlation, left=ZERO)
            predicted[i, k], predicted_together[i, k] = found_share
    axes = ("lam", "eps", "time")
    low, high, share = _intervals(counts["apart"], np.broadcast_to(pairs[:, None, None], shape))
    return xr.Dataset(
        {
            "pairs": ("lam", pairs),
            **{name: (axes, value) for name, value in counts.items()},
            "share": (axes, share),
            "low": (axes, low),
            "high": (axes, high),
            "predicted": (axes, predicted),
            "predicted_together": (axes, predicted_together),
        },
        {"lam": lams, "eps": sizes, "time": clock},
        {
            "n_features": n_features,
            "n_hidden": n_hidden,
            "runs": len(seeds),
            "protocol": protocol,
            "correlation": correlation,
            "regularised": int(regularised),
        },
    )


def _train_on(
    splits: Sequence[Split], lam: float, stops: npt.NDArray[np.int64], protocol: str, device: str
) -> dict[int, Array]:
    """Train all splits on, side by side; narrower ones are padded with neurons that stay at zero."""
    width = max(split.encoder.shape[1] for split in splits)

    def stacked(parts: Sequence[Array]) -> Array:
        return np.stack([np.pad(W, ((0, 0), (0, width - W.shape[1]))) for W in parts])

    tied = protocol == "tied"
    found = train_l1(
        splits[0].encoder.shape[0],
        width,
        # Untied weights share the gradient: half the l1 strength and twice the rate give the same flow.
        lam if tied else lam / 2,
        [0] * len(splits),
        learning_rate=RATE if tied else 2 * RATE,
        steps=stops.tolist(),
        tied=tied,
        penalty="weights",
        start=stacked([split.encoder for split in splits]),
        start_decoder=None if tied else stacked([split.decoder for split in splits]),
        device=device,
        keep_weights=True,
    )
    if tied:
        W = found["W"].values
    else:
        E, D = found["encoder"].values, found["decoder"].values
        W = np.sign(E) * np.sqrt(np.maximum(E * D, 0))
    return dict(zip(stops.tolist(), W.astype(float), strict=True))


def _intervals(hits: npt.NDArray[np.int64], trials: npt.NDArray[np.int64]) -> tuple[Array, Array, Array]:
    low, high, share = (np.full(hits.shape, np.nan) for _ in range(3))
    for place in np.ndindex(hits.shape):
        if trials[place]:
            test = stats.binomtest(int(hits[place]), int(trials[place]))
            low[place], high[place] = test.proportion_ci(0.95, method="exact")
            share[place] = test.statistic
    return low, high, share


def plot_remedy(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the share of split neurons whose features parted, against time: markers with exact 95 % intervals.

    The lines are the parameter-free prediction for tied weights, one for each size of the perturbation.
    """
    check_axes(ax)
    fine = np.linspace(0.0, 1.05 * float(ds["time"].max()), 200)
    for k, size in enumerate(ds["eps"].values):
        colour = f"C{k % 10}"
        line, _ = separated_share(fine, 1.0, size, correlation=ds.attrs["correlation"], left=ZERO)
        ax.plot(fine, line, color=colour, label=f"perturbation {size:g}")
        for i, strength in enumerate(ds["lam"].values):
            some = ds.isel(lam=i, eps=k)
            shift = 0.1 * (i - (ds.sizes["lam"] - 1) / 2)  # side by side, so that bars do not overlap
            ax.errorbar(
                some["time"] + shift,
                some["share"],
                [some["share"] - some["low"], some["high"] - some["share"]],
                fmt="osD^v"[i % 5],
                color=colour,
                markersize=3,
                elinewidth=0.8,
                label=f"λ = {strength:g}, exact 95 % interval" if k == 0 else None,
            )
    ax.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    ax.set(xlabel="time since the split × λ/4", ylabel="share of pairs parted", ylim=(-0.03, 1.2))
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    # No share is above 1: room for the legend.
    ax.legend(loc="upper left")
    return ax


def plot_outcomes(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw what had become of split neurons at the last time: a bar of shares for each lam and eps."""
    check_axes(ax)
    end = ds.isel(time=-1)
    shares = {name: (end[name] / end["pairs"]).values.ravel() for name in OUTCOMES}
    place, below = np.arange(shares["apart"].size), np.zeros(shares["apart"].size)
    for name, colour in zip(OUTCOMES, ("C1", "C5", "0.8", "C2"), strict=True):
        ax.bar(place, shares[name], 0.8, below, color=colour, label=name)
        below = below + shares[name]
    groups = [f"\nλ = {lam:g}" if k == 0 else "" for lam in ds["lam"].values for k in range(ds.sizes["eps"])]
    marks = [
        f"{eps:g}{group}" for eps, group in zip(list(ds["eps"].values) * ds.sizes["lam"], groups, strict=True)
    ]
    ax.set_xticks(place, marks, fontsize="small")
    ax.set_axisbelow(True)
    ax.set(xlabel="perturbation, for each λ", ylabel="share of split neurons", ylim=(0, 1.15))
    ax.legend(loc="upper center", ncols=len(OUTCOMES))
    return ax
