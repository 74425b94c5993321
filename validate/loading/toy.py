"""Toy models ReLU(W_out W_in x + b) from arrays by name: by a known layout, by shapes, or by `keys`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...theory.validation import choice, short_repr
from .arrays import drop_strays, find_name, named_arrays, require_numeric, summarise_shapes
from .layouts import LAYOUTS, Layout, Weights
from .names import encoder_first, may_be_bias
from .questions import ask_axis, ask_linear, ask_names

# Files of public code that are not such a model: a name that gives them away, and the reason.
_OTHERS = {
    "hidden_layers.0.weight": "it has several layers",
    "layers.0.weight": "it has several layers",
    "W1": "its hidden neurons have a nonlinearity (ARENA's model of computation)",
    "b_enc": "it is a sparse autoencoder, which `sae` takes",
    "Adiag": "its weights are random rows that were not saved (PersianRug's Hadamard models)",
}
# What `keys` may name.
_PARTS = ("W_in", "W_out", "b_in", "b")
# What a single matrix is tried as, in turn.
_WEIGHTS = ("W_out", "W_in")
# A file of matrices of several sizes, under numbers, has this layout for each.
_NUMBERED = "liuyz0/SuperpositionScaling, W alone"


def layout_by_keys(arrays: Mapping[str, Any], keys: Mapping[str, str]) -> Layout:
    """Return the layout of a toy model: which of `arrays` are W_in, W_out, b and b_in, and their axes.

    `arrays` are by name. `keys` maps these four, or some of them, to names in `arrays`; a model with one of
    W_in and W_out is tied. The order of axes follows from the shapes; a square W_in is (n_hidden,
    n_features). Names that `arrays` lacks, and shapes that do not multiply, raise a ValueError.
    """
    names = {part: find_name(name, arrays) for part, name in keys.items()}
    if {*names} - {*_PARTS} or None in names.values() or not {"W_in", "W_out"} & {*names}:
        raise ValueError(
            "`keys` must name arrays that there are: for W_in, for W_out if it is another one, and for b and "
            "b_in if there are any; or for W_enc, W_dec, b_enc and b_dec of a sparse autoencoder; "
            f"got {dict(keys)!r} for {summarise_shapes(arrays)}."
        )
    layout = _layout_by_names("keys", arrays, {part: str(name) for part, name in names.items()})
    if layout is None:
        raise ValueError(f"`keys` must name arrays whose shapes multiply; got {summarise_shapes(arrays)}.")
    return layout


def _layout_by_names(title: str, arrays: Mapping[str, Any], names: Mapping[str, str]) -> Layout | None:
    """Return the layout with the arrays named for W_in, W_out and b, or None if shapes do not multiply.

    `title` is the layout's name, `names` maps W_in, W_out, b and b_in, or some of them, to keys of `arrays`.
    A square W_in is (n_hidden, n_features), and a square W_out (n_features, n_hidden).
    """
    W_in, W_out = names.get("W_in", names.get("W_out", "")), names.get("W_out", names.get("W_in", ""))
    b, b_in, several = names.get("b"), names.get("b_in"), "i" if np.ndim(arrays[W_in]) == 3 else ""
    vectors = {name: several + axis for name, axis in ((b, "f"), (b_in, "h")) if name}
    for encoder in ("hf", "fh") if "W_in" in names else ("fh", "hf"):
        for decoder in ("fh", "hf") if W_out != W_in else (encoder,):
            axes = {W_in: several + encoder, W_out: several + decoder} | vectors
            layout = Layout(title, axes, W_out, W_in, b, hidden_bias=b_in)
            if layout.fits({name: arrays[name] for name in axes}):
                return layout
    return None


def _hidden_bias_left_out(arrays: Mapping[str, Any], layout: Layout, n_hidden: int) -> str:
    """Return the name of an array outside a layout that may be a bias of `n_hidden` neurons, or ""."""
    axes = np.ndim(arrays[layout.W_in]) - 1
    others = {name: np.shape(array) for name, array in arrays.items() if name not in layout.axes}
    return next(
        (name for name, shape in others.items() if shape[-1:] == (n_hidden,) and len(shape) == axes), ""
    )


def _without_copies(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays without copies of an earlier matrix: one parameter under two names."""
    distinct: dict[str, Any] = {}
    for name, array in arrays.items():
        if np.ndim(array) < 2 or not any(np.array_equal(array, other) for other in distinct.values()):
            distinct[name] = array
    return distinct


def _fitting_layouts(arrays: Mapping[str, Any]) -> list[Layout]:
    """Return the layouts of public code that arrays fit, or else those of any names for W_in, W_out and b.

    `arrays` are a toy model's, by name. A matrix with two names may count once.
    """
    distinct = _without_copies(arrays)
    for candidates in (arrays, distinct):
        if fitting := [layout for layout in LAYOUTS if layout.fits(candidates)]:
            return fitting
    return _layouts_of_any_names(distinct)


