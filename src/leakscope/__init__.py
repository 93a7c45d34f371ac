"""leakscope: what a trained model gives away about who was in its training set."""

__version__ = "0.1.0"
