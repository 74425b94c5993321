"""Pictures of answers: what is drawn is what the dataset has, at its place and under its name."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import superposition as sp
from superposition.validate.api import pictures
from superposition.validate.audit.page import plot_weights


@pytest.fixture
def ax():
    return Figure().subplots()


def drawn(ax):
    """Return the points of each line by its label."""
    return {line.get_label(): line.get_xydata().tolist() for line in ax.lines}


def written(ax):
    return {text.get_text(): text for text in ax.texts}


def table(dim, coords=None, **columns):
    return xr.Dataset({name: (dim, column) for name, column in columns.items()}, coords)


def test_losses_are_times_importance_beside_their_mean_and_the_best(ax):
    data = table("feature", importance=[1.0, 3.0], per_feature=[0.5, 0.25]).assign(loss=0.625)
    pictures.draw_losses(data, ax)
    assert [bar.get_height() for bar in ax.patches] == [0.5, 0.75]
    assert ax.lines[0].get_ydata()[0] == written(ax)["mean"].xy[1] == 0.625
    losses = {"loss": [0.3, 0.5], "best_known": [0.2, 0.4], "lower_bound": [0.1, 0.15]}
    other = pictures.draw_audit(table("instance", {"instance": [4, 7]}, **losses), Figure().subplots())
    names = zip(("models", "best known", "lower bound"), losses.values(), strict=True)
    assert drawn(other) == {name: [[0, first], [1, second]] for name, (first, second) in names}
    assert [tick.get_text() for tick in other.get_xticklabels()] == ["4", "7"]


def test_a_model_is_drawn_by_its_encodings_or_by_decoder_times_encoder(ax):
    W_in, W_out = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]]), np.arange(6.0).reshape(3, 2)
    sp.plot(sp.Model(W_in, W_out=W_out), ax)
    assert [line.get_xydata()[-1].tolist() for line in ax.lines[::2]] == W_in.T.tolist()
    assert {name: text.xy for name, text in written(ax).items()} == {"0": (2.0, 0.0), "1": (0.0, 3.0)}
    square, page = (Figure().subplots() for _ in range(2))
    data = table(("feature", "hidden"), W=W_in, W_out=W_out.T).assign(loss=0.1)
    pictures.draw_model(data.assign_attrs(certainty="exact"), square)
    assert square.images[0].get_array().tolist() == (W_out.T @ W_in.T).tolist()
    plot_weights(xr.Dataset({"W_out": (("f", "h"), W_out), "W_in": (("h", "f"), W_in)}), page)
    assert (drawn(page)["encodings"], drawn(page)["decoders"]) == (W_in.T.tolist(), W_out.tolist())


def test_counts_are_in_their_rows_with_the_colour_of_their_kind(ax):
    kinds, names = ["lower bound", "attained", "attained"], ["all", "pairs", "kept"]
    data = table("row", model=names, kind=kinds, n_features=[90.0, 16.0, 8.0], n_hidden=[8, 8, 8])
    pictures.draw_counts(data.assign_attrs(counted="n_features"), ax)
    assert [written(ax)[name].xy for name in ("90 all", "16 pairs", "8 kept")] == [(90, 2), (16, 1), (8, 0)]
    colours = {line.get_label(): line.get_color() for line in ax.lines[3:]}  # of the legend
    assert [line.get_color() for line in ax.lines[:3]] == [colours[kind] for kind in kinds]


def assert_ends_are_named(ax, ends):
    """Fail unless a line leads from the end of each curve to its name."""
    low, high = np.log10(ax.get_ylim())
    for name, loss in ends.items():
        assert written(ax)[name].xy == pytest.approx((1.0, (np.log10(loss) - low) / (high - low)))


def test_curves_are_in_order_and_named_at_their_ends(ax):
    data = table("point", p=[0.1, 0.1, 0.1], ratio=[3.0, 1.0, 2.0], a=[7.0, 8.0, 9.0], b=[30.0, 10.0, 20.0])
    pictures.draw_columns(data, ax)
    assert ax.lines[0].get_xydata().tolist() == [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("ratio", "b")
    models, kinds = ["what no model of this size goes below", "pairs"], ["lower bound", "attained"]
    columns = {"model": np.repeat(models, 2), "kind": np.repeat(kinds, 2), "n_hidden": [4, 1, 4, 1]}
    data = table("prediction", loss=[1e-3, 1e-1, 1e-2, 0.5], **columns)
    widths = pictures.draw_widths(data, Figure().subplots(), points=([1, 4], [0.6, 0.02]))
    assert drawn(widths)["pairs"] == [[4, 1e-2], [1, 0.5]]
    assert_ends_are_named(widths, {"lower bound": 1e-3, "pairs": 1e-2, "yours": 0.02})
    values = [[1.0, 2.0, 40.0], [3.0, 50.0, np.nan]]
    data = table(("k", "p"), {"k": [1, 2], "p": [0.1, 0.2, 0.3]}, y=values)
    assert_ends_are_named(pictures.draw_sweep(data, Figure().subplots(), x="p"), {"k 1": 40.0, "k 2": 50.0})


def test_phases_have_their_colours_and_names_where_they_are(ax):
    shapes = np.array([["pair"] * 3 + ["alone"] * 2, ["pair"] * 2 + ["alone"] * 3, ["pair"] + ["alone"] * 4])
    x, y = [0.1, 0.5, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]
    axes = {"sparsity": x, "importance": y}
    pictures.draw_phases(table(tuple(axes), axes, geometry=shapes), ax)
    colours = {"alone": pictures.COLOURS[0], "pair": pictures.COLOURS[1]}
    pale = [[1.0 - 0.6 * (1.0 - np.array(to_rgb(colours[name]))) for name in column] for column in shapes.T]
    np.testing.assert_allclose(np.asarray(ax.collections[0].get_array()), pale)
    places = {name: text.get_position() for name, text in written(ax).items()}
    assert {shapes[x.index(across), y.index(up)]: (across, up) for across, up in places.values()} == places


def test_a_line_of_phases_has_the_encodings_of_each_point_above_it(ax):
    W, p, loss = np.arange(1.0, 13.0).reshape(3, 2, 2), [0.3, 0.1, 0.2], [0.6, 0.2, 0.4]
    data = table("p", {"p": p}, geometry=["a", "b", "c"], loss=loss).assign(W=(("p", "feature", "hidden"), W))
    pictures.draw_phases(data, ax)
    assert drawn(ax)["best known"] == [[0.3, 0.6], [0.1, 0.2], [0.2, 0.4]]
    insets = [[line.get_xydata()[-1].tolist() for line in inset.lines[::2]] for inset in ax.child_axes]
    assert insets == W[[1, 2, 0]].tolist()  # by p
    assert [text.xy for text in ax.texts] == [(0.1, 0.2), (0.2, 0.4), (0.3, 0.6)]
    assert [text.xyann[0] for text in ax.texts] == pytest.approx([1 / 6, 1 / 2, 5 / 6])  # side by side
