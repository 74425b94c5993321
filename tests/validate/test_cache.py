"""Each run is made once for its settings, seed and code; what is damaged or foreign is made again."""

import random
import warnings

import numpy as np
import pytest
import xarray as xr

from superposition.validate.reference import files, read
from superposition.validate.runner import cache, registry
from superposition.validate.runner.cache import DataTask, ResultCache, plan_tasks
from superposition.validate.runner.declarations import Run, Section
from superposition.validate.runner.tasks import run_tasks

from ..oracles import damaged

ran = []


def run_mean(size, seeds=(0,), seed=0, flags=()):
    """Means of small normal samples, one for each seed."""
    ran.append((size, tuple(seeds), seed))
    values = [np.random.default_rng(one).normal(size=size).mean() for one in seeds]
    return xr.Dataset({"mean": ("seed", values), "fixed": 1.5}, {"seed": list(seeds)}, {"size": size})


RUNS = {
    "plain": Run(run_mean, quick={"size": 4, "seeds": range(2)}, full={"size": 40}),
    "apart": Run(run_mean, quick={"size": 4, "seeds": range(3)}, split_by="seeds", concat_dim="seed"),
    "stored": Run(run_mean, quick={"size": 4}, dataset="means"),
    "trained": Run(run_mean, quick={"size": 4}, torch=True, seconds=7.0),
}


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "PHENOMENA", ("toy",))
    monkeypatch.setattr(registry, "load_section", lambda name: Section(name, "Toy", "", RUNS, []))
    monkeypatch.setattr(cache, "code_digest", lambda: "a text")
    monkeypatch.setattr(read, "REFERENCE", tmp_path / "reference")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / read.SUMS).write_text(f"{'0' * 64}  other.nc\n")
    ran.clear()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def results(folder):
    folder.mkdir()
    return ResultCache(folder)


def test_an_experiment_is_run_once_and_its_pieces_joined(results, folder):
    first = results["toy.plain"]
    xr.testing.assert_identical(first, results["toy.plain"])
    xr.testing.assert_identical(first, ResultCache(folder)["toy.plain"])
    assert ran == [(4, (0, 1), 0)]
    xr.testing.assert_identical(first, run_mean(4, (0, 1)))
    assert ResultCache(folder, seed=5)["toy.plain"]["seed"].values.tolist() == [5, 6]
    ran.clear()
    results.run_piece("toy.apart", 1)
    assert results.missing_pieces("toy.apart") == [0, 2]
    ds = results["toy.apart"]
    assert sorted(seeds for _, seeds, _ in ran) == [(0,), (1,), (2,)]
    xr.testing.assert_identical(ds, run_mean(4, (0, 1, 2)))
    assert results.missing_pieces("toy.apart") == []


def test_another_seed_profile_setting_or_code_is_another_run(results, folder, monkeypatch):
    overrides = {"toy.plain": {"size": 9}}
    for cached in (results, ResultCache(folder, seed=1), ResultCache(folder, "full")):
        cached["toy.plain"]
    for _ in range(2):
        assert ResultCache(folder, overrides=overrides)["toy.plain"].attrs["size"] == 9
    monkeypatch.setattr(cache, "code_digest", lambda: "another text")
    ResultCache(folder, overrides=overrides)["toy.plain"]
    assert [size for size, _, _ in ran] == [4, 4, 40, 9, 9]


def works(*needs):
    """Return work on the data of some experiments, as `plan_tasks` takes it."""
    return [DataTask("work", min, needs, ("x",))]


def test_pieces_are_tasks_and_what_works_on_their_data_waits_for_them(results):
    *tasks, work = plan_tasks(results, works("toy.apart", "toy.plain", "toy.apart"))
    assert [task.name for task in tasks] == [*(f"toy.apart {k}" for k in range(3)), "toy.plain 0"]
    assert set(work.dependencies) == {task.name for task in tasks}
    assert work.arguments == (results, "x")
    run_tasks(tasks, 1, lambda *_: None)
    (work,) = plan_tasks(results, works("toy.apart", "toy.plain"))
    assert work.dependencies == []


