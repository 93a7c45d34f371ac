"""An audit judged once more, to write its tables and pages elsewhere: what `leakscope verify` compares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakscope.bank.bank import Bank
from leakscope.bank.results import parse_results, results_json
from leakscope.bank.run_folder import RESULTS
from leakscope.disclosure import Disclosure
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import Judged, judge, write_record_table
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.results import AuditResults


@dataclass(frozen=True, eq=False)
class AuditAgain:
    """An audit, judged again from its bank and the metadata of its records alone.

    Attributes:
        metadata: of the records, canaries included.
        judged: every number, and what it was computed from.
    """

    metadata: RecordMetadata
    judged: Judged

    @classmethod
    def of(cls, folder: Path, config: EvaluationConfig) -> AuditAgain:
        """Judges the bank in a run folder."""
        metadata = RecordMetadata.read(folder)
        return cls(metadata, judge(Bank.open(folder), config, metadata))

    @property
    def results(self) -> AuditResults:
        """The content of results.json."""
        return self.judged.results

    def write_tables(self, into: Path) -> None:
        """Writes records.parquet and, where members are units, rows.parquet."""
        write_record_table(into, self.metadata.without_canaries(), self.judged)

    def write_page(self, into: Path, disclosure: Disclosure) -> None:
        """Writes one of the reports to a folder that holds the bank and the tables."""
        from leakscope.audits.report.page import write_report

        results = parse_results(results_json(self.results), AuditResults, into / RESULTS)
        write_report(results, self.judged.attacked._replace(bank=Bank.open(into)), disclosure)
