"""Results that came with the package, because they take longer than a reader waits."""

from pathlib import Path

import xarray as xr

from .files import read_dataset

__all__ = ["REFERENCE", "read_reference"]

REFERENCE = Path(__file__).parent / "reference"


def read_reference(name: str) -> xr.Dataset:
    """Read a file of ``validate/reference``, whose README says how each was made.

    The attributes ``stored_file``, ``stored_date`` and ``stored_device`` are added.

    Raises
    ------
    ValueError
        If the file is missing or cannot be read.
    """
    ds = read_dataset(REFERENCE / name)
    facts = ds.attrs
    return ds.assign_attrs(
        stored_file=name,
        stored_date=str(facts.get("finished", facts.get("made", "date unknown")))[:10],
        stored_device=str(facts.get("device_name", "cpu")),
    )