def test_what_follows_from_data_is_kept_with_them(results, folder, monkeypatch):
    def note(needs=("toy.plain",), name="note", **settings):
        return ResultCache(folder, **settings).read_note(name, list(needs))

    results["toy.plain"]
    results.store_note("note", ["toy.plain"], {"numbers": (1, np.float64(0.5))})
    assert note() == {"numbers": [1, 0.5]}
    assert note((), seed=1) is note(name="other") is None
    results.store_note("free", [], {"number": 1.0})
    assert note((), "free") == {"number": 1.0}
    assert note((), "free", profile="full") is None
    with monkeypatch.context() as patch:
        patch.setattr(cache, "code_digest", lambda: "another text")
        assert note(()) is note() is None
    files.write_dataset(folder / "data" / "toy-plain-0.nc", xr.Dataset({"other": 1}))
    assert note() is None


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_damaged_files_are_told_of(results, folder, count):
    """Of data and of what follows from them: each is told of, and made again as it was."""
    rng = random.Random(5)
    results["toy.plain"]
    results.store_note("note", ["toy.plain"], {"number": 0.5})
    whole = {path: path.read_bytes() for path in sorted(folder.rglob("*.*")) if path.is_file()}
    assert [path.suffix for path in whole] == [".json", ".nc", ".json"]
    for k in range(count):
        path, is_deleted = rng.choice(list(whole)), k % 4 == 3
        path.unlink() if is_deleted else path.write_bytes(damaged(whole[path], k))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again = ResultCache(folder)
            xr.testing.assert_identical(again["toy.plain"], results["toy.plain"])
            if (kept := again.read_note("note", ["toy.plain"])) is None:
                again.store_note("note", ["toy.plain"], {"number": 0.5})
            assert kept in (None, {"number": 0.5})
        gone = is_deleted and path.parent.name == "parts"  # as if it had never been there
        assert gone or "was damaged, or is missing; made anew" in str(caught[0].message), (path, k)
        assert {one: one.read_bytes() for one in whole} == whole


def test_the_digest_is_that_of_the_data(results, folder):
    results["toy.apart"], results["toy.plain"]
    digest = results.digest("toy.apart")
    assert digest == ResultCache(folder).digest("toy.apart") != results.digest("toy.plain")
    files.write_dataset(folder / "data" / "toy-apart-1.nc", xr.Dataset({"other": 1}))
    assert results.digest("toy.apart") != digest


def put(folder, made):
    """Store a dataset with its checksum."""
    files.write_dataset(folder / "means.nc", made.assign_attrs(run="toy.stored"))
    (folder / read.SUMS).write_text(f"{files.digest(folder / 'means.nc')}  means.nc\n")


def test_stored_results_are_read_and_say_so(results, tmp_path):
    assert results["toy.stored"].sizes["seed"] == 1
    assert ran
    made = xr.Dataset({"mean": 1.0}, attrs={"finished": "2026-01-02T03:04:05+00:00", "device_name": "a GPU"})
    put(tmp_path / "reference", made)
    ran.clear()
    before, facts = results.digest("toy.stored"), results["toy.stored"].attrs
    assert ran == results.missing_pieces("toy.stored") == []
    said = [facts[f"stored_{name}"] for name in ("file", "date", "device")]
    assert said == ["means.nc", "2026-01-02", "a GPU"]
    put(tmp_path / "reference", made * 2)
    assert results.digest("toy.stored") != before


def test_what_needs_torch_is_not_there_without_it(results, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("no torch")

    assert results.is_available("toy.plain")
    for find in (lambda name: None, missing):
        monkeypatch.setattr(cache.importlib.util, "find_spec", find)
        assert not results.is_available("toy.trained")
        assert [task.name for task in plan_tasks(results, works("toy.trained"))] == ["work"]
