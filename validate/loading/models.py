"""Models from modules, state dicts, folders, files and arrays."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os.path import isdir, isfile  # False for names that no file can have, where `Path` raises
from pathlib import Path
from typing import Any

import numpy as np

from ...theory.annotations import as_annotated
from ...theory.features import Features
from ...theory.model import Model
from ...theory.validation import choice, doubles, flag, integer, short_repr
from .arrays import as_arrays, drop_strays, named_arrays, require_numeric, settings_beside
from .autoencoders import NAME, autoencoder_by_keys, is_autoencoder, saelens_autoencoder, saelens_instances
from .files import read_file, read_settings
from .layouts import LAYOUTS, Weights
from .live import Hints, arrays_of_live, can_be_called, is_live, load_live
from .networks import NETWORK_NAMES, recognise_network
from .settings import as_mapping, is_setting, read_sae_settings, refuse_unsupported
from .toy import recognise
from .tuples import model_of_matrix, model_of_tuple, real_array

# Files of a folder: the weights that SAELens writes, its configuration, and endings of others' weights.
_WEIGHTS = "sae_weights.safetensors"
_CONFIGURATIONS = ("cfg.json", "config.json")
_ENDINGS = (".safetensors", ".npz", ".npy", ".pt", ".pth", ".ckpt", ".bin")
# The file of each autoencoder of Gemma Scope: JumpReLUs that do not subtract b_dec.
_GEMMA_SCOPE = "params.npz"
_NO_HINTS = Hints()


@dataclass(frozen=True)
class LoadedModel:
    """The layout recognised in an object, and its models, one for each instance."""

    layout: str
    models: tuple[Model, ...]
    """One for each instance."""
    has_bias: bool = True
    """Whether the bias is known; if a file leaves out the model's bias, it is 0 here."""
    note: str = ""
    """Remark for the user, such as that the module's outputs have a factor."""

    def __str__(self) -> str:
        known = "" if self.has_bias else ", without its bias"
        several = f", {len(self.models)} instances" if len(self.models) > 1 else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.layout}{known}: {self.models[0]}{several}{note}"

    def one_model(self) -> Model:
        """Return the model; ValueError if there are several."""
        if len(self.models) > 1:
            raise ValueError(
                f"`model` must be one; got {self}. Pass one of them: Model.of(model, instance=k), from 0 to "
                f"{len(self.models) - 1}."
            )
        return self.models[0]

    def weights(self) -> list[Weights]:
        """Return the weights of the toy models ReLU(W_out W_in x + b); ValueError if a model is not one."""
        toys = map(toy_model, self.models)
        return [Weights(toy.W_out, toy.W_in, toy.bias, self.has_bias) for toy in toys]


def state_of(model: Any) -> Mapping[Any, Any]:
    """Return the arrays of a model by name, and other entries of a checkpoint as they are.

    A model is a file (.npz, .npy, .safetensors, or a PyTorch file of a state dict), a state dict of tensors
    or arrays, or anything with a method ``state_dict``.
    """
    if isinstance(model, str | os.PathLike):
        state = read_file(Path(model))
        if isinstance(state, np.ndarray):
            return {"W": state}
    else:
        state = model.state_dict() if hasattr(model, "state_dict") else model
        state = as_arrays(state) if isinstance(state, Mapping) else state
    if not isinstance(state, Mapping):
        what = short_repr(state)
        if hasattr(state, "shape"):
            what = f"{type(model).__name__} of shape {tuple(state.shape)}"
        rule = "a torch module, a state dict, a path or `Weights(W_out, W_in, b)`"
        raise ValueError(f"`model` must be {rule}; got {what}.")
    return state


def _weights_in(folder: Path) -> Path:
    """Return the path of the weights in a folder: SAELens' file, or the only file with a usual ending."""
    files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in _ENDINGS]
    named = [file for file in files if file.name == _WEIGHTS] or files
    if len(named) != 1:
        what = ", ".join(file.name for file in named[:5]) or "none"
        raise ValueError(
            f"`model` must be a file, or a folder with {_WEIGHTS} or one file of weights; got the folder "
            f"{str(folder)!r} with {what}."
        )
    return named[0]


def _read_path(path: Path) -> tuple[Any, Any]:
    """Return (arrays, settings) of a file, or of a folder with one; settings are {} if there are none.

    Settings are read from SAELens' configuration beside the weights, or a folder's; for Gemma Scope they are
    known.
    """
    file = _weights_in(path) if isdir(path) else path
    of_folder = _CONFIGURATIONS if isdir(path) else _CONFIGURATIONS[:1] * (file.name == _WEIGHTS)
    beside = [file.parent / name for name in of_folder if isfile(file.parent / name)]
    cfg = read_settings(beside[0]) if beside else {}
    arrays = read_file(file)
    if file.name == _GEMMA_SCOPE and "threshold" in arrays:
        cfg = {"apply_b_dec_to_input": False} | dict(cfg)
    return arrays, cfg


