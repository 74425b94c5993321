"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""

from .catalogue import CLAIMS, judge, judge_or_recall, recall, run, select_claims, store
from .claim import (
    MEANINGS,
    UNDECIDED,
    WRONG,
    CheckedClaim,
    Claim,
    Evidence,
    Finding,
    Statement,
    Verdict,
    as_record,
    from_record,
    text,
    verdict,
)

__all__ = [
    "CLAIMS", "MEANINGS", "UNDECIDED", "WRONG", "CheckedClaim", "Claim", "Evidence", "Finding", "Statement",
    "Verdict", "as_record", "from_record", "judge", "judge_or_recall", "recall", "run", "select_claims",
    "store",
    "text", "verdict",
]  # fmt: skip
