"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""

from .catalogue import CLAIMS, judge, judge_or_recall, run, select
from .ledger import Checked, Claim, Evidence, Finding, Statement, Verdict, as_record, text, verdict

__all__ = [
    "CLAIMS", "Checked", "Claim", "Evidence", "Finding", "Statement", "Verdict", "as_record", "judge",
    "judge_or_recall", "run", "select", "text", "verdict",
]  # fmt: skip
