"""The remedy of Lecomte et al. (2024), §5: split each polysemantic neuron in two, perturb, train on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers.collisions.counts import ZERO, signed_root
from ....solvers.collisions.splitting import OUTCOMES, PROTOCOLS, Split, outcomes, split_neurons
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.collisions import separated_share
from ....theory.validation import FloatArray
from .training import merge_settings, train_l1

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
MOST_STEPS = 10**9


@as_annotated
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
    lam, eps : sequence of float
        l1 strengths of the printed loss, and sizes of the perturbation, positive.
    seeds : sequence of int
        Runs at each l1 strength; the same trained models are split for every eps.
    protocol, correlation : str, float
        As in `split_neurons`. Models are trained tied; after an "untied" split encoder and decoder go on
        separately.
    regularised, penalty : bool, {"activations", "weights"}
        Whether the l1 term stays on after the split; what it acts on after an "untied" one: on the encoder
        alone, as in the source's loss, or on both, as in the authors' code.
    times, before : increasing sequence of float, float
        When to count, in units of 1/lam_normal since the split; length of the training before it.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    xarray.Dataset
        ``pairs`` (lam): neurons that were split. Of (lam, eps, time): the counts of `outcomes`, and
        ``predicted`` and ``predicted_together``, the shares that `separated_share` gives for tied weights.

    Examples
    --------
    >>> ds = run_remedy(8, 8, [0.2], [0.05], range(8), times=[6.0], device="cpu")
    >>> bool(ds.apart[0, 0, 0] + ds.together[0, 0, 0] > 0.8 * ds.pairs[0])
    True
    """
    protocol = validation.choice("protocol", protocol, PROTOCOLS)
    given = {"lam": lam, "eps": eps, "times": times}
    lams, sizes, clock = (
        validation.real(name, validation.vector(name, each), 0, brackets="()") for name, each in given.items()
    )
    before = validation.number("before", before, 0, brackets="()")
    validation.real("lam", lams, 0, 1e30)
    validation.real("times", clock, 0, MOST_STEPS * RATE * float(lams.min()))
    how: dict[str, Any] = {"protocol": protocol, "correlation": correlation}
    seeds, rows = list(seeds), []
    for i, strength in enumerate(map(float, lams)):
        # One step is 4 * RATE * lam / 4 units of time, tied; untied weights have half the gradient.
        options: dict[str, Any] = {"learning_rate": RATE, "steps": round(before / (RATE * strength))}
        options |= {"device": device, "keep_weights": True}
        trained = train_l1(n_features, n_hidden, strength, seeds, **options)["W"].values[0]
        stops = np.maximum(np.round(clock / (RATE * strength)), 1).astype(int)
        left = strength if regularised else 0.0
        columns = []
        for k, size in enumerate(map(float, sizes)):
            splits = [
                split_neurons(W, size, rng=np.random.default_rng([seed, i, k]), **how)
                for W, seed in zip(trained, seeds, strict=True)
            ]
            after = _train_on(splits, left, np.unique(stops), protocol, penalty, device)
            rate = strength / 4
            law = separated_share(clock / rate, rate, size, correlation=correlation, left=ZERO)
            found = dict(zip(("predicted", "predicted_together"), law, strict=True))
            counts = [
                [outcomes(W, s.pairs, s.copies) for W, s in zip(after[int(stop)], splits, strict=True)]
                for stop in stops
            ]
            found |= {name: np.array([sum(one[name] for one in row) for row in counts]) for name in OUTCOMES}
            data = {name: ("time", values) for name, values in found.items()}
            columns.append(xr.Dataset(data, {"time": clock}))
        pairs = sum(len(split.pairs) for split in splits)
        rows.append(merge_settings(columns, eps=sizes).assign(pairs=pairs))
    facts = {"n_features": n_features, "n_hidden": n_hidden, "runs": len(seeds), "protocol": protocol}
    facts |= {"correlation": correlation, "regularised": int(regularised)}
    return merge_settings(rows, lam=lams).assign_attrs(facts)


@as_annotated
def run_variants(
    variants: Sequence[str] = tuple(VARIANTS), *, lam: float = 0.16, eps: float = 1e-2, **options: Any
) -> xr.Dataset:
    """Split in several ways.

    Parameters
    ----------
    variants : sequence of str
        Which of `VARIANTS`.
    lam, eps, **options
        Numbers, and further options, of `run_remedy`.

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
    names = validation.choices("variants", variants, tuple(VARIANTS))
    parts = [run_remedy(lam=[lam], eps=[eps], **{**options, **VARIANTS[name]}) for name in names]
    return merge_settings(parts, variant=names)


def _train_on(
    splits: Sequence[Split],
    lam: float,
    stops: npt.NDArray[np.int64],
    protocol: str,
    penalty: str,
    device: str,
) -> dict[int, FloatArray]:
    """Train all splits on, side by side; narrower ones are padded with neurons that stay at zero."""
    width = max(split.encoder.shape[1] for split in splits)
    first, second = (
        np.stack([np.pad(W, ((0, 0), (0, width - W.shape[1]))) for W in parts])
        for parts in ([split.encoder for split in splits], [split.decoder for split in splits])
    )
    sizes, runs = (first.shape[1], width), [0] * len(splits)
    options: dict[str, Any] = {"steps": stops.tolist(), "device": device, "keep_weights": True}
    if protocol == "tied":
        options |= {"start": first, "penalty": "weights"}
        W = train_l1(*sizes, lam, runs, learning_rate=RATE, **options)["W"].values
    else:
        # Untied weights share the gradient: half the l1 strength and twice the rate give the same flow.
        options |= {"start": first, "start_decoder": second, "tied": False, "penalty": penalty}
        found = train_l1(*sizes, lam / 2, runs, learning_rate=2 * RATE, **options)
        W = signed_root(found["encoder"].values, found["decoder"].values)
    return dict(zip(stops.tolist(), W.astype(float), strict=True))
