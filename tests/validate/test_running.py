"""Reference data: the table of jobs, what they cost, that they are made; and how training is timed."""

import dataclasses
import importlib
import inspect
import itertools
import json

import pytest
import xarray as xr

from superposition.validate import cli, ledger
from superposition.validate.experiments.collisions import run_fig3
from superposition.validate.experiments.papers import cistoy, prieto
from superposition.validate.reference import read
from superposition.validate.reference.files import read_dataset
from superposition.validate.runner import commands, execute, registry
from superposition.validate.runner.declarations import PROFILES, Run
from superposition.validate.runner.provenance import shipped_runs

SMALL = {"n_features": 4, "p": [0.1], "ratio": [0.5], "seeds": [0], "steps": 100, "evaluation_samples": 64}
SMALL["schedule"] = "converged"


def test_every_run_has_settings_that_its_function_takes():
    by_hand = {"n_features", "n_hidden", "p", "ratio", "seeds"}
    for run in registry.list_runs().values():
        for profile, piece in itertools.product(PROFILES, (0, -1)):
            given = run.piece_settings(profile, 3)[piece]
            if run.name.startswith("training."):
                missing = by_hand & inspect.signature(run.function).parameters.keys()
                given = {key: [1] for key in missing} | given
            execute.check_settings(run.function, given)
        if run.dataset:
            assert json.loads(json.dumps(run.full)) == run.quick == run.full, "the file has it as JSON"


def test_names_of_runs_and_files_are_of_one_run_each():
    known = registry.list_runs()
    files = [run.file for run in known.values() if run.dataset]
    assert len(set(files)) == len(files)
    assert not set(files) & set(known)
    for run in [*known.values()][::5]:
        assert registry.find_run(run.name) == run
        assert not run.dataset or registry.find_run(run.file) == run


def test_every_name_that_report_and_ledger_show_can_be_run():
    names = {name for claim in ledger.CLAIMS for name in claim.needs}
    for phenomenon in registry.PHENOMENA:
        for topic in registry.load_section(phenomenon).topics:
            names |= set(topic.run_names(phenomenon))
    assert len(names) > 80
    assert names <= set(registry.list_runs())


def test_a_job_is_made_once(torch, tmp_path):
    chosen, lines = ["rug_n8192_p0.05_r0.25"], []
    (job,) = commands.select_runs(chosen)
    given = {"out": tmp_path, "overrides": SMALL, "device": "cpu"}
    (path,) = commands.make_runs(chosen, **given, precision="bf16")
    ds = read_dataset(path)
    settings = json.loads(ds.attrs["settings"])
    assert settings == job.full | SMALL | {"precision": "bf16", "most_steps": None}, "with defaults"
    assert (ds.attrs["run"], ds.attrs["experiment"]) == (job.name, "training.grid")
    assert (ds.attrs["device_name"], ds.attrs["precision"]) == ("cpu", "bf16")
    assert ds.sizes["model"] == 1
    assert list(tmp_path.glob("*.nc")) == [path]
    assert list(tmp_path.rglob("*checkpoint*")) == []
    before = path.stat().st_mtime_ns
    assert commands.make_runs(chosen, **given, precision="bf16", progress=lines.append) == [path]
    assert [line.partition(",")[0] for line in lines] == [f"{job.name}: there already"]
    with pytest.raises(ValueError, match=rf"`out` must be .*{job.file}.nc.* the same settings; got "):
        commands.make_runs(chosen, **given)
    assert path.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"`set` must be one of .*; got 'colour'"):
        commands.make_runs(chosen, out=tmp_path, overrides={"colour": 1})


