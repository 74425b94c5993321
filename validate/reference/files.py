"""Reading and atomic writing of files: netCDF, CSV, JSON, NumPy arrays, text; never pickles."""

import errno
import hashlib
import io
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from ...theory.annotations import as_annotated
from ...theory.validation import instance, short_repr

if TYPE_CHECKING:  # xarray and pandas take half a second to import: functions that use them do so
    import xarray as xr

__all__ = [
    "LOCK", "MARKER", "atomic_write", "describe_difference", "digest", "error_text", "exclusive_folder",
    "output_file", "output_folder", "page_file", "quoted_path", "read_arrays", "read_dataset",
    "refuse_same_file", "require_same_settings", "write_arrays", "write_dataset", "write_marker",
    "write_tables", "write_text",
]  # fmt: skip

PART = ".superposition-part"  # suffix of files that are being written
MARKER = ".superposition"  # file in a folder that commands fill
LOCK = ".superposition-lock"  # file that is locked by the process that fills a folder
_PART = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(PART)}")
_MARK = "superposition"  # first word of a marker
_MARK_TEXT = f"""\
{_MARK}: commands fill this folder, one at a time. They replace files of their names, and touch no others.
"""

_LONGEST = 4096  # characters of a path, the limit of Linux; to look for a longer one takes minutes


@as_annotated
def quoted_path(path: str | os.PathLike[str]) -> str:
    """Return a path in quotes for a message, unprintable characters escaped, long paths cut."""
    text = repr(str(path))
    return text if len(text) <= 205 else f"{text[:120]} ... {text[-80:]}"


