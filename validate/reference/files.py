"""Results on disk: written whole or not at all, as netCDF, CSV, JSON, NumPy arrays or text; never pickles."""

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
from typing import Any

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from ...theory.annotations import as_annotated
from ...theory.validation import short_repr

__all__ = [
    "LOCK",
    "MARKER",
    "atomic_write",
    "describe_difference",
    "digest",
    "error_text",
    "exclusive_folder",
    "output_file",
    "output_folder",
    "page_file",
    "quoted_path",
    "read_arrays",
    "read_dataset",
    "refuse_same_file",
    "require_same_settings",
    "write_arrays",
    "write_dataset",
    "write_marker",
    "write_tables",
    "write_text",
]  # fmt: skip

PART = ".superposition-part"  # end of the names of files that are not whole yet
MARKER = ".superposition"  # file in a folder that commands fill
LOCK = ".superposition-lock"  # file that the one process that fills a folder has locked
_PART = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(PART)}")
_MARK = "superposition"  # what a marker begins with
_MARK_TEXT = f"""\
{_MARK}: commands fill this folder, one at a time. They replace files of their names, and touch no others.
"""

_LONGEST = (
    4096  # characters of a path: Linux has no file with a longer one, and to look for one takes minutes
)


@as_annotated
def quoted_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path in quotes for a message, unprintable characters escaped, long paths cut in the middle.

    Examples
    --------
    >>> quoted_path("a\x1b.nc"), len(quoted_path("x" * 10**6))
    ("'a\\x1b.nc'", 205)
    """
    text = repr(str(path))
    return text if len(text) <= 205 else f"{text[:120]} ... {text[-80:]}"


@contextmanager
@as_annotated
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` if the block ends well.

    Raises
    ------
    ValueError
        If `path` is no place for a file: a folder, a device, a pipe or a link, or in a folder that does not
        exist or cannot be written.
    OSError
        If the disk is full.
    """
    path = output_file(path)
    part = path.parent / f".{secrets.token_hex(8)}{PART}"
    try:
        yield part
        part.replace(path)
    except OSError as error:
        if error.errno is not None:  # such as a full disk; the name that the user gave
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


def error_text(error: Exception) -> str:
    """Return what an error says, on one line, cut, without the name of the file, which the caller adds.

    Examples
    --------
    >>> error_text(OSError(36, "File name too long", "x" * 10**6)), len(error_text(ValueError("x" * 10**6)))
    ('File name too long', 199)
    """
    return (isinstance(error, OSError) and error.strerror) or short_repr(str(error), 200).strip("'\"")


@as_annotated
def refuse_same_file(output: str | Path, inputs: Mapping[str, Any], name: str = "out") -> None:
    """Check that an output is not one of the inputs, also under another name or through a link.

    Parameters
    ----------
    output : path
    inputs : mapping from str to object
        What the caller calls each input; those that are no paths are ignored.
    name : str, optional
        What the caller calls the output.

    Raises
    ------
    ValueError
        If it is one of them.

    Examples
    --------
    >>> refuse_same_file("page.html", {"model": "runs/model.npz"})
    >>> refuse_same_file("model.npz", {"model": "./model.npz"}, "html")
    Traceback (most recent call last):
    ValueError: `html` must be another file than `model`; got 'model.npz' and './model.npz'.
    """
    for other, path in inputs.items():
        if isinstance(path, str | os.PathLike) and _same(Path(output), Path(path)):
            raise ValueError(
                f"`{name}` must be another file than `{other}`; "
                f"got {quoted_path(output)} and {quoted_path(path)}."
            )


def _same(one: Path, other: Path) -> bool:
    if max(len(str(one)), len(str(other))) > _LONGEST:
        return False
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there, or has no possible name
        return os.path.realpath(one) == os.path.realpath(other) if "\0" not in f"{one}{other}" else False


