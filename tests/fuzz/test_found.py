"""Every crash that fuzzing found: each of these once ended in a traceback, or a warning on the screen."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from leakscope.audits.config import read_config
from leakscope.bank.bank import Bank
from leakscope.bank.merge import plan_merge, write_merge
from leakscope.compare.compare import compare
from leakscope.compare.records import changed_records
from leakscope.data.files import read_table
from leakscope.data.predictions import read_predictions
from leakscope.disclosure import KEY, shown_ids
from leakscope.disk.npy import ArrayFileError, PickledArrayError, load_array, map_array
from leakscope.disk.storage import confined_to, write_bytes
from leakscope.errors import CorruptBankError, InputError, LeakscopeError, StorageError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.models.weights import read_state
from leakscope.report.previews import PREVIEWS, Previews
from leakscope.runs.rebuild import REBUILD, rebuild_report
from leakscope.runs.verification import verify_run
from tests.fuzz.documents import reseal
from tests.fuzz.runs import answers_into, template, template_of

FEATURES = np.arange(8.0).reshape(4, 2)
LABELS = np.array([0, 1, 0, 1])


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + data


def npz(path: Path, compression: int = 0, **members: Any) -> Path:
    """Arrays as numpy saves them, bytes as they are."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, member in members.items():
            content = io.BytesIO()
            if not isinstance(member, bytes):
                np.save(content, member)
            archive.writestr(f"{name}.npy", member if isinstance(member, bytes) else content.getvalue())
    return path


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000000000000, 0), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2), }",
        "{'descr': '<U100000000', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '(3,)f4', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': 'no', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4L,), }",
        "(" * 3000,
        "'''",
        "\t1\n  2",
        "{",
        "",
    ],
)
def test_headers_that_lie_or_make_no_sense(tmp_path: Path, header: str) -> None:
    for version in (1, 2, 3):
        (tmp_path / "x.npy").write_bytes(npy(header, bytes(64), version))
        for read in (load_array, map_array):
            with pytest.raises(ArrayFileError):
                read(tmp_path / "x.npy")
        with pytest.raises(InputError, match=r"features\.npy"):
            read_table(npz(tmp_path / "x.npz", features=npy(header, bytes(64), version), labels=LABELS))


def test_our_reader_agrees_with_numpys(tmp_path: Path) -> None:
    arrays = [FEATURES, np.asfortranarray(FEATURES), np.array(["a", "é"]), np.array(3),
              np.zeros((0, 2), bool), LABELS.astype(">i4"),
              np.array([b"x", b"yz"]), np.zeros((2, 0, 3), np.float16)]  # fmt: skip
    for array in arrays:
        np.save(tmp_path / "x.npy", array)
        for found in (load_array(tmp_path / "x.npy"), map_array(tmp_path / "x.npy")):
            np.testing.assert_array_equal(found, array)
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes() + b"more")
    with pytest.raises(ArrayFileError):
        load_array(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(PickledArrayError):
        load_array(tmp_path / "x.npy")
    with pytest.raises(ArrayFileError, match="cannot be read"):
        load_array(tmp_path)


def test_a_bomb_is_measured_before_it_is_unpacked(tmp_path: Path) -> None:
    """An archive that says it unpacks to more than the machine has; a lie here, but it could be true."""
    path = npz(tmp_path / "x.npz", features=FEATURES, labels=LABELS)
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02") + 24  # the directory's uncompressed size
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    with pytest.raises(InputError):
        read_table(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("leakscope.data.npz_file.machine_memory", lambda: 2**30)
        with pytest.raises(
            InputError, match=r"unpacks to 4\.0 GiB, there is room for 1\.0; give fewer records"
        ):
            read_table(path)


def test_damaged_packing_of_every_kind(tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = npz(tmp_path / "x.npz", compression, features=FEATURES, labels=LABELS)
        content = path.read_bytes()
        for at in range(40, 130, 7):
            path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
            try:
                read_table(path)
            except InputError:
                continue


def test_text_that_is_not_text(tmp_path: Path) -> None:
    for ids in (np.array([b"\xff", b"a", b"b", b"c"]), np.array(["\ud800", "a", "b", "c"])):
        with pytest.raises(InputError, match="array 'ids' holds text that is not Unicode"):
            read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=LABELS, ids=ids))
    beyond = np.array([0x110000, 1, 2, 3], dtype="<u4").tobytes()
    header = "{'descr': '<U1', 'fortran_order': False, 'shape': (4,), }"
    with pytest.raises(InputError, match="not Unicode"):
        read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=LABELS, ids=npy(header, beyond)))


