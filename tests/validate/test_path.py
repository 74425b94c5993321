"""The way from `sp.loss` to its number, for those who follow it in the code."""

import sys
from pathlib import Path

import numpy as np

import superposition as sp
from superposition.solvers import parallel

ROOT = Path(sp.__file__).parent
LAYERS = [ROOT / layer for layer in ("theory", "solvers", "validate")]


def test_a_loss_passes_few_functions_and_files(monkeypatch):
    """Who reads how a loss is computed opens each file and each call on the way, so that both are few.

    With more threads than one, each piece of work adds a handful of calls. A step that is worth its place may
    raise the limits; a check or a conversion of what was checked is none.
    """
    monkeypatch.setattr(parallel, "_threads", lambda: 1)
    W, law = np.random.default_rng(0).normal(size=(20, 5)) / 2, sp.Features(20, p=0.05)
    sp.loss(W, law)
    calls = []

    def note(frame, event, _):
        file = Path(frame.f_code.co_filename)
        if event == "call" and any(map(file.is_relative_to, LAYERS)):
            calls.append((file.relative_to(ROOT), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        sp.loss(W, law)
    finally:
        sys.setprofile(before)
    assert 50 < len(calls) <= 70, calls
    assert 15 < len({file for file, _ in calls}) <= 20, calls
