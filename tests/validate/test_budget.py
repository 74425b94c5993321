"""Budgets of seconds: searches and audits end at them, and say what they rest on."""

import importlib
import io
import re
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import superposition as sp
from superposition.solvers import progress
from superposition.solvers.deadline import Deadline, DeadlineOver, _compile_clock, deadline_of, work_seconds
from superposition.solvers.loss import budget
from superposition.solvers.loss.network.time_limit import Stopwatch
from superposition.solvers.loss.problem import Accuracy, LossProblem
from superposition.solvers.minimise import descent, minimise
from superposition.solvers.sae import AutoencoderObjective, best_autoencoder
from superposition.theory.features import Features, exclusive
from superposition.validate.api.per_feature import near_equal
from superposition.validate.audit import losses


def test_compiling_does_not_count_and_is_no_reason_to_sample():
    def compiling(k):
        _compile_clock.on_start(None)
        time.sleep(0.05)
        _compile_clock.on_end(None)
        return k

    start, deadline = work_seconds(), Deadline(0.5)
    compiling(0)
    assert work_seconds() - start < 0.04
    assert deadline.seconds_left() > 0.46
    assert Stopwatch(20, limit=0.5).parallel_map(0, compiling, 1) == list(range(20))


def test_a_deadline_is_one_for_all_that_share_it():
    deadline = deadline_of(0.0)
    assert deadline_of(deadline) is deadline
    assert deadline.is_over()
    assert deadline.part(0.5).is_over()
    assert 4.0 < Deadline(10.0).part(0.5).seconds_left() <= 5.0
    with pytest.raises(DeadlineOver):
        deadline.check()
    assert not deadline_of(None).is_limit()


def test_a_descent_ends_between_two_evaluations():
    calls = []

    def slow(x):
        calls.append(1)
        time.sleep(0.02)
        return float(x @ x), 2 * x

    start = np.full(3, 2.0)
    end = descent.lbfgs(lambda x: (slow(x)[0] ** 2, 2 * slow(x)[0] * 2 * x), start, deadline=Deadline(0.05))
    assert len(calls) <= 8
    assert end.value <= 144.0
    assert descent.lbfgs(slow, start, deadline=Deadline(0.0)).value == 12.0  # one evaluation at least


def test_a_search_of_no_seconds_has_a_model_and_its_loss():
    law = Features(20, 0.05, importance=0.9 ** np.arange(20))
    minimise(20, 5, law, seconds=0.1)
    found = minimise(20, 5, law, seconds=0)
    assert (found.starts, found.planned) == (1, 28)
    assert found.loss + found.error_estimate >= found.lower_bound > 0.0
    assert 0.0 < found.error_estimate < 1e-3 * found.loss


def test_the_seconds_of_all_outputs_count(monkeypatch):
    problem, now = LossProblem.of(np.eye(40), np.full(40, -0.1), 0.1), [0.0]
    monkeypatch.setattr(budget, "work_seconds", lambda: now[0])
    monkeypatch.setattr(
        budget, "evaluate", lambda part, _: now.__setitem__(0, now[0] + 0.1 * part.biases.size)
    )
    assert budget.loss_within_deadline(Deadline(10.0), problem, Accuracy()) is None  # 4 s of 2.5 for all


@pytest.mark.parametrize(
    ("method", "tol"), [("folding", 1e-3), ("folding, fourier", 1e-9), ("fourier", 1e-9)]
)
def test_more_digits_are_wanted_unless_no_output_has_more(monkeypatch, method, tol):
    """Folds are exact at any tolerance; where one output of many is a sum over frequencies it is not."""
    monkeypatch.setattr(budget, "evaluate", lambda _, digits: SimpleNamespace(method=method, tol=digits.tol))
    problem = LossProblem.of(np.eye(3), 0.0, 0.1)
    assert budget.loss_within_deadline(Deadline(10.0), problem, Accuracy(1e-9)).tol == tol


def test_a_loss_that_takes_too_long_is_sampled_and_says_so(monkeypatch):
    law, W = Features(12, 0.1), np.random.default_rng(0).normal(size=(12, 3)) / 2
    exact = sp.audit((W, np.zeros(12)), law, seconds=0)
    monkeypatch.setattr(losses, "loss_within_deadline", lambda *_: None)
    found = sp.audit((W, np.zeros(12)), law, seconds=0)
    assert found.method == "samples"
    assert "The loss is sampled, to +- " in found.left_out
    assert 0.0 < abs(found.loss - exact.loss) < found.loss_error < 0.1 * exact.loss


