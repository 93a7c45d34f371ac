"""results.json: typed results written, read and described by a JSON schema.

Results are trees of frozen dataclasses, one type per kind of run. Whatever is computed is written first and
then read back, so a report that is drawn at the end of a run and one that is rebuilt from its folder see
the same values: Python numbers, and None where a figure is undefined.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import leakscope
from leakscope.bank.run_folder import RESULTS, adapter, parse_as, read_json, to_jsonable
from leakscope.disk.storage import write_json
from leakscope.errors import InputError
from leakscope.types import PROSE

FORMAT_VERSION = 1
"""Raised whenever a field of any results type changes its name or its meaning."""

_FORMAT = "format_version"
_VERSION = "leakscope_version"
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
    if not (folder / RESULTS).exists():
        raise InputError(f"{folder / RESULTS} is missing; run the command that made the folder to write it")
    return parse_results(read_json(folder / RESULTS), results_type, folder / RESULTS)


def results_json(results: object) -> dict[str, Any]:
    """The content of results.json."""
    return {_FORMAT: FORMAT_VERSION, _VERSION: leakscope.__version__, **to_jsonable(results)}


def version_of(content: Mapping[str, object]) -> str:
    """The version of leakscope that wrote a results.json; empty: one that did not record its version."""
    version = content.get(_VERSION)
    return version if isinstance(version, str) and re.fullmatch(r"\d[\w.+]{,40}", version) else ""


def figures_json(results: object) -> Any:
    """JSON data of results in which a text for people counts by its presence, and not by its wording."""
    if dataclasses.is_dataclass(results):
        prose = _prose_fields(cast(Hashable, type(results)))
        return {
            field.name: (_presence if field.name in prose else figures_json)(getattr(results, field.name))
            for field in dataclasses.fields(results)
        }
    if isinstance(results, Mapping):
        return {str(key): figures_json(value) for key, value in results.items()}
    if isinstance(results, tuple | list):
        return [figures_json(value) for value in results]
    return to_jsonable(results)


def _presence(value: Any) -> Any:
    """Whether there is text, for each key of a mapping; as words, because they appear in messages."""
    if isinstance(value, Mapping):
        return {str(key): _presence(text) for key, text in value.items()}
    return "a text" if value else "no text"


@cache
def _prose_fields(cls: type) -> frozenset[str]:
    """Fields of a dataclass that hold text for people."""
    hints = get_type_hints(cls, include_extras=True)
    return frozenset(name for name, hint in hints.items() if _is_prose(hint))


def _is_prose(hint: Any) -> bool:
    return PROSE in getattr(hint, "__metadata__", ()) or any(map(_is_prose, get_args(hint)))


def parse_results(content: dict[str, Any], results_type: type[T], source: Path) -> T:
    """Typed results from the content of a results.json; `source` is named in errors."""
    version = content.get(_FORMAT)
    if version != FORMAT_VERSION:
        raise InputError(
            f"{source} has format version {version or 0}, this leakscope reads version {FORMAT_VERSION}; "
            "run the same command again to rewrite it, which trains nothing"
        )
    body = {name: value for name, value in content.items() if name not in (_FORMAT, _VERSION)}
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
    properties = {
        _FORMAT: {"const": FORMAT_VERSION, "description": "Version of this format."},
        _VERSION: {"type": "string", "description": "Version of leakscope that computed these results."},
    }
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
