"""Which defence to choose: the same records and design under many defences, accuracy against leakage."""
