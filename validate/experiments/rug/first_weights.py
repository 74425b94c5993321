"""The effect of the first weights: aligned ones against independent ones, as in the source."""

import pandas as pd
import xarray as xr

from ...runner.declarations import Run, Topic, TopicContent
from .models import FULL_MODELS, QUICK_MODELS, means_table, models_frame, run_trained


def _show_first_weights(aligned: xr.Dataset, linear: xr.Dataset) -> TopicContent:
    """Return the table of the report's part "first weights": how losses depend on the first weights.

    Columns, by p, ratio and kind of first weights: (mean loss) / (random code's loss) - 1, and the share of
    features that end dropped, with M_ii below a tenth of the largest. Models are from `run_trained`: those of
    `aligned` begin with W_out = W_in', those of `linear` with independent weights.
    """
    kinds = {"W_out = W_in'": models_frame(aligned), "independent (source)": models_frame(linear)}
    frame = pd.concat(kinds, names=["first weights"]).reset_index("first weights")
    both = frame[frame["p"].isin(linear["p"].values) & frame["ratio"].isin(linear["ratio"].values)]
    title = "What the first weights decide"
    caption = (
        f"n_features = {int(linear['n_features'][0])}, trained in this run. With independent first weights "
        "half of the diagonal starts negative; `dropped` is the share of features that end with a diagonal "
        "below a tenth of the largest one."
    )
    table = means_table(
        title, both, {"excess": "+.1%", "dropped": ".1%"}, ["p", "ratio", "first weights"], caption
    )
    return TopicContent("", (), [table])


RUNS = {
    "linear_init": Run(
        run_trained,
        {**QUICK_MODELS, "p": (0.01, 0.1), "ratio": (0.25, 0.5), "init": "linear"},
        {**FULL_MODELS, "p": (0.01, 0.05, 0.1), "ratio": (0.25, 0.5), "init": "linear"},
        split_by="seeds",
        concat_dim="model",
        torch=True,
        seconds=8,
    )
}
TOPICS = [Topic("first weights", ["trained", "linear_init"], _show_first_weights)]
