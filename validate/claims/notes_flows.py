"""Notes (2022), B10-B13: gradient flows of linear autoencoders and their energies."""

import numpy as np
import xarray as xr

from ...solvers import linear as solvers
from ...theory import linear as theory
from ...theory.derivation import sp
from ...theory.linear import derive
from .ledger import Evidence, bound, claim, evidence, experiment, numeric, says, symbolic
from .notes_critical import SOURCE


@claim("B10", SOURCE, "Eq. 20-22")
def b10(quick: bool) -> Evidence:
    """flows of B and A; with A = B' both reduce to dW/dt = W(Sigma - W'W Sigma)"""
    w, sigma = derive.matrix_of("w", 2, 1), derive.symmetric(2)
    encoder, oja = derive.tied_flows(w, sigma)
    flows = derive.derive_tied_flows(2, 1).expression
    W, wide = derive.matrix_of("w", 3, 2), derive.symmetric(3)
    derived = derive.derive_tied_flows(3, 2).expression
    M = W * W.T
    breaking = derived[:, 2:4] - derived[:, :2] - (wide * M - M * wide) * W
    A, B = derive.matrix_of("a", 3, 2), derive.matrix_of("b", 2, 3)
    descent = derive.derive_gradients(3, 2, 2).expression / -2
    dA, dB = descent[:3, :], descent[3:, :].T
    drift = (A.T * dA + dA.T * A - B * dB.T - dB * B.T).expand()
    run = solvers.flow_pair([[0.6], [0.8]], [[0.6, 0.8]], np.diag([2.0, 1.0]), [1.0, 60.0])
    parted = np.abs(run.A - np.swapaxes(run.B, 1, 2)).max(axis=(1, 2))
    return evidence(
        "Take Sigma = diag(2, 1) and A = B' = w = (1, 1): dB'/dt = (1 - |w|^2) Sigma w = (-2, -1), but dA/dt "
        "= Sigma w - (w'Sigma w) w = (-1, -2). From w = (0.6, 0.8) A and B' part, to meet again at the "
        "leading eigenvector; Eq. 22 does not move from there at all.",
        symbolic("printed", "B's flow at A = B', transposed, less Eq. 22", flows[:, :1] - encoder),
        symbolic("printed", "A's flow at A = B' less Eq. 22", (flows[:, 1:2] - encoder).expand()),
        says(
            "B's flow reduces to this, A's to dW'/dt = (1 - W'W) Sigma W', Oja's flow",
            symbolic("corrected", "A's flow at A = B' less Oja's", (flows[:, 1:2] - oja).expand()),
        ),
        says(
            "A = B' breaks at the rate (Sigma M - M Sigma) W', M = W'W, so it lasts only if M and Sigma "
            "commute",
            symbolic("corrected", "dA/dt - dB'/dt less (Sigma M - M Sigma) W'", breaking),
        ),
        says("what the pair of flows conserves is A'A - BB'", symbolic("corrected", "its rate", drift)),
        numbers={
            "largest difference of A and B' from w = (0.6, 0.8), t = 1": float(parted[0]),
            "the same, t = 60": float(parted[1]),
        },
    )


@claim("B11", SOURCE, "Eq. 23-27")
def b11(quick: bool) -> Evidence:
    """in the eigenbasis dw_j/dt = (1-|w_j|^2) lambda_j w_j - sum_{k!=j} <w_k,w_j> lambda_j w_k"""
    W, lam = derive.matrix_of("w", 3, 2), sp.symbols("lambda1:4", positive=True)
    flow, _ = derive.tied_flows(W, sp.diag(*lam))
    rows = [W.row(j) for j in range(3)]
    others = [sum((w.dot(one) * w for w in rows if w != one), sp.zeros(1, 2)) for one in rows]
    printed = [lam[j] * ((1 - one.dot(one)) * one - others[j]) for j, one in enumerate(rows)]
    return evidence(
        "Eq. 22 in the eigenbasis, column by column. Every term carries lambda_j of the column that moves: "
        "the eigenvalues set how fast each direction moves, not where it rests.",
        symbolic("printed", "Eq. 22 less the components", flow - sp.Matrix.vstack(*printed)),
    )


@claim("B12", SOURCE, "Eq. 28")
def b12(quick: bool) -> Evidence:
    """for Sigma = I this is descent on E = 1/4 sum_i lambda (1-|w_i|^2)^2 + 1/2 sum_{i!=j}
    lambda <w_i,w_j>^2
    """
    lam, w = sp.Symbol("lambda", positive=True), derive.matrix_of("w", 2, 1)
    flow, _ = derive.tied_flows(w, lam * sp.eye(2))
    own, cross = sum((1 - x**2) ** 2 for x in w), 2 * (w[0] * w[1]) ** 2
    printed, corrected = (flow + derive.gradient(lam * (own / 4 + cross / c), w) for c in (2, 4))
    closed = lam * (own + cross) / 4 - derive.derive_energy(2, 1).expression
    own_curl, s = derive.derive_curl().expression, derive.symmetric(2)
    curl = float(own_curl.subs({**dict.fromkeys(w, 1), s[0, 0]: 2, s[1, 1]: 1}))
    W, sigma = derive.matrix_of("w", 3, 2), derive.symmetric(3)
    rest = sp.eye(3) - W * W.T
    metric = derive.tied_flows(W, sigma)[0] + sigma * derive.gradient((rest * rest).trace() / 4, W)
    return evidence(
        "Each pair occurs twice in the sum over i != j. With two features on one neuron the printed energy "
        "leaves the force w_1 w_2^2: interference is counted twice. The energy does not know Sigma: the "
        "eigenvalues do not average out, they drop out of what is descended.",
        symbolic("printed", "flow plus gradient of the printed energy, D = 2, d = 1", printed.expand()),
        says(
            "the second constant is 1/4, as i != j counts each pair twice: E = lambda/4 |1 - W'W|^2 for "
            "Sigma = lambda 1",
            symbolic("corrected", "flow plus gradient with 1/4", corrected),
            symbolic("corrected", "that energy less lambda/4 |1 - W'W|^2", closed),
        ),
        says(
            "for other invertible Sigma the flow descends |1 - W'W|^2/4 in the metric tr delta Sigma^-1 "
            "delta'",
            symbolic("corrected", "Eq. 22 plus Sigma times the gradient of |1 - W'W|^2/4", metric),
        ),
        says(
            "in the usual one it has no energy",
            numeric("corrected", "curl at w = (1, 1), eigenvalues 2 and 1", abs(curl), ">", 0.0),
        ),
    )


