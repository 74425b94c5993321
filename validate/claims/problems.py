"""Open problems of mathematics for AI safety (lionellevine/MAIS, 2026): what stored certificates decide.

A row is an entry of `PROBLEMS`. Its certificates are read again at each check, by the file that shares no
code with what made them; one that is rejected leaves the row unsettled.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ...solvers.loss import exact_loss
from ...solvers.minimise import minimise
from ...theory import relu
from ...theory.codes import antipodal_loss, derive_antipodal_loss
from ...theory.derivation import sp
from ..certificates import check, exact_total
from ..certificates.check import wiring
from ..stored import REFERENCE
from .ledger import Claim, Evidence, Statement, after, derived, evidence, numeric, rounding, says, symbolic

SOURCE = "mais2026"
CERTIFICATES = REFERENCE / "certificates"


@dataclass(frozen=True)
class Problem:
    """What is asked or conjectured, and what is found.

    Parameters
    ----------
    statement : str
        In our own words.
    text : str
        The argument in words.
    certificates : str
        Which files, such as ``"wiring-*.json"``; none where the proof needs none.
    sentences : callable
        From the paths of these files, what is true instead or the answer, and its findings. Findings about
        the print make the verdict "fails" or "holds", about an answer "question, answered".
    """

    statement: str
    text: str
    certificates: str
    sentences: Callable[[Sequence[Path]], Sequence[Statement]]


def _wiring(paths: Sequence[Path]) -> list[Statement]:
    (p, a, beta) = (pair := derive_antipodal_loss()).symbols
    total = 2 * pair.expression.subs(beta, 0)
    (most,) = (x for x in sp.solve(total.subs(a, 1) - p * (4 - 3 * p) / 12, p) if x)
    found: dict[int, list[dict[str, Any]]] = {}
    for path in paths:
        stored = json.loads(path.read_text("ascii"))
        said, (W, b) = stored["statement"], (stored["proof"][name] for name in "Wb")
        n, m, chance = said["n_features"], said["n_hidden"], said["p"]
        share = exact_total(W, b, chance) / wiring(n, m, Fraction(chance))
        found.setdefault(-(-n // m), []).append({"p": chance, "share": float(share)})

    def below(each: int) -> Any:
        text = f"least loss over the conjectured least, {len(found[each])} models, {each} a neuron"
        return numeric("printed", text, min(one["share"] for one in found[each]), ">=", derived(1))

    slope, off = sp.diff(total, a).subs(a, 1), most - sp.Rational(4, 7)
    third = min(found[3], key=lambda one: Fraction(one["p"]))
    pairs = ", ".join(sorted((one["p"] for one in found[2]), key=Fraction))
    return [
        says(
            f"with p up to {most}, where pairs are conjectured, encodings of a pair that are slightly longer "
            "than 1 lose less, so it is wrong for every size",
            symbolic("printed", "slope of a pair's loss by the square of its encodings, at 1", slope),
            symbolic("answer", f"p at which a pair costs a dropped feature, less {most}", off),
        ),
        says(f"pairs with biases are below it at p = {pairs}", below(2)),
        says(
            f"so are models with three features on a neuron: by {1 - third['share']:.1%} at p = {third['p']}",
            *(below(each) for each in found if each > 2),
        ),
    ]


def _pentagon(paths: Sequence[Path]) -> list[Statement]:
    (path,) = paths
    said = json.loads(path.read_text("ascii"))["statement"]
    low, high = (float(Fraction(end)) for end in said["loss"])
    square, bias = (float(Fraction(said[name][0])) for name in ("squared_length", "bias"))
    # By the closed form in doubles; the certificate gives the loss to twelve digits.
    here = float(relu.class_loss(np.sqrt(square) * relu.polygon(5), bias, 1)) / 5
    return [
        says(
            f"yes, and nothing else: squared length {square:.6f}, bias {bias:.6f}, loss {low:.9f}",
            numeric(
                "answer",
                "loss of that pentagon less the certified one",
                abs(here - low),
                "<=",
                rounding(1e-11),
            ),
            numeric(
                "answer",
                "certified upper less lower end of the least loss",
                high - low,
                "<=",
                rounding(1e-11),
            ),
        ),
    ]


def _coherence(paths: Sequence[Path]) -> list[Statement]:
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
        says(
            f"yes: 3 features, 2 neurons, p up to {p}, penalty p^2/4 times R: every minimiser has a "
            "coherence below 4/5 with it, above 4/5 without",
            numeric(
                "answer", "loss / p^2 at coherence up to 4/5, over the pair's", far / pair, ">", derived(1)
            ),
            numeric(
                "answer", "with penalty, from 4/5 on, over the triangle's", near / triangle, ">", derived(1)
            ),
        )
    ]


def _best(paths: Sequence[Path]) -> list[Statement]:
    said = json.loads(paths[0].read_text("ascii"))["statement"]
    square, bias = (float(Fraction(said[name][0])) for name in ("squared_length", "bias"))
    at = np.append(np.sqrt(square) * relu.polygon(5).ravel(), np.full(5, bias))

    def slope(x: Any) -> Any:
        by_W, by_b = relu.class_loss_gradient(x[:10].reshape(5, 2), x[10:], 1)
        return np.append(by_W.ravel(), by_b)

    step = 1e-5
    hessian = np.array([(slope(at + step * e) - slope(at - step * e)) / (2 * step) for e in np.eye(15)])
    curvatures = np.sort(np.linalg.eigvalsh(hessian + hessian.T)) / 2
    return [
        says(
            "yes, for all p below some bound; how large that is, is not known",
            numeric("printed", "bias of the certified pentagon", bias, "<", derived(0)),
            numeric(
                "printed", "least curvature of its loss but that of turning", curvatures[1], ">", after(1e-3)
            ),
        )
    ]


def _unique(paths: Sequence[Path]) -> list[Statement]:
    low, high = 0.68, 0.74
    alike, less = (minimise(2, 1, p, starts=12, rng=0).loss / float(antipodal_loss(p)) for p in (low, high))
    return [
        says(
            "yes, both: the pentagon is; two features on one neuron are not at a p between "
            f"{low:g} and {high:g}, and are with a penalty above v",
            numeric(
                "answer",
                f"least loss over that of alike encodings, p = {low:g}",
                alike,
                ">=",
                rounding(1 - 1e-9),
            ),
            numeric("answer", f"the same, p = {high:g}", less, "<", after(1 - 1e-4)),
        )
    ]


def _frontier(paths: Sequence[Path]) -> list[Statement]:
    shares = {}
    for p in (0.1, 0.5, 0.9):
        # What the simplex leaves out has mean p/2.
        found = exact_loss(np.eye(3) - 1 / 3, np.full(3, p / 2), p)
        shares[p] = 3 * (found.loss + found.error_estimate) / (p * (4 - 3 * p) / 12)
    return [
        says(
            "no: it is (n - m) v for c below 1/m, and less at 1/m",
            *(
                numeric("answer", f"loss of the simplex, 3 on 2, over v, p = {p:g}", share, "<", derived(1))
                for p, share in shares.items()
            ),
        )
    ]


def _penalised(paths: Sequence[Path]) -> list[Statement]:
    p = 1e-4
    v = p * (4 - 3 * p) / 12
    # Antipodal, of squared lengths 1/(1 + q) at the penalty q v: 2 q/(1 + q) v, and what both on cost.
    shares, text = [], "objective over its least value for rare features"
    for q in (0.5, 0.9):
        r = (1 + q) ** -0.5
        loss = 2 * exact_loss([[r**2, -(r**2)], [-(r**2), r**2]], 0.0, p).loss + 2 * q * v * r**4
        shares.append((loss / v, 2 * q / (1 + q)))
    return [
        says(
            "for rare features it is I v: antipodal below, the weaker feature dropped above",
            numeric(
                "answer", "penalty 0.9 v, p = 1e-4, I = 1: objective over v", shares[1][0], "<", derived(1)
            ),
            *(numeric("answer", text, x / least, "<", after(1 + 1e-3)) for x, least in shares),
        )
    ]


PROBLEMS = {
    "O4": Problem(
        "P(c), the least loss of models of coherence at most c: is it continuous? (of part 2)",
        "The documentation (problem-coherence) proves the jump at every p below 1, and P for 3 features on 2 "
        "neurons to 14 p^3 where p is at most 1/1000. P at other p, its pieces there, and 5 features from "
        "c = 0.707 on are not known.",
        "",
        _frontier,
    ),
    "O40": Problem(
        "five features on two neurons: for p in some interval the regular pentagon is the only minimiser",
        "From the certificate of O42 by compactness, as features are rare: the documentation "
        "(problem-pentagon) has the proof.",
        "pentagon.json",
        _best,
    ),
    "O42": Problem(
        "five features on two neurons, exactly one on: is the regular pentagon the model of least loss?",
        "The proof, a theorem of the documentation (problem-pentagon), leaves a finite computation: boxes on "
        "which an inequality holds. The certificate has them.",
        "pentagon.json",
        _pentagon,
    ),
    "O44": Problem(
        "can a penalty on R, the sum of squared overlaps, lower the coherence, the largest |cosine| of two "
        "encodings, of every minimiser, while its loss stays below (n - m) v? (part 1)",
        "The proof is a theorem of the documentation (problem-coherence): the limits checked here, and the "
        "terms that p adds. The certificate is the triangle with its penalty. How coherence depends on the "
        "penalty (part 2) is bounded there, not known.",
        "coherence-n3-*.json",
        _coherence,
    ),
    "O47": Problem(
        "is the minimiser unique up to symmetry, five features on two neurons, p near 0 (part 1)? Can a "
        "penalty on R make it unique where it is not (part 2)?",
        "Part 1 is O40's. For part 2 two kinds of models are best at one p, by branch and bound in double "
        "precision, and a penalty above v leaves orthogonal features only, by a proof (problem-coherence).",
        "pentagon.json",
        _unique,
    ),
    "O49": Problem(
        "n features, on with probability p, on m <= n/2 neurons, each feature wired to one neuron: the least "
        "loss is min((n - m) v, m p^2/3 + (n - 2m) v), v = p(4 - 3p)/12, that of keeping m features, or "
        "antipodal pairs, and dropping the others",
        "Each certificate is a model in fractions, wired like this, whose exact loss is below the "
        "conjectured least one. That it is wrong at every p below 1 is a theorem of the documentation "
        "(problem-wiring). What the least loss is, is not known.",
        "wiring-*.json",
        _wiring,
    ),
    "O50": Problem(
        "gradient flow from random weights: does more penalty on R make a low coherence likelier? (part 2)",
        "Numerical, in the documentation (problem-coherence) and a slow test: no. No check of this row "
        "follows flows, so it stays open here.",
        "",
        lambda paths: [],
    ),
    "O51": Problem(
        "two features on one neuron, importances 1 and I <= 1: from which penalty on R on is the weaker "
        "feature dropped?",
        "Bounds at every p and I, and the limit, are proved in the documentation (problem-coherence). The "
        "surface between is numerical.",
        "",
        _penalised,
    ),
}


def _judged(problem: Problem) -> Evidence:
    if not problem.certificates:
        return evidence(problem.text, *problem.sentences([]))
    paths = sorted(CERTIFICATES.glob(problem.certificates))
    rejected = [path.name for path in paths if not check(path).accepted]
    # About an answer, as it must keep its limit whatever becomes of the statement.
    sound = numeric(
        "answer", f"of {len(paths)} certificates, those rejected", len(rejected), "==", derived(0)
    )
    if rejected or not paths:
        said = f"Rejected: {', '.join(rejected)}." if rejected else "The certificates are missing."
        return evidence(said, sound, numeric("answer", "certificates", len(paths), ">", derived(0)))
    return evidence(problem.text, sound, *problem.sentences(paths))


ROWS = tuple(
    Claim(id, SOURCE, f"problem {id}", problem.statement, lambda quick, problem=problem: _judged(problem))
    for id, problem in PROBLEMS.items()
)
