"""Verdicts on open problems rest on stored certificates: on all of them, and on no bad one."""

import json
import shutil
from dataclasses import replace

import pytest

from superposition.validate.ledger import problems
from superposition.validate.ledger.claim import verdict

NAME = "wiring-n2-m1-p1-4.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for path in problems.CERTIFICATES.glob("*.json"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(problems, "CERTIFICATES", tmp_path)
    return tmp_path


UNSETTLED = "unsettled: a finding fails"


def judged(id="O49"):
    return str(verdict(problems._judge_problem(problems.PROBLEMS[id])))


def test_each_certificate_is_needed_whole_and_no_other_is_read(folder):
    stored = json.loads((folder / NAME).read_text("ascii"))
    (folder / "wiring-n9-m9-p1-4.json").write_text("{}", "ascii")
    assert judged() != UNSETTLED
    (folder / "wiring-n5-m2-p1-20.json").rename(folder / "kept")
    assert judged() == UNSETTLED
    (folder / "kept").rename(folder / "wiring-n5-m2-p1-20.json")
    assert judged() != UNSETTLED
    stored["proof"]["b"][0] = "1/7"
    (folder / NAME).write_text(json.dumps(stored, sort_keys=True, indent=1) + "\n", "ascii")
    found = problems._judge_problem(problems.PROBLEMS["O49"])
    assert str(verdict(found)) == UNSETTLED
    assert NAME in found.text
    for path in folder.glob("*.json"):
        path.unlink()
    assert judged() == UNSETTLED


@pytest.mark.parametrize(
    ("id", "module", "name", "change"),
    [
        ("O42", problems.relu, "class_loss", lambda loss: loss * (1 + 1e-8)),
        ("O47", problems, "exact_total", lambda total: total * 1001 / 1000),
        ("O51", problems, "exact_loss", lambda found: replace(found, loss=found.loss * 1.1)),
    ],
)
def test_another_loss_leaves_the_row_unsettled(id, module, name, change, monkeypatch):
    """Of the pentagon, of a model that beats dropping a feature, and of rare features."""
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: change(right(*given)))
    assert judged(id) == UNSETTLED


def test_flows_answer_only_where_the_share_falls_and_rises_again(monkeypatch):
    for *counts, said in (
        (16, 16, 16, UNSETTLED), (2, 2, 16, UNSETTLED), (16, 2, 2, UNSETTLED), (3, 10, 16, UNSETTLED),
        (16, 2, 16, "question, answered"),
    ):  # fmt: skip
        found = dict(zip(problems._FLOWS, counts, strict=True))
        monkeypatch.setattr(problems, "_count_low_coherence", found.__getitem__)
        assert judged("O50") == said


def test_a_conjecture_that_is_met_is_not_called_wrong(monkeypatch):
    """Certified losses at the conjectured least, and none that falls with longer encodings."""
    paths = sorted(problems.CERTIFICATES.glob("wiring-*.json"))
    met = iter(json.loads(path.read_text("ascii"))["statement"] for path in paths)

    def at(W, b, p):
        said = next(met)
        return problems.conjectured_loss(said["n_features"], said["n_hidden"], problems.Fraction(p))

    monkeypatch.setattr(problems, "exact_total", at)
    findings = [f for one in problems._answer_o49(paths)[1:] for f in one.findings]
    assert all(f.passed for f in findings)
