"""Inputs with two or more features on: their share of the loss, and what it costs to ignore them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers.relu.dropping import LEAST_P, class_shares, cost_of_dropping
from ....solvers.rug.rows import drawn_rug
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.features import SparseUniform
from ....theory.relu import worst_dropped_bound
from ...runner.declarations import entry_of, from_rows

MODELS = ("antipodal pairs", "Persian rug")


def _map(kind: str, n: int, p: float, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and the biases of a model of n features."""
    if kind == "antipodal pairs":
        return np.kron(np.eye(n // 2), [[1.0, -1.0], [-1.0, 1.0]]), np.zeros(n)
    best, matrix, bias = drawn_rug(p, n, max(1, round(ratio * n)), np.random.default_rng([seed, n]))
    return best.a * matrix.todense(), np.broadcast_to(bias, n).copy()


@as_annotated
def dropping_table(
    n_features: int,
    n_hidden: int,
    p: npt.ArrayLike,
    *,
    starts: int = 8,
    rng: np.random.Generator | int | None = 0,
) -> xr.Dataset:
    """Tabulate four measures of what inputs with two or more features on matter, importances 1.

    Arguments and errors are those of `cost_of_dropping`, but for p, (size,) array_like in [1e-100, 1), and
    n_hidden, below n_features.

    Returns
    -------
    xarray.Dataset
        Of (p): ``probability`` of such an input; their share ``given_on`` among inputs with a feature on, and
        ``share`` in the loss of the best model found; relative to that loss, ``left_out``, a bound
        on what the truncated minimiser leaves out, and ``regret``, what choosing the model without those
        inputs costs. `regret` answers "may they be dropped?", and is good to about 1e-6. `probability` does
        not: for n_features below 2 n_hidden it may be small where the regret is not.

    Examples
    --------
    >>> table = dropping_table(2, 1, [0.1], starts=2)
    >>> table["probability"].values.round(12), table["share"].values.round(2)
    (array([0.01]), array([1.]))
    """
    n_features = validation.integer("n_features", n_features, 2)
    # With as many neurons as features the least loss is 0, and nothing is relative to it.
    n_hidden = validation.integer("n_hidden", n_hidden, 1, n_features - 1)
    grid = validation.real("p", validation.vector("p", p), LEAST_P, 1, brackets="[)")
    validation.check_fits("p", grid.size, 1e5 * grid.size)
    rng = validation.generator("rng", rng)
    rows = []
    for q in map(float, grid):
        found = cost_of_dropping(n_features, n_hidden, q, 1, starts=starts, rng=rng)
        best = found.best
        shares = class_shares(best.W_out @ best.W_in, best.b, q, 1)
        beyond = shares.probabilities[-1]
        row = {"probability": beyond, "given_on": beyond / SparseUniform(q).tail(n_features, 1)}
        row |= {"share": shares.shares[-1], "left_out": found.left_out / best.loss, "regret": found.regret}
        rows.append(row)
    return from_rows(rows, p=grid)


def _large(n: int, on: float, ratio: float, seed: int) -> xr.Dataset:
    """Return what is known of the models of n features, `on` of which are on."""
    p, law = on / n, SparseUniform(on / n)
    found = [class_shares(*_map(kind, n, p, ratio, seed), p) for kind in MODELS]
    return xr.Dataset(
        {
            "share": ("kind", [one.shares[-1] for one in found]),
            "bound": ("kind", [one.bound for one in found]),
            "probability": law.tail(n, 2),
            "given_on": law.tail(n, 2) / law.tail(n, 1),
            "worst": worst_dropped_bound(n, p, 1) / (on / 3.0),
        },
        {"kind": list(MODELS), "n_features": n, "on": on},
    )


@as_annotated
def run_truncation(
    n_features: Sequence[int] = (16, 64),
    on: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    ratio: float = 0.25,
    small: Sequence[tuple[int, int]] = ((3, 2), (4, 2), (5, 2)),
    small_p: Sequence[float] = (0.001, 0.01, 0.03, 0.1),
    *,
    starts: int = 4,
    seed: int = 0,
) -> xr.Dataset:
    r"""Measure the part of inputs with two or more features on in exact losses, and what dropping them costs.

    Notes (2022), §3.1, asks how well justified it is to ignore them.

    Parameters
    ----------
    n_features, on : sequence of int, of float
        Sizes D of the large models, powers of two from 4 on; expected numbers of features on, D p, below D.
    ratio : float
        n_hidden/n_features of the Persian rugs, in (0, 1); antipodal pairs have 1/2.
    small, small_p : sequence of (int, int), of float
        n_features (at most 64) and n_hidden of models whose truncated and full losses are both minimised, and
        their p, in (0, 1).
    starts, seed : int
        Random starts of those minimisations; seed of the starts and of the rugs.

    Returns
    -------
    xarray.Dataset
        Of (kind, n_features, on): ``share`` of inputs with two or more features on in the loss; ``bound`` on
        it from the weights. Of (n_features, on): their ``probability``; ``given_on``, the same among inputs
        that are not zero, ``worst``, the bound for all encodings of length up to 1 without positive biases,
        over the loss of the zero model. Of (small, small_p):
        ``small_share``, ``small_given_on``, ``small_left_out`` (the bound), and ``regret``: how much worse
        than the best the model is that minimises the loss on inputs with at most one feature on, relative.
        Losses are exact; minima of small models are the least of many starts (`cost_of_dropping`).

    Examples
    --------
    >>> ds = run_truncation([4], [0.1], 0.5, [[2, 1]], [0.1], starts=1)
    >>> ds["share"].sel(kind="antipodal pairs").values.ravel().round(6)    # however rare they are
    array([1.])
    """
    sizes = [
        validation.integer("n_features", validation.power_of_two("n_features", n), 4) for n in n_features
    ]
    counts = validation.real("on", validation.vector("on", on), 0, min(sizes), brackets="()")
    ratio = validation.number("ratio", ratio, 0, 1, brackets="()")
    rows = [xr.concat([_large(n, on, ratio, seed) for on in counts], "on") for n in sizes]
    large = xr.concat(rows, "n_features").transpose("kind", "n_features", "on")
    with entry_of("small_p"):
        validation.probability("p", small_p)
    tables = [
        dropping_table(n, m, small_p, starts=starts, rng=np.random.default_rng([seed, n, m]))
        for n, m in small
    ]
    few = xr.concat(tables, "small").drop_vars("probability").rename(p="small_p")
    few = few.rename({name: f"small_{name}" for name in ("share", "given_on", "left_out")}).assign_coords(
        small=[f"{n} in {m}" for n, m in small],
        small_features=("small", [n for n, _ in small]),
        small_hidden=("small", [m for _, m in small]),
    )
    return large.merge(few).assign_attrs(ratio=ratio, starts=starts, seed=seed)
