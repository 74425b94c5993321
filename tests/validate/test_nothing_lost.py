"""Every command that writes: files of somebody else in its folder, inputs as outputs."""

import re
from pathlib import Path

import numpy as np
import pytest

from superposition.validate import cli
from superposition.validate.audit import audit
from superposition.validate.experiments import atlas
from superposition.validate.reference import files

GRID = "theory.rug.sigma p=[0.1,0.2] ratio=[0.1,1]"
TINY = "n_features=4 p=[0.1] ratio=[0.5] seeds=[0] steps=100 evaluation_samples=64 schedule=converged"
# A command line for each option that names an output, with {} for the folder.
FILLED = {
    ("report", "--out"): "report --only sparsification --jobs 1 --out {}",
    ("gallery", "--out"): "gallery --only linear --out {}",
    ("gallery", "--data"): "gallery --only sparsification --out {}/g --data {}",
    ("claims", "--data"): "claims --run --id E4 --data {}",
    ("run", "--out"): f"run rug_n128 --device cpu --out {{}} --set {TINY}",
    ("atlas", "--make"): "atlas --make {} --starts 0",
    ("sweep", "--store"): f"sweep {GRID} --jobs 1 --store {{}}/s.zarr",
    ("sweep", "--out"): f"sweep {GRID} --jobs 1 --store {{}}/s.zarr --out {{}}/s.nc",
    ("atlas", "--out"): "atlas n5-m2-p0.1-equal-tied --out {}/a.npz",
    ("best", "--out"): "best --n-features 3 --p 0.1 --n-hidden 2 --starts 2 --out {}/b.npz",
    ("best", "--plot"): "best --n-features 3 --p 0.1 --n-hidden 2 --starts 2 --plot {}/b.png",
    ("how-many", "--plot"): "how-many --p 0.1 --n-hidden 3 --relative 0.5 --plot {}/h.png",
    ("loss", "--plot"): "loss {}/model.npz --p 0.1 --plot {}/l.png",
    ("phases", "--plot"): "phases --grid sparsity=[0.5,0.9] importance=[0.5,1] --plot {}/p.png",
    ("predict law", "--plot"): "predict law --n-features 8 --p 0.1 --n-hidden 2 4 --plot {}/p.png",
    ("sae", "--plot"): "sae {}/sae.npz --p 0.1 --plot {}/f.png",
    ("ceiling", "--plot"): "ceiling {}/phi.npz --p 0.1 --samples 200 --plot {}/c.png",
    ("plot", "--out"): "plot {}/model.npz --out {}/m.png",
    ("audit", "--html"): "audit {}/model.npz --p 0.1 --starts 2 --html {}/a.html",
    ("interface", "--out"): "interface --out {}/llms.txt",
}
# The file that these name is read.
INPUTS = [("best", "--names"), ("sae", "--dictionary"), ("sae", "--target"), ("ceiling", "--draws")]
INPUTS += [(command, option) for command in ("audit", "loss") for option in ("--coefficients", "--mixing")]
LONG = [("gallery", "--data"), ("gallery", "--out"), ("report", "--out")]  # half a minute and more
ENDLESS = {("atlas", "--make")}  # an hour: what a stopped one ends at is seen in its own tests
NAMES = ["data/{}.nc", "parts/{}.json", "rug/{}.svg", "{}.partial", ".{}.superposition-part", "{}.npz", "{}"]
# In folders and with names that a command has after it ran.
INSIDE = [
    "data/sparsification-fig2-{}.nc", "parts/claim-L{}.json", "sparsification/{}.svg", "report-{}.html",
    "report-sparsification/{}.csv", "g/{}.svg", "s.zarr/value/{}.partial", "s.zarr/value/c/{}", "s.zarr/{}",
    "n2-m1-p0.01-equal-tied.0.npz.{}", "data/training-rug_n128-0.checkpoint.npz.{}", "t.npz.{}", ".lock-{}",
]  # fmt: skip


def test_each_option_that_names_an_output_is_tried(commands):
    """Options of the program that name a place to write to, by its help."""
    outputs = [
        (command, option.option_strings[-1])
        for command, parser in commands.items()
        for option in parser._actions
        if option.option_strings and option.metavar in ("FILE", "FOLDER")
    ]
    assert sorted([*FILLED, *INPUTS]) == sorted(outputs)


