"""Notes (2022), B1-B6, B8-B13: linear autoencoders, their critical points, flows and energies."""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from scipy import linalg, optimize
from scipy.sparse import csgraph, csr_array

from ...solvers import linear as solvers
from ...theory import linear as theory
from ...theory.derivation import sp
from ...theory.features import SparseUniform
from ...theory.linear import derive
from ...theory.validation import FloatArray
from ..runner.findings import derived, experiment, numeric, post_hoc, rounding, searched, symbolic
from .claim import Evidence, Verdict, claim, corrected_statement, evidence

SOURCE = "notes2022"
# A few hundred roundings of numbers of order 1.
ROUNDING = rounding(1e-12)


def _random_covariance(rng: np.random.Generator, eigenvalues: FloatArray) -> FloatArray:
    """Return a matrix with these eigenvalues and random orthonormal eigenvectors."""
    Q, _ = np.linalg.qr(rng.normal(size=(eigenvalues.size, eigenvalues.size)))
    return np.asarray((Q * eigenvalues) @ Q.T)


def _half_gradient(x: Any, sigma: FloatArray, hidden: int) -> Any:
    """Return half the gradient in (A, B), flat, of a linear autoencoder A B on inputs of covariance sigma.

    The loss is E |A B u - u|^2 for inputs u. x has the entries of A, shape (n, hidden), then those of B.
    """
    A, B = x[: len(sigma) * hidden].reshape(-1, hidden), x[len(sigma) * hidden :].reshape(hidden, -1)
    rest = A @ B @ sigma - sigma
    return np.concatenate([(rest @ B.T).ravel(), (A.T @ rest).ravel()])


def _largest_gradient_entry(A: FloatArray, B: FloatArray, sigma: FloatArray) -> float:
    """Return the largest |entry| of half the gradient of E |A B u - u|^2 in A and B.

    Inputs u have the covariance `sigma`.
    """
    return float(np.abs(_half_gradient(np.append(A, B), sigma, A.shape[1])).max())


def subsets(n: int, largest: int) -> list[tuple[int, ...]]:
    """Return the subsets of range(n) with at most `largest` elements, the smallest first."""
    return [subset for size in range(largest + 1) for subset in itertools.combinations(range(n), size)]


@claim("B1", SOURCE, "1.1", "the two gradient conditions A'Sigma = A'AB Sigma and Sigma B' = A B Sigma B'")
def check_b1(quick: bool) -> Evidence:
    A, B, x = (derive.matrix_of(*shape) for shape in (("a", 3, 2), ("b", 2, 3), ("x", 3, 2)))
    rest = x * x.T - A * B * x * x.T
    gradients = derive.derive_gradients(3, 2, 2).expression
    by_decoder, by_encoder = gradients[:3, :] + 2 * rest * B.T, gradients[3:, :] + 2 * (A.T * rest).T
    return evidence(
        "The loss, written as a sum over data points and differentiated entry by entry.",
        symbolic("dL/dB + 2(A'Sigma - A'AB Sigma)", by_encoder),
        symbolic("dL/dA + 2(Sigma B' - AB Sigma B')", by_decoder),
    )


