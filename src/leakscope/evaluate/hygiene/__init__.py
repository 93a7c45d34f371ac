"""Checks of the audit itself: do the figures measure the model, or a fault in the setup?"""
