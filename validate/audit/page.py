"""An audit as one HTML page that loads nothing: sentences, numbers and pictures of each model."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ...solvers.deadline import Deadline
from ...theory.validation import count_noun
from ..experiments.drawing import LEGEND_ABOVE, draw_interference, svg
from ..loading import Weights
from ..report import page
from ..runner.declarations import Figure, span
from .advice import advice, in_words
from .losses import loss_within
from .results import COLUMNS, ModelAudit

# Losses in a picture, the model's own first.
_LOSSES = {
    "loss": "this model",
    "end_loss": "end of descent",
    "best_known": "best known of this size",
    "limit": "in a limit",
    "rug": "rug (many features)",
    "zero_loss": "zero model",
    "lower_bound": "lower bound",
}
_WIDE = 20.0  # a range of losses that is drawn on a logarithmic axis
# Features whose numbers are listed or drawn one by one; whose matrix is drawn at all.
_MOST_FEATURES = 40
_MATRIX = 1024
_SECONDS = 4.0  # at most for the losses of the best known model's features


def plot_gram(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw W_out W_in of the dataset `ds`: ``W_out`` (feature, neuron), ``W_in`` (neuron, feature)."""
    draw_interference(ax, ds["W_out"].values, ds["W_in"].values, shrink=0.85)
    ax.set(title="W$_{out}$ W$_{in}$", xlabel="feature", ylabel="output")
    return ax


