"""The judged result of an audit: figures with intervals, and what a person can conclude from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """What an audit found.

    Attributes:
        results: the content of results.json.
        folder: the run folder.
    """

    results: dict[str, Any]
    folder: Path

    @property
    def strongest_attack(self) -> str:
        """Name of the attack with the highest AUC."""
        attacks: dict[str, Any] = self.results["attacks"]
        return max(attacks, key=lambda name: float(attacks[name]["auc"]["value"]))

    def words(self) -> list[str]:
        """The verdict in plain sentences: what was asked, what follows, what does not."""
        results = self.results
        population, accuracy, exposed = results["population"], results["accuracy"], results.get("exposed")
        lines = [
            f"{population['models']} models were trained on random halves of {population['records']:,} "
            f"{results['config']['records']} records."
        ]
        if accuracy is not None:
            lines.append(
                f"They get {accuracy['members']['value']:.1%} of their members right and "
                f"{accuracy['nonmembers']['value']:.1%} of the others."
            )
        lines.append(self._strongest_in_words())
        if exposed:
            lines.append(
                f"{exposed['records']:,} records ({exposed['share']:.1%}) are exposed one by one: over the "
                "models, their membership shows. At most "
                f"{exposed['false_discovery_rate']:.0%} of them are expected to be false alarms."
            )
        lines.append(
            "This is what these attacks find with this many models; a stronger attacker may find more. "
            "It says nothing about other training data or another recipe."
        )
        return lines

    def _strongest_in_words(self) -> str:
        auc = self.results["attacks"][self.strongest_attack]["auc"]
        interval = "no interval: one target"
        if auc["low"] is not None:
            interval = f"95% interval {auc['low']:.1%} to {auc['high']:.1%}"
        return (
            f"The strongest attack here ({self.strongest_attack}) ranks a member above a non-member "
            f"{auc['value']:.1%} of the time ({interval}; guessing gives 50%)."
        )
