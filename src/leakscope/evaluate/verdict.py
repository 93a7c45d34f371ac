"""The judged result of an audit: figures with intervals, and what a person can conclude from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakscope.report.notebook import summary_and_table


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

    @property
    def gate_failed(self) -> bool:
        """True when there was a gate and one of its limits was broken."""
        return not self.results.get("gate", {"passed": True})["passed"]

    def words(self) -> list[str]:
        """The verdict in plain sentences: what was asked, what follows, what does not."""
        return [
            *self.hygiene_in_words("failed"),
            self._population_in_words(),
            *self._accuracy_in_words(),
            self._strongest_in_words(),
            *self._exposed_in_words(),
            *self._leakage_in_words(),
            *self.hygiene_in_words("warning"),
            *self.gate_in_words(),
            self._limits_in_words(),
        ]

    def findings(self) -> list[str]:
        """What was found, the most important first, without what the figures leave open (`limits`)."""
        return [
            *self.hygiene_in_words("failed"),
            *self.gate_in_words(),
            *self._exposed_in_words(),
            *self._leakage_in_words(),
            self._population_in_words() + " " + " ".join(self._accuracy_in_words()),
            *self.hygiene_in_words("warning"),
        ]

    def limits(self) -> list[str]:
        """What the figures do not show, one sentence each."""
        return [f"{sentence.strip(' .')}." for sentence in self._limits_in_words().split(". ")]

    def _repr_html_(self) -> str:
        """The sentences and one small table, for a notebook."""
        rows = [
            [name, _with_interval(figures["auc"]), _with_interval(figures["advantage"])]
            for name, figures in self.results["attacks"].items()
        ]
        return summary_and_table(
            self.words(), ("attack", "AUC (95% interval)", "advantage (95% interval)"), rows
        )

    def gate_in_words(self) -> list[str]:
        """One sentence a limit, the broken ones first; none without a gate."""
        limits = self.results.get("gate", {"limits": []})["limits"]
        return [limit["sentence"] for limit in sorted(limits, key=lambda limit: limit["passed"])]

    def hygiene_in_words(self, status: str) -> list[str]:
        """One sentence for each check that ended with `status`."""
        opening = {"failed": "DO NOT TRUST THESE FIGURES", "warning": "Warning"}[status]
        found = [check for check in self.results.get("hygiene", []) if check["status"] == status]
        return [f"{opening} ({check['name']}): {check['sentence']}" for check in found]

    @property
    def _is_of_one_model(self) -> bool:
        """True for an audit of one given model, false when a population was trained."""
        return bool(self.results["config"].get("targets"))

    def _population_in_words(self) -> str:
        population, name = self.results["population"], self.results["config"]["records"]
        n_records, n_members = population["records"], population["members"]
        if not self._is_of_one_model:
            n_models = population["models"]
            return f"{n_models} models were trained on random halves of {n_records:,} {name} records."
        n_references = population["models"] - 1
        others = f", beside the answers of {n_references} other models" if n_references else ""
        return (
            f"One model's answers about {n_records:,} {name} records were judged{others}: "
            f"{n_members:,} are its members, {n_records - n_members:,} are not."
        )

    def _accuracy_in_words(self) -> list[str]:
        accuracy = self.results["accuracy"]
        if accuracy is None:
            return []
        subject, whose = ("It gets", "its") if self._is_of_one_model else ("They get", "their")
        return [
            f"{subject} {accuracy['members']['value']:.1%} of {whose} members right and "
            f"{accuracy['nonmembers']['value']:.1%} of the others."
        ]

    def _exposed_in_words(self) -> list[str]:
        exposed = self.results.get("exposed")
        if not exposed:
            return []
        return [
            f"{exposed['records']:,} records ({exposed['share']:.1%}) are exposed one by one: over the "
            "models, their membership shows. At most "
            f"{exposed['false_discovery_rate']:.0%} of them are expected to be false alarms."
        ]

    def _leakage_in_words(self) -> list[str]:
        """How many bits an answer carries; nothing where that is undefined, the report says why."""
        leakage = self.results.get("leakage")
        if not leakage or not leakage["checkpoints"]:
            return []
        bits, most_exposed = (leakage["checkpoints"][-1][name] for name in ("bits", "most_exposed"))
        if bits["value"] is None:
            return []
        interval = "no interval: too few models"
        if bits["low"] is not None:
            interval = f"95% interval {max(bits['low'], 0):.3f} to {max(bits['high'], 0):.3f}"
        mean, highest = max(bits["value"], 0), max(most_exposed["value"], 0)
        return [
            f"The model's answer about a record carries {mean:.3f} bits about its membership on average "
            f"({interval}; 1 bit gives it away); the most exposed {most_exposed['share']:.0%} carry "
            f"{highest:.2f}."
        ]

    def _limits_in_words(self) -> str:
        if self._is_of_one_model:
            return (
                "This is what these attacks find in these answers; a stronger attacker may find more. "
                "Intervals are over records: the same recipe trained again may give away more or less."
            )
        return (
            "This is what these attacks find with this many models; a stronger attacker may find more. "
            "It says nothing about other training data or another recipe."
        )

    def _strongest_in_words(self) -> str:
        auc = self.results["attacks"][self.strongest_attack]["auc"]
        interval = "no interval: one target"
        if auc["low"] is not None:
            interval = f"95% interval {auc['low']:.1%} to {auc['high']:.1%}"
        return (
            f"The strongest attack here ({self.strongest_attack}) ranks a member above a non-member "
            f"{auc['value']:.1%} of the time ({interval}; guessing gives 50%)."
        )


def _with_interval(figure: dict[str, Any]) -> str:
    if figure["low"] is None:
        return f"{figure['value']:.3f}"
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})"
