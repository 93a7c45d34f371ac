"""results.json: typed results written, read and described by a JSON schema.

Results are trees of frozen dataclasses, one type per kind of run. Whatever is computed is written first and
then read back, so a report that is drawn at the end of a run and one that is rebuilt from its folder see
the same values: Python numbers, and None where a figure is undefined.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

from leakscope.bank.run_folder import RESULTS, adapter, parse_as, read_json, to_jsonable
from leakscope.disk.storage import write_json
from leakscope.errors import InputError

FORMAT_VERSION = 1
"""Raised whenever a field of any results type changes its name or its meaning."""

_FORMAT = "format_version"
T = TypeVar("T")


def write_results(folder: Path, results: T) -> T:
    """Writes results.json; returns the results as a reader of the file sees them."""
    content = results_json(results)
    stored = parse_results(content, type(results), folder / RESULTS)
    write_json(folder / RESULTS, content)
    return stored


def read_results(folder: Path, results_type: type[T]) -> T:
    """The results of a run folder.

    Raises:
        InputError: there are none, or another version of leakscope wrote them.
        CorruptBankError: the file does not hold results of this type.
    """
    return parse_results(read_json(folder / RESULTS), results_type, folder / RESULTS)


def results_json(results: object) -> dict[str, Any]:
    """The content of results.json."""
    return {_FORMAT: FORMAT_VERSION, **to_jsonable(results)}


def parse_results(content: dict[str, Any], results_type: type[T], source: Path) -> T:
    """Typed results from the content of a results.json; `source` is named in errors."""
    version = content.get(_FORMAT)
    if version != FORMAT_VERSION:
        raise InputError(
            f"{source} has format version {version or 0}, this leakscope reads version {FORMAT_VERSION}; "
            "run the same command again to rewrite it, which trains nothing"
        )
    body = {name: value for name, value in content.items() if name != _FORMAT}
    return parse_as(results_type, body, source, "run the same command again to write it anew")


def results_schema(results_type: type, kind: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the results of one kind of run.

    Descriptions come from the `Attributes:` sections of the dataclasses' docstrings.
    """
    from pydantic.json_schema import GenerateJsonSchema

    class Described(GenerateJsonSchema):
        def dataclass_schema(self, schema: Any) -> dict[str, Any]:
            definition = super().dataclass_schema(schema)
            _describe(definition, schema["cls"])
            return definition

    generated = adapter(results_type).json_schema(schema_generator=Described)
    properties = {_FORMAT: {"const": FORMAT_VERSION, "description": "Version of this format."}}
    return {
        **generated,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:leakscope:results:{kind.replace(' ', ':')}",
        "title": f"results.json of leakscope {kind}",
        "properties": {**properties, **generated["properties"]},
        "required": [_FORMAT, *generated.get("required", [])],
    }


def _describe(definition: dict[str, Any], cls: type) -> None:
    """Adds descriptions to one object of a schema, and forbids what is not described."""
    documented = attribute_docs(cls)
    for name, schema in definition.get("properties", {}).items():
        schema.pop("title", None)
        if name in documented:
            schema["description"] = documented[name]
    definition["description"] = (cls.__doc__ or "").strip().splitlines()[0]
    definition["additionalProperties"] = False
    # Every field is written, also one that has a default.
    definition["required"] = list(definition.get("properties", {}))


def attribute_docs(cls: type) -> dict[str, str]:
    """Field -> its description in the `Attributes:` sections of a class and its bases."""
    documented: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, attributes = (base.__doc__ or "").partition("Attributes:\n")
        for match in re.finditer(r"^ +(\w+): ((?:.|\n(?! +\w+: |\s*\n))+)", attributes, re.MULTILINE):
            documented[match[1]] = " ".join(match[2].split())
    return documented
