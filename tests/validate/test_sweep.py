"""Sweeps: what is stored is what was returned, once, whatever was stopped, and however many processes ran."""

import errno
import itertools
import math
import pickle
import re
import shutil
import sys
from enum import Enum

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.storage import LocalStore

from superposition.solvers import rug
from superposition.validate import cli
from superposition.validate.cli.sweep import _format_cell
from superposition.validate.reference import files
from superposition.validate.runner import sweep
from superposition.validate.runner.sweep import points
from superposition.validate.runner.sweep.store import DONE, FAILED
from superposition.validate.runner.tasks import dask_pool

GRID = {"x": [0.5, 1.5], "k": [3, 1, 2, 7, 5]}
calls: list[tuple[float, int]] = []
stop_at: set[int] = set()
fail_at: set[int] = set()


class Colour(Enum):
    RED = "a colour"


def toy(x, k, scale=1.0):
    """Return arrays of all kinds; the module's sets make it stop or fail."""
    calls.append((x, k))
    if k in stop_at:
        raise KeyboardInterrupt
    if k in fail_at:
        raise ArithmeticError(f"`k` must be liked;\ngot {k}")
    return {"product": scale * x * k, "row": np.arange(3) * k, "text": f"k = {k}"}


def odd(x):
    """Return what is no array of numbers or text."""
    return {"status": Colour.RED, "none": None, "flag": x > 1, "left out": object(), "ragged": [[1], [1, 2]]}


def named(name):
    return {name: 1.0}


def grown(x, k):
    """Return arrays whose size depends on k."""
    return {"row": np.zeros(k), "same": x}


def labelled(x, k):
    """Return a dataset with labels, dimensions of length 1, and an attribute that no store should hold."""
    data = {"loss": (("one", "rank"), np.full((1, 2), x * k[0])), "k": ((), -1.0)}
    return xr.Dataset(data, {"one": k, "rank": [1, 2]}, {"wall_seconds": 3.0})


def many(x, k, seeds=0):
    """Return a dataset of as many models as there are entries."""
    calls.append((x, k))
    return xr.Dataset({"product": ("model", np.array(x) * np.array(k))})


@pytest.fixture(autouse=True)
def _fresh():
    for one in (calls, stop_at, fail_at):
        one.clear()


def swept(folder, work=toy, grid=GRID, **given):
    return sweep.run(work, grid, store=folder, **{"jobs": 0, "batch": 3, **given}).load()


