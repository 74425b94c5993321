"""Checkpoints of training: NumPy archives without pickles, written whole or not at all."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..reference.files import error_text, quoted_path, read_arrays, write_arrays
from .engine import ModelState

FORMAT = "superposition training checkpoint 2"
# What a model is besides its ends, history and random state: tensors, and what JSON holds.
TENSORS = ("parameters", "first_moment", "second_moment")
NOTED = ("step", "end_steps", "status", "finished")


def save(path: Path, settings: dict[str, Any], models: Sequence[ModelState], seconds: float) -> None:
    """Write a checkpoint from which training can continue, whole or not at all.

    The file has parameters, moments, random states and losses of the models, their weights at each end of
    training that they reached (stopping rule, convergence), the settings, and the seconds of training so far.
    """
    arrays: dict[str, np.ndarray] = {}
    notes = []
    for i, model in enumerate(models):
        arrays |= {f"{i} {name}": getattr(model, name).cpu().numpy() for name in TENSORS}
        arrays[f"{i} generator"] = model.generator.get_state().numpy()
        arrays[f"{i} history"] = np.array(model.history, dtype=np.float64)
        arrays |= {f"{i} end {end}": flat for end, flat in model.ends.items()}
        notes.append({"ends": list(model.ends)} | {name: getattr(model, name) for name in NOTED})
    head = {"format": FORMAT, "settings": settings, "models": notes, "seconds": seconds}
    arrays["head"] = np.array(json.dumps(head))
    write_arrays(path, {**arrays, "sum": np.array(_checksum(arrays))})


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    """Return the SHA-256 of arrays with their names, types and shapes."""
    seen = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        seen.update(json.dumps([name, array.dtype.str, array.shape]).encode() + array.tobytes())
    return seen.hexdigest()


def load(torch: Any, path: Path, settings: dict[str, Any], models: Sequence[ModelState]) -> float:
    """Load the state of a checkpoint into new `models`, in place; return the seconds of training so far.

    ValueError if the file at `path` is truncated, foreign, or was made with other `settings`.
    """
    try:
        arrays = read_arrays(path)
        head = json.loads(str(arrays["head"]))
        known, made_with = head["format"] == FORMAT, head["settings"]
        if known and str(arrays.pop("sum")) != _checksum(arrays):
            raise ValueError("its content is not as it was written")
    except (ValueError, KeyError, TypeError) as error:
        rule = "`checkpoint` must be a file written by this project, and whole"
        raise ValueError(f"{rule}; got {quoted_path(path)} ({error_text(error)}).") from error
    if not known:
        raise ValueError(f"`checkpoint` must have the format {FORMAT!r}; got {quoted_path(path)}.")
    differing = sorted(name for name in settings if made_with.get(name) != settings[name])
    if differing:
        rule = "`checkpoint` must come from a run with the same settings"
        raise ValueError(f"{rule}; got {quoted_path(path)}, which differs in {', '.join(differing)}.")
    for i, (model, note) in enumerate(zip(models, head["models"], strict=True)):
        device = model.parameters.device
        for name in TENSORS:
            setattr(model, name, torch.from_numpy(arrays[f"{i} {name}"]).to(device))
        model.generator.set_state(torch.from_numpy(arrays[f"{i} generator"]))
        model.history = arrays[f"{i} history"].tolist()
        model.ends = {end: arrays[f"{i} end {end}"] for end in note["ends"]}
        for name in NOTED:
            setattr(model, name, note[name])
    return float(head["seconds"])
