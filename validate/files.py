"""Results on disk: written whole or not at all, as netCDF, JSON or text; never pickles."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr

__all__ = [
    "digest",
    "locked",
    "output_file",
    "output_folder",
    "read_dataset",
    "replacing",
    "write_dataset",
    "write_tables",
    "write_text",
]


@contextmanager
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
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise ValueError(
            f"`path` must lie in a folder that can be written; got {str(path)!r} ({error.strerror})."
        ) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())  # mkstemp makes private files; results are ordinary ones
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def output_file(path: str | Path, name: str = "path") -> Path:
    """Check that a file can be written at a path: there is none yet, or an ordinary one.

    Links are not followed, so that nothing but the path itself is replaced.

    Raises
    ------
    ValueError
        If something else is there, or its folder is not.
    """
    found = Path(path)
    if str(path) in ("", ".", "..") or str(path).endswith(os.sep):
        raise ValueError(f"`{name}` must be the name of a file; got {str(path)!r}.")
    try:
        if found.is_symlink() or (found.exists() and not found.is_file()):
            what = "link" if found.is_symlink() else "folder" if found.is_dir() else "device or pipe"
            raise ValueError(f"`{name}` must be an ordinary file, or absent; got the {what} {str(path)!r}.")
        if not found.parent.is_dir():
            raise ValueError(f"`{name}` must lie in a folder that is there; got {str(path)!r}.")
    except OSError as error:
        raise ValueError(
            f"`{name}` must be the name of a file; got {str(path)!r} ({error.strerror})."
        ) from error
    return found


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to oneself: a second process that asks for it is refused. A kill frees it.

    Raises
    ------
    ValueError
        If another process has it.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"`out` must be a folder that no other report is writing to now; got {str(folder)!r}."
            ) from error
        yield


def digest(path: Path) -> str:
    """Return a checksum of a file's bytes; of a file that is missing, nothing."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write a dataset as a netCDF-3 file, which SciPy reads and writes without further libraries.

    Complex numbers are not allowed in netCDF; attributes must be text or numbers.
    """
    plain = {name: int(value) if isinstance(value, bool) else value for name, value in dataset.attrs.items()}
    with replacing(path) as part:
        dataset.assign_attrs(plain).to_netcdf(part, engine="scipy", format="NETCDF3_64BIT")


def write_tables(path: str | Path, dataset: xr.Dataset) -> list[Path]:
    """Write a dataset as tidy CSV: a row for each point, a column for each coordinate and variable.

    Variables over the same dimensions share a table. Where there are several tables, the dimensions are
    part of their names. Numbers are written with all their digits.

    Parameters
    ----------
    path : str or Path
        Name of the table if there is one only.
    dataset : xarray.Dataset

    Returns
    -------
    list of Path
        The files written.
    """
    path = Path(path)
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
        part_of = dataset[names]
        if not dims:
            part_of = part_of.expand_dims("row")
        frame = part_of.to_dataframe().reset_index()
        order = [*dims, *(str(name) for name in dataset.variables if str(name) not in dims)]
        with replacing(table) as part:
            frame.to_csv(part, index=False, columns=[name for name in order if name in frame])
        written.append(table)
    return written


def read_dataset(path: str | Path) -> xr.Dataset:
    """Read a dataset into memory.

    Raises
    ------
    ValueError
        If the file is missing, truncated or not netCDF.
    """
    try:
        with xr.open_dataset(path, engine="scipy", decode_times=False) as dataset:
            return dataset.load()
    except Exception as error:  # the netCDF reader raises many types on a foreign or cut file
        raise ValueError(
            f"`path` must be a netCDF file written by this project; got {str(path)!r} ({error})."
        ) from error


def output_folder(path: str | Path) -> Path:
    """Make a folder, with its parents, and check that files can be written in it.

    Raises
    ------
    ValueError
        If it cannot be made or written.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"`out` must be a folder that can be written; got {str(path)!r} ({error.strerror})."
        ) from error
    return folder
