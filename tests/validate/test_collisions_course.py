"""The count that the weights of each moment would give: its ends are the chance count and the flow's."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from superposition.solvers.collisions import assign
from superposition.solvers.collisions.displaced import first_weights
from superposition.validate.experiments.collisions import plot_course, run_course, run_fig3


def test_it_begins_with_the_first_weights_and_ends_with_the_flow():
    n, m, runs, lam = 12, 12, 6, 0.02
    ds = run_course(n, m, runs, lam, seed=5)
    np.testing.assert_array_equal(
        ds["count"][0], assign(first_weights(n, m, runs, 0.9, 5)).polysemantic, strict=False
    )
    np.testing.assert_array_equal(
        ds["count"][-1], run_fig3(n, [m], runs, lam, seed=5)["polysemantic"][0], strict=False
    )
    assert float(ds["held"][0].mean()) == pytest.approx(0.5, abs=0.1)  # signs of independent overlaps
    assert float(ds["held"][-1].mean()) < 0.01
    assert float(ds["nonzeros"][0].min()) == m


def test_the_plot_shows_every_time():
    ds = run_course(8, 8, runs=3, lam=0.02, times=(0, 0.5, 6))
    ax = plot_course(ds, Figure().subplots())
    assert any(len(line.get_xdata()) == 3 for line in ax.lines)
    with pytest.raises(TypeError, match="`ax` must be an Axes; got "):
        plot_course(ds, 3)
