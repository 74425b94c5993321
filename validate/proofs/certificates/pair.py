"""Maker of the certificates for `check_pair.py`: which kind of pair of latents is better."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ....solvers.sae import best_pair, pair_encoder
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.validation import FloatArray
from .check_pair import KIND, KINDS, Problem, Rejected, parts, roots, unit
from .make import rounded_up, save, to_fraction

__all__ = ["pair_certificate"]

# Boxes of a proof, at most: some minutes.
_MOST_BOXES = 100_000
# Largest denominator of an autoencoder's weights, and of tangents.
_DENOMINATOR = 10**5
# Gap of the search for the best pair of a kind, as a share of the error of rebuilding nothing.
_GAP = 2e-3


@as_annotated
def pair_certificate(
    cosine: float,
    alone: Sequence[Any],
    both: Sequence[Any],
    l1: Any,
    *,
    path: str | Path,
    prefix_weight: Any = 0,
    near: float = 0.1,
    kind: str = "turned",
) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
    """Write a certificate that the best pair of latents changes its kind with a probability; return bounds.

    Two binary features have unit directions. A pair of latents is "turned" if both its atoms are at angles of
    more than `near` to both features' directions, else "along"; it is "apart" if each feature's direction has
    an atom at an angle below `near`, else "shared". At one of the two probabilities `both` that both features
    are on, some autoencoder of `kind` has a lower objective than all autoencoders not of `kind`; at the other
    probability the reverse holds (`solvers.sae.best_pair`).

    An autoencoder reads a, the sum of the directions of the features that are on. With unit atoms d_1, d_2,
    activations h_1, h_2 and prefix weight w its objective is E (1 - w) |a - h_1 d_1 - h_2 d_2|^2 + w |a - h_1
    d_1|^2 + l1 (h_1 + h_2).

    Parameters
    ----------
    cosine : float
        Cosine of the angle between the features' directions. The tangent of half this angle is rounded to a
        fraction.
    alone : two numbers, Fractions or texts
        Probabilities that only the first feature is on, and that only the second is. Here and below a float
        is taken as the binary fraction that it is: "3/25" or "0.12" is 3/25, 0.12 is not.
    both : two numbers, Fractions or texts
        The two probabilities that both are on.
    l1, prefix_weight : number, Fraction or text
        Strength of the l1 penalty, and weight of the error of the first latent alone.
    path : path
        The JSON file.
    near : float, optional
        Angle in radians, in (0, pi/4). Its cosine is rounded to a fraction.
    kind : {"turned", "apart"}, optional
        Kind of the best pair that changes with the probability.

    Returns
    -------
    ((lower, upper), (lower, upper)) of Fraction
        At each probability in `both`: a lower bound of the objectives of all pairs of the worse kind, and an
        upper bound of the objective of one pair of the better kind.

    Raises
    ------
    ValueError
        If an argument lies outside its range, or nothing is proved at these probabilities.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate.proofs.certificates import check
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, alone = folder + "/pair.json", ["1/10", "1/10"]
    ...     bounds = pair_certificate(-0.28, alone, ["7/100", "11/100"], 1, path=path)
    ...     check(path).accepted, [lower > upper for lower, upper in bounds]
    (True, [True, True])
    """
    c = validation.number("cosine", cosine, -1.0, 1.0, brackets="()")
    angle = validation.number("near", near, 0.0, math.pi / 4.0, brackets="()")
    tangent = Fraction(math.sqrt((1.0 - c) / (1.0 + c))).limit_denominator(1000)
    cone = Fraction(math.cos(angle)).limit_denominator(1000)
    validation.choice("kind", kind, ("turned", "apart"))
    strength, w = to_fraction("l1", l1), to_fraction("prefix_weight", prefix_weight)
    validation.number("l1", float(strength), 0.0, 2.0, brackets="()")
    validation.number("prefix_weight", float(w), 0.0, 1.0, brackets="[)")
    q, shares = (
        [to_fraction(name, share) for share in values] for name, values in (("alone", alone), ("both", both))
    )
    for name, values in (("alone", q), ("both", shares)):
        if len(values) != 2:
            raise ValueError(f"`{name}` must have 2 probabilities; got {len(values)}.")
    sides = []
    for share in shares:
        try:
            sides.append(_side(Problem(tangent, q, share, strength, w, cone), share, kind))
        except Rejected as error:
            raise ValueError(f"`both` must be where one kind is certified to be better; {error}.") from error
    better, lower, upper, tangents, W, b, trees = zip(*sides, strict=True)
    if better[0] == better[1]:
        raise ValueError(f"`both` must be on two sides of a boundary; got {better[0]} as better at both.")
    statement = {
        "kind": KIND, "tangent": tangent, "l1": strength, "prefix_weight": w, "cone": cone, "alone": q,
        "both": shares, "better": better, "lower": lower, "upper": upper,
    }  # fmt: skip
    save(path, "pair_certificate", statement, {"tangents": tangents, "W": W, "b": b, "trees": trees})
    return (lower[0], upper[0]), (lower[1], upper[1])


def _side(problem: Problem, both: Fraction, kind: str) -> tuple[Any, ...]:
    """Return what a certificate states and proves for one probability `both` that both features are on.

    The tuple has: the kind of the better pair of latents (`kind`, or the opposite one); a lower bound of the
    objective for pairs of the other kind; the objective of a pair of the better kind, rounded up; of this
    pair the tangents of half its atoms' angles, W and b of its encoder; and the tree of boxes (of pairs of
    angles) that proves the bound, as text: "1" for a box that is cut in four, "0" for one that is not.

    The objective is the expected squared error with the l1 penalty. `problem` has the two features, the
    probabilities of their patterns and the penalty. Raise `Rejected` if nothing is proved.
    """
    (first, _), (second, _), _ = problem.patterns
    settings: dict[str, Any] = {
        "cosine": float(problem.features[1][0]),
        "prefix_weight": float(problem.w),
    }
    l1, near = float(problem.l1), math.acos(problem.cone)
    optima = {
        name: best_pair(
            float(first), float(second), float(both), l1, gap=_GAP, kind=name, near=near, **settings
        )
        for name in (kind, KINDS[kind])
    }
    better = min(optima, key=lambda name: optima[name].value)
    encoder = pair_encoder(optima[better].angles, l1, **settings)
    if encoder is None:
        raise Rejected("no encoder has the best activations of the better pair")
    tangents = _fractions(_half_tangents(optima[better].angles))
    W, b = [_fractions(row) for row in encoder.W_in], _fractions(encoder.b_in)
    atoms = [unit(t) for t in tangents]
    if not problem.is_of(better, atoms):
        raise Rejected("the better pair is at the edge of its kind")
    upper = rounded_up(problem.objective(atoms, W, b))
    lower = rounded_up(upper)
    other = KINDS[better]
    boxes, letters = roots(), []
    while boxes:
        box = boxes.pop()
        is_leaf = problem.is_excluded(box, other) or problem.bound(box) >= lower
        letters.append("0" if is_leaf else "1")
        if not is_leaf:
            boxes += parts(box)
        if len(letters) > _MOST_BOXES:
            raise Rejected(f"{_MOST_BOXES} boxes do not prove that pairs that are {other} cost more")
    return better, lower, upper, tangents, W, b, "".join(letters)


def _half_tangents(angles: Sequence[float]) -> list[float]:
    """Return the tangents of half the angles."""
    return [math.tan(0.5 * angle) for angle in angles]


def _fractions(values: Sequence[float] | FloatArray) -> list[Fraction]:
    """Return floats as the nearest fractions with denominators of at most 10^5."""
    return [Fraction(float(value)).limit_denominator(_DENOMINATOR) for value in values]
