"""The published form of results.json: one JSON schema (draft 2020-12) for each kind of run.

The schemas are generated from the results' dataclasses and the `Attributes:` sections of their docstrings, so
that other programs can read results without reading our code. A property that is not in a schema is refused.
"""

from __future__ import annotations

import json
from typing import Any

from leakscope.bank.results import results_schema
from leakscope.runs.kinds import kind_module


def schema(kind: str) -> dict[str, Any]:
    """The schema of the results.json of one kind of run.

    Raises:
        InputError: there is no such kind.
    """
    return results_schema(kind_module(kind).RESULTS_TYPE, kind)


def schema_text(kind: str) -> str:
    """The schema as JSON text."""
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"
