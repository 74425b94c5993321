"""What a training loop logs: an audit's numbers, at few steps, in a share of the time, and what is wrong."""

from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.loss import budget
from superposition.solvers.minimise import lower_bound
from superposition.validate.audit import training_log

torch = pytest.importorskip("torch", reason="loops are PyTorch's")
LAW = sp.Features(5, p=0.05)
BEST = 0.0017807  # of LAW on two neurons, which searches need not find again in each test
SAME = ("loss", "loss_error", "best_known", "lower_bound", "gradient_norm", "represented")


def pentagon(scale=1.0):
    """Return a tied model with five directions in a plane."""
    angle = 2 * np.pi * np.arange(5) / 5
    return scale * np.c_[np.cos(angle), np.sin(angle)], np.full(5, -0.1)


def assert_is_audit(record, model, law, **settings):
    audited = sp.audit(model, law, **settings)
    for name in SAME:
        assert record[name] == pytest.approx(getattr(audited, name), rel=1e-12, abs=0.0), name
    assert record["dead"] == len(audited.dead)
    assert record["gap_to_best"] == record["loss"] - record["best_known"]
    assert record["gap_to_lower_bound"] == record["loss"] - record["lower_bound"]


def test_the_last_record_has_the_numbers_of_an_audit():
    law = sp.Features(4, p=0.1, importance=[1.0, 0.8, 0.6, 0.4])
    rng = np.random.default_rng(3)
    W_in, W_out = rng.normal(size=(2, 4)), rng.normal(size=(4, 2))
    dead = np.array([0.1, 0.0, -0.05, -30.0])
    log = sp.watch(law, 2, share=1.0)
    log((W_out, W_in, np.zeros(4)), 0)
    last = log.finish((W_out, W_in, dead))
    assert (last["dead"], last.method) == (1.0, "folding")
    assert all(type(number) is float for number in last.values())
    assert_is_audit(last, (W_out, W_in, dead), law)


def test_the_same_seed_gives_the_same_numbers():
    law = sp.Features(10, p=0.1)  # of more than 9 features the model is one of the starts
    W = np.random.default_rng(0).normal(size=(10, 1))
    first, second = (sp.watch(law, 1, rng=4, seconds=60.0).finish((W, np.zeros(10))) for _ in range(2))
    assert first == second


# --- Schedule -----------------------------------------------------------------------------------------------


def test_records_are_log_spaced_and_nothing_is_done_between(monkeypatch):
    log, model = sp.watch(LAW, 2, share=1.0, best=BEST), pentagon()
    returned = [step for step in range(100, 1100) if log(model, step) is not None]
    assert returned == [record.step for record in log.records]
    after = np.array(returned) - 100
    assert after[:9].tolist() == list(range(9))
    assert 18 <= np.sum((after >= 99) & (after < 990)) <= 22
    ratios = after[1:][after[:-1] >= 99] / after[:-1][after[:-1] >= 99]
    assert np.all((ratios > 1.1) & (ratios < 1.13))
    monkeypatch.setattr(log, "_weights", None)  # what is not due touches no model
    assert log(object(), 1001) is None


@pytest.mark.parametrize(("share", "cost"), [(0.05, 0.4), (0.2, 0.003)])
def test_records_take_no_more_than_their_share(share, cost, monkeypatch):
    """By a clock of the test's: a millisecond a step, and what records cost."""
    clock, measure = [0.0], training_log._measure

    def measured(*arguments):
        clock[0] += cost
        return measure(*arguments)

    monkeypatch.setattr(training_log, "work_seconds", lambda: clock[0])
    monkeypatch.setattr(training_log, "_measure", measured)
    log, model, spent, start = sp.watch(LAW, 2, share=share, best=BEST), pentagon(), [], 0.0
    for step in range(40_000):
        begun = clock[0]
        if log(model, step) is not None:
            spent.append(clock[0] - begun)
            start = start or clock[0]
            assert sum(spent[1:]) <= share * (clock[0] - start) + 1e-9
        clock[0] += 1e-3
    assert len(spent) > 5
    assert log.records[1].step == pytest.approx(cost / share / 1e-3, rel=0.05)  # the share is used, too
    assert log(model, step, force=True) is not None


def test_a_loss_that_takes_too_long_is_sampled_and_says_so(monkeypatch):
    law = sp.Features(160, 0.05, "normal")
    model = np.random.default_rng(1).normal(size=(160, 40)) / np.sqrt(40), np.full(160, -0.1)
    for module in (training_log, budget):  # else this machine's speed decides
        monkeypatch.setattr(module, "_LEAST_SECONDS", 0.0)
    clock = [0.0]
    monkeypatch.setattr(training_log, "work_seconds", lambda: clock[0])
    log = sp.watch(law, 40, best=1.0)
    sampled = log(model, 0)
    clock[0] = 2000.0  # a twentieth of that is enough
    exact = log(model, 1)
    assert (sampled.method, exact.method) == ("samples", "contour")
    assert sampled["loss_error"] > 1e3 * exact["loss_error"]
    assert abs(sampled["loss"] - exact["loss"]) <= sampled["loss_error"]  # four standard errors
    assert np.isnan(exact["gradient_norm"])


