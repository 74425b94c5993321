"""Results that came with the package, because they take longer than a reader waits."""

from collections.abc import Callable
from pathlib import Path

import xarray as xr

from .files import read_dataset

__all__ = ["REFERENCE", "stored"]

REFERENCE = Path(__file__).parent / "reference"


def stored(name: str, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
    """Read a reference run, or compute it where the file is missing.

    Parameters
    ----------
    name : str
        File in ``validate/reference``, whose README says how each was made.
    compute : callable
        Returns the dataset.

    Raises
    ------
    ValueError
        If the file is there and cannot be read.
    """
    path = REFERENCE / name
    return read_dataset(path) if path.exists() else compute()
