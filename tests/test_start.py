"""Tasks of the first page of the documentation whose answers are compared, or that are run shortened."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

import superposition as sp
from superposition.validate.api.predict import LOWER_BOUND
from superposition.validate.runner import sweep

from .test_printed import ELSEWHERE, PYTHON

pytestmark = [pytest.mark.printed, pytest.mark.usefixtures("found_once")]
TASKS = {name: PYTHON[f"start.rst {k}"] for name, k in ELSEWHERE.items()}


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


def test_the_diagram(done):
    names, _ = done("diagram")
    ax = _figure("phases.png")
    assert {text.get_text() for text in ax.texts} == {"antipodal", "first alone", "second alone"}
    data = names["found"].to_dataset()
    # Elhage et al.: superposition where features are rare and matter alike, none where they are dense.
    assert data["geometry"].sel(sparsity=0.95, importance=1.0, method="nearest").item() == "antipodal"
    dense = data["geometry"].sel(sparsity=0.0)
    assert (dense[0].item(), dense[-1].item()) == ("first alone", "second alone")


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
