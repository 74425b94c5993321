"""The map of codes: what it holds and that it draws."""

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from superposition.validate.experiments.codes import envelope as maps
from superposition.validate.report.build import svg


@pytest.fixture(scope="module")
def ds():
    return maps.run_envelope(4, lowest=0.01, highest=0.6, codes=("pair", "triangle", "Petersen"))


def test_map_holds_the_envelope_and_is_drawn_as_one_small_svg(ds):
    assert ds["loss"].dims == ("models", "p", "ratio")
    assert bool((ds["loss"] <= ds["rug"] * (1 + 1e-12)).all())
    assert bool((ds["loss"] >= ds["lower_bound"]).all())
    assert set(np.unique(ds["winner"])) <= set(range(len(maps.WINNERS)))
    text = svg(maps.envelope_figure(ds))
    assert text.count("<image") == 3
    assert len(text) < 600_000


def test_bad_input_is_named(ds):
    with pytest.raises(ValueError, match=r"`models`.*got 'big'"):
        maps.plot_envelope(ds, Canvas().subplots(), "big")
    with pytest.raises(ValueError, match=r"`ratio`.*got 2"):
        maps.plot_bracket(ds, Canvas().subplots(), 2.0)