# --- What is wrong ------------------------------------------------------------------------------------------


def test_a_loss_that_stays_although_its_gradient_does_not_vanish_is_a_frozen_optimiser():
    frozen, at_rest, moving = (sp.watch(LAW, 2, share=1.0, best=BEST) for _ in range(3))
    best = sp.best(LAW, 2)
    for step in range(10):
        for log, model in (
            (frozen, pentagon()), (at_rest, (best.W, best.b)), (moving, pentagon(1.0 + 1e-5 * step)),
        ):  # fmt: skip
            log(model, step)
        assert ("has not changed since step 0" in frozen.advice) == (step >= 3)
    assert "although its gradient has length" in frozen.advice
    assert at_rest.advice == moving.advice == ""
    assert "has not changed" in repr(frozen)


def course(own_loss, law=LAW, batch=1024, seed=0, data=None):
    """Log a model that shrinks to a pentagon, with `own_loss` of its squared errors; return the log."""
    rng, log = np.random.default_rng(seed), sp.watch(law, 2, share=1.0, best=BEST)
    for step in range(60):
        W, b = pentagon(1.0 + np.exp(-step / 20.0))
        x = (data or law).sample(batch, rng)
        log((W, b), step, train_loss=own_loss((np.maximum(x @ W @ W.T + b, 0.0) - x) ** 2))
    return log


def summed(squares):
    return squares.sum(axis=1).mean()


def test_another_loss_of_the_loop_is_named_with_its_ratio():
    weighted = sp.Features(5, p=0.05, importance=0.5 ** np.arange(5))
    for own_loss, law, ratio, cause in (
        (summed, LAW, 5.0, "as a sum over the 5 features is"),
        (lambda squares: 0.5 * squares.mean(), LAW, 0.5, "as half of it is"),
        (np.mean, weighted, None, "as a mean without the importances is"),
        (summed, weighted, None, "as a sum over the 5 features without the importances"),
        (np.sum, LAW, 5.0 * 1024, "or the batch"),
    ):
        advice = course(own_loss, law).advice
        assert cause in advice
        if ratio is not None:
            assert float(advice.partition("is ")[2].split()[0]) == pytest.approx(ratio, rel=0.1)
    other = course(np.mean, batch=4096, data=sp.Features(5, p=0.08))
    assert "another law, such as another p" in other.advice


def test_the_loops_own_loss_is_no_fault_if_it_is_that_of_the_model_before_the_step():
    """The loss falls by a fifth a step at first; one false alarm in some thousand loops (all are seeded)."""
    for seed in range(10):
        assert "own loss" not in course(np.mean, seed=seed).advice
    log, before = sp.watch(LAW, 2, share=1.0, best=BEST), None
    for step in range(30):
        model = pentagon(1.0 + 3.0 * np.exp(-step / 10.0))
        log(model, step, train_loss=before)
        assert "own loss" not in log.advice
        before = sp.loss(model, LAW).loss


# --- Loops --------------------------------------------------------------------------------------------------


def batches(p, shape, steps):
    torch.manual_seed(0)
    for _ in range(steps):
        yield torch.where(torch.rand(shape) <= p, torch.rand(shape), torch.zeros(()))


def train(log, module, p, shape, steps=120):
    """Train as people do; the losses of several instances are summed, and the last of them is logged."""
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for step, batch in enumerate(batches(p, shape, steps)):
        optimiser.zero_grad(set_to_none=True)
        losses = ((batch - module(batch)) ** 2).mean(dim=(0, -1)).reshape(-1)
        losses.sum().backward()
        optimiser.step()
        if log is not None:
            log(module, step, train_loss=losses[-1])
    return module


def instances():
    """Return three models in one module, as in the notebook of Elhage et al."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.W = torch.nn.Parameter(torch.empty((3, 4, 1)))
            torch.nn.init.xavier_normal_(self.W)
            self.b_final = torch.nn.Parameter(torch.zeros((3, 4)))

        def forward(self, features):
            hidden = torch.einsum("...if,ifh->...ih", features, self.W)
            return torch.relu(torch.einsum("...ih,ifh->...if", hidden, self.W) + self.b_final)

    torch.manual_seed(1)
    return Model()


def layers(n, m):
    """Return an untied model as layers."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(n, m, bias=False), torch.nn.Linear(m, n), torch.nn.ReLU())


