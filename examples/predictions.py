"""Answers you saved yourself, nothing trained: python examples/make_predictions.py, then this."""

import leakscope

verdict = leakscope.audit_predictions("predictions.npz", out="runs/predictions")
print(verdict)
