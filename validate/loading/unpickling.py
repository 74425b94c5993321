"""Files of `torch.save` read without their code: tensors, arrays and containers; other objects are inert.

Checkpoints hold settings, losses and paths of any classes beside the weights. `torch.load` refuses the whole
file for one such object; here objects become mappings of their attributes, and nothing is imported.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...theory.validation import FloatArray

# How PyTorch's archives begin; its older files are not read here.
_ARCHIVE = b"PK\x03\x04"
# Kinds of numbers of NumPy arrays, as pickles name them.
_KINDS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


class _InertObject(dict[Any, Any]):
    """Stand-in for an object of any class but a module: it has the object's attributes, and does nothing."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, *args: object, **_: object) -> None:
        super().__init__()
        if any(isinstance(arg, bytes | _InertArray) or hasattr(arg, "detach") for arg in args):
            raise pickle.UnpicklingError(f"an array of another kind, by {type(self).__name__}")

    def __setstate__(self, state: object) -> None:
        """Store the attributes of a pickled object, its `state`; an UnpicklingError refuses a module."""
        for part in state if isinstance(state, tuple) else (state,):
            self.update(part if isinstance(part, Mapping) else {})
        if "_parameters" in self:
            raise pickle.UnpicklingError(f"a whole module, {type(self).__name__}")

    def __call__(self, *args: object, **_: object) -> "_InertObject":
        """Return a new inert object, as a pickled call of a class makes one."""
        return type(self)(*args)

    def append(self, _: object) -> None:
        """Ignore an appended entry, for subclasses of list."""

    extend = add = append


class _InertDtype:
    """Stand-in for a NumPy dtype."""

    def __init__(self, code: str, *_: object) -> None:
        self.code = str(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the byte order from the `state` of a pickled dtype."""
        self.code = f"{state[1]}{self.code}"


class _InertArray:
    """Stand-in for a NumPy array."""

    def __init__(self, *_: object) -> None:
        self.array = np.zeros(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the numbers from the `state` of a pickled array, if they are of a known kind."""
        _, shape, kind, by_columns, data = state
        if kind.code.lstrip("<>=|") in _KINDS:
            order: Any = "F" if by_columns else "C"
            self.array = np.frombuffer(data, np.dtype(kind.code)).reshape(shape, order=order)

    def __array__(self, dtype: Any = None, copy: Any = None) -> FloatArray:
        return np.array(self.array, dtype, copy=copy)


def _known_globals(torch: Any) -> dict[tuple[str, str], Any]:
    """Return stand-ins, by module and name, for the functions and classes that a file may call."""

    def call(name: str) -> Callable[..., Any]:
        """Return a new function that calls `torch._utils.name`: a file may set attributes on it."""

        def rebuild(*args: Any) -> Any:
            """Call the function of `torch._utils` on an archive's arguments."""
            return getattr(torch._utils, name)(*args)

        return rebuild

    tensors = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter")
    dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return {
        ("collections", "OrderedDict"): OrderedDict,
        ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
        ("numpy", "dtype"): _InertDtype,
        ("numpy._core.multiarray", "_reconstruct"): _InertArray,
        ("numpy.core.multiarray", "_reconstruct"): _InertArray,
        ("numpy._core.multiarray", "scalar"): lambda *_: None,
        ("numpy.core.multiarray", "scalar"): lambda *_: None,
        **{("torch._utils", name): call(name) for name in tensors},
        **{("torch", name): value for name, value in dtypes.items()},
        ("torch", "Size"): torch.Size,
    }


def load_inert(path: Path) -> Any:
    """Return the content of a file of `torch.save` with inert objects for those of unknown classes.

    Other files, and files with a whole module, raise an UnpicklingError. A TorchScript archive would execute
    code, but `torch.load` refuses it.
    """
    with path.open("rb") as file:
        if file.read(len(_ARCHIVE)) != _ARCHIVE:
            raise pickle.UnpicklingError("no archive")
    import torch

    known = _known_globals(torch)

    class Unpickler(pickle.Unpickler):
        """An unpickler that finds known stand-ins and inert classes only."""

        def find_class(self, module: str, name: str) -> Any:
            """Return a known function or class of a `module`, or else an inert class of this name."""
            if (module, name) not in known and name.startswith("_rebuild"):
                raise pickle.UnpicklingError(f"a tensor of another kind, by {name}")
            return known.get((module, name)) or type(name, (_InertObject,), {})

    reader = SimpleNamespace(Unpickler=Unpickler, __name__="inert")
    return torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)
