"""Files of solved models: what is written comes back, and what is broken is refused."""

import os
import stat
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from superposition.solvers.minimise import minimise
from superposition.solvers.relu import Certificate, solve_pair
from superposition.theory.features import Features
from superposition.validate.models import SmallModel, load_models, save_models, small_model

PAIR = SmallModel(
    W=np.array([[1.0], [-1.0]]),
    b=np.zeros(2),
    importance=np.array([1.0, 0.5]),
    p=0.1,
    loss=0.75 * 0.01 / 6,
    certificate=Certificate("branch and bound", 0.75 * 0.01 / 6 - 1e-5, 1e-5, 321),
)
ALONE = SmallModel(
    W=np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
    b=np.array([0.0, 0.0, 0.25]),
    importance=np.ones(3),
    p=0.5,
    loss=(0.5 / 3 - 0.25 / 4) / 3,
    certificate=Certificate("many starts", 0.0, (0.5 / 3 - 0.25 / 4) / 3, 20),
)


def edited(path, **changes):
    """Rewrite a file with some arrays replaced, or dropped where None."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "models.npz"
    save_models(target, [PAIR, ALONE])
    return target


def test_models_come_back(path):
    for model, loaded in zip([PAIR, ALONE], load_models(path), strict=True):
        np.testing.assert_array_equal(loaded.W, model.W)
        np.testing.assert_array_equal(loaded.b, model.b)
        np.testing.assert_array_equal(loaded.importance, model.importance)
        assert (loaded.p, loaded.loss, loaded.certificate) == (model.p, model.loss, model.certificate)


def test_minima_become_models(tmp_path):
    law = Features(2, 0.1, importance=[1.0, 0.5])
    models = [
        small_model(solve_pair(0.1, 0.5, gap=0.1), law),
        small_model(minimise(3, 2, 0.3, starts=2), 0.3),
    ]
    save_models(tmp_path / "models.npz", models)
    assert load_models(tmp_path / "models.npz") == models
    assert [model.certificate.kind for model in models] == ["branch and bound", "many starts"]


def test_only_what_the_file_has_a_place_for_becomes_a_model():
    found = minimise(2, 1, 0.1, starts=1)
    with pytest.raises(ValueError, match=r"`law` must be of independent features .* alike; got Features"):
        small_model(found, Features(2, [0.1, 0.2]))
    with pytest.raises(ValueError, match=r"`found` must be tied"):
        small_model(minimise(2, 1, 0.1, tied=False, starts=1), 0.1)


def test_no_models(tmp_path):
    save_models(str(tmp_path / "empty"), [])
    assert load_models(tmp_path / "empty") == []
    assert [file.name for file in tmp_path.iterdir()] == ["empty"]


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    def broken(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(OSError, match="disk full"):
        save_models(path, [PAIR])
    monkeypatch.undo()
    assert len(load_models(path)) == 2
    assert [file.name for file in path.parent.iterdir()] == ["models.npz"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_the_umask_decides_who_may_read(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        save_models(tmp_path / "models.npz", [PAIR])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "models.npz").stat().st_mode) == mode


def test_a_damaged_header_is_refused(path):
    """A method of compression that nobody knows made the reader of zip files raise NotImplementedError."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        start = file.getinfo("p.npy").header_offset
        entry = data.index(b"PK\x01\x02", file.start_dir)
    assert data[start : start + 4] == b"PK\x03\x04"
    data[entry + 10 : entry + 12] = b"\x63\x00"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"`path` must be a file of small models; got '.*models.npz'"):
        load_models(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": 0.5}, r"`models\[0\]\.loss` must be the exact loss 0\.00125.*; got 0\.5\."),
        ({"b": np.zeros(3)}, r"`models\[0\]\.b` must have shape \(2\); got \(3,\)\."),
        ({"W": np.zeros(2)}, r"`models\[0\]\.W` must have shape \(any, any\); got \(2,\)\."),
        (
            {"importance": np.array([1.0, -1.0])},
            r"`models\[0\]\.importance` must lie in \[0, inf\); got -1\.",
        ),
        ({"p": 0.0}, r"`models\[0\]\.p` must lie in \(0, 1\]; got 0\."),
        ({"loss": -1.0}, r"`models\[0\]\.loss` must lie in \[0, inf\); got -1\."),
        (
            {"certificate": Certificate("many starts", 0.0, 0.1, 1)},
            r"certificate\.gap` must be .*; got 0\.1\.",
        ),
        ({"certificate": Certificate("many starts", -1.0, 0.1, 1)}, r"lower_bound` must lie .*; got -1\."),
        ({"certificate": Certificate("many starts", 0.0, -0.1, 1)}, r"\.gap` must lie .*; got -0\.1\."),
        ({"certificate": Certificate("many starts", 0.0, 0.1, -1)}, r"\.work` must be .*; got -1\."),
        ({"certificate": Certificate(3, 0.0, 0.1, 1)}, r"\.kind` must be text; got 3\."),
    ],
)
def test_broken_models_are_not_written(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        save_models(tmp_path / "models.npz", [replace(PAIR, **changes)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": np.array([0.00125, 0.2])}, r"`models\[1\]\.loss` must be the exact loss .*; got 0\.2\."),
        ({"W_1": None}, r"`path` must hold 2 models; .*models\.npz' lacks W_1\."),
        ({"p": None}, r"`path` must be a file of small models; .* lacks p\."),
        (
            {"format": np.array("else")},
            r"`path` must have the format 'superposition small models 1'; got 'else'\.",
        ),
        ({"loss": np.zeros(3)}, r"`loss` in the file must have shape \(2,\); got \(3,\)\."),
        ({"W_0": np.array([["a"], ["b"]])}, r"`W_0` must be real numbers; got"),
        ({"b_0": np.array([np.nan, 0])}, r"`b_0` must be finite; got nan at index \(0,\)\."),
        ({"p": np.array(0.1)}, r"`p` in the file must have shape \(any,\); got \(\)\."),
    ],
)
def test_broken_files_are_refused(path, changes, message):
    edited(path, **changes)
    with pytest.raises(ValueError, match=message):
        load_models(path)


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text"
    text.write_text("no models here")
    with pytest.raises(ValueError, match=r"`path` must be a file of small models; got '.*text'"):
        load_models(text)
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"`path` must be a file of small models; got '.*single.npy'"):
        load_models(tmp_path / "single.npy")
    np.savez(tmp_path / "pickle.npz", format=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"`path` must be a file of small models; got '.*pickle.npz'"):
        load_models(tmp_path / "pickle.npz")
    with pytest.raises(FileNotFoundError):
        load_models(tmp_path / "nowhere.npz")