def _layouts_of_any_names(arrays: Mapping[str, Any]) -> list[Layout]:
    """Return the layouts of a matrix and a bias, or of two matrices if names tell which is the encoder.

    Names in `arrays` may be unknown. Two matrices must have fewer hidden neurons than features; one named
    "weight" is (outputs, inputs), as in PyTorch.
    """
    for b in filter(may_be_bias, arrays):
        matrices = [name for name in arrays if name != b]
        if len(matrices) == 1:
            both = [
                _layout_by_names(f"{matrices[0]} and {b}", arrays, {part: matrices[0], "b": b})
                for part in _WEIGHTS
            ]
            if fits := [layout for layout in both if layout is not None]:
                return fits
        if len(matrices) == 2 and (pair := encoder_first(*matrices)):
            title = f"{pair[0]}, {pair[1]} and {b}, hidden neurons taken for linear"
            layout = _layout_by_names(title, arrays, {"W_in": pair[0], "W_out": pair[1], "b": b})
            is_turned = layout is not None and layout.axes[pair[0]].endswith("fh")
            if layout is None or (is_turned and pair[0].endswith("weight")):
                continue
            if layout.size("h", arrays) < layout.size("f", arrays):
                return [layout]
    return []


def _pick_layout(fitting: list[Layout], arrays: Mapping[str, Any], layout: str | None) -> Layout:
    """Return the fitting layout named `layout`, or the first if all have the same product W_out W_in.

    The product is computed from `arrays` by each layout. A ValueError lists the fitting layouts if the name
    is none of them, or if they give different models.
    """
    if layout is not None:
        chosen = [candidate for candidate in fitting if candidate.name == layout]
        if not chosen:
            rule = f"one that the arrays have ({'; '.join(candidate.name for candidate in fitting)})"
            raise ValueError(f"`layout` must be {rule}; got {layout!r} for {summarise_shapes(arrays)}.")
        return chosen[0]
    first = list(fitting[0].models(arrays))
    for other in fitting[1:]:
        models = list(other.models(arrays))
        same = len(models) == len(first) and all(
            np.allclose(reference.W_out @ reference.W_in, model.W_out @ model.W_in, rtol=1e-12, atol=0.0)
            for reference, model in zip(first, models, strict=True)
            if model.W_out.shape == reference.W_out.shape
        )
        if not same:
            raise ValueError(ask_axis(arrays, fitting))
    return fitting[0]


def _check_arrays(
    arrays: Mapping[Any, Any], layout: str | None, keys: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return a toy model's arrays of real numbers by name, without importance, losses and the like.

    Mappings that are no toy model's state dict, and bad values of `layout` or `keys`, raise a ValueError.
    """
    if not isinstance(arrays, Mapping):
        raise ValueError(f"`arrays` must be a state dict; got {short_repr(arrays)}.")
    if keys is not None and not isinstance(keys, Mapping):
        raise ValueError(f"`keys` must map W_in, W_out and b to names of arrays; got {short_repr(keys)}.")
    shapes = named_arrays(arrays)
    if layout is not None:
        choice("layout", layout, [known_layout.name for known_layout in LAYOUTS])
    for name, reason in _OTHERS.items():
        if name in shapes and keys is None:
            raise ValueError(f"`model` must be ReLU(W_out W_in x + b); {reason}: it has {name!r}.")
    return dict(require_numeric(drop_strays(shapes)))


def recognise(
    arrays: Mapping[Any, Any], *, layout: str | None = None, keys: Mapping[str, str] | None = None
) -> tuple[str, list[Weights]]:
    """Return (layout name, weights of each instance) of the toy models in a state dict.

    >>> name, models = recognise({"W": np.ones((3, 5, 2)), "b_final": np.zeros((3, 5))})
    >>> name, len(models), models[0].W_in.shape
    ('Anthropic notebook', 3, (2, 5))

    Parameters
    ----------
    arrays : mapping of str to array_like
        A state dict, or a checkpoint that holds one under a usual name.
    layout : str, optional
        Name of one of `LAYOUTS`, if shapes allow several (as many features as hidden neurons); or if hidden
        neurons have a bias or are more than the features, as in a sparse autoencoder: the name says that they
        are linear, and without it these arrays are refused.
    keys : mapping of str to str, optional
        Names of the arrays for "W_in", "W_out" (one of them for a tied model) and, if there are any, "b" and
        "b_in". A square W_in is (n_hidden, n_features), a square W_out (n_features, n_hidden).
    """
    shapes = _check_arrays(arrays, layout, keys)
    if keys is not None:
        key_layout = layout_by_keys(shapes, keys)
        models = list(key_layout.models(shapes))
        if other := _hidden_bias_left_out(shapes, key_layout, len(models[0].W_in)):
            raise ValueError(
                "`keys` must leave out no bias of the hidden neurons, as these may have a nonlinearity too; "
                f"got {dict(keys)!r} for arrays with {other!r} {np.shape(shapes[other])}."
            )
        return key_layout.name, models
    if shapes and all(name.isdecimal() for name in shapes) and layout in (None, _NUMBERED):
        (known_layout,) = (known_layout for known_layout in LAYOUTS if known_layout.name == _NUMBERED)
        if all(known_layout.fits({"W": array}) for array in shapes.values()):
            return known_layout.name, [
                model for array in shapes.values() for model in known_layout.models({"W": array})
            ]
    fitting = _fitting_layouts(shapes)
    if not fitting:
        raise ValueError(ask_names(_without_copies(shapes)))
    chosen = _pick_layout(fitting, shapes, layout)
    if layout is None and (why := chosen.doubt(shapes)):
        raise ValueError(ask_linear(shapes, chosen, why))
    return chosen.name, list(chosen.models(shapes))
