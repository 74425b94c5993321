"""Laws of the value of a feature that is on, at scale 1: a file a law.

All files of this folder are read, so that a new law is one file, which calls `register`, as one anywhere else
may.
"""

from importlib import import_module
from pkgutil import iter_modules

from .interval import uniform_from
from .law import Definition, ValueDistribution, law_named, register, registered_names
from .rectified_normal import rectified_normal

__all__ = [
    "VALUES",
    "Definition",
    "ValueDistribution",
    "law_named",
    "rectified_normal",
    "register",
    "uniform_from",
]

for _submodule in iter_modules(__path__):
    import_module(f"{__name__}.{_submodule.name}")

VALUES = registered_names()
