"""How many bits a model reveals about one membership: divergences, their bias, inequalities; numpy and scipy.

Quantities are in nats in the code, and in bits (nats / ln 2) where a report prints them.

- `gaussian`: fits, Kullback-Leibler (KL) divergence in both directions, added noise.
- `neighbours`: leakage of one output without a Gaussian.
- `rounding`: parameters at finite precision.
- `bias`: how much two fits of the *same* Gaussian differ, and leakage without that bias.
- `experiment`: adversaries on crossed trainings with and without a record; `regressions` trains them.
- `inequalities`: mutual information and total variation of two Gaussians, and what limits these.
- `sensitivity`: how far one record can move a ridge regression, proved.
- `mechanism`: noise that makes a release differentially private.
- `bits`: the same measures for the outputs of any bank, per record.
"""