def test_labels_that_no_integer_holds(tmp_path: Path) -> None:
    for labels in (
        np.array([1e300, 0, 1, 1]),
        np.array([0, 1, 2, 60000], "f2"),
        np.array([2**63, 0, 1, 1], "u8"),
    ):
        read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=labels), task="classification")
        with pytest.raises(InputError, match=r"label is outside 0\.\.1"):
            read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=labels))
    with pytest.raises(InputError, match="label 'labels' is NaN, infinite or too large"):
        read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=np.array([1e300, 0.5, 1, 2])))
    with pytest.raises(InputError, match="must be class indices"):
        read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=np.array([np.inf, 0, 1, 1])))


def test_features_without_a_number_and_members_of_bytes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no number"):
        read_table(npz(tmp_path / "x.npz", features=np.zeros((4, 0)), labels=LABELS))
    with pytest.raises(InputError, match=r"shadow_logits have shape \(0, 4, 2\)"):
        read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=LABELS,
                             shadow_logits=np.zeros((0, 4, 2)), shadow_members=np.zeros((0, 4))))  # fmt: skip
    members = np.array([[b"\xff"] * 4])
    with pytest.raises(InputError, match="shadow_members has type"):
        read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=LABELS, shadow_logits=FEATURES[None],
                             shadow_members=members))  # fmt: skip


@pytest.mark.parametrize("kind", [pl.Binary, pl.List(pl.Int64), pl.Struct({"a": pl.Int64})])
def test_columns_that_are_no_text(tmp_path: Path, kind: Any) -> None:
    values: dict[Any, Any] = {pl.Binary: b"\xff", pl.List(pl.Int64): [1]}
    column = pl.Series("g", [values.get(kind, {"a": 1})] * 4, dtype=kind)
    pl.DataFrame({"a": [1, 2, 3, 4], "label": [0, 1, 0, 1], "g": column}).write_parquet(
        tmp_path / "x.parquet"
    )
    for given in ({"group_columns": ["g"]}, {"id_column": "g"}, {}):
        try:
            read_table(tmp_path / "x.parquet", "label", **given)  # type: ignore[arg-type]
        except InputError as error:
            assert "'g'" in str(error)


def test_numbers_of_128_bits(tmp_path: Path) -> None:
    rows = [10**30, 1, 2, 3]
    pl.DataFrame({"a": pl.Series(rows, dtype=pl.Int128), "label": [0, 1, 0, 1]}).write_parquet(
        tmp_path / "x.parquet"
    )
    assert read_table(tmp_path / "x.parquet", "label").features[0, 0] == np.float32(1e30)


def test_rows_that_are_only_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"a": np.zeros(5000), "label": np.arange(5000) % 2}).write_parquet(tmp_path / "x.parquet")
    monkeypatch.setattr("leakscope.data.column_file.machine_memory", lambda: 4999)
    with pytest.raises(InputError, match="declares 5,000 rows of 2 columns, more than this machine's memory"):
        read_table(tmp_path / "x.parquet", "label")


