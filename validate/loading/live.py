"""Models from live modules: a module's outputs tell which model its arrays are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from ...theory.model import Model
from ...theory.validation import flag, short_repr
from .arrays import as_arrays, drop_strays, named_arrays, summarise_shapes
from .autoencoders import autoencoder_by_keys
from .calling import Answers, ways_to_call
from .differences import describe_difference
from .parts import StackedModel
from .readings import Reading, readings_by_names, readings_by_shape
from .settings import Settings
from .slopes import product_readings
from .toy import layout_by_keys

# Inputs at which readings are compared first: most fail there.
_FIRST_ROWS = 12
# How deep arrays are looked for in the attributes of objects that are no modules of PyTorch.
_DEPTH = 3
_KINDS = "g(W_out f(W_in x + b_in) + b) with ReLU, JumpReLU or nothing as f and g"


@dataclass(frozen=True)
class Hints:
    """The caller's hints on how to read arrays: arguments of `model_of`, which describes them, validated."""

    layout: str | None = None
    keys: Mapping[str, str] | None = None
    apply_b_dec_to_input: bool | None = None

    def __post_init__(self) -> None:
        if self.keys is not None and not isinstance(self.keys, Mapping):
            rule = "map W_in, W_out and b to names of arrays"
            raise ValueError(f"`keys` must {rule}; got {short_repr(self.keys)}.")
        if self.apply_b_dec_to_input is not None:
            subtracts = flag("apply_b_dec_to_input", self.apply_b_dec_to_input)
            object.__setattr__(self, "apply_b_dec_to_input", subtracts)


def can_be_called(x: Any) -> bool:
    """Return whether an object can be called, by itself or by its method `forward`."""
    return callable(x) or callable(getattr(x, "forward", None))


def is_live(x: Any) -> bool:
    """Return whether an object can be called and has arrays: a module, of PyTorch or not."""
    if isinstance(x, type | Model) or not can_be_called(x):
        return False
    if callable(getattr(x, "state_dict", None)):
        return hasattr(x, "modules")
    return hasattr(x, "__dict__") and not hasattr(x, "__array__") and any(_array_attributes(x))


def _array_attributes(x: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, array or tensor) of an object's attributes, and of objects in them.

    `prefix` stands before the names, `depth` the number of objects around this one.
    """
    for name, value in getattr(x, "__dict__", {}).items():
        if hasattr(value, "detach") or hasattr(value, "__array__"):
            if getattr(value, "ndim", 0) > 0:
                yield f"{prefix}{name}", value
        elif depth < _DEPTH and hasattr(value, "__dict__") and not callable(getattr(value, "mro", None)):
            yield from _array_attributes(value, f"{prefix}{name}.", depth + 1)
        elif depth < _DEPTH and isinstance(value, list | tuple) and len(value) < 100:
            for k, entry in enumerate(value):
                if hasattr(entry, "__dict__"):
                    yield from _array_attributes(entry, f"{prefix}{name}.{k}.", depth + 1)


def arrays_of_live(module: Any, *, buffers: bool = True) -> dict[str, Any]:
    """Return the arrays of a module by name; with `buffers` also buffers outside its state dict.

    A weight that is computed from others, as by weight normalisation, has its computed value.
    """
    if not callable(getattr(module, "state_dict", None)):
        return dict(as_arrays(dict(_array_attributes(module))))
    state = dict(module.state_dict())
    for prefix, part in module.named_modules():
        start = f"{prefix}." if prefix else ""
        for name in list(getattr(part, "parametrizations", {})):
            originals = f"{start}parametrizations.{name}."
            state = {key: value for key, value in state.items() if not key.startswith(originals)}
            state[f"{start}{name}"] = getattr(part, name)
        if buffers:
            tensors = dict(part.named_buffers(recurse=False))
            tensors |= {name: value for name, value in vars(part).items() if hasattr(value, "detach")}
            for name, tensor in tensors.items():
                state.setdefault(f"{start}{name}", tensor)
    return dict(as_arrays(state))


def _registered_before_weights(module: Any) -> str:
    """Return the class name of the last activation before a layer with a matrix, "" if there is none.

    Layers are taken in the order in which `module` registered them. If several layers have a matrix after an
    activation, the first decides.
    """
    seen = ""
    leaves = [part for part in module.modules() if not list(part.children())]
    for leaf in leaves:
        if type(leaf).__module__.endswith(".activation"):
            seen = type(leaf).__name__
        elif seen and any(parameter.ndim > 1 for parameter in leaf.parameters(recurse=False)):
            return seen
    return ""


def _check_values(arrays: Mapping[str, Any]) -> None:
    """Raise a ValueError if an array is on PyTorch's meta device, or a matrix is not finite."""
    for name, array in arrays.items():
        if getattr(array, "is_meta", False):
            why = f"{name!r} is on the meta device: load the weights first"
            raise ValueError(f"`model` must have values; {why}.")
        floats = isinstance(array, np.ndarray) and array.dtype.kind == "f"
        if floats and array.ndim > 1 and not np.isfinite(array).all():
            raise ValueError(f"`model` must be finite; {name!r} has {array[~np.isfinite(array)][0]:g}.")