@claim(
    "B2",
    SOURCE,
    "Prop. 1",
    "at any critical point, A of full rank (which the proof assumes), AB is the orthogonal "
    "projection on d eigenvectors of Sigma, loss = sum of the eigenvalues left out",
)
def check_b2(quick: bool) -> Evidence:
    rng = np.random.default_rng(2)
    n, hidden, values = 4, 2, np.array([4.0, 3.0, 2.0, 1.0])
    slope, gap, low = 0.0, 0.0, 0
    for subset in subsets(n, hidden):
        sigma = _random_covariance(rng, values)
        mixing = np.eye(len(subset), hidden) + 0.3 * rng.normal(size=(len(subset), hidden))
        A, B = theory.critical_point(sigma, subset, hidden, mixing if subset else None)
        slope = max(slope, _largest_gradient_entry(A, B, sigma))
        left = sum(values) - sum(values[list(subset)])
        gap = max(gap, abs(n * theory.reconstruction_loss(A, B, sigma) - left))
        low += bool(np.linalg.matrix_rank(A @ B) < hidden)
    # Of Newton's iterations from random starts, the distance of AB from the nearest projection and its rank.
    rng, sigma = np.random.default_rng([2, 1]), np.diag([3.0, 2.0, 1.0])
    targets = {subset: np.diag(np.isin(range(3), subset).astype(float)) for subset in subsets(3, hidden)}
    tight: dict[str, Any] = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    starts, nearest = 40 if quick else 400, []
    for _ in range(starts):
        first = 10.0 ** rng.uniform(-1, 0.5) * rng.normal(size=12)
        root = optimize.least_squares(_half_gradient, first, args=(sigma, hidden), **tight)
        if np.abs(root.fun).max() <= 1e-11:
            product = root.x[:6].reshape(3, 2) @ root.x[6:].reshape(2, 3)
            gaps = [(float(np.abs(product - P).max()), len(chosen)) for chosen, P in targets.items()]
            nearest.append(min(gaps))
    distances, ranks = zip(*nearest, strict=True)
    full = [distance for distance, rank in nearest if rank == hidden]
    return evidence(
        "Full rank of A is needed only for the size of the subset: A'AB = A' makes AB the projection on the "
        "columns of A, whatever their rank r, and Sigma, which has to be invertible, commutes with it. With "
        f"d = 2 and D = 4 {low} of 11 critical points have r < d; there AB is the projection on r "
        "eigenvectors, and the loss the sum of the eigenvalues left out. Equal eigenvalues leave a choice "
        "of eigenvectors.",
        numeric("largest gradient at U_I C and C^+ U_I', all I", slope, "<=", ROUNDING),
        numeric("loss less the eigenvalues left out, every rank", gap, "<=", ROUNDING),
        # Newton's iteration ends at gradients of 1e-11 and so at distances of about 1e-10.
        searched(
            "full rank: distance of AB from the nearest such projection", max(full), "<=", rounding(1e-9)
        ),
        searched("every rank: the same", max(distances), "<=", rounding(1e-9)),
        searched("different ranks met by that search, d = 2", len(set(ranks)), "==", derived(3)),
        numbers={"starts of the search that end at no critical point": starts - len(nearest)},
    )


@claim("B3", SOURCE, "Cor. 2", "the minimum takes the d largest")
def check_b3(quick: bool) -> Evidence:
    rng = np.random.default_rng(3)
    worst = np.inf
    for _ in range(100 if quick else 2000):
        n = int(rng.integers(2, 7))
        hidden = int(rng.integers(1, n))
        sigma = _random_covariance(rng, rng.uniform(0.1, 2.0, n))
        A, B = theory.critical_point(sigma, range(hidden))
        size = 10.0 ** rng.uniform(-3, 0.5)
        trial = A + size * rng.normal(size=A.shape), B + size * rng.normal(size=B.shape)
        excess = theory.reconstruction_loss(*trial, sigma) - theory.critical_loss(sigma, range(hidden))
        worst = min(worst, excess)
    pairs = itertools.combinations(range(4), 2)
    sets = [theory.critical_loss(np.diag([4.0, 3.0, 2.0, 1.0]), pair) for pair in pairs]
    return evidence(
        "Eckart, Young and Mirsky: (1 - AB) Sigma^1/2 is the error of a rank-d approximation of Sigma^1/2. "
        "The value is unique, the minimiser is not: A = U_I C, B = C^-1 U_I' for all C, and with equal "
        "eigenvalues at the edge other subspaces too.",
        searched("least loss of random weights less that of the d largest", worst, ">=", rounding(-1e-13)),
        numeric("least loss of any pair less that of (1, 2)", min(sets) - sets[0], "==", derived(0)),
    )


