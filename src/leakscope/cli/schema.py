"""`leakscope schema KIND`: what is in a results.json."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    kind: Annotated[
        list[str] | None, typer.Argument(help="audit, attack, compare, or study and its name.")
    ] = None,
) -> None:
    """Print the JSON schema of a kind of run's results.json; without a kind, list them."""
    from leakscope.runs.kinds import KINDS
    from leakscope.runs.schema import schema_text

    if not kind:
        print("\n".join(KINDS))
        return
    print(schema_text(" ".join(kind)), end="")
