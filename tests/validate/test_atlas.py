"""The atlas: its files and losses, what the best models must obey, and searches that may not beat it."""

import json
import random
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from superposition.solvers.loss import exact_loss
from superposition.solvers.minimise import lower_bound, minimise
from superposition.theory import codes
from superposition.validate import audit
from superposition.validate.cli import main
from superposition.validate.experiments import atlas
from superposition.validate.experiments.atlas import grid, search, store
from superposition.validate.reference import files

ALL = {one.problem: one for one in atlas.entries()}
# Losses are converged to 1e-12 of that of the zero model, and a search may find no better one by this.
CONVERGED, BEATEN = 1e-12, 1e-9
SMALL = tuple(one for one in grid.GRID if re.match("n[23]-m1-p0.1-equal", one.name))
TIED, FREE = "n5-m2-p0.1-equal-tied", "n5-m2-p0.1-equal-free"


def test_the_entries_are_those_of_the_grid():
    assert [*ALL] == [*atlas.GRID]
    for problem, one in ALL.items():
        n, m = problem.n_features, problem.n_hidden
        assert (one.W_out.shape, one.W_in.shape, one.b.shape) == ((n, m), (m, n), (n,))
        assert one.W_out.dtype == one.W_in.dtype == one.b.dtype == np.float64
        assert max(np.abs(one.W_out).max(), np.abs(one.W_in).max()) <= grid.LARGEST
        assert np.array_equal(one.W_out, one.W_in.T) or not one.tied


def test_losses_are_the_exact_ones():
    for one in random.Random(0).sample(list(ALL.values()), 20):
        found = exact_loss(one.W_out @ one.W_in, one.b, one.law)
        assert found.loss == pytest.approx(one.loss, abs=found.error_estimate + one.error_estimate)
        assert one.error_estimate < CONVERGED * one.zero_loss


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_model_is_a_minimum(every):
    """A step of Newton's would win g^2 / (2 curvature) at most; at a kink there is no curvature."""
    bounds = {}  # of tied and untied models, the same
    for one in [*ALL.values()][::every]:
        if one.curvature is None:
            assert one.gradient_norm < 1e-6, one.name
        else:
            assert one.curvature > 0, one.name
            assert one.gradient_norm**2 / (2 * one.curvature) < CONVERGED, one.name
        assert 0 <= one.lower_bound < one.loss < one.zero_loss
        ratio = one.n_hidden / one.n_features
        bound = max(codes.relu_bound(one.p, ratio), codes.decoder_bound(one.p, ratio))
        size = one.n_features, one.n_hidden
        key = *size, one.law.p.tobytes(), one.law.importance.tobytes()
        if key not in bounds:
            bounds[key] = lower_bound(*size, one.law)
        assert one.lower_bound == pytest.approx(bounds[key], rel=1e-12, abs=0)
        assert one.lower_bound >= bound * one.law.importance.min() * (1.0 - 1e-12)


def pairs(**change):
    """Yield the entries that differ by these steps, less first."""
    for problem, one in ALL.items():
        changed = {name: step(getattr(problem, name)) for name, step in change.items()}
        other = ALL.get(replace(problem, **changed))
        if other is not None and other is not one:
            yield one, other


def with_a_feature_dropped(one, more):
    """Return the loss of `more` without its last feature, which costs its importance times its variance."""
    return (one.n_features * one.loss + more.law.importance[-1] * more.law.variance[-1]) / more.n_features


# What changes, and the loss that the other model has at most.
BOUNDS = {
    "free weights": ({"tied": lambda tied: False}, lambda tied, free: tied.loss),
    "a further feature": ({"n_features": lambda n: n + 1}, with_a_feature_dropped),
    "importances of at most 1": ({"importance": lambda _: "falling"}, lambda equal, falling: equal.loss),
}


@pytest.mark.parametrize(("change", "bound"), BOUNDS.values(), ids=BOUNDS)
def test_a_model_that_is_known_bounds_another(change, bound):
    found = list(pairs(**change))
    assert found
    for one, other in found:
        assert other.loss <= bound(one, other) + CONVERGED * other.zero_loss / other.n_features, other.name


def test_a_further_neuron_lowers_the_loss():
    for one, more in pairs(n_hidden=lambda m: m + 1):
        assert more.loss < one.loss, more.name


