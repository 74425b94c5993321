"""Open problems of mathematics for AI safety (lionellevine/MAIS, 2026): answers and their evidence.

A row is an entry of `PROBLEMS`. Each check verifies its certificates again, by the module that shares no code
with the one that made them; a rejected certificate leaves the row unsettled. A function that answers gets the
`paths` of these certificates.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from ...solvers.loss import exact_loss
from ...solvers.minimise import minimise
from ...solvers.minimise.objective import Objective
from ...solvers.relu import alignment_frontier
from ...solvers.statistics import more_often
from ...theory import relu
from ...theory.codes import antipodal_loss, derive_antipodal_loss
from ...theory.derivation import sp
from ...theory.features import Features
from ..proofs.certificates import check, check_alignment, exact_total
from ..proofs.certificates.check import conjectured_loss
from ..reference.read import REFERENCE
from ..runner.findings import Finding, derived, numeric, post_hoc, preregistered, rounding, symbolic
from .claim import Claim, Evidence, Statement, corrected_statement, evidence

SOURCE = "mais2026"
CERTIFICATES = REFERENCE / "certificates"


@dataclass(frozen=True)
class OpenProblem:
    """A question or conjecture of the source, and how it is answered.

    Parameters
    ----------
    statement : str
        In our own words.
    text : str
        The argument in words.
    certificates : sequence of str
        Names of files; none where the proof needs none.
    sentences : callable
        Maps the paths of these files to the sentences of the correction or answer, with their findings.
        Findings about the print make the verdict "wrong" or "holds", about an answer "question, answered".
    """

    statement: str
    text: str
    certificates: Sequence[str]
    sentences: Callable[[Sequence[Path]], Sequence[Statement]]


def _answer_o49(paths: Sequence[Path]) -> list[Statement]:
    """Return the correction of O49: models whose loss is below the conjectured least one.

    The conjecture: on m <= n/2 neurons, each feature wired to one, nothing is better than keeping m features,
    or m antipodal pairs, and dropping the others. `paths` are files of certificates, models with exact
    losses.
    """
    (p, a, beta) = (pair := derive_antipodal_loss()).symbols
    slope = sp.diff(2 * pair.expression.subs(beta, 0), a).subs(a, 1)
    # Two features with the encodings (cos e, -sin e): without the ReLU, x - y = A (x - E x).
    e = sp.Symbol("e", positive=True)
    u = sp.Matrix([sp.cos(e), -sp.sin(e)])
    A = sp.eye(2) - u * u.T
    output = -(A * sp.Matrix([-p / 2, 1 - p / 2]))[0]  # the first one, at x = (0, 1)
    models: dict[int, list[dict[str, Any]]] = {}
    for path in paths:
        certificate = json.loads(path.read_text("ascii"))
        statement, (W, b) = certificate["statement"], (certificate["proof"][name] for name in "Wb")
        n, m, chance = statement["n_features"], statement["n_hidden"], statement["p"]
        share = exact_total(W, b, chance) / conjectured_loss(n, m, Fraction(chance))
        models.setdefault(-(-n // m), []).append({"p": chance, "share": float(share)})

    def excess_below(per_neuron: int) -> Any:
        """Return the finding that no model with `per_neuron` features on a neuron beats the conjecture."""
        text = (
            f"least loss over the conjectured least, {len(models[per_neuron])} models, {per_neuron} a neuron"
        )
        least = min(model["share"] for model in models[per_neuron])
        return numeric(text, least, ">=", derived(1), about="printed")

    third = min(models[3], key=lambda model: Fraction(model["p"]))
    pairs = ", ".join(sorted((model["p"] for model in models[2]), key=Fraction))
    return [
        corrected_statement(
            "at every p and every size the least loss is less than both: two features on one neuron "
            "cost less than one kept and one dropped, and an antipodal pair costs less with encodings "
            "slightly longer than 1",
            symbolic("slope of a pair's loss by the square of its encodings, at 1", slope, about="printed"),
            symbolic("two features on a neuron: loss without the ReLU / v, less 1", (A * A.T).trace() - 1),
            symbolic(
                "an output of theirs that should be 0, by the angle e, at e = 0, less -(1 - p/2)",
                sp.diff(output, e).subs(e, 0) + 1 - p / 2,
            ),
        ),
        corrected_statement(f"pairs with biases are below it at p = {pairs}", excess_below(2)),
        corrected_statement(
            f"so are models with three features on a neuron: by {1 - third['share']:.1%} at p = {third['p']}",
            *(excess_below(per_neuron) for per_neuron in models if per_neuron > 2),
        ),
    ]


def _answer_o42(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O42: with exactly one of five features on, two neurons, the pentagon is best.

    `paths` has the file of its certificate: length of its encodings, bias and least loss.
    """
    (path,) = paths
    statement = json.loads(path.read_text("ascii"))["statement"]
    low, high = (float(Fraction(end)) for end in statement["loss"])
    square, bias = (float(Fraction(statement[name][0])) for name in ("squared_length", "bias"))
    # By the closed form in doubles; the certificate gives the loss to twelve digits.
    polygon_loss = float(relu.class_loss(np.sqrt(square) * relu.polygon(5), bias, 1)) / 5
    return [
        corrected_statement(
            f"yes, and nothing else: squared length {square:.6f}, bias {bias:.6f}, loss {low:.9f}",
            numeric("its loss less the certified one", abs(polygon_loss - low), "<=", rounding(1e-11)),
            numeric("certified upper less lower end of the least loss", high - low, "<=", rounding(1e-11)),
        ),
    ]


