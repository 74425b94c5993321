"""Certificates: two exact losses that share no code, what is accepted, and what is not."""

import importlib
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from superposition.solvers.loss import exact_loss
from superposition.solvers.minimise import minimise
from superposition.theory.features import Features
from superposition.validate.cli import main
from superposition.validate.proofs import certificates

from ..oracles import changed_certificate

checker = importlib.import_module("superposition.validate.proofs.certificates.check")
STORED = sorted((Path(certificates.__file__).parents[2] / "reference" / "certificates").glob("*.json"))
KINDS = {"pentagon": 1, "network": 2, "alignment": 3, "pair": 4}
NAMES = "check.py", "check_pentagon.py", "check_network.py", "check_alignment.py", "check_pair.py"
CHECKERS = [Path(certificates.__file__).with_name(name) for name in NAMES]


@pytest.fixture
def pair(tmp_path):
    """Certify the antipodal pair, whose loss is p^2/3, at p = 1/10."""
    path = tmp_path / "pair.json"
    certificates.certify([[1], [-1]], [0, 0], "1/10", "1/299", wired=True, path=path)
    return path


def test_the_exact_losses_agree():
    """The corners of cubes, the checker's folds, and the engine's loss of any law."""
    for k, (n, m) in enumerate(4 * [(1, 1), (2, 1), (3, 2), (4, 2)]):
        rng = np.random.default_rng(k)
        W = [[Fraction(int(x), 7) for x in row] for row in rng.integers(-9, 10, (n, m))]
        b = [Fraction(int(x), 9) for x in rng.integers(-5, 6, n)]
        W[0][0] *= int(rng.integers(2))  # a weight of 0 has formulas of its own
        p, penalty = Fraction(int(rng.integers(1, 11)), 10), Fraction(1, 3)
        importance = [Fraction(k, 2) for k in range(1, n + 1)]
        found = certificates.exact_total(W, b, p, importance, penalty)
        assert found == checker.loss(W, b, p, importance, penalty)
        weights = np.array(W, float)
        law = Features(n, float(p), importance=np.array(importance, float))
        known = exact_loss(weights @ weights.T, np.array(b, float), law)
        overlaps = np.sum((weights @ weights.T) ** 2 * (1 - np.eye(n)))
        # Beside what the loss states, rounding of the sum.
        slack = n * known.error_estimate + 1e-13 * (1 + overlaps)
        assert abs(float(found) - n * known.loss - overlaps / 3) <= slack


def alone(number, path):
    """Run a checker by Python alone, isolated from all packages."""
    command = [sys.executable, "-I", "-S", CHECKERS[number], path]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_stored_certificates_are_accepted_and_one_of_each_kind_without_the_package():
    kinds = set()
    for path in STORED:
        kind = path.stem.split("-")[0]
        if kind != "pair":  # a slow test has all of these
            assert certificates.check(path).accepted
        if kind not in kinds:
            ran = alone(KINDS.get(kind, 0), path)
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout.startswith("accepted: ")
        kinds.add(kind)
    assert kinds == {"alignment", "coherence", "network", "pair", "pentagon", "wiring"}


@pytest.mark.slow
def test_stored_certificates_of_pairs_of_latents_are_accepted():
    for path in STORED:
        if path.stem.startswith("pair-"):
            assert certificates.check(path).accepted, path


