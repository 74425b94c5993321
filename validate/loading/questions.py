"""Questions to the user about the roles of arrays, with the `keys` of each answer ready to be pasted."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import numpy as np

from .arrays import summarise_shapes
from .layouts import LAYOUTS, Layout, as_axes
from .names import encoder_first, may_be_bias


def _matrix_pairs(arrays: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names (encoder, decoder) of two matrices of the same sizes, in both orders if names do not tell.

    A single matrix of `arrays` is both. With more than two matrices nothing is yielded.
    """
    matrices = [name for name, array in arrays.items() if np.ndim(array) == 2 and 1 not in np.shape(array)]
    if len(matrices) == 1:
        yield matrices[0], matrices[0]
    if len(matrices) == 2 and len({tuple(sorted(np.shape(arrays[name]))) for name in matrices}) == 1:
        pair = encoder_first(*matrices)
        yield from [pair] if pair else permutations(matrices)


def _keys_texts(arrays: Mapping[str, Any]) -> tuple[str, str]:
    """Return texts of possible arguments `keys`: for a toy model, and for a sparse autoencoder with ReLUs.

    Such an argument, "keys={…}", maps parts such as W_in to names of arrays. A text is "" if no keys fit
    `arrays`, and has several if names do not tell which matrix is the encoder.
    """
    sizes = {name: np.size(array) for name, array in arrays.items() if as_axes(array, "f") is not None}
    toys, autoencoders = [], []
    for encoder, decoder in _matrix_pairs(arrays):
        h, f = sorted(np.shape(arrays[encoder]))
        of_h, of_f = ([name for name, size in sizes.items() if size == length] for length in (h, f))
        of_h = of_h if h < f else []
        biases = [may_be_bias(name, hidden=True) for name in of_h] + [may_be_bias(name) for name in of_f]
        keys = {"W_in": encoder} | ({"W_out": decoder} if decoder != encoder else {})
        keys |= dict(zip(["b_in"], of_h, strict=False)) | dict(zip(["b"], of_f, strict=False))
        rows, columns = np.shape(arrays[encoder])
        of_torch = encoder.endswith("weight") and encoder != decoder  # (outputs, inputs)
        if all(biases) and len(of_h) < 2 and len(of_f) < 2 and not (of_torch and rows > columns):
            toys.append(f"keys={keys!r}")
        if encoder != decoder and len(of_h) == len(of_f) == 1 and not (of_torch and rows < columns):
            keys = {"W_enc": encoder, "b_enc": of_f[0], "W_dec": decoder, "b_dec": of_h[0]}
            autoencoders.append(f"keys={keys!r}")
    return " or ".join(toys), " or ".join(autoencoders)


def _autoencoder_hint(keys: str) -> str:
    """Return a clause with the call that reads arrays as a sparse autoencoder; "" if `keys` is "".

    `keys` is the text of an argument of this call, such as "keys={'W_enc': …}".
    """
    say = f"Model.of(model, {keys}, apply_b_dec_to_input=True), or False"
    return f"; if it is a sparse autoencoder with ReLUs, {say}" if keys else ""


def ask_names(arrays: Mapping[str, Any]) -> str:
    """Return the message that asks for the layout, or the roles, of arrays of no known layout."""
    toy, autoencoder = _keys_texts(arrays)
    say = f"; or, if it is ReLU(W_out W_in x + b), Model.of(model, {toy or 'keys=...'}) must name its arrays"
    return (
        f"`model` must have a known layout (validate.audit.LAYOUTS has {len(LAYOUTS)})"
        f"{say if toy or not autoencoder else ''}{_autoencoder_hint(autoencoder)}; or pass the module, which "
        f"is called; got {summarise_shapes(arrays)}."
    )


def ask_linear(arrays: Mapping[str, Any], layout: Layout, why: str) -> str:
    """Return the message that asks whether hidden neurons are linear; `why` is the reason for doubt.

    `layout` is the layout of the arrays if their hidden neurons are linear.
    """
    keys = {"W_in": layout.W_in} | ({"b": layout.b} if layout.b else {})
    say = f"layout={layout.name!r}" if layout in LAYOUTS else f"keys={keys!r}"
    return (
        "`model` must have no nonlinearity on its hidden neurons, which its arrays do not tell; they may be "
        f"those of a sparse autoencoder: {why}. If it has none, say so by Model.of(model, {say})"
        f"{_autoencoder_hint(_keys_texts(arrays)[1])}; or pass the module, which is called; got "
        f"{summarise_shapes(arrays)}."
    )


def ask_axis(arrays: Mapping[str, Any], fitting: list[Layout]) -> str:
    """Return the message that asks whether a matrix is W_in or its transpose, if layouts of both kinds fit.

    `fitting` are the layouts that names and shapes allow.
    """
    weight = fitting[0].W_in
    shape, b = tuple(np.shape(arrays[weight])), fitting[0].b
    named_b = {"b": b} if b in arrays else {}
    names = "; ".join(dict.fromkeys(candidate.name for candidate in fitting))
    return (
        f"`model` must say which axis of {weight!r} {shape} is that of the features, where names and shapes "
        f"leave several layouts ({names}): Model.of(model, keys={ {'W_in': weight} | named_b!r}) if it is "
        f"(n_hidden, n_features), keys={ {'W_out': weight} | named_b!r} if it is (n_features, n_hidden); "
        f"got {summarise_shapes(arrays)}."
    )