@contextmanager
@as_annotated
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give the path of a temporary file, which replaces `path` if the block raises no error.

    If it raises, the temporary file is removed; an OSError names `path`.
    """
    path = output_file(path)
    part = path.parent / f".{secrets.token_hex(8)}{PART}"
    try:
        yield part
        part.replace(path)
    except OSError as error:
        if error.errno is not None:  # such as a full disk; with the name that the user knows
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


def error_text(error: Exception) -> str:
    """Return the text of an error on one line, shortened, without the name of the file."""
    return (isinstance(error, OSError) and error.strerror) or short_repr(str(error), 200).strip("'\"")


@as_annotated
def refuse_same_file(output: str | Path, inputs: Mapping[str, Any], name: str = "out") -> None:
    """Raise ValueError if an output file is one of the inputs, also under another name or through a link.

    `inputs` maps arguments to values, of which only paths count; `name` is the argument of the output.

    >>> refuse_same_file("model.npz", {"model": "./model.npz"}, "html")
    Traceback (most recent call last):
    ValueError: `html` must be another file than `model`; got 'model.npz' and './model.npz'.
    """
    for other, path in inputs.items():
        if isinstance(path, str | os.PathLike) and _is_same_file(Path(output), Path(path)):
            raise ValueError(
                f"`{name}` must be another file than `{other}`; "
                f"got {quoted_path(output)} and {quoted_path(path)}."
            )


def _is_same_file(path: Path, other: Path) -> bool:
    """Return whether two paths lead to one file, or would if there were a file."""
    if max(len(str(path)), len(str(other))) > _LONGEST:
        return False
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them is not there, or has no possible name
        return os.path.realpath(path) == os.path.realpath(other) if "\0" not in f"{path}{other}" else False


@as_annotated
def output_file(path: str | Path, name: str = "path", *, make_folder: bool = False) -> Path:
    """Return a path at which a file can be written: nothing is there yet, or an ordinary file.

    Anything else raises a ValueError that names the argument `name`. A link is refused too, as writing would
    replace the link and not the file that it leads to. The folder has to exist, or is made if `make_folder`.
    """
    target, rule = Path(path), ""
    try:
        str(path).encode()  # fails for what could not be printed either
        if str(path) in ("", ".", "..") or str(path).endswith(os.sep) or "\0" in str(path):
            rule = "the name of a file"
        elif target.is_symlink() or (target.exists() and not target.is_file()):
            kind = "link" if target.is_symlink() else "folder" if target.is_dir() else "device or pipe"
            rule = f"an ordinary file, or absent, and no {kind}"
        elif not (make_folder or target.parent.is_dir()):
            rule = "in a folder that is there"
    except (OSError, ValueError) as error:  # too long a name, or one with a null character
        raise ValueError(
            f"`{name}` must be the name of a file; got {quoted_path(path)} ({error_text(error)})."
        ) from error
    if rule:
        raise ValueError(f"`{name}` must be {rule}; got {quoted_path(path)}.")
    output_folder(target.parent, name)
    return target


@as_annotated
def page_file(path: str | Path) -> Path:
    """Return a path at which an HTML page can be written; ValueError if any other file is there."""
    target = output_file(path)
    if target.exists() and not target.read_bytes()[:15].lower().startswith(b"<!doctype html"):
        raise ValueError(f"`path` must be absent or a page, which is replaced; got {str(path)!r}.")
    return target


@contextmanager
@as_annotated
def exclusive_folder(path: str | Path, option: str = "out") -> Iterator[Path]:
    """Give a folder for a command's files: created, marked as ours, and locked against other processes.

    A folder with foreign files, or one that is locked, raises a ValueError that names the argument `option`.
    Nothing in it is ever removed, not even temporary files of killed processes.
    """
    folder = output_folder(path, option)
    if not _is_marked(folder) and (foreign := _foreign_entries(folder)):
        rule = f"empty, or a folder that this program fills (it has a {MARKER})"
        raise ValueError(
            f"`{option}` must be {rule}; got {quoted_path(folder)}, which holds {quoted_path(foreign[0])}."
        )
    lock = FileLock(output_file(folder / LOCK, option), is_singleton=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        rule = "a folder that no other run is writing to now"
        raise ValueError(f"`{option}` must be {rule}; got {quoted_path(folder)}.") from error
    try:
        write_marker(folder)
        yield folder
    finally:
        lock.release()


@as_annotated
def write_marker(folder: Path) -> None:
    """Write the file that marks a folder as made by a command of this program, unless it is there."""
    if not _is_marked(folder):
        write_text(folder / MARKER, _MARK_TEXT)


def _is_marked(folder: Path) -> bool:
    """Return whether a folder has the file that marks it as made by a command of this program."""
    marker = folder / MARKER
    if marker.is_symlink() or not marker.is_file():
        return False
    with open(marker, "rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()


def _foreign_entries(folder: Path) -> list[str]:
    """Return the sorted names of a folder's entries other than our lock and our temporary files."""
    names = (entry.name for entry in folder.iterdir())
    return sorted(name for name in names if name != LOCK and not _PART.fullmatch(name))


@as_annotated
def require_same_settings(
    option: str, path: str, stored_settings: Mapping[str, Any], settings: Mapping[str, Any], rule: str
) -> None:
    """Raise ValueError, with the first difference, if stored settings differ from new ones.

    `option`, `path` and `rule` are parts of its text: "`option` must be `rule`; got `path` with …".

    >>> require_same_settings("out", "'runs'", {"seed": 0}, {"seed": 1}, "a run of the same settings")
    Traceback (most recent call last):
    ValueError: `out` must be a run of the same settings; got 'runs' with seed 0, not 1.
    """
    if difference := describe_difference(stored_settings, settings):
        raise ValueError(f"`{option}` must be {rule}; got {path} with {difference}.")


@as_annotated
def describe_difference(stored_settings: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the first difference of `stored_settings` and present settings as text; "" if they are equal.

    >>> describe_difference({"seed": 0, "grid": {"p": 0.1}}, {"seed": 0, "grid": {"p": 0.2}})
    'p 0.1, not 0.2'
    """
    for name in (*settings, *stored_settings):
        old, new = stored_settings.get(name), settings.get(name)
        if old != new:
            inner = ""
            if isinstance(old, dict) and isinstance(new, dict):
                inner = describe_difference(old, new)
            return inner or f"{name} {short_repr(old)}, not {short_repr(new)}"
    return ""


@as_annotated
def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or "" if it cannot be read."""
    try:  # only of ordinary files: a device may have no end
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return ""


@as_annotated
def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8 atomically; surrogates are escaped."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")


