"""Advice: which defence to choose for a model, measured on the model itself within a stated time."""
