"""Hostile npz, csv and parquet files, of records and of predictions."""

from __future__ import annotations

import io
import math
import zipfile
from random import Random
from typing import Any

import numpy as np
import polars as pl

from tests.fuzz.mutate import NUMBERS, TEXTS, spoiled_bytes

_RECORD_ARRAYS = ("features", "x", "labels", "y", "ids", "group")
_PREDICTION_ARRAYS = ("logits", "probabilities", "labels", "ids", "is_member", "members", "group",
                      "reference_logits", "reference_probabilities", "reference_members")  # fmt: skip
_CELLS = ("0", "1", "2", "0.5", "1e400", "-0", "nan", "inf", "NA", "", "true", "False", "a", "é", "\x00", '"',
          '""', "99999999999999999999", "1e-400", "2020-01-01", "1,5", "a\nb", "𝒳", "=1+1", "../x",
          "x" * 3000)  # fmt: skip
_DTYPES = ("f4", "f8", "f2", "i8", "i4", "u1", "u8", "?", "U3", "S3", "c8", "M8[s]", "V4", "f16", "i8, f4",
           "O", "U0", "V0", ">f4", "S1000000", "U100000000", "(3,)f4", "m8[D]")  # fmt: skip

_COLUMN_KINDS: tuple[Any, ...] = (
    pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.Float32, pl.UInt64, pl.Int8, pl.Boolean, pl.String,
    pl.Int128, pl.Date, pl.Duration, pl.Categorical, pl.Binary, pl.Decimal(10, 2), pl.Null, pl.Time,
    pl.List(pl.Int64), pl.Array(pl.Float32, 2), pl.Struct({"a": pl.Int8}),
)  # fmt: skip


def _array(rng: Random, n: int) -> Any:
    """An array of any kind, most often with `n` rows."""
    rows = rng.choice((n, n, n, n + 1, 0, 1))
    shape = rng.choice(((rows,), (rows,), (rows, 3), (rows, 1), (), (2, rows, 3), (rows, 0), (rows, 1, 4, 4)))
    dtype = np.dtype(rng.choice(("f4", "f8", "i8", "u1", "?", "U3", "S3", "f2", "c8", "M8[s]", "u8", "f16")))
    count = int(np.prod(shape))
    if dtype.kind in "US":
        texts = [rng.choice(TEXTS)[:3] for _ in range(count)]
        if dtype.kind == "S":
            return np.array([t.encode("utf-8", "surrogatepass")[:3] for t in texts], dtype=dtype).reshape(
                shape
            )
        return np.array(texts, dtype=dtype).reshape(shape)
    raw = np.frombuffer(rng.randbytes(count * dtype.itemsize), dtype=dtype)
    kind = rng.randrange(3)
    if kind == 0 or dtype.kind in "cM":
        return raw.reshape(shape)
    small = np.array([rng.choice((0, 1, 2)) for _ in range(count)])
    return (small if kind == 1 else small / 2).astype(dtype).reshape(shape)


