"""Checks a run folder against itself: checksums of every file, and every number from the signals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import leakscope
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.damage import file_damage
from leakscope.bank.manifest import MANIFEST
from leakscope.bank.results import figures_json, parse_results, results_json, version_of
from leakscope.bank.run_folder import NOT_OURS, RESULTS, RUN, SEAL, files_outside_banks, read_json
from leakscope.errors import CorruptBankError, InputError
from leakscope.runs.kinds import is_of_a_run, read_kind

_TOLERANCE = 1e-9
"""Relative; another BLAS may differ in the last bits."""


class Verification(NamedTuple):
    """What was checked, and what was found.

    Attributes:
        checked: what was checked.
        problems: what is wrong.
        undecided: what differs in undamaged files although nothing need be wrong, because another version
            of leakscope computed the results. The first entry says so.
    """

    checked: list[str]
    problems: list[str]
    undecided: tuple[str, ...] = ()


def verify_run(folder: Path) -> Verification:
    """Every bank's checksums and, if those hold, every number of results.json and every other file."""
    module, config = read_kind(folder)
    folders = sorted({path.parent for name in (IDENTITY, MANIFEST) for path in folder.rglob(name)})
    lost = [f"{path / IDENTITY}: is missing" for path in folders if not (path / IDENTITY).exists()]
    if lost:
        return Verification([], lost)
    banks = [Bank.open(path) for path in folders]
    problems = [f"{bank.folder / damage.file}: {damage.what}" for bank in banks for damage in bank.damage()]
    n_files = sum(len(bank.manifest.signals) + len(bank.manifest.files) for bank in banks)
    checked = [f"{n_files} files in {len(banks)} bank{'s' if len(banks) > 1 else ''}"] if banks else []
    if problems:
        return Verification(checked, problems)
    results = _verify_results(folder, module, config)
    others = _verify_files(folder)
    checked += [*others.checked, *results.checked]
    if results.undecided and not others.problems:
        return Verification(checked, [], (*results.undecided, *results.problems))
    # Where numbers differ, it goes without saying that the file does not match its checksum.
    own = [p for p in others.problems if not results.problems or not p.startswith(f"{folder / RESULTS}:")]
    return Verification(checked, [*results.problems, *own])


def _verify_files(folder: Path) -> Verification:
    """Every file outside the banks against the checksum it had when the run ended.

    Files that the user has put there are named, not checked.
    """
    try:
        checksums = read_json(folder / SEAL)
    except (InputError, CorruptBankError) as error:
        return Verification([], [str(error)])
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in checksums):
        return Verification([], [f"{folder / SEAL}: names files outside the run folder"])
    problems = [f"{folder / damage.file}: {damage.what}" for damage in file_damage(folder, checksums)]
    present = [path.relative_to(folder).as_posix() for path in files_outside_banks(folder)]
    unsealed = [name for name in present if name not in checksums]
    # A file whose checksum was taken out would otherwise never be compared again.
    problems += [f"{folder / name}: has no checksum in {SEAL}" for name in unsealed if is_of_a_run(name)]
    foreign = [name for name in unsealed if not is_of_a_run(name)]
    more = f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""
    left_out = f" (not checked: {', '.join(foreign[:5])}{more})" if foreign else ""
    return Verification([f"{len(checksums)} files of the run{left_out}"], problems)


def _verify_results(folder: Path, module: Any, config: dict[str, Any]) -> Verification:
    """Every number of results.json, computed again."""
    if not (folder / RESULTS).exists():
        return Verification([], [f"{folder / RESULTS}: is missing"])
    stored = read_json(folder / RESULTS)
    differing = _differing(stored.get("config"), config, ".config", RUN) if config else []
    if differing:
        return Verification([], [f"{folder / RESULTS}: {d}" for d in differing[:10]])
    try:
        results = parse_results(stored, module.RESULTS_TYPE, folder / RESULTS)
    except (InputError, CorruptBankError) as error:
        return Verification([], [f"{folder / RESULTS}: cannot be computed again: {error}"], _doubt(stored))
    try:
        recomputed = module.recompute(folder, results.config)
    except (InputError, CorruptBankError) as error:  # what the results were made from is gone or damaged
        return Verification([], [f"{folder / RESULTS}: cannot be computed again: {error}"])
    except NOT_OURS as error:  # a configuration or facts that no run of ours has written
        said = f"{type(error).__name__}: {error}"
        return Verification([], [f"{folder / RESULTS}: cannot be computed again ({said})"])
    differing = _differing(figures_json(results), figures_json(recomputed))
    checked = [f"{_n_numbers(results_json(recomputed)):,} numbers of {RESULTS}"]
    if not differing:
        return Verification(checked, [])
    return Verification([], [f"{folder / RESULTS}: {d}" for d in differing[:10]], _doubt(stored))


def _doubt(stored: dict[str, Any]) -> tuple[str, ...]:
    """Why results that differ may be right all the same; empty where this version computed them."""
    version, here = version_of(stored), leakscope.__version__
    if version == here:
        return ()
    made_by = f"leakscope {version}" if version else "an earlier version of leakscope"
    command = f"pip install leakscope=={version}" if version else "install it"
    return (
        f"{RESULTS} was computed by {made_by}, and this is {here}, so numbers may differ; "
        f"to check them, verify the run with the version that computed them ({command})",
    )


def _differing(stored: Any, fresh: Any, at: str = "", source: str = "the signals") -> list[str]:
    """Where the two differ; versions of packages are facts of the old run, not results."""
    if at.startswith(".runtime.") and isinstance(fresh, str):
        return []
    if isinstance(stored, dict) and isinstance(fresh, dict):
        keys = dict.fromkeys([*fresh, *stored])
        return [d for k in keys for d in _differing(stored.get(k), fresh.get(k), f"{at}.{k}", source)]
    if isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        return [
            d
            for i, (a, b) in enumerate(zip(stored, fresh, strict=True))
            for d in _differing(a, b, f"{at}[{i}]", source)
        ]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (stored, fresh))
    same = math.isclose(stored, fresh, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) if numbers else stored == fresh
    return [] if same else [f"{at[1:]} is {stored!r}, but {fresh!r} from {source}"]


def _n_numbers(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_n_numbers(v) for v in value.values())
    if isinstance(value, list):
        return sum(_n_numbers(v) for v in value)
    return int(isinstance(value, int | float) and not isinstance(value, bool))