def test_a_folder_that_polars_still_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads went on after it had refused a csv, and the temporary folder could not be removed."""
    (tmp_path / "x.csv").write_text('a,label\n1,0\n"')
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    removing = os.rmdir

    def rmdir(path: Any, **given: Any) -> None:
        (tmp_path / Path(path).name / "late").write_bytes(b"")
        removing(path, **given)

    monkeypatch.setattr(os, "rmdir", rmdir)
    with pytest.raises(InputError, match="cannot be read as csv"):
        read_table(tmp_path / "x.csv", "label")
    assert list(tmp_path.glob("*/late")), "nothing was in the way"


def test_messages_are_short_and_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"{'a' * 50_000};\x1b[2J\n1;2\n")
    with pytest.raises(InputError, match="separate the columns by commas") as refused:
        read_table(tmp_path / "x.csv", "label")
    assert len(str(refused.value)) < 2100
    assert str(InputError("a\x1b[2J \ud800\nb")) == "a\\x1b[2J \\ud800\nb"


def test_a_config_that_is_too_deep(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("a = " + "[" * 5000)
    with pytest.raises(InputError, match="too deep"):
        read_config(tmp_path / "x.toml")


@pytest.mark.parametrize("shape", [[0, 2**64], [0, 10**30], [1.5, 2], [-1, -2], ["a"], [[2]], None])
def test_shapes_in_safetensors(tmp_path: Path, shape: Any) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_state(tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors").write_bytes((10**5).to_bytes(8, "little") + b"[" * 10**5)
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_state(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "content", [b"\x80\x02.", b"\x80\x02}q\x00X", b"\x80\x02b.", b"\x80\x02\x8a\xff.", b"\x80\x02h\x07."]
)
def test_pickles_that_end_too_early(tmp_path: Path, content: bytes) -> None:
    whole = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, whole)
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            target.writestr(entry, content if entry.filename.endswith(".pkl") else source.read(entry))
    with pytest.raises(InputError):
        read_state(path)
    path.write_bytes(pickle.dumps({"w": 1})[:-3])
    with pytest.raises(InputError):
        read_state(path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(template(), tmp_path / "run"))


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"models": 3', '"models": 10000000000000'),
        ('"models": 3', '"models": "3"'),
        ('"models"', '"modles"'),
        ('"block_size": 1', '"block_size": [1, 1]'),
        ('"block_size": 1', '"block_size": 0'),
        ('"signals": [', '"signals": ["../../../../evil", '),
        ('"evaluated_epochs": [', '"evaluated_epochs": [null, '),
        ('"columns": 24', '"columns": 1e12'),
        ('"seed": 0', '"seed": NaN'),
        ('"seed": 0', '"seed": 1e999'),
        ('"seed": 0', '"seed": [[]]'),
        ('"seed": 0', '"seed": {}'),
        ('"seed": 0', '"seed": 0, "parts": [[]]'),
    ],
)
def test_identities_that_no_bank_has(run: Path, tmp_path: Path, old: str, new: str) -> None:
    """Also where the checksums were made to fit: a name in it must never become a path outside."""
    change(run / "identity.json", old, new)
    reseal(run)
    for use in (lambda: verify_run(run), lambda: Bank.open(run).signals(),
                lambda: write_merge(plan_merge([run, template()]), tmp_path / "merged")):  # fmt: skip
        with pytest.raises(CorruptBankError, match=r"identity\.json is damaged"):
            use()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"files": {', '"files": {"../../../x": "0", '),
        ('"diverged_models": {}', '"diverged_models": {"one": 1}'),
        ('"diverged_models": {}', '"diverged_models": {"99": 1}'),
        ('"signals": {', '"signals": {"../x": {"dtype": "<f4", "shape": [3, 1, 24], "sha256": ["0"]}, '),
        ('"dtype": "<f4"', '"dtype": "O"'),
        ('"dtype": "<f4"', '"dtype": "no"'),
        ('"shape": [\n        3,', '"shape": [\n        3000000000000,'),
    ],
)
def test_manifests_that_no_bank_has(run: Path, old: str, new: str) -> None:
    change(run / "manifest.json", old, new)
    reseal(run)
    for use in (lambda: verify_run(run), lambda: Bank.open(run).diverged):
        with pytest.raises(CorruptBankError, match=r"manifest\.json is damaged"):
            use()


@pytest.mark.parametrize("name", ["design.npy", "labels.npy", "signals/log_odds.npy"])
def test_arrays_that_are_others(run: Path, name: str) -> None:
    for array in (np.zeros(5), np.zeros((3, 7), bool), np.zeros((2, 1, 24), np.float32)):
        np.save(run / name, array)
        reseal(run)
        with pytest.raises(CorruptBankError, match=Path(name).name):
            Bank.open(run).design(), Bank.open(run).signals()
    (run / name).write_bytes(npy("'''"))
    with pytest.raises(CorruptBankError, match=Path(name).name):
        Bank.open(run).design(), Bank.open(run).signals()


@pytest.mark.parametrize(
    "name", ["run.json", "results.json", "identity.json", "manifest.json", "facts.parquet", "design.npy"]
)
def test_a_folder_where_a_file_should_be(run: Path, name: str) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    with contextlib.suppress(LeakscopeError):
        assert verify_run(run).problems
    with pytest.raises(LeakscopeError):
        answers_into(run)


def test_facts_of_other_columns_or_none(run: Path) -> None:
    whole = (run / "facts.parquet").read_bytes()
    frame = pl.read_parquet(run / "facts.parquet")
    frames = [frame.drop("id"), frame.drop("label"), frame.with_columns(id=pl.lit(3)),
              frame.with_columns(duplicate_of=pl.lit(10**9))]  # fmt: skip
    for spoiled in frames:
        spoiled.write_parquet(run / "facts.parquet")
        with pytest.raises(CorruptBankError, match=r"facts\.parquet is damaged"):
            RecordMetadata.read(run)
    (run / "facts.parquet").write_bytes(whole[:-9])
    (problem,) = verify_run(run).problems
    assert "facts.parquet is damaged" in problem


@pytest.mark.parametrize("spoiled", ['"attacks": 3', '"attacks": ["no"]', '"attacks": [[]]', '"oops": 1'])
def test_a_configuration_that_cannot_be_asked(run: Path, spoiled: str) -> None:
    results = json.loads((run / "results.json").read_text())
    key, value = next(iter(json.loads(f"{{{spoiled}}}").items()))
    results["config"] = {**{k: v for k, v in results["config"].items() if k != "attacks"}, key: value}
    (run / "results.json").write_text(json.dumps(results))
    (problem,) = verify_run(run).problems
    assert "cannot be computed again" in problem


def test_targets_that_are_none(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    results["config"]["targets"] = [[]]
    (run / "results.json").write_text(json.dumps(results))
    (problem,) = verify_run(run).problems
    assert "cannot be computed again" in problem


HUGE = """
import resource, sys
from pathlib import Path
import numpy, polars
from leakscope.errors import InputError
from leakscope.data.files import read_table
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**29,) * 2)
try:
    read_table(sys.argv[1])
