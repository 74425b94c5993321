"""Notes (2022), B1-B6, B8, B9: critical points of linear autoencoders."""

import itertools

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from ...theory import linear as theory
from ...theory.features import SparseUniform
from ...theory.linear import derive
from .ledger import Claim, Evidence, bound, claim, experiment, numeric, symbolic

__all__ = ["NOTES_CRITICAL", "SOURCE"]

SOURCE = "notes2022"
# A few hundred roundings of numbers of order 1.
ROUNDING = 1e-12

Array = npt.NDArray[np.float64]


def _covariance(rng: np.random.Generator, eigenvalues: Array) -> Array:
    Q, _ = np.linalg.qr(rng.normal(size=(eigenvalues.size, eigenvalues.size)))
    return np.asarray((Q * eigenvalues) @ Q.T)


def _gradient(A: Array, B: Array, sigma: Array) -> float:
    """Return the largest entry of both conditions' differences."""
    rest = sigma - A @ B @ sigma
    return float(max(np.abs(A.T @ rest).max(), np.abs(rest @ B.T).max()))


@claim("B1", SOURCE, "1.1", "the two gradient conditions A'Sigma = A'AB Sigma and Sigma B' = A B Sigma B'")
def b1(quick: bool) -> Evidence:
    A, B, x = (derive.matrix_of(*shape) for shape in (("a", 3, 2), ("b", 2, 3), ("x", 3, 2)))
    rest = x * x.T - A * B * x * x.T
    gradients = derive.derive_gradients(3, 2, 2).expression
    by_decoder, by_encoder = gradients[:3, :] + 2 * rest * B.T, gradients[3:, :] + 2 * (A.T * rest).T
    return Evidence(
        "The loss, written as a sum over data points and differentiated entry by entry.",
        [
            symbolic("printed", "dL/dB + 2(A'Sigma - A'AB Sigma)", by_encoder),
            symbolic("printed", "dL/dA + 2(Sigma B' - AB Sigma B')", by_decoder),
        ],
    )


@claim(
    "B2",
    SOURCE,
    "Prop. 1",
    "critical points of full rank: AB is the orthogonal projection on d eigenvectors of Sigma, loss = sum of "
    "the eigenvalues left out",
)
def b2(quick: bool) -> Evidence:
    rng = np.random.default_rng(2)
    n, hidden = 4, 2
    values = np.array([4.0, 3.0, 2.0, 1.0])
    slope, gap = 0.0, 0.0
    for kept in itertools.combinations(range(n), hidden):
        sigma = _covariance(rng, values)
        A, B = theory.critical_point(sigma, kept, mixing=np.eye(2) + 0.3 * rng.normal(size=(2, 2)))
        slope = max(slope, _gradient(A, B, sigma))
        left = sum(values) - sum(values[list(kept)])
        gap = max(gap, abs(n * theory.reconstruction_loss(A, B, sigma) - left))
    missed, worst = _solve_for_critical_points(rng, 20 if quick else 200)
    return Evidence(
        "Every subset gives a critical point with that loss, and zeros of the gradient searched from random "
        "starts are all of this kind. The print says any critical point, the proof takes A of full rank; it "
        "needs that only for the size of the subset: without it A'AB = A' still makes AB the projection on "
        "the columns of A, and Sigma commutes with it, so points of rank r < d keep r directions, with the "
        "sum of the other eigenvalues as the loss. It needs Sigma to be invertible; equal eigenvalues only "
        "leave the choice of eigenvectors open.",
        [
            numeric("printed", "largest gradient at A = U_I C, B = C^-1 U_I'", slope, "<=", ROUNDING),
            numeric("printed", "loss less the eigenvalues left out", gap, "<=", ROUNDING),
            # Newton's iteration ends at gradients of 1e-12 and so at distances of 1e-11.
            bound("printed", "distance of AB from the nearest such projection, searched", worst, "<=", 1e-9),
        ],
        {"starts without a critical point of full rank": missed},
    )


