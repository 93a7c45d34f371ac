"""The scaling study: width against leakage."""
