"""What a training loop logs: an audit's numbers, at few steps, in a share of the time, and what is wrong."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import superposition as sp
from superposition.solvers.loss import budget
from superposition.validate.audit import training_log

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
    assert record["gap_to_floor"] == record["loss"] - record["lower_bound"]


@pytest.mark.parametrize("tied", [True, False])
def test_the_last_record_has_the_numbers_of_an_audit(tied):
    law = sp.Features(4, p=0.1, importance=[1.0, 0.8, 0.6, 0.4])
    rng = np.random.default_rng(3)
    W_in = rng.normal(size=(2, 4))
    W_out = W_in.T if tied else rng.normal(size=(4, 2))
    dead = np.array([0.1, 0.0, -0.05, -30.0])
    log = sp.watch(law, 2, share=1.0)
    log((W_out, W_in, np.zeros(4)), 0)
    last = log.finish((W_out, W_in, dead))
    assert (last["dead"], last.method) == (1.0, "folds")
    assert all(type(number) is float for number in last.values())
    assert_is_audit(last, (W_out, W_in, dead), law)


def test_the_same_seed_gives_the_same_numbers():
    law = sp.Features(10, p=0.1)  # of more than 9 features the model is one of the starts
    W = np.random.default_rng(0).normal(size=(10, 2))
    first, second = (sp.watch(law, 2, rng=4, seconds=60.0).finish((W, np.zeros(10))) for _ in range(2))
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


@pytest.mark.parametrize(("share", "cost"), [(0.05, 0.02), (0.05, 0.4), (0.2, 0.003)])
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
    assert (sampled.method, exact.method) == ("samples", "wedge")
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


def course(own_loss, law=LAW, batch=1024, seed=0, log=None):
    """Log a model that shrinks to a pentagon, with `own_loss` of its squared errors; return the log."""
    rng = np.random.default_rng(seed)
    log = log or sp.watch(law, 2, share=1.0, best=BEST)
    for step in range(60):
        W, b = pentagon(1.0 + np.exp(-step / 20.0))
        x = law.sample(batch, rng)
        log((W, b), step, train_loss=own_loss((np.maximum(x @ W @ W.T + b, 0.0) - x) ** 2))
    return log


WEIGHTED = sp.Features(5, p=0.05, importance=0.5 ** np.arange(5))


@pytest.mark.parametrize(
    ("own_loss", "law", "ratio", "cause"),
    [
        (lambda squares: squares.sum(axis=1).mean(), LAW, 5.0, "as a sum over the 5 features is"),
        (lambda squares: 0.5 * squares.mean(), LAW, 0.5, "as half of it is"),
        (np.mean, WEIGHTED, None, "as a mean without the importances is"),
        (
            lambda squares: squares.sum(axis=1).mean(),
            WEIGHTED,
            None,
            "as a sum over the 5 features without the importances",
        ),
        (np.sum, LAW, 5.0 * 1024, "or the batch"),
    ],
)
def test_another_loss_of_the_loop_is_named_with_its_ratio(own_loss, law, ratio, cause):
    log = course(own_loss, law)
    assert cause in log.advice
    if ratio is not None:
        said = float(log.advice.partition("is ")[2].split()[0])
        assert said == pytest.approx(ratio, rel=0.1)


def test_data_of_another_law_are_told_by_the_loops_loss():
    log, rng = sp.watch(LAW, 2, share=1.0, best=BEST), np.random.default_rng(0)
    W, b = pentagon()
    for step in range(60):
        x = sp.Features(5, p=0.08).sample(4096, rng)
        log((W, b), step, train_loss=np.mean((np.maximum(x @ W @ W.T + b, 0.0) - x) ** 2))
    assert "another law, such as another p" in log.advice


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
    torch = pytest.importorskip("torch", reason="loops are PyTorch's")
    torch.manual_seed(0)
    for _ in range(steps):
        yield torch.where(torch.rand(shape) <= p, torch.rand(shape), torch.zeros(()))


def train_instances(log, steps=120):
    """Train as the notebook of Elhage et al. does: several instances, the sum of their losses."""
    torch = pytest.importorskip("torch", reason="loops are PyTorch's")

    class Model(torch.nn.Module):
        def __init__(self, n_instances=3, n_features=4, n_hidden=1):
            super().__init__()
            self.W = torch.nn.Parameter(torch.empty((n_instances, n_features, n_hidden)))
            torch.nn.init.xavier_normal_(self.W)
            self.b_final = torch.nn.Parameter(torch.zeros((n_instances, n_features)))

        def forward(self, features):
            hidden = torch.einsum("...if,ifh->...ih", features, self.W)
            out = torch.einsum("...ih,ifh->...if", hidden, self.W)
            return torch.nn.functional.relu(out + self.b_final)

    torch.manual_seed(1)
    model, importance = Model(), 0.9 ** torch.arange(4)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step, batch in enumerate(batches(0.1, (256, 3, 4), steps)):
        optimiser.zero_grad(set_to_none=True)
        error = importance * (batch - model(batch)) ** 2
        losses = error.mean(dim=(0, 2))
        losses.sum().backward()
        optimiser.step()
        if log is not None:
            log(model, step, train_loss=losses[1])
    return model


def train_untied(log, steps=120, lr=1e-2):
    torch = pytest.importorskip("torch", reason="loops are PyTorch's")

    class Autoencoder(torch.nn.Module):
        def __init__(self, n_features=3, n_hidden=1):
            super().__init__()
            self.W_in = torch.nn.Parameter(0.5 * torch.rand(n_hidden, n_features))
            self.W_out = torch.nn.Parameter(0.5 * torch.rand(n_features, n_hidden))
            self.b = torch.nn.Parameter(torch.zeros(n_features))

        def forward(self, x):
            return torch.relu(x @ self.W_in.T @ self.W_out.T + self.b)

    torch.manual_seed(1)
    model = Autoencoder()
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    for step, batch in enumerate(batches(0.3, (256, 3), steps)):
        loss = torch.nn.functional.mse_loss(model(batch), batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if log is not None:
            log(model, step, train_loss=loss)
    return model


@pytest.mark.parametrize(
    ("train", "law", "settings"),
    [
        (train_instances, sp.Features(4, p=0.1, importance=0.9 ** np.arange(4)), {"instance": 1}),
        (train_untied, sp.Features(3, p=0.3), {}),
    ],
)
def test_a_loop_trains_as_without_and_ends_as_an_audit_says(train, law, settings):
    log = sp.watch(law, 1, share=1.0, seconds=60.0, **settings)
    model, alone = train(log), train(None)
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
        np.testing.assert_array_equal(one.grad.numpy(), other.grad.numpy())
    last, made = log.finish(model), sp.Model.of(model, **settings)
    assert_is_audit(last, (made.W_out, made.W_in, made.b), law, seconds=120.0)
    assert len(log.records) > 20
    assert log.records[0]["loss"] > 1.2 * last["loss"]
    assert log.advice == ""


def test_a_loop_whose_optimiser_is_frozen_is_told_so():
    log = sp.watch(sp.Features(3, p=0.3), 1, share=1.0, best=0.02)
    train_untied(log, lr=0.0)
    assert log.advice.startswith("The loss has not changed since step 0, although its gradient has length")


def lightning_loop(callback, module, steps=40, accumulate=1):
    """Call a callback as Lightning's trainer does; `global_step` counts the optimiser's steps.

    Lightning hands on the loss divided by the number of batches that are accumulated.
    """
    torch = pytest.importorskip("torch", reason="loops are PyTorch's")
    written = []
    logger = SimpleNamespace(log_metrics=lambda metrics, step: written.append((step, metrics)))
    trainer = SimpleNamespace(
        global_step=0, is_global_zero=True, loggers=[logger], accumulate_grad_batches=accumulate
    )
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
    for index, batch in enumerate(batches(0.05, (256, 5), steps * accumulate)):
        loss = ((module(batch) - batch) ** 2).mean() / accumulate
        loss.backward()
        if (index + 1) % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
            trainer.global_step += 1
        callback.on_train_batch_end(trainer, module, {"loss": loss.detach()}, batch, index)
    callback.on_train_end(trainer, module)
    return trainer, written


class LitToy:
    """Make a module as people write LightningModules."""

    def __new__(cls):
        torch = pytest.importorskip("torch", reason="loops are PyTorch's")

        class Toy(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.model = torch.nn.Sequential(
                    torch.nn.Linear(5, 2, bias=False), torch.nn.Linear(2, 5), torch.nn.ReLU()
                )

            def forward(self, x):
                return self.model(x)

        return Toy()


def test_losses_of_any_precision_are_taken_and_a_module_that_diverged_is_refused():
    torch = pytest.importorskip("torch", reason="loops are PyTorch's")
    module, log = LitToy().model, sp.watch(LAW, 2, share=1.0, best=BEST)
    own = torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True)
    assert log(module, 0, train_loss=own).train_loss == 0.5
    with torch.no_grad():
        module[1].weight[:] = np.nan
    with pytest.raises(ValueError, match=r"must be finite; got nan"):
        log(module, 1)
    assert len(log.records) == 1


@pytest.mark.parametrize(("name", "accumulate"), [("", 1), ("model", 4)])
def test_a_callback_logs_to_lightnings_loggers(name, accumulate):
    module, log = LitToy(), sp.watch(LAW, 2, share=1.0, best=BEST)
    trainer, written = lightning_loop(log.lightning(name), module, accumulate=accumulate)
    assert [step for step, _ in written] == sorted(step for step, _ in written)
    assert written[-1] == (trainer.global_step, dict(log.records[-1]))
    assert log.records[-1]["loss"] == pytest.approx(sp.loss(module, LAW).loss, rel=1e-12)
    own = [record.train_loss / record["loss"] for record in log.records[:-1]]
    assert np.mean(own) == pytest.approx(1.0, abs=4 * np.std(own) / np.sqrt(len(own)) + 0.05)
    trainer.is_global_zero = False  # another process of the same training
    log.lightning().on_train_end(trainer, None)


@pytest.mark.filterwarnings("ignore")  # of Lightning's
def test_a_callback_is_called_by_lightning_itself():
    torch = pytest.importorskip("torch", reason="loops are PyTorch's")
    lightning = pytest.importorskip("pytorch_lightning", reason="it is an oracle: pip install lightning")

    class Lit(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = LitToy().model

        def training_step(self, batch, _):
            return ((self.model(batch) - batch) ** 2).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    log, module = sp.watch(LAW, 2, share=1.0, best=BEST), Lit()
    callback = log.lightning("model")
    assert isinstance(callback, lightning.Callback)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[callback], **quiet)
    trainer.fit(module, torch.utils.data.DataLoader(list(batches(0.05, (256, 5), 30)), batch_size=None))
    assert log.records[-1].step == 30
    assert log.records[-1]["loss"] == pytest.approx(sp.loss(module.model, LAW).loss, rel=1e-12)


# --- The best, pictures, tables, refusals -------------------------------------------------------------------


def test_a_best_that_is_given_spares_the_search(monkeypatch):
    answer = sp.best(LAW, 2)
    monkeypatch.setattr(training_log, "search_size", None)
    record = sp.watch(LAW, 2, best=answer).finish(pentagon())
    assert (record["best_known"], record["lower_bound"]) == (answer.loss, answer.bound)
    assert sp.watch(LAW, 2, best=0.01).finish(pentagon())["best_known"] == 0.01


def test_a_course_is_drawn_and_kept(tmp_path):
    log = course(np.mean)
    data = log.to_dataset()
    np.testing.assert_array_equal(data["loss"], [record["loss"] for record in log.records])
    assert data.attrs["n_hidden"] == 2
    assert data.attrs["best_known_from"] == "the loss that was given"
    data.to_netcdf(tmp_path / "course.nc")
    with xr.open_dataset(tmp_path / "course.nc") as read:
        xr.testing.assert_identical(read.load(), data)
    ax = sp.plot(log)
    curve, best, floor = ax.lines
    np.testing.assert_array_equal(curve.get_ydata(), data["loss"])
    assert (best.get_ydata()[0], floor.get_ydata()[0]) == (BEST, data["lower_bound"][0])
    assert log.plot(ax) is ax


def test_what_does_not_fit_is_refused_in_the_loop():
    log = sp.watch(LAW, 2, best=BEST)
    with pytest.raises(ValueError, match="`records` must not be empty"):
        log.to_dataset()
    with pytest.raises(ValueError, match="`model` must have 5 features and 2 hidden neurons; got"):
        log(np.ones((5, 3)), 0)
    with pytest.raises(ValueError, match=r"`instance` must say which .*got None"):
        log({"W": np.ones((2, 5, 2)), "b_final": np.zeros((2, 5))}, 0)
    with pytest.raises(ValueError, match=r"`model` must be ReLU\(W_out W_in x \+ b\)"):
        log(sp.Model(np.ones((2, 5)), hidden="relu"), 0)
    for bad in (-1, 0.5, "3"):
        with pytest.raises(ValueError, match="`step` must be an integer of at least 0"):
            log(pentagon(), bad, force=True)
    for bad in (np.nan, -1.0, "x", [1.0, 2.0]):
        with pytest.raises(ValueError, match="`train_loss` must"):
            log(pentagon(), 0, train_loss=bad)
    with pytest.raises(ValueError, match=r"must be finite; got nan"):
        log(pentagon(np.nan), 0)
    log(pentagon(), 7)
    with pytest.raises(ValueError, match="`step` must be an integer of at least 7; got 3"):
        log(pentagon(), 3, force=True)
    assert len(log.records) == 1