def plot_weights(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw encodings and decoders in the plane of two hidden neurons, or else features' dimensionalities.

    `ds` has ``W_out`` (feature, neuron), ``W_in`` (neuron, feature) and ``dimensionality`` (feature), the
    share of a hidden dimension that a feature has.
    """
    W_out, W_in = ds["W_out"].values, ds["W_in"].values
    if len(W_in) != 2:
        ax.plot(ds["dimensionality"], "o", markersize=3)
        ax.set(ylim=(-0.03, 1.05), xlabel="feature", ylabel="dimensionality")
        return ax
    for k, (x, y) in enumerate(W_in.T):
        ax.plot([0, x], [0, y], color="C1", linewidth=1)
        if W_in.shape[1] <= _MOST_FEATURES:
            ax.annotate(str(k), (x, y), xytext=(3, 3), textcoords="offset points", fontsize=8)
    ax.plot(*W_in, ".", color="C1", label="encodings")
    if not np.array_equal(W_out, W_in.T):
        ax.plot(*W_out.T, "o", color="C2", markerfacecolor="none", label="decoders")
        ax.legend()
    ends = 1.15 * max(np.abs(W_in).max(), np.abs(W_out).max(), 1e-12) * np.array([-1.0, 1.0])
    ax.set(xlabel="hidden neuron 0", ylabel="hidden neuron 1", xlim=ends, ylim=ends, aspect="equal")
    return ax


def plot_by_feature(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw each feature's part of the loss beside that in the best known model, and the lower bound.

    A part is importance times squared error. `ds` has over ``feature`` ``importance`` and the squared errors
    ``per_feature`` and ``best_per_feature``, and the numbers ``loss``, ``best_known`` and ``lower_bound``.
    """
    parts = (ds["importance"] * ds["per_feature"]).values, (ds["importance"] * ds["best_per_feature"]).values
    ax.plot(parts[1], "_", color="#0072B2", markersize=9, markeredgewidth=2,
            label=f"best known, mean {float(ds['best_known']):.4g}")  # fmt: skip
    ax.plot(parts[0], "o", color="black", markersize=4, label=f"this model, mean {float(ds['loss']):.4g}")
    if float(ds["lower_bound"]) > 0.0:
        label = f"lower bound of the mean, {float(ds['lower_bound']):.4g}"
        ax.axhline(float(ds["lower_bound"]), color="#009E73", label=label)
    ax.set(xlabel="feature", ylabel="importance × squared error")
    drawn = np.concatenate([*parts, [float(ds["lower_bound"]) or np.inf]])
    if 0.0 < _WIDE * drawn.min() < max(map(np.max, parts)):
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0.0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(**LEGEND_ABOVE | {"ncols": 1})
    return ax


def plot_losses(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss of an audited model beside bounds and other models' losses on a log axis; return `ax`.

    `ds` has as numbers ``loss``, ``end_loss`` (of descent), ``best_known``, ``limit`` and ``rug`` (of many
    features), ``zero_loss``, ``lower_bound``. Those that are 0, infinite or nan are not drawn.
    """
    losses = {label: float(ds[name]) for name, label in _LOSSES.items()}
    losses = {label: loss for label, loss in losses.items() if 0.0 < loss < np.inf}
    for k, (label, loss) in enumerate(reversed(losses.items())):
        ax.plot(loss, k, "D" if label == "this model" else "o", color="C2" if label == "this model" else "C1")
        ax.annotate(
            f"{loss:.3g}", (loss, k), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=7
        )
    ax.set_yticks(range(len(losses)), list(losses)[::-1])
    ax.set(xscale="log", ylim=(-0.5, len(losses)), xlabel="loss per feature")
    ax.margins(x=0.25)
    return ax


def data_of(model: ModelAudit) -> xr.Dataset:
    """Return the data for pictures of an audited model: its weights and losses, beside known losses.

    ``W_out``, ``W_in``, ``dimensionality``, ``importance`` and the squared errors of this and the best known
    model, ``per_feature`` and ``best_per_feature``, are over ``feature`` and ``neuron``. Losses, such as
    ``best_known`` and ``lower_bound``, are numbers.
    """
    best = Weights(model.best_W_out, model.best_W_in, model.best_b)
    losses = loss_within(best, model.law, Deadline(_SECONDS), has_descents=True)
    arrays = {
        "W_out": (("feature", "neuron"), model.W_out),
        "W_in": (("neuron", "feature"), model.W_in),
        "dimensionality": ("feature", model.dimensionality),
        "importance": ("feature", model.law.importance),
        "per_feature": ("feature", model.per_feature),
        "best_per_feature": ("feature", losses.per_feature),
    }
    return xr.Dataset(arrays | {name: ((), getattr(model, name)) for name in _LOSSES})


def figures_of(model: ModelAudit) -> list[Figure]:
    """Return the figures for the page of an audited model: losses by feature, losses, W_out W_in, weights.

    The figure of W_out W_in is left out above 1024 features. That of weights shows encodings as lines if
    there are two hidden neurons, else each feature's share of a hidden dimension (dimensionality).
    """
    data = data_of(model)
    weights = "Dimensionalities", "The share of a hidden dimension that each feature has."
    if model.n_hidden == 2:
        caption = "A line from the origin for each feature; its decoder, unless it is the same, a ring."
        weights = "Encodings", caption
    panels = [
        (plot_by_feature, "Loss by feature", "Their mean is the loss; the lower bound is one of the mean."),
        (plot_losses, "Loss", "What is known of this law and size; bounds of 0 are left out."),
        (plot_gram, "Interference", "Decoder times encoder; row i makes output i."),
        (plot_weights, *weights),
    ]
    return [
        Figure(draw.__name__.removeprefix("plot_"), title, caption, data, draw, size=(4.4, 3.4))
        for draw, title, caption in panels
        if draw is not plot_gram or model.n_features <= _MATRIX  # a larger one would show nothing
    ]


def _describe_law(model: ModelAudit) -> str:
    """Return a phrase on the law of the data for which a model was audited."""
    law = model.law
    phrases = [f"p {span(law.p)}", f"values {law.values} with scale {span(law.scale)}"]
    phrases += [f"importance {span(law.importance)}"]
    phrases += [count_noun(len(law.groups), "group")] * bool(law.groups)
    phrases += [f"exactly {law.exactly} on"] * (law.exactly is not None)
    return ", ".join(phrases)


def _format_or(number: float, words: str, digits: str = ".6g") -> str:
    """Return `number` as text in the format `digits`, or `words` if it is nan."""
    return words if np.isnan(number) else f"{number:{digits}}"


def _render_model(model: ModelAudit) -> Markup:
    """Return the HTML of one audited model: sentence, table of numbers, figures."""
    search = f"{model.evidence}; {model.seconds:.1f} s"
    saved = f"{model.represented}: at least half of their loss is saved"
    limit = _format_or(model.limit, "none is known")
    numbers = [
        ("features, hidden neurons", f"{model.n_features}, {model.n_hidden}{', tied' if model.tied else ''}"),
        ("law", _describe_law(model)),
        ("exact loss per feature", f"{model.loss:.6g}, off by at most {model.loss_error:.1e}"),
        ("best known of this size", f"{model.best_known:.6g}: {model.best_name}"),
        ("search at this size", search if model.searched else model.evidence),
        ("proved lower bound", f"{model.lower_bound:.6g}" if model.lower_bound else "none but 0 is known"),
        ("macroscopic loss of the rug", _format_or(model.rug, "not for such features")),
        ("in a limit", f"{limit}: {model.limit_name}" if model.limit_name else limit),
        ("loss of the zero model", f"{model.zero_loss:.6g}"),
        ("end of descent from here", _format_or(model.end_loss, "not tried")),
        ("end of descent with dead outputs reset", _format_or(model.reset_loss, "no output is dead")),
        ("gradient, over the zero model's loss", _format_or(model.gradient_norm, "not tried", ".2g")),
        ("features represented", saved),
    ]
    structure = f"\n\nStructure: {in_words(model.structure)}." if model.structure else ""
    columns = range(model.n_features), model.per_feature, model.share_saved, model.b, model.dimensionality
    return page.render(
        "audited_model.html",
        advice=advice(model),
        sentence=model.sentence + structure,
        figures=[
            page.render_figure(figure, f"{figure.name}-{model.instance}", svg(figure))
            for figure in figures_of(model)
        ],
        numbers=numbers,
        features=list(zip(*columns, strict=True)) if model.n_features <= _MOST_FEATURES else (),
    )


def render(layout: str, models: Sequence[ModelAudit], name: str) -> str:
    """Return the HTML page of audits, `models`.

    `layout` is the name of the layout of the weights, `name` that of the audited file.
    """
    columns = ("instance", *COLUMNS)
    values = [[getattr(model, column) for column in columns] for model in models]
    rows = [[v if isinstance(v, str) or np.isfinite(v) else None for v in row] for row in values]
    heads = [column.replace("_", " ") for column in columns]
    body = [("All models", page.table("", heads, rows))] if len(rows) > 1 else []
    body += [
        (f"Instance {model.instance}" if body else "The model", _render_model(model)) for model in models
    ]
    lead = "What trained models ReLU(W_out W_in x + b) are, and how good they could be. "
    return page.page(f"Audit of {name}", f"{lead}Layout: `{layout}`.", body, script=False)
