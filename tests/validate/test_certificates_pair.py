"""Certificates of which pair of latents is better: made, accepted, and rejected where anything is changed."""

import importlib
import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from superposition.solvers.sae.circle import pair_codes
from superposition.validate.proofs import certificates
from superposition.validate.proofs.certificates import check_pair

from ..oracles import changed_certificate

STORED = Path(certificates.__file__).parents[2] / "reference" / "certificates" / "pair-c-7-25.json"
maker = importlib.import_module("superposition.validate.proofs.certificates.pair")


@pytest.fixture(scope="module")
def tree():
    return json.loads(STORED.read_text())["proof"]["trees"][0]


def problem_of(tangent="1/3", alone=("1/5", "1/5"), both="2/5", l1="1", w="0", cone="99/100"):
    """Return the checker's problem, of numbers or texts of fractions."""
    numbers = (Fraction(one) for one in (both, l1, w, cone))
    return check_pair.Problem(Fraction(tangent), [Fraction(q) for q in alone], *numbers)


def random_box(rng, k):
    return tuple((int(rng.choice([-1, 1])), int(rng.integers(-(2**k), 2**k)), k) for _ in range(2))


def costs(problem, angles):
    """Return the cost in floats of each pattern, by code that the checker does not share."""
    l1, w = float(problem.l1), float(problem.w)
    return [pair_codes((float(x), float(y)), *angles, l1, w)[2] for _, (x, y) in problem.patterns]


