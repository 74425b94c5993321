"""Sparse autoencoders from the names and files of SAELens: its conventions, as a `Model`.

Read in SAELens 6.18.0 (commit 91ca16c): ``sae.py``, ``standard_sae.py``, ``jumprelu_sae.py``; compared with
6.54.12. An input a becomes h = ReLU(W_enc' (a - b_dec) + b_enc), without b_dec where ``apply_b_dec_to_input``
is off, and W_dec' h + b_dec. A JumpReLU sets h to 0 where the preactivation is at most the threshold; while
it is trained the logarithm of the threshold is stored.

A module of two linear layers named ``encoder`` and ``decoder`` is read as well, with a `bias` that is
subtracted first and added at the end as in saprmarks/dictionary_learning. Its outputs are compared.
"""

import json
from collections.abc import Mapping
from os.path import isdir, isfile  # False for names that no file can have, where `Path` raises
from pathlib import Path
from typing import Any

import numpy as np

from ...theory import arguments
from ...theory.models import Model

__all__ = ["autoencoder_of", "looks_like_autoencoder"]

# Names of files in a folder that SAELens writes.
WEIGHTS, CONFIGURATION = "sae_weights.safetensors", "cfg.json"
_NEEDED = ("W_enc", "W_dec", "b_enc", "b_dec")
_SINGLE = 1e-4  # of outputs in single precision
_KNOWN = {*_NEEDED, "threshold", "log_threshold", "scaling_factor", "cfg"}
_LAYERS, _BIASES = ("encoder.weight", "decoder.weight"), ("encoder.bias", "decoder.bias", "bias")
ARCHITECTURES = ("standard", "jumprelu")


def looks_like_autoencoder(x: Any) -> bool:
    """Return whether something is an autoencoder by SAELens' names, in a mapping, an object or a folder."""
    if isinstance(x, str | Path):
        path = Path(x)
        return isfile(path / WEIGHTS) if isdir(path) else path.name == WEIGHTS
    names = x if isinstance(x, Mapping) else getattr(x, "_parameters", {})
    if not all(name in names for name in ("W_enc", "W_dec")):
        return False
    first, last = (np.shape(names[name]) for name in ("W_enc", "W_dec"))
    return first == last[::-1]  # a transcoder may have other outputs than inputs


def _settings(cfg: Any) -> dict[str, Any]:
    """Return the settings of an autoencoder as a mapping."""
    if isinstance(cfg, Mapping):
        return dict(cfg)
    names = ("apply_b_dec_to_input", "normalize_activations", "architecture")
    found = {name: getattr(cfg, name) for name in names if hasattr(cfg, name)}
    if callable(found.get("architecture")):
        found["architecture"] = found["architecture"]()
    return found


def _read(x: Any) -> tuple[Mapping[str, Any], dict[str, Any]]:
    from ..audit.read import state_of

    if isinstance(x, str | Path):
        path = Path(x) / WEIGHTS if isdir(x) else Path(x)
        beside = path.parent / CONFIGURATION
        cfg: Any = {}
        if isfile(beside):
            try:
                cfg = json.loads(beside.read_text())
            except (OSError, ValueError) as error:
                raise ValueError(f"`model` must have a readable {CONFIGURATION}; got {beside}.") from error
        return state_of(path), _settings(cfg)
    if isinstance(x, Mapping):
        return x, _settings(x.get("cfg", {}))
    if not callable(getattr(x, "state_dict", None)):
        rule = "a mapping of arrays, a module or a file"
        raise ValueError(f"`model` must be {rule}; got {arguments.shown(x)}.")
    return x.state_dict(), _settings(getattr(x, "cfg", {}))


def _of_layers(x: Any, state: Mapping[str, Any]) -> Model:
    """Return a module of a linear encoder, ReLU and a linear decoder, by what it computes."""
    from ..audit.read import answers

    if not callable(x):
        rule = (
            "W_enc, W_dec, b_enc, b_dec: the transposes of encoder.weight and decoder.weight, and both biases"
        )
        raise ValueError(f"`model` must have {rule}; or pass the module. Got {', '.join(map(str, state))}.")
    arrays = {name: array_of(one, float) for name, one in state.items()}
    W_in, W_out = (arguments.matrix(name, arrays[name]) for name in _LAYERS)
    shift = arguments.each("bias", arrays.get("bias", 0.0), W_in.shape[1])
    b_in, b = arrays.get("encoder.bias", 0.0), arrays.get("decoder.bias", 0.0)
    made = Model(W_in, b_in=b_in - W_in @ shift, hidden="relu", W_out=W_out, b=b + shift, output="identity")
    inputs = np.random.default_rng(0).normal(size=(64, made.n_features))
    found, wanted = answers(x, inputs), made(inputs)
    apart = found is None or found.shape != wanted.shape or np.abs(found - wanted).max()
    if apart > _SINGLE * np.abs(wanted).max():
        rule = "decoder(ReLU(encoder(x))), with a `bias` subtracted before and added after if there is one"
        raise ValueError(f"`model` must compute {rule}; got a module with other outputs.")
    return made


