"""Layouts of toy models in public use: which array is the decoder, the encoder, the bias.

All models are ReLU(W_out W_in x + b). Axes are written as letters: i instances, f features, h hidden neurons,
o one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...theory.validation import FloatArray

__all__ = ["LAYOUTS", "Layout", "Weights", "as_axes", "instances_of", "sizes_of"]


@dataclass(frozen=True)
class Weights:
    """A model ReLU(W_out W_in x + b)."""

    W_out: FloatArray
    """Decoder. Shape (n_features, n_hidden)."""
    W_in: FloatArray
    """Encoder. Shape (n_hidden, n_features)."""
    b: FloatArray
    """Bias. Shape (n_features,)."""
    b_saved: bool = True
    """Whether the bias is known; if a file leaves out the model's bias, `b` is 0."""

    @property
    def tied(self) -> bool:
        """Whether the decoder is the transpose of the encoder, to single precision."""
        return bool(np.allclose(self.W_out, self.W_in.T, rtol=1e-6, atol=1e-7))


def as_axes(array: Any, letters: str) -> FloatArray | None:
    """Return an array if it has one axis for each of the `letters`, else None.

    A matrix of one row or column counts as a vector.

    >>> as_axes(np.zeros((3, 1)), "f").shape, as_axes(np.zeros((3, 2)), "f")
    ((3,), None)
    """
    shaped = np.asarray(array)
    if shaped.ndim == len(letters) + 1 and len(letters.replace("i", "")) == 1:
        single = [axis for axis in (-1, -2) if shaped.shape[axis] == 1]
        shaped = shaped.squeeze(single[0]) if single else shaped
    return shaped if shaped.ndim == len(letters) else None


