"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""

from .catalogue import CLAIMS, judge, run, select
from .errata import errata
from .ledger import Checked, Claim, Evidence, Finding, Verdict, as_record, text, verdict

__all__ = [
    "CLAIMS",
    "Checked",
    "Claim",
    "Evidence",
    "Finding",
    "Verdict",
    "as_record",
    "errata",
    "judge",
    "run",
    "select",
    "text",
    "verdict",
]
