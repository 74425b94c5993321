"""A limit in seconds for losses of networks: the same sums within it, an estimate where it is too small."""

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.solvers.loss.exact import model_loss
from superposition.solvers.loss.network import time_limit
from superposition.solvers.loss.problem import Accuracy
from superposition.theory.features import Features
from superposition.theory.model import Model

RNG = np.random.default_rng(0)
MODEL = Model(RNG.normal(size=(4, 3)), hidden="relu", W_out=RNG.normal(size=(3, 4)), output="identity")
LAW = Features(3, [0.1, 0.3, 0.2], "symmetric")


def test_within_the_limit_results_are_the_same():
    plain = evaluator(LAW)(MODEL, gradient=True, target="relu")
    timed = model_loss(MODEL, LAW, Accuracy(time_limit=1e6), True, target="relu")
    assert timed.loss == plain.loss
    for name, by in plain.gradient.items():
        np.testing.assert_array_equal(timed.gradient[name], by)


def test_what_takes_longer_ends():
    with pytest.raises(time_limit.OutOfTime, match="seconds are needed") as out:
        model_loss(MODEL, LAW, Accuracy(time_limit=1e-9), target="relu")
    assert out.value.seconds > 1e-9


def _clock(monkeypatch, seconds):
    """Let each part of work take so many seconds, by a clock of its own."""
    now = [0.0]
    monkeypatch.setattr(time_limit, "work_seconds", lambda: now[0])

    def work(at):
        now[0] += seconds(at)
        return at

    return work


def test_the_estimate_is_that_of_all_parts(monkeypatch):
    work = _clock(monkeypatch, lambda at: 2.0)
    watch = time_limit.Stopwatch(100, limit=10.0)
    with pytest.raises(time_limit.OutOfTime) as out:
        watch.parallel_map(0, work)
    assert out.value.seconds == pytest.approx(2.0 * 99)  # the first part is not counted


def test_parts_are_done_in_any_order_and_returned_in_theirs(monkeypatch):
    done = []
    work = _clock(monkeypatch, lambda at: done.append(at) or 1.0)
    watch = time_limit.Stopwatch(20, 5, limit=30.0)
    assert watch.parallel_map(0, work) == list(range(20))
    assert done != list(range(20))
    assert watch.parallel_map(1, work) == list(range(5))
    assert sorted(done[:20]) == list(range(20))


def test_kinds_that_are_done_count(monkeypatch):
    work = _clock(monkeypatch, lambda at: 1.0)
    watch = time_limit.Stopwatch(20, 5, limit=20.5)
    watch.parallel_map(0, work)
    with pytest.raises(time_limit.OutOfTime):
        watch.parallel_map(1, work)  # 19 and 4 are more than 20.5