except InputError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited as Linux does it")
def test_a_declared_size_takes_no_memory(tmp_path: Path) -> None:
    """Half a GiB is all there is; the header says 10^12 rows, then two GiB of them."""
    for rows in (10**12, 2**28):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}"
        path = npz(tmp_path / "x.npz", features=npy(header, bytes(80)), labels=LABELS)
        done = subprocess.run([sys.executable, "-c", HUGE, path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"says it holds float64 ({rows}, 1)" in done.stdout


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """A run of a kind, to spoil, with all that it refers to."""

    def copy(kind: str) -> Path:
        return Path(shutil.copytree(template_of(kind), tmp_path / kind)) / "run"

    return copy


def rewrite(run: Path, spoil: Callable[[Any], None]) -> None:
    results = json.loads((run / "results.json").read_text())
    spoil(results)
    (run / "results.json").write_text(json.dumps(results))


def test_no_figure_is_drawn_outside(copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of a study's runs, as its results.json has them, are those of the folders of its figures."""
    run = copied("scaling")

    def draw(folder: Path, results: Any, disclosure: Any) -> None:
        write_bytes(folder / "figures" / results["name"] / "x.png", b"")

    monkeypatch.setitem(REBUILD, "study scaling", draw)
    for name in ("x/../../../evil", str(run.parent / "evil"), ".."):
        rewrite(run, lambda results, name=name: results.update(name=name))
        if name == "..":
            rebuild_report(run)
            assert (run / "x.png").exists(), "where the name leads nowhere else"
            continue
        with pytest.raises(StorageError, match="would be written outside"):
            rebuild_report(run)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run"]


def test_nothing_is_written_through_a_link(copied: Callable[[str], Path], tmp_path: Path) -> None:
    run = copied("leakage")
    shutil.rmtree(run / "figures", ignore_errors=True)
    (tmp_path / "elsewhere").mkdir()
    (run / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        rebuild_report(run)
    with pytest.raises(StorageError, match="would be written outside"), confined_to(run):
        write_bytes(run / "figures" / "x.png", b"")
    assert not list((tmp_path / "elsewhere").iterdir())
    write_bytes(run / "figures" / "x.png", b"")  # nobody's confines
    assert list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("scaling", lambda results: results.clear()),
        ("leakage", lambda results: results["figures"].update({"2": []})),
        pytest.param(
            "compare", lambda results: results["comparisons"][0].update(leakage=[]), marks=pytest.mark.slow
        ),  # ended in StopIteration
        ("attack", lambda results: results["attackers"].update({"a" * 5000: {}})),  # a name no file can have
        ("attack", lambda results: results.update(chosen=None)),
    ],
)
def test_reports_of_results_that_no_run_writes(
    copied: Callable[[str], Path], kind: str, spoil: Callable[[Any], None]
) -> None:
    run = copied(kind)
    rewrite(run, spoil)
    with pytest.raises(CorruptBankError, match="holds what no run writes"):
        rebuild_report(run)


def test_comparisons_with_results_that_no_run_writes(copied: Callable[[str], Path], tmp_path: Path) -> None:
    run = copied("answers")
    rewrite(run, lambda results: results.pop("attacks"))
    for runs in ([run, template()], [template(), run]):
        with pytest.raises(CorruptBankError, match="holds what no run writes"):
            compare(runs, tmp_path / "compared")


def test_keys_that_hash_nothing(tmp_path: Path) -> None:
    """With an emptied key whoever has a redacted report could test a guess of an id."""
    ids = np.array(["a", "b"])
    first = shown_ids(tmp_path, ids, redacted=True)
    key = (tmp_path / KEY).read_bytes()
    for spoiled in (b"", key[:-1], key + b"x"):
        (tmp_path / KEY).write_bytes(spoiled)
        with pytest.raises(CorruptBankError, match=r"redaction\.key is damaged"):
            shown_ids(tmp_path, ids, redacted=True)
    (tmp_path / KEY).write_bytes(key)
    assert (shown_ids(tmp_path, ids, redacted=True) == first).all()
    (tmp_path / KEY).unlink()
    (tmp_path / KEY).mkdir()
    with pytest.raises(CorruptBankError, match=r"redaction\.key cannot be read"):
        shown_ids(tmp_path, ids, redacted=True)


def test_previews_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"records": np.arange(2), "pictures": np.zeros((2, 4, 4, 1), np.uint8), "fields": np.zeros(0, str)}
    path = npz(tmp_path / PREVIEWS, **good)
    found = Previews.read(tmp_path)
    assert found is not None
    assert found.pictures.shape == (2, 4, 4, 1)
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 1, 1, 1), }"
    bad: list[dict[str, Any]] = [
        {"records": np.zeros((2, 2), np.int64)},
        {"records": np.array([0.5, 1])},
        {"pictures": np.zeros((3, 4, 4, 1), np.uint8)},
        {"pictures": np.zeros((2, 4, 4, 7), np.uint8)},
        {"pictures": npy(header, bytes(8))},
        {"fields": np.array(["\ud800", "a"])},
        {"fields": np.array([1, 2])},
    ]
    for change_of in bad:
        npz(path, **{**good, **change_of})
        with pytest.raises(InputError, match=r"previews\.npz cannot be read .* remove it"):
            Previews.read(tmp_path)
    monkeypatch.setattr("leakscope.report.previews._MOST_BYTES", 2**10)
    npz(path, zipfile.ZIP_DEFLATED, **{**good, "pictures": np.zeros((2, 32, 32, 1), np.uint8)})
    with pytest.raises(InputError, match="unpacks to"):
        Previews.read(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"previews\.npz cannot be read"):
        Previews.read(tmp_path)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4, 1, 3), (4, 1, 2, 2), (2, 4), (2,), (), (1, 4, 2)])
