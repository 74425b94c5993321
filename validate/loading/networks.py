"""Layouts of networks with nonlinear hidden neurons, as public code stores them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...theory.model import Model
from ...theory.validation import FloatArray
from .arrays import summarise_shapes
from .layouts import instances_of, sizes_of

__all__ = ["NETWORKS", "NETWORK_NAMES", "NetworkLayout"]


@dataclass(frozen=True)
class NetworkLayout:
    """A layout of networks: names and axes of the arrays, and the function that makes a model from them.

    Axes are features f, hidden neurons h, outputs y, an embedding d and instances i.
    """

    name: str
    axes: Mapping[str, str]
    """Axes of each required array, a letter for each axis, by the array's name."""
    make_model: Callable[[dict[str, FloatArray]], Model]
    """Function from the arrays of one instance by name to its model."""
    optional: Mapping[str, str] = field(default_factory=dict)
    """Axes of arrays that may be missing."""
    named: bool = False
    """Whether the layout must be named: the arrays might be of another kind of model too."""
    overcomplete: bool = False
    """Whether hidden neurons must be more than features."""

    def fits(self, arrays: Mapping[str, Any]) -> bool:
        """Return whether the arrays have this layout's names, and shapes that agree."""
        sizes = sizes_of(self.axes, self.optional, arrays, {})
        return sizes is not None and (not self.overcomplete or sizes["h"] > sizes["f"])

    def models(self, arrays: Mapping[str, Any]) -> list[Model]:
        """Return the model of each instance in arrays of this layout."""
        return [self.make_model(parts) for parts in instances_of({**self.optional, **self.axes}, arrays)]


def _network_maker(
    W_in: str,
    W_out: str,
    b_in: str = "",
    b: str = "",
    thresholds: str = "",
    output: str = "identity",
    transposed: bool = False,
) -> Callable[[dict[str, FloatArray]], Model]:
    """Return a function from arrays by name to a model.

    W_in, W_out, b_in, b and `thresholds` are names of arrays. Without the arrays b_in or b these biases are
    0, without `thresholds` neurons are ReLUs. With `transposed`, matrices are (inputs, outputs); `output` is
    the activation of the outputs.
    """

    def make_model(arrays: dict[str, FloatArray]) -> Model:
        """Return the model of arrays by name; its hidden neurons are JumpReLUs if there are thresholds."""
        into, out = arrays[W_in], arrays[W_out]
        if transposed:
            into, out = into.T, out.T
        biases = arrays.get(b_in, 0.0), arrays.get(b, 0.0)
        if thresholds not in arrays:
            return Model(into, biases[0], "relu", out, biases[1], output)
        # Below 0 a JumpReLU is a ReLU, since it cuts that off as well.
        return Model(into, biases[0], "jumprelu", out, biases[1], output, np.maximum(arrays[thresholds], 0.0))

    return make_model


def _add_linear_path(model: Model, by: FloatArray) -> Model:
    """Return a model with `by` x added to its outputs, by neurons for ReLU(x) and ReLU(-x).

    `by` is a matrix (n_outputs, n_features); hidden neurons are ReLUs, and outputs linear.
    """
    eye = np.eye(model.n_features)
    W_in = np.concatenate([model.W_in, eye, 0.0 - eye])
    b_in = np.concatenate([model.b_in, np.zeros(2 * len(eye))])
    return Model(W_in, b_in, "relu", np.concatenate([model.W_out, by, -by], axis=1), model.b, "identity")


def _residual_mlp(arrays: dict[str, FloatArray]) -> Model:
    """Return the model of goodfire-ai/spd's residual MLP of one layer, the residual path as neurons.

    The MLP computes U' (r + W_out ReLU(W_in r + b_in) + b) with r = E' x. `arrays` have its names: E, "W_E"
    (n_features, d); U, "W_U" (d, n_features); weights and biases of "layers.0.mlp_in", "layers.0.mlp_out".
    """
    E, U = arrays["W_E"], arrays["W_U"]
    into, out = arrays["layers.0.mlp_in.weight"], arrays["layers.0.mlp_out.weight"]
    b_in, b = arrays.get("layers.0.mlp_in.bias", 0.0), arrays.get("layers.0.mlp_out.bias")
    model = Model(into @ E.T, b_in, "relu", U.T @ out, 0.0 if b is None else U.T @ b, "identity")
    return _add_linear_path(model, (E @ U).T)


