"""Reference data: the table of jobs, what they cost, that they are made; and how training is timed."""

import dataclasses
import inspect
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from superposition import validate
from superposition.validate import claims, cli, experiments, laboratory, running
from superposition.validate.collisions import run_fig3
from superposition.validate.experiment import PROFILES, Run
from superposition.validate.files import read_dataset
from superposition.validate.index import stored_runs
from superposition.validate.report import full_names
from superposition.validate.stored import REFERENCE, read_index
from superposition.validate.training.run import engine

SMALL = {"n_features": 4, "p": [0.1], "ratio": [0.5], "seeds": [0], "steps": 100, "evaluation_samples": 64}
SMALL["schedule"] = "converged"
STORED = sorted(path.stem for path in REFERENCE.glob("*.nc"))


def test_every_run_has_settings_that_its_function_takes():
    for run in laboratory.runs().values():
        by_hand = (
            {"n_features", "n_hidden", "p", "ratio", "seeds"} if run.name.startswith("training.") else ()
        )
        for profile, piece in itertools.product(PROFILES, (0, -1)):
            given = run.settings(profile, 3)[piece]
            missing = [key for key in inspect.signature(run.function).parameters if key in by_hand]
            experiments.checked(run.function, {key: [1] for key in missing} | given)
        if run.stored:
            assert json.loads(json.dumps(run.full)) == run.quick == run.full, "the file has it as JSON"
            assert getattr(validate, run.experiment.partition(".")[0]), "the stamp finds the function"


def test_names_of_runs_and_files_are_of_one_run_each():
    known = laboratory.runs()
    files = [run.stored for run in known.values() if run.stored]
    assert len(set(files)) == len(files)
    assert not set(files) & set(known)
    for run in [*known.values()][::5]:
        assert laboratory.experiment(run.name) == run
        assert not run.stored or laboratory.experiment(run.stored) == run


def shown_names():
    """Return each name of a run that report, ledger, index or documentation show, with where it is."""
    found = {}
    for room in laboratory.PHENOMENA:
        for topic in laboratory.section(room).topics:
            found |= dict.fromkeys(full_names(room, topic), f"report, {room}")
    for claim in claims.CLAIMS:
        found |= dict.fromkeys(claim.needs, claim.id)
    for name, entry in read_index().items():
        found |= {name: "index", entry["experiment"]: "index"}
        found[entry["command"].removeprefix("superposition run ")] = "index"
    root = Path(__file__).parents[2]
    pages = [*root.glob(".docs/*.rst"), *root.glob(".docs/*.md"), *root.glob("*.md"), REFERENCE / "README.md"]
    room = "|".join((*laboratory.PHENOMENA, "training"))
    for page in pages:
        text = page.read_text("utf-8")
        found |= dict.fromkeys(
            re.findall(rf"superposition\s+(?:run|sweep)\s+((?:{room})[.\w]+)", text), page.name
        )
    return found


