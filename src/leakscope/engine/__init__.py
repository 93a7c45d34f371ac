"""Who runs which block of models where."""
