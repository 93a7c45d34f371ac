"""How many bits a model carries about one membership: divergences, their bias, and bounds; numpy and scipy.

All quantities are in nats inside and in bits (nats / ln 2) where a report prints them.

- `gaussian`: fits, KL in both directions, added noise, finite precision.
- `bias`: what two fits of the *same* Gaussian already differ by, and leakage with that taken off.
- `mutual_information`, `total_variation`, `bounds`: what an attacker can have at most.
- `mechanism`: noise that makes a release differentially private.
- `nearest_neighbour`: the KL without a Gaussian, to see when the fit is poor.
- `bits`: the same measures for the answers of any bank, record by record.
"""
