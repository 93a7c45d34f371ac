"""What a redacted page says about the records: how many have which risk, and the exposed ones by keyed ids.

Whoever trains the models again could match a row of figures with a record, so there are no rows. The ids of
exposed records are hashed with the run's key and sorted by their hashes, whatever the order of the records.
The owner of the run folder can name a record by its hash.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.disclosure import FEWEST_RECORDS, keyed_ids
from leakscope.disk.parquet import read_stored, stored_columns
from leakscope.evaluate.judge import RECORDS
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.sentences import exposed_sentences
from leakscope.report.blocks import Absent, Body, Code, Table
from leakscope.report.page import Section

_EDGES = np.linspace(-1, 1, 11)
_MOST_IDS = 10_000
_IDS_PER_LINE = 8


def redacted_records_section(results: AuditResults, folder: Path) -> Section:
    """Counts of records by risk, and the keyed ids of the exposed ones."""
    say = results.config.noun.say
    if "advantage" not in stored_columns(folder / RECORDS):
        absent = Absent(say("Records have no risk over models, because only one model was attacked."))
        return Section("records", say("Records"), [absent])
    stored = read_stored(folder / RECORDS, ["id", "advantage", "exposed"])
    body: Body = [
        _risk_table(stored["advantage"].to_numpy(), results.config.noun),
        *_exposed(folder, stored.filter("exposed")["id"].to_numpy(), results.config.noun),
    ]
    note = "The risk of a record is the TPR of an attack on it over the models, minus the FPR."
    note = " ".join([*exposed_sentences(results), say(note)])
    return Section("records", say("Records"), body, note)


def _risk_table(advantage: AnyArray, noun: Noun) -> Table:
    counts, _ = np.histogram(advantage[np.isfinite(advantage)], _EDGES)
    rows = [
        [f"{low:+.1f} to {high:+.1f}", f"{n:,}"]
        for low, high, n in zip(_EDGES[:-1], _EDGES[1:], counts.tolist(), strict=True)
    ]
    return Table(("risk", noun.many), rows, noun.say("Number of records by risk"))


def _exposed(folder: Path, ids: AnyArray, noun: Noun) -> Body:
    if len(ids) < FEWEST_RECORDS:
        return [Absent(noun.say(f"Exposed records are listed where there are at least {FEWEST_RECORDS}."))]
    hashes = sorted(keyed_ids(folder, ids.astype(str)).tolist())
    more = f" {_MOST_IDS:,} of them are listed." if len(hashes) > _MOST_IDS else ""
    lines = [
        " ".join(hashes[at : at + _IDS_PER_LINE])
        for at in range(0, min(len(hashes), _MOST_IDS), _IDS_PER_LINE)
    ]
    sentence = (
        "The exposed records, by their keyed ids and in the order of these. Only someone with the key of the "
        f"run folder can tell which records they are.{more}"
    )
    return [noun.say(sentence), Code("\n".join(lines))]