def planted(folder, seed, names=NAMES):
    """Put twenty files of somebody else, and models, into a folder, and return what is in it."""
    rng = np.random.default_rng(seed)
    for k in range(20):
        path = folder / str(rng.choice(names)).format(f"{k}-{rng.integers(1000)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.bytes(int(rng.integers(200))))
    modelled(folder)
    return seen(folder)


def modelled(folder):
    eye, zero = np.eye(2), np.zeros(2)
    np.savez(folder / "model.npz", W_out=eye, W_in=eye, b=zero)
    np.savez(folder / "sae.npz", W_enc=eye, W_dec=eye, b_enc=zero, b_dec=zero)
    np.savez(folder / "phi.npz", phi=eye)


def seen(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unchanged(before, folder):
    return before.items() <= seen(folder).items()


def words(key, folder):
    return [word.replace("{}", str(folder)) for word in FILLED[key].split()]


# Options that name a folder which the command fills: one that is not empty and has no marker is refused.
FOLDERS = {("report", "--out"), ("gallery", "--out"), ("gallery", "--data"), ("claims", "--data")}
FOLDERS |= {("run", "--out"), ("atlas", "--make"), ("sweep", "--store")}


@pytest.mark.parametrize("key", FILLED)
def test_files_of_somebody_else_stay_as_they_are(key, tmp_path, capsys):
    if key[0] == "run":
        pytest.importorskip("torch")
    if key == ("sweep", "--store"):
        planted(tmp_path / "s.zarr", 1)
    before = planted(tmp_path, 1)
    here = ["--jobs", "0"] if key[0] == "sweep" else []  # in this process
    for _ in range(2):
        status = cli.main([*words(key, tmp_path), *here])
        assert unchanged(before, tmp_path)
        assert status == (2 if key in FOLDERS else 0), capsys.readouterr().err
        if key in FOLDERS:
            rule = r"must be empty, or a folder that this program fills .*; got '.*', which holds '"
            assert re.search(rule, capsys.readouterr().err)
            assert seen(tmp_path) == before


# With files of somebody else in a folder of ours, of which the names are others than those that we write.
@pytest.mark.parametrize(
    "key",
    [pytest.param(key, marks=pytest.mark.slow if key in LONG else ()) for key in sorted(FOLDERS - ENDLESS)],
)
def test_files_of_somebody_else_stay_in_a_folder_of_ours(key, tmp_path, capsys):
    if key[0] == "run":
        pytest.importorskip("torch")
    given = words(key, tmp_path) + (["--jobs", "0"] if key[0] == "sweep" else [])
    modelled(tmp_path)
    for folder in (tmp_path, tmp_path / "g", tmp_path / "s.zarr"):
        folder.mkdir(exist_ok=True)
        files.write_marker(folder)
    before = planted(tmp_path, 2, INSIDE)
    for _ in range(2):
        assert cli.main(given) == 0, capsys.readouterr().err
        assert unchanged(before, tmp_path)


def test_no_output_replaces_an_input(tmp_path, capsys):
    modelled(tmp_path)
    model, soft, hard = tmp_path / "model.npz", tmp_path / "soft.html", tmp_path / "hard.html"
    soft.symlink_to(model)
    hard.hardlink_to(model)
    before = seen(tmp_path)
    for page in (model, soft, hard, tmp_path / "." / ".." / tmp_path.name / "model.npz"):
        assert cli.main(["audit", str(model), "--p", "0.1", "--html", str(page)]) == 2
        assert "`html` must be " in capsys.readouterr().err
        assert seen(tmp_path) == before
    assert soft.is_symlink()
    words = f"run rug_n128 --out {tmp_path} --set checkpoint={tmp_path}/./rug_n128.nc"
    assert cli.main(words.split()) == 2
    assert "`out` must be another file than `checkpoint`; got" in capsys.readouterr().err
    words = f"sweep theory.rug.sigma p=[0.1] ratio=1 --store {tmp_path}/s --out {tmp_path}/s/value/x.nc"
    assert cli.main(words.split()) == 2
    assert "`out` must be a file outside of `store`; got" in capsys.readouterr().err
    assert seen(tmp_path) == before


def test_a_model_of_the_atlas_does_not_replace_the_atlas(tmp_path, monkeypatch):
    monkeypatch.setattr(atlas.store, "REFERENCE", tmp_path)
    path = tmp_path / "atlas.safetensors"
    path.write_bytes(b"all models")
    with pytest.raises(ValueError, match=r"`path` must be another file than `atlas`; got '.*safeten"):
        atlas.export("n2-m1-p0.1-equal-tied", path=path)
    assert path.read_bytes() == b"all models"


def test_a_page_replaces_pages_alone(tmp_path):
    found = audit({"W": np.array([[1.0], [-1.0]]), "b": np.zeros(2)}, 0.1, starts=2)
    target = tmp_path / "thesis.tex"
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`path` must be absent or a page.*got .*thesis.tex"):
        found.write_page(target)
    assert target.read_text(encoding="utf-8") == "mine"
    page = found.write_page(tmp_path / "page.html")
    assert found.write_page(page) == Path(page)
