"""The leakage study: what drives membership leakage?"""