def test_a_search_goes_on_while_few_starts_reach_the_best():
    law = Features(6, 0.1, importance=0.8 ** np.arange(6))
    once, more = (minimise(6, 2, law, starts=1, hits=hits) for hits in (0, 8))
    assert once.hits < 8
    assert more.planned == more.starts > once.starts
    assert more.loss <= once.loss * (1 + 1e-9)
    assert 0.0 <= more.unseen <= 1.0
    nothing = sp.best(sp.Features(2, 0.1), 3)
    assert (nothing.certainty, nothing.note) == ("proved", "the loss is 0, and a loss is never negative")


def test_best_has_a_row_for_each_feature_with_its_name():
    law = sp.Features(4, [0.1, 0.2, 0.1, 0.1], importance=[1.0, 1.0, 0.5, 1e-3])
    names = ["red", "green", "blue", "none"]
    found = sp.best(law, 2, names=names)
    frame = found.to_frame().set_index("feature")
    assert list(frame.index) == names
    np.testing.assert_allclose(frame["loss"], sp.loss(found.model, law).per_feature, rtol=1e-3, atol=1e-9)
    assert list(frame.index[frame["represented"]]) == list(found.represented)
    M = found.W_out @ found.W_in
    off = np.abs(M - np.diag(np.diag(M)))
    np.testing.assert_allclose(frame["interference"], M[np.arange(4), off.argmax(axis=1)])
    np.testing.assert_array_equal(frame[["p", "importance"]].T, [law.p, law.importance])
    assert frame.loc["red", "interference_from"] == frame.index[off[0].argmax()]


def test_interference_does_not_depend_on_the_units_of_features():
    W, units = np.random.default_rng(0).normal(size=(4, 2)), np.array([1.0, 0.1, 5.0, 30.0])
    one, other = (
        sp.audit((W * size[:, None], W.T / size, np.zeros(4)), Features(4, 0.1, scale=size), seconds=0)
        for size in (np.ones(4), units)
    )
    names = ["interference", "interference_from", "share_saved"]
    first, second = (found.to_frame()[names].to_numpy(float) for found in (one, other))
    np.testing.assert_allclose(second, first, rtol=1e-6)
    np.testing.assert_allclose(other.to_frame()["norm"], np.linalg.norm(W, axis=1) / units)  # of W_in alone


def test_audit_has_a_row_for_each_feature_of_each_model():
    law, names = sp.Features(3, [0.1, 0.2, 0.1]), ["red", "green", "blue"]
    W = np.array([[[1.0, 0.0], [-0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0], [0.05, 0.05]]])
    found = sp.audit({"W": W.swapaxes(1, 2), "b_final": np.zeros((2, 3))}, law, seconds=0, names=names)
    frame = found.to_frame()
    assert frame["instance"].tolist() == [0, 0, 0, 1, 1, 1]
    assert frame["feature"].tolist() == 2 * names
    per_feature = np.concatenate([sp.loss((one, np.zeros(3)), law).per_feature for one in W])
    np.testing.assert_allclose(frame["loss"], per_feature, rtol=1e-9)
    np.testing.assert_allclose(frame["share_saved"], 1.0 - per_feature / np.tile(law.variance, 2), atol=1e-9)
    np.testing.assert_allclose(frame["norm"], np.linalg.norm(W, axis=2).ravel())
    assert frame["interference_from"].tolist() == ["green", "red", "green", "blue", "blue", "red"]
    assert frame["represented"].tolist() == [True, True, True, True, True, False]
    assert "1: represented: 2 of 3 features, without feature blue" in found.lines
    assert "0: structure: 3 features in 2 dimensions (red-green-blue)" in found.lines


