"""Results on disk: written whole or not at all, as netCDF, CSV, JSON, NumPy arrays or text; never pickles."""

import errno
import hashlib
import io
import itertools
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..theory.arguments import shown
from .annotations import as_annotated

__all__ = [
    "MANIFEST", "another_file", "claim", "difference", "digest", "held", "locked", "named", "output_file",
    "output_folder", "page_file", "read_arrays", "read_dataset", "recorded", "remove", "replacing",
    "write_arrays",
    "write_dataset", "write_tables", "write_text",
]  # fmt: skip

PART = ".superposition-part"  # end of the names of files that are not whole yet
LOCK = ".lock"  # file in a folder that one process at a time may write to
_PART = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(PART)}")

_LONGEST = (
    4096  # characters of a path: Linux has no file with a longer one, and to look for one takes minutes
)

# A folder that a command fills has a manifest: a line for each file that it wrote, with its checksum.
# Only such files, and only while they are as they were written, are ever replaced or removed in it; one that
# was changed since is renamed first.
MANIFEST = ".superposition-files"
_RECORDED: ContextVar[Path | None] = ContextVar("folder", default=None)


@as_annotated
def named(path: str | os.PathLike[str]) -> str:
    r"""Return a path in quotes for a message, unprintable characters escaped, long paths cut in the middle.

    Examples
    --------
    >>> named("a\x1b.nc"), len(named("x" * 10**6))
    ("'a\\x1b.nc'", 205)
    """
    text = repr(str(path))
    return text if len(text) <= 205 else f"{text[:120]} ... {text[-80:]}"


@contextmanager
@as_annotated
def replacing(path: str | Path) -> Iterator[Path]:
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
    part = _new_part(path)
    folder = _RECORDED.get()
    inside = folder is not None and path.resolve().is_relative_to(folder)
    if inside:
        _own(path, "out")
    try:
        yield part
        if inside:  # before the file is there: whatever is killed when, no file of ours is taken for foreign
            _note(path, digest(part))
        part.replace(path)
    except OSError as error:
        if error.errno is not None:  # such as a full disk; the name that the user gave
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


def _new_part(path: Path) -> Path:
    """Return a temporary name, of the file's, the process and chance; remove those that killed ones left."""
    mark = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:4]
    for one in path.parent.glob(f".{mark}*{PART}"):
        if _PART.fullmatch(one.name) and not _alive(int(one.name[5:13], 16)):
            with suppress(OSError):  # of another user
                one.unlink()
    return path.parent / f".{mark}{os.getpid():08x}{secrets.token_hex(2)}{PART}"


def _alive(process: int) -> bool:
    """Whether a process of this machine works; where that cannot be asked, it may."""
    if os.name != "posix" or not 0 < process < 2**31:
        return os.name != "posix"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


@as_annotated
def claim(folder: Path, names: Iterable[str] = (), option: str = "out") -> None:
    """Write a manifest of our files into a folder, so that other files in it are never overwritten.

    Parameters
    ----------
    folder : Path
        Folder that exists.
    names : iterable of str, optional
        Files and folders in it that the command is going to write. Where there is no manifest yet, none of
        them may be there.
    option : str, optional
        What the caller calls the folder.

    Raises
    ------
    ValueError
        If one of `names` is there without a manifest, or something else has the manifest's name.
    """
    output_folder(folder, option)
    manifest = folder / MANIFEST
    if manifest.is_symlink() or (manifest.exists() and _listed(folder) is None):
        raise ValueError(
            f"`{option}` must be a folder whose {MANIFEST} is of this program; got {named(folder)}."
        )
    if manifest.exists():
        return
    for name in names:
        place = folder / name
        if place.is_symlink() or place.is_file() or (place.is_dir() and any(place.iterdir())):
            rule = f"a folder without {name!r}, or one that this command has filled"
            raise ValueError(
                f"`{option}` must be {rule}, as it might be somebody's data; got {named(folder)}."
            )
    with replacing(manifest) as part:
        part.write_text(json.dumps({"format": MANIFEST}), encoding="utf-8")


@contextmanager
@as_annotated
def recorded(folder: Path) -> Iterator[None]:
    """Note in a folder's manifest, if it has one, what the block writes there, and replace nothing else.

    A ValueError is raised by `replacing` where a file that the manifest does not list is in the way.
    """
    held = (folder / MANIFEST).is_file()
    before = _RECORDED.set(folder.resolve() if held else _RECORDED.get())
    try:
        yield
    finally:
        _RECORDED.reset(before)


@as_annotated
def remove(folder: Path, paths: Iterable[Path]) -> None:
    """Remove those of the files that the manifest of their folder lists and that are as they were written.

    Halves of files, which a killed run leaves behind, are removed wherever they are among `paths`.
    """
    listed = _listed(folder) or {}
    for path in paths:
        name = path.resolve().relative_to(folder.resolve()).as_posix()
        if _PART.fullmatch(path.name) or digest(path) in listed.get(name, ()):
            path.unlink(missing_ok=True)


def _listed(folder: Path) -> dict[str, set[str]] | None:
    """Return the checksums that each file of a folder was written with; None if there is no manifest."""
    try:
        first, *lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines() or [""]
        if json.loads(first) != {"format": MANIFEST}:
            return None
    except (OSError, ValueError):
        return None
    found: dict[str, set[str]] = {}
    for line in lines:
        sha256, _, name = line.partition(" ")
        with suppress(ValueError):  # of a line that a process was killed at, before there was a file
            found.setdefault(json.loads(name), set()).add(sha256)
    return found