@claim("B4", SOURCE, "(star)", "A = U_I C, B = C^-1 U_I'")
def check_b4(quick: bool) -> Evidence:
    rng = np.random.default_rng(4)
    sigma = _random_covariance(rng, np.array([4.0, 3.0, 2.0, 1.0]))
    U = theory.spectrum(sigma).eigenvectors[:, [0, 2]]
    C = np.eye(2) + 0.5 * rng.normal(size=(2, 2))
    A, B = U @ C, np.linalg.inv(C) @ U.T
    off = float(np.abs(np.linalg.solve(A.T @ A, A.T) - B).max())
    # Rank 2 of 3: C (2, 3) and any of its right inverses.
    wide = np.eye(2, 3) + 0.5 * rng.normal(size=(2, 3))
    right = np.linalg.pinv(wide) + linalg.null_space(wide) @ rng.normal(size=(1, 2))
    low_rank = _largest_gradient_entry(U @ wide, right @ U.T, sigma)
    return evidence(
        "B = (A'A)^-1 A' of A = U_I C, with U_I the d columns of U (the source also writes U_I for U with "
        "the other columns set to zero, for which C could not be d by d). Below full rank the form is A = "
        "U_I C, B = D U_I' with any right inverse D of C: a set of dimension r(2d - r) for each subset of r.",
        numeric("(A'A)^-1 A' less C^-1 U_I'", off, "<=", ROUNDING),
        numeric("gradient there", _largest_gradient_entry(A, B, sigma), "<=", ROUNDING),
        numbers={"gradient at A = U_I C, B = D U_I', rank 2 of 3": low_rank},
    )


@claim(
    "B5",
    SOURCE,
    "Prop. 3",
    "every other critical point, A of full rank (as the proof of Prop. 1 assumes), is a saddle; the "
    "rotation by eps lowers the loss by eps^2/(1+eps^2) (lambda_k - lambda_j)",
)
def check_b5(quick: bool) -> Evidence:
    eps, j, k = sp.symbols("epsilon lambda_j lambda_k", positive=True)
    gain = derive.derive_rotation().expression[4] - eps**2 / (1 + eps**2) * (k - j)
    filling = derive.derive_filling().expression - (2 * eps**2 - eps**4) * k
    values, hidden = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), 2
    sigma = np.diag(values)
    points = {subset: theory.critical_hessian(sigma, subset, hidden) for subset in subsets(5, hidden)}
    saddles = {subset: point for subset, point in points.items() if subset != (0, 1)}
    helpless = {subset for subset, point in saddles.items() if point.rotation_rate == 0}
    wrong = 0
    for subset, point in points.items():
        A, B = theory.critical_point(sigma, subset, hidden)
        # Complex steps: the Hessian is exact to rounding.
        steps = np.append(A, B) + 1e-30j * np.eye(2 * A.size)
        rates = np.linalg.eigvalsh([_half_gradient(x, sigma, hidden).imag / 1e-30 for x in steps])
        wrong += int(np.count_nonzero(rates < -1e-9)) != point.index
        wrong += int(np.count_nonzero(np.abs(rates) <= 1e-9)) != point.nullity
    least = min(point.index for point in saddles.values())
    largest = {tuple(range(r)) for r in range(hidden)}
    stuck = sum(len(subset) == hidden for subset in helpless)
    return evidence(
        "The rotation's rate under the flow is (lambda_k - lambda_j)/2 at balanced weights; the steepest "
        "descent moves encoder and decoder by different amounts and has the rate ((lambda_k - lambda_j)^2/4 "
        "+ lambda_k^2)^1/2 - (lambda_k + lambda_j)/2. The index is #{(i kept, o left): lambda_o > lambda_i} "
        "+ (d-r)(D-r), the nullity r(2d-r) plus the pairs of equal eigenvalues, the dimension of the set of "
        "critical points. Points of lower rank are saddles too; where the r largest are kept (r = 0: the "
        "origin) no rotation leaves them, but a spare hidden neuron does. An earlier form of this row "
        "counted these points against the print, which assumes full rank from Prop. 1 on (B2).",
        symbolic("loss lost by the rotation", gain),
        numeric("points of full rank, not minima, that no rotation leaves", stuck, "==", derived(0)),
        numeric("least index of all points, not minima, D = 5, d = 2", least, ">=", derived(1)),
        corrected_statement(
            "all others are strict saddles, at rank r < d too",
            numeric("wrong indices and nullities, 16 exact Hessians", wrong, "==", derived(0)),
        ),
        corrected_statement(
            "but a rotation does not help at the origin, nor where the r largest are kept",
            numeric("points where that is wrong", len(helpless ^ largest), "==", derived(0)),
        ),
        corrected_statement(
            "there a spare hidden neuron takes up u_k with weights eps and lowers the loss by (2 eps^2 - "
            "eps^4) lambda_k",
            symbolic("loss lost by a spare neuron", filling),
        ),
        numbers={
            "eigenvalues 5..1, kept 4 and 3: rate of the rotation": points[(1, 2)].rotation_rate,
            "eigenvalues 5..1, kept 4 and 3: rate of the steepest descent": points[(1, 2)].escape_rate,
        },
    )