def test_the_list_has_every_run_with_its_hours_and_when_it_was_made(capsys):
    assert cli.main(["run", "--json"]) == 0
    rows = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(registry.list_runs())
    assert {name for name, row in rows.items() if row["made"]} == set(shipped_runs())
    stored = read.facts("unequal_bracket")["unequal.bracket"]
    assert rows["unequal.bracket"]["hours"] == pytest.approx(stored["wall_seconds"] / 3600)
    run = next(run for run in registry.list_runs().values() if not run.dataset and run.split_by)
    hours = run.seconds / 3600 * len(run.piece_settings("quick", 0))
    assert rows[run.name]["hours"] == pytest.approx(hours)
    for name in ("codes.lines", "collisions.long", "collisions.fig3", "unequal.bracket"):
        dataset = registry.find_run(name).dataset
        made = read.facts(dataset)[name]["made"] if dataset else ""
        assert (rows[name]["dataset"], rows[name]["made"]) == (dataset, made)


def test_parts_are_made_apart_and_put_side_by_side(tmp_path, monkeypatch):
    small = {"n_features": 8, "n_hidden": [4, 8], "runs": 2, "lam": 0.02}
    parts = [{"n_hidden": [m]} for m in small["n_hidden"]]
    apart = Run(run_fig3, small, small, parts, "n_hidden", name="toy.apart")
    toys = {"toy.apart": apart, "toy.whole": dataclasses.replace(apart, split_by=(), name="toy.whole")}
    monkeypatch.setattr(registry, "find_run", lambda name: toys[name])
    apart, whole = map(read_dataset, commands.make_runs(list(toys), out=tmp_path))
    xr.testing.assert_allclose(apart, whole)
    assert json.loads(apart.attrs["settings"])["parts"] == parts
    spent = [read_dataset(path).attrs["wall_seconds"] for path in (tmp_path / "data").glob("toy-apart-*.nc")]
    assert apart.attrs["wall_seconds"] == pytest.approx(sum(spent), rel=1e-12)
    assert len(spent) == 2
    assert {"commit", "libraries", "made", "run", "superposition_version"} <= set(apart.attrs)


def run_toy(size, seeds, seed=7):
    return xr.Dataset()


def test_a_run_is_split_by_a_setting_or_by_the_pieces_that_it_names():
    """With settings of a user the pieces are those of the setting, or the whole."""
    quick, full = {"size": [4, 8], "seeds": [0, 2]}, {"size": [16], "seeds": [0]}
    by_setting = Run(run_toy, quick, full, split_by="size")
    by_pieces = Run(run_toy, quick, full, split_by=[{"size": [4]}, {"size": [8], "seeds": [1]}])
    common = {"seeds": [3, 5], "seed": 3}
    assert by_setting.settings("quick", 3) == {"size": [4, 8], **common}
    changed = {"size": [1, 2], "seed": 9, "seeds": 2}  # a number of seeds is no list of them
    for run, given, pieces in (
        (by_setting, ("quick", 3), [{"size": [4], **common}, {"size": [8], **common}]),
        (by_setting, ("full", 3), [{"size": [16], "seeds": [3], "seed": 3}]),
        (by_setting, ("quick", 3, changed), [{"size": [size], "seeds": 2, "seed": 9} for size in (1, 2)]),
        (by_pieces, ("quick", 3), [{"size": [4], **common}, {"size": [8], "seeds": [1], "seed": 3}]),
        (by_pieces, ("quick", 3, {"size": [5]}), [{"size": [5], **common}]),
        (Run(run_toy, quick), ("quick", 0), [{"size": [4, 8], "seeds": [0, 2], "seed": 0}]),
    ):
        assert run.piece_settings(*given) == pieces
    stored = Run.shipped("data", "what for", run_toy, quick)
    assert stored.settings("full", 3) == stored.settings("quick", 4) == quick, "seeds of stored runs stay"


def test_topics_of_papers_come_after_those_of_their_phenomenon():
    for phenomenon, paper in (("unequal", prieto), ("computation", cistoy)):
        package = importlib.import_module(f"superposition.validate.experiments.{phenomenon}")
        merged, own = registry.load_section(phenomenon), package.SECTION
        names = [topic.name for topic in (*own.topics, *paper.TOPICS)]
        assert [topic.name for topic in merged.topics] == names
        assert list(merged.runs) == [*own.runs, *paper.RUNS]