def content(folder):
    """Return all files of a store but those that tell of the runs."""
    found = (path for path in folder.rglob("*") if path.is_file() and "provenance" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def written(folder):
    """Return what tells whether a file was written again: each is a new one under its name."""
    return {name: (folder / name).stat().st_ino for name in content(folder)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "store"
    swept(folder)
    return folder


def test_what_is_stored_is_what_was_returned(whole):
    ds = sweep.open(whole)
    assert ds.sizes == {"x": 2, "k": 5, "row_0": 3}
    for x, k in itertools.product(*GRID.values()):
        one = ds.sel(x=x, k=k)
        assert (float(one["product"]), one["row"].values.tolist()) == (x * k, [0, k, 2 * k])
        assert str(one["text"].values) == f"k = {k}"
    assert set(ds.data_vars) == {"product", "row", "text", "point_state", "point_error"}
    assert (ds["point_state"] == DONE).all()
    assert ds.attrs["work"].endswith("test_sweep:toy")
    files.write_dataset(whole.parent / "x.nc", ds.load())  # text as well


def test_members_of_enumerations_are_text_and_none_is_no_number(tmp_path):
    ds = swept(tmp_path, odd, {"x": [0.5, 1.5]})
    assert ds["status"].values.tolist() == ["RED", "RED"]
    assert ds["none"].isnull().all()
    assert ds["flag"].values.tolist() == [0.0, 1.0]
    assert set(ds.data_vars) == {"status", "none", "flag", "point_state", "point_error"}


def test_names_that_a_store_cannot_hold_are_failures(tmp_path):
    errors = swept(tmp_path, named, {"name": ["fine", "point_state", "a/b"]})["point_error"].values
    assert errors[0] == ""
    assert all("`work` must not return an array of this name" in error for error in errors[1:])


def test_what_was_stopped_goes_on_and_nothing_is_done_twice(whole, tmp_path):
    stop_at.add(2)
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "store")
    assert len(calls) == 3
    stop_at.clear()
    swept(tmp_path / "store")
    calls.clear()
    before = written(tmp_path / "store")
    swept(tmp_path / "store")
    assert calls == []
    assert written(tmp_path / "store") == before
    assert content(tmp_path / "store") == content(whole)


def test_what_others_keep_in_a_store_is_neither_read_nor_changed(whole, tmp_path):
    store = tmp_path / "store"
    stop_at.add(2)
    with pytest.raises(KeyboardInterrupt):
        swept(store)
    stop_at.clear()
    zarr.open_group(store, mode="a").create_array("theirs", shape=7, dtype="f8", dimension_names=["x"])
    for name in ("damaged/zarr.json", "damaged/product/zarr.json", "product/notes.txt", "a\nline.txt"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(b"\x82\xff")
    before = {name: one for name, one in content(store).items() if name not in content(whole)}
    assert len(before) == 5
    xr.testing.assert_identical(swept(store), sweep.open(whole).load())
    assert content(store) == content(whole) | before
    sent = pickle.loads(pickle.dumps(sweep.open(store)))  # as to another process
    xr.testing.assert_identical(sent.load(), sweep.open(whole).load())


def test_a_disk_that_is_full_at_any_write_spoils_nothing(tmp_path, monkeypatch):
    """Every write in turn is the first that fails; as after a kill, what follows it is missing."""
    few = {"grid": {"x": [0.5], "k": [1, 2]}, "keep": ["product"], "batch": 1, "progress": lambda line: None}
    write, left = LocalStore.set, math.inf

    async def limited(self, key, value, *given):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        await write(self, key, value, *given)

    monkeypatch.setattr(LocalStore, "set", limited)
    swept(tmp_path / "whole", **few)
    expected, count = content(tmp_path / "whole"), 0
    while left == math.inf or left < 0:
        left, folder = count, tmp_path / str(count)
        try:
            swept(folder, **few)
            break
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        left = math.inf
        kept = {name: one for name, one in content(folder).items() if name.startswith("point_state/c")}
        calls.clear()
        swept(folder, **few)
        assert len(calls) == 2 - len(kept)
        assert content(folder) == expected
        left, count = -1, count + 1
    assert count > 15


def test_what_failed_is_recorded_and_tried_again_on_request(whole, tmp_path):
    fail_at.update({3, 7})
    lines = []
    ds = swept(tmp_path / "tried", progress=lines.append)
    counts = [re.search(r"\d+ points.*", line)[0] for line in lines]
    # Two chunks, of k = 3, 1, 2 and of 7, 5, at each x.
    assert counts == 2 * ["3 points, 1 of them failed", "2 points, 1 of them failed"]
    assert (ds["point_state"].sel(k=[3, 7]) == FAILED).all()
    assert set(ds["point_error"].sel(k=7).values) == {"ArithmeticError: `k` must be liked; got 7"}
    assert ds["product"].isnull().sum() == 4
    fail_at.clear()
    calls.clear()
    swept(tmp_path / "tried")
    assert calls == []
    ds = swept(tmp_path / "tried", retry=True)
    assert sorted(calls) == [(0.5, 3), (0.5, 7), (1.5, 3), (1.5, 7)]
    xr.testing.assert_equal(ds, sweep.open(whole).load())
    swept(tmp_path / "other")
    assert content(tmp_path / "tried") == content(tmp_path / "other")


def test_the_first_point_of_the_grid_that_succeeds_says_which_arrays_there_are(tmp_path):
    fail_at.add(3)
    first, second = (swept(tmp_path / str(jobs), jobs=jobs) for jobs in (0, 2))
    assert (first["point_state"].sel(k=3) == FAILED).all()
    assert (second["point_state"] == DONE).all(), "fail_at is set in this process alone"
    assert set(first.data_vars) == set(second.data_vars)


def test_other_sizes_than_those_of_the_first_point_are_failures(tmp_path):
    ds = swept(tmp_path / "a", grown)
    assert (ds["point_state"].sel(k=3) == DONE).all()
    assert (ds["point_state"].sel(k=[1, 2, 7, 5]) == FAILED).all()
    said = "`row` must be as at the first point that succeeded; got dimensions ('row_0',), shape (7,)."
    assert str(ds["point_error"].sel(k=7, x=0.5).values) == f"ValueError: {said}"
    ds = swept(tmp_path / "b", grown, keep=["same"])
    assert (ds["same"] == ds["x"]).all()
    assert "row" not in ds


def test_a_dataset_keeps_its_labels(tmp_path):
    ds = swept(tmp_path, labelled, {"x": [0.5], "k": [[3], [1]]})
    assert ds["k"].values.tolist() == [3, 1]
    assert ds["rank"].values.tolist() == [1, 2]
    assert ds["loss"].dims == ("x", "k", "rank")
    assert ds["one"].values.tolist() == [[3, 1]]
    assert "wall_seconds" not in ds.attrs
    assert "wall_seconds" not in str(content(tmp_path))


def test_points_of_a_chunk_together(tmp_path):
    ds = swept(tmp_path, many, batch_dim="model", batch=4)
    assert (ds["product"] == ds["x"] * ds["k"]).all()
    assert calls == [([0.5] * 4, [3, 1, 2, 7]), ([0.5], [5]), ([1.5] * 4, [3, 1, 2, 7]), ([1.5], [5])]
    ds = swept(tmp_path / "other", many, batch_dim="run", batch=4)
    assert "`work` must return a dataset with 4 entries along run" in str(ds["point_error"].values[0, 0])


def test_a_store_at_a_url(whole):
    url = "memory://superposition-sweep"
    xr.testing.assert_equal(swept(url), sweep.open(whole).load())
    calls.clear()
    swept(url)
    assert calls == []


def test_a_store_of_other_settings_is_refused_and_the_difference_named(whole):
    before, rule = content(whole), "`store` must be empty, or hold .*the same settings; got .* with"
    for change, words in (
        ({"grid": {**GRID, "k": [3, 1]}}, r"k \[3, 1, 2, 7, 5\], not \[3, 1\]"),
        ({"grid": {"k": GRID["k"], "x": GRID["x"]}}, r"order \['x', 'k'\], not \['k', 'x'\]"),
        ({"settings": {"scale": 2.0}}, "scale None, not 2.0"),
        ({"keep": ["row"]}, r"keep \[\], not \['row'\]"),
        ({"batch": 2}, r"chunk \[1, 3\], not \[1, 2\]"),
        ({"work": many}, "work .*toy'?, not .*many"),
    ):
        with pytest.raises(ValueError, match=f"{rule} {words}"):
            swept(whole, **change)
    assert content(whole) == before


def test_what_is_no_sweep_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"`store` must be empty, or a folder that this .* holds 'mine.txt'"):
        swept(tmp_path)
    with pytest.raises(ValueError, match="`store` must be a Zarr store"):
        sweep.open(tmp_path / "nowhere")
    (tmp_path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "zarr.json"]
    files.write_marker(tmp_path)
    for act in (swept, sweep.open):
        with pytest.raises(ValueError, match=r"`store` must hold what is called 'superposition sweep"):
            act(tmp_path)


def test_bad_input_leaves_no_store(tmp_path):
    """Refusals in words are in `refusals.txt`."""
    for given in ({"work": "weather"}, {"grid": {}}, {"batch": 0}, {"grid": {"x": [1.0]}}):
        with pytest.raises(ValueError, match="must"):
            swept(tmp_path / "store", **given)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for ask in (lambda: swept(tmp_path / "store"), lambda: dask_pool("tcp://localhost:1")):
        with pytest.raises(ImportError, match=r"pip install -e '\.\[sweep\]' in the checkout"):
            ask()


def test_the_command_sweeps_and_goes_on(tmp_path, capsys):
    words = ["sweep", "solvers.rug.optimum", "p=[0.1,0.2]", "ratio=[0.5,2.0]", "--jobs", "0"]
    words += ["--keep", "loss", "--store", str(tmp_path / "store"), "--out", str(tmp_path / "x.nc")]
    for _ in range(2):
        assert cli.main(words) == 1
        captured = capsys.readouterr()
        assert "2 of 4 points failed, as point_error says" in captured.err
    ds = files.read_dataset(tmp_path / "x.nc")
    assert float(ds["loss"].sel(p=0.1, ratio=0.5)) == rug.optimum(0.1, 0.5).loss
    assert "chunk" not in captured.err  # all was there


def test_a_cell_has_the_range_of_an_array_or_its_first_words():
    for values, cell in (
        ([3.0, 1.0, 2.0], "1 to 3"), ([2.0, np.nan], "2, 1 nan"), ([np.nan], "nan"), ([], "none"),
        (["b", "a", "b", "c", "d"], "b, a, c, ..."),
    ):  # fmt: skip
        assert _format_cell(np.array(values)) == cell


def test_a_list_is_an_axis_also_for_arguments_that_are_lists(tmp_path, capsys):
    words = ["sweep", "collisions.fig3", "n_features=8", "runs=2", "lam=0.02"]
    store = ["--jobs", "0", "--store"]
    assert cli.main([*words, "n_hidden=[8,16]", *store, str(tmp_path / "a")]) == 0
    ds = sweep.open(tmp_path / "a")
    assert ds["n_hidden"].values.tolist() == [8, 16]
    # The list of one list is that list at all points, and keeps the labels of the experiment.
    assert cli.main([*words, "n_hidden=[[8,16]]", "scale=[1.0]", *store, str(tmp_path / "b")]) == 0
    both = sweep.open(tmp_path / "b")
    assert both["n_hidden"].values.tolist() == [8, 16]
    assert (both["polysemantic"].sel(scale=1.0) == ds["polysemantic"]).all()
    given = points.make_plan("relu.trained", {"cases": [[2, 1, 0.1], [3, 2, 0.5]]}, {}, (), None, None)
    assert given.axes["cases"] == [[[2, 1, 0.1]], [[3, 2, 0.5]]]


# --- Files that are damaged ---------------------------------------------------------------------------------


def various(x, k):
    """Return numbers, text and labels, or fail."""
    if k == 7:
        raise ArithmeticError(f"no {k}")
    data = {"loss": ((), x * k), "row": ("rank", x * np.arange(3.0)), "word": ((), f"k = {k}")}
    return xr.Dataset(data, {"rank": [1, 2, 4]})


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "store"
    swept(folder, various)
    return folder, sweep.open(folder).load()


def damage(path, how):
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :]
    path.write_bytes({"empty": b"", "cut": whole[:middle], "flip": flipped}[how])


