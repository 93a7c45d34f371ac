"""Signals: a model's outputs on a record, as numbers that attacks read."""
