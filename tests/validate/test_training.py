"""Training as a whole: ends, resuming, independence, honesty of the final losses, rejections."""

import random
import re

import numba
import numpy as np
import pytest
import xarray as xr

from superposition.solvers.loss import exact_loss
from superposition.theory.features import Features, exclusive
from superposition.validate.training import grid, learning_rates, train, weight_statistics

torch = pytest.importorskip("torch")

from superposition.validate.training import published, run  # noqa: E402
from superposition.validate.training.points import models_at  # noqa: E402
from superposition.validate.training.published import continues_training, run_published  # noqa: E402
from superposition.validate.training.settings import TrainingSettings  # noqa: E402

SMALL = {"evaluation_samples": 2048, "batch_size": 64, "device": "cpu", "threads": 1}
RATES = {"steps": 400, "learning_rate": 3e-3, "peak_learning_rate": 0.02, **SMALL}
SHORT = {"schedule": "converged", "steps": 100, **SMALL}


def assert_same(first, second):
    """Bit for bit the same results; the attributes hold wall times and are left out."""
    xr.testing.assert_identical(first.drop_attrs(), second.drop_attrs())


# The stopping rule


def last_step_by_the_text(losses):
    """Apply the rule as the paper words it to the losses of single batches."""
    done = 200
    while sum(losses[done - 100 : done]) / 100 < sum(losses[done - 200 : done - 100]) / 100:
        done += 100
    return done


def replay(losses, seen):
    """Stand in for `run_block`: give prescribed losses, note the rates, change nothing else."""

    def run_block(_torch, models, rates, *_how):
        (model,) = models
        seen.extend(rates[:, 0])
        given = losses[model.step : model.step + len(rates), None]
        model.step += len(rates)
        return given

    return run_block


