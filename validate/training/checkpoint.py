"""Checkpoints of training: NumPy archives without pickles, written whole or not at all."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import replacing
from .engine import Model

__all__ = ["load", "save"]

FORMAT = "superposition training checkpoint 1"


def save(path: Path, settings: dict[str, Any], models: Sequence[Model], seconds: float) -> None:
    """Write all that continuing needs: parameters, moments, random states, losses, ends reached."""
    arrays: dict[str, np.ndarray] = {}
    notes = []
    for i, model in enumerate(models):
        arrays[f"{i} parameters"] = model.parameters.cpu().numpy()
        arrays[f"{i} first_moment"] = model.first_moment.cpu().numpy()
        arrays[f"{i} second_moment"] = model.second_moment.cpu().numpy()
        arrays[f"{i} generator"] = model.generator.get_state().numpy()
        arrays[f"{i} history"] = np.array(model.history, dtype=np.float64)
        for end, flat in model.ends.items():
            arrays[f"{i} end {end}"] = flat
        notes.append(
            {
                "step": model.step,
                "ends": list(model.ends),
                "end_steps": model.end_steps,
                "status": model.status,
                "finished": model.finished,
            }
        )
    head = {"format": FORMAT, "settings": settings, "models": notes, "seconds": seconds}
    arrays["head"] = np.array(json.dumps(head))
    with replacing(path) as part, open(part, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(torch: Any, path: Path, settings: dict[str, Any], models: Sequence[Model]) -> float:
    """Put the state in a checkpoint into fresh models; return the seconds already spent.

    Raises
    ------
    ValueError
        If the file is truncated, foreign, or was made with other settings.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(str(arrays["head"]))
        known, made_with = head["format"] == FORMAT, head["settings"]
    except Exception as error:  # zipfile, numpy and json raise many types on a foreign or cut file
        raise ValueError(
            f"`checkpoint` must be a file written by this project, and whole; got {str(path)!r} ({error})."
        ) from error
    if not known:
        raise ValueError(f"`checkpoint` must have the format {FORMAT!r}; got {str(path)!r}.")
    other = sorted(name for name in settings if made_with.get(name) != settings[name])
    if other:
        raise ValueError(
            f"`checkpoint` must come from a run with the same settings; got {str(path)!r}, which differs "
            f"in {', '.join(other)}."
        )
    for i, (model, note) in enumerate(zip(models, head["models"], strict=True)):
        device = model.parameters.device
        for name in ("parameters", "first_moment", "second_moment"):
            setattr(model, name, torch.from_numpy(arrays[f"{i} {name}"]).to(device))
        model.generator.set_state(torch.from_numpy(arrays[f"{i} generator"]))
        model.history = arrays[f"{i} history"].tolist()
        model.ends = {end: arrays[f"{i} end {end}"] for end in note["ends"]}
        model.step, model.finished = note["step"], note["finished"]
        model.end_steps, model.status = note["end_steps"], note["status"]
    return float(head["seconds"])