def _solve_for_critical_points(rng: np.random.Generator, starts: int) -> tuple[int, float]:
    """Return how many starts led to none, and the largest distance of AB from the projections."""
    n = 3
    sigma = np.diag([3.0, 2.0, 1.0])
    missed, worst = 0, 0.0

    def slopes(x: Array) -> Array:
        A, B = x[:n, None], x[None, n:]
        rest = sigma - A @ B @ sigma
        return np.concatenate([(rest @ B.T).ravel(), (A.T @ rest).ravel()])

    for _ in range(starts):
        found = optimize.least_squares(slopes, rng.normal(size=2 * n), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        A, B = found.x[:n, None], found.x[None, n:]
        if np.abs(found.fun).max() > 1e-11 or np.linalg.norm(A) * np.linalg.norm(B) < 0.1:
            missed += 1
            continue
        targets = [np.diag(row) for row in np.eye(n)]
        worst = max(worst, min(float(np.abs(A @ B - P).max()) for P in targets))
    return missed, worst


@claim("B3", SOURCE, "Cor. 2", "the minimum takes the d largest")
def b3(quick: bool) -> Evidence:
    rng = np.random.default_rng(3)
    worst = np.inf
    for _ in range(100 if quick else 2000):
        n = int(rng.integers(2, 7))
        hidden = int(rng.integers(1, n))
        sigma = _covariance(rng, rng.uniform(0.1, 2.0, n))
        A, B = theory.critical_point(sigma, range(hidden))
        size = 10.0 ** rng.uniform(-3, 0.5)
        trial = A + size * rng.normal(size=A.shape), B + size * rng.normal(size=B.shape)
        excess = theory.reconstruction_loss(*trial, sigma) - theory.critical_loss(sigma, range(hidden))
        worst = min(worst, excess)
    sets = [
        theory.critical_loss(np.diag([4.0, 3.0, 2.0, 1.0]), I) for I in itertools.combinations(range(4), 2)
    ]
    return Evidence(
        "Eckart, Young and Mirsky: (1 - AB) Sigma^1/2 is the error of a rank-d approximation of Sigma^1/2. "
        "The value is unique, the minimiser is not: A = U_I C, B = C^-1 U_I' for all C, and with equal "
        "eigenvalues at the edge other subspaces too.",
        [
            bound("printed", "least loss of random weights less that of the d largest", worst, ">=", -1e-13),
            numeric(
                "printed", "least loss of any subset less that of (1, 2)", min(sets) - sets[0], "==", 0.0
            ),
        ],
    )


@claim("B4", SOURCE, "(star)", "A = U_I C, B = C^-1 U_I'")
def b4(quick: bool) -> Evidence:
    rng = np.random.default_rng(4)
    sigma = _covariance(rng, np.array([4.0, 3.0, 2.0, 1.0]))
    U = theory.spectrum(sigma).eigenvectors
    kept = [0, 2]
    C = np.eye(2) + 0.5 * rng.normal(size=(2, 2))
    A = U[:, kept] @ C
    from_normal_equations = np.linalg.solve(A.T @ A, A.T)
    given = np.linalg.inv(C) @ U[:, kept].T
    # Rank 2 of 3: C (2, 3) and any of its right inverses.
    wide = np.eye(2, 3) + 0.5 * rng.normal(size=(2, 3))
    right = np.linalg.pinv(wide) + linalg.null_space(wide) @ rng.normal(size=(1, 2))
    low = _gradient(U[:, kept] @ wide, right @ U[:, kept].T, sigma)
    return Evidence(
        "B = (A'A)^-1 A' of A = U_I C, with U_I the d columns of U (the source also writes U_I for U with "
        "the other columns set to zero, for which C could not be d by d). Below full rank the form is A = "
        "U_I C, B = D U_I' with any right inverse D of C: a set of dimension r(2d - r) for each subset of "
        "r.",
        [
            numeric(
                "printed",
                "(A'A)^-1 A' less C^-1 U_I'",
                float(np.abs(from_normal_equations - given).max()),
                "<=",
                ROUNDING,
            ),
            numeric("printed", "gradient there", _gradient(A, given, sigma), "<=", ROUNDING),
        ],
        {"gradient at A = U_I C, B = D U_I', rank 2 of 3": low},
    )


@claim(
    "B5",
    SOURCE,
    "Prop. 3",
    "every other critical point is a saddle; the rotation by eps lowers the loss by eps^2/(1+eps^2) "
    "(lambda_k - lambda_j)",
    "all others are strict saddles, at rank r < d too, but a rotation need not help: not at the origin, "
    "nor where the r largest are kept. There a spare hidden neuron takes up u_k with weights eps and "
    "lowers the loss by (2 eps^2 - eps^4) lambda_k",
)
def b5(quick: bool) -> Evidence:
    import sympy as sp

    eps, j, k = sp.symbols("epsilon lambda_j lambda_k", positive=True)
    gain = derive.derive_rotation().expression[4] - eps**2 / (1 + eps**2) * (k - j)
    filling = derive.derive_filling().expression - (2 * eps**2 - eps**4) * k
    values = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    sigma, hidden = np.diag(values), 2
    points = {
        kept: theory.critical_hessian(sigma, kept, hidden)
        for r in range(hidden + 1)
        for kept in itertools.combinations(range(values.size), r)
    }
    others = [point for kept, point in points.items() if kept != (0, 1)]
    helpless = sum(point.rotation_rate == 0 for point in others)
    wrong = 0
    for kept, point in points.items():
        A, B = theory.critical_point(sigma, kept, hidden)
        rates = np.linalg.eigvalsh(_half_hessian(A, B, sigma))
        wrong += int(np.count_nonzero(rates < -1e-9)) != point.index
        wrong += int(np.count_nonzero(np.abs(rates) <= 1e-9)) != point.nullity
    full = points[(1, 2)]
    return Evidence(
        "The rotation of j towards k does what is printed. Its rate under the flow is (lambda_k - "
        "lambda_j)/2 at balanced weights; the steepest descent moves encoder and decoder by different "
        "amounts and has the rate ((lambda_k - lambda_j)^2/4 + lambda_k^2)^1/2 - (lambda_k + lambda_j)/2. "
        "The index is #{(i kept, o left): lambda_o > lambda_i} + (d-r)(D-r), the nullity r(2d-r) plus the "
        "pairs of equal eigenvalues, the dimension of the set of critical "
        "points.",
        [
            symbolic("printed", "loss lost by the rotation", gain),
            numeric("printed", "critical points, not minima, that no rotation leaves", helpless, "==", 0),
            symbolic("corrected", "loss lost by a spare neuron", filling),
            numeric("corrected", "least index of other points", min(p.index for p in others), ">=", 1),
            numeric(
                "corrected", "wrong indices and nullities, 16 exact Hessians, D = 5, d = 2", wrong, "==", 0
            ),
        ],
        {
            "eigenvalues 5..1, kept 4 and 3: rate of the rotation": full.rotation_rate,
            "eigenvalues 5..1, kept 4 and 3: rate of the steepest descent": full.escape_rate,
        },
    )


def _half_hessian(A: Array, B: Array, sigma: Array) -> Array:
    """Return half the Hessian of the loss from its gradient, by complex steps: exact to rounding."""
    n, hidden = A.shape
    X = np.concatenate([A.ravel(), B.ravel()])

    def half_gradient(x: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
        A, B = x[:A_size].reshape(n, hidden), x[A_size:].reshape(hidden, n)
        rest = A @ B @ sigma - sigma
        return np.concatenate([(rest @ B.T).ravel(), (A.T @ rest).ravel()])

    A_size = n * hidden
    steps = 1e-30j * np.eye(X.size)
    return np.stack([half_gradient(X + step).imag / 1e-30 for step in steps])


@claim("B6", SOURCE, "Eq. 18", "diagonal of the rotated projection: 0, 1, 1/(1+eps^2), eps^2/(1+eps^2)")
def b6(quick: bool) -> Evidence:
    import sympy as sp

    eps = sp.Symbol("epsilon", positive=True)
    printed = sp.Matrix([1, 1 / (1 + eps**2), eps**2 / (1 + eps**2), 0])
    diagonal = derive.derive_rotation().expression[:4, :] - printed
    return Evidence(
        "Four eigenvectors: kept, kept and rotated (j), rotated towards (k), left out.",
        [symbolic("printed", "diagonal less the printed one", diagonal)],
    )


@claim(
    "B8",
    SOURCE,
    "1, 2.1",
    "Sigma is assumed to have distinct eigenvalues (checked in expectation, for the synthetic data of 2.1)",
    "E xx' has only two eigenvalues, p/3 - p^2/4 + D p^2/4 once and p/3 - p^2/4 D-1 times (p = 1-S). The "
    "sum over finitely many data points has distinct ones, almost surely where it is invertible, which it "
    "is not if a feature never was on",
)
def b8(quick: bool) -> Evidence:
    n, hidden, p = 6, 3, 0.1
    sigma = SparseUniform(p).second_moment_matrix(n)
    most = int(theory.spectrum(sigma).multiplicities.max())
    wrong = 0
    for kept in itertools.combinations(range(n), hidden):
        point = theory.critical_hessian(sigma, kept, hidden)
        inside = hidden - (0 in kept)
        wrong += point.index != (0 if 0 in kept else hidden)
        wrong += point.nullity != hidden**2 + inside * (n - 1 - inside)
    rng = np.random.default_rng(8)
    samples, T = 400 if quick else 4000, 40
    data = rng.uniform(size=(samples, T, n)) * (rng.uniform(size=(samples, T, n)) < p)
    values = np.linalg.eigvalsh(np.swapaxes(data, 1, 2) @ data)
    singular = values[:, 0] <= 1e-12 * values[:, -1]
    gaps = np.min(np.diff(values[~singular], axis=1), axis=1)
    never = 1 - (1 - (1 - p) ** T) ** n
    spread = np.sqrt(never * (1 - never) / samples)
    return Evidence(
        "E xx' = Var x 1 + (E x)^2 11'. Critical points of full rank then have two losses only, those with "
        "and without the direction of ones; they come in families, and those that lack that direction have "
        "index d. The sum over T data points is not invertible if a feature never was on, with probability "
        "1 - (1-S^T)^D, and in a few rarer cases. Checked for D = 6, d = 3 and p = 0.1, and in 40 data "
        "points of it.",
        [
            numeric("printed", "largest multiplicity of an eigenvalue of E xx', D = 6", most, "==", 1),
            numeric("corrected", "multiplicity of p/3 - p^2/4", most, "==", n - 1),
            numeric("corrected", "wrong indices or nullities of the 20 critical points", wrong, "==", 0),
            numeric(
                "corrected", "least gap of eigenvalues of invertible samples", float(gaps.min()), ">", 0.0
            ),
            # One-sided at 4.3 standard deviations: false alarm 1e-5.
            experiment(
                "corrected",
                "share of singular samples less 1 - (1-S^T)^D, in standard deviations",
                float((singular.mean() - never) / spread),
                ">=",
                -4.3,
            ),
        ],
        {"share of singular samples, T = 40": float(singular.mean()), "1 - (1-S^T)^D": never},
    )


@claim("B9", SOURCE, "2.2", "the tied optimum A = U_I, B = U_I' is a global minimum")
def b9(quick: bool) -> Evidence:
    rng = np.random.default_rng(9)
    gap, index = 0.0, 0
    for _ in range(20):
        n = int(rng.integers(2, 7))
        hidden = int(rng.integers(1, n + 1))
        sigma = _covariance(rng, rng.uniform(0.1, 2.0, n))
        A, B = theory.critical_point(sigma, range(hidden))
        least = theory.weighted_optimum(sigma, np.ones(n), hidden).loss
        gap = max(gap, float(np.abs(A - B.T).max()), abs(theory.reconstruction_loss(A, B, sigma) - least))
        index += theory.critical_hessian(sigma, range(hidden)).index
        index += theory.critical_hessian(sigma, range(hidden), tied=True).index
    return Evidence(
        "With I the d largest. It reaches the least loss of any linear model, so it is a minimum of the tied "
        "loss as well, unique up to rotations of the hidden layer if eigenvalues d and d+1 differ.",
        [
            numeric("printed", "A less B', and its loss less the least one", gap, "<=", ROUNDING),
            numeric("printed", "negative directions, pair and tied", index, "==", 0),
        ],
    )


NOTES_CRITICAL: tuple[Claim, ...] = (b1, b2, b3, b4, b5, b6, b8, b9)