@as_annotated
def output_file(path: str | Path, name: str = "path", *, make_folder: bool = False) -> Path:
    """Check that a file can be written at a path: there is none yet, or an ordinary one.

    Links are not followed, so that nothing but the path itself is replaced. `name` is what the caller calls
    it; the folder that it lies in has to be there, or is made on request.

    Raises
    ------
    ValueError
        If something else is there, its folder is not, or the folder cannot be written.
    """
    found, rule = Path(path), ""
    try:
        str(path).encode()  # raises at what is no text, which could not be printed either
        if str(path) in ("", ".", "..") or str(path).endswith(os.sep) or "\0" in str(path):
            rule = "the name of a file"
        elif found.is_symlink() or (found.exists() and not found.is_file()):
            what = "link" if found.is_symlink() else "folder" if found.is_dir() else "device or pipe"
            rule = f"an ordinary file, or absent, and no {what}"
        elif not (make_folder or found.parent.is_dir()):
            rule = "in a folder that is there"
    except (OSError, ValueError) as error:  # too long a name, or one with a null character
        raise ValueError(
            f"`{name}` must be the name of a file; got {quoted_path(path)} ({error_text(error)})."
        ) from error
    if rule:
        raise ValueError(f"`{name}` must be {rule}; got {quoted_path(path)}.")
    output_folder(found.parent, name)
    return found


@as_annotated
def page_file(path: str | Path) -> Path:
    """Check that a page can be written at a path: as `output_file`, and what is there is a page."""
    target = output_file(path)
    if target.exists() and not target.read_bytes()[:15].lower().startswith(b"<!doctype html"):
        raise ValueError(f"`path` must be absent or a page, which is replaced; got {str(path)!r}.")
    return target


@contextmanager
@as_annotated
def exclusive_folder(path: str | Path, option: str = "out") -> Iterator[Path]:
    """Give a folder that a command fills: made, marked as ours, and locked against other processes.

    Nothing in it is ever removed. What a killed process has written half has a name of its own, and stays.

    Parameters
    ----------
    path : str or Path
    option : str, optional
        What the caller calls the folder.

    Raises
    ------
    ValueError
        If the folder cannot be written, is neither empty nor marked as ours, or another process fills it.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place, exclusive_folder(place) as folder:
    ...     sorted(one.name for one in folder.iterdir())
    ['.superposition', '.superposition-lock']
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
    """Mark a folder as one that commands fill, unless it is marked."""
    if not _is_marked(folder):
        write_text(folder / MARKER, _MARK_TEXT)


def _is_marked(folder: Path) -> bool:
    """Whether a folder has a marker of ours."""
    marker = folder / MARKER
    if marker.is_symlink() or not marker.is_file():
        return False
    with open(marker, "rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()


def _foreign_entries(folder: Path) -> list[str]:
    """Return names in a folder, without those that a process leaves that was killed before it marked it."""
    return sorted(one.name for one in folder.iterdir() if one.name != LOCK and not _PART.fullmatch(one.name))


@as_annotated
def require_same_settings(
    option: str, where: str, before: Mapping[str, Any], now: Mapping[str, Any], rule: str
) -> None:
    """Refuse to go on with what was begun with other settings: a ValueError that names the first of them.

    Parameters
    ----------
    option, where : str
        What the caller calls the place of what was begun, and its name.
    before, now : mapping from str to object
        The settings.
    rule : str
        What the place must be.

    Examples
    --------
    >>> require_same_settings("out", "'runs'", {"seed": 0}, {"seed": 1}, "a run of the same settings")
    Traceback (most recent call last):
    ValueError: `out` must be a run of the same settings; got 'runs' with seed 0, not 1.
    """
    if said := describe_difference(before, now):
        raise ValueError(f"`{option}` must be {rule}; got {where} with {said}.")


@as_annotated
def describe_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in which setting two runs differ first; nothing if they are the same.

    Examples
    --------
    >>> describe_difference({"seed": 0, "grid": {"p": 0.1}}, {"seed": 0, "grid": {"p": 0.2}})
    'p 0.1, not 0.2'
    """
    for name in (*now, *before):
        one, other = before.get(name), now.get(name)
        if one != other:
            inner = (
                describe_difference(one, other) if isinstance(one, dict) and isinstance(other, dict) else ""
            )
            return inner or f"{name} {short_repr(one)}, not {short_repr(other)}"
    return ""


