"""The attack on one given model: learn membership from public records, score the private ones.

- `features`: ten features of the model's outputs, and the global likelihood ratio.
- `attackers`: three calibrated classifiers on these features.
- `ties`: breaks the ties that calibration makes, by the uncalibrated score.
- `holdout`: fits on one part of the public records and evaluates on the other.
"""
