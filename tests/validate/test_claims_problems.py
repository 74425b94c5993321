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


def _judged(id="O49"):
    return problems._judge_problem(problems.PROBLEMS[id])


@pytest.mark.parametrize("id", problems.PROBLEMS)
def test_every_row_that_names_certificates_has_them(id):
    assert all((problems.CERTIFICATES / name).is_file() for name in problems.PROBLEMS[id].certificates)


def test_a_changed_certificate_leaves_the_row_unsettled(folder):
    stored = json.loads((folder / NAME).read_text("ascii"))
    stored["proof"]["b"][0] = "1/7"
    (folder / NAME).write_text(json.dumps(stored, sort_keys=True, indent=1) + "\n", "ascii")
    found = _judged()
    assert str(verdict(found)) == "unsettled: a finding fails"
    assert NAME in found.text


def test_without_certificates_nothing_is_settled(folder):
    for path in folder.glob("*.json"):
        path.unlink()
    assert str(verdict(_judged())) == "unsettled: a finding fails"


def test_each_certificate_is_needed_and_no_other_is_read(folder):
    shutil.copy(folder / NAME, folder / "wiring-n9-m9-p1-4.json")
    assert (
        len({path.name for path in folder.glob("wiring-*")}) == len(problems.PROBLEMS["O49"].certificates) + 1
    )
    before = _judged()
    (folder / "wiring-n9-m9-p1-4.json").write_text("{}", "ascii")
    assert _judged().findings == before.findings
    (folder / "wiring-n5-m2-p1-20.json").unlink()
    assert str(verdict(_judged())) == "unsettled: a finding fails"


def test_another_loss_of_the_pentagon_is_noticed(monkeypatch):
    right = problems.relu.class_loss
    monkeypatch.setattr(problems.relu, "class_loss", lambda W, b, k: right(W, b, k) * (1 + 1e-8))
    assert str(verdict(_judged("O42"))) == "unsettled: a finding fails"


def test_a_model_that_is_no_better_than_dropping_a_feature_ties_nothing(monkeypatch):
    right = problems.exact_total
    monkeypatch.setattr(problems, "exact_total", lambda W, b, p: right(W, b, p) * 1001 / 1000)
    assert str(verdict(_judged("O47"))) == "unsettled: a finding fails"


@pytest.mark.parametrize("counts", [(16, 16, 16), (2, 2, 16), (16, 2, 2), (3, 10, 16)])
def test_flows_answer_only_where_the_share_falls_and_rises_again(monkeypatch, counts):
    found = dict(zip(problems._FLOWS, counts, strict=True))
    monkeypatch.setattr(problems, "_count_low_coherence", found.__getitem__)
    assert str(verdict(_judged("O50"))) == "unsettled: a finding fails"
    monkeypatch.setattr(
        problems, "_count_low_coherence", dict(zip(problems._FLOWS, (16, 2, 16), strict=True)).__getitem__
    )
    assert str(verdict(_judged("O50"))) == "question, answered"


def test_a_loss_above_the_bound_of_rare_features_leaves_their_limit_unsettled(monkeypatch):
    right = problems.exact_loss
    monkeypatch.setattr(
        problems, "exact_loss", lambda M, b, law: replace(found := right(M, b, law), loss=found.loss * 1.1)
    )
    assert str(verdict(_judged("O51"))) == "unsettled: a finding fails"


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
