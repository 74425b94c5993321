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

from ...theory import relu
from ...theory.codes import derive_antipodal_loss
from ...theory.derivation import sp
from ..certificates import check, exact_total
from ..certificates.check import wiring
from ..stored import REFERENCE
from .ledger import Claim, Evidence, Statement, evidence, numeric, says, symbolic

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
        Which files, such as ``"wiring-*.json"``.
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
        return numeric("printed", text, min(one["share"] for one in found[each]), ">=", 1.0)

    third = min(found[3], key=lambda one: Fraction(one["p"]))
    pairs = ", ".join(sorted((one["p"] for one in found[2]), key=Fraction))
    return [
        says(
            f"with p up to {most}, where pairs are conjectured, encodings of a pair that are slightly longer "
            "than 1 lose less, so it is wrong for every size",
            symbolic(
                "printed",
                "slope of a pair's loss by the square of its encodings, at 1",
                sp.diff(total, a).subs(a, 1),
            ),
            symbolic(
                "answer", f"p at which a pair costs a dropped feature, less {most}", most - sp.Rational(4, 7)
            ),
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
            numeric("answer", "loss of that pentagon less the certified one", abs(here - low), "<=", 1e-11),
            numeric("answer", "certified upper less lower end of the least loss", high - low, "<=", 1e-11),
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
            numeric("answer", "loss / p^2 at coherence up to 4/5, over the pair's", far / pair, ">", 1),
            numeric("answer", "with penalty, from 4/5 on, over the triangle's", near / triangle, ">", 1),
        )
    ]


PROBLEMS = {
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
}


def _judged(problem: Problem) -> Evidence:
    paths = sorted(CERTIFICATES.glob(problem.certificates))
    rejected = [path.name for path in paths if not check(path).accepted]
    # About an answer, as it must keep its limit whatever becomes of the statement.
    sound = numeric("answer", f"of {len(paths)} certificates, those rejected", len(rejected), "==", 0)
    if rejected or not paths:
        said = f"Rejected: {', '.join(rejected)}." if rejected else "The certificates are missing."
        return evidence(said, sound, numeric("answer", "certificates", len(paths), ">", 0))
    return evidence(problem.text, sound, *problem.sentences(paths))


ROWS = tuple(
    Claim(id, SOURCE, f"problem {id}", problem.statement, lambda quick, problem=problem: _judged(problem))
    for id, problem in PROBLEMS.items()
)
