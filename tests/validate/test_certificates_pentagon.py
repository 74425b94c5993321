"""The pentagon's certificate: its formulas against integrals, its intervals, and what is not accepted."""

import itertools
import json
import sys
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from superposition.theory.relu import class_loss
from superposition.validate.proofs import certificates

from ..oracles import changed_certificate

STORED = Path(certificates.__file__).parents[2] / "reference" / "certificates" / "pentagon.json"
checker = sys.modules["superposition.validate.proofs.certificates.check_pentagon"]
CONTENT = json.loads(STORED.read_text())
STATED, PROOF = CONTENT["statement"], CONTENT["proof"]


def squares(a, b, c):
    """Integrate own and twice the neighbour's error of an output, split where the ReLU turns."""

    def between(integrand, weight):
        turn = [-b / weight] if weight and 0 < -b / weight < 1 else []
        return mp.quad(integrand, [0, *turn, 1])

    own = between(lambda x: (x - max(a * x + b, 0)) ** 2, a)
    return own + 2 * between(lambda x: max(c * x + b, 0) ** 2, c)


def reduced(u, f):
    """T of the checker's head."""
    c = mp.cos(f)
    return mp.mpf(1) / 3 - u**4 * (3 - u) ** 2 / (12 * (u**3 + 2 * max(c - 1 + u, 0) ** 3 / c))


def test_the_centre_is_that_of_the_integrals():
    with mp.workdps(30):
        angle = 2 * mp.pi / 5
        u = mp.findroot(lambda u: mp.diff(lambda t: reduced(t, angle), u), 0.794)
        T, B = reduced(u, angle), -mp.diff(lambda f: reduced(u, f), angle)
        c = mp.cos(angle)
        a = c * u**2 * (3 - u) / (2 * (c * u**3 + 2 * (c - 1 + u) ** 3))
        expected = [angle, u, T, a, (u - 1) * a, T + B * angle, B]
        found = checker.pentagon_values(*checker.ends_of(PROOF["critical"]))
        for interval, value in zip(found, expected, strict=True):
            assert interval.lo <= value * checker.UNIT <= interval.hi
            assert interval.hi - interval.lo < checker.UNIT * 1e-12
        assert abs(squares(a, (u - 1) * a, a * c) - T) < mp.mpf(10) ** -20


def test_the_pentagon_has_the_stated_loss_and_no_model_a_smaller_one():
    """The engine's loss of one active feature, at the pentagon and at 200 models from near to far of it."""
    names = "loss", "squared_length", "bias"
    loss, a, b = (np.mean([float(Fraction(x)) for x in STATED[name]]) for name in names)
    angles = 2 * np.pi * np.arange(5) / 5
    W, bias = np.sqrt(a) * np.stack([np.cos(angles), np.sin(angles)], 1), np.full(5, b)
    assert class_loss(W, bias, 1) / 5 == pytest.approx(loss, abs=1e-11)
    rng = np.random.default_rng(0)
    for size in np.geomspace(1e-3, 2, 200):
        near = class_loss(W + size * rng.normal(size=W.shape), bias + size * rng.normal(size=5), 1) / 5
        assert near > loss


def test_intervals_hold_what_they_stand_for():
    rng = np.random.default_rng(0)
    with mp.workdps(40):
        for _ in range(50):
            numbers = [Fraction(int(x), 997) for x in rng.integers(-2000, 2000, 4)]
            pairs = numbers[:2], numbers[2:]
            one, other = (checker.Interval(*sorted(pair), checker.UNIT) for pair in pairs)
            for x, y in itertools.product(*pairs):
                for held, value in ((one + other, x + y), (one * other, x * y), (3 * one, 3 * x)):
                    assert held.lo <= value * checker.UNIT <= held.hi
            f0, f1 = sorted(Fraction(int(x), 512) for x in rng.integers(0, 769, 2))
            for held, function in zip(checker.cos_and_sin(f0, f1), (mp.cos, mp.sin), strict=True):
                ends = sorted(function(mp.mpf(f.numerator) / f.denominator) * checker.UNIT for f in (f0, f1))
                assert held.lo <= ends[0] <= ends[1] <= held.hi
                assert held.hi - held.lo <= ends[1] - ends[0] + 1e-15 * checker.UNIT


