"""Ways to spoil a file: bytes anywhere, numbers in headers, values in JSON; drawn from a given `Random`."""

from __future__ import annotations

import copy
import json
import re
from random import Random
from typing import Any

NUMBERS = (-1, 0, 1, 2, 7, 255, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**12, 10**30, -(2**63))
TEXTS = ("", "a", "\x00", "../../../evil", "/etc/passwd", "..", "con", "é" * 40, "\ud800", "𝒳", "a" * 5000,
         "nan", "1e400", "{}", "<script>", "%s%n", "'", '"', "\n", "\u202e", "-", "NA", "=1+1")  # fmt: skip


def hostile_value(rng: Random, depth: int = 0) -> Any:
    """Any JSON value, of a kind nobody asked for."""
    plain: list[Any] = [None, True, False, 0.5, -1e308, float("inf"), float("nan"), [], {}]
    kind = rng.randrange(5 if depth < 2 else 3)
    if kind == 0:
        return rng.choice(plain)
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice(TEXTS[:8] + TEXTS[9:])  # json cannot be written with half a surrogate pair
    if kind == 3:
        return [hostile_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS[:8]): hostile_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def spoiled_json(rng: Random, value: Any) -> Any:
    """The document with a few values replaced, removed, repeated or added anywhere in it."""
    document = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        document = _spoiled_once(rng, document)
    return document


def _spoiled_once(rng: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(sorted(value, key=str))
        if rng.random() < 0.12:
            return {k: v for k, v in value.items() if k != key}
        if rng.random() < 0.08:
            return {**value, rng.choice(TEXTS[:8]): hostile_value(rng)}
        return {**value, key: _spoiled_once(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            return [*value, *value]
        return [*value[:at], _spoiled_once(rng, value[at]), *value[at + 1 :]]
    return hostile_value(rng)


def json_text(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()


def spoiled_bytes(rng: Random, content: bytes) -> bytes:
    """The file with bytes flipped, cut, repeated, inserted, or numbers in it replaced by absurd ones."""
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        content = rng.choice((_flipped, _cut, _repeated, _inserted, _renumbered, _packed))(rng, content)
    return content


def _at(rng: Random, content: bytes) -> int:
    """Anywhere, but more often near the ends, where headers and footers are."""
    n = len(content)
    place = rng.choice((n, min(n, 200), -min(n, 200)))
    return rng.randrange(place + 1) if place >= 0 else n + rng.randrange(place, 0)


def _flipped(rng: Random, content: bytes) -> bytes:
    spoiled = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = _at(rng, content)
        if at < len(spoiled):
            spoiled[at] = rng.choice((spoiled[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255))
    return bytes(spoiled)


def _cut(rng: Random, content: bytes) -> bytes:
    at = _at(rng, content)
    return rng.choice((content[:at], content[at:], content[:at] + content[at + rng.randrange(1, 64) :]))


def _repeated(rng: Random, content: bytes) -> bytes:
    at, length = _at(rng, content), rng.randrange(1, 64)
    return content[:at] + content[at : at + length] * rng.choice((2, 3, 50)) + content[at + length :]


def _inserted(rng: Random, content: bytes) -> bytes:
    at = _at(rng, content)
    new = rng.choice(
        (
            rng.randbytes(rng.randrange(1, 16)),
            rng.choice(TEXTS).encode("utf-8", "surrogatepass"),
            b"[" * 3000,
            b"{" * 50,
            b"\x00" * 300,
        )
    )
    return content[:at] + new + content[at:]


def _renumbered(rng: Random, content: bytes) -> bytes:
    """One run of digits becomes an absurd number."""
    found = list(re.finditer(rb"\d+", content))
    if not found:
        return content
    match = rng.choice(found)
    return content[: match.start()] + str(rng.choice(NUMBERS)).encode() + content[match.end() :]


def _packed(rng: Random, content: bytes) -> bytes:
    """Four or eight bytes become an absurd little-endian number."""
    size, at = rng.choice((4, 8)), _at(rng, content)
    number = (rng.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
    return content[:at] + number + content[at + size :]
