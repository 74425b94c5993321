"""Names and arrays from files of weights: NumPy, safetensors, PyTorch. Nothing in a file is executed."""

import json
import warnings
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize

from ...theory.validation import FloatArray, short_repr
from ..reference.files import error_text, quoted_path, read_arrays
from .arrays import as_arrays
from .unpickling import load_inert

# Bytes, more than any toy model; a compressed file may claim more than the memory there is.
MOST_BYTES = 2**31
# Bytes; an archive of more is unpacked only if its arrays have shapes of models.
_LARGE = 2**24
# Entries along one axis of an array in a large archive.
_LONGEST_AXIS = 2**14
# Bytes unpacked for each byte of a file: weights hardly compress, zeros do, a thousand times.
_MOST_COMPRESSED = 50
# Bytes of a configuration; SAELens writes some thousand.
_MOST_SETTINGS = 2**20
_FILES = "an .npz, .npy or .safetensors file, or a PyTorch file of tensors alone"
# Kinds of numbers in a safetensors file that NumPy has too.
_KINDS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def _refusal(path: Path, why: str) -> ValueError:
    """Return the ValueError for a file that is no model; `why` is the reason, in brackets."""
    return ValueError(f"`model` must be {_FILES}; got {quoted_path(path)} ({why}).")


def _decode_float8(codes: npt.NDArray[np.uint8], kind: str) -> FloatArray:
    """Return 8-bit floats, stored as the bytes `codes`, as float32.

    `kind` is F8_E5M2, the upper half of a float16, or F8_E4M3.
    """
    if kind == "F8_E5M2":
        return (codes.astype("<u2") << 8).view("<f2").astype("<f4")
    exponent, mantissa = (codes >> 3 & 15).astype(int), codes & 7
    size = np.where(exponent > 0, np.ldexp(8.0 + mantissa, exponent - 10), np.ldexp(1.0 * mantissa, -9))
    size = np.where(codes & 127 == 127, np.nan, size)
    return np.where(codes > 127, -size, size).astype("<f4")


def _read_safetensors(path: Path) -> dict[str, Any]:
    """Return the arrays of a safetensors file by name, bfloat16 as float32; ValueError if it is damaged."""
    try:
        entries = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (SafetensorError, OSError, ValueError) as error:
        raise _refusal(path, f"no whole file of safetensors: {short_repr(error)}") from error
    arrays = {}
    for name, entry in sorted(entries, key=lambda entry: str(entry[0])):
        kind, shape, data = entry["dtype"], entry["shape"], bytes(entry["data"])
        if kind == "BF16":  # the upper half of a float32
            array = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        elif kind in ("F8_E4M3", "F8_E5M2"):
            array = _decode_float8(np.frombuffer(data, "u1"), kind)
        elif kind in _KINDS:
            array = np.frombuffer(data, _KINDS[kind])
        else:
            why = f"{name!r} has the type {kind}, which is not read: save it as float32"
            raise _refusal(path, why)
        arrays[name] = array.reshape(shape)
    return arrays


def _read_torch(path: Path) -> Any:
    """Return the content of a file of `torch.save`, tensors as arrays, without executing code.

    A damaged file, or one with more than tensors and containers, raises a ValueError; without PyTorch an
    ImportError is raised.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"reading {quoted_path(path)} needs PyTorch: pip install -e '.[torch]' in the checkout, or save "
            "the arrays as .npz or .safetensors"
        ) from error
    try:
        # What it warns of in old and foreign files is said in one line below.
        with warnings.catch_warnings(action="ignore"):
            try:
                return as_arrays(torch.load(path, map_location="cpu", weights_only=True))
            except UnpicklingError:
                return as_arrays(load_inert(path))
    except Exception as error:  # a damaged file raises many types
        why = "a pickled module, whose state_dict() is to be saved instead, or no whole file of PyTorch's"
        what = short_repr(str(error)) if isinstance(error, UnpicklingError) else type(error).__name__
        raise _refusal(path, f"{why}: {what}") from error


def _check_header(file: Any, name: str, size: int, large: bool = False) -> None:
    """Raise ValueError if the header of an .npy `file` claims more bytes than `size` or than models have.

    `file` is open for reading. With `large`, more or longer axes than models have are refused too; `name` is
    for the message.
    """
    read = np.lib.format.read_array_header_1_0 if np.lib.format.read_magic(file) == (1, 0) else None
    shape, _, kind = (read or np.lib.format.read_array_header_2_0)(file)
    if prod(shape) * kind.itemsize > min(size, MOST_BYTES) and not kind.hasobject:
        raise ValueError(f"{name} has the shape {shape}, and {size} bytes")
    if large and (len(shape) > 3 or max(shape, default=0) > _LONGEST_AXIS):
        raise ValueError(f"{name} has the shape {shape}; at most 3 axes of at most {_LONGEST_AXIS}")


def _read_npz(path: Path, size: int) -> dict[str, Any]:
    """Return the arrays by name of an .npz file that unpacks to `size` bytes; ValueError if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    _check_header(file, entry.filename, entry.file_size, size > _LARGE)
        return read_arrays(path)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _refusal(path, short_repr(str(error.__cause__ or error))) from error


def _read_npy(path: Path, size: int) -> FloatArray:
    """Return the array of an .npy file of `size` bytes; ValueError if it is damaged."""
    try:
        with open(path, "rb") as file:
            _check_header(file, "it", size)
        return np.asarray(np.load(path, allow_pickle=False))
    except Exception as error:  # damaged files raise many types
        raise _refusal(path, short_repr(str(error))) from error


def _check_size(path: Path) -> int:
    """Return the number of bytes that a file unpacks to; ValueError if it is missing or too large."""
    try:
        if not path.is_file():  # a pipe would never end
            raise OSError("no such file")
        size = packed = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = max(size, sum(entry.file_size for entry in archive.infolist()))
    except (OSError, ValueError, zipfile.BadZipFile) as error:  # ValueError: a name that no file can have
        raise _refusal(path, error_text(error)) from error
    if size > MOST_BYTES:
        raise _refusal(path, f"{size / 2**30:.1f} GiB; at most {MOST_BYTES // 2**30}")
    if size > _LARGE and size > _MOST_COMPRESSED * packed:
        raise _refusal(path, f"{packed / 2**20:.2g} MiB that unpack to {size / 2**20:.0f}; no weights do")
    return size


def read_file(path: Path) -> Any:
    """Return the arrays of a file by name, or the one array of an .npy file.

    The suffix decides the format: .npy, .npz, .safetensors, and PyTorch's for any other. A file that is
    damaged, too large or of another kind raises a ValueError.
    """
    size, suffix = _check_size(path), path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return (_read_npy if suffix == ".npy" else _read_npz)(path, size)
    return _read_safetensors(path) if suffix == ".safetensors" else _read_torch(path)


def read_settings(path: Path) -> Mapping[str, Any]:
    """Return the configuration in a JSON file; ValueError if the file is no object, too large or damaged."""
    try:
        if path.stat().st_size > _MOST_SETTINGS:
            raise ValueError(f"more than {_MOST_SETTINGS // 2**20} MiB")
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError(f"an object is wanted, not a {type(content).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        why = "too deep" if isinstance(error, RecursionError) else error_text(error)
        raise ValueError(
            f"`model` must have a readable {path.name}; got {quoted_path(path)} ({why})."
        ) from error
    return content
