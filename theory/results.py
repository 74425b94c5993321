"""The contract of all result objects: one decorator for frozen dataclasses of arrays.

A result owns its arrays and they are read-only. `==` compares field by field and answers with one bool,
also where fields are arrays, and `hash` agrees with it. `repr` is short enough to read.

A name of a field means the same everywhere: `t` times, `W` encodings, `path` what was recorded on the way,
`loss` a loss per feature, `error_estimate` how far off a number may be, `gradient_norm`, `steps`, `reached`,
`status` and its `message`.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

__all__ = ["frozen", "result"]

C = TypeVar("C")


def frozen(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Hand an array over to a result: read-only from here on, so that it need not be copied."""
    value.flags.writeable = False
    return value


def _owned(value: Any) -> Any:
    """Return a value whose arrays nobody else can write to."""
    if isinstance(value, np.ndarray):
        if value.base is None and not value.flags.writeable:
            return value
        return frozen(np.array(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return tuple(_owned(one) for one in value)
    return value


def _key(value: Any) -> Any:
    """Return something that compares and hashes like the value: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(value, np.ndarray):
        plain = np.where(value != value, np.nan, value + 0) if value.dtype.kind in "fc" else value
        return value.dtype.kind, value.shape, np.ascontiguousarray(plain).tobytes()
    if isinstance(value, tuple):
        return tuple(_key(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, _key(one)) for name, one in value.items())
    if isinstance(value, float) and value != value:
        return "nan"
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size <= 8:
            return np.array2string(value, precision=6, separator=", ")
        return f"<{value.dtype} array of shape {value.shape}>"
    return f"{value:.9g}" if isinstance(value, float) else repr(value)


@dataclass_transform(frozen_default=True)
def result(cls: type[C]) -> type[C]:
    """Make a class a frozen dataclass that keeps the contract of this module.

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
        for field in fields(self):
            object.__setattr__(self, field.name, _owned(getattr(self, field.name)))

    def __eq__(self: Any, other: object) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        mine = [_key(getattr(self, field.name)) for field in fields(self)]
        return bool(mine == [_key(getattr(other, field.name)) for field in fields(self)])

    def __hash__(self: Any) -> int:
        return hash((type(self).__name__, *(_key(getattr(self, field.name)) for field in fields(self))))

    def __repr__(self: Any) -> str:
        inside = ", ".join(f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({inside})"

    target: Any = cls
    target.__post_init__ = __post_init__
    target.__eq__, target.__hash__, target.__repr__ = __eq__, __hash__, __repr__
    made: Any = dataclass(frozen=True, eq=False, repr=False)(target)
    return made  # type: ignore[no-any-return]
