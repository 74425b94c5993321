"""Layouts of toy models that are in public use: which array is the decoder, the encoder, the bias.

All stand for ReLU(W_out W_in x + b). Axes are written as letters: i instances, f features, h hidden neurons,
o one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..theory import arguments
from ..theory.arguments import FloatArray, shown

__all__ = ["LAYOUTS", "Layout", "Weights", "recognise"]


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
    """Whether the bias is known; where a model had one that its file leaves out, `b` is 0."""

    @property
    def tied(self) -> bool:
        """Whether the decoder is the transpose of the encoder, to single precision."""
        return bool(np.allclose(self.W_out, self.W_in.T, rtol=1e-6, atol=1e-7))


def sizes_of(
    axes: Mapping[str, str], optional: Mapping[str, str], arrays: Mapping[str, Any], known: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the size of each axis, a letter, of arrays by name; None if they are others, or sizes disagree.

    Examples
    --------
    >>> sizes_of({"W": "fh"}, {"b": "f"}, {"W": np.zeros((3, 2)), "b": np.zeros(3)}, {})
    {'f': 3, 'h': 2}
    """
    letters, sizes = {**optional, **axes}, dict(known)
    if not axes.keys() <= arrays.keys() <= letters.keys():
        return None
    for name, array in arrays.items():
        if array.ndim != len(letters[name]):
            return None
        for axis, size in zip(letters[name], array.shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                return None
    return sizes


@dataclass(frozen=True)
class Layout:
    """The names and axes of the arrays of one kind of file."""

    name: str
    axes: Mapping[str, str]
    """Axes of the arrays that have to be there."""
    W_out: str = "W"
    W_in: str = "W"
    b: str | None = None
    """Without one biases are 0."""
    optional: Mapping[str, str] = field(default_factory=dict)
    """Axes of what may be there: a bias of the outputs, or one of the hidden neurons, which is folded in."""
    hidden_bias: str | None = None
    scale: str | None = None
    """A number that multiplies the outputs."""
    b_saved: bool = True
    """Whether files have the bias, if the model has one."""

    def doubt(self, arrays: Mapping[str, Any]) -> str:
        """Say why the hidden neurons of these arrays may have a nonlinearity, or nothing.

        Names do not tell: networks with one have layers of the same names, sparse autoencoders above all.
        """
        if self.hidden_bias in arrays:
            return f"its hidden neurons have a bias ({self.hidden_bias!r})"
        n, m = (np.shape(arrays[self.W_in])[self.axes[self.W_in].index(axis)] for axis in "fh")
        return f"it has more hidden neurons ({m}) than features ({n})" if m > n else ""

    def fits(self, arrays: Mapping[str, Any]) -> bool:
        """Whether the arrays are these, and their shapes agree."""
        sizes = sizes_of(self.axes, self.optional, arrays, {"o": 1})
        # One matrix alone could be either way round; those whose files have no bias are of many features.
        return sizes is not None and (self.b_saved or sizes["f"] > sizes["h"])

    def models(self, arrays: Mapping[str, Any]) -> Iterator[Weights]:
        """Yield the instances."""
        known = {**self.optional, **self.axes}

        def stack(name: str, order: str) -> FloatArray:
            array, axes = np.asarray(arrays[name], float), known[name]
            if "o" in axes:
                array, axes = array.squeeze(axes.index("o")), axes.replace("o", "")
            if "i" not in axes:
                array, axes = array[None], f"i{axes}"
            return np.ascontiguousarray(array.transpose([axes.index(axis) for axis in f"i{order}"]))

        W_out, W_in = stack(self.W_out, "fh"), stack(self.W_in, "hf")
        b = stack(str(self.b), "f") if self.b in arrays else np.zeros(W_out.shape[:2])
        if self.hidden_bias in arrays:
            b = b + np.einsum("ifh,ih->if", W_out, stack(str(self.hidden_bias), "h"))
        if self.scale in arrays:  # scale ReLU(y) = ReLU(scale y), as the scale is not negative
            factor = float(np.asarray(arrays[str(self.scale)]))
            if not factor >= 0.0:
                raise ValueError(f"`{self.scale}` must not be negative; got {factor:g}.")
            W_out, b = factor * W_out, factor * b
        for one in zip(W_out, W_in, b, strict=True):
            yield Weights(*one, self.b_saved)

    def arrays(self, model: Weights) -> dict[str, FloatArray]:
        """Return the arrays of one model, the inverse of `models`; a layout with instances gets one.

        Raises
        ------
        ValueError
            If there is no place for free weights or for biases.
        """
        if self.W_out == self.W_in and not np.array_equal(model.W_out, model.W_in.T):
            raise ValueError(f"`layout` must be one of free weights for this model; got {self.name!r}.")
        if self.b is None and np.any(model.b):
            raise ValueError(f"`layout` must be one with biases for this model; got {self.name!r}.")
        known, found = {**self.optional, **self.axes}, {}
        parts = [(self.W_out, model.W_out, "fh"), (self.W_in, model.W_in, "hf"), (self.b, model.b, "f")]
        for name, array, order in parts:
            if name is not None:
                single = tuple(k for k, axis in enumerate(known[name]) if axis in "io")
                kept = [order.index(axis) for axis in known[name] if axis in order]
                found[name] = np.array(np.expand_dims(array.transpose(kept), single), order="C")
        return found


def _linear(name: str, first: str, last: str, **more: Any) -> Layout:
    """Return the layout of two `torch.nn.Linear`, whose weights are (outputs, inputs)."""
    return Layout(
        name,
        {f"{first}.weight": "hf", f"{last}.weight": "fh"},
        f"{last}.weight",
        f"{first}.weight",
        f"{last}.bias",
        {f"{last}.bias": "f", f"{first}.bias": "h"} | more.pop("optional", {}),
        f"{first}.bias",
        **more,
    )


def _tied(name: str, weight: str, axes: str, b: str, b_axes: str | None = None) -> Layout:
    """Return the layout of one matrix that encodes and decodes, and a bias."""
    return Layout(name, {weight: axes, b: b_axes or ("if" if "i" in axes else "f")}, weight, weight, b)


LAYOUTS = (
    Layout("superposition", {"W_out": "fh", "W_in": "hf", "b": "f"}, "W_out", "W_in", "b"),
    Layout("superposition, several", {"W_out": "ifh", "W_in": "ihf", "b": "if"}, "W_out", "W_in", "b"),
    _tied("Anthropic notebook", "W", "ifh", "b_final"),
    _tied("ARENA", "W", "ihf", "b_final"),
    _tied("SAELens", "W", "hf", "b_final"),
    _tied("adonath jax", "w", "ifh", "b_final"),
    _linear("goodfire-ai/spd", "linear1", "linear2"),
    _tied("ApolloResearch/apd", "linear1.weight", "ifh", "b_final"),
    _linear("KfirD/PersianRug", "initial_layer", "final_layer"),
    _tied("liuyz0/SuperpositionScaling", "W", "fh", "b"),
    Layout("liuyz0/SuperpositionScaling, W alone", {"W": "fh"}, b_saved=False),
    _tied("zfurman56", "W", "hf", "b"),
    _tied("zroe1", "weights", "ihf", "bias", "ifo"),
    _tied("darkmatter08", "w1_2t", "hf", "b_1t"),
    Layout("darkmatter08, untied", {"w1_2t": "hf", "w2_2t": "fh", "b_1t": "f"}, "w2_2t", "w1_2t", "b_1t"),
    _tied("darkmatter08, several", "w_3t", "ifh", "b_2t", "iof"),
    _tied("LucasPrietoAl/correlations-feature-geometry", "encoder.weight", "hf", "decoder_bias"),
    _linear("LucasPrietoAl/correlations-feature-geometry, untied", "encoder", "decoder"),
    _tied("LucasPrietoAl/correlations-feature-geometry, text", "enc.weight", "hf", "bias"),
    _linear(
        "timaeus-research/devinterp",
        "embedding",
        "unembedding",
        optional={"scale_factor": ""},
        scale="scale_factor",
    ),
    Layout("tmychow/accidental-polysemanticity", {"W": "ifh"}),
    Layout("tmychow/accidental-polysemanticity, untied", {"W_enc": "ifh", "W_dec": "ifh"}, "W_dec", "W_enc"),
)

# Files of public code that are not such a model: a name that gives them away, and the reason.
_OTHERS = {
    "hidden_layers.0.weight": "it has several layers",
    "layers.0.weight": "it has several layers",
    "W1": "its hidden neurons have a nonlinearity (ARENA's model of computation)",
    "b_enc": "it is a sparse autoencoder, which `sae` takes",
    "Adiag": "its weights are random rows that were not saved (PersianRug's Hadamard models)",
}
_PREFIXES = ("_orig_mod.", "module.", "model.")
_CONTAINERS = ("state_dict", "model_state", "model_state_dict", "model", "W")
# Beside the weights in files of public code.
_IGNORED = ("losses",)
# A file of matrices of several sizes, under numbers, has this layout for each.
_NUMBERED = "liuyz0/SuperpositionScaling, W alone"


def named(arrays: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the arrays of a state dict, or of the one in a checkpoint, without prefixes of wrappers."""
    for name in _CONTAINERS:
        if isinstance(arrays.get(name), Mapping):
            return named(arrays[name])
    found = {str(name): array for name, array in arrays.items() if name not in _IGNORED}
    for prefix in _PREFIXES:
        if found and all(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): array for name, array in found.items()}
    return found


def _summary(arrays: Mapping[str, Any]) -> str:
    """Return names and shapes in a line, not too long."""
    return shown(", ".join(f"{name} {tuple(np.shape(array))}" for name, array in arrays.items()))


def _by_keys(arrays: Mapping[str, Any], keys: Mapping[str, str]) -> Layout:
    """Return the layout in which the user names the arrays, with the axes that their shapes allow."""
    unknown = sorted(
        {*keys} - {"W_out", "W_in", "b"} | {name for name in keys.values() if name not in arrays}
    )
    if unknown or "W_in" not in keys:
        raise ValueError(
            "`keys` must name arrays of the file for W_in, and W_out and b if it has them; got "
            f"{dict(keys)!r} for {_summary(arrays)}."
        )
    W_in, W_out, b = keys["W_in"], keys.get("W_out", keys["W_in"]), keys.get("b")
    first = "i" if np.ndim(arrays[W_in]) == 3 else ""
    for encoder in ("hf", "fh"):
        for decoder in ("fh", "hf") if W_out != W_in else (encoder,):
            axes = {W_in: first + encoder, W_out: first + decoder} | ({b: f"{first}f"} if b else {})
            layout = Layout("keys", axes, W_out, W_in, b)
            if layout.fits({name: arrays[name] for name in axes}):
                return layout
    raise ValueError(f"`keys` must name arrays whose shapes multiply; got {_summary(arrays)}.")


def _left_out(arrays: Mapping[str, Any], keys: Mapping[str, str], hidden: int) -> str:
    """Return the name of an array that `keys` does not name and that may be a bias of the hidden neurons."""
    axes = np.ndim(arrays[keys["W_in"]]) - 1
    others = {name: np.shape(array) for name, array in arrays.items() if name not in keys.values()}
    return next(
        (name for name, shape in others.items() if shape[-1:] == (hidden,) and len(shape) == axes), ""
    )


def _fitting(arrays: Mapping[str, Any], layout: str | None) -> list[Layout]:
    """Return the layouts that arrays have, or the one of these that is named."""
    fitting = [one for one in LAYOUTS if one.fits(arrays)]
    if layout is None or not fitting:
        return fitting
    chosen = [one for one in fitting if one.name == layout]
    if not chosen:
        rule = f"one that the arrays have ({'; '.join(one.name for one in fitting)})"
        raise ValueError(f"`layout` must be {rule}; got {layout!r} for {_summary(arrays)}.")
    return chosen


def _checked(
    arrays: Mapping[Any, Any], layout: str | None, keys: Mapping[str, str] | None
) -> dict[str, FloatArray]:
    """Return the arrays by name, all of real numbers."""
    if not isinstance(arrays, Mapping):
        raise ValueError(f"`arrays` must be a state dict; got {shown(arrays)}.")
    if keys is not None and not isinstance(keys, Mapping):
        raise ValueError(f"`keys` must map W_in, W_out and b to names of arrays; got {shown(keys)}.")
    found = named(arrays)
    if layout is not None:
        arguments.choice("layout", layout, [one.name for one in LAYOUTS])
    for name, reason in _OTHERS.items():
        if name in found and keys is None:
            raise ValueError(f"`model` must be ReLU(W_out W_in x + b); {reason}: it has {name!r}.")
    for name, array in found.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            raise ValueError(f"`model` must hold arrays of real numbers; {name!r} is {shown(array)}.")
    return found


def recognise(
    arrays: Mapping[Any, Any], *, layout: str | None = None, keys: Mapping[str, str] | None = None
) -> tuple[str, list[Weights]]:
    """Return the name of the layout of a state dict and the models in it.

    Parameters
    ----------
    arrays : mapping of str to array_like
        A state dict, or a checkpoint that holds one under a usual name.
    layout : str, optional
        Name of one of `LAYOUTS`, where shapes leave several (as many features as hidden neurons).
    keys : mapping of str to str, optional
        Names of the arrays for "W_in" and, if there are any, "W_out" and "b", for a layout of one's own.

    Returns
    -------
    str
        Name of the layout.
    list of Weights
        The instances.

    Raises
    ------
    ValueError
        If the arrays have no known layout, or several, or not the one that is named; it lists what was found.
        If the hidden neurons may have a nonlinearity, as in a sparse autoencoder: they have a bias, or are
        more than the features. `layout` then says that there is none.

    Examples
    --------
    >>> name, models = recognise({"W": np.ones((3, 5, 2)), "b_final": np.zeros((3, 5))})
    >>> name, len(models), models[0].W_in.shape
    ('Anthropic notebook', 3, (2, 5))
    """
    found = _checked(arrays, layout, keys)
    if keys is not None:
        own = _by_keys(found, keys)
        models = list(own.models(found))
        if other := _left_out(found, keys, len(models[0].W_in)):
            raise ValueError(
                "`keys` must leave out no bias of the hidden neurons, as these may have a nonlinearity too; "
                f"got {dict(keys)!r} for arrays with {other!r} {np.shape(found[other])}."
            )
        return own.name, models
    if found and all(name.isdecimal() for name in found) and layout in (None, _NUMBERED):
        (one,) = (one for one in LAYOUTS if one.name == _NUMBERED)
        if all(one.fits({"W": array}) for array in found.values()):
            return one.name, [model for array in found.values() for model in one.models({"W": array})]
    fitting = _fitting(found, layout)
    if not fitting:
        raise ValueError(
            f"`model` must have a known layout (the page Audits lists {len(LAYOUTS)}), or `keys` must "
            f"name its W_in, W_out and b; got {_summary(found)}."
        )
    if len(fitting) > 1:
        raise ValueError(
            "`layout` must be given where shapes leave several: "
            f"{', '.join(one.name for one in fitting)}; got {_summary(found)}."
        )
    if layout is None and (why := fitting[0].doubt(found)):
        raise ValueError(
            "`model` must have no nonlinearity on its hidden neurons, and may have one, as in a sparse "
            f"autoencoder: {why}. If it has none, `layout` must be given as {fitting[0].name!r}; got "
            f"{_summary(found)}."
        )
    return fitting[0].name, list(fitting[0].models(found))
