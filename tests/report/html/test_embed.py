"""Arrays inside a page: what goes in comes out, in the smallest type, and nothing can end its element."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.array_types import AnyArray
from leakscope.report.embed import Embedded, embedded, quantised


def content(found: Embedded) -> bytes:
    return zlib.decompress(base64.b64decode(found.content))


def read(found: Embedded) -> AnyArray:
    """What assets/page.js does, in Python."""
    shape = tuple(int(n) for n in found.shape.split(","))
    if found.kind == "text":
        return np.array(json.loads(content(found))).reshape(shape)
    values = np.frombuffer(content(found), np.dtype(found.kind).newbyteorder("<")).reshape(shape)
    if not found.step:
        return values
    missing = np.iinfo(values.dtype).max
    return np.where(values == missing, np.nan, found.low + found.step * values)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20))
def test_integers_come_back_exactly(numbers: list[int]) -> None:
    (found,) = embedded({"x": np.array(numbers)})
    assert read(found).tolist() == numbers


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([0, 255], "uint8"),
        ([-1, 127], "int8"),
        ([0, 256], "uint16"),
        ([-1, 40_000], "int32"),
        ([2**40], "float64"),
    ],
)
def test_integers_take_the_smallest_type(numbers: list[int], kind: str) -> None:
    assert embedded({"x": np.array(numbers)})[0].kind == kind


def test_shapes_floats_and_flags_are_kept() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4))
    floats, flags = embedded({"x": values, "y": values > 0})
    np.testing.assert_allclose(read(floats), values, rtol=1e-6)
    assert flags.kind == "uint8" and read(flags).tolist() == (values > 0).astype(int).tolist()


@given(
    st.lists(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=30), min_size=1, max_size=5)
)
def test_texts_come_back_and_hold_no_tag(texts: list[str]) -> None:
    texts = [text.rstrip("\0") for text in texts]  # numpy's strings end there
    (found,) = embedded({"x": np.array(texts)})
    assert json.loads(content(found)) == texts
    assert not set(found.content) & set("<>&\"'")


@pytest.mark.parametrize("bits", [8, 16])
@given(numbers=st.lists(st.floats(-2, 3) | st.just(float("nan")), min_size=1, max_size=30))
def test_quantised_numbers_are_half_a_step_off_at_most(bits: int, numbers: list[float]) -> None:
    (found,) = embedded({"x": quantised(np.array(numbers), -2, 3, bits)})
    half_a_step = 5 / (2**bits - 2) / 2
    np.testing.assert_allclose(read(found), numbers, atol=half_a_step * (1 + 1e-9), equal_nan=True)


def test_quantised_numbers_beyond_the_range_are_cut_and_a_single_value_is_kept() -> None:
    (cut,) = embedded({"x": quantised(np.array([-9.0, 9.0]), 0, 1)})
    assert read(cut).tolist() == pytest.approx([0, 1])
    (same,) = embedded({"x": quantised(np.array([4.0, 4.0]), 4, 4)})
    assert read(same).tolist() == [4, 4]
