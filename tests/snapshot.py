"""Numbers of public functions and of experiments at small sizes, as they were when somebody last read them.

A difference says that an edit has changed a number of a function, a run, a table, a text or a figure; whether
the number is right other tests say, by closed forms and second routes. Where the change is meant,
``pytest tests --renew-numbers all -k "all_of_its or those_stored"`` writes the new ones: read what
``git diff`` shows.

Numbers that depend on the processor, such as where a search ends, are null and not compared. New ones are
found by ``--renew-numbers drop`` with the instructions of an old processor:
``NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" OPENBLAS_CORETYPE=Nehalem
ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=""``.
"""

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

FILE = Path(__file__).with_name("numbers.json")
# Sums in another order and training in single precision, on another processor; and noise around 0.
TOLERANCE = {"rel": 1e-4, "abs": 1e-9}
# What a run records of its machine and its date.
PROVENANCE = re.compile("version|seconds|device|commit|date|time_stamp|settings|threads")


def digest(values: Any) -> float:
    """Return a number that changes with each entry of an array, its sign and its place.

    It is a mean of absolute values with weights, between 1 and 3, by place and sign. Nothing cancels, so it
    is as exact as the entries are.

    >>> digest([1.0, 2.0]), digest([2.0, 1.0]), digest([1.0, -2.0])
    (2.118..., 1.809..., 3.118...)
    """
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        array = np.array([zlib.crc32(str(entry).encode()) % 1009 for entry in array.flat])
    array = np.nan_to_num(array.astype(float).ravel(), nan=7.0, posinf=11.0, neginf=-11.0)
    weights = 1.0 + (np.arange(array.size) * 0.6180339887) % 1.0 + (array < 0)
    return float(np.mean(np.abs(array) * weights)) if array.size else 0.0


def numbers_in(text: str) -> list[float]:
    """Return the numbers that a text names, in their order, with the minus before them."""
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text.replace("−", "-"))]


def of_dataset(ds: Any) -> Iterator[tuple[str, float]]:
    """Yield names and digests of the variables and the numeric attributes of a dataset."""
    for name, variable in ds.variables.items():
        if not PROVENANCE.search(str(name)):
            yield str(name), digest(variable)
    for name, value in ds.attrs.items():
        if not PROVENANCE.search(name) and np.asarray(value).dtype.kind in "biuf":
            yield f"attribute {name}", digest(value)


def of_tables(content: Any) -> Iterator[tuple[str, float]]:
    """Yield the digests of the text and of the tables' columns that the report shows of a topic."""
    yield "text", digest(numbers_in(content.text + content.headline))
    for table in content.tables:
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True):
            texts = [cell if isinstance(cell, str) else f"{cell!r}" for cell in cells]
            words = [re.sub(r"[-−+.\d]|\de", "", text) for text in texts]
            yield f"{table.title} | {column}", digest(words) + digest(numbers_in(" ; ".join(texts)))


def of_axes(ax: Axes) -> Iterator[tuple[str, float]]:
    """Yield the digests of what is drawn in data coordinates."""
    for k, line in enumerate(ax.get_lines()):
        label = str(line.get_label())
        yield label if label[0] != "_" else f"line {k}", digest(np.array(line.get_xydata()))
    for k, collection in enumerate(ax.collections):
        shapes = [path.vertices.ravel() for path in collection.get_paths()]
        parts = [np.ma.filled(np.ma.asarray(collection.get_offsets(), float), np.nan).ravel(), *shapes]
        if collection.get_array() is not None:
            parts.append(np.ma.filled(np.ma.asarray(collection.get_array(), float), np.nan).ravel())
        yield f"collection {k}", digest(np.concatenate(parts))
    for k, image in enumerate(ax.images):
        yield f"image {k}", digest(np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan))
    for k, patch in enumerate(ax.patches):
        yield f"patch {k}", digest(patch.get_patch_transform().transform(patch.get_path().vertices))


def compare(section: str, numbers: dict[str, float], renew: str | None) -> None:
    """Compare the numbers of a section with the stored ones; or store them, or null for those that differ."""
    stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    before = stored.get(section, {})
    if renew == "all":
        ignored = {name for name, old in before.items() if old is None}
        before = {
            name: None if name in ignored else float(f"{numbers[name]:.8g}") for name in sorted(numbers)
        }
    moved = {
        name: (old, numbers.get(name))
        for name, old in before.items()
        if old is not None and numbers.get(name) != pytest.approx(old, **TOLERANCE)
    }
    if renew:
        stored[section] = before | dict.fromkeys(moved)
        text = json.dumps(dict(sorted(stored.items())), indent=0, ensure_ascii=False)
        FILE.write_text(text + "\n", encoding="utf-8")
    else:
        # Without its last number and what stands behind a colon: whole topics and fields.
        heads = [
            {re.sub(r" \d+$", "", name.partition(":")[0]) for name in names} for names in (numbers, before)
        ]
        new = sorted(heads[0] - heads[1])
        assert not new, f"no numbers of {section}'s {new} are stored, see {Path(__file__).name}"
        assert not moved, f"numbers of {section} that moved, see {Path(__file__).name}: {moved}"
