"""Which defence to take: the same records and design under many defences, accuracy against leakage."""