@as_annotated
def write_dataset(path: str | Path, dataset: "xr.Dataset") -> None:
    """Write a dataset as a netCDF-3 file, which needs no library but SciPy.

    Complex numbers are not allowed in netCDF; attributes must be text or numbers. Integers of 2^31 and more
    do not fit into netCDF-3 and become floats.
    """
    import xarray as xr

    instance("dataset", dataset, xr.Dataset)
    attrs = {name: int(value) if isinstance(value, bool) else value for name, value in dataset.attrs.items()}
    dataset = dataset.assign_attrs(attrs)
    for name, values in dataset.variables.items():
        if values.dtype.kind in "iu" and values.size and np.abs(values.values.astype(float)).max() >= 2**31:
            dataset[name] = dataset[name].astype(np.float64)
    # In memory first: if a disk is full, the writer of netCDF raises again where nobody can catch it.
    # As bytes: a view that is kept by the traceback of a failed write is another error in Python 3.13.
    content = bytes(dataset.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))
    with atomic_write(path) as part:
        part.write_bytes(content)


@as_annotated
def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name as a NumPy archive (npz) without pickles, atomically."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    with atomic_write(path) as part:
        part.write_bytes(content.getvalue())


@as_annotated
def read_arrays(path: str | Path, what: str = "a whole file written by this project") -> dict[str, Any]:
    """Return the arrays of a NumPy archive by name; pickles are refused, so that foreign files are safe.

    A file that is missing, truncated or no archive raises a ValueError, whose text says `what` it must be.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # the readers of zip files and of arrays raise many types on damaged ones
        raise ValueError(f"`path` must be {what}; got {quoted_path(path)} ({error_text(error)}).") from error


@as_annotated
def write_tables(path: str | Path, dataset: "xr.Dataset") -> list[Path]:
    """Write a dataset as CSV files in long format, with all digits, and return their paths.

    Variables of the same dimensions share a table. Names of several tables contain their dimensions; a single
    table has the name `path`.
    """
    import xarray as xr

    instance("dataset", dataset, xr.Dataset)
    path = output_file(path)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, values in dataset.data_vars.items():
        groups.setdefault(tuple(sorted(map(str, values.dims))), []).append(str(name))
    if len(groups) > 1:
        constants = groups.pop((), [])  # columns with the same number in each row of the other tables
        dataset = dataset.set_coords(constants)
    paths = []
    for dims, names in groups.items():
        end = f"-by-{'-'.join(dims)}.csv".replace("_", "-") if len(groups) > 1 else ".csv"
        table = path.with_name(path.stem + end)
        part_of = dataset[names] if dims else dataset[names].expand_dims("row")
        frame = part_of.to_dataframe().reset_index()
        order = [*dims, *(str(name) for name in dataset.variables if str(name) not in dims)]
        with atomic_write(table) as part:
            frame.to_csv(part, index=False, columns=[name for name in order if name in frame])
        paths.append(table)
    return paths


@as_annotated
def read_dataset(path: str | Path) -> "xr.Dataset":
    """Return the dataset of a netCDF file, in memory; ValueError if it is missing, truncated or no netCDF."""
    import xarray as xr

    try:
        if not os.path.isfile(path):  # reading a pipe would block
            raise FileNotFoundError(errno.ENOENT, "there is no ordinary file")
        with xr.open_dataset(path, engine="scipy", decode_times=False) as dataset:
            return dataset.load()
    except Exception as error:  # the netCDF reader raises many types on a foreign or cut file
        rule = "`path` must be a netCDF file written by this project"
        raise ValueError(f"{rule}; got {quoted_path(path)} ({error_text(error)}).") from error


@as_annotated
def output_folder(path: str | Path, name: str = "out") -> Path:
    """Create a folder with its parents and return it; ValueError, naming `name`, if it is not writable."""
    folder = Path(path)
    try:
        if not str(path).encode():
            raise ValueError("no name")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        rule = f"`{name}` must be a folder that can be written, or lie in one"
        raise ValueError(f"{rule}; got {quoted_path(path)} ({error_text(error)}).") from error
    return folder
