"""The nine tasks of the first page of the documentation: each block runs as printed, and answers."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

import superposition as sp
from superposition.validate.api.predict import LOWER_BOUND
from superposition.validate.runner import sweep

from .test_printed import PYTHON

pytestmark = [pytest.mark.printed, pytest.mark.usefixtures("found_once")]
NAMES = ("should reach", "trained", "diagram", "geometry", "pairs", "widths", "sweep", "decoders", "paper")
_, *BLOCKS = (block for name, block in PYTHON.items() if name.startswith("start.rst"))
TASKS = dict(zip(NAMES, BLOCKS, strict=True))


@pytest.fixture
def done(tmp_path, monkeypatch, capsys):
    """Give a function that runs a block in an empty folder, and returns its names and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name):
        names = {"__name__": "__main__"}
        exec(compile(TASKS[name], name, "exec"), names)
        return names, capsys.readouterr().out

    yield run
    plt.close("all")


def _figure(path):
    assert np.ptp(plt.imread(path)[..., :3]) == 1.0
    return plt.gcf().axes[0]


def test_what_a_model_should_reach(done):
    names, printed = done("should reach")
    best = names["best"]
    assert str(best) + "\n" == printed
    assert best.loss < sp.predict(names["law"], 3).to_frame().query("kind == 'attained'")["loss"].min()
    assert best.loss == pytest.approx(sp.loss(best.model, names["law"]).loss, rel=1e-9)
    assert 0.0 < best.lower_bound < best.loss


def test_whether_a_module_is_trained(done):
    torch = pytest.importorskip("torch", reason="modules are PyTorch's")
    torch.manual_seed(0)
    _, printed = done("trained")
    assert re.match(r"Train on|Train again|Output \d is dead|Kick the weights", printed)


def test_the_diagram(done):
    names, _ = done("diagram")
    ax = _figure("phases.png")
    assert {text.get_text() for text in ax.texts} == {"antipodal", "first alone", "second alone"}
    data = names["found"].to_dataset()
    # Elhage et al.: superposition where features are rare and matter alike, none where they are dense.
    assert data["geometry"].sel(sparsity=0.95, importance=1.0, method="nearest").item() == "antipodal"
    dense = data["geometry"].sel(sparsity=0.0)
    assert (dense[0].item(), dense[-1].item()) == ("first alone", "second alone")


def test_five_features_on_two_neurons(done):
    names, _ = done("geometry")
    ax = _figure("line.png")
    data = names["found"].to_dataset()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), data["loss"])
    assert data["geometry"].sel(p=0.05).item() == "pentagon 0-1-2-3-4"
    for k in (0, 4, 8):
        one = data.isel(p=k)
        loss = sp.loss((one["W"].values, one["b"].values), float(one["p"])).loss
        assert loss == pytest.approx(float(one["loss"]))


def test_pairs(done):
    _, printed = done("pairs")
    losses = [float(one) for one in re.findall(r"^loss per feature +(\S+)", printed, re.M)]
    assert len(losses) == 2
    # A pair that excludes itself shares a neuron for nothing.
    assert losses[1] == pytest.approx(0.0, abs=1e-12)
    assert losses[0] < sp.best(sp.Features(4, 0.1), 2).loss


def _shorter(block, changes):
    """Return a block with less to compute, for the ordinary suite."""
    for printed, less in changes.items():
        assert block.count(printed) == 1
        block = block.replace(printed, less)
    return block


WIDTHS = {"5000": "500", "[8, 16, 32, 64, 128, 256, 512]": "[8, 32, 128]"}


@pytest.mark.parametrize("changes", [WIDTHS, pytest.param({}, marks=pytest.mark.slow, id="as printed")])
def test_loss_against_width(done, changes, monkeypatch):
    """Three widths of 500 features, as on the page on widths; seven of 5000 in the slow suite."""
    monkeypatch.setitem(TASKS, "widths", _shorter(TASKS["widths"], changes))
    names, _ = done("widths")
    ax = _figure("widths.png")
    (mine,) = [line for line in ax.lines if line.get_label() == "yours"]
    frame = names["found"].to_frame()
    assert frame["n_hidden"].nunique() == (3 if changes else 7)
    lower_bound = frame[frame["kind"] == LOWER_BOUND].set_index("n_hidden")["loss"]
    assert np.all(np.diff(lower_bound) < 0.0)
    for m, loss in zip([8, 32, 128], mine.get_ydata(), strict=True):
        assert lower_bound[m] < loss


def test_a_sweep_lies_above_its_bound(done, monkeypatch):
    pytest.importorskip("zarr", reason="stores are Zarr's")
    monkeypatch.setattr(sweep.running, "available_cores", lambda: 0)  # in this process
    monkeypatch.setitem(TASKS, "sweep", _shorter(TASKS["sweep"], {"1.0, 1.5, 2.0": "1.0"}))
    data = done("sweep")[0]["found"].to_dataset()
    _figure("alpha.png")
    assert (data["point_state"] == 1).all()
    assert ((data["bound"] > 0.0) & (data["bound"] <= data["loss"])).all()


def test_decoders_and_errors_of_a_paper(done):
    assert str(sp.predict("decoders", p=0.05, ratio=0.25)) + "\n" == done("decoders")[1]
    words, rows = " ".join(done("paper")[1].split()), sp.claims("cowsik2024", wrong=True).rows
    assert all(" ".join(f"{row['id']} {row['where']}: {row['statement']}".split()) in words for row in rows)
    assert len(rows) > 5
