"""The remedy of Lecomte et al. (2024), §5: split each polysemantic neuron in two, perturb, train on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ...theory import arguments
from ...theory.collisions.splitting import separated_share
from .counts import ON, ZERO
from .training import merged, train_l1

__all__ = ["OUTCOMES", "VARIANTS", "Split", "outcomes", "run_remedy", "run_variants", "split_neurons"]

PROTOCOLS = ("tied", "untied")
OUTCOMES = ("apart", "together", "undecided", "lost")
# Ways to split, as options of `run_remedy`. The source's loss has the l1 term on activations: after an untied
# split it acts on the encoder. The authors' code has it on the weights of both.
VARIANTS: dict[str, dict[str, Any]] = {
    "tied weights": {},
    "as proposed: untied, outgoing weights halved": {"protocol": "untied", "penalty": "activations"},
    "the same, l1 term on encoder and decoder": {"protocol": "untied"},
    "one shift for all incoming weights of a copy": {"correlation": 1.0},
    "no l1 term after the split": {"regularised": False},
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
    penalty: str = "weights",
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
        separately.
    correlation : float
        As in `split_neurons`.
    regularised : bool
        Whether the l1 term stays on after the split.
    penalty : {"activations", "weights"}
        What it acts on after an "untied" split: on the encoder alone, as in the source's loss, or on both, as
        in the authors' code.
    times : increasing sequence of float
        When to count, in units of 1/lam_normal since the split.
    before : float
        Length of the training before the split, in the same units.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        Dimensions ``lam``, ``eps``, ``time``. ``pairs`` (lam): neurons that were split. Of (lam, eps, time):
        the counts of `outcomes`, and ``predicted`` and ``predicted_together``, the shares that
        `separated_share` gives for tied weights.

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
    rows = []
    for i, strength in enumerate(map(float, lams)):
        # One step is 4 * RATE * lam / 4 units of time, tied; untied weights have half the gradient.
        options: dict[str, Any] = {"learning_rate": RATE, "steps": round(before / (RATE * strength))}
        options |= {"device": device, "keep_weights": True}
        trained = train_l1(n_features, n_hidden, strength, seeds, **options)["W"].values[0]
        stops = np.maximum(np.round(clock / (RATE * strength)), 1).astype(int)
        columns = []
        for k, size in enumerate(map(float, sizes)):
            rngs = [np.random.default_rng([seed, i, k]) for seed in seeds]
            splits = [
                split_neurons(W, size, rng, protocol=protocol, correlation=correlation)
                for W, rng in zip(trained, rngs, strict=True)
            ]
            after = _train_on(
                splits, strength if regularised else 0.0, np.unique(stops), protocol, penalty, device
            )
            found = [
                [outcomes(W, s.pairs, s.copies) for W, s in zip(after[int(stop)], splits, strict=True)]
                for stop in stops
            ]
            counts = {name: ("time", [sum(one[name] for one in row) for row in found]) for name in OUTCOMES}
            law = separated_share(
                clock / (strength / 4), strength / 4, size, correlation=correlation, left=ZERO
            )
            shares = dict(
                zip(("predicted", "predicted_together"), (("time", part) for part in law), strict=True)
            )
            columns.append(xr.Dataset({**counts, **shares}, {"time": clock}))
        pairs = sum(len(split.pairs) for split in splits)
        rows.append(merged(columns, eps=sizes).assign(pairs=pairs))
    return merged(rows, lam=lams).assign_attrs(
        n_features=n_features,
        n_hidden=n_hidden,
        runs=len(seeds),
        protocol=protocol,
        correlation=correlation,
        regularised=int(regularised),
    )


def run_variants(
    variants: Sequence[str] = tuple(VARIANTS), *, lam: float = 0.16, eps: float = 1e-2, **options: Any
) -> xr.Dataset:
    """Split in several ways.

    Parameters
    ----------
    variants : sequence of str
        Which of `VARIANTS`.
    lam, eps : float
        As in `run_remedy`.
    **options
        Further ones of `run_remedy`.

    Returns
    -------
    xarray.Dataset
        What `run_remedy` returns, with a dimension ``variant``.

    Examples
    --------
    >>> ds = run_variants(["tied weights"], lam=0.2, n_features=8, n_hidden=8, seeds=range(4), times=[6.0])
    >>> ds["apart"].dims
    ('variant', 'lam', 'eps', 'time')
    """
    names = [arguments.choice("variants", name, tuple(VARIANTS)) for name in variants]
    parts = [run_remedy(lam=[lam], eps=[eps], **{**options, **VARIANTS[name]}) for name in names]
    return merged(parts, variant=names)


def _train_on(
    splits: Sequence[Split],
    lam: float,
    stops: npt.NDArray[np.int64],
    protocol: str,
    penalty: str,
    device: str,
) -> dict[int, Array]:
    """Train all splits on, side by side; narrower ones are padded with neurons that stay at zero."""
    width = max(split.encoder.shape[1] for split in splits)

    def stacked(parts: Sequence[Array]) -> Array:
        return np.stack([np.pad(W, ((0, 0), (0, width - W.shape[1]))) for W in parts])

    n, runs, tied = len(splits[0].encoder), [0] * len(splits), protocol == "tied"
    options: dict[str, Any] = {"steps": stops.tolist(), "device": device, "keep_weights": True}
    options["start"] = stacked([split.encoder for split in splits])
    if tied:
        W = train_l1(n, width, lam, runs, learning_rate=RATE, penalty="weights", **options)["W"].values
    else:
        # Untied weights share the gradient: half the l1 strength and twice the rate give the same flow.
        options |= {"tied": False, "start_decoder": stacked([split.decoder for split in splits])}
        found = train_l1(n, width, lam / 2, runs, learning_rate=2 * RATE, penalty=penalty, **options)
        E, D = found["encoder"].values, found["decoder"].values
        W = np.sign(E) * np.sqrt(np.maximum(E * D, 0))
    return dict(zip(stops.tolist(), W.astype(float), strict=True))
