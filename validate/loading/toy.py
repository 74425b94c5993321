"""Toy models ReLU(W_out W_in x + b) from arrays by name: by a known layout, by shapes, or by `keys`."""

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np

from ...theory import validation
from ...theory.validation import short_repr
from .arrays import drop_strays, named_arrays, require_numeric, summary
from .layouts import LAYOUTS, Layout, Weights

__all__ = ["layout_by_keys", "recognise"]

# Files of public code that are not such a model: a name that gives them away, and the reason.
_OTHERS = {
    "hidden_layers.0.weight": "it has several layers",
    "layers.0.weight": "it has several layers",
    "W1": "its hidden neurons have a nonlinearity (ARENA's model of computation)",
    "b_enc": "it is a sparse autoencoder, which `sae` takes",
    "Adiag": "its weights are random rows that were not saved (PersianRug's Hadamard models)",
}
# A file of matrices of several sizes, under numbers, has this layout for each.
_NUMBERED = "liuyz0/SuperpositionScaling, W alone"


def _in_arrays(name: Any, arrays: Mapping[str, Any]) -> str | None:
    """Return the name in `arrays` of an array named with or without wrappers' prefixes; None if not there."""
    if name in arrays:
        return str(name)
    return next((known for known in arrays if str(name).endswith(f".{known}")), None)


def layout_by_keys(arrays: Mapping[str, Any], keys: Mapping[str, str]) -> Layout:
    """Return the layout in which `keys` names the arrays for W_in, W_out and b, with axes by their shapes.

    Names that are not there, or shapes that do not multiply, raise a ValueError.
    """
    names = {part: _in_arrays(name, arrays) for part, name in keys.items()}
    if {*names} - {"W_out", "W_in", "b"} or None in names.values() or not {"W_in", "W_out"} & {*names}:
        raise ValueError(
            "`keys` must name arrays that there are: for W_in, for W_out if it is another one, and for b if "
            f"there is one; got {dict(keys)!r} for {summary(arrays)}."
        )
    layout = _layout_of("keys", arrays, {part: str(name) for part, name in names.items()})
    if layout is None:
        raise ValueError(f"`keys` must name arrays whose shapes multiply; got {summary(arrays)}.")
    return layout


def _layout_of(title: str, arrays: Mapping[str, Any], names: Mapping[str, str]) -> Layout | None:
    """Return the layout of arrays by their names for W_in, W_out and b, or None if shapes do not multiply.

    Where a shape allows both, W_in is (n_hidden, n_features) and W_out is (n_features, n_hidden).
    """
    W_in, W_out = names.get("W_in", names.get("W_out", "")), names.get("W_out", names.get("W_in", ""))
    b, several = names.get("b"), "i" if np.ndim(arrays[W_in]) == 3 else ""
    for encoder in ("hf", "fh") if "W_in" in names else ("fh", "hf"):
        for decoder in ("fh", "hf") if W_out != W_in else (encoder,):
            axes = {W_in: several + encoder, W_out: several + decoder} | ({b: f"{several}f"} if b else {})
            layout = Layout(title, axes, W_out, W_in, b)
            if layout.fits({name: arrays[name] for name in axes}):
                return layout
    return None


def _hidden_bias_left_out(arrays: Mapping[str, Any], layout: Layout, n_hidden: int) -> str:
    """Return the name of an array outside a layout that may be a bias of the hidden neurons, or ""."""
    axes = np.ndim(arrays[layout.W_in]) - 1
    others = {name: np.shape(array) for name, array in arrays.items() if name not in layout.axes}
    return next(
        (name for name, shape in others.items() if shape[-1:] == (n_hidden,) and len(shape) == axes), ""
    )


def _fitting_layouts(arrays: Mapping[str, Any]) -> list[Layout]:
    """Return the known layouts that arrays fit; if none, those of one matrix and one vector of any names.

    Empty if there are none.
    """
    fitting = [layout for layout in LAYOUTS if layout.fits(arrays)]
    for weight, b in permutations(arrays) if len(arrays) == 2 and not fitting else ():
        both = [_layout_of(f"{weight} and {b}", arrays, {part: weight, "b": b}) for part in ("W_out", "W_in")]
        if fits := [layout for layout in both if layout is not None]:
            return fits
    return fitting


def _ready_keys(arrays: Mapping[str, Any]) -> str:
    """Return the text of an argument "keys={…}" with which arrays may be a toy model, or "" if none fits."""
    shapes = {name: tuple(np.shape(array)) for name, array in arrays.items()}
    matrices = [name for name, shape in shapes.items() if len(shape) == 2 and 1 not in shape]
    pairs = [
        (matrix, other) for matrix in matrices for other in matrices if matrix != other or len(matrices) == 1
    ]
    for encoder, decoder in pairs:
        m, n = shapes[encoder] if encoder != decoder else sorted(shapes[encoder])
        if m <= n and shapes[decoder] in ((n, m), shapes[encoder] if encoder == decoder else None):
            keys = {"W_in": encoder} | ({"W_out": decoder} if decoder != encoder else {})
            biases = [name for name, shape in shapes.items() if shape == (n,)]
            return f"keys={keys | ({'b': biases[0]} if biases else {})!r}"
    return ""


