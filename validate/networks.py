"""Layouts of networks with nonlinear hidden neurons, as public code stores them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..theory.arguments import FloatArray
from ..theory.models import Model

__all__ = ["NETWORKS", "Network"]

Arrays = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Network:
    """The names and axes of the arrays of one kind of network, and what model they make.

    Axes are features f, hidden neurons h, outputs y, an embedding d and instances i.
    """

    name: str
    axes: Mapping[str, str]
    """Axes of the arrays that have to be there."""
    made: Callable[[dict[str, FloatArray]], Model]
    """Of the arrays of one instance."""
    optional: Mapping[str, str] = field(default_factory=dict)
    named: bool = False
    """Whether the layout must be named: the arrays might be of another kind of model too."""

    def fits(self, arrays: Mapping[str, Any]) -> bool:
        """Whether the arrays are these, and their shapes agree."""
        known = {**self.optional, **self.axes}
        if not self.axes.keys() <= arrays.keys() <= known.keys():
            return False
        sizes: dict[str, int] = {}
        for name, array in arrays.items():
            if array.ndim != len(known[name]):
                return False
            for axis, size in zip(known[name], array.shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    return False
        return True

    def models(self, arrays: Arrays) -> list[Model]:
        """Return the instances."""
        known = {**self.optional, **self.axes}
        given = {name: np.asarray(array, float) for name, array in arrays.items()}
        first = next(iter(self.axes))
        if not known[first].startswith("i"):
            return [self.made(given)]
        return [
            self.made({name: array[k] if known[name][0] == "i" else array for name, array in given.items()})
            for k in range(given[first].shape[0])
        ]


def _network(
    W_in: str,
    W_out: str,
    b_in: str = "",
    b: str = "",
    thresholds: str = "",
    output: str = "identity",
    turned: bool = False,
) -> Callable[[dict[str, FloatArray]], Model]:
    """Return what makes a model of arrays with these names; `turned` if their first axis is the input's."""

    def made(arrays: dict[str, FloatArray]) -> Model:
        into, out = arrays[W_in], arrays[W_out]
        if turned:
            into, out = into.T, out.T
        given = arrays.get(thresholds)
        kind = "relu" if given is None else "jumprelu"
        return Model(into, arrays.get(b_in, 0.0), kind, out, arrays.get(b, 0.0), output, given)

    return made


def _residual(arrays: dict[str, FloatArray]) -> Model:
    """Return the model of a residual MLP: what passes by is ReLU(x) - ReLU(-x), on neurons of its own."""
    E, U = arrays["W_E"], arrays["W_U"]
    into, out = arrays["layers.0.mlp_in.weight"], arrays["layers.0.mlp_out.weight"]
    by = (E @ U).T
    none, n = np.zeros((E.shape[0], E.shape[0])), E.shape[0]
    W_in = np.concatenate([into @ E.T, np.eye(n), none - np.eye(n)])
    b_in = np.concatenate([arrays.get("layers.0.mlp_in.bias", np.zeros(len(into))), np.zeros(2 * n)])
    W_out = np.concatenate([U.T @ out, by, -by], axis=1)
    b = U.T @ arrays.get("layers.0.mlp_out.bias", np.zeros(len(out)))
    return Model(W_in, b_in, "relu", W_out, b, "identity")


_DEEP = "hidden_layers.0.weight"
_MLP = "layers.0.mlp_in", "layers.0.mlp_out"

NETWORKS = (
    Network(
        "superposition, network",
        {"W_in": "hf", "W_out": "yh", "b_in": "h", "b": "y"},
        _network("W_in", "W_out", "b_in", "b", "thresholds"),
        {"thresholds": "h"},
    ),
    Network(
        "Sequential(Linear, ReLU, Linear)",
        {"0.weight": "hf", "2.weight": "yh"},
        _network("0.weight", "2.weight", "0.bias", "2.bias"),
        {"0.bias": "h", "2.bias": "y"},
    ),
    Network(
        "goodfire-ai/spd, ResidMLP",
        {"W_E": "fd", "W_U": "dy", f"{_MLP[0]}.weight": "hd", f"{_MLP[1]}.weight": "dh"},
        _residual,
        {f"{_MLP[0]}.bias": "h", f"{_MLP[1]}.bias": "d"},
    ),
    Network(
        "Stefan-Heimersheim/toy-model-of-computation-in-superposition",
        {"w_in": "fh", "w_out": "hy"},
        _network("w_in", "w_out", turned=True),
    ),
    Network(
        "Stefan-Heimersheim/toy-model-of-computation-in-superposition, Cis with linear outputs",
        {"W1": "ihf", "W2": "iyh"},
        _network("W1", "W2", "b1", "b2"),
        {"b1": "ih", "b2": "iy"},
        named=True,
    ),
    Network(
        "ARENA, computation",
        {"W1": "ihf", "W2": "iyh", "b_final": "iy"},
        _network("W1", "W2", b="b_final", output="relu"),
    ),
    Network(
        "SAELens, transcoder",
        {"W_enc": "fh", "b_enc": "h", "W_dec": "hy", "b_dec": "y"},
        _network("W_enc", "W_dec", "b_enc", "b_dec", "threshold", turned=True),
        {"threshold": "h"},
        named=True,
    ),
)


def _linear_layers(arrays: Mapping[str, Any]) -> Model:
    """Return the toy model whose hidden layers, all linear, multiply to one."""
    W_in = np.asarray(arrays["linear1.weight"], float)
    for k in range(sum(name.startswith("hidden_layers.") for name in arrays)):
        W_in = np.asarray(arrays[f"hidden_layers.{k}.weight"], float) @ W_in
    W_out = np.asarray(arrays["linear2.weight"], float)
    return Model(W_in, W_out=W_out, b=np.asarray(arrays.get("linear2.bias", np.zeros(len(W_out))), float))


def recognised(arrays: Mapping[str, Any], layout: str | None) -> tuple[str, list[Model]] | None:
    """Return the name of the layout of a network and its instances, or None if the arrays are none.

    Where arrays may be of a sparse autoencoder too, or have nonlinear outputs, `layout` must say so; a
    transcoder whose outputs are not as many as its inputs cannot be one.
    """
    if _DEEP in arrays and layout in (None, "goodfire-ai/spd, hidden layers"):
        return "goodfire-ai/spd, hidden layers", [_linear_layers(arrays)]
    for one in NETWORKS:
        if layout not in (None, one.name) or not one.fits(arrays):
            continue
        sizes = {
            axis: k
            for name, axes in one.axes.items()
            for axis, k in zip(axes, arrays[name].shape, strict=True)
        }
        if one.named and layout is None and (sizes.get("f") == sizes.get("y") or "i" in sizes):
            continue
        return one.name, one.models(arrays)
    return None