@claim("B6", SOURCE, "Eq. 18", "diagonal of the rotated projection: 0, 1, 1/(1+eps^2), eps^2/(1+eps^2)")
def check_b6(quick: bool) -> Evidence:
    eps = sp.Symbol("epsilon", positive=True)
    printed = sp.Matrix([1, 1 / (1 + eps**2), eps**2 / (1 + eps**2), 0])
    diagonal = derive.derive_rotation().expression[:4, :] - printed
    return evidence(
        "Four eigenvectors: kept, kept and rotated (j), rotated towards (k), left out.",
        symbolic("diagonal less the printed one", diagonal),
    )


@claim(
    "B8",
    SOURCE,
    "1, 2.1",
    "assumed: Sigma, a sum over data points, is invertible and has distinct eigenvalues (for the "
    "synthetic data of 2.1?)",
)
def check_b8(quick: bool) -> Evidence:
    n, hidden, p = 6, 3, 0.1
    sigma = SparseUniform(p).second_moment_matrix(n)
    spectrum, equal = theory.spectrum(sigma), p / 3 - p * p / 4
    multiplicity = spectrum.multiplicities.max()
    off = np.abs(spectrum.eigenvalues - equal - np.append(n * p * p / 4, np.zeros(n - 1))).max()
    wrong = 0
    for subset in itertools.combinations(range(n), hidden):
        point = theory.critical_hessian(sigma, subset, hidden)
        inside = hidden - (0 in subset)
        wrong += point.index != (0 if 0 in subset else hidden)
        wrong += point.nullity != hidden**2 + inside * (n - 1 - inside)
    rng = np.random.default_rng(8)
    samples, T = 400 if quick else 4000, 40
    data = rng.uniform(size=(samples, T, n)) * (rng.uniform(size=(samples, T, n)) < p)
    values = np.linalg.eigvalsh(np.swapaxes(data, 1, 2) @ data)
    values /= values[:, -1:]
    singular = values[:, 0] <= 1e-12
    on = np.array([csgraph.structural_rank(csr_array(pattern)) == n for pattern in data > 0])
    gap = float(np.diff(values[on], axis=1).min())
    p_never = 1 - (1 - (1 - p) ** T) ** n
    return evidence(
        "E xx' = Var x 1 + (E x)^2 11'. Critical points of full rank then have two losses only, those with "
        "and without the direction of ones. Where each feature can be given a data point of its own in "
        "which it is on, the determinant of the sum and the differences of its eigenvalues do not vanish "
        "identically, as these values alone make it diagonal with entries of any size. It is singular "
        f"otherwise: if a feature never was on, with the probability 1 - (1-S^T)^D = {p_never:.2g}, or more "
        f"rarely if two were on only once and together. For D = {n}, d = {hidden} and p = {p:g}, in "
        f"{samples} samples of {T} data points.",
        corrected_statement(
            "sums over data points are invertible, with distinct eigenvalues, if each feature is on in a "
            "point of its own",
            numeric("samples of which that is wrong", np.sum(singular == on), "==", derived(0)),
            # Equal ones would differ by their rounding, some 1e-16 of the largest.
            numeric("least gap, over the largest eigenvalue", gap, ">", rounding(1e-12)),
        ),
        corrected_statement(
            "in expectation they are equal: E xx' has two eigenvalues, p/3 - p^2/4 + D p^2/4 once and p/3 - "
            "p^2/4 D-1 times (p = 1-S), so critical points come in families",
            numeric("largest multiplicity of E xx', D = 6", multiplicity, "==", derived(n - 1)),
            numeric("eigenvalues less these", off, "<=", ROUNDING),
            numeric("wrong indices or nullities of the 20 critical points", wrong, "==", derived(0)),
        ),
        numbers={"share of singular samples, T = 40": float(singular.mean())},
        about="answer",
    )


