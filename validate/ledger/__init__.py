"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "store", "text", "verdict",
]  # fmt: skip
_CATALOGUE = ("CLAIMS", "judge", "judge_or_recall", "recall", "run", "select_claims", "store")


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: stored verdicts are read without NumPy and without the checks."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'catalogue' if name in _CATALOGUE else 'claim'}"), name)
