"""Experiments on the codes that trained models use, and on the rug as a minimum."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....solvers.minimise import descend, minimise
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from ...runner.declarations import from_rows
from ...training import grid, train
from ..drawing import finish_axes, plot_function, size_axis
from .hessian import curvatures, rug_hessian, rug_point
from .lines import known_envelope
from .structure import SHARES, code_structure, interference_kurtosis
from .symmetry import run_stored, symmetry


@as_annotated
def run_known(folder: str | Path = "") -> xr.Dataset:
    """Compute the envelope of codes and the lower bound where the models in a folder stand.

    Returns
    -------
    xarray.Dataset
        Of (point): ``p``, ``ratio``, ``rug``, ``balanced`` and ``envelope`` (the least loss of known codes in
        models "balanced" and "free") and ``lower_bound``.
    """
    trained = run_stored(folder=folder)
    p, ratio = np.unique(np.stack([trained["p"].values, trained["ratio"].values]), axis=1)
    balanced, free = (known_envelope(p, ratio, models=models) for models in ("balanced", "free"))
    columns = {"p": p, "ratio": ratio, "rug": free.rug, "balanced": balanced.loss}
    columns |= {"envelope": free.loss, "lower_bound": free.lower_bound}
    return xr.Dataset({name: ("point", values) for name, values in columns.items()})


def _shares(M: FloatArray) -> dict[str, float]:
    """Return the shares of the codes that a matrix uses, and the skew of its pairs."""
    found = code_structure(M)
    return {name: getattr(found, name) for name in (*SHARES, "skew")}


@as_annotated
def run_pair(p: Sequence[float], *, starts: int = 20, seed: int = 0) -> xr.Dataset:
    """Minimise the exact loss of two features on one neuron, with a free decoder and biases.

    Copies of it side by side are a model of any even n_features at ratio 1/2, with the same spreads.

    Returns
    -------
    xarray.Dataset
        Of (p): ``loss``, ``relative_loss`` = loss/rug, ``gradient_norm``, and of the two features
        ``diagonal_sd``, ``bias_sd`` and ``row_variance_spread`` as in `symmetry`.
    """
    rows = []
    validation.probability("p", p)
    for one in p:
        minimum = minimise(2, 1, one, tied=False, starts=starts, rng=seed)
        M = minimum.W_out @ minimum.W_in
        beside = np.array([M[0, 1], M[1, 0]]) ** 2
        rows.append(
            {
                "p": one,
                "loss": minimum.loss,
                "relative_loss": minimum.loss / float(solvers.optimum(one, 0.5).loss),
                "gradient_norm": minimum.gradient_norm,
                "diagonal_sd": np.std(np.diagonal(M)),
                "bias_sd": np.std(minimum.b),
                "row_variance_spread": np.std(beside) / np.mean(beside),
            }
        )
    return from_rows(rows, p=-1)


@as_annotated
def run_structure(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    schedule: str = "both",
    steps: int = 4000,
    device: str = "auto",
) -> xr.Dataset:
    """Train the models of p × ratio × seed and identify the code of each.

    Settings are those of `superposition.validate.training.train`.

    Returns
    -------
    xarray.Dataset
        What `symmetry` gives, with exact losses and their errors for those of samples, and of (end, model):
        the shares ``dropped``, ``alone``, ``paired``, ``blocked``, ``remainder`` of the features, ``skew`` of
        the pairs, ``kurtosis`` (median over rows of the exact excess kurtosis of the interference); the
        weights ``W_out``, ``W_in``, ``bias``.
    """
    n_hidden, ps, all_seeds = grid(n_features, p, ratio, seeds)
    settings: dict[str, Any] = {"schedule": schedule, "steps": steps, "device": device, "keep_weights": True}
    # Two samples: losses are computed below, from the weights.
    trained = train(n_features, n_hidden, ps, all_seeds, evaluation_samples=2, **settings)
    weights = trained[["W_out", "W_in", "bias"]].astype(float)
    rows = []
    for end, model in np.ndindex(trained.sizes["end"], ps.size):
        one, on = weights.isel(end=end, model=model), float(ps[model])
        M = one["W_out"].values @ one["W_in"].values
        exact = solvers.exact_loss(M, one["bias"].values, on, tol=1e-6)
        losses = {"loss": exact.loss, "loss_se": exact.error_estimate}
        rows.append({**_shares(M), "kurtosis": np.median(interference_kurtosis(M, on)), **losses})
    found = from_rows(rows, end=trained.sizes["end"], model=-1)
    return xr.merge([symmetry(trained.assign(found)), trained[list(weights)]]).assign(found)


@as_annotated
def run_polished(
    n_features: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int],
    *,
    train_steps: int = 2000,
    steps: int = 200,
) -> xr.Dataset:
    """Train models, descend on the exact loss from there, and take the exact Hessian at the end.

    Parameters
    ----------
    n_features : int
        From 3 to 64: one step of 64 takes a fifth of a second, the Hessian five.
    p, ratio, seeds : sequence
        Of the models, which are all combinations.
    train_steps, steps : int
        Of the training with samples, and of the descent without.

    Returns
    -------
    xarray.Dataset
        Of (model): ``n_features``, ``p``, ``ratio``, ``seed``, ``optimum``, ``before``, ``after`` (exact
        losses), ``slope``, ``lowest`` (least curvature over p), ``lowest_error``, ``negative``, ``rank``, and
        the shares of `code_structure`.
    """
    n = validation.integer("n_features", n_features, 3, 64)
    trained = run_structure(n, p, ratio, seeds, schedule="converged", steps=train_steps)
    rows = []
    for k in range(trained.sizes["model"]):
        model = trained.isel(end=-1, model=k)
        m, on = int(model["n_hidden"]), float(model["p"])
        W_out, W_in = (model[name].values.astype(float) for name in ("W_out", "W_in"))
        end = descend(W_out[:, :m], W_in[:m], model["bias"].values.astype(float), on, steps=steps)
        bent = curvatures(end.W_out, end.W_in, end.b, on, frequencies=1024)
        row = {name: model[name].item() for name in ("n_features", "p", "ratio", "seed", "optimum")}
        row |= {"before": float(model["loss"]), "after": end.loss}
        row["slope"] = end.gradient_norm * n / 3.0  # of the sum over features, in units of p
        row |= {"lowest": bent.values[0] / on, "lowest_error": bent.errors[0] / on}
        row |= {"negative": bent.negative, "rank": bent.rank}
        rows.append(row | _shares(end.W_out @ end.W_in))
    return from_rows(rows, model=-1)


@as_annotated
def run_hessian(
    cases: Sequence[tuple[float, float]], n_features: Sequence[int], seed: int = 0, *, frequencies: int = 2048
) -> xr.Dataset:
    """Compute the exact Hessian at the rug.

    Parameters
    ----------
    cases, n_features : sequence of (p, ratio), of int
        All combinations; powers of two.
    seed, frequencies : int, optional
        Of the Hadamard rows; as for `rug_hessian`.

    Returns
    -------
    xarray.Dataset
        Of (case, n_features): ``p``, ``ratio``, the ``lowest`` curvature in units of p, its ``error``,
        ``negative`` and ``modes`` (their numbers), ``symmetric`` (the least curvature of steps that keep all
        features alike), ``diagonal_share`` and ``bias_share`` of the step of least curvature, ``skew_share``
        (of its antisymmetric part), ``relative_loss`` = loss / macroscopic rug, ``rug_loss`` likewise at
        equal eigenvalues, ``slope``.
    """
    rows = []
    for (p, ratio), n in product(cases, n_features):
        m = max(1, round(ratio * n))
        point = rug_point(n, m, p, rng=seed, frequencies=frequencies)
        hessian = rug_hessian(point, frequencies=frequencies)
        step, best = hessian.step_M, float(solvers.optimum(p, m / n).loss)
        rows.append(
            {
                "p": p,
                "ratio": ratio,
                "lowest": hessian.lowest / p,
                "error": hessian.error_estimate / p,
                "negative": hessian.negative,
                "modes": sum(block.size for block in hessian.curvatures),
                "symmetric": hessian.curvatures[0][0] / p,
                "diagonal_share": hessian.diagonal_share,
                "bias_share": float(np.sum(hessian.step_b**2)),
                "skew_share": float(np.sum((step - step.T) ** 2) / 4.0),
                "relative_loss": point.loss / best,
                "rug_loss": point.rug_loss / best,
                "slope": point.gradient_norm,
            }
        )
    return from_rows(rows, case=len(cases), n_features=n_features).assign_attrs(seed=seed)


@as_annotated
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
    n_features, cases : int, sequence of (p, ratio)
        A power of two; one run for each case.
    kick, steps, seed : float, int, int, optional
        Standard deviation of what is added to each weight; of the descent; of the Hadamard rows and the kick.

    Returns
    -------
    xarray.Dataset
        Of (case): ``p``, ``ratio``, and in units of the macroscopic rug's loss ``start`` (before the kick),
        ``end``; ``moved`` (change of M over its size), ``slope``, the shares and ``skew`` of
        `code_structure`, ``largest`` (the largest |M_ij| beside the diagonal).
    """
    kick = validation.number("kick", kick, 0, 1)
    rows = []
    for p, ratio in cases:
        validation.probability("cases", p)
        m = max(1, round(validation.number("cases", ratio, 0, 1, brackets="()") * n_features))
        point = rug_point(n_features, m, p, rng=seed, frequencies=2048)
        rng = np.random.default_rng([seed, n_features, m])
        basis = solvers.walsh_hadamard(np.eye(n_features))[:, point.rows] / np.sqrt(n_features)
        root = np.sqrt(np.abs(point.eigenvalues))  # in both factors, as balanced as they can be
        factors = basis * root, (basis * (root * np.sign(point.eigenvalues))).T
        W_out, W_in = (W + kick * rng.standard_normal(W.shape) for W in factors)
        end = descend(W_out, W_in, np.full(n_features, point.b), p, steps=steps)
        M, best = end.W_out @ end.W_in, float(solvers.optimum(p, m / n_features).loss)
        start = point.matrix()
        rows.append(
            {
                "p": p,
                "ratio": m / n_features,
                "start": point.loss / best,
                "end": end.loss / best,
                "moved": float(np.linalg.norm(M - start) / np.linalg.norm(start)),
                "slope": end.gradient_norm * n_features / 3.0,
                "largest": float(np.abs(M - np.diag(np.diagonal(M))).max()),
                **_shares(M),
            }
        )
    return from_rows(rows, case=-1).assign_attrs(n_features=n_features, kick=kick, seed=seed)


@plot_function
def plot_curvature(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the least curvature at the rug against n_features; of `run_hessian`."""
    for c in range(ds.sizes["case"]):
        case = ds.isel(case=c)
        label = f"p = {float(case['p'][0]):g}, ratio {float(case['ratio'][0]):g}"
        ax.plot(ds["n_features"], -case["lowest"], "o-", color=f"C{c + 1}", markersize=3.6, label=label)
    sizes = ds["n_features"].values
    ax.plot(sizes, 0.3 * sizes**-0.5, color="0.5", linestyle="--", label="n$^{-1/2}$")
    size_axis(ax, sizes, yscale="log")
    return finish_axes(ax, {"fontsize": 7}, ylabel="- least curvature / p")
