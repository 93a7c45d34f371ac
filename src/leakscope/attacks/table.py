"""Every attack and every signal as tables: for `leakscope attacks` and docs/attacks.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from leakscope.attacks.base import Attack
from leakscope.attacks.registry import attack_classes
from leakscope.options import accepted_values, option_text
from leakscope.signals.registry import CLASSIFICATION, LANGUAGE, REGRESSION, SIGNALS

_REFERENCES = {"none": "none", "out": "OUT", "both": "IN and OUT"}


@dataclass(frozen=True)
class OptionRow:
    """One option of an attack.

    Attributes:
        name: of the option.
        accepts: the values it accepts, in words.
        default: as text; None: it has none, so a value must be given.
    """

    name: str
    accepts: str
    default: str | None


@dataclass(frozen=True)
class AttackRow:
    """One attack.

    Attributes:
        name: of the attack.
        summary: one line.
        options: all of them.
        signals: what it reads from classifiers; empty: it cannot attack them.
        regression_signals: what it reads from regression models; empty: it cannot attack them.
        document_signals: what it reads from language models; empty: it cannot attack them.
        references: the reference models it needs, and the options that change this.
        log_ratio: whether its score is a log likelihood ratio, and the options that change this.
        in_memory: whether it holds all signals in memory.
        source: the publication.
    """

    name: str
    summary: str
    options: tuple[OptionRow, ...]
    signals: tuple[str, ...]
    regression_signals: tuple[str, ...]
    document_signals: tuple[str, ...]
    references: str
    log_ratio: str
    in_memory: bool
    source: str

    @property
    def options_text(self) -> str:
        """Options with their defaults, as "online=true, tail=cdf"."""
        return ", ".join(o.name if o.default is None else f"{o.name}={o.default}" for o in self.options)

    @property
    def signal_texts(self) -> tuple[str, str, str]:
        """The signals of classifiers, of regression models and of documents; "no" where there are none."""
        of_classifiers, of_regressions, of_documents = (
            ", ".join(names) or "no"
            for names in (self.signals, self.regression_signals, self.document_signals)
        )
        return of_classifiers, of_regressions, of_documents


def attack_rows() -> list[AttackRow]:
    """One row per attack, shipped ones first."""
    return [_row(cls()) for cls in attack_classes().values()]


def attack_cells() -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """Head and cells of the table of attacks."""
    head = (
        "attack",
        "options and defaults",
        "signals",
        "in a regression",
        "of documents",
        "reference models",
        "log ratio",
        "source",
    )
    cells = [
        (
            row.name,
            row.options_text,
            *row.signal_texts,
            row.references,
            row.log_ratio,
            row.source,
        )
        for row in attack_rows()
    ]
    return head, cells


def markdown() -> str:
    """The tables of attacks and of signals for docs/attacks.md."""
    head, cells = attack_cells()
    attacks = [(f"`{name}`", f"`{options}`" if options else "", *rest) for name, options, *rest in cells]
    signals = [(f"`{signal.name}`", signal.task, signal.inputs, signal.direction) for signal in SIGNALS]
    signal_head = ("signal", "models", "computed from", "members' values")
    return "\n\n".join((markdown_table(head, attacks), markdown_table(signal_head, signals))) + "\n"


def _row(attack: Attack) -> AttackRow:
    defaults = {f.name: None if f.default is MISSING else option_text(f.default) for f in fields(attack)}
    options = accepted_values(type(attack)).items()
    return AttackRow(
        attack.name,
        (type(attack).__doc__ or "").strip().partition("\n")[0],
        tuple(OptionRow(name, str(accepted), defaults[name]) for name, accepted in options),
        attack.reads(CLASSIFICATION),
        attack.reads(REGRESSION),
        attack.reads(LANGUAGE),
        _by_options(attack, "references", _REFERENCES),
        _by_options(attack, "is_log_ratio", {True: "yes", False: "no"}),
        attack.in_memory,
        attack.source,
    )


def _by_options(attack: Attack, trait: str, words: dict[Any, str]) -> str:
    """A trait in words, with the options that change it: "IN and OUT; OUT with online=false"."""
    usual = getattr(attack, trait)
    others = [
        f"; {words[getattr(variant, trait)]} with {variant.label.partition('(')[2][:-1]}"
        for variant in _variants(attack)
        if getattr(variant, trait) != usual
    ]
    return words[usual] + "".join(others)


def _variants(attack: Attack) -> Iterator[Attack]:
    """The attack with one option changed, for every option that has few values."""
    for name, accepted in accepted_values(type(attack)).items():
        values = (*accepted.values, *((True, False) if bool in accepted.types else ()))
        yield from (replace(attack, **{name: value}) for value in values if value != getattr(attack, name))


def markdown_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table as documentation has it, without a newline at its end."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
