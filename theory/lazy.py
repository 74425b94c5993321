"""Packages that import a module when its name is first used (PEP 562).

`lazy_loader` needs a list or a stub of the modules of each package; here the folders are that list.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType, ModuleType
from typing import Any

from .compile.interrupts import import_apart

__all__ = ["lazy_submodules", "public_modules"]


def lazy_submodules(
    package: str,
    path: Iterable[str],
    only: tuple[str, ...] | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package, which import its modules and names on demand.

    Parameters
    ----------
    package : str
        Name of the package.
    path : iterable of str
        The folders that hold the package's modules, its `__path__`.
    only : tuple of str, optional
        Modules that are imported on demand; by default all in the folders.
    sources : mapping from str to str, optional
        Further names of the package, such as functions, each with the module that defines it, relative to the
        package.
    """

    def names() -> list[str]:
        """Return the names of the package, sorted."""
        return sorted({*(only or (module.name for module in pkgutil.iter_modules(path))), *sources})

    def get(name: str) -> Any:
        """Return a module or another name of the package, imported now; AttributeError if there is none."""
        if name in sources:
            value = getattr(import_apart(f"{package}.{sources[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if name.startswith("_") or name not in names():
            near = [] if name.startswith("_") else get_close_matches(name, names(), 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}")
        return import_apart(f"{package}.{name}")

    return get, names


def public_modules(package: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules of a package; a subpackage without `__all__` is replaced by its own modules."""
    for module_info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(module_info.name)
        if module_info.ispkg and not hasattr(module, "__all__"):
            yield from public_modules(module)
        else:
            yield module