def test_convexity_is_that_of_the_reduced_loss():
    """What is called convex has a positive definite Hessian by mpmath, and the reverse, at points."""
    *_, A, B = checker.pentagon_values(*checker.ends_of(PROOF["critical"]))
    line = [mp.mpf(x.lo) / checker.UNIT for x in (A, B)]

    def whole(u, f):
        c = mp.cos(f)
        h = 4 - 12 * line[0] + 12 * line[1] * f
        return h * (c * u**3 + 2 * (c - 1 + u) ** 3) - c * u**4 * (3 - u) ** 2

    rng, verdicts = np.random.default_rng(0), []
    for at in zip(rng.integers(700, 1000, 25).tolist(), rng.integers(900, 1400, 25).tolist(), strict=True):
        u, f = (Fraction(k, 1000) for k in at)
        if np.cos(float(f)) - 1 + u < 0.01:
            continue
        h = 4 + -12 * A + 12 * B * checker.Interval(f, f, checker.UNIT)
        found = checker.is_convex(checker.Interval(u, u, checker.UNIT), *checker.cos_and_sin(f, f), h, 12 * B)
        with mp.workdps(30):
            point = (mp.mpf(at[0]) / 1000, mp.mpf(at[1]) / 1000)
            uu, uf, ff = (mp.diff(whole, point, order) for order in ((2, 0), (1, 1), (0, 2)))
        assert found == (uu > 0 and ff > 0 and uu * ff > uf**2)
        verdicts.append(found)
    assert set(verdicts) == {True, False}


def test_convexity_needs_a_mixed_derivative_that_is_small_on_both_sides():
    """At u = 2, f = 0, h = 1/4 the second derivatives are 57 and 8, and the mixed one is 36 dh/df.

    By hand from the reduced loss h P - c u^4 (3 - u)^2, P = c u^3 + 2 (c - 1 + u)^3. So it is convex where
    |dh/df| is below 456^(1/2)/36 = 0.593.
    """

    def between(low, high):
        return checker.Interval(Fraction(low), Fraction(high), checker.UNIT)

    u, c, s, h = (between(x, x) for x in ("2", "1", "0", "1/4"))
    for low, high, expected in (
        ("-59/100", "59/100", True), ("-6/10", "0", False), ("0", "6/10", False), ("-59/100", "6/10", False),
        ("-6/10", "59/100", False), ("-1/10", "6/10", False), ("-6/10", "1/10", False),
    ):  # fmt: skip
        assert checker.is_convex(u, c, s, h, between(low, high)) == expected, (low, high)
    for second in (between("0", "3/4"), between("1/4", "3/4")):  # of f^2 it is 32 (1/2 - h): -8 at 3/4
        assert not checker.is_convex(u, c, s, second, between("0", "0"))


def test_the_maker_makes_the_stored_certificate(tmp_path):
    loss = certificates.pentagon_certificate(path=tmp_path / "again.json")
    low, high = (Fraction(x) for x in STATED["loss"])
    assert low < loss < high
    assert (tmp_path / "again.json").read_text() == STORED.read_text()


def test_changes_with_the_right_checksum_are_rejected(tmp_path):
    def judged(*change):
        return certificates.check(changed_certificate(STORED, tmp_path / "other.json", change))

    boxes = PROOF["boxes"]
    first, deep = boxes.index("0"), boxes.index("000")
    raised = [str(Fraction(x) + Fraction(1, 10**9)) for x in STATED["loss"]]
    outside = "not within the stated ends"
    for *change, reason in (
        ("statement", "loss", raised, outside),
        ("statement", "loss", STATED["loss"][:1], "two ends"),
        ("statement", "loss", ["1/63.19", "1/63"], "no fraction"),
        ("statement", "loss", ["1/0", "1/63"], "no whole certificate"),
        ("statement", "loss", "12", "two ends"),
        ("statement", "bias", STATED["squared_length"], outside),
        ("statement", "kind", "any other", "nothing is known of the kind"),
        ("statement", "more", "", "other parts"),
        ("proof", "critical", ["4/5", "81/100"], "critical"),
        ("proof", "critical", ["3/4", "7/8"], outside),
        ("proof", "u", ["4/5", "7/8"], outside),
        ("proof", "f", ["39/32", "5/4"], outside),
        ("proof", "u", ["1/2", "7/8"], "nothing is shown"),
        ("proof", "f", ["1", "165/128"], "nothing is shown"),
        ("proof", "u", ["99/128", "7/8"], "nothing is shown"),  # beside it, boxes would have to be finer
        ("proof", "boxes", "0", "nothing is shown"),
        ("proof", "boxes", "", "missing"),
        ("proof", "boxes", boxes[:-1], "missing"),
        ("proof", "boxes", boxes + "0", "too many"),
        ("proof", "boxes", boxes[:first] + boxes[first + 1 :], "nothing is shown|missing"),
        ("proof", "boxes", boxes[: deep - 1] + boxes[deep + 1 :], "nothing is shown|missing|too many"),
        ("proof", "boxes", boxes.replace("0", "x", 1), "of no mark"),
        ("proof", "boxes", list(boxes), "other parts"),
        ("proof", "boxes", "u" * 100_000, "too fine"),
    ):
        found = judged(*change)
        assert not found.accepted, str(change)[:80]
        assert any(words in found.text for words in reason.split("|")), found.text
    wider = [str(Fraction(x) + k * Fraction(1, 10**6)) for k, x in zip((-1, 1), STATED["loss"], strict=True)]
    assert judged("statement", "loss", wider).accepted