def _skip_network(arrays: dict[str, FloatArray]) -> Model:
    """Return the model of layers W1, W2 with a skip connection from x to the outputs, as neurons.

    The network computes W2 ReLU(W1 x + b1) + b2 + x, and x = ReLU(x) - ReLU(-x) takes further hidden neurons.
    `arrays` has "W1", "W2" and biases "b1", "b2"; a missing bias is 0.
    """
    model = _network_maker("W1", "W2", "b1", "b2")(arrays)
    return _add_linear_path(model, np.eye(model.n_features))


def _embedded_network(arrays: dict[str, FloatArray]) -> Model:
    """Return the model x -> E' W_out ReLU(W_in E x) of a fixed embedding E, without biases.

    `arrays` has "E" (d, n_features), "W_in" (n_hidden, d) and "W_out" (d, n_hidden).
    """
    E = arrays["E"]
    return Model(arrays["W_in"] @ E, hidden="relu", W_out=E.T @ arrays["W_out"], output="identity")


def _arena_autoencoder(arrays: dict[str, FloatArray]) -> Model:
    """Return the autoencoder of ARENA's exercises, which normalises the rows of its decoder at each call.

    `arrays` has "W_enc" (d, latents), "b_enc" (latents,), and "b_dec" (d,), which is also subtracted from
    inputs. An untied decoder is "_W_dec" (latents, d).
    """
    W_enc, b_dec = arrays["W_enc"], arrays["b_dec"]
    W_dec = arrays.get("_W_dec", W_enc.T)
    W_dec = W_dec / (np.linalg.norm(W_dec, axis=1, keepdims=True) + _EPS)
    return Model(W_enc.T, arrays["b_enc"] - b_dec @ W_enc, "relu", W_dec.T, b_dec, "identity")


def _centred_autoencoder(arrays: dict[str, FloatArray]) -> Model:
    """Return dictionary_learning's autoencoder, whose "bias" is subtracted from inputs and added to outputs.

    `arrays` has "encoder.weight", "encoder.bias", "decoder.weight" and "bias".
    """
    W_enc, b_dec = arrays["encoder.weight"], arrays["bias"]
    b_in = arrays["encoder.bias"] - W_enc @ b_dec
    return Model(W_enc, b_in, "relu", arrays["decoder.weight"], b_dec, "identity")


# Added to the norms by which ARENA divides; their default.
_EPS = 1e-8
_DEEP = "hidden_layers.0.weight"
_LINEAR = "goodfire-ai/spd, hidden layers"
_CIS = "Stefan-Heimersheim/toy-model-of-computation-in-superposition, Cis"
_MLP = "layers.0.mlp_in", "layers.0.mlp_out"

NETWORKS = (
    NetworkLayout(
        "superposition, network",
        {"W_in": "hf", "W_out": "yh", "b_in": "h", "b": "y"},
        _network_maker("W_in", "W_out", "b_in", "b", "thresholds"),
        {"thresholds": "h"},
    ),
    NetworkLayout(
        "Sequential(Linear, ReLU, Linear)",
        {"0.weight": "hf", "2.weight": "yh"},
        _network_maker("0.weight", "2.weight", "0.bias", "2.bias"),
        {"0.bias": "h", "2.bias": "y"},
    ),
    NetworkLayout(
        "goodfire-ai/spd, ResidMLP",
        {"W_E": "fd", "W_U": "dy", f"{_MLP[0]}.weight": "hd", f"{_MLP[1]}.weight": "dh"},
        _residual_mlp,
        {f"{_MLP[0]}.bias": "h", f"{_MLP[1]}.bias": "d"},
    ),
    NetworkLayout(
        "Stefan-Heimersheim/toy-model-of-computation-in-superposition",
        {"w_in": "fh", "w_out": "hy"},
        _network_maker("w_in", "w_out", transposed=True),
    ),
    *(
        NetworkLayout(
            f"{_CIS} with {kind} outputs",
            {"W1": "ihf", "W2": "iyh"},
            _network_maker("W1", "W2", "b1", "b2", output=output),
            {"b1": "ih", "b2": "iy"},
            named=True,
        )
        for kind, output in (("linear", "identity"), ("ReLU", "relu"))
    ),
    NetworkLayout(
        f"{_CIS} with linear outputs and a skip connection",
        {"W1": "ihf", "W2": "ifh"},
        _skip_network,
        {"b1": "ih", "b2": "if"},
        named=True,
    ),
    NetworkLayout(
        "FranciscoHS/cis-toy-models",
        {"W_in": "hf", "W_out": "yh"},
        _network_maker("W_in", "W_out"),
    ),
    NetworkLayout(
        "FranciscoHS/cis-toy-models, embedded",
        {"E": "df", "W_in": "hd", "W_out": "dh"},
        _embedded_network,
    ),
    NetworkLayout(
        "ARENA, computation",
        {"W1": "ihf", "W2": "iyh", "b_final": "iy"},
        _network_maker("W1", "W2", b="b_final", output="relu"),
    ),
    NetworkLayout(
        "ARENA, neurons",
        {"W": "ihf", "b_final": "if"},
        lambda arrays: Model(arrays["W"], hidden="relu", b=arrays["b_final"]),
        named=True,
    ),
    NetworkLayout(
        "ARENA, sparse autoencoder",
        {"W_enc": "ifh", "b_enc": "ih", "b_dec": "if"},
        _arena_autoencoder,
        {"_W_dec": "ihf"},
    ),
    NetworkLayout(
        "saprmarks/dictionary_learning, AutoEncoder",
        {"encoder.weight": "hf", "encoder.bias": "h", "decoder.weight": "fh", "bias": "f"},
        _centred_autoencoder,
        overcomplete=True,
    ),
    NetworkLayout(
        "SAELens, transcoder",
        {"W_enc": "fh", "b_enc": "h", "W_dec": "hy", "b_dec": "y"},
        _network_maker("W_enc", "W_dec", "b_enc", "b_dec", "threshold", transposed=True),
        {"threshold": "h"},
        named=True,
    ),
)