def _npy(rng: Random, array: Any) -> bytes:
    """The array as numpy writes it, or with a header of our own."""
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    content = out.getvalue()
    if rng.random() < 0.9:
        return content
    shape = tuple(rng.choice(NUMBERS) for _ in range(rng.randrange(4))) if rng.random() < 0.7 else array.shape
    descr: Any = rng.choice(_DTYPES) if rng.random() < 0.5 else array.dtype.str
    header = f"{{'descr': {descr!r}, 'fortran_order': {rng.choice((True, False, 3))}, 'shape': {shape!r}, }}"
    if rng.random() < 0.2:
        header = rng.choice(
            ("(" * 3000, "{", "'''", "lambda: 1", header[:-3], header + "\n x", "10L", "\t1\n  2")
        )
    version = rng.choice(((1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
    size = rng.choice((len(header), len(header), 2**16 - 1)).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + header.encode() + content[-array.nbytes :]


def npz_file(rng: Random, names: tuple[str, ...]) -> bytes:
    n, out = rng.choice((1, 6, 6, 6)), io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((0, 8, 8, 12, 14))) as archive:
        for name in names:
            if rng.random() < 0.8:
                tricks = (name, f"../{name}.npy", f"/{name}.npy", f"{name}.npy/")
                stored = f"{name}.npy" if rng.random() < 0.95 else rng.choice(tricks)
                array = _usual(rng, name, n) if rng.random() < 0.8 else _array(rng, n)
                content = _npy(rng, array) if rng.random() < 0.98 else b"no array"
                archive.writestr(stored, content)
    return out.getvalue() if rng.random() < 0.8 else spoiled_bytes(rng, out.getvalue())


def _usual(rng: Random, name: str, n: int) -> Any:
    """What a file has under this name when nobody means harm, though perhaps of an odd type."""
    classes = np.array([rng.randrange(3) for _ in range(n)])
    if name in ("labels", "y", "is_member", "members", "reference_members"):
        values = classes if name in ("labels", "y") else classes % 2
        values = np.stack([values, 1 - values]) if name == "reference_members" else values
        return values.astype(rng.choice(("i8", "f4", "u1", "U3", "?", "f2", ">i4")))
    if name in ("ids", "group"):
        return np.array([f"{name[0]}{i if name == 'ids' else i % 2}" for i in range(n)])
    shape = (2, n, 3) if name.startswith("reference") else (n, 3)
    values = np.array([rng.random() for _ in range(math.prod(shape))]).reshape(shape)
    if name.endswith("probabilities"):
        values /= values.sum(axis=-1, keepdims=True)
    return values.astype(rng.choice(("f4", "f8", "f8", "f4"))) * rng.choice((1, 1, 1, 1e30))


def csv_file(rng: Random, columns: tuple[str, ...]) -> bytes:
    names = [c for c in columns if rng.random() < 0.85] or ["label"]
    rng.shuffle(names)
    names += [rng.choice(TEXTS) for _ in range(rng.choice((0, 0, 1)))]
    plain = {"label": ("0", "1"), "is_member": ("0", "1", "true"), "prob_0": ("0.25",), "prob_1": ("0.75",)}
    odd = (("0", "1"), ("0", "1", "2"), ("0.25", "0.75"), ("a", "b"), _CELLS)
    oddness = rng.choice((0.1, 0.5, 1.0))
    kinds = [rng.choice(odd) if rng.random() < oddness else plain.get(name, ("0.5", "7")) for name in names]
    rows = [[rng.choice(kind) for kind in kinds] for _ in range(rng.choice((0, 1, 4, 8)))]
    mark = rng.choice((",",) * 8 + (";", "\t"))
    text = "\n".join(mark.join(row) for row in [names, *rows])
    content = text.encode(rng.choice(("utf-8",) * 8 + ("utf-16", "latin-1")), "replace")
    return content if rng.random() < 0.7 else spoiled_bytes(rng, content)


def _series(rng: Random, name: str, n: int) -> pl.Series:
    numbers = [rng.choice((0, 1, 2)) for _ in range(n)]
    kind = rng.choice(_COLUMN_KINDS)
    values: list[Any] = numbers
    if kind in (pl.String, pl.Categorical):
        values = [rng.choice(TEXTS[:8]) for _ in range(n)]
    elif kind == pl.Binary:
        values = [rng.randbytes(2) for _ in range(n)]
    elif kind == pl.Null:
        values = [None] * n
    elif isinstance(kind, (pl.List, pl.Array)):
        values = [[v, v] for v in numbers]
    elif isinstance(kind, pl.Struct):
        values = [{"a": v} for v in numbers]
    elif kind in (pl.Float32, pl.Float64):
        values = [rng.choice((0.25, 0.75, float("nan"), float("inf"), 1e300, 0.5)) for _ in range(n)]
    series = pl.Series(
        name, values, dtype=pl.Int64 if kind in (pl.Date, pl.Time, pl.Duration) else kind, strict=False
    )
    series = series.cast(kind)
    if rng.random() < 0.15:
        series = pl.Series(name, [None if rng.random() < 0.3 else v for v in series.to_list()], dtype=kind)
    return series


def parquet_file(rng: Random, columns: tuple[str, ...]) -> bytes:
    n, oddness = rng.choice((0, 1, 6, 6, 6, 6)), rng.choice((0.0, 0.1, 0.5))
    names = [c for c in columns if rng.random() < 0.95] or ["label"]
    series = [
        _series(rng, name, n) if rng.random() < oddness else _plain_series(rng, name, n) for name in names
    ]
    out = io.BytesIO()
    pl.DataFrame(series).write_parquet(
        out, compression=rng.choice(("zstd", "snappy", "uncompressed", "gzip", "lz4")),
        row_group_size=rng.choice((None, 2)), data_page_size=rng.choice((None, 16)),
    )  # fmt: skip
    return out.getvalue() if rng.random() < 0.4 else spoiled_bytes(rng, out.getvalue())


def _plain_series(rng: Random, name: str, n: int) -> pl.Series:
    """What a table has under this name when nobody means harm."""
    if name in ("label", "is_member"):
        return pl.Series(name, [i % 2 for i in range(n)], dtype=rng.choice((pl.Int64, pl.Float64, pl.Int8)))
    if name in ("id", "group"):
        texts = [f"é{i if name == 'id' else i % 2}" for i in range(n)]
        return pl.Series(name, texts, dtype=rng.choice((pl.String, pl.Categorical)))
    share = {"prob_0": 0.25, "prob_1": 0.75}.get(name)
    values = [rng.random() if share is None else share for _ in range(n)]
    return pl.Series(name, values, dtype=rng.choice((pl.Float32, pl.Float64)))


def spoiled_table(rng: Random, content: bytes) -> bytes:
    """A parquet file that can be read, of other columns, types or rows than it should have."""
    try:
        frame = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # spoiled before
        return content
    for name in [name for name in frame.columns if rng.random() < 0.3]:
        kind = rng.randrange(4)
        if kind == 0:
            frame = frame.drop(name)
        elif kind == 1:
            frame = frame.with_columns(_series(rng, name, frame.height))
        elif kind == 2:
            frame = frame.with_columns(
                pl.when(pl.lit(rng.random() < 0.5)).then(None).otherwise(name).alias(name)
            )
        else:
            frame = frame.rename({name: rng.choice(TEXTS[:8])}, strict=False) if frame.width == 1 else frame
    if rng.random() < 0.3:
        frame = rng.choice((frame.head(rng.randrange(3)), pl.concat([frame, frame]), frame.reverse()))
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


RECORD_COLUMNS = ("label", "id", "group", "a", "b")
PREDICTION_COLUMNS = ("label", "id", "is_member", "logit_0", "logit_1", "prob_0", "prob_1", "group")


def record_npz(rng: Random) -> bytes:
    return npz_file(rng, _RECORD_ARRAYS)


def prediction_npz(rng: Random) -> bytes:
    one_kind = rng.choice(("probabilities", "logits"))
    names = (
        tuple(n for n in _PREDICTION_ARRAYS if one_kind not in n)
        if rng.random() < 0.9
        else _PREDICTION_ARRAYS
    )
    member = rng.choice(("members", "is_member"))
    return npz_file(rng, tuple(name for name in names if name != member) if rng.random() < 0.9 else names)


def prediction_columns(rng: Random) -> tuple[str, ...]:
    kind = rng.choice(("prob", "prob", "prob", "logit"))
    return tuple(c for c in PREDICTION_COLUMNS if not c.startswith(kind))