@claim("B9", SOURCE, "2.2", "the tied optimum A = U_I, B = U_I' is a global minimum")
def check_b9(quick: bool) -> Evidence:
    rng = np.random.default_rng(9)
    gap, index = 0.0, 0
    for _ in range(20):
        n = int(rng.integers(2, 7))
        hidden = int(rng.integers(1, n + 1))
        sigma = _random_covariance(rng, rng.uniform(0.1, 2.0, n))
        A, B = theory.critical_point(sigma, range(hidden))
        least = theory.weighted_optimum(sigma, np.ones(n), hidden).loss
        gap = max(gap, float(np.abs(A - B.T).max()), abs(theory.reconstruction_loss(A, B, sigma) - least))
        index += theory.critical_hessian(sigma, range(hidden)).index
        index += theory.critical_hessian(sigma, range(hidden), tied=True).index
    return evidence(
        "With I the d largest. It reaches the least loss of any linear model, so it is a minimum of the tied "
        "loss as well, unique up to rotations of the hidden layer if eigenvalues d and d+1 differ.",
        numeric("A less B', and its loss less the least one", gap, "<=", ROUNDING),
        numeric("negative directions, pair and tied", index, "==", derived(0)),
    )


@claim(
    "B10",
    SOURCE,
    "Eq. 20-22",
    "the flows of B and A, with the constraint A = B' that updates preserve, give dW/dt = W(Sigma - "
    "W'W Sigma)",
)
def check_b10(quick: bool) -> Evidence:
    w, sigma = derive.matrix_of("w", 2, 1), derive.symmetric(2)
    encoder, oja = derive.tied_flows(w, sigma)
    flows = derive.derive_tied_flows(2, 1).expression
    W, wide = derive.matrix_of("w", 3, 2), derive.symmetric(3)
    wider = derive.derive_tied_flows(3, 2).expression
    M = W * W.T
    breaking = wider[:, 2:4] - wider[:, :2] - (wide * M - M * wide) * W
    A, B = derive.matrix_of("a", 3, 2), derive.matrix_of("b", 2, 3)
    descent = derive.derive_gradients(3, 2, 2).expression / -2
    dA, dB = descent[:3, :], descent[3:, :].T
    drift = (A.T * dA + dA.T * A - B * dB.T - dB * B.T).expand()
    run = solvers.gradient_flow([[0.6], [0.8]], np.diag([2.0, 1.0]), [1.0, 60.0], "pair")
    parted = np.abs(run.W - np.swapaxes(run.B, 1, 2)).max(axis=(1, 2))
    return evidence(
        "Take Sigma = diag(2, 1) and A = B' = w = (1, 1): dB'/dt = (1 - |w|^2) Sigma w = (-2, -1), but dA/dt "
        "= Sigma w - (w'Sigma w) w = (-1, -2). From w = (0.6, 0.8) A and B' part, to meet again at the "
        "leading eigenvector; Eq. 22 does not move from there at all.",
        symbolic("B's flow at A = B', transposed, less Eq. 22", flows[:, :1] - encoder),
        symbolic("A's flow at A = B' less Eq. 22", (flows[:, 1:2] - encoder).expand()),
        corrected_statement(
            "B's flow gives this, A's gives dW'/dt = (1 - W'W) Sigma W', Oja's flow",
            symbolic("A's flow at A = B' less Oja's", (flows[:, 1:2] - oja).expand()),
        ),
        corrected_statement(
            "A = B' breaks at the rate (Sigma M - M Sigma) W', M = W'W, so it lasts only if M and Sigma "
            "commute",
            symbolic("dA/dt - dB'/dt less (Sigma M - M Sigma) W'", breaking),
        ),
        corrected_statement("what the pair of flows conserves is A'A - BB'", symbolic("its rate", drift)),
        numbers={
            "largest difference of A and B' from w = (0.6, 0.8), t = 1": float(parted[0]),
            "the same, t = 60": float(parted[1]),
        },
        fault=Verdict.INCOMPLETE,
    )