@as_annotated
def digest(path: Path) -> str:
    """Return a checksum of a file's bytes, or an empty text if the file is missing."""
    try:  # of files alone: a device may have no end
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return ""


@as_annotated
def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all; what UTF-8 lacks is escaped."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")


@as_annotated
def write_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write a dataset as a netCDF-3 file, which SciPy reads and writes without further libraries.

    Complex numbers are not allowed in netCDF; attributes must be text or numbers. Integers of 2^31 and more
    have no place in netCDF-3 and become floats.
    """
    plain = {name: int(value) if isinstance(value, bool) else value for name, value in dataset.attrs.items()}
    dataset = dataset.assign_attrs(plain)
    for name, values in dataset.variables.items():
        if values.dtype.kind in "iu" and values.size and np.abs(values.values.astype(float)).max() >= 2**31:
            dataset[name] = dataset[name].astype(np.float64)
    # In memory first: the writer of netCDF complains again, where nobody can catch it, if a disk is full.
    # As bytes: a view that the traceback of a failed write keeps is one more complaint, in Python 3.13.
    content = bytes(dataset.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))
    with atomic_write(path) as part:
        part.write_bytes(content)


@as_annotated
def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as a NumPy archive (npz) that reads without pickles."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    with atomic_write(path) as part:
        part.write_bytes(content.getvalue())


@as_annotated
def read_arrays(path: str | Path, what: str = "a whole file written by this project") -> dict[str, Any]:
    """Read a NumPy archive; pickles are refused, so that a file of unknown origin is safe to read.

    A file that is missing, truncated or no such archive is a ValueError that says `what` it must be.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # the readers of zip files and of arrays raise many types on damaged ones
        raise ValueError(f"`path` must be {what}; got {quoted_path(path)} ({error_text(error)}).") from error


@as_annotated
def write_tables(path: str | Path, dataset: xr.Dataset) -> list[Path]:
    """Write a dataset as tidy CSV: a row for each point, a column for each coordinate and variable.

    Variables over the same dimensions share a table. Where there are several tables, the dimensions are
    part of their names; `path` is the name if there is one only. Numbers are written with all their digits.

    Returns
    -------
    list of Path
        The files written.
    """
    path = output_file(path)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, values in dataset.data_vars.items():
        groups.setdefault(tuple(sorted(map(str, values.dims))), []).append(str(name))
    if len(groups) > 1:
        constants = groups.pop((), [])  # columns with the same number in each row of the other tables
        dataset = dataset.set_coords(constants)
    written = []
    for dims, names in groups.items():
        end = f"-by-{'-'.join(dims)}.csv".replace("_", "-") if len(groups) > 1 else ".csv"
        table = path.with_name(path.stem + end)
        part_of = dataset[names] if dims else dataset[names].expand_dims("row")
        frame = part_of.to_dataframe().reset_index()
        order = [*dims, *(str(name) for name in dataset.variables if str(name) not in dims)]
        with atomic_write(table) as part:
            frame.to_csv(part, index=False, columns=[name for name in order if name in frame])
        written.append(table)
    return written


@as_annotated
def read_dataset(path: str | Path) -> xr.Dataset:
    """Read a dataset into memory; a file that is missing, truncated or not netCDF is a ValueError."""
    try:
        if not os.path.isfile(path):  # a pipe would be waited for
            raise FileNotFoundError(errno.ENOENT, "there is no ordinary file")
        with xr.open_dataset(path, engine="scipy", decode_times=False) as dataset:
            return dataset.load()
    except Exception as error:  # the netCDF reader raises many types on a foreign or cut file
        said = "`path` must be a netCDF file written by this project"
        raise ValueError(f"{said}; got {quoted_path(path)} ({error_text(error)}).") from error


@as_annotated
def output_folder(path: str | Path, name: str = "out") -> Path:
    """Make a folder, with its parents, and check that files can be written in it: a ValueError if not."""
    folder = Path(path)
    try:
        if not str(path).encode():
            raise ValueError("no name")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        said = f"`{name}` must be a folder that can be written, or lie in one"
        raise ValueError(f"{said}; got {quoted_path(path)} ({error_text(error)}).") from error
    return folder