def sizes_of(
    axes: Mapping[str, str], optional: Mapping[str, str], arrays: Mapping[str, Any], known: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the size of each axis letter, or None if arrays are missing or unknown, or sizes disagree.

    `axes` maps the names of required arrays to a letter for each axis, `optional` those of other arrays;
    `known` are sizes fixed beforehand.

    >>> sizes_of({"W": "fh"}, {"b": "f"}, {"W": np.zeros((3, 2)), "b": np.zeros(3)}, {})
    {'f': 3, 'h': 2}
    """
    letters, sizes = {**optional, **axes}, dict(known)
    if not axes.keys() <= arrays.keys() <= letters.keys():
        return None
    for name, array in arrays.items():
        if (shaped := as_axes(array, letters[name])) is None:
            return None
        for axis, size in zip(letters[name], shaped.shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                return None
    return sizes


def instances_of(axes: Mapping[str, str], arrays: Mapping[str, Any]) -> list[dict[str, FloatArray]]:
    """Return the arrays of each instance by name, as doubles.

    `axes` maps the names of arrays to a letter for each axis: i is the axis of instances, o one of length 1.
    The arrays of the result have neither axis.
    """
    doubles, count = {}, 1
    for name, letters in axes.items():
        if name in arrays:
            array = np.asarray(as_axes(arrays[name], letters), float)
            doubles[name] = array.squeeze(letters.index("o")) if "o" in letters else array
            count = len(array) if letters.startswith("i") else count
    return [
        {name: array[k] if axes[name].startswith("i") else array for name, array in doubles.items()}
        for k in range(count)
    ]


@dataclass(frozen=True)
class Layout:
    """The names and axes of the arrays of one kind of file."""

    name: str
    axes: Mapping[str, str]
    """Axes of each required array, a letter for each axis, by the array's name."""
    W_out: str = "W"
    """Name of the decoder's array."""
    W_in: str = "W"
    """Name of the encoder's array, the decoder's if the model is tied."""
    b: str | None = None
    """Name of the output bias; None means biases of 0."""
    optional: Mapping[str, str] = field(default_factory=dict)
    """Axes of arrays that may be missing: a bias of the outputs or hidden neurons, a scale."""
    hidden_bias: str | None = None
    """Name of the hidden neurons' bias, which is folded into the output bias."""
    scale: str | None = None
    """Name of a number that multiplies the outputs."""
    b_saved: bool = True
    """Whether files have the bias, if the model has one."""

    def size(self, axis: str, arrays: Mapping[str, Any]) -> int:
        """Return the number of features (axis "f") or hidden neurons ("h") in arrays of this layout."""
        return int(np.shape(arrays[self.W_in])[self.axes[self.W_in].index(axis)])

    def doubt(self, arrays: Mapping[str, Any]) -> str:
        """Return a clause on why hidden neurons of these arrays may have a nonlinearity; "" without a reason.

        Nonlinear networks, above all sparse autoencoders, have layers of the same names.
        """
        if self.hidden_bias in arrays:
            return f"its hidden neurons have a bias ({self.hidden_bias!r})"
        n, m = self.size("f", arrays), self.size("h", arrays)
        return f"it has more hidden neurons ({m}) than features ({n})" if m > n else ""

    def fits(self, arrays: Mapping[str, Any]) -> bool:
        """Return whether the arrays have this layout's names, and shapes that agree."""
        sizes = sizes_of(self.axes, self.optional, arrays, {"o": 1})
        # One matrix alone could be either way round; those whose files have no bias are of many features.
        return sizes is not None and (self.b_saved or sizes["f"] > sizes["h"])

    def models(self, arrays: Mapping[str, Any]) -> Iterator[Weights]:
        """Yield the weights of each instance in arrays of this layout.

        A hidden bias and a stored scale of the outputs are folded in; a negative scale raises a ValueError.
        """
        axes = {**self.optional, **self.axes}
        for parts in instances_of(axes, arrays):
            W_out, W_in = (
                np.ascontiguousarray(parts[name] if axes[name].endswith(order) else parts[name].T)
                for name, order in ((self.W_out, "fh"), (self.W_in, "hf"))
            )
            b = parts[str(self.b)] if self.b in parts else np.zeros(len(W_out))
            if self.hidden_bias in parts:
                b = b + W_out @ parts[str(self.hidden_bias)]
            if self.scale in parts:  # scale ReLU(y) = ReLU(scale y), as the scale is not negative
                factor = float(parts[str(self.scale)])
                if not factor >= 0.0:
                    raise ValueError(f"`{self.scale}` must not be negative; got {factor:g}.")
                W_out, b = factor * W_out, factor * b
            yield Weights(W_out, W_in, b, self.b_saved)

    def arrays(self, model: Weights) -> dict[str, FloatArray]:
        """Return the arrays by name in which this layout stores one model, the inverse of `models`.

        A tied layout for an untied model, or one without bias for a model with biases, raises a ValueError.
        """
        if self.W_out == self.W_in and not np.array_equal(model.W_out, model.W_in.T):
            raise ValueError(f"`layout` must be one of free weights for this model; got {self.name!r}.")
        if self.b is None and np.any(model.b):
            raise ValueError(f"`layout` must be one with biases for this model; got {self.name!r}.")
        axes, arrays_by_role = {**self.optional, **self.axes}, {}
        parts = [(self.W_out, model.W_out, "fh"), (self.W_in, model.W_in, "hf"), (self.b, model.b, "f")]
        for name, array, order in parts:
            if name is not None:
                single = tuple(k for k, axis in enumerate(axes[name]) if axis in "io")
                order_of_axes = [order.index(axis) for axis in axes[name] if axis in order]
                arrays_by_role[name] = np.array(
                    np.expand_dims(array.transpose(order_of_axes), single), order="C"
                )
        return arrays_by_role


def _linear_layout(name: str, first: str, last: str, **options: Any) -> Layout:
    """Return the layout `name` of two `torch.nn.Linear`, `first` and `last`, with weights (outputs, inputs).

    `options` has further fields of the `Layout`.
    """
    return Layout(
        name,
        {f"{first}.weight": "hf", f"{last}.weight": "fh"},
        f"{last}.weight",
        f"{first}.weight",
        f"{last}.bias",
        {f"{last}.bias": "f", f"{first}.bias": "h"} | options.pop("optional", {}),
        f"{first}.bias",
        **options,
    )


def _tied_layout(name: str, weight: str, axes: str, b: str, b_axes: str | None = None) -> Layout:
    """Return the layout `name` of a tied model: one matrix named `weight` with `axes`, and a bias named `b`.

    `axes` has a letter for each axis: i for instances, f for features, h for hidden neurons. `b_axes` are the
    bias's, by default features, for each instance if the matrix has instances.
    """
    return Layout(name, {weight: axes, b: b_axes or ("if" if "i" in axes else "f")}, weight, weight, b)


LAYOUTS = (
    Layout("superposition", {"W_out": "fh", "W_in": "hf", "b": "f"}, "W_out", "W_in", "b"),
    Layout("superposition, several", {"W_out": "ifh", "W_in": "ihf", "b": "if"}, "W_out", "W_in", "b"),
    _tied_layout("Anthropic notebook", "W", "ifh", "b_final"),
    _tied_layout("ARENA", "W", "ihf", "b_final"),
    _tied_layout("Anthropic notebook, one", "W", "fh", "b_final"),
    _tied_layout("SAELens", "W", "hf", "b_final"),
    _tied_layout("adonath jax", "w", "ifh", "b_final"),
    _linear_layout("goodfire-ai/spd", "linear1", "linear2"),
    _tied_layout("ApolloResearch/apd", "linear1.weight", "ifh", "b_final"),
    _linear_layout("KfirD/PersianRug", "initial_layer", "final_layer"),
    _tied_layout("liuyz0/SuperpositionScaling", "W", "fh", "b"),
    Layout("liuyz0/SuperpositionScaling, W alone", {"W": "fh"}, b_saved=False),
    _tied_layout("zfurman56", "W", "hf", "b"),
    _tied_layout("zroe1", "weights", "ihf", "bias", "ifo"),
    _tied_layout("darkmatter08", "w1_2t", "hf", "b_1t"),
    Layout("darkmatter08, untied", {"w1_2t": "hf", "w2_2t": "fh", "b_1t": "f"}, "w2_2t", "w1_2t", "b_1t"),
    _tied_layout("darkmatter08, several", "w_3t", "ifh", "b_2t", "iof"),
    _tied_layout("LucasPrietoAl/correlations-feature-geometry", "encoder.weight", "hf", "decoder_bias"),
    _linear_layout("LucasPrietoAl/correlations-feature-geometry, untied", "encoder", "decoder"),
    _tied_layout("LucasPrietoAl/correlations-feature-geometry, text", "enc.weight", "hf", "bias"),
    _linear_layout(
        "timaeus-research/devinterp",
        "embedding",
        "unembedding",
        optional={"scale_factor": ""},
        scale="scale_factor",
    ),
    Layout("tmychow/accidental-polysemanticity", {"W": "ifh"}),
    Layout("tmychow/accidental-polysemanticity, untied", {"W_enc": "ifh", "W_dec": "ifh"}, "W_dec", "W_enc"),
)
