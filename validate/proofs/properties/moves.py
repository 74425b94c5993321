"""Changes of examples: the numbers that a descent moves, and simpler examples."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ....theory.features import Features, SparseUniform
from ....theory.validation import FloatArray
from .strategies import Range, TiedModel, over_decades

# What is drawn for each argument, and within what it may be changed (None: not at all).
Example = dict[str, tuple[Any, Range | None]]

_NUMBERS: dict[type, tuple[str, ...]] = {
    TiedModel: ("W", "b", "decoder"),
    SparseUniform: ("p",),
    Features: ("p", "scale", "importance"),
}
# What has no range of its own.
_FIELD_RANGES = {"b": Range(-1.0, 1.0), "scale": Range(0.1, 10.0), "importance": Range(0.1, 10.0)}
_DIGITS = (0, 1, 2, 3, 5)  # that count, which numbers are rounded to; whole numbers for 0


class _Slot(NamedTuple):
    """An array of an example that a search may move, with its argument, field and range."""

    argument: str
    field: str
    array: FloatArray
    low: float
    high: float
    is_common: bool
    """Whether the numbers are those of a law and equal: then they stay so."""


def _movable_slots(at: Example) -> list[_Slot]:
    """Return the arrays of the example `at` that a search may change, each with argument, field and range.

    An example maps the name of each argument of an inequality to (value, its range or None).
    """
    slots = []
    for argument, (value, limits) in at.items():
        if limits is None:
            continue
        if isinstance(value, float | np.ndarray):
            slots.append(_Slot(argument, "", np.asarray(value, float), limits.low, limits.high, False))
        for field in _NUMBERS.get(type(value), ()):
            numbers = getattr(value, field)
            if numbers is None or field in limits.fixed:
                continue
            ends, array = _FIELD_RANGES.get(field, limits), np.asarray(numbers, float)
            is_common = isinstance(value, Features) and bool(np.ptp(array) == 0)
            if not (is_common and field in _FIELD_RANGES):  # scales and importances that are alike are 1
                slots.append(_Slot(argument, field, array, ends.low, ends.high, is_common))
    return slots


def _replace_arrays(at: Example, arrays: Mapping[tuple[str, str], FloatArray]) -> Example:
    """Return the example `at` with other `arrays`, by (argument's name, its attribute such as "W" or "").

    The attribute "" is the argument's value itself. An example maps the name of each argument of an
    inequality to (value, its range or None).
    """
    new = dict(at)
    for argument, (value, limits) in at.items():
        parts = {field: array for (name, field), array in arrays.items() if name == argument}
        if "" in parts:
            new[argument] = float(parts[""]) if isinstance(value, float) else parts[""], limits
        elif parts:
            new[argument] = replace(value, **parts), limits
    return new


def array_shapes(at: Example) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the arrays of the example `at` that a search may change.

    An example maps the name of each argument of an inequality to (value, its range or None).
    """
    return tuple(slot.array.shape for slot in _movable_slots(at))


def coordinates(at: Example) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (x, low, high), flat arrays: the numbers of the example `at` that may move, and their ranges.

    An example maps the name of each argument of an inequality to (value, its range or None). Numbers whose
    range spans decades are returned as logarithms, with their ends.
    """
    x, low, high = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    for slot in _movable_slots(at):
        numbers = slot.array.ravel()[:1] if slot.is_common else slot.array.ravel()
        ends = np.array([slot.low, slot.high])
        if over_decades(slot.low, slot.high):
            numbers, ends = np.log(numbers), np.log(ends)
        x.append(np.clip(numbers, *ends))
        low.append(np.full(numbers.size, ends[0]))
        high.append(np.full(numbers.size, ends[1]))
    return np.concatenate(x), np.concatenate(low), np.concatenate(high)


def move_numbers(at: Example, x: FloatArray) -> Example:
    """Return the example `at` with x, flat, in place of the numbers that may move, as in `coordinates`.

    An example maps the name of each argument of an inequality to (value, its range or None). If a number's
    range spans decades, x has its logarithm.
    """
    arrays, used = {}, 0
    for slot in _movable_slots(at):
        size = 1 if slot.is_common else slot.array.size
        part = x[used : used + size]
        used += size
        if over_decades(slot.low, slot.high):
            part = np.clip(np.exp(part), slot.low, slot.high)
        shape = slot.array.shape
        arrays[slot.argument, slot.field] = np.full(shape, part[0]) if slot.is_common else part.reshape(shape)
    return _replace_arrays(at, arrays)


def simpler_examples(at: Example) -> Iterator[Example]:
    """Yield variants of the example `at` that may be simpler: fewer features, rounded numbers, or 0 or 1.

    An example maps the name of each argument of an inequality to (value, its range or None). The changes that
    simplify most come first.
    """
    yield from _remove_entries(at)
    slots = _movable_slots(at)
    for digits in _DIGITS:
        yield _replace_arrays(
            at,
            {(entry.argument, entry.field): _round_numbers(entry, entry.array, digits) for entry in slots},
        )
    for slot in slots:
        for k, number in enumerate(slot.array.flat if not slot.is_common else slot.array.flat[:1]):
            rounded = (float(_round_numbers(slot, number, digits)) for digits in _DIGITS)
            for candidate in dict.fromkeys([0.0, 1.0, abs(number), *rounded]):
                if candidate != number and slot.low <= candidate <= slot.high:
                    array = slot.array.copy()
                    array.flat[slice(None) if slot.is_common else k] = candidate
                    yield _replace_arrays(at, {(slot.argument, slot.field): array})


def description_length(at: Example) -> tuple[int, int]:
    """Return (length, sum of integer arguments) of the example `at`; the smaller pair is simpler.

    An example maps each argument's name to (value, its range or None). The length is the count of the numbers
    in arrays that a search may change, plus the characters of those that are not 0, once with and once
    without zeros at the end, plus the characters of the laws as Python code.
    """
    arrays = [slot.array.ravel()[:1] if slot.is_common else slot.array.ravel() for slot in _movable_slots(at)]
    texts = [repr(float(x)).removesuffix(".0") for array in arrays for x in array if x]
    digits = sum(len(text) + len(text.rstrip("0")) for text in texts)  # 10 is less than 13, 1 less than 10
    values = [value for value, _ in at.values()]
    laws = sum(len(code(value)) for value in values if isinstance(value, Features))
    whole = sum(value for value in values if isinstance(value, int))
    return sum(array.size for array in arrays) + digits + laws, whole


def _round_numbers(slot: _Slot, numbers: Any, digits: int) -> FloatArray:
    """Return `numbers` rounded to `digits` significant digits, or to whole numbers if `digits` is 0.

    `slot` is the array of an example that they belong to. A number stays as it is if rounding would move it
    out of the slot's range.
    """
    original = np.asarray(numbers, float)
    if digits:
        new = np.array([float(f"{x:.{digits}g}") for x in original.flat]).reshape(original.shape)
    else:
        new = np.round(original)
    return np.where((new >= slot.low) & (new <= slot.high), new, original) + 0.0  # no -0


def _remove_entries(at: Example) -> Iterator[Example]:
    """Yield variants of `at` with fewer features and neurons, smaller integers, simpler laws and models.

    `at` is an example: it maps the name of each argument of an inequality to (value, its range or None).
    """
    n = max((_n_features(value) for value, _ in at.values()), default=0)
    free = {name: array for name, array in at.items() if _n_features(array[0]) == n and array[1] is not None}
    if all(limits.n_features[0] < n for _, limits in free.values() if limits):
        for k in range(n):
            fewer = {name: (_remove_entry(value, k, 0), limits) for name, (value, limits) in free.items()}
            if all(_n_features(value) < n for value, _ in fewer.values()):
                yield at | fewer
    for name, (value, limits) in at.items():
        if limits is not None:
            yield from (at | {name: (other, limits)} for other in _simpler_values(value, limits))


def _simpler_values(value: Any, limits: Range) -> Iterator[Any]:
    """Yield simpler values, within `limits`, that may replace the argument `value` of an inequality.

    Depending on the type of `value` they are: smaller integers; a law with scale 1, importance 1, no groups,
    free numbers of active features, or one p; a model or matrix with one neuron less; a model without its
    decoder.
    """
    if isinstance(value, int):
        low = int(limits.low)
        yield from (x for x in (low, (low + value) // 2, value - 1) if low <= x < value)
    if isinstance(value, Features):
        for change in ({"scale": 1.0}, {"importance": 1.0}, {"groups": ()}, {"exactly": None}):
            yield replace(value, **change)
        yield from (replace(value, p=float(p)) for p in (value.p.max(), value.p.min()))
    if isinstance(value, TiedModel | np.ndarray):
        m = np.shape(value.W if isinstance(value, TiedModel) else value)[1]
        yield from (_remove_entry(value, k, 1) for k in range(m) if m > limits.n_hidden[0])
    if isinstance(value, TiedModel) and value.decoder is not None:
        yield replace(value, decoder=None)


def _n_features(value: Any) -> int:
    """Return the number of features of weights, a model or a law, 0 for other values."""
    if isinstance(value, TiedModel | Features):
        return value.n_features
    return len(value) if isinstance(value, np.ndarray) and value.ndim == 2 else 0


def _remove_entry(value: Any, k: int, axis: int) -> Any:
    """Return `value` (weights, a model or a law) without feature k if `axis` is 0, or neuron k if 1.

    A law of dependent features is returned unchanged.
    """
    if isinstance(value, np.ndarray):
        return np.delete(value, k, axis)
    if isinstance(value, TiedModel):
        b = value.b if axis else np.delete(value.b, k)
        decoder = None if value.decoder is None else np.delete(value.decoder, k, axis)
        return TiedModel(np.delete(value.W, k, axis), b, decoder)
    if not value.independent:  # of which features, is part of it
        return value
    arrays = {field: np.delete(getattr(value, field), k) for field in _NUMBERS[Features]}
    return replace(value, n_features=value.n_features - 1, **arrays)


def code(value: Any) -> str:
    """Return a Python expression of a value, exact to the last digit."""
    if is_dataclass(value) and not isinstance(value, type):
        arguments = [(field.name, getattr(value, field.name), field.default) for field in fields(value)]
        lines = [
            f"{name}={code(x)}" for name, x, default in arguments if x is not default and np.any(x != default)
        ]
        return f"{type(value).__name__}({', '.join(lines)})"
    if isinstance(value, np.ndarray):
        equal = value.ndim == 1 and value.size > 1 and np.ptp(value) == 0
        return repr(value.flat[0].item() if equal else value.tolist())
    if isinstance(value, tuple | list):
        inside = ", ".join(map(code, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)
