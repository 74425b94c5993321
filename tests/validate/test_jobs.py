"""Reference data: the table of jobs, what they cost, that they are made; and how training is timed."""

import dataclasses
import inspect
import itertools
import json

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, experiments, jobs
from superposition.validate.files import read_dataset
from superposition.validate.laboratory import PHENOMENA, section
from superposition.validate.stored import REFERENCE
from superposition.validate.training import run
from superposition.validate.training.speed import flops

SMALL = {"n_features": 4, "p": [0.1], "ratio": [0.5], "seeds": [0], "steps": 100, "evaluation_samples": 64}
SMALL["schedule"] = "converged"
STORED = sorted(path.stem for path in REFERENCE.glob("*.nc"))


def test_every_job_is_an_experiment_with_settings_that_it_has():
    found = experiments.experiments()
    assert len({job.name for job in jobs.JOBS}) == len(jobs.JOBS)
    for job in jobs.JOBS:
        parameters = inspect.signature(found[job.experiment]).parameters
        assert set(job.settings) <= set(parameters), job.name
        needed = {key for key, one in parameters.items() if one.default is one.empty}
        assert needed <= set(job.settings), job.name
        assert json.loads(json.dumps(job.settings)) == job.settings, "it is written to the file as JSON"


def test_what_the_report_reads_was_made_by_the_experiment_that_it_names():
    found = experiments.experiments()
    read = [e for room in PHENOMENA for e in section(room).experiments.values() if e.stored]
    assert len(read) > 10
    for one in read:
        (job,) = jobs.select([one.stored.removesuffix(".nc")])
        assert found[job.experiment] is one.run, one.stored
        assert one.quick == one.full == job.settings, one.stored


def test_every_stored_file_has_its_job():
    assert set(STORED) <= {job.name for job in jobs.JOBS}


@pytest.mark.parametrize(
    "name", [name for name in STORED if name.startswith(("rug_n", "codes_n", "codes_l"))]
)
def test_a_job_has_the_settings_of_the_stored_file(name):
    (job,) = jobs.select([name])
    ds = read_dataset(REFERENCE / f"{name}.nc")
    given = job.settings
    assert (given["n_features"], given["steps"]) == (int(ds["n_features"]), ds.attrs["steps"])
    assert given["evaluation_samples"] == ds.attrs["evaluation_samples"]
    assert (given["peak_learning_rate"] or 0.01) == ds.attrs["peak_learning_rate"]
    hidden = [max(1, round(r * given["n_features"])) for r in given["ratio"]]
    models = set(itertools.product(given["p"], hidden, given["seeds"]))
    columns = (ds[key].values.tolist() for key in ("p", "n_hidden", "seed"))
    assert set(zip(*columns, strict=True)) == models


@pytest.mark.parametrize("name", STORED)
def test_a_stored_file_is_of_the_settings_of_its_job(name):
    """As far as it has them: as attributes, or coordinates, whose names are in the singular."""
    (job,) = jobs.select([name])
    ds = read_dataset(REFERENCE / f"{name}.nc")
    for key, value in job.settings.items():
        index = next((ds.indexes[one] for one in (key, key.removesuffix("s")) if one in ds.indexes), None)
        if index is not None and (key == "cases" or isinstance(value, int)):
            assert len(index) == (len(value) if key == "cases" else value), key
        elif index is not None:
            assert index.tolist() == value, key
        elif value is not None and key in ds.attrs:
            assert np.array_equal(ds.attrs[key], value), key


def test_sizes_up_to_8192_stand_in_the_table():
    assert {job.settings["n_features"] for job in jobs.select(["rug_n*"])} >= {1024, 2048, 4096, 8192}


def test_cost_is_operations_over_the_rate():
    (job,) = jobs.select(["codes_long"])
    steps, samples = job.settings["steps"], job.settings["evaluation_samples"]
    work = 3 * 64 * 256 * (10.0 * 1024 * steps + 2 * 4 * samples)  # two ends, two products a sample
    assert jobs.cost(job, 1e12) == pytest.approx(work / 1e12, rel=1e-12)
    both = dataclasses.replace(job, settings={**job.settings, "schedule": "both"})
    assert jobs.cost(both, 1e12) > jobs.cost(job, 1e12)
    assert all(np.isfinite(jobs.cost(one, 1e12)) for one in jobs.JOBS), (
        "give `seconds` where there is no file"
    )
    (solved,) = jobs.select(["relu_phases"])
    took = read_dataset(REFERENCE / "relu_phases.nc").attrs["wall_seconds"]
    assert jobs.cost(solved, 1e12) == pytest.approx(took, abs=0.1)
    assert np.isnan(jobs.cost(dataclasses.replace(solved, name="new"), 1e12))
    with pytest.raises(ValueError, match=r"`rate` must .*got 0"):
        jobs.cost(job, 0.0)


