"""The goal for Lean says what the certificate says: its integers, evaluated here, are the exact loss."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from superposition.validate.proofs import certificates
from superposition.validate.proofs.certificates import certify, exact_total, lean_goal

from ..oracles import changed_certificate

STORED = sorted((Path(certificates.__file__).parents[2] / "reference" / "certificates").glob("wiring-*.json"))


def sides(goal):
    """Return both sides of the theorem over the integer that they were multiplied by."""
    scale = int(re.search(r"^-- (\d+)$", goal, re.MULTILINE)[1])
    left, right = re.search(r"loss_below : \((.*) : Int\)\n  < (\d+) := by decide", goal, re.DOTALL).groups()
    total = 0
    for term in left.split("\n  + "):
        found = re.fullmatch(r"\((-?\d+)\) \* \(max \((.*)\) 0\) \^ (\d)", term)
        if found is None:
            total += int(term)
            continue
        inside = sum(int(number.strip("()")) for number in found[2].split(" + "))
        total += int(found[1]) * max(inside, 0) ** int(found[3])
    return Fraction(total, scale), Fraction(int(right), scale)


def test_the_integers_are_the_exact_loss():
    for path in STORED:
        found = json.loads(path.read_text())
        said, proof = found["statement"], found["proof"]
        loss, bound = sides(lean_goal(path))
        assert loss == exact_total(proof["W"], proof["b"], said["p"])
        assert loss < bound


def test_importances_penalties_and_features_without_weight(tmp_path):
    options = {"importance": ["1/2", 2, 1], "penalty": "1/7"}
    model = [["9/10"], ["-1"], [0]], ["1/5", "-1/10", "1/20"], "1/3"
    loss = certify(*model, "9/10", path=tmp_path / "one.json", **options)
    assert sides(lean_goal(tmp_path / "one.json")) == (loss, Fraction(9, 10))


def test_no_goal_without_a_certificate(tmp_path):
    unproved = changed_certificate(STORED[0], tmp_path / "x.json", ("statement", "bound", "1/1000000"))
    with pytest.raises(ValueError, match="`path` must be an accepted certificate"):
        lean_goal(unproved)