@claim(
    "B11",
    SOURCE,
    "Eq. 23-27",
    "in the eigenbasis dw_j/dt = (1-|w_j|^2) lambda_j w_j - sum_{k!=j} <w_k,w_j> lambda_j w_k",
)
def check_b11(quick: bool) -> Evidence:
    W, lam = derive.matrix_of("w", 3, 2), sp.symbols("lambda1:4", positive=True)
    flow, _ = derive.tied_flows(W, sp.diag(*lam))
    rows = [W.row(j) for j in range(3)]
    overlaps = [sum((w.dot(row) * w for w in rows if w != row), sp.zeros(1, 2)) for row in rows]
    printed = [lam[j] * ((1 - row.dot(row)) * row - overlaps[j]) for j, row in enumerate(rows)]
    return evidence(
        "Eq. 22 in the eigenbasis, column by column. Every term carries lambda_j of the column that moves: "
        "the eigenvalues set how fast each direction moves, not where it rests.",
        symbolic("Eq. 22 less the components", flow - sp.Matrix.vstack(*printed)),
    )


@claim(
    "B12",
    SOURCE,
    "Eq. 28",
    "for Sigma = I this is descent on E = 1/4 sum_i lambda (1-|w_i|^2)^2 + 1/2 sum_{i!=j} lambda <w_i,w_j>^2",
)
def check_b12(quick: bool) -> Evidence:
    lam, w = sp.Symbol("lambda", positive=True), derive.matrix_of("w", 2, 1)
    flow, _ = derive.tied_flows(w, lam * sp.eye(2))
    lengths, cross = sum((1 - x**2) ** 2 for x in w), 2 * (w[0] * w[1]) ** 2
    printed, corrected = (flow + derive.gradient(lam * (lengths / 4 + cross / c), w) for c in (2, 4))
    closed = lam * (lengths + cross) / 4 - derive.derive_energy(2, 1).expression
    s = derive.symmetric(2)
    curl = float(derive.derive_curl().expression.subs({**dict.fromkeys(w, 1), s[0, 0]: 2, s[1, 1]: 1}))
    W, sigma = derive.matrix_of("w", 3, 2), derive.symmetric(3)
    rest = sp.eye(3) - W * W.T
    metric = derive.tied_flows(W, sigma)[0] + sigma * derive.gradient((rest * rest).trace() / 4, W)
    return evidence(
        "Each pair occurs twice in the sum over i != j. With two features on one neuron the printed energy "
        "leaves the force w_1 w_2^2: interference is counted twice. The energy does not know Sigma: the "
        "eigenvalues do not average out, they drop out of what is descended.",
        symbolic("flow plus gradient of the printed energy, D = 2, d = 1", printed.expand()),
        corrected_statement(
            "the second constant is 1/4, as i != j counts each pair twice: E = lambda/4 |1 - W'W|^2 for "
            "Sigma = lambda 1",
            symbolic("flow plus gradient with 1/4", corrected),
            symbolic("that energy less lambda/4 |1 - W'W|^2", closed),
        ),
        corrected_statement(
            "for other invertible Sigma the flow descends |1 - W'W|^2/4 in the metric tr delta Sigma^-1 "
            "delta'",
            symbolic("Eq. 22 plus Sigma times the gradient of |1 - W'W|^2/4", metric),
        ),
        corrected_statement(
            "in the usual one it has no energy",
            numeric("curl at w = (1, 1), eigenvalues 2 and 1", abs(curl), ">", derived(0)),
        ),
        fault=Verdict.MISPRINT,
    )


