"""The gallery: a small, repeatable picture for each phenomenon."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr

from superposition.validate import cli, gallery, report, stored
from superposition.validate.experiment import Figure

LIMIT = 160_000
FAST = ("rug", "codes", "collisions", "noise")


def plain(ds, ax):
    ax.plot(ds["x"], ds["x"] ** 2)
    return ax


@pytest.fixture
def toy(monkeypatch):
    """Stand-ins that tell their seed: what the command does around the pictures."""

    def made(seed):
        return Figure("toy", f"seed {seed}", "", xr.Dataset({"x": ("k", np.arange(4.0) + seed)}), plain)

    monkeypatch.setattr(gallery, "GALLERY", {"one": made, "two": made})


def test_every_phenomenon_has_a_picture():
    assert set(gallery.GALLERY) == set(report.PHENOMENA)


@pytest.mark.parametrize("name", FAST)
def test_pictures_are_small_and_stand_on_white(name, tmp_path):
    (path,) = gallery.write_gallery(tmp_path, [name])
    assert path == tmp_path / f"{name}.svg"
    assert path.stat().st_size < LIMIT
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).get("aria-label")
    assert not re.search(r'\s(?:d|x|y)="[^"]*\.\d{3}', text)  # digits that nobody sees
    # An opaque ground keeps black letters legible where pages are dark.
    assert re.search(r'id="patch_1"><path[^>]*fill: #ffffff', text)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(report.PHENOMENA) - set(FAST)))
def test_so_are_those_that_are_run(name, tmp_path):
    test_pictures_are_small_and_stand_on_white(name, tmp_path)


@pytest.mark.parametrize("name", ["collisions", pytest.param("linear", marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_bytes(name, tmp_path):
    first, second = (gallery.write_gallery(tmp_path / part, [name], 1)[0] for part in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_means_over_seeds():
    values = np.array([[1.0, 2.0, 5.0, 9.0], [3.0, 5.0, 7.0, 11.0]])
    ds = xr.Dataset(
        {
            "trained": (("end", "model"), values),
            "n_features": ("model", [8, 4, 4, 8]),
            "model_p": ("model", [0.1, 0.1, 0.1, 0.1]),
            "model_ratio": ("model", [0.5, 0.25, 0.25, 0.5]),
            "line": ("p", [1.0, 2.0]),
        }
    )
    found = gallery.over_seeds(ds)
    np.testing.assert_allclose(found["trained"], [[3.5, 5.0], [6.0, 7.0]])
    # Student's interval of two runs: half a difference, times 12.7.
    np.testing.assert_allclose(found["trained_half"], 12.7062 * np.array([[1.5, 4.0], [1.0, 4.0]]), rtol=1e-5)
    assert found["n_features"].values.tolist() == [4, 8]
    assert found["model_ratio"].values.tolist() == [0.25, 0.5]
    xr.testing.assert_identical(found["line"], ds["line"])


def test_the_command_writes_what_is_asked_for(toy, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert cli.main(["gallery", "--out", str(out), "--only", "two", "--seed", "3"]) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == [str(out / "two.svg")]
    assert captured.err == "gallery: two\n"
    assert [path.name for path in out.iterdir()] == ["two.svg"]
    assert 'aria-label="seed 3"' in (out / "two.svg").read_text(encoding="utf-8")
    assert cli.main(["gallery", "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["one.svg", "two.svg"]


def test_a_picture_that_fails_leaves_the_old_one(toy, tmp_path, monkeypatch):
    (path,) = gallery.write_gallery(tmp_path, ["one"])
    before = path.read_bytes()
    monkeypatch.setitem(gallery.GALLERY, "one", lambda seed: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gallery.write_gallery(tmp_path, ["one"])
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["one.svg"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "{}/x", "--only", "weather"], "`only`.*'one', 'two'; got 'weather'"),
        (["--out", "{}/x", "--seed", "-1"], "`seed`.*got -1"),
        (["--out", "{}/file"], "`out`.*file"),
    ],
)
def test_a_complaint_is_one_line(toy, tmp_path, capsys, words, message):
    (tmp_path / "file").touch()
    assert cli.main(["gallery", *(word.format(tmp_path) for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert re.search(message, captured.err)


def test_a_missing_reference_run_is_made(tmp_path, monkeypatch):
    made = xr.Dataset({"x": ("k", [1.0])})
    monkeypatch.setattr(stored, "REFERENCE", tmp_path)
    assert stored.stored("no.nc", lambda: made) is made
    (tmp_path / "bad.nc").write_text("no netCDF")
    with pytest.raises(ValueError, match=r"`path`.*bad\.nc"):
        stored.stored("bad.nc", lambda: made)
