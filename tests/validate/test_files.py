"""Files: tables that are tidy, complete and exact; one writer that replaces whole files and nothing else."""

import os
import resource
import stat
import zipfile
from itertools import product

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from superposition.validate.reference import files


def test_what_is_half_written_is_never_the_file(tmp_path):
    path = tmp_path / "page.html"
    with files.atomic_write(path) as part:
        part.write_text("first")
        assert files._PART.fullmatch(part.name)
        assert list(tmp_path.iterdir()) == [part]
        files.write_text(path, "at the same time")
        assert path.read_text() == "at the same time"
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "first"


def test_one_table_for_each_set_of_dimensions(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"loss": (("p", "run"), rng.random((3, 2))), "error": (("run", "p"), rng.random((2, 3)))}
    columns |= {"law": ("p", rng.random(3)), "constant": ((), 0.1 + 0.2)}
    dataset = xr.Dataset(columns, {"p": [0.1, 0.2, 0.3], "label": ("p", ["a, b", "c", "d"])})
    written = files.write_tables(tmp_path / "loss.csv", dataset)
    assert [path.name for path in written] == ["loss-by-p-run.csv", "loss-by-p.csv"]
    both, law = map(pd.read_csv, written)
    assert list(both.columns) == ["p", "run", "loss", "error", "constant", "label"]
    assert len(both) == 6
    for row in both.itertuples():
        at = dataset.sel(p=row.p).isel(run=row.run)
        assert (row.loss, row.error, row.label) == (at.loss, at.error, at.label)
    assert set(both.constant) == {0.1 + 0.2}
    np.testing.assert_array_equal(law.law, dataset.law)
    (path,) = files.write_tables(tmp_path / "law.csv", dataset[["law", "constant"]])
    assert path == tmp_path / "law.csv"
    assert len(pd.read_csv(path)) == 3
    (path,) = files.write_tables(tmp_path / "c.csv", xr.Dataset({"a": 1, "b": 0.5}))
    assert path.read_text(encoding="utf-8") == "a,b\n1,0.5\n"


def test_integers_that_netcdf_has_no_place_for_become_floats(tmp_path):
    files.write_dataset(tmp_path / "x.nc", xr.Dataset({"n": ("k", [1, 2**40])}, {"k": [2**31, 0]}))
    back = files.read_dataset(tmp_path / "x.nc")
    assert back["n"].values.tolist() == [1.0, 2.0**40]
    assert back["k"].values.tolist() == [2.0**31, 0.0]


NUMBERS = xr.Dataset({"x": ("k", np.arange(500.0))})
WRITERS = {
    "text": lambda path: files.write_text(path, "x" * 5000),
    "dataset": lambda path: files.write_dataset(path, NUMBERS),
    "arrays": lambda path: files.write_arrays(path, {"x": np.arange(500.0)}),
    "tables": lambda path: files.write_tables(path, NUMBERS),
}
everyone = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@everyone
def test_what_is_no_ordinary_file_is_refused_and_left(write, tmp_path):
    (tmp_path / "target").write_text("mine", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(tmp_path / "target")
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name, word in (("link", "link"), ("broken", "link"), ("folder", "folder"), ("pipe", "pipe")):
        path = tmp_path / f"{name}.csv"  # tables choose the end of their names
        before = os.lstat(path)
        message = f"`path` must be an ordinary file, or absent, .*{word}.*; got '.*'"
        with pytest.raises(ValueError, match=message):
            write(path)
        assert (os.lstat(path).st_ino, os.lstat(path).st_mode) == (before.st_ino, before.st_mode)
    assert (tmp_path / "target").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_name_of_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("", ".", "..", "no/such/folder/x", "x/", "a\0b", "x" * 5000):
        with pytest.raises(ValueError, match=r"`out` must be .*; got "):
            files.output_file(path, "out")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"`path` must be .*device.*; got '/dev/null'"):
        files.write_text("/dev/null", "x")
    assert files.output_file(tmp_path / "a" / "b" / "x", make_folder=True).parent.is_dir()


