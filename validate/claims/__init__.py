"""The ledger of claims: every statement of the sources, checked, with a computed verdict."""
