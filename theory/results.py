"""The contract of all result objects: one decorator for frozen dataclasses of arrays.

A result owns its arrays and they are read-only, also those inside tuples and dicts, after copying and after
pickling. `==` compares field by field and answers with one bool, also where fields are arrays, and `hash`
agrees with it. `repr` is short enough to read; a class may have its own. A result with a `status` has a
`message` too.

A name of a field means the same everywhere: `t` times, `W` encodings, `path` what was recorded on the way,
`loss` a loss per feature, `error_estimate` how far off a number may be, `gradient_norm`, `steps`, `reached`,
`status` and its `message`.
"""

import dataclasses
import enum
from typing import Any, NoReturn, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

__all__ = ["frozen", "result"]

C = TypeVar("C")

# Characters of all fields together in a repr.
_LONGEST = 350


def frozen(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make the array `value` read-only in place, and return it; `result` then need not copy it."""
    value.flags.writeable = False
    return value


class _Table(dict[Any, Any]):
    """A dict that cannot be changed: every method that would change it raises a TypeError."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise the TypeError that a result cannot be changed."""
        raise TypeError("a result cannot be changed; make a dict of it first")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return _read_only_copy, (dict(self),)


def _read_only_copy(value: Any) -> Any:
    """Return `value` with its arrays copied and read-only, also in tuples and dicts; lists become tuples."""
    if isinstance(value, np.ndarray):
        if value.base is None and not value.flags.writeable:
            return value
        copied = np.array(value)
        copied.flags.writeable = False
        return copied
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return tuple(_read_only_copy(item) for item in value)
    if type(value) is dict:
        return _Table({name: _read_only_copy(item) for name, item in value.items()})
    return value


def _hashable_key(value: Any) -> Any:
    """Return a hashable key of `value`, equal for equal values; NaN equals NaN here, and -0.0 equals 0.0."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return "array", value.shape, tuple(_hashable_key(item) for item in value.flat)
    if isinstance(value, np.ndarray):
        normalised = np.where(value != value, np.nan, value + 0) if value.dtype.kind in "fc" else value
        return value.dtype.str, value.shape, np.ascontiguousarray(normalised).tobytes()
    if isinstance(value, tuple):
        return tuple(_hashable_key(item) for item in value)
    if isinstance(value, dict):
        return frozenset((name, _hashable_key(item)) for name, item in value.items())
    if isinstance(value, float) and value != value:
        return "not a number", float
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _short_text(value: Any) -> str:
    """Return the text of a field's value, of at most 90 characters or so."""
    if isinstance(value, np.ndarray):
        if value.size <= 8 and value.dtype.kind != "O":
            return " ".join(np.array2string(value, precision=6, separator=", ").split())
        return f"<{value.dtype} array of shape {value.shape}>"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple | dict) and len(value) > 8:
        return f"<{len(value)} entries>"
    if type(value) is tuple:
        text = f"({', '.join(map(_short_text, value))}{',' if len(value) == 1 else ''})"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{name!r}: {_short_text(item)}' for name, item in value.items())}}}"
    else:
        text = f"{value:.9g}" if isinstance(value, float) else " ".join(repr(value).split())
    return text if len(text) <= 90 else text[:86] + " ..."


def _brief_text(value: Any) -> str:
    """Return the text of a field's value, of at most 20 characters or so, for results of many fields."""
    if isinstance(value, np.ndarray):
        return f"<array {value.shape}>"
    text = _short_text(value)
    return text if len(text) <= 20 else f"<{type(value).__name__}>"


def _message(self: Any) -> str:
    """Return the value of a result's `status`, an `Enum` member: a sentence.

    If `status` is an array, its distinct sentences are joined.
    """
    status = self.status
    if isinstance(status, enum.Enum):
        return str(status.value)
    return " ".join(dict.fromkeys(str(outcome.value) for outcome in np.asarray(status, dtype=object).flat))


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def result(cls: type[C]) -> type[C]:
    """Decorate a class: make it a frozen dataclass of read-only arrays whose == answers with one bool.

    Examples
    --------
    >>> @result
    ... class Point:
    ...     x: object
    >>> point = Point(np.zeros(2))
    >>> point, point == Point([0.0, 0.0]), point == Point(np.zeros(2)), point.x.flags.writeable
    (Point(x=[0., 0.]), False, True, False)
    """
    ahead: Any = cls.__dict__.get("__post_init__")

    def __post_init__(self: Any) -> None:
        if ahead is not None:
            ahead(self)
        _own_arrays(self)

    target: Any = cls
    target.__post_init__ = __post_init__
    for method in (__setstate__, __eq__, __hash__, *(() if "__repr__" in cls.__dict__ else (__repr__,))):
        setattr(target, method.__name__, method)
    dataclass: Any = dataclasses.dataclass(frozen=True, eq=False, repr=False)(target)
    if "status" in dataclass.__dataclass_fields__ and not hasattr(dataclass, "message"):
        dataclass.message = property(_message)
    return dataclass  # type: ignore[no-any-return]


# --- The methods of all results -----------------------------------------------------------------------------


def _own_arrays(self: Any) -> None:
    """Replace the fields of a result by read-only copies; lists become tuples.

    Fields that need no copy stay: None, numbers, text, and read-only arrays that are no views.
    """
    for name, value in vars(self).items():
        is_owned = type(value) is np.ndarray and value.base is None and not value.flags.writeable
        if not (is_owned or value is None or type(value) in (float, int, str)):
            object.__setattr__(self, name, _read_only_copy(value))


def __setstate__(self: Any, state: dict[str, Any]) -> None:
    vars(self).update(state)
    _own_arrays(self)


def _field_keys(self: Any) -> list[Any]:
    """Return the hashable keys of the fields that count in comparisons."""
    return [_hashable_key(getattr(self, field.name)) for field in dataclasses.fields(self) if field.compare]


def __eq__(self: Any, other: object) -> Any:
    return bool(_field_keys(self) == _field_keys(other)) if type(other) is type(self) else NotImplemented


def __hash__(self: Any) -> int:
    return hash((type(self).__name__, *_field_keys(self)))


def __repr__(self: Any) -> str:
    names = [field.name for field in dataclasses.fields(self) if field.repr]
    for as_text in (_short_text, _brief_text):
        inside = ", ".join(f"{name}={as_text(getattr(self, name))}" for name in names)
        if len(inside) <= _LONGEST:
            return f"{type(self).__name__}({inside})"
    return f"{type(self).__name__}({inside[:_LONGEST]} ...)"