def test_a_thousand_corruptions_are_rejected(tmp_path):
    """A byte changed, left out or added anywhere, or the end cut off: false alarms are impossible."""
    bad = tmp_path / "bad.json"
    for path in STORED:
        whole, rng = path.read_bytes(), np.random.default_rng(0)
        for k in range(-(-1000 // len(STORED))):
            at, byte = int(rng.integers(len(whole))), bytes([int(rng.integers(256))])
            before, after = whole[:at], whole[at + 1 :]
            changed = [before + byte + after, before + after, before + byte + whole[at:], before][k % 4]
            if changed != whole:
                bad.write_bytes(changed)
                found = certificates.check(bad)
                assert not found.accepted, path
                assert found.text


def test_changes_with_the_right_checksum_are_judged_by_what_they_claim(pair):
    def verdict(*change):
        return certificates.check(changed_certificate(pair, pair.with_name("other.json"), change))

    assert verdict("statement", "bound", "1/299").accepted
    assert verdict("statement", "bound", "1/2").accepted  # weaker, and so proved
    for *change, reason in (
        ("statement", "bound", "1/300", "not below"),  # the loss itself
        ("statement", "bound", "2/600", "lowest terms"),
        ("statement", "bound", "1e999999999", "no short fraction"),
        ("statement", "bound", "1/0", "no fraction"),
        ("statement", "p", "0", "not in"),
        ("statement", "p", "11/10", "not in"),
        ("statement", "penalty", "-1", "negative"),
        ("statement", "importance", ["1", "-1"], "negative"),
        ("statement", "importance", ["1"], "2 entries"),
        ("statement", "n_features", 11, "sizes"),
        ("statement", "n_features", True, "sizes"),
        ("statement", "n_hidden", 2, "2 entries"),
        ("statement", "kind", "no model has a loss below", "kind"),
        ("statement", "constraint", "two", "constraint"),
        ("statement", "more", "1", "other parts"),
        ("proof", "W", [["1"], ["-9/10"]], "not below"),
        ("proof", "W", [[1], [-1]], "fraction"),
        ("proof", "b", ["0", "__import__('os')"], "no fraction"),
    ):
        found = verdict(*change)
        assert not found.accepted, change
        assert reason in found.text, found.text


def test_a_bound_that_is_wrong_by_1e_minus_9_is_not_provable_and_not_written(tmp_path):
    best, path = minimise(5, 2, 0.05, starts=4), tmp_path / "best.json"
    value = certificates.certify(best.W, best.b, "1/20", path=path)
    assert certificates.check(path).accepted
    assert float(value) == pytest.approx(5 * best.loss, rel=1e-6)  # the weights are rounded to 1e-4
    wrong = value - Fraction(1, 10**9)
    changed_certificate(path, path, ("statement", "bound", str(wrong.limit_denominator(10**20))))
    assert not certificates.check(path).accepted
    path.unlink()
    with pytest.raises(ValueError, match="`bound` must be above"):
        certificates.certify(best.W, best.b, "1/20", wrong, path=path)
    assert not list(tmp_path.iterdir())
    assert certificates.certify([[1]], [0], "1/2", path=path) == 0  # a feature is kept: the bound is above 0
    assert certificates.check(path).accepted


def test_a_checker_names_the_one_that_fits():
    for number, name, fits in ((0, "pentagon", "check_pentagon.py"), (1, "wiring-n2-m1-p1-4", "check.py")):
        done = alone(number, STORED[0].with_name(f"{name}.json"))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith("rejected: ")
        assert f" {fits} " in done.stderr.replace("(", " ")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "p"), [(2, 1, "3/5"), (4, 2, "1/3"), (7, 2, "1/50")])
def test_the_conjecture_fails_at_sizes_that_are_not_stored(tmp_path, n, m, p):
    certificates.wiring_certificate(n, m, p, path=tmp_path / "x.json")
    assert certificates.check(tmp_path / "x.json").accepted


def test_the_command(pair, tmp_path, capsys):
    main(["check", str(pair)])
    assert "accepted" in capsys.readouterr().out
    pair.write_text("{}")
    assert main(["check", str(pair)]) == main(["check", str(STORED[0]), str(pair)]) == 1
    assert "rejected: it is no certificate" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none.json")]) == 2
    said = capsys.readouterr().err
    assert "`path` must be the file of a certificate" in said
    assert "none.json' (no such file)" in said


def test_a_certificate_that_takes_minutes_is_refused_before_any_sum(pair):
    digits = Fraction(int("7" * 27), int("9" * 26 + "1"))
    W, b = [[digits + k] for k in range(10)], [-digits] * 10
    with pytest.raises(ValueError, match=r"`W`, `b` and `p` must have fractions of at most 585 characters"):
        certificates.exact_total(W, b, "1/10")
    statement = {"n_features": 10, "importance": ["1"] * 10, "bound": "9", "constraint": "none"}
    parts = {"statement": statement, "proof": {"W": [[str(x)] for (x,) in W], "b": [str(x) for x in b]}}
    changes = [(part, *entry) for part, entries in parts.items() for entry in entries.items()]
    changed_certificate(pair, pair, *changes)
    assert "would take minutes to check" in certificates.check(pair).text


def test_a_bound_is_the_loss_rounded_up_at_about_its_tenth_digit():
    maker = importlib.import_module("superposition.validate.proofs.certificates.make")
    rng = np.random.default_rng(0)
    for power in range(-12, 13):
        value = Fraction(int(rng.integers(1, 10**15)), int(rng.integers(1, 10**15))) * Fraction(10) ** power
        bound = maker.rounded_up(value)
        assert 0 < bound - value <= value / 10**9
        assert len(str(bound.numerator).rstrip("0")) <= 12
    assert maker.rounded_up(Fraction(1, 3)) == Fraction(3333333334, 10**10)  # 0.3333333334
