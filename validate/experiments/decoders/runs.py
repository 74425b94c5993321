"""Decoders in the large and at finite sizes: the map over p and ratio, message passing, random rugs."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers import decoders, rug
from ....solvers.decoders.optimum import DECODERS
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import Features
from ....theory.rug import sigma
from ....theory.validation import FloatArray
from ...runner.declarations import entry_of, from_rows

SUCCESS = 1e-6  # largest error of a feature that counts as recovered

Case = Sequence[float]  # p and ratio


def coordinates(cases: Sequence[Case], seeds: Sequence[int]) -> dict[str, Any]:
    """Return what names the cases and the seeds of a dataset."""
    p, ratio = np.array(cases, np.float64).reshape(-1, 2).T
    return {"p": ("case", p), "ratio": ("case", ratio), "seed": list(seeds)}


def largest(y: FloatArray, k: int) -> npt.NDArray[np.bool_]:
    """Say which outputs are among the k largest of a sample (column): k of them, whatever is equal."""
    kept = np.zeros(y.shape, np.bool_)
    np.put_along_axis(kept, np.argpartition(y, y.shape[0] - k, axis=0)[-k:], True, axis=0)
    return kept


def losses_on_rug(
    best: Sequence[Any], n: int, m: int, p: float, key: Sequence[int], samples: int
) -> list[float]:
    """Return the losses per feature of decoders (`Decoder`, `TopK`) on one random rug, on so many outputs."""
    rng = np.random.default_rng(key)
    R = rug.rug_matrix(n, m, rng)
    x = Features(n, p).sample(max(1, samples // n), rng).T
    y = R @ x - 0.5 * p * (R.row(0).sum() - 1.0)
    kept = [largest(y, D.k) if isinstance(D, decoders.TopK) else y > D.theta for D in best]
    return [
        float(np.mean((x - np.where(on, D.a * y + D.b, 0.0)) ** 2)) for D, on in zip(best, kept, strict=True)
    ]


@as_annotated
def run_map(
    p: Sequence[float] = (1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5), ratio: Sequence[float] = (0.05, 0.12, 0.25, 0.5)
) -> xr.Dataset:
    """Compute what each decoder attains over a grid, and the line from which on iteration recovers all.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    ratio : sequence of float
        n_hidden / n_features, in (0, 1).

    Returns
    -------
    xarray.Dataset
        ``loss`` (p, ratio, decoder) per feature, from one step, and ``iterated`` (p, ratio); ``recovery``
        (p), the ratio above which iteration leaves nothing.

    Examples
    --------
    >>> ds = run_map([0.01], [0.1, 0.5])
    >>> bool((ds["loss"].sel(decoder="bayes") <= ds["loss"] * (1 + 1e-12)).all())
    True
    """
    grid = np.broadcast_arrays(np.asarray(p, float)[:, None], np.asarray(ratio, float))
    noise = sigma(*grid)
    loss = [decoders.optimum(grid[0], noise, name).loss for name in DECODERS]
    line = decoders.recovery_ratio(np.asarray(p, float))
    iterated = [
        [0.0 if r > top else decoders.state_evolution(q, r, tol=1e-9).loss for r in ratio]
        for q, top in zip(p, line, strict=True)
    ]
    return xr.Dataset(
        {
            "loss": (("p", "ratio", "decoder"), np.stack(loss, axis=-1)),
            "iterated": (("p", "ratio"), np.array(iterated)),
            "recovery": ("p", line),
        },
        {"p": list(p), "ratio": list(ratio), "decoder": list(DECODERS)},
    )


def _projections(n: int, m: int, projection: str, rng: np.random.Generator) -> rug.RugMatrix | FloatArray:
    return rug.rug_matrix(n, m, rng) if projection == "orthogonal" else rng.normal(size=(m, n)) / np.sqrt(m)


@as_annotated
def run_passing(
    cases: Sequence[Case] = ((0.05, 0.25), (0.05, 0.09), (0.2, 0.25)),
    *,
    n_features: int = 2**14,
    projection: str = "orthogonal",
    steps: Sequence[int] = (1, 2, 3, 5, 8, 12),
    seeds: Sequence[int] = range(8),
) -> xr.Dataset:
    """Decode random features by message passing, and set the errors beside state evolution.

    Parameters
    ----------
    cases : sequence of (p, ratio)
    n_features : int
        A power of two.
    projection : {"orthogonal", "gaussian"}
        Random rugs, or independent normal entries: 8 n_features n_hidden bytes.
    steps : sequence of int
        Steps after which errors are measured.
    seeds : sequence of int
        Two or more.

    Returns
    -------
    xarray.Dataset
        ``error`` (case, step, seed), the mean squared error after so many steps, and ``law`` (case, step).

    Examples
    --------
    >>> ds = run_passing([(0.1, 0.5)], n_features=256, steps=[1, 2], seeds=[0, 1])
    >>> ds["error"].dims
    ('case', 'step', 'seed')
    """
    n = validation.power_of_two("n_features", n_features)
    steps = [validation.integer("steps", k, 1) for k in steps]
    rows = []
    for i, (p, ratio) in enumerate(cases):
        m = round(validation.number("cases", ratio, 1 / n, 1.0) * n)
        path = decoders.state_evolution(p, m / n, projection=projection, steps=max(steps), tol=0.0).path
        law = np.pad(path, (0, max(steps) - path.size), mode="edge")[np.array(steps) - 1]
        errors = []
        for seed in seeds:
            rng = np.random.default_rng([seed, i, n])
            (x,), A = Features(n, p).sample(1, rng), _projections(n, m, projection, rng)
            found = [decoders.message_passing(A, A @ x, p, steps=k, tol=0.0).x for k in steps]
            errors.append([np.mean((one - x) ** 2) for one in found])
        rows.append({"error": (("step", "seed"), np.transpose(errors)), "law": ("step", law)})
    ds = from_rows(rows, case=len(cases)).assign_coords({**coordinates(cases, seeds), "step": steps})
    return ds.assign_attrs(n_features=n, projection=projection)


@as_annotated
def run_recovery(
    p: float = 0.1,
    sizes: Sequence[int] = (512, 2048, 8192),
    around: Sequence[float] = (0.85, 0.9, 0.95, 1.0, 1.05, 1.1),
    runs: int = 24,
    *,
    seed: int = 0,
) -> xr.Dataset:
    """Count how often message passing on random rugs recovers all features, at ratios around the line.

    Parameters
    ----------
    p : float
        Probability that a feature is on.
    sizes : sequence of int
        Numbers of features, powers of two.
    around : sequence of float
        Ratios, in units of that of the line.
    runs : int
        Runs at each, two or more.
    seed : int
        Of everything random.

    Returns
    -------
    xarray.Dataset
        ``recovered`` (n_features, around, run), 1 where no feature is off by more than 1e-6, else 0, and the
        attribute ``line``.

    Examples
    --------
    >>> ds = run_recovery(0.2, [128], [0.5, 1.5], 4)
    >>> ds["recovered"].mean("run").values.tolist()
    [[0.0, 1.0]]
    """
    sizes, runs = [validation.power_of_two("sizes", n) for n in sizes], validation.integer("runs", runs, 1)
    line = float(decoders.recovery_ratio(p))
    validation.real("around", around, 0.5 / (line * min(sizes)), 1 / line, hint=f"The line is {line:g}.")
    rows = []
    for n, (j, by), k in itertools.product(sizes, enumerate(around), range(runs)):
        rng = np.random.default_rng([seed, n, j, k])
        (x,), R = Features(n, p).sample(1, rng), rug.rug_matrix(n, round(by * line * n), rng)
        end = decoders.message_passing(R, R @ x, p, steps=300, tol=1e-6)
        rows.append({"recovered": int(np.abs(end.x - x).max() < SUCCESS)})
    return from_rows(rows, n_features=sizes, around=around, run=range(runs)).assign_attrs(p=p, line=line)


@as_annotated
def run_rugs(
    cases: Sequence[Case] = ((0.01, 0.25), (0.1, 0.25)),
    sizes: Sequence[int] = (128, 1024, 8192),
    seeds: Sequence[int] = range(5),
    *,
    samples: int = 2**19,
) -> xr.Dataset:
    """Measure the predicted decoders on random rugs, where the interference is not yet Gaussian.

    Parameters
    ----------
    cases : sequence of (p, ratio)
    sizes : sequence of int
        Numbers of features, powers of two.
    seeds : sequence of int
        Of rugs and samples; two or more.
    samples : int
        Outputs that are measured for each, at least n_features.

    Returns
    -------
    xarray.Dataset
        ``on_rug`` (case, n_features, seed, decoder), the loss per feature of the best ReLU and JumpReLU of
        Gaussian interference, and ``predicted`` (case, n_features, decoder), that which is predicted.

    Examples
    --------
    >>> run_rugs([(0.1, 0.5)], [64], [0, 1], samples=2**12)["on_rug"].shape
    (1, 1, 2, 2)
    """
    sizes = [validation.power_of_two("sizes", n) for n in sizes]
    with entry_of("cases"):
        for p, ratio in cases:
            validation.probability("p", p)
            validation.number("ratio", ratio, 1 / min(sizes), 1.0)
    samples = validation.integer("samples", samples, max(sizes))
    kinds, rows = ["relu", "jumprelu"], []
    for (i, (p, ratio)), n in itertools.product(enumerate(cases), sizes):
        m = round(ratio * n)
        best = [decoders.optimum(p, float(sigma(p, m / n)), kind) for kind in kinds]
        on_rug = [losses_on_rug(best, n, m, p, [seed, i, n], samples) for seed in seeds]
        rows.append(
            {"on_rug": (("seed", "decoder"), on_rug), "predicted": ("decoder", [D.loss for D in best])}
        )
    ds = from_rows(rows, case=len(cases), n_features=len(sizes))
    return ds.assign_coords({**coordinates(cases, seeds), "n_features": list(sizes), "decoder": kinds})
