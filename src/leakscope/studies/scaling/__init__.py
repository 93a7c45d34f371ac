"""The scaling study: membership leakage against model width."""