@pytest.mark.slow
def test_searches_from_fresh_starts_find_nothing_better(random_seed):
    beaten = []
    for one in random.Random(random_seed).sample(list(ALL.values()), 50):
        given = {"tied": one.tied, "largest": grid.LARGEST, "starts": 12, "steps": 3000}
        found = minimise(one.n_features, one.n_hidden, one.law, **given, rng=one.problem.rng(random_seed))
        gain = (one.loss - found.loss) / one.zero_loss
        if gain > BEATEN:
            beaten.append((one.name, gain))
    assert (random_seed, beaten) == (random_seed, [])


def made(folder, **settings):
    given = {"starts": 8, "problems": SMALL, "progress": lambda line: None, **settings}
    return atlas.make(folder=folder, **given).read_bytes(), (folder / "atlas.safetensors").read_bytes()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    return folder, made(folder)


def test_a_small_atlas_is_that_of_the_package(small):
    """Eight random starts beside the ordered ones miss nothing at these sizes."""
    for name, one in store.read(small[0]).items():
        assert one.loss == pytest.approx(atlas.load(name).loss, abs=BEATEN * one.zero_loss), name


def test_what_was_stopped_goes_on(small, tmp_path, monkeypatch):
    count, solve = 0, search.solve

    def stopped(*given):
        nonlocal count
        count += len(given) == 3  # those of the first round
        if count == 3:
            raise KeyboardInterrupt
        return solve(*given)

    monkeypatch.setattr(search, "solve", stopped)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path)
    assert len(list(tmp_path.glob("*.0.npz"))) == 2
    assert made(tmp_path) == small[1]
    assert count == 3 + len(SMALL) - 2


def test_each_round_has_starts_of_its_own(monkeypatch):
    monkeypatch.setattr(search, "DESCENT_STEPS", 2)  # ends that tell the starts apart
    (problem,) = (one for one in grid.GRID if one.name == TIED)
    first, again, later = (search.solve(problem, 4, 0, number)["losses"] for number in (0, 0, 1))
    np.testing.assert_array_equal(again, first)
    assert not np.array_equal(later, first)


def test_what_is_known_is_searched_once_more(tmp_path):
    made(tmp_path, seed=5, again=True, problems=SMALL[:2])
    for name, one in store.read(tmp_path).items():
        before = atlas.load(name)
        assert one.starts > before.starts
        assert one.hits > before.hits  # such small problems are solved by any start
        assert abs(one.loss - before.loss) < BEATEN * one.zero_loss
        assert (one.lower_bound, one.minima) == (before.lower_bound, before.minima)


def test_a_folder_of_other_settings_is_refused(small, tmp_path):
    with pytest.raises(ValueError, match=r"`folder` must be empty or .*same settings; got .*seed 0, not 5"):
        made(small[0], seed=5)
    (tmp_path / "settings.json").write_text("[]x", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`folder` must be empty, or .*; got .*holds 'settings.json'"):
        made(tmp_path)
    files.write_marker(tmp_path)  # as if it were the command's own
    with pytest.raises(ValueError, match="`folder` must hold a run's settings; got"):
        made(tmp_path)


def test_exports_are_recognised_and_equal(tmp_path):
    for kind, name, suffix in product(audit.LAYOUTS, (TIED, FREE), (".npz", ".safetensors")):
        one, path = atlas.load(name), tmp_path / f"model{suffix}"
        if kind.b is None or (name == FREE and kind.W_out == kind.W_in):
            message = f"`layout` must be one (with biases|of free weights).*; got '{kind.name}'"
            with pytest.raises(ValueError, match=message):
                atlas.export(name, path=path, layout=kind.name)
            continue
        atlas.export(name, path=path, layout=kind.name)
        found, (model,) = audit.recognise(audit.state_of(path))
        assert found == kind.name
        for part in ("W_out", "W_in", "b"):
            assert np.array_equal(getattr(model, part), getattr(one, part))


def test_the_command_lists_and_exports(tmp_path, capsys):
    assert main(["atlas", "--n-features", "5", "--n-hidden", "2", "--p", "0.1", "--no-tied"]) == 0
    said = capsys.readouterr().out
    assert FREE in said
    assert TIED not in said
    assert main(["atlas", TIED, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert np.array_equal(told["W_in"], atlas.load(TIED).W_in)
    path = tmp_path / "model.npz"
    assert main(["atlas", TIED, "--out", str(path), "--layout", "ARENA"]) == 0
    assert audit.recognise(audit.state_of(path))[0] == "ARENA"
