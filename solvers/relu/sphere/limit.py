"""Where the sphere picture holds: true minimisers of the loss beside the least energy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from ....theory import arguments
from ....theory.arguments import FloatArray, number
from ....theory.loss.classes import gradient_of_map, per_feature
from ....theory.relu import common_norm_loss
from ..arrangement import Geometry, geometry
from .arrange import SAME, Thomson, thomson

__all__ = ["SparseModel", "SphereCheck", "sparse_model", "sphere_check"]

BIASES = ("none", "common", "each")
# The classes of n features cost 3^n.
LARGEST = 9
# A feature is represented when its own output, at value 1, is above this.
KEPT = 1e-3


@dataclass(frozen=True)
class SparseModel:
    """Least loss found and where; see :func:`sparse_model`."""

    W: FloatArray
    """Encodings, shape (n_features, n_hidden)."""
    b: FloatArray
    """Biases, shape (n_features,)."""
    loss: float
    """L_1 in the limit of rare features, else the loss over sparse data divided by p (1-p)^(n-1)."""
    gradient_norm: float
    """Norm of its gradient there, without biases that a bound holds at 0."""
    losses: FloatArray
    """Losses at the end of all starts."""
    hits: int
    """How many starts ended within 1e-7 n of the best."""
    norms: FloatArray
    """Lengths of the encodings, shape (n_features,)."""
    kept: int
    """How many features are represented: |W_i|^2 + b_i above 1e-3, an output for the largest value."""
    geometry: Geometry
    """Directions of the features that are kept; one axis if there are none."""


Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def _objective(n: int, m: int, p: float, bias: str) -> Objective:
    classes = range(n + 1) if p > 0 else range(1, 2)
    odds, ones = p / (1 - p), np.ones(n)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        W = x[: n * m].reshape(n, m)
        b = np.broadcast_to(x[n * m :] if bias != "none" else 0.0, n).copy()
        M = W @ W.T
        total, by_M, by_b = 0.0, np.zeros((n, n)), np.zeros(n)
        for k in classes:
            weight = odds ** (k - 1) if p > 0 else 1.0
            total += weight * float(np.sum(per_feature(M, b, k)))
            more_M, more_b = gradient_of_map(M, b, k, ones)
            by_M += weight * more_M
            by_b += weight * more_b
        tail = {"none": np.empty(0), "common": by_b.sum(keepdims=True), "each": by_b}[bias]
        return total, np.concatenate([((by_M + by_M.T) @ W).ravel(), tail])

    return loss


def sparse_model(
    n_features: int,
    n_hidden: int,
    p: float = 0.0,
    *,
    bias: str = "each",
    starts: int = 16,
    rng: np.random.Generator | int = 0,
    W0: FloatArray | None = None,
) -> SparseModel:
    r"""Minimise the exact loss of ReLU(W W' x + b) from many random starts, importances 1.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m, at least 1; with p > 0 at most 9 features.
    p : float, optional
        Probability that a feature is on, in [0, 1). 0 stands for the limit: the loss is L_1, and biases are
        not positive, since L_0 weighs infinitely more.
    bias : {"none", "common", "each"}, optional
        No bias, one for all outputs, or one for each.
    starts : int, optional
        Random starts.
    rng : Generator or int, optional
        Generator, or seed of one, that draws them.
    W0 : (n_features, n_hidden) array_like of float, optional
        One more start, for example an arrangement of :func:`thomson`.

    Returns
    -------
    SparseModel

    Raises
    ------
    ValueError
        If an argument is out of range or `W0` has another shape.

    Notes
    -----
    L-BFGS on exact losses and gradients: gradient norms about 1e-7, losses to 1e-12. A local minimiser: the
    least of many starts, a bound from above. The loss is that of
    :func:`superposition.theory.relu.class_loss`, summed over features.

    Found for p from 0.003 to 0.3, a bias for each output (2 to 8 starts each): at m < n <= 2m always n - m
    antipodal pairs, the rest orthogonal, lengths from 1 to 1.01, loss (n - m)/3 p^2 to 2.5 %; 5 in 2
    a pentagon up to p = 0.1, two antipodal pairs and a dropped feature at 0.3; 6 in 2 a hexagon up to 0.03,
    nearly a pentagon and a short sixth at 0.1, two antipodal pairs at 0.3.

    Examples
    --------
    >>> found = sparse_model(5, 2, bias="none", starts=4)
    >>> round(found.loss, 6), found.geometry.name
    (0.267262, 'pentagon')
    """
    n, m = arguments.integer("n_features", n_features, 1), arguments.integer("n_hidden", n_hidden, 1)
    p = number("p", p, 0.0, 1.0, brackets="[)")
    if p > 0:
        n = arguments.integer("n_features", n, 1, LARGEST)
    bias = arguments.choice("bias", bias, BIASES)
    starts = arguments.integer("starts", starts, 1)
    generator = np.random.default_rng(rng)
    biases = {"none": 0, "common": 1, "each": n}[bias]
    begin = [generator.normal(scale=m**-0.5, size=n * m) for _ in range(starts)]
    if W0 is not None:
        begin.append(arguments.matrix("W0", W0, (n, m)).ravel())
    loss = _objective(n, m, p, bias)
    bounds = [(None, None)] * (n * m) + [(None, None if p > 0 else 0.0)] * biases
    found = [
        optimize.minimize(
            loss,
            np.concatenate([w, np.full(biases, -0.1)]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
        )
        for w in begin
    ]
    losses = np.array([one.fun for one in found])
    best = found[int(np.argmin(losses))]
    W = best.x[: n * m].reshape(n, m)
    b = np.broadcast_to(best.x[n * m :] if biases else 0.0, n).copy()
    slope = np.array(best.jac)
    slope[n * m :][(best.x[n * m :] == 0.0) & (slope[n * m :] < 0) & (p == 0)] = 0.0
    norms = np.linalg.norm(W, axis=1)
    kept = (norms**2 + b > KEPT) & (norms > KEPT)
    return SparseModel(
        W=W,
        b=b,
        loss=float(best.fun),
        gradient_norm=float(np.linalg.norm(slope)),
        losses=losses,
        hits=int(np.sum(losses <= losses.min() + SAME * n)),
        norms=norms,
        kept=int(kept.sum()),
        geometry=geometry(W[kept] if kept.any() else np.eye(1, m)),
    )


# --- Side by side ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SphereCheck:
    """The sphere picture beside the loss with one feature on; see :func:`sphere_check`."""

    sphere: Thomson
    """The best arrangement of unit vectors."""
    unit_loss: float
    """L_1 of it as it is: a third of its energy."""
    common_loss: float
    """L_1 of it with the best common length."""
    unbiased: SparseModel
    """The minimiser of L_1 without bias."""
    biased: SparseModel
    """The minimiser of L_1 with a bias for each output."""
    unbiased_gap: float
    """Largest difference between sorted inner products of its directions and the sphere's; nan if some
    features are not kept."""
    biased_gap: float
    """The same for the minimiser with bias."""


def _gap(sphere: FloatArray, model: SparseModel) -> float:
    if model.kept < len(sphere):
        return float("nan")
    directions = model.W / model.norms[:, None]
    pairs = np.triu_indices(len(sphere), 1)
    return float(
        np.max(np.abs(np.sort((sphere @ sphere.T)[pairs]) - np.sort((directions @ directions.T)[pairs])))
    )


def sphere_check(
    n_features: int, n_hidden: int, *, starts: int = 32, rng: np.random.Generator | int = 0
) -> SphereCheck:
    """Compare the best arrangement on the sphere with the minimisers of L_1, with and without bias.

    Parameters
    ----------
    n_features, n_hidden : int
        n and m; n at least 2, m at least 1.
    starts : int, optional
        Random starts for each of the three minimisations.
    rng : Generator or int, optional
        Generator, or seed of one, that draws them.

    Returns
    -------
    SphereCheck

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    All losses are upper bounds on minima. The documentation of the small ReLU models lists what was found for
    a dozen sizes.

    Examples
    --------
    >>> found = sphere_check(5, 2, starts=4)
    >>> losses = found.unit_loss, found.common_loss, found.unbiased.loss, found.biased.loss
    >>> print(" ".join(f"{loss:.4f}" for loss in losses))
    0.3183 0.2673 0.2673 0.0791
    """
    n, m = arguments.integer("n_features", n_features, 2), arguments.integer("n_hidden", n_hidden, 1)
    generator = np.random.default_rng(rng)
    sphere = thomson(n, m, starts=starts, rng=generator)
    models = [
        sparse_model(n, m, bias=bias, starts=starts, rng=generator, W0=sphere.W) for bias in ("none", "each")
    ]
    return SphereCheck(
        sphere=sphere,
        unit_loss=sphere.energy / 3,
        common_loss=float(common_norm_loss(n, sphere.energy)),
        unbiased=models[0],
        biased=models[1],
        unbiased_gap=_gap(sphere.W, models[0]),
        biased_gap=_gap(sphere.W, models[1]),
    )
