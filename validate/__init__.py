"""What experiments say: training, comparison with the theory, the ledger of claims, the report."""