def _pick(fitting: list[Layout], arrays: Mapping[str, Any], layout: str | None) -> Layout:
    """Return the layout named `layout`, or the first if all that fit give the same products W_out W_in.

    A ValueError says which layouts fit if the name is none of them, or if they give different models.
    """
    if layout is not None:
        chosen = [candidate for candidate in fitting if candidate.name == layout]
        if not chosen:
            rule = f"one that the arrays have ({'; '.join(candidate.name for candidate in fitting)})"
            raise ValueError(f"`layout` must be {rule}; got {layout!r} for {summary(arrays)}.")
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
            raise ValueError(_question(fitting, arrays))
    return fitting[0]


def _question(fitting: list[Layout], arrays: Mapping[str, Any]) -> str:
    """Return the error message for a matrix that may be W_in or its transpose, with `keys` for both cases."""
    weight = fitting[0].W_in
    shape, b = tuple(np.shape(arrays[weight])), fitting[0].b
    named_b = {"b": b} if b in arrays else {}
    names = "; ".join(dict.fromkeys(candidate.name for candidate in fitting))
    return (
        f"`model` must say which axis of {weight!r} {shape} is that of the features, where names and shapes "
        f"leave several layouts ({names}): Model.of(model, keys={ {'W_in': weight} | named_b!r}) if it is "
        f"(n_hidden, n_features), keys={ {'W_out': weight} | named_b!r} if it is (n_features, n_hidden); "
        f"got {summary(arrays)}."
    )


def _check_shapes(
    arrays: Mapping[Any, Any], layout: str | None, keys: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return a toy model's arrays by name, of real numbers, without importance, losses and the like.

    What is no state dict of a toy model, and bad values of `layout` or `keys`, raise a ValueError.
    """
    if not isinstance(arrays, Mapping):
        raise ValueError(f"`arrays` must be a state dict; got {short_repr(arrays)}.")
    if keys is not None and not isinstance(keys, Mapping):
        raise ValueError(f"`keys` must map W_in, W_out and b to names of arrays; got {short_repr(keys)}.")
    shapes = named_arrays(arrays)
    if layout is not None:
        validation.choice("layout", layout, [known_layout.name for known_layout in LAYOUTS])
    for name, reason in _OTHERS.items():
        if name in shapes and keys is None:
            raise ValueError(f"`model` must be ReLU(W_out W_in x + b); {reason}: it has {name!r}.")
    return dict(require_numeric(drop_strays(shapes)))


def recognise(
    arrays: Mapping[Any, Any], *, layout: str | None = None, keys: Mapping[str, str] | None = None
) -> tuple[str, list[Weights]]:
    """Return (layout name, weights of each instance) of toy models in a state dict; ValueError if unknown.

    >>> name, models = recognise({"W": np.ones((3, 5, 2)), "b_final": np.zeros((3, 5))})
    >>> name, len(models), models[0].W_in.shape
    ('Anthropic notebook', 3, (2, 5))

    Parameters
    ----------
    arrays : mapping of str to array_like
        A state dict, or a checkpoint that holds one under a usual name.
    layout : str, optional
        Name of one of `LAYOUTS`, where shapes leave several (as many features as hidden neurons); or where
        hidden neurons have a bias or are more than the features, as in a sparse autoencoder: it says that
        they have no nonlinearity, which is refused otherwise.
    keys : mapping of str to str, optional
        Names of the arrays for "W_in", "W_out" (one of them for a tied model) and, if there is one, "b". A
        square one is (n_hidden, n_features) as W_in, and (n_features, n_hidden) as W_out.
    """
    shapes = _check_shapes(arrays, layout, keys)
    if keys is not None:
        own = layout_by_keys(shapes, keys)
        models = list(own.models(shapes))
        if other := _hidden_bias_left_out(shapes, own, len(models[0].W_in)):
            raise ValueError(
                "`keys` must leave out no bias of the hidden neurons, as these may have a nonlinearity too; "
                f"got {dict(keys)!r} for arrays with {other!r} {np.shape(shapes[other])}."
            )
        return own.name, models
    if shapes and all(name.isdecimal() for name in shapes) and layout in (None, _NUMBERED):
        (known_layout,) = (known_layout for known_layout in LAYOUTS if known_layout.name == _NUMBERED)
        if all(known_layout.fits({"W": array}) for array in shapes.values()):
            return known_layout.name, [
                model for array in shapes.values() for model in known_layout.models({"W": array})
            ]
    fitting = _fitting_layouts(shapes)
    if not fitting:
        ready = _ready_keys(shapes)
        by_keys = f"Model.of(model, {ready})" if ready else "Model.of(model, keys=...)"
        raise ValueError(
            f"`model` must have a known layout (validate.audit.LAYOUTS has {len(LAYOUTS)}); or, if it is "
            f"ReLU(W_out W_in x + b), {by_keys} must name its arrays; or pass the module, which is called; "
            f"got {summary(shapes)}."
        )
    chosen = _pick(fitting, shapes, layout)
    if layout is None and (why := chosen.doubt(shapes)):
        known = chosen.name in [known_layout.name for known_layout in LAYOUTS]
        keys_of_all = {"W_in": chosen.W_in} | ({"b": chosen.b} if chosen.b else {})
        say = f"layout={chosen.name!r}" if known else f"keys={keys_of_all!r}"
        raise ValueError(
            "`model` must have no nonlinearity on its hidden neurons, and may have one, as in a sparse "
            f"autoencoder: {why}. If it has none, say so by Model.of(model, {say}), or pass the module, which"
            f" is called; got {summary(shapes)}."
        )
    return chosen.name, list(chosen.models(shapes))
