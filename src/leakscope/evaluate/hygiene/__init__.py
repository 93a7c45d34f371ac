"""Checks before anything is believed: is this an audit of the model, or of a fault in the setup?"""