def test_answers_of_any_number_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Probabilities of four axes that do not add up to 1 once ended in an IndexError."""
    path = npz(tmp_path / "x.npz", probabilities=np.full((4, 2), 0.5), labels=LABELS,
               shadow_probabilities=np.full(shape, 0.3), shadow_members=np.zeros((1, 4)))  # fmt: skip
    with pytest.raises(InputError, match="shadow_probabilities"):
        read_predictions(path)


@pytest.mark.parametrize(
    "change",
    [
        pl.lit(np.inf).alias("tpr"),  # ended in a warning
        pl.lit(2.0).alias("fpr"),
        pl.lit(-1).alias("n_in"),
        pl.lit(0.5).alias("n_out"),
        pl.lit(None, dtype=pl.Boolean).alias("exposed"),
        pl.lit("a").alias("advantage"),
        pl.lit(1, dtype=pl.Int128).alias("n_in"),
        None,
    ],
)
def test_comparisons_with_rates_that_are_none(copied: Callable[[str], Path], change: pl.Expr | None) -> None:
    run = copied("audit")
    frame = pl.read_parquet(run / "records.parquet")
    spoiled = frame.drop("fpr") if change is None else frame.with_columns(change)
    spoiled.write_parquet(run / "records.parquet")
    with pytest.raises(CorruptBankError, match=r"records\.parquet is damaged"):
        changed_records(template_of("audit") / "run", run)


def test_reports_with_numbers_that_numpy_has_not(copied: Callable[[str], Path]) -> None:
    run = copied("pictures")
    frame = pl.read_parquet(run / "records.parquet")
    frame.with_columns(bits=pl.lit(1, dtype=pl.Int128)).write_parquet(run / "records.parquet")
    with pytest.raises(CorruptBankError, match=r"records\.parquet is damaged \(cannot convert i128"):
        rebuild_report(run)


@pytest.mark.parametrize("column", ["run", "hardness_"])
def test_reports_with_columns_of_other_kinds(copied: Callable[[str], Path], column: str) -> None:
    """What polars says of a column that is not there, or is of another kind, is no traceback."""
    run = copied("dynamics")
    frame = pl.read_parquet(run / "records.parquet")
    name = next(name for name in frame.columns if name.startswith(column))
    for spoiled in (frame.drop(name), frame.with_columns(pl.lit("a").alias(name).cast(pl.Binary))):
        spoiled.write_parquet(run / "records.parquet")
        with pytest.raises(CorruptBankError, match=r"records\.parquet is damaged|no run writes"):
            rebuild_report(run)
