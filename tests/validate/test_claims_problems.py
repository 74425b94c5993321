"""Verdicts on open problems rest on stored certificates: on all of them, and on no bad one."""

import json
import shutil

import pytest

from superposition.validate.claims import problems
from superposition.validate.claims.ledger import verdict

NAME = "wiring-n2-m1-p1-4.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for path in problems.CERTIFICATES.glob("*.json"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(problems, "CERTIFICATES", tmp_path)
    return tmp_path


def _judged(id="O49"):
    return problems._judged(problems.PROBLEMS[id])


@pytest.mark.parametrize("id", problems.PROBLEMS)
def test_every_row_that_names_certificates_has_them(id):
    assert not problems.PROBLEMS[id].certificates or list(
        problems.CERTIFICATES.glob(problems.PROBLEMS[id].certificates)
    )


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


def test_another_loss_of_the_pentagon_is_noticed(monkeypatch):
    right = problems.relu.class_loss
    monkeypatch.setattr(problems.relu, "class_loss", lambda W, b, k: right(W, b, k) * (1 + 1e-8))
    assert str(verdict(_judged("O42"))) == "unsettled: a finding fails"