def _numeric_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of finite real numbers; a module may have other arrays beside its weights."""
    return {
        name: array
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and array.dtype.kind in "fiu" and np.isfinite(array).all()
    }


def load_live(module: Any, hints: Hints) -> tuple[str, list[Model], str]:
    """Return (layout name, models, note) of the models that a module computes, found by calling it.

    `hints` are the caller's: name of the layout, `keys` (names of W_in, W_out, …), and whether an autoencoder
    subtracts b_dec from its input; only models that agree with them are tried. If the calls fail, the models
    are [] and the note says why. A module that computes none of these models raises a ValueError.
    """
    state = named_arrays(arrays_of_live(module, buffers=False))
    _check_values(state)
    arrays, all_arrays = _numeric_arrays(state), _numeric_arrays(named_arrays(arrays_of_live(module)))
    is_named = hints.layout is not None or hints.keys is not None
    readings = _named_readings(arrays, hints)
    error = ""
    with ways_to_call(module) as ways:
        for answers_so_far in ways:
            answers = answers_so_far
            for signs in ("both", "positive"):
                answers = replace(answers, signs=signs)
                match = _load_by_answers(answers, readings, all_arrays, is_named, module)
                if match is not None:
                    return match
                error = answers.error or error
    if hasattr(module, "modules") and (kind := _registered_before_weights(module)):
        raise ValueError(
            "`model` must have no nonlinearity on its hidden neurons; got a module with a "
            f"{kind} before its last weights, which cannot be called ({error}). If that acts on the "
            "outputs alone, pass its `state_dict()`."
        )
    return "", [], f"it was not called: {error or 'it takes no such inputs'}"


def _named_readings(arrays: Mapping[str, Any], hints: Hints) -> list[Reading]:
    """Return the models that arrays may be by their names and the caller's hints, with a name for each.

    `hints` are the name of the layout, `keys` (names of W_in, W_out, …), and whether an autoencoder subtracts
    b_dec from its input. The name of a `Reading` is its layout, or "keys"; its parts are the stacked models.
    """
    if hints.keys is not None and {"W_enc", "W_dec"} & hints.keys.keys():
        ways = (True, False) if hints.apply_b_dec_to_input is None else (hints.apply_b_dec_to_input,)
        models = [autoencoder_by_keys(arrays, hints.keys, Settings(), subtracts) for subtracts in ways]
        return [Reading("keys", StackedModel.of([model])) for model in models]
    if hints.keys is not None:
        by_keys = layout_by_keys(arrays, hints.keys)
        alone = {name: arrays[name] for name in by_keys.axes}
        models = [Model(model.W_in, W_out=model.W_out, b=model.b) for model in by_keys.models(alone)]
        return [Reading("keys", StackedModel.of(models))]
    readings = [*readings_by_names(arrays)] or [*readings_by_names(drop_strays(arrays))]
    if hints.apply_b_dec_to_input is not None:
        other = "does not subtract b_dec" if hints.apply_b_dec_to_input else "that subtracts b_dec"
        readings = [reading for reading in readings if other not in reading.name]
    return [reading for reading in readings if hints.layout in (None, reading.name)]


def _first_match(answers: Answers, readings: Iterable[Reading]) -> tuple[Reading, float] | None:
    """Return (reading, c) for the first of `readings` with the module's outputs, divided by c > 0; or None.

    Readings are models that the arrays may be; `answers` calls the module.
    """
    for reading in readings:
        if answers.factor(reading.parts, _FIRST_ROWS) and (factor := answers.factor(reading.parts)):
            return reading, factor
    return None


def _load_by_answers(
    answers: Answers, readings: list[Reading], all_arrays: Mapping[str, Any], is_named: bool, module: Any
) -> tuple[str, list[Model], str] | None:
    """Return (layout name, models, note) of a module that `answers` calls in one way; None without outputs.

    `readings` are models that the arrays may be by their names. With `is_named` (the caller passed a layout
    or keys) the module must compute one of these; else it may compute any model that the shapes of
    `all_arrays`, parameters and buffers, allow. A module that computes no such model raises a ValueError. The
    note is for the user, such as on a factor of the outputs.
    """
    match, products = _first_match(answers, readings), []
    if match is None and not is_named:
        match = _first_match(answers, readings_by_shape(all_arrays))
    if match is None and not is_named:
        lengths = {length for array in all_arrays.values() for length in np.shape(array)}
        products = [*product_readings(answers, lengths)]
        match = _first_match(answers, products)
    if not any(answers.outputs_by_form.values()):  # it took no inputs so far
        return None
    if match is None or answers.is_random:
        others = chain(products, readings_by_names(all_arrays), readings_by_shape(all_arrays))
        bases = readings if is_named and readings else others
        what = describe_difference(bases, answers, all_arrays)
        parts = {type(part).__name__ for part in module.modules()} if hasattr(module, "modules") else set()
        norms = sorted(name for name in parts if "Norm" in name)
        what += f" (it has a {', '.join(norms)})" if norms else ""
        got = f"a module that {what}. Its arrays: {summarise_shapes(all_arrays, 300)}"
        raise ValueError(f"`model` must compute {_KINDS}; got {got}.")
    reading, factor = match
    notes = {
        f"its outputs times {factor:.12g}": factor != 1.0,
        "called with inputs from 0 to 1 alone, as it takes no others": answers.signs != "both",
        "as in evaluation mode; in training mode, in which it is, it answers otherwise":
            answers.differs_in_training(),
    }  # fmt: skip
    note = "; ".join(text for text, applies in notes.items() if applies)
    return reading.name, reading.parts.models(factor), note
