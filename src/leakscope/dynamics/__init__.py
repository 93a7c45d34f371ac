"""When, during training, does each record become exposed? Pure functions of a bank; numpy and scipy only.

After "Evaluating the Dynamics of Membership Privacy in Deep Learning" (arXiv 2507.23291).

- `decisions`: any attack's leave-one-out decisions at every checkpoint.
- `plane`: each record's state (FPR, TPR) and path; centre of mass, entropy, encoding speed.
- `grid`: cells of the plane, transitions between them, the probability to become vulnerable.
- `early_exposure`: how early the finally vulnerable are there.
- `metrics`: all of these at once, so that they can be repeated.
- `noise_floor`: the same with the design permuted. `jackknife`: how far they move with the models.
"""
