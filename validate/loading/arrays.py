"""Arrays by name from state dicts and checkpoints: tensors converted, wrappers and prefixes removed."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...theory.validation import FloatArray, short_repr, why_not_dense
from .names import is_stray

# Names under which checkpoints of public code hold the weights, the usual ones first.
_CONTAINERS = (
    "state_dict", "model_state", "model_state_dict", "params", "model", "net", "network", "weights",
    "final_model", "best_model", "module", "W",
)  # fmt: skip
# Names under which they hold what was asked of them.
_SETTINGS = ("cfg", "config", "hyper_parameters", "hparams", "args")
# Mappings in a checkpoint that hold no weights of the model.
_BESIDE = {
    *_SETTINGS, "optimizer", "optimizer_state", "optimizer_state_dict", "optimizer_states", "optim",
    "opt_state", "scheduler", "scheduler_state_dict", "lr_scheduler", "lr_schedulers", "callbacks", "loops",
    "metadata", "history", "metrics", "logs", "log", "batch_stats",
}  # fmt: skip
# Entries of a range that is turned into an array.
_LONGEST_RANGE = 10**6
# Mappings within mappings that are looked through.
_DEEPEST = 20
# Endings of the two arrays that PyTorch's weight normalisation keeps in place of a weight, old and new.
_NORMED = (("_g", "_v"), (".original0", ".original1"))


def array_of(value: Any, name: str = "model") -> Any:
    """Return a tensor, data frame, list or array as a NumPy array, of doubles if it was a tensor of floats.

    Ragged lists, and tensors that are not dense, such as sparse ones, raise a ValueError that calls them
    `name`.

    >>> array_of([[1, 2], [3]], "W")
    Traceback (most recent call last):
    ValueError: `W` must be an array of numbers; got [[1, 2], [3]], whose rows differ in length.
    """
    if hasattr(value, "detach"):
        if why := why_not_dense(value):
            raise ValueError(f"`{name}` must be an array of numbers; got {why}.")
        tensor = value.detach().cpu()
        tensor = tensor.double() if tensor.is_floating_point() else tensor.resolve_conj()
        return tensor.numpy()
    if isinstance(value, np.ndarray) or (isinstance(value, range) and len(value) > _LONGEST_RANGE):
        return value  # masked entries and endless ranges are refused by whoever checks numbers
    if isinstance(value, list | tuple) and any(hasattr(entry, "detach") for entry in value):
        value = [array_of(entry, name) for entry in value]
    try:
        return np.asarray(value)
    except ValueError as error:
        what = f"{short_repr(value)}, whose rows differ in length"
        raise ValueError(f"`{name}` must be an array of numbers; got {what}.") from error


def as_arrays(value: Any, depth: int = 0) -> Any:
    """Return `value` with tensors, numeric lists and array-likes as NumPy arrays, also inside mappings.

    Other values are returned unchanged, also tensors that are not dense, which later checks refuse by name.
    `depth` is the number of mappings around the value.
    """
    if isinstance(value, Mapping):
        if depth > _DEEPEST:
            raise ValueError(f"`model` must have at most {_DEEPEST} mappings within each other; got more.")
        return {name: as_arrays(entry, depth + 1) for name, entry in value.items()}
    if hasattr(value, "detach"):
        return value if why_not_dense(value) else array_of(value)
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, list | tuple | float):
        try:
            array = np.asarray(value)
        except (RuntimeError, TypeError, ValueError):  # ragged, or of tensors without values
            return value
        return array if array.dtype.kind in "fiu" and array.size else value
    return value


def _holds_arrays(value: Any) -> bool:
    """Return whether a value is an array, or a mapping with an array at any depth."""
    return isinstance(value, np.ndarray) or (
        isinstance(value, Mapping) and any(_holds_arrays(entry) for entry in value.values())
    )


def _unwrap(entries: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the innermost mapping with a checkpoint's weights; `entries` itself if none is nested.

    A nested mapping with weights has a usual name, such as "state_dict" or "model", or is the only one with
    arrays. Those of an optimizer, settings and the like do not count.
    """
    for name in _CONTAINERS:
        if isinstance(entries.get(name), Mapping):
            return _unwrap(entries[name])
    if not any(isinstance(entry, np.ndarray) and entry.ndim for entry in entries.values()):
        inner = [name for name, entry in entries.items() if _holds_arrays(entry) and name not in _BESIDE]
        inner = [name for name in inner if isinstance(entries[name], Mapping)]
        if len(inner) == 1 and any(isinstance(entry, np.ndarray) for entry in entries[inner[0]].values()):
            return _unwrap(entries[inner[0]])
    return entries


