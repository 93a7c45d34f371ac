"""The published form of results.json: one JSON schema (draft 2020-12) for each kind of run.

    schema("audit")   the schema as plain data
    kinds()           what there is

The schemas are generated from the results' dataclasses and the `Attributes:` sections of their docstrings, so
that other programs can read results without reading our code. A property that is not in a schema is refused.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from leakscope.bank.results import results_schema
from leakscope.runs.kinds import KINDS, kind_module


def kinds() -> tuple[str, ...]:
    """Kinds of runs with a schema."""
    return tuple(KINDS)


def schema(kind: str) -> dict[str, Any]:
    """The schema of the results.json of one kind of run.

    Raises:
        InputError: there is no such kind.
    """
    results_type = kind_module(kind).RESULTS_TYPE
    if results_type is not dict:
        return results_schema(results_type, kind)
    path = files("leakscope") / "schemas" / f"{kind.replace(' ', '_')}.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def schema_text(kind: str) -> str:
    """The schema as JSON text."""
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"
