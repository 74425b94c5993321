"""Audits of trained toy models: their loss beside the best known, and whether training has converged."""

from typing import TYPE_CHECKING

from ...theory.lazy import lazy_submodules
from ..loading import LAYOUTS, Layout, Weights, recognise, state_of

if TYPE_CHECKING:
    from .models import Audit, audit, read
    from .networks import NetworkAudit, audit_network
    from .results import COLUMNS, VERDICTS, ModelAudit

__all__ = [
    "COLUMNS",
    "LAYOUTS",
    "VERDICTS",
    "Audit",
    "Layout",
    "ModelAudit",
    "NetworkAudit",
    "Weights",
    "audit",
    "audit_network",
    "read",
    "recognise",
    "state_of",
]
# Parts that a loss alone, which takes the bias of a model from here, need not load.
_SOURCES = {
    **dict.fromkeys(("Audit", "audit", "read"), "models"),
    **dict.fromkeys(("NetworkAudit", "audit_network"), "networks"),
    **dict.fromkeys(("COLUMNS", "VERDICTS", "ModelAudit"), "results"),
}
_get, _names = lazy_submodules(__name__, __path__, (), _SOURCES)

if not TYPE_CHECKING:  # which would take any name for one of this module
    __getattr__ = _get
