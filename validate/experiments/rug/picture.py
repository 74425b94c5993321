"""Fig. 1 of Cowsik et al. (2024): the matrix of the rug."""

import xarray as xr
from matplotlib.axes import Axes

from ....solvers import rug as solvers
from ....theory.annotations import as_annotated
from ...runner.declarations import Figure, Run, Topic, TopicContent
from ..drawing import DIVERGING, finish_axes, plot_function


@as_annotated
def run_rug(n_features: int = 256, n_hidden: int = 40, seed: int = 0) -> xr.Dataset:
    """Return the matrix ``rug`` (row, column) of Fig. 1, of unit diagonal, from random Hadamard rows.

    It has `n_features` rows and columns, and the rank `n_hidden`.
    """
    matrix = solvers.rug_matrix(n_features, n_hidden, seed).todense()
    return xr.Dataset({"rug": (("row", "column"), matrix)}, attrs={"n_hidden": n_hidden, "seed": seed})


@plot_function
def plot_rug(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the matrix of a Persian rug as an image (Fig. 1); `ds` is from `run_rug`."""
    reach = float(abs(ds["rug"]).quantile(0.999))
    image = ax.imshow(ds["rug"], cmap=DIVERGING, vmin=-reach, vmax=reach, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="R$_{ij}$ (diagonal = 1)", shrink=0.85, extend="max")
    ax.grid(False)
    return finish_axes(ax, None, xlabel="input j", ylabel="output i")


def _show_picture(ds: xr.Dataset) -> TopicContent:
    """Return the content of the report's topic "picture": the matrix of the rug as an image (Fig. 1).

    `ds` is from `run_rug`. The matrix is decoder times encoder.
    """
    n, m = ds.sizes["row"], ds.attrs["n_hidden"]
    title = f"Fig. 1: the rug, n_features = {n}, n_hidden = {m}"
    caption = (
        f"Decoder times encoder, built from {m} random rows of the Hadamard matrix; the diagonal is 1 "
        "(beyond the colour scale)."
    )
    return TopicContent("", [Figure("image", title, caption, ds, plot_rug, size=(5.2, 4.4))])


RUNS = {"picture": Run(run_rug)}
TOPICS = [Topic("picture", ["picture"], _show_picture, claims=["C11", "C12", "C13"])]
