"""Weights from files, torch modules and state dicts; nothing in a file is executed."""

import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from ...theory.arguments import FloatArray, shown
from ..files import named, read_arrays
from ..training.engine import load_torch

# More than any toy model; a compressed file may claim more than the memory there is.
MOST_BYTES = 2**31
# An archive of more bytes is unpacked only if its arrays have shapes of models: axes of at most so much.
_LARGE, _AXIS = 2**24, 2**14
_FILES = "an .npz or .safetensors file, or a PyTorch file of tensors alone"


def _refuse(path: Path, why: str) -> ValueError:
    return ValueError(f"`model` must be {_FILES}; got {named(path)} ({why}).")


def _safetensors(path: Path) -> dict[str, Any]:
    try:
        return load_tensors(path.read_bytes())
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # the last three: kinds NumPy lacks
        raise _refuse(path, f"no whole file of safetensors: {shown(error)}") from error


def _plain(value: Any) -> Any:
    """Return tensors as arrays, in containers too; what else there is stays."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if hasattr(value, "detach"):
        array = value.detach().cpu()
        # Doubles for all kinds of floats, some of which NumPy lacks. Complex numbers and booleans stay what
        # they are, to be refused by name, as do sparse and quantised tensors.
        try:
            return (array.double() if array.is_floating_point() else array.resolve_conj()).numpy()
        except (TypeError, RuntimeError):
            return value
    return value


def _leaves(module: Any) -> Iterator[Any]:
    """Yield the modules within a module that have none themselves, in the order of their registration."""
    inner = list(module.children())
    for one in inner:
        yield from _leaves(one)
    if not inner:
        yield module


def hidden_activation(module: Any) -> str:
    """Return the kind of a nonlinearity that was registered before some weights, or nothing."""
    seen = ""
    for leaf in _leaves(module):
        if type(leaf).__module__.endswith(".activation"):
            seen = type(leaf).__name__
        elif seen and any(one.ndim > 1 for one in leaf.parameters(recurse=False)):
            return seen
    return ""


def answers(module: Any, x: FloatArray) -> FloatArray | None:
    """Return what a live module answers to inputs; None if it takes no such inputs.

    In evaluation mode, and without gradients. The module is left in the mode that it was in.
    """
    torch, training = load_torch(), module.training
    weights = next(module.parameters(), None)
    if weights is None:
        return None
    try:
        module.eval()
        with torch.no_grad():
            found = module(torch.as_tensor(x, dtype=weights.dtype, device=weights.device))
        return np.asarray(found.double().cpu().numpy())
    except Exception:  # another signature, or other shapes: whatever code of the user's raises
        return None
    finally:
        module.train(training)


def _torch(path: Path) -> Any:
    """Read a PyTorch file of tensors and containers; what would execute code is refused by PyTorch."""
    torch = load_torch()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says of old and foreign files is said in one line below
            return _plain(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # a damaged file raises many types
        why = "a pickled module, whose state_dict() is to be saved instead, or no whole file of PyTorch's"
        raise _refuse(path, f"{why}: {type(error).__name__}") from error


def _check_heads(path: Path) -> None:
    """Refuse an archive with an array that no model has, by the heads of its arrays alone."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
                shape, _, kind = (read or np.lib.format.read_array_header_2_0)(file)
            if len(shape) > 3 or max(shape, default=0) > _AXIS or prod(shape) * kind.itemsize > MOST_BYTES:
                raise ValueError(f"{name} has the shape {shape}; at most 3 axes of at most {_AXIS}")


def _from_file(path: Path) -> Any:
    try:
        if not path.is_file():  # a pipe would never end
            raise OSError("no such file")
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = max(size, sum(entry.file_size for entry in archive.infolist()))
    except (OSError, zipfile.BadZipFile) as error:
        raise _refuse(path, str(error)) from error
    if size > MOST_BYTES:
        raise _refuse(path, f"{size / 2**30:.1f} GiB; at most {MOST_BYTES // 2**30}")
    if path.suffix == ".npz":
        try:
            if size > _LARGE:
                _check_heads(path)
            return read_arrays(path)
        except ValueError as error:
            raise _refuse(path, shown(str(error.__cause__ or error))) from error
    return _safetensors(path) if path.suffix == ".safetensors" else _torch(path)


def state_of(model: Any) -> Mapping[Any, Any]:
    """Return the names and arrays of a model.

    Parameters
    ----------
    model : path, mapping or torch.nn.Module
        A file (.npz, .safetensors, or a PyTorch file of a state dict), a state dict of tensors or arrays, or
        anything with a method ``state_dict``.

    Returns
    -------
    mapping of str to ndarray
        And other entries of a checkpoint, as they are.

    Raises
    ------
    ValueError
        If it is none of these, if a file is damaged or too large, or holds a pickle.
    ImportError
        If a PyTorch file is to be read without PyTorch.
    """
    if isinstance(model, str | os.PathLike):
        found = _from_file(Path(model))
    elif hasattr(model, "state_dict"):
        found = _plain(model.state_dict())
    else:
        found = _plain(model)
    if not isinstance(found, Mapping):
        what = (
            f"{type(model).__name__} of shape {np.shape(found)}" if hasattr(found, "shape") else shown(found)
        )
        rule = "a torch module, a state dict, a path or `Weights(W_out, W_in, b)`"
        raise ValueError(f"`model` must be {rule}; got {what}.")
    return found
