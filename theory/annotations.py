"""Conversion of arguments to their annotated types, for calls from files, command lines and notebooks."""

import contextlib
import functools
import inspect
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from .validation import choice, flag, generator, instance, integer, number, real, short_repr

__all__ = ["as_annotated"]

P = ParamSpec("P")
R = TypeVar("R")

_MOST_COUNTED = 2**31 - 1
_MOST_LISTED = 10**6  # entries of a list that are looked at one after the other


def _checked_text(name: str, value: Any) -> str:
    """Return `value` if it is a str; else raise a ValueError about the argument `name`."""
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be text; got {short_repr(value)}.")
    return str(value)


def _checked_count(name: str, value: Any) -> int:
    """Return `value` as an int from 0 to 2^31 - 1; else raise a ValueError about the argument `name`."""
    try:
        integer(name, value, -(2**63))
    except ValueError:  # no range that may be another than the function's own
        raise ValueError(f"`{name}` must be an integer; got {short_repr(value)}.") from None
    return integer(name, value, 0, _MOST_COUNTED)


def _is_path_type(kind: Any) -> bool:
    """Return whether the annotation `kind` is a class of paths, such as `pathlib.Path`."""
    return isinstance(kind, type) and issubclass(kind, os.PathLike)


def _checked_path(name: str, value: Any) -> Any:
    """Return `value` if it is a path; else raise a ValueError about the argument `name`."""
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"`{name}` must be a path; got {short_repr(value)}.")
    return value


def callable_object(name: str, value: Any) -> Any:
    """Return `value` if it is callable; else raise a ValueError about the argument `name`.

    Examples
    --------
    >>> callable_object("tell", "abc")
    Traceback (most recent call last):
        ...
    ValueError: `tell` must be callable; got 'abc'.
    """
    if not callable(value):
        raise ValueError(f"`{name}` must be callable; got {short_repr(value)}.")
    return value


def _checked_entries(name: str, value: Any, kind: Any) -> list[Any]:
    """Return the entries of the argument `name` as a list; ValueError if it is not list-like, or too long.

    `kind` is the annotated type: a Sequence must not be empty, a Collection or Iterable may be.
    """
    array = isinstance(value, np.ndarray) and value.ndim > 0
    none = isinstance(value, str | bytes | bytearray | memoryview) or np.ma.is_masked(value)
    listed = (array or isinstance(value, kind)) and not none
    entries = list(itertools.islice(value, _MOST_LISTED + 1)) if listed else []
    if not (listed and (entries or kind is not Sequence)) or len(entries) > _MOST_LISTED:
        rule = "a list of one entry or more" if kind is Sequence else "a list"
        raise ValueError(f"`{name}` must be {rule}; got {short_repr(value)}.")
    return entries


def _resolve_alias(kind: Any) -> Any:
    """Return the type that `kind`, an alias or a type, stands for.

    From NumPy 2.5 on, NumPy's aliases are ``type`` statements.
    """
    meant, inner = getattr(get_origin(kind) or kind, "__value__", None), get_args(kind)
    return kind if meant is None else _resolve_alias(meant[inner] if inner else meant)


def _union_members(kind: Any) -> list[Any]:
    """Return the types of the union `kind`, with nested unions flattened; [kind] if `kind` is no union."""
    kind = _resolve_alias(kind)
    if get_origin(kind) not in (UnionType, Union):
        return [kind]
    return [member for argument in get_args(kind) for member in _union_members(argument)]


def _convert_to_first_fit(name: str, value: Any, kinds: Sequence[Any]) -> Any:
    """Return the argument `name` converted to the first of the types `kinds` that fits; else a ValueError."""
    if value is None and NoneType in kinds:
        return None
    if np.random.Generator in kinds:
        return generator(name, value)
    if any(map(_is_path_type, kinds)):
        return _checked_path(name, value)
    array = set(kinds) >= _ARRAY_LIKE
    kinds = [kind for kind in kinds if kind is not NoneType and not (array and kind in _ARRAY_LIKE)]
    if array:
        objects = tuple(kind for kind in kinds if isinstance(kind, type))
        return value if isinstance(value, objects) else real(name, value)
    if len(kinds) == 1:
        return _convert(name, value, kinds[0])
    for kind in kinds:
        with contextlib.suppress(TypeError, ValueError):
            return _convert(name, value, kind)
    # In the words of the kind that it comes closest to: a list is refused as a list.
    lists = [kind for kind in kinds if get_origin(kind) in (Sequence, tuple, list)]
    return _convert(name, value, lists[0] if lists and isinstance(value, Sequence) else kinds[0])