# Names that a layout may have, those of `layouts.LAYOUTS` aside.
NETWORK_NAMES = (*(network.name for network in NETWORKS), _LINEAR)


def linear_layers(arrays: Mapping[str, Any]) -> tuple[str, list[Model]] | None:
    """Return (name, [toy model]) of a deep network whose hidden layers are linear, or None.

    The layers in `arrays` are "linear1", "hidden_layers.0" and so on, and "linear2"; W_out is the last, and
    W_in the product of all others.
    """
    if _DEEP not in arrays or not {"linear1.weight", "linear2.weight"} <= arrays.keys():
        return None
    W_in = np.asarray(arrays["linear1.weight"], float)
    for k in range(sum(name.startswith("hidden_layers.") for name in arrays)):
        W_in = np.asarray(arrays[f"hidden_layers.{k}.weight"], float) @ W_in
    W_out = np.asarray(arrays["linear2.weight"], float)
    b = np.asarray(arrays.get("linear2.bias", np.zeros(len(W_out))), float)
    return _LINEAR, [Model(W_in, W_out=W_out, b=b)]


def network_readings(arrays: Mapping[str, Any]) -> list[tuple[str, list[Model]]]:
    """Return (layout name, instances' models) of each network that arrays may be by names and shapes."""
    linear = linear_layers(arrays)
    readings = [(network.name, network.models(arrays)) for network in NETWORKS if network.fits(arrays)]
    return readings if linear is None else [*readings, linear]


def recognise_network(arrays: Mapping[str, Any], layout: str | None) -> tuple[str, list[Model]] | None:
    """Return (layout name, models of the instances) of a network, or None if arrays are no network.

    If arrays may be a sparse autoencoder too, or have nonlinear outputs, `layout` must name the layout, else
    a ValueError asks for it; a transcoder with other outputs than inputs needs no name.
    """
    if layout in (None, _LINEAR) and (linear := linear_layers(arrays)) is not None:
        return linear
    if {"W_E", "W_U", f"{_MLP[0]}.weight", "layers.1.mlp_in.weight"} <= arrays.keys():
        count = sum(name.endswith(".mlp_in.weight") for name in arrays)
        raise ValueError(f"`model` must have one layer of nonlinear neurons; got a ResidMLP of {count}.")
    for network in NETWORKS:
        if layout not in (None, network.name) or not network.fits(arrays):
            continue
        sizes = sizes_of(network.axes, network.optional, arrays, {}) or {}
        is_ambiguous = sizes.get("y", sizes["f"]) == sizes["f"] or "i" in sizes
        if not (network.named and layout is None and is_ambiguous):
            return network.name, network.models(arrays)
    shapes = summarise_shapes(arrays)
    if layout in NETWORK_NAMES:
        raise ValueError(f"`layout` must be one that the arrays have; got {layout!r} for {shapes}.")
    several = [name for name, _ in network_readings(arrays) if name.startswith(_CIS)]
    if several:
        rule = "say which layout, where names and shapes leave several or do not tell what is linear"
        say = f"Model.of(model, layout=…) with one of {'; '.join(several)}"
        raise ValueError(f"`model` must {rule}: {say}; got {shapes}.")
    return None
