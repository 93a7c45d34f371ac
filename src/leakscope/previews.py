"""What the most exposed records look like: `previews.npz`, small, kept at audit time.

A run folder keeps no features, yet a report is rebuilt from the folder alone, and a person who is told that
a record is exposed wants to see it. So the audit keeps, of the most exposed records only, a thumbnail where
features are pictures, or the fields that set the record apart from the others where they are a table. A
redacted audit keeps none.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.bank.storage import write_bytes
from leakscope.errors import InputError
from leakscope.types import AnyArray, FloatArray, IntArray, Records

PREVIEWS = "previews.npz"
MOST_PREVIEWS = 200
_MOST_PIXELS = 32
_MOST_FIELDS = 6
_MOST_CHARACTERS = 60


@dataclass(frozen=True, eq=False)
class Previews:
    """Some records as a person can recognise them.

    Attributes:
        records: int64 (previews,), which records.
        pictures: uint8 (previews, height, width, channels), 1 or 3 channels; empty where there are none.
        fields: str (previews,), what sets the record apart; empty where features are pictures.
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
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
                return cls(stored["records"], stored["pictures"], stored["fields"])
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} cannot be read ({error}); remove it, and reports do without") from error


def previews_of(records: Records, which: IntArray) -> Previews:
    """Thumbnails, or the telling fields, of the records at `which`."""
    if records.features.ndim >= 3 or records.picture_shape is not None:
        return Previews(which, thumbnails(records, which), np.zeros(0, dtype=np.str_))
    return Previews(which, np.zeros((0, 0, 0, 1), dtype=np.uint8), telling_fields(records, which))


def joined_previews(folders: Sequence[Path]) -> Previews | None:
    """The previews of several runs of the same records as one; None where there are none."""
    found = [previews for previews in map(Previews.read, folders) if previews is not None]
    if not found:
        return None
    records, first = np.unique(np.concatenate([one.records for one in found]), return_index=True)
    pictures = np.concatenate([one.pictures for one in found])
    fields = np.concatenate([one.fields for one in found])
    return Previews(
        records,
        pictures[first] if len(pictures) else pictures,
        fields[first] if len(fields) else fields,
    )


def thumbnails(records: Records, which: IntArray) -> npt.NDArray[np.uint8]:
    """Pictures of at most 32 x 32 pixels; uint8 (which, height, width, 1 or 3)."""
    shape = records.picture_shape or records.features.shape[1:]
    pictures = records.features[which].reshape(len(which), *(shape if len(shape) == 3 else (1, *shape[-2:])))
    step = max(1, -(-max(pictures.shape[2:]) // _MOST_PIXELS))
    small = pictures[:, : 3 if pictures.shape[1] >= 3 else 1, ::step, ::step]
    if small.dtype != np.uint8:
        low, high = float(small.min(initial=0.0)), float(small.max(initial=0.0))
        small = np.rint((small - low) * (255 / (high - low if high > low else 1.0))).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(small, 1, 3))


def telling_fields(records: Records, which: IntArray) -> npt.NDArray[np.str_]:
    """The features in which a record lies furthest from the mean, in standard deviations; str (which,)."""
    names = records.feature_names or tuple(f"feature {k}" for k in range(records.features.shape[1]))
    values = records.features.astype(np.float64)
    spread = values.std(axis=0)
    scores = (values[which] - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.array([_fields_in_words(names, row) for row in scores], dtype=np.str_)


def _fields_in_words(names: Sequence[str], scores: FloatArray) -> str:
    """ "age +2.1 sd, city=Paris": a category that a record does not have says little, and is passed over."""
    furthest = np.argsort(-np.abs(scores), kind="stable")
    told = [k for k in furthest.tolist() if scores[k] > 0 or "=" not in names[k]][:_MOST_FIELDS]
    shown = {k: names[k][:_MOST_CHARACTERS] for k in told}
    return ", ".join(shown[k] if "=" in names[k] else f"{shown[k]} {scores[k]:+.1f} sd" for k in told)


def exposure_order(advantage: AnyArray | None, bits: AnyArray | None, n_records: int) -> IntArray:
    """Records by advantage, then by bits, the most exposed first; undefined ones last; int64 (records,)."""
    keys = [np.arange(n_records)]
    keys += [-np.nan_to_num(key, nan=-np.inf) for key in (bits, advantage) if key is not None]
    return np.lexsort(keys)
