"""The rug as a saddle: curvatures of the exact loss, descents from the rug and from trained models."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....solvers.codes import curvatures, rug_hessian, rug_point
from ....solvers.minimise import descend
from ....theory import validation
from ....theory.annotations import as_annotated
from ...runner.declarations import (
    UNCONVERGED,
    Figure,
    ReproductionCheck,
    Run,
    Table,
    Topic,
    TopicContent,
    from_rows,
)
from ..drawing import finish_axes, plot_function, size_axis
from .structure import CASE_COLUMNS, SHARE_COLUMNS, code_shares
from .trained import run_structure

CASES = ((0.05, 0.25), (0.05, 0.5), (0.4, 0.25), (0.4, 0.5))


@as_annotated
def run_hessian(
    cases: Sequence[tuple[float, float]], n_features: Sequence[int], seed: int = 0, *, frequencies: int = 2048
) -> xr.Dataset:
    """Compute the exact Hessian of the loss at the critical point near a rug, and its lowest curvature.

    A rug is the random code of Cowsik et al. (2024), see `solvers.codes.rug_point`.

    Parameters
    ----------
    cases : sequence of (p, ratio)
        Each is computed at each size.
    n_features : sequence of int
        Sizes, powers of two.
    seed : int, optional
        Seed of the Hadamard rows.
    frequencies : int, optional
        Terms of the sums over frequencies in the loss; the truncation error is part of ``error``.

    Returns
    -------
    xarray.Dataset
        Of (case, n_features): ``p``, ``ratio``; the ``lowest`` curvature in units of p and its ``error``; the
        numbers of curvatures, ``modes``, and of ``negative`` ones; ``symmetric``, the least curvature of
        steps that keep all features alike. Shares of the squared length of the eigenvector of least
        curvature: ``diagonal_share``, ``bias_share`` and ``skew_share`` (the antisymmetric part). Losses over
        that of the macroscopic rug, the limit of many features: ``relative_loss`` at the critical point,
        ``rug_loss`` of the rug itself, with equal eigenvalues. ``slope``: norm of the gradient at the
        critical point.
    """
    rows = []
    for (p, ratio), n in product(cases, n_features):
        m = max(1, round(ratio * n))
        point = rug_point(n, m, p, rng=seed, frequencies=frequencies)
        hessian = rug_hessian(point, frequencies=frequencies)
        step, macroscopic = hessian.step_M, float(solvers.optimum(p, m / n).loss)
        row = {
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
            "relative_loss": point.loss / macroscopic,
            "rug_loss": point.rug_loss / macroscopic,
            "slope": point.gradient_norm,
        }
        rows.append(row)
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
    """Descend on the exact loss from near a rug, with a little noise, to see whether descents move away.

    A rug is the random code of Cowsik et al. (2024), see `solvers.codes.rug_point`.

    Parameters
    ----------
    n_features : int
        Size, a power of two.
    cases : sequence of (p, ratio)
        Each is one descent.
    kick : float, optional
        Standard deviation of the noise added to each weight.
    steps, seed : int, optional
        Steps of the descent; seed of the Hadamard rows and the noise.

    Returns
    -------
    xarray.Dataset
        Of (case): ``p``, ``ratio``; losses ``start`` (without noise) and ``end``, in units of the rug's in
        the limit of many features; ``moved``, the change of M = W_out W_in over the size of M at the start.
        At the end: ``slope``, the length of the gradient of the summed loss in units of p; ``largest``, the
        largest off-diagonal |M_ij|; ``alone``, ``paired``, ``blocked``, ``remainder`` and ``dropped``, the
        shares of the features by how they are stored, and ``skew``, how uneven pairs are (`CodeStructure`).
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
        M, macroscopic = end.W_out @ end.W_in, float(solvers.optimum(p, m / n_features).loss)
        start = point.matrix()
        row = {
            "p": p,
            "ratio": m / n_features,
            "start": point.loss / macroscopic,
            "end": end.loss / macroscopic,
            "moved": float(np.linalg.norm(M - start) / np.linalg.norm(start)),
            "slope": end.gradient_norm * n_features / 3.0,
            "largest": float(np.abs(M - np.diag(np.diagonal(M))).max()),
            **code_shares(M),
        }
        rows.append(row)
    return from_rows(rows, case=-1).assign_attrs(n_features=n_features, kick=kick, seed=seed)


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
        Of the models: all combinations are trained.
    train_steps, steps : int
        Steps of training with samples, and of the descent on the exact loss.

    Returns
    -------
    xarray.Dataset
        Of (model): ``n_features``, ``p``, ``ratio``, ``seed``; exact losses ``before`` and ``after`` the
        descent, and ``optimum``, the rug's in the limit of many features. At the end: ``slope``, the length
        of the gradient of the summed loss in units of p; ``lowest``, the least curvature over p, and
        ``lowest_error``; the number of ``negative`` curvatures; ``rank`` of M = W_out W_in; ``alone``,
        ``paired``, ``blocked``, ``remainder`` and ``dropped``, the shares of the features by how they are
        stored, and ``skew``, how uneven pairs are (`CodeStructure`).
    """
    n = validation.integer("n_features", n_features, 3, 64)
    trained = run_structure(n, p, ratio, seeds, schedule="converged", steps=train_steps)
    rows = []
    for k in range(trained.sizes["model"]):
        model = trained.isel(end=-1, model=k)
        m, model_p = int(model["n_hidden"]), float(model["p"])
        W_out, W_in = (model[name].values.astype(float) for name in ("W_out", "W_in"))
        end = descend(W_out[:, :m], W_in[:m], model["bias"].values.astype(float), model_p, steps=steps)
        spectrum = curvatures(end.W_out, end.W_in, end.b, model_p, frequencies=1024)
        row = {name: model[name].item() for name in ("n_features", "p", "ratio", "seed", "optimum")}
        row |= {"before": float(model["loss"]), "after": end.loss}
        row["slope"] = end.gradient_norm * n / 3.0  # of the sum over features, in units of p
        row |= {"lowest": spectrum.values[0] / model_p, "lowest_error": spectrum.errors[0] / model_p}
        row |= {"negative": spectrum.negative, "rank": spectrum.rank}
        rows.append(row | code_shares(end.W_out @ end.W_in))
    return from_rows(rows, model=-1)


@plot_function
def plot_curvature(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw minus the least curvature over p at the random code ("rug") against n_features, beside n^-1/2.

    Curvatures are eigenvalues of the loss's Hessian; `ds` is from `run_hessian`, with a line for each (p,
    ratio).
    """
    for c in range(ds.sizes["case"]):
        case = ds.isel(case=c)
        label = f"p = {float(case['p'][0]):g}, ratio {float(case['ratio'][0]):g}"
        ax.plot(ds["n_features"], -case["lowest"], "o-", color=f"C{c + 1}", markersize=3.6, label=label)
    sizes = ds["n_features"].values
    ax.plot(sizes, 0.3 * sizes**-0.5, color="0.5", linestyle="--", label="n$^{-1/2}$")
    size_axis(ax, sizes, yscale="log")
    return finish_axes(ax, {"fontsize": 7}, ylabel="- least curvature / p")


