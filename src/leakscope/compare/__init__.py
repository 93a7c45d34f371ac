"""Compare audits of the same records: differences in leakage and accuracy, with intervals."""
