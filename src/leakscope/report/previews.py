"""What the most exposed records look like: `previews.npz`, small, stored by the audit.

A run folder has no features, yet a report is rebuilt from the folder alone, and a reader wants to see which
records are exposed. So the audit stores, for the most exposed records only, a thumbnail where features are
pictures, the most distinctive fields where they are a table, or the beginning of a document. A redacted audit
stores none.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.data.npz_file import as_text, read_arrays
from leakscope.data.standardise import column_moments
from leakscope.disk.mmap_rows import take_rows
from leakscope.disk.storage import write_bytes
from leakscope.errors import InputError
from leakscope.types import Records

PREVIEWS = "previews.npz"
MOST_PREVIEWS = 200
_MOST_PIXELS = 32
_MOST_FIELDS = 6
_MOST_CHARACTERS = 60
_MOST_OF_TEXT = 240
_MOST_BYTES = 1 << 28  # unpacked; hundreds of times what one run keeps


@dataclass(frozen=True, eq=False)
class Previews:
    """Some records in a form that people recognize.

    Attributes:
        records: int64 (previews,), indices of the records.
        pictures: uint8 (previews, height, width, channels), 1 or 3 channels; empty where there are none.
        fields: str (previews,), the most distinctive fields, or the beginning of a document; empty where
            features are pictures.
    """

    records: IntArray
    pictures: npt.NDArray[np.uint8]
    fields: npt.NDArray[np.str_]

    def write(self, folder: Path) -> None:
        """Writes previews.npz."""
        content = io.BytesIO()
        np.savez_compressed(content, records=self.records, pictures=self.pictures, fields=self.fields)
        write_bytes(folder / PREVIEWS, content.getvalue())

    @classmethod
    def read(cls, folder: Path) -> Previews | None:
        """The previews of a run folder; None where it has none."""
        path = folder / PREVIEWS
        if not path.exists():
            return None
        try:
            stored = read_arrays(path, _MOST_BYTES)
            previews = cls(stored["records"], stored["pictures"], stored["fields"])
            previews._check()
            as_text("fields", previews.fields)
        except (InputError, OSError, KeyError, ValueError) as error:
            raise InputError(
                f"{path} cannot be read ({error}); remove it to write reports without previews"
            ) from error
        return previews

    def _check(self) -> None:
        """Raises ValueError unless these are arrays that `write` writes."""
        n, forms = len(self.records), (self.records.ndim, self.pictures.ndim, self.fields.ndim)
        kinds = str(self.records.dtype), str(self.pictures.dtype), self.fields.dtype.kind
        if forms != (1, 4, 1) or kinds != ("int64", "uint8", "U"):
            raise ValueError("its arrays are not those of previews")
        if not {len(self.pictures), len(self.fields)} <= {0, n} or self.pictures.shape[3] not in (1, 3):
            raise ValueError(f"it has {len(self.pictures)} pictures and {len(self.fields)} texts of {n}")


def previews_of(records: Records, which: IntArray) -> Previews:
    """Thumbnails, the distinctive fields or the first words of the records at `which`."""
    no_pictures = np.zeros((0, 0, 0, 1), dtype=np.uint8)
    if records.is_text:
        return Previews(which, no_pictures, first_words(records, which))
    if records.features.ndim >= 3 or records.picture_shape is not None:
        return Previews(which, thumbnails(records, which), np.zeros(0, dtype=np.str_))
    return Previews(which, no_pictures, distinctive_fields(records, which))


def joined_previews(folders: Sequence[Path]) -> Previews | None:
    """The previews of several runs of the same records as one; None where there are none."""
    parts = [previews for previews in map(Previews.read, folders) if previews is not None]
    if not parts:
        return None
    records, first = np.unique(np.concatenate([one.records for one in parts]), return_index=True)
    pictures = np.concatenate([one.pictures for one in parts])
    fields = np.concatenate([one.fields for one in parts])
    return Previews(
        records,
        pictures[first] if len(pictures) else pictures,
        fields[first] if len(fields) else fields,
    )


def thumbnails(records: Records, which: IntArray) -> npt.NDArray[np.uint8]:
    """Pictures of at most 32 x 32 pixels; uint8 (which, height, width, 1 or 3)."""
    shape = records.picture_shape or records.features.shape[1:]
    pictures = take_rows(records.features, which)
    pictures = pictures.reshape(len(which), *(shape if len(shape) == 3 else (1, *shape[-2:])))
    step = max(1, -(-max(pictures.shape[2:]) // _MOST_PIXELS))
    small = pictures[:, : 3 if pictures.shape[1] >= 3 else 1, ::step, ::step]
    if small.dtype != np.uint8:
        low, high = float(small.min(initial=0.0)), float(small.max(initial=0.0))
        small = np.rint((small - low) * (255 / (high - low if high > low else 1.0))).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(small, 1, 3))


def distinctive_fields(records: Records, which: IntArray) -> npt.NDArray[np.str_]:
    """The features in which a record lies furthest from the mean, in standard deviations; str (which,)."""
    names = records.feature_names or tuple(f"feature {k}" for k in range(records.features.shape[1]))
    of_column = column_moments(records.features)
    scores = (take_rows(records.features, which).astype(np.float64) - of_column.mean) / of_column.spread
    return np.array([_fields_text(names, row) for row in scores], dtype=np.str_)


def first_words(records: Records, which: IntArray) -> npt.NDArray[np.str_]:
    """The beginning of each document on one line; its first tokens where texts are unknown; str (which,)."""
    if records.text is None:
        rows = take_rows(records.features, which)
        texts = ["tokens " + " ".join(map(str, row[row >= 0][: _MOST_OF_TEXT // 6])) for row in rows]
        return np.array(texts, dtype=np.str_)
    documents = (" ".join(records.text.documents[i].split()) for i in which.tolist())
    return np.array([_shortened(text) for text in documents], dtype=np.str_)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_OF_TEXT else f"{text[: _MOST_OF_TEXT - 1]}…"


def _fields_text(names: Sequence[str], scores: FloatArray) -> str:
    """ "age +2.1 sd, city=Paris"; skips absent categories, and means that stand for missing numbers."""
    furthest = np.argsort(-np.abs(scores), kind="stable").tolist()
    stated = {names[k] for k in furthest if scores[k] > 0 and "=" in names[k]}
    fields = [
        k for k in furthest if names[k] in stated or not ("=" in names[k] or f"{names[k]}=missing" in stated)
    ]
    return ", ".join(_field_text(names[k], scores[k]) for k in fields[:_MOST_FIELDS])


def _field_text(name: str, score: float) -> str:
    short = name[:_MOST_CHARACTERS]
    return short if "=" in name else f"{short} {score:+z.1f} sd"


def exposure_order(
    advantage: AnyArray | None, bits: AnyArray | None, n_records: int, most: int | None = None
) -> IntArray:
    """Indices of the `most` exposed records (None: all), by advantage, then by bits; undefined ones last."""
    keys = [key for key in (advantage, bits) if key is not None]
    candidates = np.arange(n_records)
    if keys and most is not None and most < n_records:  # sort only those that can be among the first
        first = np.nan_to_num(keys[0], nan=-np.inf)
        candidates = np.flatnonzero(first >= np.partition(first, n_records - most)[n_records - most])
    falling = [-np.nan_to_num(key[candidates], nan=-np.inf) for key in keys]
    order: IntArray = candidates[np.lexsort([candidates, *falling[::-1]])]
    return order[:most]
