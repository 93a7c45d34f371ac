"""The attack on one given model: learn membership from public records, score the private ones."""
