"""Certificates with their stand-alone checkers, and the search for counterexamples of an inequality."""

from typing import TYPE_CHECKING

from ...theory.lazy import lazy_submodules

if TYPE_CHECKING:
    from .certificates import check as check
    from .properties import refute as refute

_get, __dir__ = lazy_submodules(__name__, __path__, sources={"check": "certificates", "refute": "properties"})
if not TYPE_CHECKING:  # which would take any name for one of this module
    __getattr__ = _get
