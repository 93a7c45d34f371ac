"""The verdict of an audit: its results, and what a reader can conclude from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakscope.dp.verdict import ClaimVerdict
from leakscope.errors import ExitCode, printable
from leakscope.evaluate.gate import GateOutcome
from leakscope.evaluate.limits import audit_outcome
from leakscope.evaluate.rating_results import Level
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.sentences import summary
from leakscope.report.notebook import summary_and_table
from leakscope.report.phrases import with_interval


@dataclass(frozen=True)
class Verdict:
    """The outcome of an audit. `print(verdict)` prints its summary; a notebook also displays a table.

    Attributes:
        results: the content of results.json.
        folder: the run folder.
    """

    results: AuditResults
    folder: Path

    @property
    def strongest_attack(self) -> str:
        """Label of the attack with the highest AUC."""
        return self.results.strongest_attack

    @property
    def outcome(self) -> GateOutcome | None:
        """Of gate and claim; "inconclusive" after a failed check, None if there is nothing to decide."""
        return audit_outcome(self.results)

    @property
    def claim(self) -> ClaimVerdict | None:
        """The outcome of a claim of differential privacy; None: nothing was claimed, or a check failed."""
        return None if self.results.claim is None else self.results.claim.verdict

    @property
    def rating(self) -> Level:
        """How much leaks, in one word; `results.rating` has what it rests on."""
        return self.results.rating.level

    @property
    def exit_code(self) -> ExitCode:
        """How a pipeline should end."""
        codes = {"failed": ExitCode.GATE_FAILED, "inconclusive": ExitCode.INCONCLUSIVE}
        return codes.get(self.outcome or "", ExitCode.SUCCESS)

    def summary(self) -> list[str]:
        """The verdict in plain sentences."""
        return summary(self.results)

    def __str__(self) -> str:
        return printable("\n".join(self.summary()))

    def _repr_html_(self) -> str:
        rows = [
            [label, *(with_interval(f.value, f.low, f.high) for f in (figures.auc, figures.advantage))]
            for label, figures in self.results.attacks.items()
        ]
        whose = "over records" if self.results.is_of_one_model else "for records like these"
        head = ("attack", *(f"{name} (95% interval {whose})" for name in ("AUC", "advantage")))
        return summary_and_table(self.summary(), head, rows)
