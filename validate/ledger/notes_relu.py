"""Notes (2022), B7, B14 and B15: sparse data, its skeletons, and the link with the Thomson problem."""

import itertools

import numpy as np
import xarray as xr

from ...theory import features, relu
from ...theory.derivation import sp
from ...theory.validation import FloatArray
from ..runner.findings import derived, experiment, numeric, post_hoc, rounding, searched, symbolic
from .claim import Evidence, claim, corrected_statement, evidence

SOURCE = "notes2022"


@claim(
    "B7", SOURCE, "2.1", "E x = (1-S)/2, E x^2 = (1-S)/3, E x_i x_j = (1-S)^2/4; P(x_i x_j = 0) = 1-(1-S)^2"
)
def check_b7(quick: bool) -> Evidence:
    p, S = sp.symbols("p S", positive=True)
    printed = {
        "mean": (1 - S) / 2,
        "second_moment": (1 - S) / 3,
        "pair_moment": (1 - S) ** 2 / 4,
        "pair_zero_probability": 1 - (1 - S) ** 2,
    }
    derived_moments = {name: features.derive_moments(name).expression.subs(p, 1 - S) for name in printed}
    return evidence(
        "All four follow from the definition. E x x' is therefore no multiple of the identity at any S < 1: "
        "its entries off the diagonal are 3 (1-S)/4 of those on it.",
        *(
            symbolic(f"{name} less the print", sp.expand(derived_moments[name] - value))
            for name, value in printed.items()
        ),
    )


def _random_block(size: int, rng: np.random.Generator) -> FloatArray:
    """Return N, (size, size), minus the overlaps of random, linearly dependent unit vectors, no angle acute.

    The diagonal of N is 0: the vectors' Gram matrix is 1 - N.
    """
    N = np.triu(rng.random((size, size)) ** rng.choice([0.2, 1, 5, 20]), 1)
    N += N.T
    return np.asarray(N / np.linalg.eigvalsh(N)[-1])


def _block_bounds(quick: bool, rng: np.random.Generator) -> tuple[float, float]:
    """Return (least loss with two features on, largest q'Nq / |q|^2) over random blocks N.

    N is minus the overlaps of unit vectors with no acute angle, with a diagonal of 0 (`_random_block`). The
    loss is that of ReLU(W W' x) with these vectors as encodings: the squared error of one output given that
    it and another feature are on, summed over ordered pairs. q_i = v_i^2 for the leading eigenvector v of N.
    With `quick` there are fewer blocks.
    """
    blocks = [_random_block(int(rng.integers(2, 9)), rng) for _ in range(300 if quick else 5000)]
    losses = [float(np.sum(relu.obtuse_pair_loss(-np.clip(N, 0, 1)))) for N in blocks]
    squares = [np.linalg.eigh(N)[1][:, -1] ** 2 for N in blocks]
    return min(losses), max(float((q @ N @ q) / (q @ q)) for q, N in zip(squares, blocks, strict=True))


def _tail_over_order() -> float:
    """Return the largest P(l >= 2)/((D p)^2/2) - 1 over many D and p, where l of D features are on."""
    sizes = itertools.product((2, 10, 1000, 10**6), np.geomspace(1e-9, 1, 40))
    return max(float(features.SparseUniform(p).tail(n, 2) / ((n * p) ** 2 / 2) - 1) for n, p in sizes)


def _rare_loss_over_bound(quick: bool, rng: np.random.Generator) -> float:
    """Return the largest (loss from inputs with two or more features on) / (its bound `dropped_bound`).

    The bound is by second moments of the linear outputs. The largest ratio is over random models of 5
    features on 2 neurons and three p; with `quick` there are fewer models.
    """
    shares = []
    for _ in range(20 if quick else 200):
        W = rng.normal(size=(5, 2))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        for p in (0.001, 0.1, 0.7):
            dropped = relu.mixture_loss(W, 0.0, p).terms[2:].sum()
            shares.append(dropped / relu.dropped_bound(W @ W.T, 0.0, p, 1))
    return float(max(shares))


def _obtuse_triples(quick: bool) -> list[FloatArray]:
    """Return triples (3, 2) of unit vectors in the plane with no angle below 90 degrees, from a grid.

    With `quick` the grid of angles is coarser.
    """
    angles = itertools.product(np.linspace(np.pi / 2, np.pi, 13 if quick else 61), repeat=2)
    obtuse = [np.array([0.0, a, a + b]) for a, b in angles if 2 * np.pi - a - b >= np.pi / 2]
    return [np.stack([np.cos(angle), np.sin(angle)], axis=1) for angle in obtuse]