def _load_state(state: Mapping[Any, Any], cfg: Any, hints: Hints) -> LoadedModel:
    """Return the models in a state dict by names and shapes alone, with settings `cfg`.

    `hints` are the caller's: name of the layout, `keys` (names of W_in, W_out, …), and whether an autoencoder
    subtracts b_dec from its input. Arrays or settings of unknown models raise a ValueError.
    """
    layout, keys = hints.layout, hints.keys
    entries = named_arrays(state)
    words = {name: entry for name, entry in entries.items() if isinstance(entry, str) and is_setting(name)}
    arrays = {name: entry for name, entry in entries.items() if name not in words}
    cfg = as_mapping(cfg) | words
    if keys is not None and {"W_enc", "W_dec"} & keys.keys():
        sae = autoencoder_by_keys(arrays, keys, read_sae_settings(cfg), hints.apply_b_dec_to_input)
        return LoadedModel("keys", (sae,))
    if keys is None and layout is None and is_autoencoder(arrays):
        saes = saelens_instances(arrays, read_sae_settings(cfg), hints.apply_b_dec_to_input)
        return LoadedModel(NAME, tuple(saes))
    refuse_unsupported(cfg)
    layouts = [known_layout.name for known_layout in LAYOUTS]
    if layout is not None:
        choice("layout", layout, [*layouts, *NETWORK_NAMES])
    if keys is None and layout not in layouts:
        network = recognise_network(require_numeric(drop_strays(arrays)), layout)
        if network is not None:
            return LoadedModel(network[0], tuple(network[1]))
    name, weights = recognise(arrays, layout=layout, keys=keys)
    models = [
        Model(weight.W_in, W_out=None if weight.tied else weight.W_out, b=weight.b) for weight in weights
    ]
    return LoadedModel(name, tuple(models), all(weight.b_saved for weight in weights))


def _load_states(states: list[Mapping[Any, Any]], cfg: Any, hints: Hints) -> LoadedModel:
    """Return the models of all state dicts, `states`, in one `LoadedModel`.

    A state dict without settings of its own has the settings `cfg`. `hints` are the caller's layout, names of
    arrays (`keys`) and `apply_b_dec_to_input`.
    """
    parts = [_load_state(state, settings_beside(state) or cfg, hints) for state in states]
    models = [model for part in parts for model in part.models]
    return LoadedModel(parts[0].layout, tuple(models), all(part.has_bias for part in parts))


def _is_array_tuple(x: Any) -> bool:
    """Return whether an object is a tuple of arrays, or a list of arrays with a matrix."""
    if isinstance(x, list):
        return any(np.ndim(part) == 2 for part in x if hasattr(part, "shape"))
    return isinstance(x, tuple) and all(hasattr(part, "__len__") or np.isscalar(part) for part in x)


def load(x: Any, law: Any = None, hints: Hints = _NO_HINTS) -> LoadedModel:
    """Return all models in a module, state dict, path, array or tuple, and the layout that was recognised.

    If `law` is a `Features`, its number of features decides which axis of a matrix is that of the features;
    `hints` say how to read other arrays. A module is called on random inputs; if its outputs differ from
    those of every model of its arrays, a ValueError says how.
    """
    n_features = law.n_features if isinstance(law, Features) else None
    if type(x) is np.ndarray:
        return LoadedModel("one matrix", (model_of_matrix(doubles("model", x), n_features),))
    if isinstance(x, Model):
        return LoadedModel("Model", (x,))
    if isinstance(x, Weights):
        return LoadedModel("weights", (Model(x.W_in, W_out=x.W_out, b=x.b),), x.b_saved)
    if isinstance(x, type):
        raise ValueError(f"`model` must be an instance of a class; got the class {x.__name__}.")
    if is_live(x):
        name, models, note = load_live(x, hints)
        if models:
            return LoadedModel(name, tuple(models), note=note)
        loaded = _load_states([arrays_of_live(x, buffers=False)], getattr(x, "cfg", {}), hints)
        return replace(loaded, note=note)
    # What can be called may do something else than the model that it has.
    if not can_be_called(x) and isinstance(best := getattr(x, "model", None), Model):
        return LoadedModel("answer", (best,))
    cfg: Any = {}
    if isinstance(x, str | os.PathLike):
        x, cfg = _read_path(Path(x))
    elif callable(getattr(x, "state_dict", None)):
        x, cfg = x.state_dict(), getattr(x, "cfg", {})
    states = [x] if isinstance(x, Mapping) else x
    if isinstance(states, list | tuple) and states and all(isinstance(state, Mapping) for state in states):
        return _load_states(list(map(as_arrays, states)), cfg, hints)
    if _is_array_tuple(x):
        return LoadedModel("arrays", (model_of_tuple(tuple(x), n_features),))
    return LoadedModel("one matrix", (model_of_matrix(real_array(x), n_features),))