def _convert(name: str, value: Any, kind: Any) -> Any:
    """Return the argument `name` converted to its annotated type `kind`; ValueError if it does not fit."""
    kind = _resolve_alias(kind)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if kind in _SINGLE:
        return _SINGLE[kind](name, value)
    if origin in (UnionType, Union):
        return _convert_to_first_fit(name, value, _union_members(kind))
    if origin is Literal:
        return choice(name, value, inner)
    if origin is np.ndarray:
        numbers_wanted = get_args(inner[-1])[:1] == (np.float64,)
        return real(name, value) if numbers_wanted else instance(name, value, np.ndarray)
    if origin in (Sequence, Collection, Iterable):
        fitted = [_convert(name, entry, inner[0]) for entry in _checked_entries(name, value, origin)]
        return value if isinstance(value, range) else tuple(fitted) if isinstance(value, tuple) else fitted
    if origin is tuple and Ellipsis not in inner:
        entries = _checked_entries(name, value, Sequence)
        if len(entries) != len(inner):
            raise ValueError(f"`{name}` must have entries of {len(inner)} values; got {short_repr(value)}.")
        return tuple(
            _convert(name, entry, entry_kind) for entry, entry_kind in zip(entries, inner, strict=True)
        )
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(f"`{name}` must be a mapping; got {short_repr(value)}.")
        return {
            _convert(name, key, inner[0]): _convert(name, entry_value, inner[1])
            for key, entry_value in value.items()
        }
    if _is_path_type(kind):
        return kind(_checked_path(name, value))
    if origin is Callable:
        return callable_object(name, value)
    known = isinstance(kind, type) and kind not in (Any, inspect.Parameter.empty)
    return instance(name, value, kind) if known else value


_SINGLE: dict[Any, Callable[[str, Any], Any]] = {
    bool: flag,
    int: _checked_count,
    float: number,
    str: _checked_text,
}
_ARRAY_LIKE = set(_union_members(npt.ArrayLike))


class OutOfMemoryError(ValueError):
    """Raised if memory is too short for a call; the message names the arguments that set its size."""


_QUOTES = "'\""
_NO_SIZES = (bool, float, str, NoneType, np.random.Generator)


def _memory_message(values: Mapping[str, Any], reason: str) -> str:
    """Return the message of an `OutOfMemoryError`, with the names of the arguments that may be too large.

    `values` maps names to arguments; `reason` is the text of Python's MemoryError, or "".
    """
    sizes = [
        name
        for name, value in values.items()
        if name not in ("rng", "seconds")
        and not isinstance(value, _NO_SIZES)
        and not inspect.isroutine(value)
    ]
    which = ", ".join(f"`{name}`" for name in sizes or values)
    reason = f" ({short_repr(reason, 120).strip(_QUOTES)})" if reason else ""
    return f"{which} must be smaller: memory is short{reason}."


def as_annotated(function: Callable[P, R], refuse: Callable[P, R] | None = None) -> Callable[P, R]:
    """Decorate a function to convert its arguments to their annotated types, and reject what does not fit.

    The decorator is for functions whose arguments may come from files, command lines and notebooks. A
    ``float`` must be finite; an ``int`` counts something, or is a seed, from 0 to 2^31 - 1, and may come as
    3.0; a ``Sequence`` is a list, tuple, range or array of at least one entry, an ``Iterable`` of any number,
    and both become lists unless they are tuples or ranges; arrays become doubles, all finite; an object must
    be of its class. Narrower ranges, and arguments annotated as ``Any``, are left to the function. For a
    class, the arguments of its constructor are checked. `refuse` is called with arguments that the function
    does not take, to raise the TypeError; by default the function itself.

    Examples
    --------
    >>> @as_annotated
    ... def run(sizes: Sequence[int], rate: float = 1.0) -> float:
    ...     return len(sizes) * rate
    >>> run([1, 2.0], rate=3), run(range(3))
    (6.0, 3.0)
    >>> run([])
    Traceback (most recent call last):
        ...
    ValueError: `sizes` must be a list of one entry or more; got [].
    """
    callable_object("function", function)
    if inspect.isclass(function):
        function.__init__ = as_annotated(function.__init__)  # type: ignore[method-assign]
        return function  # type: ignore[return-value]
    signature = inspect.signature(function)

    @functools.wraps(function)
    def with_conversion(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function with its arguments converted."""
        bound = None
        with contextlib.suppress(TypeError):
            bound = signature.bind(*args, **kwargs)
        if bound is None:  # outside of the handler, whose error the new one would be shown with
            return (refuse or function)(*args, **kwargs)
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            if value is parameter.default or parameter.annotation is Any:
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                fitted: Any = {
                    key: _convert(key, argument, parameter.annotation) for key, argument in value.items()
                }
            elif parameter.kind is parameter.VAR_POSITIONAL:
                fitted = tuple(_convert(name, argument, parameter.annotation) for argument in value)
            else:
                fitted = _convert(name, value, parameter.annotation)
            bound.arguments[name] = fitted
        try:
            return function(*bound.args, **bound.kwargs)
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or "allocate memory" in str(error)):  # PyTorch's own
                raise
            raise OutOfMemoryError(_memory_message(bound.arguments, str(error))) from error
        except OutOfMemoryError as error:  # which a function below says, of arguments of its own
            cause = error.__cause__
            raise OutOfMemoryError(_memory_message(bound.arguments, str(cause))) from cause

    return with_conversion
