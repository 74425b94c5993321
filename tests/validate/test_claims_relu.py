"""Verdicts on the ReLU output model, and checks of the checks: a wrong theory changes them."""

import numpy as np
import pytest

from superposition.validate.ledger import elhage, notes_relu
from superposition.validate.ledger.claim import verdict


def test_first_class_finds_a_slip(monkeypatch):
    """With the importance of the wrong feature the row on L_1 falls."""
    right = elhage.relu.class_loss

    def wrong(W, b, k, importance=None):
        return right(W, b, k, None if importance is None else importance[::-1])

    monkeypatch.setattr(elhage.relu, "class_loss", wrong)
    assert str(verdict(elhage.check_e5.check(True))) == "wrong"


def test_sphere_finds_a_slip(monkeypatch):
    """An energy of unordered pairs is half of what it should be."""
    right = elhage.thomson_energy
    monkeypatch.setattr(elhage, "thomson_energy", lambda W: right(W) / 2)
    assert str(verdict(elhage.check_e8.check(True))) == "wrong"


def test_blocks_depend():
    rng = np.random.default_rng(1)
    for size in (2, 5, 8):
        N = notes_relu._random_block(size, rng)
        assert np.linalg.eigvalsh(np.eye(size) - N)[0] == pytest.approx(0, abs=1e-12)
        assert np.all((N >= 0) & (N <= 1 + 1e-12))
