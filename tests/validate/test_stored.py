"""Stored datasets: what is damaged is refused by name, runs come back as they were made."""

import dataclasses
import json
import random
import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, ledger
from superposition.validate.reference import read, run_datasets
from superposition.validate.reference.read import REFERENCE
from superposition.validate.reference.run_datasets import FACTS, combine_runs, extract_run
from superposition.validate.runner import commands, provenance, registry
from superposition.validate.runner.cache import ResultCache
from superposition.validate.runner.tasks import format_duration

DATASETS = sorted(read.checksums())
RUNS = provenance.shipped_runs()


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Work on a copy of the stored files."""
    folder = tmp_path / "reference"
    folder.mkdir()
    for path in (*REFERENCE.glob("*.nc"), REFERENCE / "README.md", REFERENCE / read.SUMS):
        shutil.copy(path, folder)
    monkeypatch.setattr(read, "REFERENCE", folder)
    return folder


def test_the_checksums_are_those_of_all_datasets():
    assert sorted(path.stem for path in REFERENCE.glob("*.nc")) == DATASETS
    assert len(DATASETS) <= 18
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", read.SUMS], cwd=REFERENCE, check=True)


def test_every_dataset_says_how_its_runs_were_made():
    found = {name: facts for dataset in DATASETS for name, facts in read.facts(dataset).items()}
    assert set(found) == set(RUNS)
    for name, facts in found.items():
        assert facts["settings"] == provenance.full_settings(RUNS[name], RUNS[name].full), name
        assert facts["experiment"] == RUNS[name].experiment
        known = set(FACTS) - {"libraries"}  # which the oldest runs did not note
        assert all(facts[key] for key in known), name
    for dataset in DATASETS:
        assert read.load(dataset).attrs["title"]


def readers(dataset):
    """Return what reads a dataset, by its name."""
    name, run = next((name, run) for name, run in RUNS.items() if run.dataset == dataset)
    rows = [row.id for row in ledger.select_claims() if name in row.needs]
    found = {
        "load": lambda: read.load(dataset), "read": lambda: read.read(dataset, run=name),
        "read_runs": lambda: read.read_runs(dataset), "facts": lambda: read.facts(dataset),
        "results": lambda: ResultCache(REFERENCE)[name], "cost": lambda: commands.expected_seconds(run),
        "table": provenance.datasets_table, "shipped_runs": provenance.shipped_runs,
    }  # fmt: skip
    if rows:
        found["claims"] = lambda: ledger.judge(ledger.select_claims(rows[:1])[0], ResultCache(REFERENCE))
    return found


def test_the_table_counts_runs_and_adds_their_hours():
    for name, line in zip(DATASETS, provenance.datasets_table().splitlines()[2:], strict=True):
        cells, seconds = line.split(" | "), [float(run["wall_seconds"]) for run in read.facts(name).values()]
        assert (cells[2], cells[6]) == (str(len(seconds)), f"{sum(seconds) / 3600:.1f} |")


@pytest.mark.parametrize("dataset", DATASETS[::4])
def test_damaged_data_are_refused_by_name_by_everything_that_reads_them(copy, dataset):
    path = copy / f"{dataset}.nc"
    whole, rng = path.read_bytes(), random.Random(dataset)
    place = rng.randrange(len(whole))
    flipped = whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
    calls = readers(dataset)
    for content in (flipped, whole[: len(whole) // 2], b"", None):
        path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
        for label, call in calls.items():
            if label == "claims":
                assert f"`{path.name}` must be the file of SHA256SUMS" in call().trouble
                continue
            with pytest.raises(ValueError, match=rf"`{dataset}\.nc` must be the file of SHA256SUMS.*got "):
                call()


def test_damaged_files_of_checksums_are_refused_by_name(copy):
    path = copy / read.SUMS
    whole, rng = path.read_bytes(), random.Random(4)
    ends = [k + 1 for k, one in enumerate(whole[:-1]) if one == ord("\n")]  # whole lines are left
    contents = [whole[:end] for end in (*ends[-10:], *(rng.randrange(len(whole) - 1) for _ in range(10)))]
    contents += [
        whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        for at in (rng.randrange(len(whole) - 1) for _ in range(20))
    ]
    for content in (*contents, b"", b"x\n", f"{'0' * 63}  training.nc\n".encode(), None):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(ValueError, match="SHA256SUMS"):
            list(map(read.load, DATASETS))


def test_a_file_without_a_checksum_is_in_no_verdict(copy):
    shutil.copy(copy / "training.nc", copy / "more.nc")
    for ask in (lambda: read.read("more"), provenance.shipped_runs):
        with pytest.raises(ValueError, match=r"`SHA256SUMS` must have a checksum of each .*none of more\.nc"):
            ask()


def test_runs_are_found_by_their_settings():
    large = read.read_runs("training", schedule="both", n_features=lambda n: n > 4096)
    assert list(large) == ["training.rug_n8192_p0.05_r0.25", "training.rug_n8192_p0.05_r0.5"]


def made(**data):
    facts = dict.fromkeys(FACTS, "") | {"settings": json.dumps({"size": len(data)}), "wall_seconds": 1.0}
    coords = {"p": [0.1, 0.2], "seed": [4, 7], "end": ["first", "last"]}
    used = {dim for values in data.values() if isinstance(values, tuple) for dim in values[0]}
    coords = {dim: labels for dim, labels in coords.items() if dim in used}
    return xr.Dataset(data, coords, {**facts, "device_name": "cpu", "level": 0.25})


def test_runs_come_back_as_they_were():
    """Also where one has other dimensions, sizes, labels, types and variables than another."""
    rng = np.random.default_rng(0)
    loss = (("end", "p", "seed"), rng.random((2, 2, 2)))
    one = made(loss=loss, count=(("p",), np.arange(2, dtype=np.int32)), size=3, word=("seed", ["a", "bcd"]))
    one = one.assign_coords(kind=("p", ["x", "y"]))
    two = made(loss=loss, history=(("seed", "block"), rng.random((2, 5)))).isel(end=[1], p=[1], seed=[0])
    three = made(history=(("seed", "block"), rng.random((2, 3))), count=7).isel(seed=[1])
    runs = {"one": one, "two": two, "three": three}
    ds = combine_runs(runs, ["p", "seed"])
    assert ds.sizes["model"] == 4 + 1 + 1
    assert ds["measurement"].values.tolist() == list(runs)
    assert ds["size"].dims == ("model",)
    again = combine_runs({name: extract_run(ds, name) for name in runs}, ["p", "seed"])
    xr.testing.assert_identical(ds, again)
    for name, run in runs.items():
        xr.testing.assert_identical(extract_run(ds, name), run.assign_attrs(run=name))


SMALL = {"n_features": 4, "n_hidden": [4], "runs": 2}


@pytest.mark.parametrize("name", ["collisions.fresh", "collisions.new"])
def test_what_the_command_makes_is_put_into_its_dataset(copy, monkeypatch, capsys, name):
    """In place of a run of the same name, or beside those that are there."""
    toy = dataclasses.replace(RUNS["collisions.fresh"], name=name, quick=SMALL, full=SMALL)
    monkeypatch.setattr(registry, "find_run", lambda name: toy)
    monkeypatch.setattr(registry, "list_runs", lambda: {**RUNS, name: toy})
    long = read.read("collisions_fig3", run="collisions.long")
    lines = []
    (path,) = commands.make_runs([name], out=copy.parent / "made", device="cpu", progress=lines.append)
    assert lines[0] == f"{name}: {format_duration(commands.expected_seconds(toy))} to expect"
    assert cli.main(["reference", str(path)]) == 0
    assert f"stored: {name}" in capsys.readouterr().out
    facts = read.facts("collisions_fig3")
    assert list(facts) == list(dict.fromkeys(["collisions.long", "collisions.fresh", name]))
    assert facts[name]["settings"]["lam"] == 0.003, "a default is told as well"
    new = read.read("collisions_fig3", run=name)
    np.testing.assert_array_equal(new["polysemantic"], toy.function(**SMALL)["polysemantic"])
    xr.testing.assert_identical(long, read.read("collisions_fig3", run="collisions.long"))
    assert provenance.datasets_table() in (copy / "README.md").read_text()
    subprocess.run(["sha256sum", "--check", "--quiet", read.SUMS], cwd=copy, check=True)


def test_other_files_are_not_stored(copy, tmp_path):
    ds = xr.load_dataset(copy / "unequal_bracket.nc", engine="scipy")
    without, path = ds.copy(), tmp_path / "x.nc"
    del without.attrs["commit"]
    without.to_netcdf(path, engine="scipy")
    for one in (copy / "training.nc", path):
        with pytest.raises(ValueError, match="`path` must be a file that `superposition run` made of a run"):
            provenance.add_run(path=one)
    changed = json.loads(ds.attrs["settings"]) | {"n_features": 10}
    ds.assign_attrs(settings=json.dumps(changed)).to_netcdf(path, engine="scipy")
    with pytest.raises(ValueError, match=r"`path` must have the settings of.*n_features 10, not 1000"):
        provenance.add_run(path=path)


def test_dates_and_devices_of_stored_runs():
    """The day on which a run ended, else that on which it was made; those of unknown days say so."""
    long = {"made": "2026-01-30", "finished": "2026-02-03T10:00:00", "device_name": "H100"}
    both = read.stored_facts("a.nc", [{"made": "2026-02-01"}, long])
    assert both == {
        "stored_file": "a.nc", "stored_date": "2026-02-01 to 2026-02-03", "stored_device": "H100, cpu"
    }  # fmt: skip
    assert read.stored_facts("", [long, long])["stored_date"] == "2026-02-03"
    assert read.stored_facts("", [{}])["stored_date"] == "date unknown"


def test_settings_that_differ_are_columns():
    a, b, c = ({"size": 1, "kind": "x", "same": 3, "list": [1], "late": None} for _ in range(3))
    b |= {"size": 2.5, "kind": "y", "list": [2]}
    c |= {"only": "here"}
    del c["size"]
    columns = run_datasets._differing_settings([a, b, c])
    assert list(columns) == ["size", "kind", "only"]
    np.testing.assert_array_equal(columns["size"], [1, 2.5, np.nan])
    assert (columns["kind"], columns["only"]) == (["x", "y", "x"], ["", "", "here"])
