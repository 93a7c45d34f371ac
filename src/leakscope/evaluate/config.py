"""What an audit measures, on which models, and what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from leakscope.evaluate.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA, Gate
from leakscope.evaluate.nouns import Noun
from leakscope.privacy.claim import Claim

MEMBERS_SHA256 = "member list sha256"
"""The fact about a given model that could confirm a guess of its members."""
MEMBERS = "members"
"""The fact that says how many records are members of a given model."""
RECORDS_PER_MODEL = "records per model"
"""The fact about units that says how many records were in training sets; of a single model, in its own."""
ROWS_TOGETHER = "rows"
"""The fact that names columns by which rows are members together, or not at all."""
SourceKind = Literal["population", "given model", "predictions", "merged"]


@dataclass(frozen=True)
class Source:
    """What was audited, as a reader of the report needs to know it.

    Attributes:
        kind: a trained population, a given model with trained references, saved predictions, or merged runs.
        facts: what identifies it: files, sha256 of weights and member list, what was trained.
        toml: the config file that repeats the audit; None where no config file can.
    """

    kind: SourceKind
    facts: Mapping[str, str] = field(default_factory=dict)
    toml: str | None = None


@dataclass(frozen=True)
class EvaluationConfig:
    """What an audit measures, and on which models.

    Attributes:
        records: name of the records.
        attacks: attacks as text, see `leakscope.attacks.spec`.
        fpr_budgets: false positive rates at which the true positive rate is reported.
        targets: indices of the models that are attacked; None: every model in turn.
        delta: delta of the bounds on epsilon.
        confidence: confidence of the bounds on epsilon.
        gate: limits; None: no gate was set.
        source: what was audited.
        claim: a claim of differential privacy about the training; None: nothing is claimed.
        unit: the column that says whose record it is; None: every record is a unit.
    """

    records: str
    attacks: tuple[str, ...]
    fpr_budgets: tuple[float, ...]
    targets: tuple[int, ...] | None = None
    delta: float = DEFAULT_DELTA
    confidence: float = DEFAULT_CONFIDENCE
    gate: Gate | None = None
    source: Source = field(default_factory=lambda: Source("population"))
    claim: Claim | None = None
    unit: str | None = None

    @property
    def noun(self) -> Noun:
        """What the figures are about: records, or the units."""
        return Noun.of_unit(self.unit)

    def n_references(self, n_models: int) -> int | None:
        """How many of the models are references of given ones; None in a population."""
        return None if self.targets is None else n_models - len(self.targets)
