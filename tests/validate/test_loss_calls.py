"""How many files and Python calls one loss passes, once all is compiled and imported."""

import sys
from pathlib import Path

import numpy as np

import superposition as sp
from superposition.solvers import parallel

PACKAGE = Path(sp.__file__).resolve().parent
LAYERS = ("theory", "solvers", "validate")  # a checkout holds an environment of other people's code too
NOT_COUNTED = "theory/compile/interrupts.py"  # kernels call it, as often as a sum is long


def calls_of(function):
    """Return (file, name) of each call of the package's own Python functions and kernels in this thread."""
    calls = []

    def profile(frame, event, _):
        file = Path(frame.f_code.co_filename)
        if event == "call" and any(file.is_relative_to(PACKAGE / layer) for layer in LAYERS):
            calls.append((file.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname))

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return [call for call in calls if call[0] != NOT_COUNTED]


def test_a_loss_passes_few_files_and_calls(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", lambda: 1)  # with more threads its outputs are shared
    W = np.random.default_rng(0).normal(size=(20, 5)) / 2
    law = sp.Features(20, 0.1)
    sp.loss(W, law)
    calls = calls_of(lambda: sp.loss(W, law))
    assert len({file for file, _ in calls}) <= 21, calls
    assert len(calls) <= 95, calls
