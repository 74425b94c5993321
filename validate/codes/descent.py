"""What needs no samples: descent on the exact loss, and its Hessian at trained weights and at the rug."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...solvers import rug as solvers
from ...solvers.codes.hessian_model import curvatures
from ...solvers.codes.hessian_rug import RugPoint, rug_hessian, rug_point
from ...solvers.minimise import descend
from ...theory import arguments
from .runs import SHARES, run_structure
from .structure import structure

__all__ = ["run_departure", "run_hessian", "run_polished"]


def run_polished(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    train_steps: int = 2000,
    steps: int = 200,
) -> xr.Dataset:
    """Train to convergence, descend on the exact loss from there, and take the exact Hessian at the end.

    Parameters
    ----------
    n_features : int
        From 3 to 64, as for `curvatures`: one step of 64 takes a fifth of a second, the Hessian five.
    p, ratio : sequence of float
    seeds : sequence of int
        One model for each, at every p and ratio.
    train_steps, steps : int
        Of the training with samples, and of the descent without.

    Returns
    -------
    xarray.Dataset
        Of (model): ``n_features``, ``p``, ``ratio``, ``seed``, ``optimum``, ``before``, ``after`` (exact
        losses), ``slope``, ``lowest`` (least curvature over p), ``lowest_error``, ``negative``, ``rank``, and
        the shares of `structure`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    n = arguments.integer("n_features", n_features, 3, 64)
    trained = run_structure(n, p, ratio, seeds, schedule="converged", steps=train_steps)
    rows = []
    for k in range(trained.sizes["model"]):
        model = trained.isel(end=-1, model=k)
        m, on = int(model["n_hidden"]), float(model["p"])
        W_out, W_in = (model[name].values.astype(float) for name in ("W_out", "W_in"))
        start = W_out[:, :m], W_in[:m], model["bias"].values.astype(float)
        end = descend(*start, on, steps=steps)
        bent = curvatures(end.W_out, end.W_in, end.b, on, frequencies=1024)
        code = structure(end.W_out @ end.W_in)
        rows.append(
            {
                "n_features": n,
                "p": on,
                "ratio": float(model["ratio"]),
                "seed": int(model["seed"]),
                "optimum": float(model["optimum"]),
                "before": solvers.exact_loss(start[0] @ start[1], start[2], on, tol=1e-8).loss,
                "after": end.loss,
                "slope": end.gradient_norm * n / 3.0,  # of the sum over features, in units of p
                "lowest": bent.values[0] / on,
                "lowest_error": bent.errors[0] / on,
                "negative": bent.negative,
                "rank": bent.rank,
                **{name: getattr(code, name) for name in (*SHARES, "skew")},
            }
        )
    return xr.Dataset({name: ("model", [row[name] for row in rows]) for name in rows[0]})


def run_hessian(
    cases: Sequence[tuple[float, float]], n_features: Sequence[int], seed: int = 0, *, frequencies: int = 2048
) -> xr.Dataset:
    """Compute the exact Hessian at the rug.

    Parameters
    ----------
    cases : sequence of (p, ratio)
    n_features : sequence of int
        Powers of two.
    seed : int
        Of the Hadamard rows.
    frequencies : int, optional
        As for `row_hessian`.

    Returns
    -------
    xarray.Dataset
        Of (case): ``p``, ``ratio``. Of (case, n_features): ``lowest`` curvature in units of p, its ``error``,
        ``negative`` and ``modes`` (their numbers), ``symmetric`` (the least curvature of steps that keep all
        features alike), ``diagonal_share`` and ``bias_share`` of the step of least curvature, ``skew_share``
        (of its antisymmetric part), ``relative_loss`` = loss / macroscopic rug, ``rug_loss`` likewise at
        equal eigenvalues, ``slope``.
    """
    names = (
        "lowest",
        "error",
        "negative",
        "modes",
        "symmetric",
        "diagonal_share",
        "bias_share",
        "skew_share",
    )
    shape = (len(cases), len(n_features))
    values = {name: np.empty(shape) for name in (*names, "relative_loss", "rug_loss", "slope")}
    for c, (p, ratio) in enumerate(cases):
        for i, n in enumerate(n_features):
            m = max(1, round(ratio * n))
            point = rug_point(n, m, p, rng=seed, frequencies=frequencies)
            found = rug_hessian(point, p, frequencies=frequencies)
            step, best = found.step_M, float(solvers.optimum(p, m / n).loss)
            here = (
                found.lowest / p,
                found.error_estimate / p,
                found.negative,
                sum(block.size for block in found.curvatures),
                found.curvatures[0][0] / p,
                found.diagonal_share,
                float(np.sum(found.step_b**2)),
                float(np.sum((step - step.T) ** 2) / 4.0),
                point.loss / best,
                point.rug_loss / best,
                point.gradient_norm,
            )
            for name, value in zip(values, here, strict=True):
                values[name][c, i] = value
    axes = ("case", "n_features")
    return xr.Dataset(
        {
            "p": ("case", [p for p, _ in cases]),
            "ratio": ("case", [ratio for _, ratio in cases]),
            **{name: (axes, value) for name, value in values.items()},
        },
        {"n_features": list(n_features)},
        {"seed": seed},
    )


def _factors(point: RugPoint) -> tuple[np.ndarray, np.ndarray]:
    """Return W_out and W_in of a rug, as balanced as they can be."""
    n = point.row.size
    basis = solvers.walsh_hadamard(np.eye(n))[:, point.rows] / np.sqrt(n)
    root = np.sqrt(np.abs(point.eigenvalues))
    return basis * root, (basis * (root * np.sign(point.eigenvalues))).T


def run_departure(
    n_features: int,
    cases: Sequence[tuple[float, float]],
    *,
    kick: float = 1e-3,
    steps: int = 200,
    seed: int = 0,
) -> xr.Dataset:
    """Start at the rug, kick it a little and descend on the exact loss, to see whether it stays.

    Parameters
    ----------
    n_features : int
        A power of two.
    cases : sequence of (p, ratio)
    kick : float
        Standard deviation of what is added to each weight.
    steps : int
        Of the descent.
    seed : int

    Returns
    -------
    xarray.Dataset
        Of (case): ``p``, ``ratio``, and in units of the macroscopic rug's loss ``start`` (before the kick),
        ``end``; ``moved`` (change of M over its size), ``slope``, the shares and ``skew`` of `structure`,
        ``largest`` (the largest |M_ij| beside the diagonal).
    """
    rows = []
    for p, ratio in cases:
        m = max(1, round(ratio * n_features))
        point = rug_point(n_features, m, p, rng=seed, frequencies=2048)
        rng = np.random.default_rng([seed, n_features, m])
        W_out, W_in = (W + kick * rng.standard_normal(W.shape) for W in _factors(point))
        end = descend(W_out, W_in, np.full(n_features, point.b), p, steps=steps)
        M, best = end.W_out @ end.W_in, float(solvers.optimum(p, m / n_features).loss)
        code = structure(M)
        off = M - np.diag(np.diagonal(M))
        rows.append(
            {
                "p": p,
                "ratio": m / n_features,
                "start": point.loss / best,
                "end": end.loss / best,
                "moved": float(np.linalg.norm(M - point.matrix()) / np.linalg.norm(point.matrix())),
                "slope": end.gradient_norm * n_features / 3.0,
                "largest": float(np.abs(off).max()),
                **{name: getattr(code, name) for name in (*SHARES, "skew")},
            }
        )
    return xr.Dataset(
        {name: ("case", [row[name] for row in rows]) for name in rows[0]},
        attrs={"n_features": n_features, "kick": kick, "seed": seed},
    )