def _answer_o44(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O44: yes, a penalty on overlaps lowers the coherence.

    It does so for every best model of three features on two neurons, up to the p in a certificate, whose file
    `paths` has. Coherence is the largest |cosine| of two encodings. Two numbers of the proof are computed
    here, with and without the penalty; the certificate itself is checked elsewhere.
    """
    (path,) = paths
    p = Fraction(json.loads(path.read_text("ascii"))["statement"]["p"])
    pair = exact_total([[1, 0], [-1, 0], [0, 1]], [0, 0, 0], p) / p**2
    c = np.linspace(0.5, 1.0, 1001)
    square = (1 - c) / 2
    # Least costs in units of p^2 at coherence c, as p -> 0: the documentation's F(c), and the penalty's.
    least = (1 + 2 * square - 2 * square**1.5 - 4 * square**2 + 8 * square**3) / 3
    far, near = least[c <= 0.8].min(), (least + (1 - c + c**2) / 2)[c >= 0.8].min()
    triangle = 0.75 + float(p) / 8
    return [
        corrected_statement(
            f"yes: 3 features, 2 neurons, p up to {p}, penalty p^2/4 times R: every minimiser has a "
            "coherence below 4/5 with it, above 4/5 without",
            numeric("loss / p^2 at coherence up to 4/5, over the pair's", far / pair, ">", derived(1)),
            numeric("with penalty, from 4/5 on, over the triangle's", near / triangle, ">", derived(1)),
        )
    ]


def _pentagon_minimum_findings(paths: Sequence[Path], about: str = "") -> list[Finding]:
    """Return findings that the pentagon of a certificate has a negative bias and positive curvatures.

    Curvatures are eigenvalues of the Hessian of its loss with one feature on, without the zero of rotations.
    `paths` has the certificate's file first. `about` is the findings' field: "printed", or by default the
    correction.
    """
    statement = json.loads(paths[0].read_text("ascii"))["statement"]
    square, bias = (float(Fraction(statement[name][0])) for name in ("squared_length", "bias"))
    at = np.append(np.sqrt(square) * relu.polygon(5).ravel(), np.full(5, bias))

    def slope(x: Any) -> Any:
        """Return the gradient of the loss with one active feature, flat, in W (5, 2) and b."""
        by_W, by_b = relu.class_loss(x[:10].reshape(5, 2), x[10:], 1, gradient=True)
        return np.append(by_W.ravel(), by_b)

    step = 1e-5
    hessian = np.array([(slope(at + step * e) - slope(at - step * e)) / (2 * step) for e in np.eye(15)])
    curvatures = np.sort(np.linalg.eigvalsh(hessian + hessian.T)) / 2
    return [
        numeric("bias of the certified pentagon", bias, "<", derived(0), about=about),
        numeric("its least curvature but that of turning", curvatures[1], ">", post_hoc(1e-3), about=about),
    ]


def _answer_o40(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O40: for all small p the pentagon alone has the least loss.

    The models have five features on two neurons. `paths` has the file of a certificate of the pentagon.
    """
    return [
        corrected_statement(
            "yes, for all p below some bound; how large that is, is not known",
            *_pentagon_minimum_findings(paths, "printed"),
        )
    ]


def _answer_o47(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O47: whether the best model of five features on two neurons is unique.

    Up to symmetry it is, for small p. Two features on one neuron have best models of two kinds, encodings of
    equal and of opposite signs, at p = 1 and at some p below; with a large penalty on overlaps one feature is
    dropped. `paths` has the file of a certificate of the pentagon.
    """
    low, high = 0.68, 0.74
    alike, below = (minimise(2, 1, p, starts=12, rng=0).loss / float(antipodal_loss(p)) for p in (low, high))
    (w, u), (b, d) = ((Fraction(x) for x in pair) for pair in (("3/5", "4/5"), ("2/25", "-3/50")))
    loss = exact_total([[w], [u]], [b, d], 1)
    mirror = exact_total([[w], [-u]], [b + w * u, d + w * u], 1)
    return [
        corrected_statement(
            "part 1: yes, for all p below some unknown bound (O40)", *_pentagon_minimum_findings(paths)
        ),
        corrected_statement(
            "part 2: yes, at p = 1, where every feature is always on: two features on one neuron have "
            "minimisers with encodings of equal and of opposite signs; with a penalty above v, the loss of a "
            "dropped feature, one is kept and the other dropped (an example by ChengXinbu, issue 37 there)",
            numeric("exact loss of one model, p = 1, over v", float(12 * loss), "<", derived(1)),
            numeric("exact loss of its mirror image less its own", float(mirror - loss), "==", derived(0)),
        ),
        corrected_statement(
            f"below p = 1 a tie is at some p between {low:g} and {high:g}, which is not computed exactly, by "
            "a search in double precision",
            numeric(f"least loss over that of alike encodings, p = {low:g}", alike, ">=", rounding(1 - 1e-9)),
            numeric(f"the same, p = {high:g}", below, "<", post_hoc(1 - 1e-4)),
        ),
    ]


def _answer_o4(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O4: the least loss if |cosines| of encodings may be at most c.

    For c below 1/m it is the loss of keeping m of n features, and less at 1/m. `paths` is not used: there is
    no certificate.
    """
    shares = {}
    for p in (0.1, 0.5, 0.9):
        # What the simplex leaves out has mean p/2.
        result = exact_loss(np.eye(3) - 1 / 3, np.full(3, p / 2), p)
        shares[p] = 3 * (result.loss + result.error_estimate) / (p * (4 - 3 * p) / 12)
    return [
        corrected_statement(
            "no: it is (n - m) v for c below 1/m, and less at 1/m",
            *(
                numeric(f"loss of the simplex, 3 on 2, over v, p = {p:g}", share, "<", derived(1))
                for p, share in shares.items()
            ),
        )
    ]


def _answer_o51(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O51: above which penalty on overlaps the weaker of two features is dropped.

    The answer is known for p -> 0 only: its importance times the loss of a dropped feature. `paths` is not
    used: there is no certificate.
    """
    p, findings = 1e-4, []
    v = p * (4 - 3 * p) / 12
    for importance, share in ((1.0, 0.5), (1.0, 0.9), (0.5, 0.5), (0.5, 0.9)):
        q = share * importance  # the penalty over v
        first, second = np.array([1 - q, 1 - q / importance]) / (1 - q * q / importance)  # squared lengths
        w = np.array([np.sqrt(first), -np.sqrt(second)])
        loss = 2 * exact_loss(np.outer(w, w), 0.0, Features(2, p, importance=[1.0, importance])).loss
        value = loss / v + 2 * q * first * second
        least = q * (2 - q - q / importance) / (1 - q * q / importance)
        at = f"antipodal model, p = {p:g}, I = {importance:g}, penalty {share:g} I v: objective over"
        findings += [
            numeric(f"{at} that of dropping", value / importance, "<", derived(1)),
            numeric(f"{at} its proved lower bound", value / least, "<", post_hoc(1 + 1e-3)),
        ]
    return [
        corrected_statement(
            "in the limit p -> 0 alone: it is I v, with v the loss of a dropped feature; at any other p the "
            "surface is not known here, only bounds",
            *findings,
        )
    ]


def _answer_o48(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O48, three statements: nearly pure neurons have a lower loss than pure ones.

    A neuron is pure if it reads one feature; its impurity is the share of its squared weights on the others.
    The statements are that any impurity above 0 suffices, that the least loss may jump as it tends to 0, and
    that two kinds of minima have equal losses. `paths` has the files of certificates, one for each network,
    with a proved bound of its loss.
    """
    shares = []
    for path in paths:
        statement = json.loads(path.read_text("ascii"))["statement"]
        p = Fraction(statement["p"])
        pure = (statement["n_features"] - statement["n_hidden"]) * p * (4 - 3 * p) / 12
        shares.append(float(Fraction(statement["bound"]) / pure))
    impurity = 1e-10
    gap = max(
        abs(float(alignment_frontier(p, [impurity])[0]) / relu.aligned_pair_limit(p) - 1)
        for p in (0.1, 0.5, 4 / 7, 0.9)
    )
    W, beta, c = [[1, 1, 0], [1, -1, 0]], [0, 1], [Fraction(-1, 2), Fraction(1, 2), Fraction(-1)]
    V = [[Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(-1, 2)], [Fraction(0)] * 2]
    off = float(check_alignment.loss(W, beta, V, c, Fraction(1, 2)) - Fraction(1, 6))
    certified = f"largest certified loss of {len(paths)} networks, over pure neurons'"
    nearly_pure = f"least loss found at impurity {impurity:g}, over min(v, p^2/3), less 1"
    return [
        corrected_statement(
            "part 1: delta* = 0 at every p in (0, 1) and every size; there is no threshold",
            numeric(certified, max(shares), "<", derived(1)),
        ),
        corrected_statement(
            "the frontier jumps at 0 where p < 4/7, and at every p from two neurons on: as impurity tends to "
            "0, two features on one neuron lose min(v, p^2/3)",
            numeric(nearly_pure, gap, "<=", derived(impurity**0.5)),
        ),
        corrected_statement(
            "part 2: yes, as worded; two neurons that copy two of three features, read one by one or as sum "
            "and difference, with the third output off, are minima of the same loss p/3",
            numeric("loss with sum and difference, p = 1/2, less p/3", off, "==", derived(0)),
        ),
    ]


_FLOWS = (0.0, 0.6, 1.1)  # penalties over v
_STARTS, _COHERENCE, _RARE = 16, 0.85, 0.01


def _count_low_coherence(strength: float) -> int:
    """Return how many of 16 gradient flows from random weights end at a coherence of 0.85 or less.

    Coherence is the largest |cosine| of two encodings. The flows minimise the loss of five features, on with
    probability 0.01, on two neurons, plus (`strength` times the loss of a dropped feature) times the sum of
    squared overlaps.
    """
    n, m, p, low = 5, 2, _RARE, 0
    aim = Objective(n, m, p, penalty=("interference", strength * p * (4 - 3 * p) / 12))
    for W in 0.3 * np.random.default_rng(20261122).standard_normal((_STARTS, n, m)):
        at, time = np.concatenate([W.ravel(), np.zeros(n)]), 1.0
        while np.linalg.norm(aim.smooth(at)[1]) > 1e-6 and time < 1e7:
            flow = solve_ivp(lambda _, x: -aim.smooth(x)[1], (0, time), at, "LSODA", rtol=1e-6, atol=1e-9)
            at, time = flow.y[:, -1], 3 * time
        rows = aim.split(at)[0]
        rows = rows[np.linalg.norm(rows, axis=1) > 0.01]
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        low += bool(np.abs(rows @ rows.T - np.eye(len(rows))).max() <= _COHERENCE)
    return low


def _answer_o50(paths: Sequence[Path]) -> list[Statement]:
    """Return the answer to O50: larger penalties need not make a low coherence likelier.

    Findings are numbers of gradient flows from random weights that end at a low coherence (largest |cosine|
    of two encodings), at three penalties. `paths` is not used: there is no certificate.
    """
    counts = [_count_low_coherence(strength) for strength in _FLOWS]
    decided, limit = [], preregistered(1e-4)  # of either of two tests
    for k in (0, 2):
        chance = more_often(counts[k], counts[1], _STARTS)
        text = f"more flows there at {_FLOWS[k]:g} v than at {_FLOWS[1]:g} v: Fisher's p-value"
        decided.append(Finding("answer", "experiment", text, chance, "<", limit, alarm=2 * limit))
    return [
        corrected_statement(
            f"not always: of {_STARTS} flows from the same random starts {counts[0]} end there at lambda = "
            f"0, {counts[1]} at {_FLOWS[1]:g} v, and {counts[2]} at {_FLOWS[2]:g} v (five features on two "
            f"neurons, p = {_RARE:g}, normal first weights, c = {_COHERENCE:g}); an experiment, not a proof",
            *decided,
        )
    ]


PROBLEMS = {
    "O4": OpenProblem(
        "P(c), the least loss of models of coherence at most c: is it continuous? (of part 2)",
        "The documentation (problem-coherence) proves the jump at every p below 1, and P for 3 features on 2 "
        "neurons to 14 p^3 where p is at most 1/1000. P at other p, its pieces there, and 5 features from "
        "c = 0.707 on are not known.",
        (),
        _answer_o4,
    ),
    "O40": OpenProblem(
        "five features on two neurons: for p in some interval the regular pentagon is the only minimiser",
        "From the certificate of O42 by compactness, as features are rare: the documentation "
        "(problem-pentagon) has the proof, and names a candidate proof that was posted before.",
        ["pentagon.json"],
        _answer_o40,
    ),
    "O42": OpenProblem(
        "five features on two neurons, exactly one on: is the regular pentagon the model of least loss?",
        "The proof, a theorem of the documentation (problem-pentagon), leaves a finite computation: boxes on "
        "which an inequality holds. The certificate has them. That page names a candidate proof that was "
        "posted before.",
        ["pentagon.json"],
        _answer_o42,
    ),
    "O44": OpenProblem(
        "can a penalty on R, the sum of squared overlaps, lower the coherence, the largest |cosine| of two "
        "encodings, of every minimiser, while its loss stays below (n - m) v? (part 1)",
        "The proof is a theorem of the documentation (problem-coherence): the limits checked here, and the "
        "terms that p adds. The certificate is the triangle with its penalty. How coherence depends on the "
        "penalty (part 2) is bounded there, not known.",
        ["coherence-n3-m2-p1-1000.json"],
        _answer_o44,
    ),
    "O47": OpenProblem(
        "is the minimiser unique up to symmetry, five features on two neurons, p near 0 (part 1)? Can a "
        "penalty on R make it unique where it is not (part 2)?",
        "Part 1 is O40's. For part 2 L has two kinds of minimisers at p = 1, since one less its value may "
        "replace each feature there, and some model is better than one without interference. Below p = 1 it "
        "has two at a p that is enclosed, not exhibited: by branch and bound in double precision. A penalty "
        "above v leaves orthogonal features only, which switches superposition off; that has a proof "
        "(problem-coherence). Others posted candidate answers to both parts first: that page names them.",
        ["pentagon.json"],
        _answer_o47,
    ),
    "O48": OpenProblem(
        "n features, k < n hidden neurons of ReLU(V ReLU(W x + beta) + c), each with a share of at least 1 - "
        "delta of its squared weights on one feature: is the least delta at which the loss can be less than "
        "(n - k) v, that of pure neurons, 0 or a threshold (part 1)? Two local minima, of pure neurons and "
        "of neurons with shares of at most 1/2, of nearly equal losses (part 2)?",
        "The documentation (problem-purity) has the proofs. Each certificate is a network in fractions whose "
        "exact loss is below that of pure neurons. What the least loss is between 0 and 1 is bounded there, "
        "not known.",
        [
            *(f"alignment-n2-k1-p{p}.json" for p in ("1-1000", "1-10", "1-2", "4-7", "9-10")),
            *(f"alignment-n3-k2-p{p}.json" for p in ("3-5", "9-10")),
            "alignment-n5-k2-p1-10.json",
            *(f"alignment-n{n}-k3-p1-1000.json" for n in (6, 8)),
        ],
        _answer_o48,
    ),
    "O49": OpenProblem(
        "conjectured: n features, on with probability p, on m <= n/2 neurons, each wired to one neuron, have "
        "the least loss min((n - m) v, m p^2/3 + (n - 2m) v), v = p(4 - 3p)/12, that of keeping m features, "
        "or antipodal pairs, and dropping the others",
        "Each certificate is a model in fractions, wired like this, whose exact loss is below the "
        "conjectured least one. At every p, 1 included: two features with the encodings (cos e, -sin e) and "
        "suitable biases cost v without the ReLU, as keeping one and dropping the other does; for small e "
        "the ReLU sets a negative output to 0 where 0 is right, and so takes some of it. The documentation "
        "(problem-wiring) has the proof. What the least loss is, is not known.",
        [
            *(f"wiring-n2-m1-p{p}.json" for p in ("1-4", "3-5", "9-10", "99-100")),
            *(f"wiring-n3-m1-p{p}.json" for p in ("1-10", "1-100")),
            "wiring-n4-m1-p1-1000.json",
            "wiring-n5-m2-p1-20.json",
        ],
        _answer_o49,
    ),
    "O50": OpenProblem(
        "gradient flow of L + lambda R from random weights: does a larger lambda always make it likelier, or "
        "as likely, to end at a coherence of at most c? (part 2)",
        "Flows are followed until the gradient is below 1e-6. The strengths of the penalty were chosen after "
        "24 other starts; the starts and limits of this row were fixed before. The probabilities that part 1 "
        "asks for, and part 3, are open; the documentation (problem-coherence) has shares.",
        (),
        _answer_o50,
    ),
    "O51": OpenProblem(
        "two features on one neuron, importances 1 and I <= 1: above which penalty on R is the weaker "
        "feature dropped? (asked is the exact surface at every p; here its limit as p -> 0)",
        "The exact surface is open. Bounds at every p and I, which meet as p -> 0, are proved in the "
        "documentation (problem-coherence); numbers between them are searched there.",
        (),
        _answer_o51,
    ),
}


def _judge_problem(problem: OpenProblem) -> Evidence:
    """Return the evidence of a problem: its text, answer, and findings, after a check of its certificates.

    If a certificate is missing or rejected, the problem is unsettled: there is no answer.
    """
    if not problem.certificates:
        return evidence(problem.text, *problem.sentences([]), about="answer")
    paths = [path for name in problem.certificates if (path := CERTIFICATES / name).is_file()]
    rejected = [path.name for path in paths if not check(path).accepted]
    # About an answer, as it must keep its limit whatever becomes of the statement.
    sound = numeric(f"of {len(paths)} certificates, those rejected", len(rejected), "==", derived(0))
    if rejected or len(paths) < len(problem.certificates):
        text = f"Rejected: {', '.join(rejected)}." if rejected else "Certificates are missing."
        present = numeric("certificates", len(paths), "==", derived(len(problem.certificates)))
        return evidence(text, sound, present, about="answer")
    return evidence(problem.text, sound, *problem.sentences(paths), about="answer")


ROWS = tuple(
    Claim(
        id, SOURCE, f"problem {id}", problem.statement, lambda quick, problem=problem: _judge_problem(problem)
    )
    for id, problem in PROBLEMS.items()
)