@everyone
def test_an_ordinary_file_is_replaced_and_keeps_ordinary_rights(write, tmp_path):
    (tmp_path / "x.csv").write_text("old", encoding="utf-8")
    write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes() != b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    (tmp_path / "y").touch()
    assert stat.S_IMODE(os.stat(tmp_path / "x.csv").st_mode) == stat.S_IMODE(os.stat(tmp_path / "y").st_mode)


@everyone
@pytest.mark.filterwarnings("error")
def test_a_full_disk_leaves_the_old_file_and_nothing_half_written(write, tmp_path):
    """A limit on the size of files stands for the disk: the same error at the same place."""
    path = tmp_path / "x.csv"
    path.write_text("old", encoding="utf-8")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"\[Errno 27\] File too large: '.*/x\.csv'$"):
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text(encoding="utf-8") == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["x.csv"]


def test_damaged_archives_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    files.write_arrays(path, {"a b": [1.0, 2.0], "text": "x"})
    assert files.read_arrays(path)["a b"].tolist() == [1.0, 2.0]
    # A method of compression that nobody knows made the reader of zip files raise NotImplementedError.
    header = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        entry = header.index(b"PK\x01\x02", file.start_dir)
    header[entry + 10 : entry + 12] = b"\x63\x00"
    for content in (b"", b"no archive", b"PK\x03\x04 cut", bytes(header)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"`path` must be a file of this kind; got '.*x\.npz'"):
            files.read_arrays(path, "a file of this kind")


def test_a_path_is_shortened_in_messages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = files.output_file, files.output_folder, files.read_dataset, files.read_arrays
    for path, call in product(("x" * 10**6, "x/" * 10**6 + "y", "\x1b" * 10**6, "a\udc80" * 10**5), calls):
        with pytest.raises(ValueError, match=r"` must be .*; got '") as caught:
            call(path)
        assert len(str(caught.value)) < 1000
        assert str(caught.value).isprintable()


def test_two_long_paths_are_compared_and_shortened(tmp_path):
    path = tmp_path.joinpath(*["x" * 200] * 10)
    with pytest.raises(ValueError, match="`out` must be another file than `model`; got '") as caught:
        files.refuse_same_file(path, {"model": path.parent / "." / path.name})
    assert len(str(caught.value)) < 1000
    files.refuse_same_file("x/" * 10**6, {"model": "x/" * 10**6})  # no file has such a name


def test_a_folder_is_filled_by_one_at_a_time(tmp_path):
    folder, rule = tmp_path / "new", "`out` must be a folder that no other run is writing to now; got"
    for name in ("a", "b"):  # it is free again
        with files.exclusive_folder(folder):
            with pytest.raises(ValueError, match=rule), files.exclusive_folder(folder):
                pass
            (folder / name).write_text(name, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {"a", "b", files.MARKER, files.LOCK}


def test_a_folder_that_is_not_empty_and_not_ours_is_refused_and_left(tmp_path):
    (tmp_path / "other").write_text("superposition", encoding="utf-8")
    for k, name in enumerate(("thesis.txt", ".hidden", "data", files.MARKER, f".x{files.PART}", "linked")):
        path = tmp_path / str(k) / name
        path.parent.mkdir()
        if name == "data":
            path.mkdir()
        elif name == "linked":  # a marker is an ordinary file
            path = path.with_name(files.MARKER)
            path.symlink_to(tmp_path / "other")
        else:
            path.write_text("mine", encoding="utf-8")
        message = rf"`folder` must be empty, or a folder that this.* holds '{path.name}'"
        with pytest.raises(ValueError, match=message), files.exclusive_folder(path.parent, "folder"):
            pass
        assert list(path.parent.iterdir()) == [path]
        assert path.is_dir() or path.read_text(encoding="utf-8") in ("mine", "superposition")
