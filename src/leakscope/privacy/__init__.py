"""Differential privacy of a training: what a recipe requests, and what the training spends."""