def test_a_job_is_made_once(tmp_path):
    pytest.importorskip("torch")
    chosen, lines = jobs.select(["rug_n8192_p0.05_r0.25"]), []
    (job,) = chosen
    (path,) = jobs.make(chosen, out=tmp_path, changed=SMALL, device="cpu", precision="bf16")
    ds = read_dataset(path)
    assert json.loads(ds.attrs["settings"]) == job.settings | SMALL | {"precision": "bf16"}
    assert (ds.attrs["job"], ds.attrs["experiment"]) == (job.name, "training.grid")
    assert (ds.attrs["device_name"], ds.attrs["precision"]) == ("cpu", "bf16")
    assert ds.sizes["model"] == 1
    assert [one.name for one in tmp_path.glob("[!.]*")] == [path.name], "the checkpoint has gone"
    before = path.stat().st_mtime_ns
    same = {"device": "cpu", "precision": "bf16", "tell": lines.append}
    assert jobs.make(chosen, out=tmp_path, changed=SMALL, **same) == []
    assert lines == [f"{job.name}: there already"]
    with pytest.raises(ValueError, match=rf"`out` must be .*{job.name}.nc.* the same settings; got "):
        jobs.make(chosen, out=tmp_path, changed=SMALL, device="cpu")
    assert path.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"`set` must be one of .*; got 'colour'"):
        jobs.make(chosen, out=tmp_path, changed={"colour": 1})


def test_an_interrupted_job_goes_on(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    chosen = jobs.select(["rug_n128"])

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.engine, "evaluate", stopped)
    with pytest.raises(KeyboardInterrupt):
        jobs.make(chosen, out=tmp_path, changed=SMALL, device="cpu")
    assert [one.name for one in tmp_path.glob("[!.]*")] == ["rug_n128.checkpoint.npz"]
    monkeypatch.undo()
    monkeypatch.setattr(run.engine, "run_block", stopped)  # all steps are done
    (path,) = jobs.make(chosen, out=tmp_path, changed=SMALL, device="cpu")
    assert list(tmp_path.glob("[!.]*")) == [path]


def test_the_list_measures_nothing(capsys, monkeypatch):
    monkeypatch.setattr(jobs, "measure", None)
    assert cli.main(["reference", "--list", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(listed) == {job.name for job in jobs.JOBS}
    assert listed["rug_n128"]["made"] == "2026-11-21"
    assert listed["rug_n8192_fig2_p0.4"]["made"] == listed["rug_n8192_fig2_p0.4"]["confirmed"] == ""
    hours = sum(one["hours"] for one in listed.values() if one["made"])
    assert 10 < hours < 50


def test_parts_are_made_apart_and_put_side_by_side(tmp_path):
    (job,) = jobs.select(["unequal_blocks"])
    small = {
        "cases": [["exclusive", s, 0.1, 0.4] for s in (0.5, 1.0)],
        "sizes": [8],
        "seeds": [0],
        "pairs": [1],
    }
    parts = [{"cases": [case]} for case in small["cases"]]
    small = dataclasses.replace(job, settings={**job.settings, **small}, parts=parts, along=["case"])
    (apart,) = jobs.make([small], out=tmp_path / "apart", device="cpu")
    (whole,) = jobs.make([dataclasses.replace(small, parts=(), along=())], out=tmp_path / "whole")
    xr.testing.assert_allclose(read_dataset(apart), read_dataset(whole))
    facts = read_dataset(apart).attrs
    assert json.loads(facts["settings"])["parts"] == parts
    assert facts["wall_seconds"] > 0
    assert {"commit", "code", "libraries", "made", "job"} <= set(facts)


def test_the_command_lists_measures_and_makes(tmp_path, capsys):
    pytest.importorskip("torch")
    assert cli.main(["reference", "rug_n8192*", "--list", "--json", "--rate", "1e14"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == 18
    assert 0.01 < sum(one["hours"] for one in listed) < 10
    assert cli.main(["reference", "--measure", "8", "--json", "--device", "cpu"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["n_features"] for row in rows] == [8]
    for row in rows:
        assert row["times_plain"] == pytest.approx(row["plain_step"] / row["step"])
        assert row["models_per_hour"] == pytest.approx(3600 / (10_000 * row["step"]))
        assert row["rate"] == pytest.approx(flops(row["n_features"], row["n_hidden"]) / row["step"])
        assert row["share"] == pytest.approx(row["rate"] / row["bare_rate"])
        assert 0 < row["rate"] < row["bare_rate"] < 1e13
    words = ["codes_known", "--out", str(tmp_path), "--set", "nothing=1"]
    assert cli.main(["reference", *words]) == 2
    assert "`set` must be one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing*"], "`names` must fit a job, such as rug_n128; got 'nothing*'"),
        (["--measure", "1"], "`n_features` must"),
        (["--measure", "8", "--models", "0"], "`models` must"),
        (["--measure", "8", "--models", "2000000000"], "`models` must be smaller"),
        (
            ["--measure", "8", "--captured", "--device", "cpu"],
            "`captured` must be False for the device 'cpu'",
        ),
        (["--measure", "8", "--precision", "fp8"], "`precision` must be one of"),
        (["rug_n128", "--rate", "-1"], "`rate` must"),
    ],
)
def test_bad_input(words, message, capsys):
    pytest.importorskip("torch")
    assert cli.main(["reference", *words]) == 2
    assert message in capsys.readouterr().err
