"""The ensemble study as its redacted page states it: figures that fit any number of members."""

from __future__ import annotations

from dataclasses import replace

from leakscope.single_model.coarse import coarse_figures, coarse_findings, rounding_of
from leakscope.studies.ensemble.results import EnsembleResults, TargetAccuracy


def coarse(results: EnsembleResults) -> EnsembleResults:
    """Rounds the figures of the private records, of the features and of the target."""
    n_members = results.public.members
    rounding = rounding_of(n_members, results.public.records - n_members)
    members, nonmembers = (
        rounding.nearest(results.target.members),
        rounding.nearest(results.target.nonmembers),
    )
    return replace(
        coarse_findings(results),
        target=TargetAccuracy(members, nonmembers, members - nonmembers),
        private_truth={name: coarse_figures(one) for name, one in results.private_truth.items()},
        calibrations=(),  # of the table of claims alone, which a redacted page does not have
        features={name: rounding.figure(auc) for name, auc in results.features.items()},
    )
