"""Predictions you saved yourself; nothing is trained: python examples/make_predictions.py, then this."""

import leakscope

verdict = leakscope.audit(leakscope.SavedPredictions("predictions.npz"), out="runs/predictions")
print(verdict)