@claim("B13", SOURCE, "2.2", needs=["linear.flows"])
def b13(quick: bool, ds: xr.Dataset) -> Evidence:
    """the tied loss sum |x - W'W x|^2 has another gradient; how do the two flows differ?"""
    flows = derive.derive_tied_flows(3, 2).expression
    slow, oja = derive.tied_flows(derive.matrix_of("w", 3, 2), derive.symmetric(3))
    chain_rule = flows[:, 4:] - slow - oja
    s, s11 = sp.Symbol("s1", positive=True), derive.symmetric(3)[0, 0]
    lengths = derive.derive_singular_values().expression - s * (1 - s**2) * s11 * sp.ones(1, 2)
    sigma, wide, w0 = np.diag([2.0, 1.0]), np.diag([4.0, 3.0, 2.0, 1.0]), [[0.6], [0.8]]
    slow_end, tied_end = (2 * solvers.flow(w0, sigma, 40.0, rule).loss[0] for rule in ("encoder", "tied"))
    moved = abs(slow_end - 2 * theory.reconstruction_loss(w0, np.transpose(w0), sigma))
    above = abs(tied_end - 1)
    slow_rate, tied_rate = (theory.growth_rates(wide, [2, 3], rule=rule)[0] for rule in ("encoder", "tied"))
    rng, drift = np.random.default_rng(13), 0.0
    for _ in range(20):
        frame = np.linalg.qr(rng.normal(size=(4, 2)))[0]
        drift = max(drift, float(np.abs(solvers.flow(frame, wide, 1.0, "encoder").W[0] - frame).max()))
    rising = solvers.flow([[1.05], [0.0]], [[1.0, 0.9], [0.9, 1.0]], [0.0, 20.0], "encoder").loss
    rise = 2 * float(rising[1] - rising[0])
    limits = {w: float(solvers.encoder_limit([w, w], sigma)[1]) for w in (0.001, 0.5)}
    trained = ds["loss"].sel(route="trained", rule="tied")
    off = abs(ds["loss"].sel(route="flow") - trained).max("time")
    nearer = off.sel(rule="tied") < off.sel(rule="encoder")
    text = f"of {nearer.size} trained tied models, those nearer to Eq. 22"
    return evidence(
        "Half the tied loss's gradient is the sum of Eq. 22 and of Oja's flow, and so is what updates of "
        "both matrices add up to if A = B' is enforced: trained tied models follow the tied loss, not Eq. "
        "22. The tied flow rests only at projections on eigenvectors, with the same indices as the untied "
        "loss. Eq. 22 rests at every W with orthonormal rows: it has a continuum of fixed points and no "
        "force between subspaces, so wrong ones are not saddles of it but rest as well. All singular values "
        "approach 1 under both. Rates at a projection, for i kept and o left out: rotations lambda_o - "
        "lambda_i tied, 0 under Eq. 22; lengths -2(lambda_i + lambda_j) against -(lambda_i + lambda_j); "
        "spare neurons 2 lambda_o against lambda_o. They are the same, but for a factor 2 in time, where M "
        "and Sigma commute; small starts come near the leading eigenvectors under both. Eq. 22 may even "
        "raise the loss, if W is longer than 1. The ends are from w = (0.6, 0.8), Sigma = diag(2, 1).",
        symbolic("answer", "-1/2 gradient of the tied loss less the sum of both flows", chain_rule),
        numeric("answer", "loss (sum) where Eq. 22 ends less that of its start", moved, "<=", 1e-9),
        numeric("answer", "that where the tied flow ends less the optimum", above, "<=", 1e-9),
        bound("answer", "motion of 20 random orthonormal W under Eq. 22", drift, "<=", 1e-10),
        numeric("answer", "fastest rate of Eq. 22 at a wrong projection", slow_rate, "==", 0.0),
        numeric("answer", "the same for the tied flow, eigenvalues 4 to 1", tied_rate, "==", 3.0),
        symbolic("answer", "rates of singular values of both, less s(1-s^2) u'Sigma u", lengths),
        experiment("answer", text, float((~nearer).sum()), "==", 0, origin=ds),
        numbers={
            "largest difference of trained losses from the tied flow": float(off.sel(rule="tied").max()),
            "smallest difference of trained losses from Eq. 22": float(off.sel(rule="encoder").min()),
            "rise of the loss (sum) under Eq. 22 from (1.05, 0), Sigma = (1 .9; .9 1)": rise,
            **{f"end of Eq. 22 from ({w:g}, {w:g}), second component": end for w, end in limits.items()},
        },
    )
