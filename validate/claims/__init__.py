"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""

from .catalogue import CLAIMS, judge, run, select
from .ledger import Checked, Claim, Evidence, Finding, Verdict, as_record, verdict

__all__ = [
    "CLAIMS",
    "Checked",
    "Claim",
    "Evidence",
    "Finding",
    "Verdict",
    "as_record",
    "judge",
    "run",
    "select",
    "verdict",
]
