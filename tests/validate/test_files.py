"""Files: tables that are tidy, complete and exact; one writer that replaces whole files and nothing else."""

import os
import resource
import stat
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from superposition.validate.reference import files


@pytest.fixture
def dataset():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "loss": (("p", "run"), rng.random((3, 2))),
            "error": (("run", "p"), rng.random((2, 3))),
            "law": ("p", rng.random(3)),
            "constant": ((), 0.1 + 0.2),
        },
        {"p": [0.1, 0.2, 0.3], "label": ("p", ["a, b", "c", "d"])},
    )


def test_what_a_killed_process_left_half_written_is_never_the_file(tmp_path):
    code = (
        "import os, sys\nfrom superposition.validate.reference import files\n"
        "with files.atomic_write(sys.argv[1]) as part:\n    part.write_text('half')\n    os._exit(9)"
    )
    path = tmp_path / "page.html"
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    assert files._PART.fullmatch(left.name)
    with files.atomic_write(path) as part:
        part.write_text("first")
        files.write_text(path, "at the same time")
    assert sorted(tmp_path.iterdir()) == sorted([left, path])
    assert path.read_text() == "first"


def test_one_table_for_each_set_of_dimensions(dataset, tmp_path):
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


def test_a_single_table_has_the_plain_name(dataset, tmp_path):
    (path,) = files.write_tables(tmp_path / "law.csv", dataset[["law", "constant"]])
    assert path == tmp_path / "law.csv"
    assert len(pd.read_csv(path)) == 3


def test_constants_alone_are_one_row(tmp_path):
    (path,) = files.write_tables(tmp_path / "c.csv", xr.Dataset({"a": 1, "b": 0.5}))
    assert path.read_text(encoding="utf-8") == "a,b\n1,0.5\n"


# --- One writer ---------------------------------------------------------------------------------------------


WRITERS = {
    "text": lambda path: files.write_text(path, "x" * 5000),
    "dataset": lambda path: files.write_dataset(path, xr.Dataset({"x": ("k", np.arange(500.0))})),
    "arrays": lambda path: files.write_arrays(path, {"x": np.arange(500.0)}),
    "tables": lambda path: files.write_tables(path, xr.Dataset({"x": ("k", np.arange(500.0))})),
}
everyone = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def in_the_way(folder):
    """Make what is no ordinary file; return the path of each with its name."""
    (folder / "target").write_text("mine", encoding="utf-8")
    (folder / "link").symlink_to(folder / "target")
    (folder / "broken").symlink_to(folder / "nowhere")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return {
        folder / "link": "link",
        folder / "broken": "link",
        folder / "folder": "folder",
        folder / "pipe": "pipe",
    }


@everyone
def test_what_is_no_ordinary_file_is_refused_and_left(write, tmp_path):
    for obstacle, word in in_the_way(tmp_path).items():
        path = obstacle.rename(obstacle.with_suffix(".csv"))  # tables choose the end of their names
        before = os.lstat(path)
        with pytest.raises(
            ValueError, match=f"`path` must be an ordinary file, or absent, .*{word}.*; got '.*'"
        ):
            write(path)
        assert os.lstat(path).st_ino == before.st_ino
        assert os.lstat(path).st_mode == before.st_mode
    assert (tmp_path / "target").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(ValueError, match=r"`path` must be .*device.*; got '/dev/null'"):
        files.write_text("/dev/null", "x")


@pytest.mark.parametrize("path", ["", ".", "..", "no/such/folder/x", "x/", "a\0b", "x" * 5000])
def test_what_is_no_name_of_a_file_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"`out` must be .*; got "):
        files.output_file(path, "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_where_asked_to(tmp_path):
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
        with pytest.raises(OSError, match=r"File too large|No space"):
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text(encoding="utf-8") == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_damaged_archives_are_refused(content, tmp_path):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"`path` must be a file of this kind; got '.*x\.npz'"):
        files.read_arrays(tmp_path / "x.npz", "a file of this kind")
    files.write_arrays(tmp_path / "y.npz", {"a b": [1.0, 2.0], "text": "x"})
    assert files.read_arrays(tmp_path / "y.npz")["a b"].tolist() == [1.0, 2.0]


def test_a_damaged_header_is_refused(tmp_path):
    """A method of compression that nobody knows made the reader of zip files raise NotImplementedError."""
    path = tmp_path / "x.npz"
    files.write_arrays(path, {"p": [0.1]})
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        entry = data.index(b"PK\x01\x02", file.start_dir)
    data[entry + 10 : entry + 12] = b"\x63\x00"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"`path` must be a whole file .*; got '.*x\.npz'"):
        files.read_arrays(path)


@everyone
def test_a_full_disk_names_the_file(write, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"\[Errno 27\] File too large: '.*/x\.csv'$"):
            write(tmp_path / "x.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("path", ["x" * 10**6, "x/" * 10**6 + "y", "\x1b" * 10**6, "a\udc80" * 10**5])
@pytest.mark.parametrize(
    "call", [files.output_file, files.output_folder, files.read_dataset, files.read_arrays]
)
def test_a_path_is_shortened_in_messages(call, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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


# --- Folders that commands fill -----------------------------------------------------------------------------


def test_a_folder_is_filled_by_one_at_a_time(tmp_path):
    rule = "`out` must be a folder that no other run is writing to now; got"
    for _ in range(2):  # it is free again
        with (
            files.exclusive_folder(tmp_path / "new"),
            pytest.raises(ValueError, match=rule),
            files.exclusive_folder(tmp_path / "new"),
        ):
            pass
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [files.MARKER, files.LOCK]


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden", "data", files.MARKER, f".x{files.PART}"])
def test_a_folder_that_is_not_empty_and_not_ours_is_refused_and_left(name, tmp_path):
    if name == "data":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("mine", encoding="utf-8")
    with (
        pytest.raises(ValueError, match=rf"`folder` must be empty, or a folder that this.* holds '{name}'"),
        files.exclusive_folder(tmp_path, "folder"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert name == "data" or (tmp_path / name).read_text(encoding="utf-8") == "mine"


def test_a_folder_is_ours_whatever_lies_beside_the_marker(tmp_path):
    (tmp_path / f".{'0' * 16}{files.PART}").touch()  # as if a kill had come before the marker was there
    (tmp_path / files.LOCK).touch()
    for name in ("a", "b"):
        with files.exclusive_folder(tmp_path):
            (tmp_path / name).write_text(name, encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} > {"a", "b", files.MARKER}


def test_a_marker_is_an_ordinary_file(tmp_path):
    (tmp_path / "other").write_text("superposition", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / files.MARKER).symlink_to(tmp_path / "other")
    with (
        pytest.raises(ValueError, match="`out` must be empty, or a folder that this"),
        files.exclusive_folder(tmp_path / "folder"),
    ):
        pass
