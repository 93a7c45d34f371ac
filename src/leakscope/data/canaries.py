"""Canaries: records that are easier to recognize than any real one, planted among the others.

A figure over a whole population is an average: a defence can lower it and leave the records that stand out
as exposed as before. A canary stands out by construction. What an attack achieves on canaries is close to
what it achieves on the most unusual person whom the next training set may contain (docs/canaries.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.mmap_rows import is_mapped, row_blocks, take_rows
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator
from leakscope.types import Records

Kind = Literal["mislabelled", "duplicated", "out_of_distribution", "secrets"]
_COPIED = ("duplicated", "secrets")
_DEFAULT_SHARE, _DEFAULT_COPIES = 0.01, 4
_LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class Canaries:
    """Which canaries to plant, and how many.

    Canaries replace records that are chosen at random, and keep their ids. Like all records,
    each is a member of half of the models.

    Attributes:
        kind: "mislabelled": the label is another class, drawn at random (of a regression: the label of
            another record). "duplicated": mislabelled, and each model that is trained on the canary sees it
            `copies` times per epoch. "out_of_distribution": features are uniform noise within the range of
            each feature (of images: of all pixels), and the label is drawn at random. "secrets": a code of
            six random digits stands in front of the document; only for plain text.
        share: share of the records that become canaries; 0.01 where neither share nor number is given.
        number: number of canaries.
        copies: how often a model that is trained on a canary sees it in an epoch: 4 by default if it is
            duplicated, once if it is a secret.
        seed: decides which records become canaries, and what they become; by default the seed of the run.
            Audits that are to be merged need the same canaries, and so the same seed here.
    """

    kind: Kind = "mislabelled"
    share: float | None = None
    number: int | None = None
    copies: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        problems = _problems(self)
        if problems:
            raise InputError("canaries: " + "; ".join(problems))

    def planted(self, records: Records, run_seed: int) -> Records:
        """The records, some of which are canaries now.

        Raises:
            InputError: the records do not allow so many canaries, or none of this kind.
        """
        _refuse_text(records, self.kind)
        rng = generator(run_seed if self.seed is None else self.seed, 0, Purpose.CANARIES)
        chosen = np.sort(rng.choice(len(records), self._count(len(records)), replace=False))
        if self.kind == "secrets":
            return self._with_copies(_with_secrets(records, chosen, rng))
        labels, features = records.labels.copy(), records.features
        if self.kind == "out_of_distribution":
            features = _with_noise(records, chosen, rng)
            labels[chosen] = _any_label(records, len(chosen), rng)
        else:
            labels[chosen] = _other_labels(records, chosen, rng)
        is_canary = np.zeros(len(records), dtype=np.bool_)
        is_canary[chosen] = True
        return self._with_copies(replace(records, features=features, labels=labels, is_canary=is_canary))

    @property
    def n_copies(self) -> int:
        """How often a model that is trained on a canary sees it in an epoch."""
        return self.copies or (_DEFAULT_COPIES if self.kind == "duplicated" else 1)

    def _with_copies(self, records: Records) -> Records:
        assert records.is_canary is not None, "some were planted"
        copies = None if self.n_copies == 1 else np.where(records.is_canary, self.n_copies, 1)
        return replace(records, copies=copies)

    def describe(self, n_records: int) -> str:
        """How many of `n_records` records become which canaries, for a reader of the report."""
        what = self.kind.replace("_", " ")
        if self.kind == "duplicated":
            what = f"mislabelled and duplicated ({self.n_copies} copies each)"
        if self.kind == "secrets":
            what = "with a secret of six digits" + (f" ({self.n_copies} copies each)" if self.copies else "")
        return f"{self._count(n_records):,} of {n_records:,} records, {what}"

    def _count(self, n_records: int) -> int:
        share = _DEFAULT_SHARE if self.share is None else self.share
        number = max(1, round(share * n_records)) if self.number is None else self.number
        if number > _LARGEST_SHARE * n_records:
            raise InputError(
                f"canaries: {number:,} of {n_records:,} records would be canaries; plant at most half"
            )
        return number


def _problems(canaries: Canaries) -> list[str]:
    """Everything wrong with the settings, in words."""
    kinds, problems = get_args(Kind), []
    if canaries.kind not in kinds:
        problems.append(f"kind={canaries.kind!r}: choose one of {', '.join(kinds)}")
    if canaries.share is not None and canaries.number is not None:
        problems.append("give either `share` or `number`")
    share, number = canaries.share, canaries.number
    if share is not None and not (_is_number(share, float) and 0 < share <= _LARGEST_SHARE):
        problems.append(f"share={share!r}: must be above 0 and at most {_LARGEST_SHARE:g}, like 0.01")
    if number is not None and not (_is_number(number, int) and number > 0):
        problems.append(f"number={number!r}: must be a whole number above 0, like 50")
    if canaries.copies is not None and canaries.kind not in _COPIED:
        problems.append(
            f"copies={canaries.copies!r} would do nothing: it belongs to kind='duplicated' and 'secrets'"
        )
    elif canaries.copies is not None and not (_is_number(canaries.copies, int) and canaries.copies > 1):
        problems.append(f"copies={canaries.copies!r}: must be 2 or more")
    if canaries.seed is not None and not (_is_number(canaries.seed, int) and canaries.seed >= 0):
        problems.append(f"seed={canaries.seed!r}: must be 0 or more")
    return problems


def _is_number(value: object, kind: type[int] | type[float]) -> bool:
    types = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
    return isinstance(value, types) and not isinstance(value, bool)


def _refuse_text(records: Records, kind: Kind) -> None:
    """Raises where documents cannot become canaries of this kind, or only documents can."""
    if kind == "secrets":
        if not records.is_language or records.text is None:
            raise InputError("canaries: kind='secrets' is for plain text; choose another kind")
        if records.is_canary is not None:
            raise InputError("canaries: the documents have secrets already; leave [canaries] out")
    elif records.is_language:
        raise InputError(
            f"canaries: kind={kind!r} changes labels, and plain text has none; choose kind='secrets'"
        )
    elif records.is_text and kind == "out_of_distribution":
        raise InputError(
            "canaries: kind='out_of_distribution' changes features, and these are the tokens of documents; "
            "choose kind='mislabelled' or 'duplicated'"
        )


def _with_secrets(records: Records, chosen: IntArray, rng: np.random.Generator) -> Records:
    """The documents, with a secret in front of the chosen ones."""
    from leakscope.data.planted_secrets import with_secrets
    from leakscope.data.tokens import load_tokenizer

    assert records.text is not None, "it is checked"
    tokenizer = load_tokenizer(records.text.tokenizer.name)
    if tokenizer.facts.digest != records.text.tokenizer.digest:
        raise InputError(
            f"canaries: the tokenizer in {tokenizer.facts.name} is not the one that made the tokens; read "
            "the documents again"
        )
    return with_secrets(records, chosen, tokenizer, rng)


def _other_labels(records: Records, chosen: IntArray, rng: np.random.Generator) -> AnyArray:
    """A label for each chosen record that is not its own: any other class, or that of another record."""
    own = records.labels[chosen]
    if records.is_classification:
        shift = rng.integers(1, records.n_classes, len(chosen))
        return np.asarray((own + shift) % records.n_classes)
    if (records.labels == records.labels[0]).all():
        raise InputError("canaries: all labels are equal, so no record can be mislabelled")
    drawn = own.copy()
    while (same := drawn == own).any():
        drawn[same] = rng.choice(records.labels, int(same.sum()))
    return drawn


def _any_label(records: Records, number: int, rng: np.random.Generator) -> AnyArray:
    if records.is_classification:
        return rng.integers(0, records.n_classes, number)
    return rng.choice(records.labels, number)


def _with_noise(records: Records, chosen: IntArray, rng: np.random.Generator) -> AnyArray:
    """The features, with uniform noise in place of the chosen records'."""
    features = records.features
    if records.frame is not None:
        raise InputError(
            "canaries: kind='out_of_distribution' changes features, and this table goes to estimators as it "
            "is; choose kind='mislabelled' or 'duplicated', or set standardise = true in [data]"
        )
    if is_mapped(features):
        raise InputError(
            "canaries: kind='out_of_distribution' changes features, and these lie on disk because memory "
            "cannot hold them; choose kind='mislabelled' or 'duplicated'"
        )
    shape = (len(chosen), *features.shape[1:])
    if features.dtype == np.uint8:
        noise: AnyArray = rng.integers(0, 256, shape, dtype=np.uint8)
    else:
        low, high = _ranges(features)
        noise = (low + (high - low) * rng.random(shape, dtype=np.float32)).astype(np.float32)
    changed = take_rows(features, np.arange(len(features)))
    changed[chosen] = noise
    return changed


def _ranges(features: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Smallest and largest value of each feature; of float images (channels, height, width): of all."""
    axes = (0,) if features.ndim == 2 else tuple(range(features.ndim))
    blocks = [features[rows] for rows in row_blocks(features)]
    low = np.min([block.min(axis=axes) for block in blocks], axis=0)
    high = np.max([block.max(axis=axes) for block in blocks], axis=0)
    return low, high
