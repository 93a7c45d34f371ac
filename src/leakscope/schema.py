"""The published form of results.json: one JSON schema (draft 2020-12) for each kind of run.

    schema("audit")   the schema as plain data
    kinds()           what there is

The schemas are files of the package (`schemas/KIND.json`), so that other programs can read results without
reading our code. What is not in a schema is refused by it: a figure that is added to a run must be described
there, with its unit, before the tests pass.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from leakscope.errors import InputError

FILES = {
    "audit": "audit.json",
    "attack": "attack.json",
    "compare": "compare.json",
    "study dynamics": "study_dynamics.json",
    "study ensemble": "study_ensemble.json",
    "study leakage": "study_leakage.json",
    "study scaling": "study_scaling.json",
}
"""Kind of run, as in run.json -> file of its schema."""


def kinds() -> tuple[str, ...]:
    """Kinds of runs with a schema."""
    return tuple(FILES)


def schema(kind: str) -> dict[str, Any]:
    """The schema of the results.json of one kind of run.

    Raises:
        InputError: there is no such kind.
    """
    return dict(json.loads(schema_text(kind)))


def schema_text(kind: str) -> str:
    """The same as the text of its file."""
    if kind not in FILES:
        raise InputError(f"kind={kind!r}: choose from {', '.join(FILES)}")
    return (files("leakscope") / "schemas" / FILES[kind]).read_text(encoding="utf-8")