def autoencoder_of(x: Any, *, apply_b_dec_to_input: bool | None = None) -> Model:
    """Return the model of a sparse autoencoder with the names of SAELens.

    Parameters
    ----------
    x : mapping, torch.nn.Module or path
        Arrays or tensors ``W_enc`` (d_in, d_sae), ``W_dec`` (d_sae, d_in), ``b_enc``, ``b_dec``; of a
        JumpReLU also ``threshold`` or ``log_threshold``; or a module whose linear layers are its ``encoder``
        and ``decoder``. Settings are taken from ``x["cfg"]``, ``x.cfg`` or
        the file ``cfg.json`` next to ``sae_weights.safetensors``.
    apply_b_dec_to_input : bool, optional
        Whether `b_dec` is subtracted from the input; by default what the settings say.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If arrays are missing or have other shapes, settings or entries are of another architecture,
        activations are normalised, or nothing says whether a `b_dec` that is not 0 is subtracted from the
        input.

    Examples
    --------
    >>> arrays = {"W_enc": [[1.0], [0.0]], "W_dec": [[1.0, 0.0]], "b_enc": [-0.1], "b_dec": [0.5, 0.2]}
    >>> one = autoencoder_of(arrays, apply_b_dec_to_input=True)
    >>> one.b_in, one([1.6, 9.0])
    (array([-0.6]), array([1.5, 0.2]))
    """
    state, settings = _read(x)
    if all(name in state for name in _LAYERS) and set(map(str, state)) <= {*_LAYERS, *_BIASES}:
        return _of_layers(x, state)
    missing = [name for name in _NEEDED if name not in state]
    if missing:
        raise ValueError(f"`model` must have {', '.join(_NEEDED)}; got none named {missing[0]!r}.")
    others = sorted(set(map(str, state)) - _KNOWN)
    if others:
        rule = "W_enc, W_dec, b_enc, b_dec and thresholds alone (standard and jumprelu autoencoders)"
        raise ValueError(f"`model` must have {rule}; got {', '.join(others)}.")
    kind = settings.get("architecture", "standard")
    arguments.choice("architecture", kind, ARCHITECTURES)
    normal = settings.get("normalize_activations", "none")
    if normal not in ("none", None):
        rule = "not normalise its input, or have that folded in (normalize_activations='none')"
        raise ValueError(f"`model` must {rule}; got {normal!r}.")
    arrays = {name: array_of(one, float) for name, one in state.items() if name != "cfg"}
    W_enc, W_dec = (arguments.matrix(name, arrays[name]) for name in ("W_enc", "W_dec"))
    if W_dec.shape != W_enc.shape[::-1]:
        rule = f"the shape {W_enc.shape[::-1]} of W_enc's transpose"
        raise ValueError(f"`W_dec` must have {rule}; got {W_dec.shape}.")
    d, latents = W_enc.shape
    b_enc, b_dec = (
        arguments.each("b_enc", arrays["b_enc"], latents),
        arguments.each("b_dec", arrays["b_dec"], d),
    )
    taken = settings.get("apply_b_dec_to_input") if apply_b_dec_to_input is None else apply_b_dec_to_input
    if taken is None and np.any(b_dec):
        rule = (
            "say whether b_dec is subtracted from the input: apply_b_dec_to_input, in cfg or as an argument"
        )
        raise ValueError(f"`model` must {rule}; got a b_dec of norm {np.linalg.norm(b_dec):.3g}.")
    if "scaling_factor" in arrays and np.any(arrays["scaling_factor"] != 1.0):
        raise ValueError(
            "`model` must have its `scaling_factor` folded into W_dec; got entries other than 1."
        )
    thresholds = _thresholds(arrays, kind, latents)
    return Model(
        W_enc.T, b_in=b_enc - W_enc.T @ b_dec if taken else b_enc, hidden="relu" if thresholds is None else
        "jumprelu", W_out=W_dec.T, b=b_dec, output="identity", thresholds=thresholds,
    )  # fmt: skip


def _thresholds(arrays: Mapping[str, Any], kind: str, latents: int) -> Any:
    """Return thresholds, None for a ReLU; below 0 a JumpReLU is a ReLU, since it cuts that off as well."""
    if "threshold" in arrays and "log_threshold" in arrays:
        raise ValueError("`model` must have one of threshold and log_threshold; got both.")
    if "log_threshold" in arrays:
        return np.exp(arguments.each("log_threshold", arrays["log_threshold"], latents))
    if "threshold" in arrays:
        return np.maximum(arguments.each("threshold", arrays["threshold"], latents), 0.0)
    if kind == "jumprelu":
        raise ValueError("`model` must have threshold or log_threshold where it is a jumprelu; got neither.")
    return None


def array_of(value: Any, kind: Any = None) -> Any:
    """Return a tensor, data frame or list as an array, of doubles if it was a tensor."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, kind)
