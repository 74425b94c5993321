"""Results that came with the package, because they take longer than a reader waits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from .files import read_dataset

__all__ = ["REFERENCE", "read_reference", "stored_facts"]

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
    return ds.assign_attrs(stored_facts(name, [ds.attrs]))


def stored_facts(files: str, facts: Sequence[Mapping[Any, Any]]) -> dict[str, str]:
    """Return what is said of stored files, from the attributes of each: when and on what they were made.

    Examples
    --------
    >>> stored_facts("a*.nc", [{"made": "2026-11-22"}, {"made": "2026-11-20"}])["stored_date"]
    '2026-11-20 to 2026-11-22'
    """
    days = [str(one.get("finished", one.get("made", "date unknown")))[:10] for one in facts]
    devices = sorted({str(one.get("device_name", "cpu")) for one in facts})
    return {
        "stored_file": files,
        "stored_date": " to ".join(dict.fromkeys((min(days), max(days)))),
        "stored_device": ", ".join(devices),
    }
