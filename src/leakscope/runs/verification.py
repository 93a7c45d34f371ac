"""Checks a run folder against itself: checksums of every file; numbers, tables and pages from the signals."""

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
from leakscope.report.phrases import counted
from leakscope.runs.kinds import is_of_a_run, read_kind
from leakscope.runs.notes import limits_applied, only_by_checksum
from leakscope.runs.rewritten import NOTHING, TOLERANCE, compare_rewritten
from leakscope.user_code import named_by_a_run


class Verification(NamedTuple):
    """What was checked, and what was found.

    Attributes:
        checked: what was checked.
        problems: what is wrong.
        undecided: what differs in undamaged files although nothing need be wrong, because another version
            of leakscope computed the results. The first entry says so.
        notes: what a reader must know of a run without problems: which gate was applied, and which files
            were compared with their checksums only.
    """

    checked: list[str]
    problems: list[str]
    undecided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Recomputed(NamedTuple):
    """The verification of results.json, and what was computed for it."""

    found: Verification
    results: Any = None
    again: Any = None


@named_by_a_run()
def verify_run(folder: Path) -> Verification:
    """Every bank's checksums and, if those hold, every number of results.json and every other file.

    If all of this holds, tables and pages of an audit are written again and compared.
    """
    module, config = read_kind(folder)
    folders = sorted({path.parent for name in (IDENTITY, MANIFEST) for path in folder.rglob(name)})
    lost = [f"{path / IDENTITY}: is missing" for path in folders if not (path / IDENTITY).exists()]
    if lost:
        return Verification([], lost)
    banks = [Bank.open(path) for path in folders]
    problems = [f"{bank.folder / damage.file}: {damage.what}" for bank in banks for damage in bank.damage()]
    n_files = sum(len(bank.manifest.signals) + len(bank.manifest.files) for bank in banks)
    checked = [f"{n_files} files in {counted(len(banks), 'bank')}"] if banks else []
    if problems:
        return Verification(checked, problems)
    results, stored, again = _verify_results(folder, module, config)
    others = _verify_files(folder)
    checked += [*others.checked, *results.checked]
    if results.undecided and not others.problems:
        return Verification(checked, [], (*results.undecided, *results.problems))
    # Where numbers differ, it goes without saying that the file does not match its checksum.
    own = [p for p in others.problems if not results.problems or not p.startswith(f"{folder / RESULTS}:")]
    problems = [*results.problems, *own]
    if problems or stored is None:
        return Verification(checked, problems)
    return _verify_rewritten(folder, stored, again, checked)


def _verify_rewritten(folder: Path, results: Any, again: Any, checked: list[str]) -> Verification:
    """What a run without problems so far has written from its results, written again."""
    doubt = _doubt(read_json(folder / RESULTS))
    try:
        found = NOTHING if again is None else compare_rewritten(folder, again, is_same_version=not doubt)
    except (InputError, CorruptBankError) as error:
        return Verification(checked, [str(error)])
    except NOT_OURS as error:  # previews or a key that no run of ours has written
        said = f"{type(error).__name__}: {error}"
        return Verification(checked, [f"{folder}: its pages cannot be written again ({said})"])
    if found.problems:
        undecided = (*doubt, *found.problems) if doubt else ()
        return Verification(checked, [] if doubt else found.problems, undecided)
    notes = (
        *([_words_not_compared(read_json(folder / RESULTS))] if doubt else []),
        *limits_applied(results),
        *only_by_checksum(folder, found.files, found.unlike),
    )
    return Verification([*checked, *found.same], [], notes=notes)


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


def _verify_results(folder: Path, module: Any, config: dict[str, Any]) -> _Recomputed:
    """Every number of results.json, computed again."""
    if not (folder / RESULTS).exists():
        return _Recomputed(Verification([], [f"{folder / RESULTS}: is missing"]))
    stored = read_json(folder / RESULTS)
    differing = _differing(stored.get("config"), config, ".config", RUN) if config else []
    if differing:
        return _Recomputed(Verification([], [f"{folder / RESULTS}: {d}" for d in differing[:10]]))
    try:
        results = parse_results(stored, module.RESULTS_TYPE, folder / RESULTS)
    except (InputError, CorruptBankError) as error:
        return _Recomputed(
            Verification([], [f"{folder / RESULTS}: cannot be computed again: {error}"], _doubt(stored))
        )
    try:
        again = module.recompute_all(folder, results.config) if hasattr(module, "recompute_all") else None
        recomputed = module.recompute(folder, results.config) if again is None else again.results
    except (InputError, CorruptBankError) as error:  # what the results were made from is gone or damaged
        return _Recomputed(Verification([], [f"{folder / RESULTS}: cannot be computed again: {error}"]))
    except NOT_OURS as error:  # a configuration or facts that no run of ours has written
        said = f"{type(error).__name__}: {error}"
        return _Recomputed(Verification([], [f"{folder / RESULTS}: cannot be computed again ({said})"]))
    # Another version may word a sentence differently; of this one, a sentence that differs was changed.
    compared = figures_json if _doubt(stored) else results_json
    differing = _differing(compared(results), compared(recomputed))
    checked = [f"{_n_numbers(results_json(recomputed)):,} numbers of {RESULTS}"]
    if not differing:
        return _Recomputed(Verification(checked, []), results, again)
    return _Recomputed(Verification([], [f"{folder / RESULTS}: {d}" for d in differing[:10]], _doubt(stored)))


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


def _words_not_compared(stored: dict[str, Any]) -> str:
    """Words are compared in runs of this version only, so the reader must know which one a run names."""
    version, here = version_of(stored) or "of an unknown version", leakscope.__version__
    return f"The run says that leakscope {version} made it, and this is {here}: sentences were not compared."


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
    same = math.isclose(stored, fresh, rel_tol=TOLERANCE, abs_tol=TOLERANCE) if numbers else stored == fresh
    return [] if same else [f"{at[1:]} is {stored!r}, but {fresh!r} from {source}"]


def _n_numbers(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_n_numbers(v) for v in value.values())
    if isinstance(value, list):
        return sum(_n_numbers(v) for v in value)
    return int(isinstance(value, int | float) and not isinstance(value, bool))
