"""Results on disk: written whole or not at all, as netCDF, JSON or text; never pickles."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr

__all__ = ["output_folder", "read_dataset", "replacing", "write_dataset", "write_tables", "write_text"]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` if the block ends well.

    Raises
    ------
    ValueError
        If the folder of `path` does not exist or cannot be written.
    """
    path = Path(path)
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
    with replacing(path) as part:
        dataset.to_netcdf(part, engine="scipy", format="NETCDF3_64BIT")


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