def test_every_name_that_is_shown_can_be_run(capsys):
    names = shown_names()
    assert len(names) > 150
    known = laboratory.runs()
    meant = {name: {name} for name in known} | {run.stored: {run.name} for run in known.values()}
    assert [(name, where) for name, where in names.items() if name not in meant] == []
    some = [*names][::10]
    assert cli.main(["run", *some, "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in listed} == set().union(*(meant[name] for name in some))


@pytest.mark.parametrize(
    "name", [name for name in STORED if name.startswith(("rug_n", "codes_n", "codes_long"))]
)
def test_a_job_has_the_settings_of_the_stored_file(name):
    (job,) = running.select([name])
    ds = read_dataset(REFERENCE / f"{name}.nc")
    given = job.full
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
    (job,) = running.select([name])
    ds = read_dataset(REFERENCE / f"{name}.nc")
    for key, value in job.full.items():
        index = next((ds.indexes[one] for one in (key, key.removesuffix("s")) if one in ds.indexes), None)
        if index is not None and (key == "cases" or isinstance(value, int)):
            assert len(index) == (len(value) if key == "cases" else value), key
        elif index is not None:
            assert index.tolist() == value, key
        elif value is not None and key in ds.attrs:
            assert np.array_equal(ds.attrs[key], value), key


def test_sizes_up_to_8192_stand_in_the_table():
    assert {job.full["n_features"] for job in running.select(["rug_n*"])} >= {1024, 2048, 4096, 8192}


def test_cost_is_what_the_stored_run_took_or_what_is_declared():
    (solved,) = running.select(["codes_lines"])
    took = read_dataset(REFERENCE / "codes_lines.nc").attrs["wall_seconds"]
    assert running.cost(solved) == pytest.approx(took, abs=0.1)
    assert running.cost(dataclasses.replace(solved, stored="new", seconds=7.0)) == 7.0
    (apart,) = running.select(["rug.trained"])
    assert running.cost(apart) == 3 * apart.seconds, "there are three pieces"
    assert np.isnan(running.cost(running.select(["training.grid"])[0]))


def test_a_job_is_made_once(tmp_path):
    pytest.importorskip("torch")
    chosen, lines = ["rug_n8192_p0.05_r0.25"], []
    (job,) = running.select(chosen)
    (path,) = running.make(chosen, out=tmp_path, changed=SMALL, device="cpu", precision="bf16")
    ds = read_dataset(path)
    assert json.loads(ds.attrs["settings"]) == job.full | SMALL | {"precision": "bf16"}
    assert (ds.attrs["job"], ds.attrs["experiment"]) == (job.stored, "training.grid")
    assert (ds.attrs["device_name"], ds.attrs["precision"]) == ("cpu", "bf16")
    assert ds.sizes["model"] == 1
    assert [one.name for one in tmp_path.glob("[!.]*")] == [path.name], "the checkpoint has gone"
    before = path.stat().st_mtime_ns
    same = {"device": "cpu", "precision": "bf16", "tell": lines.append}
    assert running.make(chosen, out=tmp_path, changed=SMALL, **same) == [path]
    assert lines == [f"{job.name}: there already"]
    with pytest.raises(ValueError, match=rf"`out` must be .*{job.stored}.nc.* the same settings; got "):
        running.make(chosen, out=tmp_path, changed=SMALL, device="cpu")
    assert path.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"`set` must be one of .*; got 'colour'"):
        running.make(chosen, out=tmp_path, changed={"colour": 1})


def test_an_interrupted_job_goes_on(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    chosen = ["rug_n128"]

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "evaluate", stopped)
    with pytest.raises(KeyboardInterrupt):
        running.make(chosen, out=tmp_path, changed=SMALL, device="cpu")
    left = [one.name for one in tmp_path.rglob("[!.]*") if one.is_file()]
    assert left == ["training-rug_n128-0.checkpoint.npz"]
    monkeypatch.undo()
    monkeypatch.setattr(engine, "run_block", stopped)  # all steps are done
    (path,) = running.make(chosen, out=tmp_path, changed=SMALL, device="cpu")
    assert list(tmp_path.glob("[!.]*")) == [path]


def test_the_list_has_every_run(capsys):
    assert cli.main(["run", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in every] == list(laboratory.runs())
    listed = {one["file"]: one for one in every if one["file"]}
    assert set(listed) == set(stored_runs())
    assert listed["rug_n128"]["made"] == "2026-11-21"
    assert listed["rug_n8192_fig2_p0.4"]["made"] == ""
    on_gpu = {name for name, entry in read_index().items() if "NVIDIA" in entry["machine"]}
    hours = sum(one["hours"] for name, one in listed.items() if one["made"] and name not in on_gpu)
    assert 10 < hours < 50


def test_parts_are_made_apart_and_put_side_by_side(tmp_path, monkeypatch):
    small = {"n_features": 8, "n_hidden": [4, 8], "runs": 2, "lam": 0.02}
    parts = [{"n_hidden": [m]} for m in small["n_hidden"]]
    apart = Run(run_fig3, small, small, parts, "n_hidden", name="toy.apart")
    toys = {"toy.apart": apart, "toy.whole": dataclasses.replace(apart, apart=(), name="toy.whole")}
    for module in (laboratory, running):
        monkeypatch.setattr(module, "experiment", lambda name: toys[name])
    apart, whole = running.make(list(toys), out=tmp_path)
    xr.testing.assert_allclose(read_dataset(apart), read_dataset(whole))
    facts = read_dataset(apart).attrs
    assert json.loads(facts["settings"])["parts"] == parts
    assert facts["wall_seconds"] > 0
    assert {"commit", "libraries", "made", "run", "superposition_version"} <= set(facts)


def test_bad_input(tmp_path, capsys):
    for words, message in (
        (["nothing*"], "`name` must be a run, as room.name; `superposition run` lists them; got 'nothing*'"),
        (["codes_known", "--out", str(tmp_path), "--set", "nothing=1"], "`set` must be one of"),
    ):
        assert cli.main(["run", *words]) == 2
        assert message in capsys.readouterr().err
