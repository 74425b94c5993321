"""An audit as one HTML page that loads nothing: sentences, numbers and pictures of each model."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from ..experiments.drawing import svg
from ..report import page
from ..runner.declarations import Figure, span
from .advice import advice
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
# Features whose numbers are listed or drawn one by one; whose matrix is drawn at all.
_FEW = 40
_MATRIX = 1024
_GRAM = "Decoder times encoder, row i makes output i."
_PLANE = (
    "Each feature's encoding as a line from the origin, and its decoder, unless it is the same, as a ring."
)
_SHARES = "The share of a hidden dimension that each feature has."
_BESIDE = (
    "The exact loss per feature beside what is known of this law and size; bounds of 0 and what is not known "
    "are left out."
)


def plot_gram(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw W_out W_in, red where it is positive and blue where it is negative; of an audited model's data."""
    M = ds["W_out"].values @ ds["W_in"].values
    top = np.abs(M).max() or 1.0
    drawn = ax.imshow(M, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="auto")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.85)
    ax.grid(False)
    ax.set(title="W$_{out}$ W$_{in}$", xlabel="feature", ylabel="output")
    return ax


def plot_weights(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw encodings and decoders in the plane of two hidden neurons, or else features' dimensionalities."""
    W_out, W_in = ds["W_out"].values, ds["W_in"].values
    if len(W_in) != 2:
        ax.plot(ds["dimensionality"], "o", markersize=3)
        ax.set(ylim=(-0.03, 1.05), xlabel="feature", ylabel="dimensionality")
        return ax
    for k, (x, y) in enumerate(W_in.T):
        ax.plot([0, x], [0, y], color="C1", linewidth=1)
        if W_in.shape[1] <= _FEW:
            ax.annotate(str(k), (x, y), xytext=(3, 3), textcoords="offset points", fontsize=8)
    ax.plot(*W_in, ".", color="C1", label="encodings")
    if not np.array_equal(W_out, W_in.T):
        ax.plot(*W_out.T, "o", color="C2", markerfacecolor="none", label="decoders")
        ax.legend()
    ends = 1.15 * max(np.abs(W_in).max(), np.abs(W_out).max(), 1e-12) * np.array([-1.0, 1.0])
    ax.set(xlabel="hidden neuron 0", ylabel="hidden neuron 1", xlim=ends, ylim=ends, aspect="equal")
    return ax


def plot_losses(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draw the loss beside bounds and other models on a logarithmic axis; of an audited model's data."""
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


def _model_figure(model: ModelAudit) -> Figure:
    """Return the figure of a model's matrix, weights and losses."""
    arrays = {
        "W_out": (("feature", "neuron"), model.W_out),
        "W_in": (("neuron", "feature"), model.W_in),
        "dimensionality": ("feature", model.dimensionality),
    }
    data = xr.Dataset(arrays | {name: ((), getattr(model, name)) for name in _LOSSES})
    # A matrix of more features would show nothing.
    panels = (plot_gram, plot_weights, plot_losses)[model.n_features > _MATRIX :]
    phrases = (_GRAM, _PLANE if model.n_hidden == 2 else _SHARES, _BESIDE)[-len(panels) :]
    return Figure("model", "Weights and losses", " ".join(phrases), data, panels, len(panels), (3.5, 3.1))


def _describe_law(model: ModelAudit) -> str:
    """Return a phrase on the law of a model's data."""
    law = model.law
    phrases = [f"p {span(law.p)}", f"values {law.values} with scale {span(law.scale)}"]
    phrases += [f"importance {span(law.importance)}"]
    phrases += [f"{len(law.groups)} groups"] * bool(law.groups)
    phrases += [f"exactly {law.exactly} on"] * (law.exactly is not None)
    return ", ".join(phrases)


def _render_model(model: ModelAudit) -> str:
    """Return the HTML of a model's sentence, table and figure."""
    slope = model.gradient_norm
    search = f"{model.evidence}; {model.seconds:.1f} s"
    saved = f"{model.represented}: at least half of their loss is saved"
    reset = "no output is dead" if np.isnan(model.reset_loss) else f"{model.reset_loss:.6g}"
    numbers = [
        ("features, hidden neurons", f"{model.n_features}, {model.n_hidden}{', tied' if model.tied else ''}"),
        ("law", _describe_law(model)),
        ("exact loss per feature", f"{model.loss:.6g}, off by at most {model.loss_error:.1e}"),
        ("best known of this size", f"{model.best_known:.6g}: {model.best_name}"),
        ("search at this size", search if model.searched else model.evidence),
        ("proved lower bound", f"{model.lower_bound:.6g}"),
        (
            "macroscopic loss of the rug",
            "not for such features" if np.isnan(model.rug) else f"{model.rug:.6g}",
        ),
        (
            "in a limit",
            "none is known" if np.isnan(model.limit) else f"{model.limit:.6g}: {model.limit_name}",
        ),
        ("loss of the zero model", f"{model.zero_loss:.6g}"),
        ("end of descent from here", "not tried" if np.isnan(model.end_loss) else f"{model.end_loss:.6g}"),
        ("end of descent with dead outputs reset", reset),
        ("gradient, over the zero model's loss", "not tried" if np.isnan(slope) else f"{slope:.2g}"),
        ("features represented", saved),
    ]
    figure = _model_figure(model)
    parts = [
        page.paragraphs(advice(model)),
        page.paragraphs(model.sentence + (f"\n\nStructure: {model.structure}." if model.structure else "")),
        page.table("", ["what", "value"], numbers),
        page.render_figure(figure, f"model-{model.instance}", svg(figure)),
    ]
    if model.n_features <= _FEW:
        columns = model.per_feature, model.share_saved, model.b, model.dimensionality
        rows = zip(range(model.n_features), *columns, strict=True)
        heads = ["feature", "squared error", "share of the loss saved", "bias", "dimensionality"]
        parts.append(page.table("Features", heads, rows))
    return "\n".join(parts)


def render(layout: str, models: Sequence[ModelAudit], name: str) -> str:
    """Return the HTML page of audits; `layout` is that of the weights, `name` the audited file's."""
    columns = ("instance", *COLUMNS)
    values = [[getattr(model, column) for column in columns] for model in models]
    rows = [[v if isinstance(v, str) or np.isfinite(v) else None for v in row] for row in values]
    heads = [column.replace("_", " ") for column in columns]
    body = [("All models", page.table("", heads, rows))] if len(rows) > 1 else []
    body += [(f"Instance {model.instance}", _render_model(model)) for model in models]
    lead = "What trained models ReLU(W_out W_in x + b) are, and how good they could be. "
    return page.page(f"Audit of {name}", f"{lead}Layout: `{layout}`.", body, script=False)
