"""Certificates with their stand-alone checkers, and the search for counterexamples of an inequality."""

from typing import TYPE_CHECKING, Any

from ...theory.lazy import lazy_submodules

if TYPE_CHECKING:
    from .certificates import check as check
    from .properties import refute as refute

_FUNCTIONS = {"check": "certificates", "refute": "properties"}
_get_module, _module_names = lazy_submodules(__name__, __path__, others=_FUNCTIONS)


if not TYPE_CHECKING:  # which would take any name for one of this module

    def __getattr__(name: str) -> Any:
        return getattr(_get_module(_FUNCTIONS[name]), name) if name in _FUNCTIONS else _get_module(name)


def __dir__() -> list[str]:
    return sorted([*_module_names(), *_FUNCTIONS])