@pytest.mark.parametrize(
    ("make", "law", "shape", "settings"),
    [
        (instances, sp.Features(4, p=0.1), (256, 3, 4), {"instance": 2}),
        (lambda: layers(3, 1), sp.Features(3, p=0.3), (256, 3), {}),
    ],
)
def test_a_loop_trains_as_without_and_ends_as_an_audit_says(make, law, shape, settings):
    log = sp.watch(law, 1, share=1.0, seconds=60.0, **settings)
    module, alone = (train(one, make(), law.p[0], shape) for one in (log, None))
    for one, other in zip(module.parameters(), alone.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
        np.testing.assert_array_equal(one.grad.numpy(), other.grad.numpy())
    last, made = log.finish(module), sp.Model.of(module, **settings)
    assert_is_audit(last, (made.W_out, made.W_in, made.b), law, seconds=120.0)
    assert len(log.records) > 20
    assert log.records[0]["loss"] > last["loss"]
    assert log.advice == ""


def test_losses_of_any_precision_are_taken_and_a_module_that_diverged_is_refused():
    module, log = layers(5, 2), sp.watch(LAW, 2, share=1.0, best=BEST)
    own = torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True)
    assert log(module, 0, train_loss=own).train_loss == 0.5
    with torch.no_grad():
        module[1].weight[:] = np.nan
    with pytest.raises(ValueError, match=r"must be finite; got nan"):
        log(module, 1)
    assert len(log.records) == 1


@pytest.mark.parametrize(("name", "accumulate"), [("", 1), ("model", 4)])
def test_a_callback_logs_to_lightnings_loggers(name, accumulate):
    """Called as Lightning's trainer does it, with the loss over the number of batches that are accumulated.

    `global_step` counts the optimiser's steps.
    """
    model, log, written = layers(5, 2), sp.watch(LAW, 2, share=1.0, best=BEST), []
    module = torch.nn.Sequential(OrderedDict({name: model})) if name else model
    callback = log.lightning(name)
    logger = SimpleNamespace(log_metrics=lambda metrics, step: written.append((step, metrics)))
    trainer = SimpleNamespace(
        global_step=0, is_global_zero=True, loggers=[logger], accumulate_grad_batches=accumulate
    )
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
    for index, batch in enumerate(batches(0.05, (256, 5), 40 * accumulate)):
        loss = ((module(batch) - batch) ** 2).mean() / accumulate
        loss.backward()
        if (index + 1) % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
            trainer.global_step += 1
        callback.on_train_batch_end(trainer, module, {"loss": loss.detach()}, batch, index)
    callback.on_train_end(trainer, module)
    assert [step for step, _ in written] == sorted(step for step, _ in written)
    assert written[-1] == (trainer.global_step, dict(log.records[-1]))
    assert log.records[-1]["loss"] == pytest.approx(sp.loss(model, LAW).loss, rel=1e-12, abs=0)
    own = [record.train_loss / record["loss"] for record in log.records[:-1]]
    assert np.mean(own) == pytest.approx(1.0, abs=4 * np.std(own) / np.sqrt(len(own)) + 0.05)
    trainer.is_global_zero = False  # another process of the same training
    log.lightning().on_train_end(trainer, None)


# --- The best, pictures, tables, refusals -------------------------------------------------------------------


def test_a_course_is_drawn_and_kept():
    log = course(np.mean)
    data = log.to_dataset()
    np.testing.assert_array_equal(data["loss"], [record["loss"] for record in log.records])
    assert data.attrs["n_hidden"] == 2
    assert data.attrs["best_known_from"] == "the loss that was given"
    ax = sp.plot(log)
    curve, best, bound = ax.lines
    np.testing.assert_array_equal(curve.get_ydata(), data["loss"])
    assert (best.get_ydata()[0], bound.get_ydata()[0]) == (BEST, data["lower_bound"][0])
    found = sp.best(LAW, 2)
    other = sp.watch(LAW, 2, best=found)
    assert other(pentagon(), 0)["best_known"] == found.loss
    attributes = other.to_dataset().attrs
    assert (attributes["starts"], attributes["hits"]) == (found.starts, found.hits)


def test_what_is_refused_in_the_loop_leaves_no_record():
    log = sp.watch(LAW, 2, best=BEST)
    log(pentagon(), 7)
    with pytest.raises(ValueError, match="`step` must be an integer of at least 7; got 3"):
        log(pentagon(), 3, force=True)
    assert len(log.records) == 1


def test_a_loss_to_compare_with_may_be_the_lower_bound():
    law = sp.Features(5, 0.3)
    bound = lower_bound(5, 3, law)
    assert sp.watch(law, 3, best=bound).known.best == bound
    assert sp.watch(law, 3, best=bound * (1 - 1e-12)).known.lower == bound  # but for rounding
    with pytest.raises(ValueError, match="`best` must be at least the proved lower bound"):
        sp.watch(law, 3, best=bound * (1 - 1e-6))
