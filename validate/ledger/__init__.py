"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""

from typing import TYPE_CHECKING

from ...theory.lazy import lazy_submodules

if TYPE_CHECKING:
    from .catalogue import CLAIMS, judge, read_or_judge, read_stored, run, select_claims, store
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
    "Verdict", "as_record", "from_record", "judge", "read_or_judge", "read_stored", "run", "select_claims",
    "store", "text", "verdict",
]  # fmt: skip
_CATALOGUE = ("CLAIMS", "judge", "read_or_judge", "read_stored", "run", "select_claims", "store")
# Stored verdicts are read without NumPy and without the checks: a name is imported when it is asked for.
_get, __dir__ = lazy_submodules(
    __name__, __path__, sources={name: "catalogue" if name in _CATALOGUE else "claim" for name in __all__}
)
if not TYPE_CHECKING:  # which would take any name for one of this module
    __getattr__ = _get
