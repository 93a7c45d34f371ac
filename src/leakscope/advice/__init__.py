"""Advice: which defence to take for a model, measured on the model itself within a stated time."""