@claim(
    "B13",
    SOURCE,
    "2.2",
    'weight tying in practice is "more similar to" updates of both matrices that keep A = B\', and so '
    "to Eq. 22, than to descent on the tied loss sum |x - W'W x|^2",
    needs=["linear.flows"],
)
def check_b13(quick: bool, ds: xr.Dataset) -> Evidence:
    flows = derive.derive_tied_flows(3, 2).expression
    slow, oja = derive.tied_flows(derive.matrix_of("w", 3, 2), derive.symmetric(3))
    chain_rule = flows[:, 4:] - slow - oja
    s, s11 = sp.Symbol("s1", positive=True), derive.symmetric(3)[0, 0]
    lengths = derive.derive_singular_values().expression - s * (1 - s**2) * s11 * sp.ones(1, 2)
    sigma, wide, w0 = np.diag([2.0, 1.0]), np.diag([4.0, 3.0, 2.0, 1.0]), [[0.6], [0.8]]
    slow_end, tied_end = (
        2 * solvers.gradient_flow(w0, sigma, 40.0, rule).loss[0] for rule in ("encoder", "tied")
    )
    moved = abs(slow_end - 2 * theory.reconstruction_loss(w0, np.transpose(w0), sigma))
    above = abs(tied_end - 1)
    slow_rate, tied_rate = (theory.growth_rates(wide, [2, 3], rule=rule)[0] for rule in ("encoder", "tied"))
    rng, drift = np.random.default_rng(13), 0.0
    for _ in range(20):
        frame = np.linalg.qr(rng.normal(size=(4, 2)))[0]
        end = solvers.gradient_flow(frame, wide, 1.0, "encoder").W[0]
        drift = max(drift, float(np.abs(end - frame).max()))
    rising = solvers.gradient_flow([[1.05], [0.0]], [[1.0, 0.9], [0.9, 1.0]], [0.0, 20.0], "encoder").loss
    rise = 2 * float(rising[1] - rising[0])
    limits = {w: float(solvers.encoder_limit([w, w], sigma)[1]) for w in (0.001, 0.5)}
    trained = ds["loss"].sel(route="trained", rule="tied")
    off = abs(ds["loss"].sel(route="flow") - trained).max("time")
    nearer = off.sel(rule="tied") < off.sel(rule="encoder")
    text = f"of {nearer.size} trained tied models, those nearer to Eq. 22"
    share_text = "share of trained tied models that are nearer to Eq. 22"
    return evidence(
        "The tied flow rests only at projections on eigenvectors, with the same indices as the untied "
        "loss; Eq. 22 rests at every W with orthonormal rows, so wrong subspaces are no saddles of it. All"
        " singular values approach 1 under both. Rates at a projection, for i kept and o left out: "
        "rotations lambda_o - lambda_i tied, 0 under Eq. 22; lengths -2(lambda_i + lambda_j) against "
        "-(lambda_i + lambda_j); spare neurons 2 lambda_o against lambda_o. Small starts come near the "
        "leading eigenvectors under both. Eq. 22 may raise the loss, if W is longer than 1. The ends are "
        "from w = (0.6, 0.8), Sigma = diag(2, 1).",
        # "More similar" is read as most of them; the runs were known.
        experiment(share_text, 1 - float(nearer.mean()), ">", post_hoc(0.5), origin=ds),
        corrected_statement(
            "updates of both matrices that keep A = B' add up to half the gradient of the tied loss, the sum "
            "of Eq. 22 and of Oja's flow, and trained tied models follow that",
            symbolic("-1/2 gradient of the tied loss less the sum of both flows", chain_rule),
            experiment(text, float((~nearer).sum()), "==", derived(0), origin=ds),
        ),
        corrected_statement(
            "where M and Sigma commute the two flows are the same, but for a factor 2 in time; elsewhere "
            "they end apart: the tied flow at the optimum, Eq. 22 at the loss of its start if W has "
            "orthonormal rows",
            numeric("loss (sum) where Eq. 22 ends less that of its start", moved, "<=", rounding(1e-9)),
            numeric("that where the tied flow ends less the optimum", above, "<=", rounding(1e-9)),
            searched("motion of 20 random orthonormal W under Eq. 22", drift, "<=", rounding(1e-10)),
            numeric("fastest rate of Eq. 22 at a wrong projection", slow_rate, "==", derived(0)),
            numeric("the same for the tied flow, eigenvalues 4 to 1", tied_rate, "==", derived(3.0)),
            symbolic("rates of singular values of both, less s(1-s^2) u'Sigma u", lengths),
        ),
        numbers={
            "largest difference of trained losses from the tied flow": float(off.sel(rule="tied").max()),
            "smallest difference of trained losses from Eq. 22": float(off.sel(rule="encoder").min()),
            "rise of the loss (sum) under Eq. 22 from (1.05, 0), Sigma = (1 .9; .9 1)": rise,
            **{f"end of Eq. 22 from ({w:g}, {w:g}), second component": end for w, end in limits.items()},
        },
        fault=Verdict.OVERSTATED,
    )
