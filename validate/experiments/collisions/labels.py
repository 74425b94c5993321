"""How figures and tables of collisions name optimisers and draw runs."""

import numpy.typing as npt
from matplotlib.axes import Axes

from ..drawing import draw_means

OPTIMISER_LABELS = {"flow": "flow", "gd": "gradient descent"}
OPTIMISER_LABELS |= {"sign": "gradient descent with sign(W)", "adamw": "AdamW"}
INTERVALS = "Bars and brackets are 95 % intervals, Student's over runs, or exact ones of shares."
MARKERS = "osD^v<>ph"


def draw_runs(ax: Axes, x: npt.ArrayLike, samples: npt.ArrayLike, k: int, label: str, line: str = "") -> None:
    """Draw means of `samples` over runs, with intervals, against x, in the k-th marker and colour.

    `samples` is (len(x), runs). `label` is the legend's text, `line` Matplotlib's line style between the
    means, "" for none.
    """
    style = {"fmt": MARKERS[k % len(MARKERS)] + line, "color": f"C{k + 1}", "markersize": 4}
    draw_means(ax, x, samples, label=label, **style)