@as_annotated
def model_of(
    x: Any, *, instance: int | None = None, law: Any = None, layout: str | None = None,
    keys: Mapping[str, str] | None = None, apply_b_dec_to_input: bool | None = None,
) -> Model:  # fmt: skip
    """Return the model in a module, state dict, file, matrix or tuple of arrays.

    >>> import numpy as np
    >>> model_of({"W": np.array([[1.0], [-1.0]]), "b": np.zeros(2)})
    Model(2 features -> 1 hidden (identity) -> 2 outputs (relu), tied)

    Parameters
    ----------
    x : Model, torch.nn.Module, mapping, path, array_like, tuple or Answer
        A module, or another callable with arrays, which is called: its outputs tell the roles of its arrays;
        an answer with a `model`, as of `best`;
        a state dict of tensors or arrays; a file of a state dict (.npz, .npy, .safetensors, or written by
        `torch.save`), or a folder of SAELens; a matrix W of a tied model; (W, b); (W_out, W_in, b); or (M, b)
        with a symmetric M = W_out W_in. The arrays of a state dict are recognised by their names and shapes
        if they have a layout of public code (`superposition.validate.loading.LAYOUTS`, or `NETWORKS` for
        networks with nonlinear hidden neurons); or if they are one matrix, not square, and one vector.
    instance : int, optional
        Number of the instance, if there are several.
    law : Features, optional
        Its number of features tells which axis of a matrix is that of the features. Without a law that is
        the longer axis.
    layout : str, optional
        Name of a layout, if names and shapes allow several.
    keys : mapping of str to str, optional
        Names of the arrays for "W_in", "W_out", "b" and "b_in" of ReLU(W_out (W_in x + b_in) + b), one matrix
        for a tied model; or for "W_enc", "W_dec", "b_enc" and "b_dec" of a sparse autoencoder with ReLUs.
    apply_b_dec_to_input : bool, optional
        Whether an autoencoder of a state dict or file subtracts `b_dec` from its input; by default as in its
        settings. For a module its outputs decide.
    """
    loaded = load(x, law, Hints(layout, keys, apply_b_dec_to_input))
    if instance is None:
        return loaded.one_model()
    return loaded.models[integer("instance", instance, 0, len(loaded.models) - 1)]


def autoencoder_of(x: Any, *, apply_b_dec_to_input: bool | None = None) -> Model:
    """Return the model of a sparse autoencoder, with SAELens' names or in any form that `model_of` takes.

    Arrays are ``W_enc`` (d_in, d_sae), ``W_dec`` (d_sae, d_in), ``b_enc``, ``b_dec``, and of a JumpReLU
    ``threshold`` or ``log_threshold``. Settings are taken from ``x["cfg"]``, ``x.cfg`` or the file
    ``cfg.json`` next to ``sae_weights.safetensors``; `apply_b_dec_to_input` overrules them. A module is
    called, and its outputs decide.

    >>> arrays = {"W_enc": [[1.0], [0.0]], "W_dec": [[1.0, 0.0]], "b_enc": [-0.1], "b_dec": [0.5, 0.2]}
    >>> model = autoencoder_of(arrays, apply_b_dec_to_input=True)
    >>> model.b_in, model([1.6, 9.0])
    (array([-0.6]), array([1.5, 0.2]))
    """
    if apply_b_dec_to_input is not None:
        apply_b_dec_to_input = flag("apply_b_dec_to_input", apply_b_dec_to_input)
    if isinstance(x, Mapping) and {"W_enc", "W_dec"} <= x.keys():  # what is missing is named
        return saelens_autoencoder(
            named_arrays(x), read_sae_settings(settings_beside(x)), apply_b_dec_to_input
        )
    return require_autoencoder(model_of(x, apply_b_dec_to_input=apply_b_dec_to_input))


def require_autoencoder(model: Model) -> Model:
    """Return the model if it is an autoencoder with hidden ReLUs or JumpReLUs; else ValueError."""
    if model.hidden == "identity" or model.output != "identity":
        raise ValueError(f"`model` must have hidden ReLUs or JumpReLUs and linear outputs; got {model}.")
    return model


def toy_model(model: Model) -> Model:
    """Return the model if it is ReLU(W_out W_in x + b) with one output for each feature; else ValueError."""
    fits = model.W_out.shape == model.W_in.T.shape
    if model.hidden != "identity" or model.output != "relu" or not fits:
        sparse = model.hidden != "identity" and model.output == "identity" and fits
        hint = ", a network, or a sparse autoencoder, which `sae` takes" if sparse else ""
        raise ValueError(
            f"`model` must be ReLU(W_out W_in x + b) with an output for each feature; got {model}{hint}."
        )
    return model


def require_identity_target(target: Any) -> None:
    """Raise ValueError unless the target is "identity"; only models with hidden ReLUs have other targets."""
    if not isinstance(target, str) or target != "identity":
        rule = "'identity' for a model without hidden ReLUs"
        raise ValueError(f"`target` must be {rule}; got {short_repr(target)}.")


Model.of = staticmethod(model_of)
