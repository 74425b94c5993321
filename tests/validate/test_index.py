"""The index of stored files: what it says is checked on load, and a change of anything is noticed."""

import dataclasses
import shutil

import pytest

from superposition.validate import index, laboratory, running, stored
from superposition.validate.files import digest
from superposition.validate.stored import REFERENCE

RUNS = index.stored_runs()


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Return a copy of the stored files, whose index takes the code of today for theirs."""
    folder = tmp_path / "reference"
    folder.mkdir()
    for path in REFERENCE.iterdir():
        if path.suffix == ".nc" or path.name in ("README.md", stored.INDEX):
            shutil.copy(path, folder)
    monkeypatch.setattr(stored, "REFERENCE", folder)
    return folder


def test_the_readme_has_the_table_of_the_index():
    text = (REFERENCE / "README.md").read_text(encoding="utf-8")
    table = text.partition(index.BEGIN)[2].partition(index.END)[0]
    assert table == "\n" + index.table(stored.read_index())


def test_a_file_that_was_changed_is_not_read(copy):
    before = (copy / "codes_lines.nc").read_bytes()
    assert stored.read_reference("codes_lines.nc").attrs["stored_file"] == "codes_lines.nc"
    (copy / "codes_lines.nc").write_bytes(before[:-1] + b"?")
    with pytest.raises(
        ValueError, match=r"`codes_lines.nc` must be the file that index.json names, unchanged"
    ):
        stored.read_reference("codes_lines.nc")
    (copy / "codes_lines.nc").unlink()
    with pytest.raises(ValueError, match=r"`codes_lines.nc` must be .*; got none"):
        stored.read_reference("codes_lines.nc")
    (copy / stored.INDEX).write_text("{}")
    with pytest.raises(ValueError, match=r"`index.json` must be the index"):
        stored.read_reference("codes_known.nc")


def test_a_file_that_is_not_in_the_index_is_in_no_verdict(copy):
    before = set(stored.read_jobs(["rug_n", "codes_n"]))
    shutil.copy(copy / "rug_n128.nc", copy / "rug_n1024_p0.4_r0.12.nc")
    assert set(stored.read_jobs(["rug_n", "codes_n"])) == before
    with pytest.raises(ValueError, match=r"`folder` must be a folder with a file of a run, such as rug_n9\*"):
        stored.read_jobs(["rug_n9"])


SMALL = {"n_features": 4, "n_hidden": [4], "runs": 2}
TOY = dataclasses.replace(RUNS["collisions_fresh"], stored="toy", name="toy.run", quick=SMALL, full=SMALL)


@pytest.fixture
def toy(copy, monkeypatch):
    """Return the job of a file that takes no time, which is made and stored."""
    job = TOY
    monkeypatch.setattr(index, "stored_runs", lambda: {"toy": job, **RUNS})
    for module in (laboratory, running):
        monkeypatch.setattr(module, "experiment", lambda name: {"toy.run": job}[name])
    made = copy.parent / "made"
    (path,) = running.make([job.name], out=made, device="cpu")
    assert index.store(path=path) == "toy"
    return job


def test_what_the_command_makes_is_entered_and_accepted(toy, copy):
    entry = stored.read_index()["toy"]
    assert entry["origin"] == "recorded by the command"
    assert entry["sha256"] == digest(copy / "toy.nc")
    assert entry["settings"]["lam"] == 0.003, "a default is told as well"
    assert entry["seeds"] == [0]
    assert "`toy.nc`" in (copy / "README.md").read_text()
    with pytest.raises(ValueError, match=r"`store` must be a file NAME.nc that `superposition run NAME`"):
        index.store(path=copy / "rug_n128.nc")
