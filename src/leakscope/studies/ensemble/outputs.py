"""outputs.npz: what the attack reads of the target, small enough to hand on.

The file holds the target's outputs on all records as float16, the labels, the ids, who is a member and who is
public, and how the target was trained. The study attacks what the file holds, so whoever has it gets the same
numbers without training anything: the target of the full case needs a GPU, the attack does not.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.array_types import BoolArray, IntArray
from leakscope.bank.run_folder import parse_as
from leakscope.data.npz_file import as_text, as_vector, check_lengths, read_arrays
from leakscope.data.predictions import Predictions
from leakscope.disk.storage import user_file, write_bytes
from leakscope.errors import InputError
from leakscope.studies.ensemble.config import EnsembleConfig

OUTPUTS = "outputs.npz"
"""The file in the run folder."""
_VECTORS = ("labels", "ids", "is_member", "is_public")
_ARRAYS = ("logits", *_VECTORS, "training")


@dataclass(frozen=True)
class Training:
    """How the target was trained.

    Attributes:
        config: what was run.
        versions: package -> version.
    """

    config: EnsembleConfig
    versions: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class TargetOutputs:
    """The target's outputs on all records.

    Attributes:
        logits: float16 (records, classes).
        labels: int64 (records,).
        ids: str (records,).
        is_member: bool (records,).
        is_public: bool (records,).
        training: how the target was trained.
    """

    logits: npt.NDArray[np.float16]
    labels: IntArray
    ids: npt.NDArray[np.str_]
    is_member: BoolArray
    is_public: BoolArray
    training: Training

    def public(self) -> Predictions:
        """What the attacker knows, with membership."""
        return self._predictions(self.is_public, "public", self.is_member[self.is_public])

    def private(self) -> Predictions:
        """What is to be scored, without membership."""
        return self._predictions(~self.is_public, "private", None)

    def whole(self) -> Predictions:
        """All records with membership, for figures that need the truth."""
        return self._predictions(np.ones(len(self.labels), dtype=np.bool_), "all", self.is_member)

    def _predictions(self, rows: BoolArray, name: str, is_member: BoolArray | None) -> Predictions:
        logits = self.logits[rows].astype(np.float32)
        return Predictions(logits, self.labels[rows], self.ids[rows], is_member, name=name)

    def write(self, path: Path) -> None:
        """Writes the file atomically; the same outputs give the same bytes."""
        content = io.BytesIO()
        training = {"config": asdict(self.training.config), "versions": dict(self.training.versions)}
        np.savez_compressed(
            content,
            logits=self.logits,
            labels=self.labels.astype(np.int16),
            ids=np.char.encode(self.ids, "utf-8"),
            is_member=self.is_member,
            is_public=self.is_public,
            training=np.frombuffer(json.dumps(training).encode(), dtype=np.uint8),
        )
        write_bytes(path, content.getvalue())


def read_outputs(path: Path) -> TargetOutputs:
    """The outputs of a file.

    Raises:
        InputError: names the file and what is wrong with it.
    """
    path = user_file(path, (".npz",))
    try:
        arrays = read_arrays(path)
        missing = [name for name in _ARRAYS if name not in arrays]
        if missing:
            raise InputError(f"has no array {missing[0]!r}; give the {OUTPUTS} of a run of this study")
        vectors = {
            name: as_vector(name, arrays[name]) for name in ("labels", "ids", "is_member", "is_public")
        }
        check_lengths({"logits": arrays["logits"], **vectors})
        content = json.loads(arrays["training"].tobytes())
        training = parse_as(Training, content, path, "record the target again")
    except (InputError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    return TargetOutputs(
        logits=arrays["logits"].astype(np.float16),
        labels=vectors["labels"].astype(np.int64),
        ids=as_text("ids", vectors["ids"]),
        is_member=vectors["is_member"].astype(np.bool_),
        is_public=vectors["is_public"].astype(np.bool_),
        training=training,
    )