def test_best_names_features_that_nearly_equal_minima_drop():
    law = sp.Features(4, 0.6, importance=[1.0, 0.98, 0.97, 0.96])
    found = sp.best(law, 2, starts=12, names=["red", "green", "blue", "grey"])
    assert len(found.represented) == 4
    assert any(re.fullmatch(r"a minimum only \S+ % above drops grey", line) for line in found.lines)
    assert "a minimum only" not in str(sp.best(sp.Features(4, 0.6), 2, starts=12))
    first, second = np.eye(2)[:, :1], np.eye(2)[:, 1:]  # each represents one of two features
    minima = [
        SimpleNamespace(objective=size, W_out=W, W_in=W.T, b=0.05 - 0.05 * W[:, 0])
        for size, W in ((2.0, first), (2.06, second), (2.2, first))
    ]
    minimum = SimpleNamespace(objective=2.0, minima=minima)
    kept = near_equal(minimum, sp.Features(2, 0.1, importance=[1, 0.97]), first[:, 0] > 0, "ab", Deadline())
    assert kept == ["a minimum only 3 % above represents b and drops a"]


def test_autoencoders_are_searched_for_so_many_seconds():
    f, told = AutoencoderObjective(Features(2, 0.2), np.eye(2), l1=0.05), []
    whole = best_autoencoder(f, 2, starts=3, progress=lambda *words: told.append(words))
    assert [one[:2] for one in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[-1][2] == whole.value
    short = best_autoencoder(f, 2, starts=3, seconds=0, progress=False)
    assert [(one.starts, one.planned) for one in (whole, short)] == [(3, 3), (1, 3)]
    assert short.value >= whole.value


def test_a_long_run_says_so_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", written := io.StringIO())
    monkeypatch.setattr(progress, "_SILENT", 0.02)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    with progress.report_progress("best") as tell:
        tell("1 of 9 descents")
        time.sleep(0.3)
    before = written.getvalue()
    lines = before.splitlines()
    assert lines[0] == "best: 0 s, 1 of 9 descents"
    assert len(lines) < 6  # ever more rarely
    with progress.no_status_line(), progress.report_progress("best"):
        time.sleep(0.1)
    assert written.getvalue() == before


@pytest.mark.slow  # compiles for half a minute what other tests compile for other networks
def test_a_loss_that_takes_too_long_is_sampled_within_its_seconds(monkeypatch):
    monkeypatch.setattr(budget, "_LEAST_SECONDS", 0.0)  # else this machine's speed decides
    draw = np.random.default_rng(0)
    out, W = draw.normal(size=(40, 20)) / 6, draw.normal(size=(100, 25)) / 5
    network = sp.Model(out.T, hidden="relu", W_out=out, output="identity"), Features(40, 0.1)
    toy = (W @ W.T, np.zeros(100)), Features(100, 0.1, "half-normal")
    for model, law in (network, toy):
        sampled, exact = sp.loss(model, law, seconds=0), sp.loss(model, law, tol=1e-6)
        assert (sampled.certainty, exact.certainty) == ("measured", "exact")
        assert "sampled loss per" in str(sampled)
        assert exact.error_estimate < 1e-2 * sampled.error_estimate
        assert abs(sampled.loss - exact.loss) < sampled.error_estimate  # four standard errors
    assert sp.loss(*toy, seconds=100).loss == pytest.approx(sp.loss(*toy).loss, rel=1e-9)
    with pytest.raises(ValueError, match=r"`seconds` must be about .* for the gradient of this network"):
        sp.loss(*network, seconds=0, gradient=True)


def test_what_takes_over_a_minute_says_how_long():
    assert progress.time_left(2.0, 1, 10_000) == ", about 5.6 h left"
    assert progress.time_left(2.0, 1, 10_000, 300.0) == ", about 5 min left"  # of a budget


@pytest.mark.slow
def test_exclusive_groups_have_starts_of_their_own():
    """Beside many minima of .001968; a model of .0019558 is known."""
    law = Features(12, 0.05, groups=[exclusive([3 * k, 3 * k + 1, 3 * k + 2], 0.05) for k in range(4)])
    assert minimise(12, 4, law, starts=2).loss == pytest.approx(0.00195583, abs=1e-8)


def test_a_network_above_a_naive_solution_without_loss_says_by_how_much():
    network = sp.Model(np.eye(2), hidden="relu", W_out=0.5 * np.eye(2), output="identity")
    advice = sp.audit(network, Features(2, 0.1), seconds=0).advice
    loss, variance = 0.1 / 3 / 4, 0.1 / 3 - 0.1**2 / 4
    assert f"it is {100 * loss / variance:.3g} % of the loss of the means above the naive solution" in advice


def test_samples_fill_the_time_left_on_request(monkeypatch):
    """Else they are the least number of samples; without a limit the loss is exact."""
    monkeypatch.setattr(losses, "loss_within_deadline", lambda *_: None)
    monkeypatch.setattr(losses, "sampled_loss", lambda model, law, seconds: (model, seconds))
    W, b = np.array([[1.0], [-0.5]]), np.array([0.1, 0.2])
    weights, law = losses.Weights(W, 2 * W.T, b), Features(2, 0.1)
    for sample_on, expected in ((True, 9.0), (False, 0.0)):
        model, seconds = losses.loss_within(weights, law, Deadline(9.0), sample_on=sample_on)
        assert seconds == pytest.approx(expected, abs=0.05)
        assert np.array_equal(model.W_out @ model.W_in, 2 * W @ W.T)
        assert np.array_equal(model.b, b)
        assert losses.loss_within(weights, law, Deadline(), sample_on=sample_on).method != "samples"


def test_equal_shares_of_the_time_left(monkeypatch):
    """Each model of a group uses all that it gets: they have a third of nine seconds each."""
    deadline, used = Deadline(9.0), []

    def use_up(model, law, part, **_):
        used.append(part.seconds_left())
        deadline._end -= used[-1]
        return model.b

    monkeypatch.setattr(losses, "loss_within", use_up)
    models = [(k, losses.Weights(np.ones((2, 1)), np.ones((1, 2)), np.full(2, k))) for k in range(3)]
    known, found = losses.with_losses(models, Features(2, 0.1), deadline)
    np.testing.assert_allclose(used, 3.0, atol=0.05)
    assert [(k, model.b[0]) for k, model in known] == [(0, 0), (1, 1), (2, 2)]
    assert [b[0] for b in found] == [0, 1, 2]
    left_out = [(k, replace(model, b_saved=False)) for k, model in models[1:]]
    monkeypatch.setattr(losses, "best_bias", lambda M, law, part: np.full(2, part.seconds_left() + M[0, 1]))
    used.clear()
    known, found = losses.with_losses(left_out, Features(2, 0.1), deadline := Deadline(8.0))
    # Of four seconds each, three tenths are for the bias; M is 1.
    np.testing.assert_allclose([model.b[0] for _, model in known], 1 + 0.3 * 4, atol=0.05)
    np.testing.assert_allclose(used, 4.0, atol=0.05)
    assert [k for k, _ in known] == [1, 2]


def test_a_search_goes_on_if_it_is_cheap_or_has_a_budget(monkeypatch):
    """Up to 12 features, or 8 that depend on each other, a search without a budget has one of hits."""
    search = Mock(side_effect=RuntimeError("the search begins"))
    monkeypatch.setattr(importlib.import_module("superposition.validate.api.best"), "minimise", search)

    def groups(n):
        return Features(n, groups=[exclusive(range(n), 0.1)])

    for law, given, hits, starts in (
        (Features(12, 0.1), {}, 5, 100), (Features(13, 0.1), {}, 0, 100), (Features(15, 0.1), {}, 0, 20),
        (Features(13, 0.1), {"seconds": 9.0}, 5, 100), (Features(12, 0.1, "binary"), {}, 5, 20),
        (Features(9, 0.1), {}, 5, 60),
        (Features(9, 0.1), {"tied": False}, 5, 20), (Features(9, 0.1), {"starts": 7}, 0, 7),
        (Features(9, 0.1), {"starts": 7, "seconds": 9.0}, 0, 7), (groups(8), {}, 5, 60),
        (groups(9), {}, 0, 60), (groups(10), {}, 0, 20),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="the search begins"):
            sp.best(law, 2, bias="common", rng=4, **given)
        settings, case = search.call_args.kwargs, (law.n_features, given)
        assert (settings["hits"], settings["starts"]) == (hits, starts), case
        assert (settings["tied"], settings["bias"], settings["rng"]) == (given.get("tied", True), "common", 4)
        assert settings["seconds"].seconds_left() == pytest.approx(given.get("seconds", np.inf), abs=0.5)