def _show_saddle(hessian: xr.Dataset, departure: xr.Dataset, polished: xr.Dataset) -> TopicContent:
    """Return figure and tables of the report's part "saddle": whether random codes ("rugs") are minima.

    The figure has the least curvature against n_features. The tables have curvatures at the rug (`hessian`,
    from `run_hessian`), descents that start near it (`departure`, from `run_departure`) and exact descents
    from trained models (`polished`, from `run_polished`).
    """
    share = hessian["negative"] / hessian["modes"]
    many = ", ".join(str(n) for n in hessian["n_features"].values)
    title = "The rug is a saddle: least curvature of the exact loss"
    caption = (
        "Minus the curvature in units of p, for steps of unit length on matrices of the rug's rank. Dashed: "
        "the rate at which interference becomes normal."
    )
    figure = Figure("curvature", title, caption, hessian, plot_curvature, size=(5.2, 3.6))
    headline = (
        f"The Persian rug is a saddle: at n_features = {many}, {float(share.min()):.0%} to "
        f"{float(share.max()):.0%} of the curvatures of the exact loss are negative."
    )
    tables = [_hessian_table(hessian), _departure_table(departure), _polished_table(polished)]
    return TopicContent("", [figure], tables, headline)


def _hessian_table(ds: xr.Dataset) -> Table:
    """Return the table of the Hessian at the random code ("rug"); `ds` is from `run_hessian`.

    Columns, by p, ratio and n_features: loss over that in the limit of many features, least curvature over p,
    number of negative curvatures, least curvature of steps with all features alike, and the shares of the
    eigenvector of least curvature on the diagonal, on the bias and in the antisymmetric part.
    """
    columns = {
        **CASE_COLUMNS,
        "n_features": "{n_features}",
        "loss / macroscopic": "{relative_loss:.3f}",
        "least curvature / p": "{lowest:+.4f} ± {error:.0e}",
        "negative": "{negative} of {modes}",
        "least, all features alike": "{symmetric:+.4f}",
        "on the diagonal": "{diagonal_share:.2f}",
        "on the bias": "{bias_share:.2f}",
        "antisymmetric": "{skew_share:.2f}",
    }
    caption = (
        "At the critical point near a random rug, which has the least loss among matrices that depend on i "
        "XOR j alone, near it. ± bound of the numerical error. Steps on matrices of rank n_hidden and "
        "biases, of unit length; the last three columns are shares of the squared length of the step of "
        "least curvature."
    )
    return Table.formatted("Exact Hessian at the rug", ds, columns, caption)