def _flatten(entries: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, entry) of nested mappings, `entries`; `prefix` stands before the names.

    Mappings without weights, such as settings or an optimizer's state, are left out.
    """
    for name, entry in entries.items():
        if isinstance(entry, Mapping):
            if name not in _BESIDE:
                yield from _flatten(entry, f"{prefix}{name}.")
        elif name != "cfg":
            yield f"{prefix}{name}", entry


def _strip_prefix(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays without the dotted prefix that all names share, such as "module.".

    The prefix of numbered layers, "layers", stays: gaps between the numbers may be layers without arrays.
    """
    while arrays:
        first = {name.partition(".")[0] for name in arrays}
        if len(first) > 1 or "layers.1.weight" in arrays or not all("." in name for name in arrays):
            break
        arrays = {name.partition(".")[2]: array for name, array in arrays.items()}
    return arrays


def _merge_weight_norm(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays with the weight g v / |v| in place of each pair g, v of weight normalisation.

    |v| is the norm over the axes in which g has length 1.
    """
    weights = dict(arrays)
    for name in arrays:
        for end_g, end_v in _NORMED:
            base = name.removesuffix(end_g)
            if not name.endswith(end_g) or f"{base}{end_v}" not in arrays:
                continue
            g, v = np.asarray(arrays[name]), np.asarray(arrays[f"{base}{end_v}"])
            if g.ndim != v.ndim or any(
                k not in (1, length) for k, length in zip(g.shape, v.shape, strict=True)
            ):
                continue
            axes = tuple(k for k in range(v.ndim) if g.shape[k] == 1)
            size = np.sqrt(np.sum(v.astype(float) ** 2, axis=axes, keepdims=True))
            weight = base.replace("parametrizations.", "")
            del weights[name], weights[f"{base}{end_v}"]
            weights[weight] = g * v / size
    return weights


def named_arrays(entries: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the arrays of a state dict or checkpoint by name, without the prefixes of wrappers.

    >>> sorted(named_arrays({"state_dict": {"model.W": np.eye(2), "model.b": np.ones(2)}, "epoch": 3}))
    ['W', 'b']
    """
    inner = _unwrap(as_arrays(entries))
    return _merge_weight_norm(_strip_prefix(dict(_flatten(inner))))


def find_name(name: Any, arrays: Mapping[str, Any]) -> str | None:
    """Return the key in `arrays` of an array named with or without prefixes of wrappers; None if absent."""
    if name in arrays:
        return str(name)
    return next((known for known in arrays if str(name).endswith(f".{known}")), None)


def drop_strays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays without those that public code stores beside weights: importance, losses, steps.

    If there is a "W_enc", arrays named "model.…" are dropped too: ARENA's autoencoder stores in these the toy
    model whose hidden neurons it reads.
    """
    return {
        name: array
        for name, array in arrays.items()
        if not is_stray(name) and not ("W_enc" in arrays and name.startswith("model."))
    }


def summarise_shapes(arrays: Mapping[str, Any], width: int = 80) -> str:
    """Return the names and shapes of arrays in one line, cut to `width` characters.

    >>> summarise_shapes({"W": np.ones((5, 2)), "b": np.ones(5)})
    "'W (5, 2), b (5,)'"
    """
    words = ", ".join(f"{name} {tuple(np.shape(array))}" for name, array in arrays.items())
    return short_repr(words, width) if words else "no arrays"


def settings_beside(entries: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the settings beside a checkpoint's weights by name, merged; {} if there are none.

    Settings are the entries of "cfg", "config", "hyper_parameters", "hparams" and "args", beside the weights
    or in the mapping around them; those of "cfg" override the others.
    """
    settings: dict[str, Any] = {}
    for name in reversed(_SETTINGS):
        if isinstance(entries.get(name), Mapping):
            settings |= entries[name]
        elif name in entries and hasattr(entries[name], "__dict__"):
            settings |= vars(entries[name])
    for name in _CONTAINERS:
        if isinstance(entries.get(name), Mapping):
            settings = settings_beside(entries[name]) | settings
    return settings


def require_numeric(arrays: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Return the arrays as a dict; one that is not of real numbers raises a ValueError."""
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            what = why_not_dense(array) or short_repr(array)
            raise ValueError(f"`model` must hold arrays of real numbers; {name!r} is {what}.")
    return dict(arrays)
