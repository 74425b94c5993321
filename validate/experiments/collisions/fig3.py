"""Fig. 3 of Lecomte et al. (2024) by the flow itself: how many polysemantic neurons, and decided when."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ....solvers import collisions as solvers
from ....solvers.collisions.counts import ON
from ....solvers.collisions.displaced import first_weights, fitted_preference
from ....theory import collisions as theory
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import from_rows

# Flow time times lam. All but a few in ten thousand encodings are one-hot by then, and the rest nearly so.
UNTIL = 6.0
# Standard deviation of the first weights times sqrt(m), as in the source's Fig. 2.
SCALE = 0.9
# Error of a step. Owners at 1e-3, 1e-4, 1e-5 and 1e-7 were the same for all 640 features of 20 runs.
RTOL = 1e-4
# Of how many of a feature's largest first weights the winners are counted.
RANKS = 8
# Times of a course in 1/lam: from the end of the first conflict, which takes a time of order 1, to one-hot.
TIMES = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 6.0)


@as_annotated
def run_fig3(
    n_features: int = 32,
    n_hidden: Sequence[int] = (32, 64, 128, 256),
    runs: int = 16,
    lam: float = 3e-3,
    *,
    scale: float = SCALE,
    seed: int = 0,
    workers: int = 1,
) -> xr.Dataset:
    """Run the flow from many initialisations and count.

    Parameters
    ----------
    n_features, n_hidden : int, sequence of int
        n, at least 2, and values of m, at least n/2 each.
    runs : int
        Initialisations for each m, at least 2.
    lam, scale : float
        l1 strength in the normal form (constants 4 dropped), positive; standard deviation of the first
        weights times sqrt(m).
    seed, workers : int
        Run r of size m starts from ``default_rng([seed, n_features, m, r])``: the same whatever else is run,
        and however many threads share the runs.

    Returns
    -------
    xarray.Dataset
        Over (n_hidden, run): ``polysemantic`` (neurons), ``stayed`` (share of the features that end on the
        neuron of their largest first weight), ``stayed_pairs`` (polysemantic neurons with two of these),
        ``dead`` (features on no neuron), ``unfinished`` (encodings with more than one nonzero weight). Over
        (n_hidden, run, rank): ``won``, the share of the features that end on the neuron of their largest,
        second largest, ... first weight. Over n_hidden: the predictions ``quoted`` = n^2/(4m), ``exclusive``
        and ``independent`` of :func:`theory.expected_polysemantic`, and ``preference``, fitted to the mean,
        of `displaced_polysemantic` (nan if none fits).

    Examples
    --------
    >>> ds = run_fig3(8, (8, 16), runs=3, lam=0.02)
    >>> ds["polysemantic"].shape, float(ds["quoted"][1])
    ((2, 3), 1.0)
    """
    n, runs = validation.integers(n_features=(n_features, 2), runs=(runs, 2))
    sizes = [validation.integer("n_hidden", m, (n + 1) // 2) for m in n_hidden]
    if not sizes:
        raise ValueError("`n_hidden` must hold one number or more; got [].")
    validation.real("lam", lam, 0.0, brackets="(]")
    validation.real("scale", scale, 0.0, brackets="(]")
    found = [_counted(first_weights(n, m, runs, scale, seed), lam, workers) for m in sizes]
    ds = xr.concat(found, "n_hidden").assign_coords(n_hidden=sizes, run=range(runs), rank=range(1, RANKS + 1))
    m, means = np.array(sizes), (ds[name].mean("run").values.tolist() for name in ("stayed", "polysemantic"))
    fitted = [fitted_preference(n, *each) for each in zip(sizes, *means, strict=True)]
    return ds.assign(
        quoted=("n_hidden", theory.quoted_polysemantic(n, m)),
        exclusive=("n_hidden", theory.expected_polysemantic(n, m)),
        independent=("n_hidden", theory.expected_polysemantic(n, m, exclusive=False)),
        preference=("n_hidden", fitted),
    ).assign_attrs(n_features=n, lam=lam, scale=scale, threshold=ON, seed=seed)


def _counted(W0: FloatArray, lam: float, workers: int) -> xr.Dataset:
    m = W0.shape[-1]
    result = solvers.flow(W0, lam, UNTIL / lam, tol=RTOL, threshold=ON, workers=workers)
    neuron, _ = solvers.owners(result.W, ON)
    size = np.abs(W0)
    ends = np.take_along_axis(size, np.maximum(neuron, 0)[..., None], axis=2)
    larger = np.where(neuron < 0, m, np.sum(size > ends, axis=2))  # a feature on no neuron has no rank
    pairs = [np.sum(np.bincount(k[s == 0], minlength=m) >= 2) for k, s in zip(neuron, larger, strict=True)]
    return xr.Dataset(
        {
            "polysemantic": ("run", result.polysemantic[:, -1]),
            "stayed": ("run", np.mean(larger == 0, axis=1)),
            "won": (("run", "rank"), np.mean(larger[..., None] == np.arange(RANKS), axis=1)),
            "stayed_pairs": ("run", pairs),
            "dead": ("run", np.sum(neuron < 0, axis=1)),
            "unfinished": ("run", np.sum(result.nonzeros[:, -1] > 1, axis=1)),
        }
    )


@as_annotated
def run_course(
    n_features: int = 32,
    n_hidden: int = 64,
    runs: int = 64,
    lam: float = 3e-3,
    times: Sequence[float] = TIMES,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Stop the flow at several times, and give places to its weights as if interference ended there.

    If the count of :func:`superposition.solvers.collisions.assign` at some time is already the final one,
    interference has done its part by then.

    Parameters
    ----------
    n_features, n_hidden, runs, lam, seed
        As in `run_fig3`, whose runs these are; one m.
    times : sequence of float
        Sorted flow times in units of 1/lam, not negative.

    Returns
    -------
    xarray.Dataset
        Over (time, run): ``count``, polysemantic neurons if places are given out then; ``held``, share of the
        pairs of features whose overlap is positive, that is, held down by interference; ``nonzeros`` of an
        encoding. Attribute ``expected``: the count if chance alone decides.

    Examples
    --------
    >>> ds = run_course(8, 8, runs=4, lam=0.02)
    >>> ds["count"].dims, ds["count"].shape
    (('time', 'run'), (10, 4))
    """
    n, runs = validation.integers(n_features=(n_features, 2), runs=(runs, 2))
    m = validation.integer("n_hidden", n_hidden, (n + 1) // 2)
    lam = validation.number("lam", lam, 0.0, brackets="(]")
    stops = validation.vector("times", validation.real("times", times, 0.0))
    if np.any(np.diff(stops) < 0):
        raise ValueError(f"`times` must be sorted; got {stops.tolist()}.")
    W, at, others = first_weights(n, m, runs, SCALE, seed), 0.0, ~np.eye(n, dtype=bool)
    rows = []
    for stop in stops:
        if stop > at:
            W, at = solvers.flow(W, lam, (stop - at) / lam, tol=RTOL).W, stop
        held = np.mean((W @ W.mT)[:, others] > 1e-9, axis=1)
        nonzeros = np.mean(np.sum(W != 0, axis=2), axis=1)
        counts = {"count": solvers.assign(W).polysemantic.astype(float), "held": held, "nonzeros": nonzeros}
        rows.append({name: ("run", values) for name, values in counts.items()})
    ds = from_rows(rows, time=stops).assign_coords(run=range(runs))
    expected = float(np.asarray(theory.expected_polysemantic(n, m)))
    return ds.assign_attrs(n_features=n, n_hidden=m, lam=lam, scale=SCALE, seed=seed, expected=expected)