def test_the_checkers_integers_are_the_costs_in_floats():
    rng = np.random.default_rng(1)
    for _ in range(500):
        tangent = Fraction(*map(int, rng.integers(1, 30, 2)))
        l1, w = Fraction(int(rng.integers(1, 199)), 100), Fraction(int(rng.choice([0, 30, 95])), 100)
        problem = problem_of(tangent, l1=l1, w=w)
        k = int(rng.integers(0, 6))
        signs, steps = rng.choice([-1, 1], 2), rng.integers(-(2**k), 2**k + 1, 2)
        atoms = [check_pair.atom(int(sign), int(n), k) for sign, n in zip(signs, steps, strict=True)]
        assert all(x * x + y * y == z * z for x, y, z in atoms)
        angles = [math.atan2(y, x) for x, y, _ in atoms]
        squares = [float(check_pair.dot(a, a)) for _, a in problem.patterns]
        found = squares - np.array(problem.gains(*atoms)) / check_pair.UNIT
        # a singular pair of atoms may take either branch, which differ by rounding over its determinant
        np.testing.assert_allclose(found.astype(float), costs(problem, angles), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_a_box_is_below_all_pairs_in_it(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        l1, w = Fraction(int(rng.integers(1, 199)), 100), Fraction(int(rng.integers(1, 90)), 100)
        tangent = Fraction(int(rng.integers(1, 40)), 20)
        shares = [Fraction(int(n), 40) for n in rng.integers(1, 10, 3)]
        problem = problem_of(tangent, shares[:2], shares[2], l1, w, "199/200")
        box = random_box(rng, int(rng.integers(0, 5)))
        t = [(n + rng.random(200)) / 2.0**k for _, n, k in box]
        angles = [2.0 * np.arctan(x) + math.pi * (sign < 0) for x, (sign, _, _) in zip(t, box, strict=True)]
        values = np.array(shares, float) @ costs(problem, angles)
        assert float(problem.bound(box)) <= values.min() + 1e-12
        features = 0.0, 2.0 * math.atan(float(tangent))
        cosines = [np.cos(at - feature) for at in angles for feature in features]
        has_atom = np.max(np.reshape(cosines, (2, 2, -1)), axis=0) > 0.995  # (2 features, 200)
        along, apart = has_atom.any(axis=0), has_atom.all(axis=0)
        for kind, is_of in (("along", along), ("turned", ~along), ("apart", apart), ("shared", ~apart)):
            assert not (problem.is_excluded(box, kind) and is_of.any())


def test_small_boxes_are_excluded_where_no_pair_in_them_is_of_a_kind():
    rng = np.random.default_rng(9)
    problem = problem_of("1/2", w="1/5", cone="9/10")
    features, seen = (0.0, 2.0 * math.atan(0.5)), set()
    for _ in range(400):
        box = random_box(rng, 8)
        angles = [2.0 * math.atan((n + 0.5) / 256) + (math.pi if sign < 0 else 0.0) for sign, n, _ in box]
        nearest = np.array([max(math.cos(at - feature) for at in angles) for feature in features])
        if np.min(np.abs(nearest - 0.9)) < 0.02:  # a box may have pairs of both kinds
            continue
        has_atom = nearest > 0.9
        kind_of = {"along": has_atom.any(), "apart": has_atom.all()}
        kind_of |= {"turned": not kind_of["along"], "shared": not kind_of["apart"]}
        for kind, is_of in kind_of.items():
            assert problem.is_excluded(box, kind) != is_of, (box, kind)
        seen.add(tuple(has_atom))
    assert len(seen) == 4  # both, each alone, none


def test_the_slopes_are_the_largest_of_what_bounds_them():
    """Over R in [0, |a|] of 4 R^2 (|a| - R)/l1, and over R^2 in [0, C] of R (C - R^2)/(l1 C^(3/2)).

    |f_1 + f_2|^2 is (9/5)^2 + (3/5)^2 = 18/5 at this tangent.
    """
    problem, l1 = problem_of(l1="7/50"), 7 / 50
    R = np.linspace(0.0, 1.0, 100_001)
    for slope, square, length in zip(problem.slopes, problem.squares, (1.0, 1.0, 3.6**0.5), strict=True):
        largest = length**3 * np.max(4 * R**2 * (1.0 - R)) / l1
        assert largest <= slope / check_pair.UNIT * (1 + 1e-8)
        assert slope / check_pair.UNIT == pytest.approx(largest, rel=1e-8)
        assert square / check_pair.UNIT == pytest.approx(length**2, rel=1e-12)
    # 1 / sqrt(C) changes by half the slope of C over C^(3/2), and that slope is at most 2 R (C - R^2) / l1.
    largest = np.max(R * (1.0 - R**2)) / l1
    assert largest <= float(problem.root_slope) * (1 + 1e-8)
    assert float(problem.root_slope) == pytest.approx(largest, rel=1e-3)


def test_boxes_cover_all_pairs_of_atoms():
    cut = [box for whole in check_pair.roots() for box in check_pair.parts(whole)]
    for boxes, k in ((check_pair.roots(), 0), (cut, 1)):
        arcs = list(product((-1, 1), range(-(2**k), 2**k), [k]))
        assert sorted(boxes) == list(product(arcs, arcs))


def test_what_is_changed_is_rejected(tmp_path, tree):
    content = json.loads(STORED.read_text())
    claim, proof = content["statement"], content["proof"]

    def raised(name, side, factor):
        return [str(Fraction(x) * (factor if k == side else 1)) for k, x in enumerate(claim[name])]

    turned = [[str(Fraction(t) + Fraction(1, 50)) for t in proof["tangents"][0]], proof["tangents"][1]]
    second = proof["trees"][1]
    less = Fraction(99, 100)
    for part, name, value, reason in (
        ("statement", "lower", raised("lower", 0, 1 / less), "may cost less"),
        ("statement", "lower", raised("lower", 1, 1 / less), "may cost less"),
        ("statement", "lower", raised("lower", 0, less), "not above"),
        ("statement", "upper", raised("upper", 0, less), "its autoencoder costs"),
        ("statement", "l1", str(Fraction(claim["l1"]) + Fraction(1, 50)), "cost"),
        ("statement", "tangent", str(Fraction(claim["tangent"]) + Fraction(1, 50)), "cost"),
        ("statement", "prefix_weight", "1/20", "cost"),
        ("statement", "prefix_weight", "1", "prefix weight"),
        ("statement", "cone", "1", "cone"),
        ("statement", "alone", ["9/10", "1/5"], "probabilities"),
        ("statement", "better", claim["better"][::-1], "its autoencoder is not"),
        ("statement", "better", ["along", "along"], "does not name a kind"),
        ("statement", "better", ["turned", "shared"], "does not name a kind"),
        ("statement", "better", "turned", "does not name a kind"),
        ("statement", "more", "1", "other parts"),
        ("proof", "tangents", turned, "its autoencoder costs"),
        ("proof", "b", [["1/100", "0"], ["0", "0"]], "its autoencoder costs"),
        ("proof", "W", [[["1/0", "0"], ["0", "1"]]] * 2, "no fraction"),
        ("proof", "trees", [tree[:-1], second], "leaves boxes out"),
        ("proof", "trees", [tree + "0", second], "more boxes"),
        ("proof", "trees", [tree.replace("1000", "0", 1)[:-3], second], "may cost less"),
        ("proof", "trees", ["2" + tree, second], "other letters"),
        ("proof", "trees", [tree], "two trees"),
    ):  # fmt: skip
        found = certificates.check(changed_certificate(STORED, tmp_path / "x.json", (part, name, value)))
        assert not found.accepted, name
        assert reason in found.text, (name, value, found.text)


def test_nothing_is_written_where_nothing_is_proved(tmp_path, monkeypatch):
    monkeypatch.setattr(maker, "_MOST_BOXES", 100)
    with pytest.raises(ValueError, match=r"`both` must be where one kind is certified .*; 100 boxes"):
        certificates.pair_certificate(-0.28, ["1/10"] * 2, ["7/100", "11/100"], 1, path=tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_what_is_no_certificate_is_not_replaced(tmp_path):
    path, place = tmp_path / "notes.json", (-0.28, ["1/10", "1/10"], ["7/100", "11/100"], 1)
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"`path` must be a new file, or a certificate; got .*notes\.json"):
        certificates.pair_certificate(*place, path=path)
    assert path.read_text() == "mine"
    path.unlink()
    for _ in range(2):
        certificates.pair_certificate(*place, path=path)
    assert certificates.check(path).accepted