def _departure_table(ds: xr.Dataset) -> Table:
    """Return the table of descents that start near the random code ("rug"); `ds` is from `run_departure`.

    Columns, by p and ratio: losses at the rug and at the end, in units of the rug's in the limit of many
    features; change of M = W_out W_in; shares of features alone, paired and so on; largest off-diagonal
    |M_ij|; norm of the gradient over p.
    """
    columns = {
        **CASE_COLUMNS,
        "loss at the rug": "{start:.3f}",
        "at the end": "{end:.3f}",
        "change of M": "{moved:.2f}",
        **SHARE_COLUMNS,
        "largest off-diagonal": "{largest:.2f}",
        "slope / p": "{slope:.1e}",
    }
    caption = (
        f"n_features = {ds.attrs['n_features']}. Weights of the critical point near the rug, each moved by a "
        f"normal number of standard deviation {ds.attrs['kick']:g}, then L-BFGS on the exact loss. Losses in "
        "units of the macroscopic rug's. `largest off-diagonal` is the largest |M_ij| with i != j."
    )
    return Table.formatted("Started at the rug, does it stay?", ds, columns, caption)


def _polished_table(ds: xr.Dataset) -> Table:
    """Return the table of trained models before and after exact descents; `ds` is from `run_polished`.

    Columns, by p, ratio and n_features: losses before and after, in units of the rug's in the limit of many
    features; at the end, norm of the gradient and least curvature, both over p, number of negative
    curvatures, and shares of features alone, paired and so on.
    """
    columns = {
        **CASE_COLUMNS,
        "n_features": "{n_features}",
        "trained": "{before:.5f}",
        "polished": "{after:.5f}",
        "slope / p": "{slope:.1e}",
        "least curvature / p": "{lowest:+.1e} ± {lowest_error:.0e}",
        "negative": "{negative}",
        **SHARE_COLUMNS,
    }
    caption = (
        "Exact losses in units of the macroscopic rug's. Without a slope, and without negative curvature "
        "beyond its error, a model is at a local minimum. One that still has a slope was stopped on its way: "
        "its losses and codes are the same on another processor, its curvatures are not."
    )
    relative = ds.assign({name: ds[name] / ds["optimum"] for name in ("before", "after")})
    return Table.formatted("Trained models on the exact loss", relative, columns, caption)


POLISHED: dict[str, Any] = {"n_features": 64, "p": [0.05, 0.1, 0.4], "ratio": [0.25, 0.5], "seeds": [0]}
POLISHED |= {"train_steps": 8000, "steps": 600}

ENDS = ["optimum", "before", "after", "rank", "paired", "dropped"]

RUNS = {
    "hessian": Run(
        run_hessian,
        {"cases": CASES, "n_features": [8, 16, 32]},
        {"cases": CASES, "n_features": [16, 32, 64, 128]},
        seconds=8,
    ),
    "departure": Run(
        run_departure,
        {"n_features": 16, "cases": [(0.1, 0.5), (0.4, 0.5)], "steps": 30},
        {
            "n_features": 32,
            "cases": [(0.05, 0.25), (0.05, 0.5), (0.1, 0.5), (0.4, 0.25), (0.4, 0.5)],
            "steps": 400,
        },
        seconds=8,
    ),
    "polished": Run.shipped(
        "codes_polished",
        "exact descent and Hessian",
        run_polished,
        POLISHED,
        torch=True,
        check=ReproductionCheck({"p": [0.4], "ratio": [0.5]}, ENDS, 1e-3, UNCONVERGED),
    ),
}
TOPICS = [Topic("saddle", ["hessian", "departure", "polished"], _show_saddle)]
