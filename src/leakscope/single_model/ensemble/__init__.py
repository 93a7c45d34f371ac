"""One given model, some records known to be members or not: which of the others are members?

- `features`: ten features of the model's answers, and the global likelihood ratio.
- `attackers`: three classifiers on them, calibrated.
- `ties`: calibration ties broken by the uncalibrated score.
- `holdout`: fitted on one part of the public records, judged on the other.
"""
