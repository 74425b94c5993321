"""Audits of trained toy models: what they are, how good they could be, and whether training found it."""

from ..loading import LAYOUTS, Layout, Weights, recognise, state_of
from .models import Audit, audit, read
from .networks import NetworkAudit, audit_network, naive_loss
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
    "naive_loss",
    "read",
    "recognise",
    "state_of",
]
