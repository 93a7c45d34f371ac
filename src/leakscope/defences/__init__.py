"""Defences: one per file. `base.py` holds the contract, `registry.py` lists them."""
