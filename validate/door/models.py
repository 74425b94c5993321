"""Models from whatever people have: modules, state dicts, files, arrays."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...theory import arguments
from ...theory.features import Features
from ...theory.models import Model
from ..annotations import as_annotated
from .autoencoders import array_of, autoencoder_of, looks_like_autoencoder

__all__ = ["features_alone", "model_of", "read_models", "toy_model"]

_PAIR = "(W, b), (W_out, W_in, b), or (M, b) with M square"


def _encoder(W: Any, law: Features | None) -> Any:
    """Return one matrix as (n_hidden, n_features), by the law's number of features or by its shape."""
    W = array_of(W)
    if W.ndim != 2:
        raise ValueError(f"`model` must be a matrix of two axes; got shape {W.shape}.")
    rows, columns = W.shape
    if law is not None:
        fits = [W if axis else W.T for axis, size in enumerate(W.shape) if size == law.n_features]
        if not fits:
            raise ValueError(f"`model` must have {law.n_features} features, as its law; got shape {W.shape}.")
    else:
        fits = [W if columns > rows else W.T]
    # A symmetric one may be meant as W or as M = W W', which are the same model only for a projector.
    if rows == columns and not (np.array_equal(W, W.T) and np.allclose(W @ W, W)):
        raise ValueError(
            f"`model` must say which axis is that of the features where both are {rows} long; pass "
            "Model(W_in=W) with W of shape (n_hidden, n_features), or (M, b) for ReLU(M x + b)."
        )
    return fits[0]


def _from_arrays(given: tuple[Any, ...], law: Features | None) -> Model:
    if len(given) == 3:
        W_out, W_in, b = map(array_of, given)
        if (
            W_out.ndim == W_in.ndim == 2
            and W_out.shape[1] != W_in.shape[0]
            and W_out.shape[0] == W_in.shape[1]
        ):
            W_out, W_in = W_out.T, W_in.T
        return Model(W_in, W_out=W_out, b=b)
    if len(given) != 2:
        raise ValueError(f"`model` must be a matrix, or {_PAIR}; got {len(given)} arrays.")
    W, b = array_of(given[0]), array_of(given[1])
    if W.ndim == 2 and W.shape[0] == W.shape[1]:
        return Model(np.eye(len(W)), W_out=W, b=b)
    return Model(_encoder(W, law), b=b)


def _of_layers(module: Any) -> Model | None:
    """Return a module of two linear layers, in this order, if it is one; what it computes is compared."""
    from ..audit.models import check_module
    from ..layouts import Weights

    state = {name: array_of(value) for name, value in module.state_dict().items()}
    weights = [one for name, one in state.items() if name.split(".")[-1] == "weight" and one.ndim == 2]
    biases = [one for name, one in state.items() if name.split(".")[-1] == "bias" and one.ndim == 1]
    if len(weights) != 2 or len(weights) + len(biases) != len(state) or not biases:
        return None
    W_in, W_out = weights
    m, n = W_in.shape
    lengths = [one.size for one in biases]
    if W_out.shape != (n, m) or m >= n or lengths not in ([n], [m, n]):
        return None
    made = Model(W_in, b_in=biases[0] if len(biases) > 1 else 0.0, W_out=W_out, b=biases[-1])
    try:
        check_module(module, [Weights(made.W_out, made.W_in, made.bias)])
    except ValueError:  # its hidden neurons may be nonlinear
        return None
    return made


def read_models(
    x: Any, law: Any = None, *, layout: str | None = None, keys: Mapping[str, str] | None = None
) -> tuple[str, list[Model]]:
    """Return what a model was taken for, and the models, several if it has several instances.

    Parameters
    ----------
    x : Model, torch.nn.Module, mapping, path, array_like or tuple
        As `model_of`.
    law : Features, optional
        Its number of features tells the axes of a matrix.
    layout, keys
        As `audit.audit`.
    """
    law = law if isinstance(law, Features) else None
    if isinstance(x, Model):
        return repr(x), [x]
    if isinstance(x, tuple) and all(hasattr(one, "__len__") or np.isscalar(one) for one in x):
        made = _from_arrays(x, law)
        return f"arrays: {made}", [made]
    if layout is None and keys is None and looks_like_autoencoder(x):
        made = autoencoder_of(x)
        return f"a sparse autoencoder: {made}", [made]
    if not isinstance(x, str | Path | Mapping) and not hasattr(x, "state_dict"):
        made = Model(_encoder(x, law))
        return f"one matrix: {made}", [made]
    from .. import audit
    from ..audit.networks import read_network

    if layout is None and keys is None and hasattr(x, "state_dict"):
        layers = _of_layers(x)
        if layers is not None:
            return f"two linear layers and a ReLU: {layers}", [layers]
    network = read_network(x, layout, keys)
    if network is not None:
        name, models = network
        return f"{name}: {models[0]}{f', {len(models)} instances' if len(models) > 1 else ''}", models
    name, weights = audit.read(x, layout, keys)
    models = [Model(one.W_in, W_out=None if one.tied else one.W_out, b=one.b) for one in weights]
    known = "" if all(one.b_saved for one in weights) else ", without its bias"
    return f"{name}{known}: {models[0]}{f', {len(models)} instances' if len(models) > 1 else ''}", models


@as_annotated
def model_of(x: Any, *, instance: int | None = None, law: Any = None, layout: str | None = None,
             keys: Mapping[str, str] | None = None) -> Model:  # fmt: skip
    """Return a model of whatever holds one.

    >>> import numpy as np
    >>> model_of({"W": np.array([[1.0], [-1.0]]), "b": np.zeros(2)})
    Model(2 features -> 1 hidden (identity) -> 2 outputs (relu), tied)

    Parameters
    ----------
    x : Model, torch.nn.Module, mapping, path, array_like or tuple
        A module; a state dict of tensors or arrays; a file of one (.npz, .safetensors, or what `torch.save`
        wrote of a state dict); a matrix W of a tied model; (W, b); (W_out, W_in, b); or (M, b) with a
        square M = W_out W_in. Layouts of public code are recognised by names and shapes:
        `superposition.validate.audit.LAYOUTS`, and `superposition.validate.networks.NETWORKS` of networks
        with nonlinear hidden neurons. So is a module of two linear layers, whose outputs are compared.
    instance : int, optional
        Which one, where there are several.
    law : Features, optional
        Its number of features tells which axis of a matrix is that of the features. Without it, it is the
        longer one.
    layout, keys
        As in `superposition.validate.audit.audit`.

    Raises
    ------
    ValueError
        If it is no model that is known, or several without `instance`.
    """
    said, models = read_models(x, law, layout=layout, keys=keys)
    if instance is not None:
        return models[arguments.integer("instance", instance, 0, len(models) - 1)]
    if len(models) > 1:
        raise ValueError(f"`instance` must say which of {len(models)} models; got None for {said}.")
    return models[0]


def toy_model(one: Model) -> Model:
    """Return a model after checking that it is ReLU(W_out W_in x + b), one output a feature."""
    if one.hidden != "identity" or one.output != "relu" or one.n_outputs != one.n_features:
        raise ValueError(
            f"`model` must be ReLU(W_out W_in x + b) with an output for each feature; got {one}."
        )
    return one


def features_alone(target: Any) -> None:
    """Check that the target of a toy model is its features: other targets are those of hidden ReLUs."""
    if not isinstance(target, str) or target != "identity":
        raise ValueError(
            f"`target` must be 'identity' for a model without hidden ReLUs; got {arguments.shown(target)}."
        )


Model.of = staticmethod(model_of)  # type: ignore[attr-defined]
