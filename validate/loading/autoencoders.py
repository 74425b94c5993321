"""Sparse autoencoders from arrays with the names and settings of SAELens, as a `Model`.

Read in SAELens 6.18.0 (commit 91ca16c): ``sae.py``, ``standard_sae.py``, ``jumprelu_sae.py``; compared with
6.54.12. An input a becomes h = ReLU(W_enc' (a - b_dec) + b_enc), without b_dec where ``apply_b_dec_to_input``
is off, and W_dec' h + b_dec. A JumpReLU sets h to 0 where the preactivation is at most the threshold; while
it is trained the logarithm of the threshold is stored.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...theory.model import Model
from ...theory.validation import FloatArray, matrix, numbers_or_repeat
from .arrays import array_of, drop_strays, find_name, summarise_shapes
from .settings import Settings

NAME = "SAELens, sparse autoencoder"
NEEDED = ("W_enc", "W_dec", "b_enc", "b_dec")
_SCALES = ("scaling_factor", "finetuning_scaling_factor")
_KNOWN = {*NEEDED, *_SCALES, "threshold", "log_threshold"}


def is_autoencoder(arrays: Mapping[str, Any]) -> bool:
    """Return whether arrays have "W_enc" and "W_dec" of transposed shapes, as SAELens' autoencoders do.

    Both may have a first axis of instances.
    """
    if not all(name in arrays for name in ("W_enc", "W_dec")):
        return False
    first, last = (np.shape(arrays[name]) for name in ("W_enc", "W_dec"))
    several, shape = first[:-2], first[-2:]  # a transcoder may have other outputs than inputs
    return len(shape) == 2 and len(several) < 2 and last == (*several, *shape[::-1])


def saelens_instances(
    arrays: Mapping[str, Any], settings: Settings, apply_b_dec_to_input: bool | None = None
) -> list[Model]:
    """Return the autoencoders in arrays with SAELens' names: one, or one for each instance.

    `settings` are those of SAELens' cfg. `apply_b_dec_to_input`, whether b_dec is subtracted from inputs,
    overrules the cfg unless it is None.
    """
    if np.ndim(arrays["W_enc"]) < 3:
        return [saelens_autoencoder(arrays, settings, apply_b_dec_to_input)]
    instances = [
        {name: array[k] if np.ndim(array) else array for name, array in drop_strays(arrays).items()}
        for k in range(len(arrays["W_enc"]))
    ]
    return [saelens_autoencoder(parts, settings, apply_b_dec_to_input) for parts in instances]


def saelens_autoencoder(
    arrays: Mapping[str, Any], settings: Settings, apply_b_dec_to_input: bool | None = None
) -> Model:
    """Return the autoencoder of arrays with SAELens' names.

    `settings` are those of SAELens' cfg. `apply_b_dec_to_input`, whether b_dec is subtracted from inputs,
    overrules the cfg unless it is None. Missing, unknown or misshapen arrays raise a ValueError.
    """
    arrays = drop_strays(arrays)
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise ValueError(f"`model` must have {', '.join(NEEDED)}; got none named {missing[0]!r}.")
    others = sorted(set(map(str, arrays)) - _KNOWN)
    if others:
        rule = "W_enc, W_dec, b_enc, b_dec and thresholds alone (standard and jumprelu autoencoders)"
        raise ValueError(f"`model` must have {rule}; got {', '.join(others)}.")
    W_enc, W_dec = (matrix(name, arrays[name]) for name in ("W_enc", "W_dec"))
    if W_dec.shape != W_enc.shape[::-1]:
        rule = f"the shape {W_enc.shape[::-1]} of W_enc's transpose"
        raise ValueError(f"`W_dec` must have {rule}; got {W_dec.shape}.")
    d, latents = W_enc.shape
    sizes = np.size(arrays["b_enc"]), np.size(arrays["b_dec"])
    if sizes == (d, latents) and d != latents:
        rule = (
            f"be (inputs, latents), here {W_enc.shape[::-1]}, as SAELens has it: pass the transposes of both"
        )
        raise ValueError(f"`W_enc` must {rule} matrices; got {W_enc.shape}.")
    b_enc, b_dec = (
        numbers_or_repeat(name, array_of(arrays[name], name), size)
        for name, size in (("b_enc", latents), ("b_dec", d))
    )
    subtracts = settings.apply_b_dec_to_input if apply_b_dec_to_input is None else apply_b_dec_to_input
    if subtracts is None and np.any(b_dec):
        rule = (
            "say whether b_dec is subtracted from the input: by apply_b_dec_to_input in its cfg, or by "
            "Model.of(model, apply_b_dec_to_input=…)"
        )
        raise ValueError(f"`model` must {rule}; got a b_dec of norm {np.linalg.norm(b_dec):.3g}.")
    W_dec = W_dec * _latent_scales(arrays, settings, latents)[:, None]
    thresholds = _thresholds(arrays, settings.architecture, latents)
    b_in, kind = b_enc - W_enc.T @ b_dec if subtracts else b_enc, "relu" if thresholds is None else "jumprelu"
    return Model(W_enc.T, b_in, kind, W_dec.T, b_dec, "identity", thresholds)


def autoencoder_by_keys(
    arrays: Mapping[str, Any], keys: Mapping[str, Any], settings: Settings, apply_b_dec_to_input: bool | None
) -> Model:
    """Return the autoencoder whose arrays `keys` names; matrices are transposed if only that fits b_enc.

    `keys` maps parts, such as W_enc, to names in `arrays`; biases that are not named are 0. `settings` are
    those of SAELens' cfg. `apply_b_dec_to_input`, whether b_dec is subtracted from inputs, overrules the cfg
    unless it is None. Other shapes raise a ValueError.
    """
    names = {part: find_name(name, arrays) for part, name in keys.items()}
    if not {"W_enc", "W_dec"} <= names.keys() <= _KNOWN or None in names.values():
        others = ", ".join(sorted(_KNOWN - {"W_enc", "W_dec"}))
        rule = f"name arrays that there are: for W_enc and W_dec, and for {others} if there are any"
        raise ValueError(f"`keys` must {rule}; got {dict(keys)!r} for {summarise_shapes(arrays)}.")
    parts = {part: np.asarray(arrays[str(name)]) for part, name in names.items()}
    if parts["W_enc"].shape == parts["W_dec"].shape:
        parts["W_dec"] = parts["W_dec"].T
    latents = np.size(parts.get("b_enc", 0)) if "b_enc" in parts else max(parts["W_enc"].shape)
    if parts["W_enc"].shape[-1] != latents:
        parts |= {name: parts[name].T for name in NEEDED[:2]}
    return saelens_autoencoder({"b_enc": 0.0, "b_dec": 0.0} | parts, settings, apply_b_dec_to_input)


def _latent_scales(arrays: Mapping[str, Any], settings: Settings, latents: int) -> FloatArray:
    """Return the factors (latents,) that multiply the latents before the decoder; ones if none are stored.

    `arrays` has SAELens' names, under which fine-tuning stores such factors. Factors other than 1 raise a
    ValueError if they are not switched on in `settings`.
    """
    name = next((name for name in _SCALES if name in arrays), None)
    if name is None:
        return np.ones(latents)
    scales = numbers_or_repeat(name, arrays[name], latents)
    if np.any(scales != 1.0) and not settings.finetuning_scaling_factor:
        raise ValueError(
            f"`model` must have its `{name}` folded into W_dec, or finetuning_scaling_factor in "
            "its cfg; got entries other than 1."
        )
    return scales


def _thresholds(arrays: Mapping[str, Any], kind: str, latents: int) -> Any:
    """Return a JumpReLU's thresholds (latents,), at least 0, or None for a ReLU.

    `kind` is the architecture by the settings, "standard" or "jumprelu". Thresholds below 0 become 0, as a
    JumpReLU then cuts off the same values. A ValueError is raised if a jumprelu has no thresholds, or if
    there are two arrays of them.
    """
    if "threshold" in arrays and "log_threshold" in arrays:
        raise ValueError("`model` must have one of threshold and log_threshold; got both.")
    if "log_threshold" in arrays:
        return np.exp(numbers_or_repeat("log_threshold", arrays["log_threshold"], latents))
    if "threshold" in arrays:
        return np.maximum(numbers_or_repeat("threshold", arrays["threshold"], latents), 0.0)
    if kind == "jumprelu":
        raise ValueError("`model` must have threshold or log_threshold where it is a jumprelu; got neither.")
    return None


def autoencoder_readings(arrays: Mapping[str, Any]) -> Iterator[tuple[str, list[Model]]]:
    """Yield (title, [model]) of each autoencoder that arrays with SAELens' names may be.

    The candidates differ in whether b_dec is subtracted from the input, whether the stored factors multiply
    the latents, and whether latents are ReLUs although there are thresholds.
    """
    alone = {name: array for name, array in arrays.items() if name in _KNOWN}
    if not (is_autoencoder(alone) and {*NEEDED} <= {*alone}):
        return
    for subtracts in (True, False):
        title = f"{NAME} that {'subtracts' if subtracts else 'does not subtract'} b_dec"
        for scaled in (True, False) if any(scale in alone for scale in _SCALES) else (True,):
            parts = {key: array for key, array in alone.items() if scaled or key not in _SCALES}
            settings = Settings(finetuning_scaling_factor=True)
            yield title, saelens_instances(parts, settings, subtracts)
        if "threshold" in alone:  # a ReLU, whose threshold is kept from training
            parts = {key: array for key, array in alone.items() if key != "threshold"}
            yield title, saelens_instances(parts, settings, subtracts)