def _note(path: Path, sha256: str) -> None:
    folder = _RECORDED.get()
    assert folder is not None
    # Begun by a line feed, as the last line may have been cut by a kill; and in one write to the end of the
    # file, so that lines of several processes do not mix.
    line = f"\n{sha256} {json.dumps(path.resolve().relative_to(folder).as_posix())}"
    with open(folder / MANIFEST, "ab", buffering=0) as manifest:
        manifest.write(line.encode())


def _own(path: Path, option: str) -> None:
    """Make way for a file: refuse what the manifest does not list, keep aside what was changed since."""
    folder = _RECORDED.get()
    assert folder is not None
    name = path.resolve().relative_to(folder).as_posix()
    if not path.exists():
        return
    known = (_listed(folder) or {}).get(name)
    if known is None:
        rule = f"a folder without {name!r}, or one where this command wrote it"
        raise ValueError(f"`{option}` must be {rule}, as it might be somebody's data; got {named(folder)}.")
    if digest(path) not in known:  # damaged, or edited: nobody can tell, so nothing is lost
        path.rename(
            next(aside for k in itertools.count(1) if not (aside := Path(f"{path}.changed-{k}")).exists())
        )


def _why(error: Exception) -> str:
    """Return what an error says, without the name, which is long or told already."""
    return (isinstance(error, OSError) and error.strerror) or shown(str(error), 200)


@as_annotated
def another_file(output: str | Path, inputs: Mapping[str, Any], name: str = "out") -> None:
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
    >>> another_file("page.html", {"model": "runs/model.npz"})
    >>> another_file("model.npz", {"model": "./model.npz"}, "html")
    Traceback (most recent call last):
    ValueError: `html` must be another file than `model`; got 'model.npz' and './model.npz'.
    """
    for other, path in inputs.items():
        if isinstance(path, str | os.PathLike) and _same(Path(output), Path(path)):
            raise ValueError(
                f"`{name}` must be another file than `{other}`; got {named(output)} and {named(path)}."
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
            f"`{name}` must be the name of a file; got {named(path)} ({_why(error)})."
        ) from error
    if rule:
        raise ValueError(f"`{name}` must be {rule}; got {named(path)}.")
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
def locked(folder: Path, name: str = "out", *, by_file: bool = True) -> Iterator[None]:
    """Keep a folder to oneself: to a second process that asks for it, a ValueError. A kill frees it.

    The lock is the file ``.lock`` in it, or the folder itself, in which nothing is then written; a file
    system that cannot lock folders (some of networks) keeps nobody out of these.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    how = os.O_CREAT | os.O_WRONLY if by_file else os.O_RDONLY
    held = os.open(output_file(folder / LOCK, name) if by_file else folder, how, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if by_file or isinstance(error, BlockingIOError):
            os.close(held)
            said = f"`{name}` must be a folder that no other run is writing to now"
            raise ValueError(f"{said}; got {named(folder)}.") from error
    try:
        yield
    finally:
        os.close(held)


@contextmanager
@as_annotated
def held(path: str | Path, names: Iterable[str] = (), option: str = "out") -> Iterator[Path]:
    """Give a folder that a command fills: made, kept from other processes, and claimed for these names.

    The one way into such a folder; what it raises is what `output_folder`, `locked` and `claim` do.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place, held(place, ["data"]) as folder:
    ...     (folder / MANIFEST).is_file()
    True
    """
    folder = output_folder(path, option)
    with locked(folder, option):
        claim(folder, names, option)
        yield folder


@as_annotated
def agreed(option: str, where: str, before: Mapping[str, Any], now: Mapping[str, Any], rule: str) -> None:
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
    >>> agreed("out", "'runs'", {"seed": 0}, {"seed": 1}, "empty or hold a run of the same settings")
    Traceback (most recent call last):
    ValueError: `out` must be empty or hold a run of the same settings; got 'runs' with seed 0, not 1.
    """
    if said := difference(before, now):
        raise ValueError(f"`{option}` must be {rule}; got {where} with {said}.")


@as_annotated
def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in which setting two runs differ first; nothing if they are the same.

    Examples
    --------
    >>> difference({"seed": 0, "grid": {"p": 0.1}}, {"seed": 0, "grid": {"p": 0.2}})
    'p 0.1, not 0.2'
    """
    for name in (*now, *before):
        one, other = before.get(name), now.get(name)
        if one != other:
            inner = difference(one, other) if isinstance(one, dict) and isinstance(other, dict) else ""
            return inner or f"{name} {shown(one)}, not {shown(other)}"
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
    with replacing(path) as part:
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
    with replacing(path) as part:
        part.write_bytes(content)


@as_annotated
def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as a NumPy archive (npz) that reads without pickles."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    with replacing(path) as part:
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
        raise ValueError(f"`path` must be {what}; got {named(path)} ({_why(error)}).") from error


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
        with replacing(table) as part:
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
        raise ValueError(f"{said}; got {named(path)} ({_why(error)}).") from error


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
        raise ValueError(f"{said}; got {named(path)} ({_why(error)}).") from error
    return folder
