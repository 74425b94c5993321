"""Certificates: two exact losses that share no code, what is accepted, and what is not."""

import hashlib
import importlib
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from superposition.solvers.loss import exact_loss
from superposition.solvers.minimise import minimise
from superposition.theory.features import Features
from superposition.validate.cli import main
from superposition.validate.proofs import certificates

checker = importlib.import_module("superposition.validate.proofs.certificates.check")

STORED = sorted((Path(certificates.__file__).parents[2] / "reference" / "certificates").glob("*.json"))
KINDS = {"pentagon": 1, "network": 2, "alignment": 3}
CHECKERS = [
    Path(certificates.__file__).with_name(name)
    for name in ("check.py", "check_pentagon.py", "check_network.py", "check_alignment.py")
]
checker = sys.modules["superposition.validate.proofs.certificates.check"]


def written(content):
    """Return a certificate as text, with the checksum that belongs to it."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, indent=1).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, sort_keys=True, indent=1) + "\n"


@pytest.fixture
def pair(tmp_path):
    """Certify the antipodal pair, whose loss is p^2/3, at p = 1/10."""
    path = tmp_path / "pair.json"
    certificates.certify([[1], [-1]], [0, 0], "1/10", "1/299", wired=True, path=path)
    content = json.loads(path.read_text())
    del content["sha256"]
    return path, content


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_the_exact_losses_agree(n, m):
    """The corners of cubes, the checker's folds, and the engine's loss of any law."""
    rng = np.random.default_rng(n)
    for _ in range(4):
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


def test_stored_certificates_are_accepted_without_the_package(tmp_path):
    """By Python alone, isolated from all packages; together in less than a minute."""
    assert STORED
    for path in STORED:
        ran = subprocess.run(
            [sys.executable, "-I", "-S", CHECKERS[KINDS.get(path.stem.split("-")[0], 0)], path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith("accepted: ")
        assert certificates.check(path).accepted


@pytest.mark.parametrize("path", CHECKERS, ids=lambda path: path.stem)
def test_the_checkers_are_short_and_of_the_standard_library(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    imported = {
        line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import", "from"))
    }
    assert imported <= set(sys.stdlib_module_names)
    assert "eval(" not in text
    assert "exec(" not in text
    ran = subprocess.run(
        [sys.executable, "-I", "-S", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr.split()[0]) == (1, "Check")  # without a file: what it is for


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_thousand_corruptions_are_rejected(path, tmp_path):
    """A byte changed, left out or added anywhere, or the end cut off: false alarms are impossible."""
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    bad = tmp_path / "bad.json"
    for k in range(-(-1000 // len(STORED))):
        at, byte = int(rng.integers(len(whole))), bytes([int(rng.integers(256))])
        changed = [
            whole[:at] + byte + whole[at + 1 :],
            whole[:at] + whole[at + 1 :],
            whole[:at] + byte + whole[at:],
            whole[:at],
        ][k % 4]
        if changed == whole:
            continue
        bad.write_bytes(changed)
        found = certificates.check(bad)
        assert not found.accepted
        assert found.text


def test_changes_with_the_right_checksum_are_judged_by_what_they_claim(pair):
    path, content = pair

    def verdict(part, name, value):
        changed = json.loads(json.dumps(content))
        changed[part][name] = value
        path.write_text(written(changed))
        return certificates.check(path)

    assert verdict("statement", "bound", "1/299").accepted
    assert verdict("statement", "bound", "1/2").accepted  # weaker, and so proved
    wrong = [
        ("statement", "bound", "1/300", "not below"),  # the loss itself
        ("statement", "bound", "2/600", "lowest terms"),
        ("statement", "bound", "0.5", "lowest terms"),
        ("statement", "bound", "1e999999999", "no short fraction"),
        ("statement", "bound", "1/0", "no fraction"),
        ("statement", "bound", "9" * 100, "no short fraction"),
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
    ]
    for part, name, value, reason in wrong:
        found = verdict(part, name, value)
        assert not found.accepted, (name, value)
        assert reason in found.text, found.text


def test_what_the_checker_would_not_take_is_not_written(tmp_path):
    path = tmp_path / "x.json"
    assert (
        certificates.certify([[1]], [0], "1/2", path=path) == 0
    )  # a feature that is kept: the bound is above 0
    assert certificates.check(path).accepted
    path.unlink()
    with pytest.raises(ValueError, match="no short fraction"):
        certificates.certify([[1], [-1]], [0, 0], 1e-200, path=path)
    assert not list(tmp_path.iterdir())


def test_two_entries_in_a_row_do_not_keep_the_wiring(tmp_path):
    with pytest.raises(ValueError, match="`W`"):
        certificates.certify([[1, 1], [1, -1]], [0, 0], "1/10", 1, wired=True, path=tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_a_bound_that_is_wrong_by_1e_minus_9_is_not_provable(tmp_path):
    best = minimise(5, 2, 0.05, starts=4)
    path = tmp_path / "best.json"
    value = certificates.certify(best.W, best.b, "1/20", path=path)
    assert certificates.check(path).accepted
    assert float(value) == pytest.approx(5 * best.loss, rel=1e-6)  # the weights are rounded to 1e-4
    with pytest.raises(ValueError, match="`bound` must be above"):
        certificates.certify(best.W, best.b, "1/20", value - Fraction(1, 10**9), path=path)
    content = json.loads(path.read_text())
    del content["sha256"]
    content["statement"]["bound"] = str((value - Fraction(1, 10**9)).limit_denominator(10**20))
    path.write_text(written(content))
    assert not certificates.check(path).accepted


def test_a_pair_is_not_best_as_it_is_printed_at_any_probability():
    """The loss of the pair (c, -c) without biases falls at c² = 1, at the rate p²/6 by c²."""
    a, p, x, y = sp.symbols("a p x y", positive=True)
    alone = sp.integrate((x - a * x) ** 2, (x, 0, 1))
    both = sp.integrate((x - a * (x - y)) ** 2, (y, 0, x), (x, 0, 1)) + sp.integrate(
        x**2, (x, 0, y), (y, 0, 1)
    )
    loss = 2 * (p * (1 - p) * alone + p**2 * both)
    assert sp.simplify(loss.subs(a, 1) - p**2 / 3) == 0
    assert sp.simplify(sp.diff(loss, a).subs(a, 1) + p**2 / 6) == 0


@pytest.mark.parametrize(
    ("checker", "name", "reason"),
    [
        (0, "pentagon", "it is about the pentagon, which check_pentagon.py checks"),
        (1, "wiring-n2-m1-p1-4", "it is no whole certificate of the pentagon (check.py has others)"),
    ],
)
def test_a_checker_names_the_one_that_fits(checker, name, reason):
    command = [sys.executable, "-I", "-S", CHECKERS[checker], STORED[0].with_name(f"{name}.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"rejected: {reason}")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "p"), [(2, 1, "3/5"), (4, 2, "1/3"), (7, 2, "1/50")])
def test_the_conjecture_fails_at_sizes_that_are_not_stored(tmp_path, n, m, p):
    certificates.wiring_certificate(n, m, p, path=tmp_path / "x.json")
    assert certificates.check(tmp_path / "x.json").accepted


def test_the_command(pair, tmp_path, capsys):
    path, _ = pair
    main(["check", str(path)])
    assert "accepted" in capsys.readouterr().out
    path.write_text("{}")
    assert main(["check", str(path)]) == main(["check", str(STORED[0]), str(path)]) == 1
    assert "rejected: it is no certificate" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none.json")]) == 2
    said = capsys.readouterr().err
    assert "`path` must be the file of a certificate" in said
    assert "none.json' (no such file)" in said


def test_a_certificate_that_takes_minutes_is_refused_before_any_sum(tmp_path):
    digits = Fraction(int("7" * 27), int("9" * 26 + "1"))
    W, b = [[digits + k] for k in range(10)], [-digits] * 10
    with pytest.raises(ValueError, match=r"`W`, `b` and `p` must have fractions of at most 585 characters"):
        certificates.exact_total(W, b, "1/10")
    content = {
        "format": checker.FORMAT, "made": {},
        "proof": {"W": [[str(x) for x in row] for row in W], "b": [str(x) for x in b]},
        "statement": {
            "bound": "9", "constraint": "none", "importance": ["1"] * 10, "kind": checker.KIND,
            "n_features": 10, "n_hidden": 1, "p": "1/10", "penalty": "0",
        },
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, indent=1).encode()).hexdigest()
    path = tmp_path / "long.json"
    path.write_text(json.dumps({**content, "sha256": digest}, sort_keys=True, indent=1) + "\n", "ascii")
    assert "would take minutes to check" in certificates.check(path).text


@pytest.mark.parametrize("bad", [True, 1j, None, "1e999999999", np.nan, np.timedelta64(1, "ns")])
@pytest.mark.parametrize("name", ["W", "b", "p", "importance", "penalty"])
def test_what_is_no_fraction_is_refused_by_name(name, bad):
    given = {"W": [[1]], "b": [0], "p": "1/10", "importance": [1], "penalty": 0}
    given[name] = [[bad]] if name == "W" else [bad] if name in ("b", "importance") else bad
    if name == "importance" and bad is None:
        return
    with pytest.raises(ValueError, match=f"`{name}` must be made of finite numbers or fractions; got "):
        certificates.exact_total(**given)
