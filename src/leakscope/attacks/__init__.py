"""One attack a file. `base.py` holds the contract and all checks."""
