"""A reader who has the records in order, the config and black-box access, at work on a report.

The reader rebuilds the design from seed and model count, can train every reference model again, and queries
the target. Each attack returns what the reader claims; the tests compare the claims with the truth.
"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.leakage import bits as leakage_bits
from leakscope.report.embed import Embedded
from tests.report.html.test_embed import read

_ARRAY = re.compile(
    r'class="array" data-name="([^"]*)" data-kind="(\w+)" data-shape="([\d,]*)" data-low="([^"]*)" '
    r'data-step="([^"]*)">([^<]*)<'
)
_JSON = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<t[hd][^>]*>(?:<[^>]*>)*([^<]*)")


def arrays(page: str) -> dict[str, Any]:
    """Every array that is embedded for the scripts, decompressed."""
    parts = [Embedded(n, k, s, float(low), float(step), c) for n, k, s, low, step, c in _ARRAY.findall(page)]
    return {unescape(part.name): read(part) for part in parts}


def membership_rows(page: str, in_mask: BoolArray) -> IntArray:
    """The record that each row of the page is claimed to be, by its pattern of models; -1: no claim.

    Args:
        page: report.html as text.
        in_mask: bool (models, records), rebuilt from seed and model count.
    """
    embedded = arrays(page)
    if "in_mask" not in embedded:
        return np.zeros(0, dtype=np.int64)
    packed = np.packbits(in_mask.T, axis=1, bitorder="little")
    of_pattern: dict[bytes, int] = {}
    for record, pattern in enumerate(packed):
        of_pattern[pattern.tobytes()] = -1 if pattern.tobytes() in of_pattern else record
    rows = embedded["in_mask"].astype(np.uint8)
    return np.array([of_pattern.get(row.tobytes(), -1) for row in rows])


class Sequence(NamedTuple):
    """Values on the page that may stand for records, one after the other."""

    where: str
    values: AnyArray


def sequences(page: str, length: int) -> list[Sequence]:
    """Every list of `length` numbers or texts: of arrays and their columns, of charts, of tables."""
    lists = [
        Sequence(name, column)
        for name, values in arrays(page).items()
        for axis in range(np.ndim(values))
        if values.shape[axis] == length
        for column in np.moveaxis(np.asarray(values), axis, 0).reshape(length, -1).T
    ]
    for text in _JSON.findall(page):
        lists += _lists_in(json.loads(text), length)
    rows = [[unescape(cell).strip() for cell in _CELL.findall(row)] for row in _ROW.findall(page)]
    if len(rows) >= length:
        width = max(map(len, rows))
        cells = [[row[k] for row in rows if len(row) > k] for k in range(width)]
        lists += [Sequence("table", np.array(column)) for column in cells if len(column) == length]
    return lists


def _lists_in(value: Any, length: int) -> list[Sequence]:
    if isinstance(value, dict):
        return [one for part in value.values() for one in _lists_in(part, length)]
    if not isinstance(value, list):
        return []
    inner = [one for part in value for one in _lists_in(part, length)]
    is_flat = len(value) == length and not any(isinstance(part, dict | list) for part in value)
    return [Sequence("chart", np.array(value)), *inner] if is_flat else inner


def values_rows(page: str, known: FloatArray) -> dict[str, IntArray]:
    """The record each entry of a list is claimed to be: the one whose recomputed value is closest.

    Args:
        page: report.html as text.
        known: float (records,), a figure of each record that the reader computed by training again.
    """
    claims = {}
    for k, (where, values) in enumerate(sequences(page, len(known))):
        if values.dtype.kind in "iuf" and len(np.unique(values)) > 1:
            claims[f"{where} {k}"] = np.abs(values[:, None] - known[None]).argmin(axis=1)
    return claims


def order_correlations(page: str, known: FloatArray) -> list[float]:
    """Correlation of each list of as many numbers as there are records with a known figure, in order."""
    return [
        abs(float(np.corrcoef(values.astype(np.float64), known)[0, 1]))
        for _, values in sequences(page, len(known))
        if values.dtype.kind in "iufb" and len(np.unique(values)) > 1
    ]


def members_by_curve(page: str, curve_name: str, scores: FloatArray, n_members: int) -> BoolArray:
    """Who is a member of the target, by the steps of a ROC curve: each says how many of the next are.

    Args:
        page: report.html as text.
        curve_name: how the name of the curve begins.
        scores: float (records,), of the attack, which the reader computed.
        n_members: as the page says.
    """
    (curve,) = (trace for trace in traces(page) if str(trace.get("name", "")).startswith(curve_name))
    called_nonmembers = np.floor(np.array(curve["x"]) * (len(scores) - n_members) * (1 + 1e-9))
    called_members = np.rint(np.array(curve["y"]) * n_members)
    ranking, start, guess = np.argsort(-scores, kind="stable"), 0, np.zeros(len(scores), dtype=np.bool_)
    members = nonmembers = 0
    for more_nonmembers, more_members in zip(called_nonmembers, called_members, strict=True):
        end = int(more_nonmembers + more_members)
        guess[ranking[start:end]] = more_members - members > more_nonmembers - nonmembers
        start, members, nonmembers = max(start, end), more_members, more_nonmembers
    return guess


def traces(page: str) -> list[dict[str, Any]]:
    """Every curve and cloud of points of the charts."""
    figures = [json.loads(text) for text in _JSON.findall(page)]
    return [trace for f in figures if isinstance(f, dict) for trace in f.get("data", ()) if "x" in trace]


def bits_alone(values: FloatArray, in_mask: BoolArray) -> FloatArray:
    """Bits of each record; without the intervals of their means, which take most of the time."""
    with mock.patch.object(leakage_bits, "_LEAST_FOR_INTERVAL", len(values) + 1):
        return leakage_bits.bits_per_record(values, in_mask).bits


def members_by_bits(
    shown: FloatArray, target: FloatArray, references: FloatArray, in_mask: BoolArray
) -> BoolArray:
    """Who is a member of the target: whichever of "in" and "out" comes closer to the bits that are shown.

    Args:
        shown: float (records,), bits on the page.
        target: float (records,), the target's outputs.
        references: float (references, records), outputs of the references.
        in_mask: bool (references, records), their members.
    """
    values = np.concatenate([target[None], references])
    guess = np.random.default_rng(12_345).random(len(target)) < 0.5
    for _ in range(
        2
    ):  # what all records have in common depends a little on the guesses; the median removes it
        distances = []
        for side in (guess, ~guess):
            bits = bits_alone(values, np.concatenate([side[None], in_mask]))
            distances.append(np.abs(bits - shown - np.median(bits - shown)))
        guess = guess ^ (distances[1] < distances[0])
    return guess


def is_shown(page: str, known: FloatArray) -> BoolArray:
    """Which records' figures are on the page as single numbers, by more digits than chance explains.

    Args:
        page: report.html as text.
        known: float (records,), a figure of each record that the reader computed by training again.
    """
    numbers = [number for text in _JSON.findall(page) for number in _numbers_in(json.loads(text))]
    fine = [f"{number:.8g}" for number in numbers if _n_digits(number) >= 8]
    return np.isin([f"{value:.8g}" for value in known], fine)


def _n_digits(number: float) -> int:
    return len(f"{number:.12g}".lstrip("-0.").replace(".", ""))


def _numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in _numbers_in(part)]
    return [value] if isinstance(value, float) else []
