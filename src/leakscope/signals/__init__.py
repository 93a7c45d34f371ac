"""A model's output about a record, as numbers that attacks read."""
