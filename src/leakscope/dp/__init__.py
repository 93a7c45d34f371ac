"""A claim of differential privacy, put to the test: canaries, lower bounds on epsilon, and a verdict.

A test can refute a claim. It cannot prove one.
"""