def test_a_damaged_chunk_is_named_and_made_anew_once_it_is_removed(several, tmp_path):
    whole, expected = several
    chunks = "loss/c/0/0 row/c/1/1/0 word/c/0/1 point_state/c/1/0 point_error/c/1/1 rank/c/0"
    for k, chunk in enumerate(chunks.split()):
        folder = tmp_path / str(k)
        shutil.copytree(whole, folder)
        damage(folder / chunk, ("empty", "cut", "flip")[k % 3])
        before = content(folder)
        for act in (sweep.open, lambda place: swept(place, various)):
            with pytest.raises(ValueError, match=f"`store` must be .*remove its damaged chunk {chunk}, "):
                act(folder)
        assert content(folder) == before
        (folder / chunk).unlink()
        assert (sweep.open(folder)["point_state"].values[0, :3] == 0).all() == (chunk == "loss/c/0/0")
        xr.testing.assert_identical(swept(folder, various), expected)
        assert content(folder) == content(whole)


def test_damaged_metadata_are_refused(several, tmp_path):
    names = ("zarr.json", "loss/zarr.json", "point_state/zarr.json")
    for name, how in itertools.product(names, ("empty", "cut", "delete")):
        store = tmp_path / name.replace("/", "-") / how / "store"
        shutil.copytree(several[0], store)
        (store / name).unlink() if how == "delete" else damage(store / name, how)
        for act in (sweep.open, lambda place: swept(place, various)):
            with pytest.raises(ValueError, match=r"`store` must .*; got '/"):
                act(store)


@pytest.mark.slow
def test_a_cluster_gives_the_same_numbers(tmp_path):
    from distributed import LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "resources": {"GPU": 1}, "dashboard_address": None}
    given = {"grid": {"p": [0.05, 0.1, 0.2], "ratio": [0.25, 0.5]}, "keep": ["loss", "a"], "batch": None}
    here = swept(tmp_path / "here", "solvers.rug.optimum", **given)
    with LocalCluster(**options) as cluster:
        there = tmp_path / "there"
        swept(there, "solvers.rug.optimum", **given, scheduler=cluster.scheduler_address, gpu=True)
    xr.testing.assert_identical(sweep.open(there).load(), here)
