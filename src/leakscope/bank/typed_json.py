"""JSON files of a run folder as frozen dataclasses: of the right form, or damaged.

Checksums reveal accidents, not intent: whoever changes a bank can change its checksums with it. So a file is
checked in full before any number in it becomes a size, or any name a path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from leakscope.errors import CorruptBankError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
FORBID_EXTRA = {"extra": "forbid"}
"""The `__pydantic_config__` of a dataclass whose JSON may hold no other fields."""


def to_json(value: DataclassInstance) -> dict[str, Any]:
    """A dataclass as the JSON object that `parse_as` reads: tuples are lists, keys are text."""
    content: dict[str, Any] = json.loads(json.dumps(asdict(value)))
    return content


def parse_as(kind: type[T], content: Mapping[str, object], path: Path) -> T:
    """The dataclass that `to_json` described.

    Args:
        kind: a dataclass; its `__post_init__` raises ValueError for values that make no sense.
        content: a JSON object.
        path: where it was read, for the error message.

    Raises:
        CorruptBankError: the content is not of this kind.
    """
    from pydantic import ValidationError

    try:
        parsed: T = _adapter(kind).validate_json(json.dumps(content), strict=True)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        what = f"{where}: {reason}" if where else reason
        raise CorruptBankError(f"{path} is damaged: {what}; remove it to train the bank anew") from error
    return parsed


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