@pytest.mark.parametrize("seed", range(4))
def test_stopping_rule_is_the_one_of_the_paper(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    batches = np.arange(50_000)
    level = 0.1 * np.exp(-batches / rng.uniform(200, 3000))
    losses = (0.01 + level) * rng.uniform(0.5, 1.5, batches.size)
    seen = []
    monkeypatch.setattr(run.engine, "run_block", replay(losses, seen))
    ds = train(4, 2, 0.5, 0, steps=400, learning_rate=0.125, peak_learning_rate=0.25, **SMALL)
    stop = last_step_by_the_text(losses)
    assert ds.steps.values.ravel().tolist() == [stop, stop + 400]
    assert published._stop_by_text(losses) == stop
    assert published._stop_by_text(losses[: stop - 1]) == 0
    assert set(ds.status.values.ravel()) == {"reached"}
    assert seen[:stop] == [0.125] * stop
    np.testing.assert_array_equal(seen[stop:], learning_rates(0, 400, 400, 0.25))
    # The sums of 100 terms are taken in another order: a few units in the last place.
    means = losses[: stop + 400].reshape(-1, 100).mean(axis=1)
    np.testing.assert_allclose(ds.history.values[0], means, rtol=1e-13)
    assert ds.block.values.tolist() == list(range(100, stop + 500, 100))  # each block's last batch


def test_stopping_rule_has_a_step_limit(monkeypatch):
    monkeypatch.setattr(run, "STOP_LIMIT", 500)
    monkeypatch.setattr(run.engine, "run_block", replay(np.linspace(1, 0.5, 2000), []))
    ds = train(4, 2, 0.5, 0, schedule="paper", **SMALL)
    assert ds.status.values.tolist() == [["step limit"]]
    assert ds.steps.values.tolist() == [[500]]


def test_the_first_steps_of_a_run_are_those_of_the_whole():
    given = {"schedule": "both", "steps": 300, "evaluation_samples": 64, "device": "cpu"}
    whole = train(8, 4, 0.2, [0, 1], **given)
    for most in (200, int(whole.steps[0, 0]), int(whole.steps[0, 0]) + 100):
        first = train(8, 4, 0.2, 0, most_steps=most, **given)
        assert first.attrs["most_steps"] == most
        assert int(first.steps[-1, 0]) == min(most, int(whole.steps[-1, 0]))
        blocks = first.sizes["block"]
        np.testing.assert_array_equal(first.history[0], whole.history[0, :blocks])
        assert first.status.values[-1, 0] == "step limit"
    assert first.status.values[0, 0] == "reached"
    assert float(first.loss[0, 0]) == float(whole.loss[0, 0])


def test_learning_rates_rise_then_fall_to_zero():
    whole = learning_rates(0, 1000, 1000, 0.3)
    assert np.argmax(whole) == 50
    assert whole[50] == 0.3
    assert np.all(np.diff(whole[:51]) > 0)
    assert np.all(np.diff(whole[50:]) < 0)
    # One step before the end the cosine is (π/2/950)² of the peak, up to its next order.
    assert 0 < whole[-1] < 0.3 * (np.pi / 2 / 950) ** 2
    np.testing.assert_array_equal(learning_rates(300, 100, 1000, 0.3), whole[300:400])


def test_the_rates_of_liu_et_al_are_those_of_their_formula(monkeypatch):
    """Their rate at step k, counted from 1: up by k/2000, then by half a cosine to a twentieth."""
    k = np.arange(1, 20_001)
    rise, fall = k / 2000, 0.05 + 0.95 * (1 + np.cos(np.pi * (k - 2000) / 18_000)) / 2
    whole = learning_rates(0, 20_000, 20_000, 1e-2, warm_up=0.1, last=0.05)
    # Ours counts from 0, and the rise ends one step later.
    assert np.abs(whole / (1e-2 * np.where(k < 2000, rise, fall)) - 1).max() < 1e-3
    seen = []
    monkeypatch.setattr(run.engine, "run_block", replay(np.ones(20_000), seen))
    train(4, 2, 0.5, 0, schedule="liu", steps=20_000, **SMALL)
    np.testing.assert_array_equal(seen, whole)
    shared = {"n_features": 4, "tied": True, "init": "normal", "steps": 100, "batch_size": 2, "device": "cpu"}
    shared |= {"learning_rate": None, "peak_learning_rate": None, "precision": "float32"}
    shared |= {"weight_decay": 0.0, "most_steps": None}
    epsilons = [TrainingSettings(schedule=name, **shared).epsilon for name in ("liu", "both")]
    assert epsilons == [4e-8, 1e-8]  # of a mean over 4 features, and of their sum


# What training gives


@pytest.fixture(scope="module")
def trained():
    n_hidden, p, seed = grid(8, p=[0.2, 0.02], ratio=[0.25, 0.75], seed=[0, 1])
    return train(8, n_hidden, p, seed, keep_weights=True, **RATES)


def test_statistics_belong_to_the_weights(trained):
    assert trained.W_out.dims == ("end", "model", "feature", "hidden")
    M = trained.W_out.values.astype(float) @ trained.W_in.values.astype(float)
    # Only the order of float64 sums differs.
    np.testing.assert_allclose(trained.diagonal, np.diagonal(M, axis1=2, axis2=3), rtol=1e-12)
    for end, model in np.ndindex(M.shape[:2]):
        for name, value in weight_statistics(M[end, model], trained.bias.values[end, model]).items():
            np.testing.assert_allclose(trained[name].values[end, model], value, rtol=1e-9, atol=1e-15)


def test_a_model_does_not_depend_on_its_company(trained):
    for model in (0, 3, 6):
        in_company = trained.isel(model=[model])
        alone = train(8, in_company.n_hidden, in_company.p, in_company.seed, **RATES)
        for name in ("loss", "loss_se", "diagonal", "bias", "steps"):
            np.testing.assert_array_equal(alone[name], in_company[name])
        blocks = alone.sizes["block"]
        np.testing.assert_array_equal(alone.history, in_company.history[:, :blocks])


def test_numbers_do_not_depend_on_threads_and_threads_are_put_back():
    before = torch.get_num_threads()
    by_one, by_two = (train(8, [2, 3, 4], 0.1, [0, 1, 2], **SHORT | {"threads": k}) for k in (1, 2))
    assert torch.get_num_threads() == before
    assert_same(by_one, by_two)


def test_kernels_leave_torch_its_threads():
    """Numba's OpenMP layer would set the number for all: then tiny operations get two threads, which spin."""
    before = torch.get_num_threads()
    exact_loss(np.eye(8), 0.0, 0.1)
    with pytest.raises(ValueError, match="not initialized"):
        numba.threading_layer()
    assert torch.get_num_threads() == before


UNEQUAL = Features(4, [0.5, 0.3, 0.2, 0.1], "half-normal", importance=[1, 2, 4, 8])


def test_a_law_that_a_number_says_gives_the_bits_of_the_number():
    assert_same(train(4, 2, Features(4, 0.3), [0, 1], **SHORT), train(4, 2, 0.3, [0, 1], **SHORT))
    ds = train(4, 2, UNEQUAL, 0, **SHORT)
    assert ds["p"].item() == pytest.approx(0.275)  # the mean of others
    np.testing.assert_array_equal(ds.law_importance, UNEQUAL.importance)


def test_features_of_a_group_are_trained_and_evaluated():
    law = Features(4, 0.2, groups=[exclusive([0, 1], 0.2)])
    settings = SMALL | {"evaluation_samples": 40_000}
    sampled = train(4, 2, law, 0, schedule="converged", steps=300, **settings)
    exact = train(4, 2, law, 0, schedule="converged", steps=300, **settings | {"evaluation_samples": None})
    np.testing.assert_array_equal(sampled.history, exact.history)
    assert abs(sampled.loss - exact.loss).item() < 5 * sampled.loss_se.item()
    assert exact.loss_se.item() < 1e-5 * exact.loss.item()


def test_a_model_that_diverges_says_so_and_leaves_the_others_alone(monkeypatch):
    real = run.engine.run_block

    def spoil_seed_1(torch_, models, rates, *how):
        losses = real(torch_, models, rates, *how)
        if models[0].seed == 1 and models[0].step == 200:
            models[0].parameters[0] = np.inf
        return losses

    settings = {"schedule": "converged", "steps": 300, "keep_weights": True, **SMALL}
    good = train(4, 2, 0.3, [0, 2], **settings)
    monkeypatch.setattr(run.engine, "run_block", spoil_seed_1)
    ds = train(4, 2, 0.3, [0, 1, 2], **settings)
    assert ds.status.values.tolist() == [["reached", "diverged", "reached"]]
    assert ds.steps.values.tolist() == [[300, 200, 300]]
    assert np.isnan(ds.loss.values[0, 1])
    assert_same(ds.isel(model=[0, 2]), good)


# Checkpoints


class Interruption(Exception):
    pass


UNTIED = (8, [2, 6, 6], [0.2, 0.02, 0.2], [0, 1, 2])


@pytest.mark.parametrize(
    ("tied", "columns"),
    [
        (False, UNTIED),
        pytest.param(True, UNTIED, marks=pytest.mark.slow),
        pytest.param(False, (4, [2, 3, 3], UNEQUAL, [0, 1, 2]), marks=pytest.mark.slow),
    ],
)
def test_resuming_gives_the_same_bits(monkeypatch, tmp_path, tied, columns):
    path = tmp_path / "run.npz"
    settings = {"steps": 400, "learning_rate": 3e-3, "tied": tied, **SMALL}
    whole = train(*columns, **settings)
    stops = whole.steps.sel(end="stopping rule").values
    assert len(set(stops)) > 1, "the models should change phase at different steps"
    real, calls = run.engine.run_block, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) % 7 == 0:
            raise Interruption
        return real(*arguments)

    monkeypatch.setattr(run, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(run.engine, "run_block", interrupted)
    interruptions = 0
    while True:
        try:
            resumed = train(*columns, checkpoint=path, **settings)
            break
        except Interruption:
            interruptions += 1
    # Every 7th block is cut short; all but the first cut fall within a run that was already resumed.
    assert interruptions >= 3
    assert_same(resumed, whole)
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
    # A finished run is not run again.
    before = len(calls)
    assert_same(train(*columns, checkpoint=path, **settings), whole)
    assert len(calls) == before


def test_seconds_before_an_interruption_count(monkeypatch, tmp_path):
    save = run.checkpoints.save
    monkeypatch.setattr(run.checkpoints, "save", lambda *given: save(*given[:-1], given[-1] + 3600.0))
    for hours in range(2):
        found = train(4, 2, 0.3, 0, checkpoint=tmp_path / "run.npz", **SHORT)
        assert 3600.0 * hours < found.attrs["wall_time_seconds"] < 3600.0 * (hours + 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "run.npz"
    train(4, 2, 0.3, 0, checkpoint=path, **SHORT)
    return path


def test_checkpoint_of_another_run_is_rejected(finished):
    for models, change, name in (
        ((2, 0.3, 0), {"steps": 200}, "steps"), ((2, 0.3, 0), {"batch_size": 32}, "batch_size"),
        ((2, 0.3, 0), {"peak_learning_rate": 0.1}, "peak_learning_rate"),
        ((2, 0.3, 0), {"tied": True, "init": "linear"}, "init, tied"), ((3, 0.3, 0), {}, "n_hidden"),
        ((2, 0.2, 0), {}, "p"), ((2, 0.3, 1), {}, "seed"), (([2, 2], 0.3, 0), {}, "n_hidden, p, seed"),
        ((2, Features(4, 0.3, "binary"), 0), {}, "law"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"`checkpoint` must .*run\.npz.*differs in {name}\.$"):
            train(4, *models, checkpoint=finished, **SHORT | change)


def test_checkpoint_that_is_not_ours_is_rejected(finished, tmp_path):
    np.savez(tmp_path / "other.npz", head=np.array('{"format": "other", "settings": {}}'))
    np.savez(tmp_path / "pickle.npz", head=np.array([{}], dtype=object))
    kept = {name: array for name, array in np.load(finished).items() if name != "0 first_moment"}
    np.savez(tmp_path / "part.npz", **kept)  # as a flipped bit in the archive's table leaves it
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "text.npz").write_bytes(b"loss 0.1\n")
    for path in (*tmp_path.iterdir(), tmp_path / "none" / "run.npz"):
        with pytest.raises(ValueError, match=rf"`checkpoint` must .*{path.name}"):
            train(4, 2, 0.3, 0, checkpoint=path, **SHORT)


def test_damaged_checkpoints_are_refused_or_whole(finished, tmp_path):
    """A bit of the archive's own, such as of a date, changes nothing; a file that is gone is made again."""
    rng, path, count, refused = random.Random(12), tmp_path / "run.npz", 24, []
    content, whole = finished.read_bytes(), train(4, 2, 0.3, 0, checkpoint=finished, **SHORT)
    for k in range(count):
        place = rng.randrange(len(content))
        flipped = bytes([content[place] ^ 1 << rng.randrange(8)])
        new = (content[:place], content[:place] + flipped + content[place + 1 :], b"", None)[k % 4]
        path.unlink(missing_ok=True) if new is None else path.write_bytes(new)
        try:
            assert_same(train(4, 2, 0.3, 0, checkpoint=path, **SHORT), whole)
        except ValueError as error:
            refused.append(str(error))
            assert path.read_bytes() == new
    assert len(refused) >= 0.6 * count
    assert all(re.match("`checkpoint` must .*run.npz", message) for message in refused)


# Rejections


def test_cuda_is_rejected_where_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"`device` must be 'auto' or 'cpu' .*; got 'cuda'"):
        train(4, 2, 0.3, 0, device="cuda")


def test_grid_is_the_product():
    n_hidden, p, seed = grid(10, p=[0.5, 0.1], ratio=[0.01, 0.34, 1.0], seed=[7])
    assert n_hidden.tolist() == [1, 3, 10, 1, 3, 10]
    assert p.tolist() == [0.5] * 3 + [0.1] * 3
    assert seed.tolist() == [7] * 6
    columns = {"p": [0.5, 0.5, 0.5, 0.1], "ratio": [0.5, 0.52, 0.53, 0.5], "n_features": [8, 16, 8, 8]}
    ds = xr.Dataset({name: ("model", column) for name, column in columns.items()})
    assert (models_at(ds, 0.5, 0.5).tolist(), models_at(ds, 0.5, 0.5, 8).tolist()) == ([0, 1], [0])


def test_the_rule_of_the_public_code_looks_at_losses_at_the_start_of_an_epoch():
    falls, level = np.linspace(2.0, 1.0, 1200), np.ones(1200)
    assert [continues_training(level[:n]) for n in (30, 430, 431, 450)] == [True, True, False, False]
    assert continues_training(falls)
    # What the last epoch found does not count yet.
    assert continues_training(np.concatenate([falls[:600], np.full(30, 9.0)]))
    assert not continues_training(np.concatenate([falls[:600], np.full(60, 9.0)]))


def test_training_as_published_ends_where_its_rule_says():
    ds = run_published(16, [0.2], [0.5], [0, 1], evaluation_samples=1000)
    epochs = ds["epoch_losses"].count("epoch").values
    assert (ds["status"] == "reached").all()
    assert (ds["steps"].values[0] == 30 * epochs).all()
    assert (ds["text_steps"].values < ds["steps"].values[0]).all()  # shorter windows, and chance
    alone = run_published(16, [0.2], [0.5], [1], evaluation_samples=1000)
    assert alone["loss"].item() == ds["loss"].values[0, 1]
    assert (ds["loss"].values < 0.2 / 3 / 2).all()  # half the loss of answering 0
