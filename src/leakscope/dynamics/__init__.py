"""When, during training, does each record become exposed? Pure functions of a bank; numpy and scipy only.

After "Evaluating the Dynamics of Membership Privacy in Deep Learning" (arXiv 2507.23291).

- `decisions`: any attack's leave-one-out decisions at every checkpoint.
- `plane`: each record's state (FPR, TPR) and path; center of mass, entropy, encoding speed.
- `grid`: cells of the plane, transitions between them, the probability of becoming vulnerable, and how early
  the finally vulnerable records are in the corner.
- `metrics`: all of these figures in one call.
- `noise_floor`: the figures under permuted memberships. `jackknife`: their standard errors over models.
- `monitor`: early warning from the losses of a single training run.
"""