@claim(
    "B14",
    SOURCE,
    "3.1",
    "asked: for S close to 1 the data concentrate around the low-dimensional skeletons Q_l of the "
    "cube (l features on); may l >= 2 be ignored?",
    needs=["relu.truncation"],
)
def check_b14(quick: bool, ds: xr.Dataset) -> Evidence:
    p_dense, n_dense, p_rare = 0.01, 1000, 1e-6
    dense = float(features.SparseUniform(p_dense).tail(n_dense, 2))
    rng = np.random.default_rng(14)
    dropped = _rare_loss_over_bound(quick, rng)
    n, p = 20, 1e-7
    leading = relu.worst_dropped_bound(n, p, 1) / (n * (n - 1) * (7 * n - 6) * p**2 / 12) - 1
    triples = _obtuse_triples(quick)
    lower = max(relu.class_loss(W, 0.0, 0) + relu.class_loss(W, 0.0, 1) for W in triples)
    losses = [relu.mixture_loss(W, 0.0, p_rare).total for W in triples]
    spread, third = max(losses) / min(losses), abs(min(losses) / p_rare**2 - 1 / 3)
    least, form = _block_bounds(quick, rng)
    # What models lose that are chosen without l >= 2, at the two smallest 1 - S.
    rarest = ds.sortby("small_p").isel(small_p=slice(0, 2))
    rare, regret = rarest["small_p"].values, rarest["regret"].values
    excess = rarest["small_features"].values - 2 * rarest["small_hidden"].values
    above, under = (", ".join(rarest["small"].values[chosen]) for chosen in (excess > 0, excess < 0))
    powers = np.log(regret[excess > 0, 1] / regret[excess > 0, 0]) / np.log(rare[1] / rare[0])
    lost, at = regret[excess < 0].min(), f"1-S = {rare[0]:g} to {rare[1]:g}"
    return evidence(
        "For D <= 2d models without acute angles have L_0 = L_1 = 0: all of their loss is at l >= 2. Their "
        "least L_2 is that of D-d antipodal pairs and orthogonal single features, for D >= d: such models "
        "have D-d blocks or more that depend linearly, and each costs L_2 >= 1/3 (proof: documentation, "
        "relu). For D > 2d L_1 > 0, and l >= 2 disturbs it by a relative order of 1-S, which moves a "
        "minimum without flat directions as far, and costs the square of that.",
        corrected_statement(
            "they concentrate on skeletons of dimension near D(1-S), as printed; on l <= 1 alone only where "
            f"D(1-S) << 1: P(l >= 2) <= (D(1-S))^2/2, and it is {dense:.2f} at S = {1 - p_dense:g} and D = "
            f"{n_dense}",
            numeric("P(l >= 2) at S = 0.99, D = 1000", dense, ">", derived(0.5)),
            searched("largest P(l >= 2) / ((D (1-S))^2/2) - 1", _tail_over_order(), "<=", rounding(1e-12)),
        ),
        corrected_statement(
            "what is dropped is bounded by second moments of M and binomial tails (`relu.dropped_bound`), "
            "for norms <= 1 and b <= 0 by D(D-1)(7D-6)(1-S)^2/12 to leading order",
            searched("largest loss dropped over bound, random models", dropped, "<=", derived(1)),
            numeric("bound for all models over its order, less 1", abs(leading), "<=", post_hoc(1e-4)),
        ),
        corrected_statement(
            "if D > 2d, the best model without l >= 2 is worse by a relative order of (1-S)^2 only (powers "
            f"{powers.min():.2f} to {powers.max():.2f} at {at}, {above})",
            # Nearer to 2 than to 1 or 3.
            experiment("least power of the regret", powers.min(), ">", derived(1.5), origin=ds),
            experiment("largest power of the regret", powers.max(), "<", derived(2.5), origin=ds),
        ),
        corrected_statement(
            "if D < 2d, L_0 + L_1 = 0 for many models, and l = 2 decides: a model chosen without it may lose "
            f"{lost:.2g} of the best loss at {at} ({under})",
            numeric("largest L_0 + L_1 of obtuse triples in the plane", lower, "<=", rounding(1e-25)),
            numeric("largest over least loss among them, S = 1 - 1e-6", spread, ">", post_hoc(1.25)),
            # More than any order of 1-S.
            experiment("least regret, D < 2d", lost, ">", post_hoc(rare[1]), origin=ds),
        ),
        corrected_statement(
            "the least L_2 is then (D-d)/3",
            numeric("|least L_2 of triples - 1/3|", third, "<=", post_hoc(1e-5)),
            searched("least L_2 of dependent obtuse blocks", least, ">=", rounding(1 / 3 - 1e-12)),
            searched("largest q'Nq / |q|^2", form, "<=", rounding(1 + 1e-12)),
        ),
        about="answer",
    )


@claim("B15", SOURCE, "3.1", "the 1-sparse problem is linked with the Thomson problem")
def check_b15(quick: bool) -> Evidence:
    rng = np.random.default_rng(15)
    gap = 0.0
    for _ in range(20 if quick else 200):
        W = rng.normal(size=(6, 3))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        gap = max(gap, abs(3 * relu.class_loss(W, 0.0, 1) - relu.thomson_energy(W)))
    octahedron = np.vstack([np.eye(3), -np.eye(3)])
    pairs = octahedron[:5]  # five points: two pairs and a single one
    prism = np.array([[0, 0, 1], [0, 0, -1], [1, 0, 0], [-0.5, 0.75**0.5, 0], [-0.5, -(0.75**0.5), 0]])
    ours = [relu.thomson_energy(W) for W in (pairs, prism)]

    def coulomb(W: FloatArray) -> float:
        """Return the energy of unit charges at the rows of W, the sum of their inverse distances."""
        i, j = np.triu_indices(len(W), 1)
        return float(np.sum(1 / np.linalg.norm(W[i] - W[j], axis=1)))

    return evidence(
        "On the unit sphere without bias 3 L_1 is the energy of points that repel by ReLU(cos)^2, a Thomson "
        "problem with another law: it acts up to 90 degrees only. Of five points on the sphere it therefore "
        f"gives {ours[0]:g} to the triangular bipyramid and to the octahedron less a corner alike, where "
        f"Coulomb's law gives {coulomb(prism):.4f} and {coulomb(pairs):.4f}.",
        numeric("largest |3 L_1 - energy|, unit norms, b = 0", gap, "<=", rounding(1e-12)),
        numeric("energies of bipyramid and octahedron less a corner", max(ours), "<=", rounding(1e-25)),
    )
