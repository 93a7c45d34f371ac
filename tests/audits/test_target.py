"""A given network, judged by references of its recipe."""

from pathlib import Path

import numpy as np
import pytest
import torch
from leakscope.audits.target import audit_target, read_members

from leakscope.data.digits import digits
from leakscope.errors import InputError
from leakscope.models.registry import build
from leakscope.recipe import Recipe
from leakscope.runs.verification import verify_run
from leakscope.types import Records
from tests.cli.command import run_command

RECIPE = Recipe(net="mlp", net_options=(("width", 48),), lr=0.01, epochs=30)


@pytest.fixture(scope="module")
def records() -> Records:
    return digits().take(np.arange(600))


@pytest.fixture(scope="module")
def target(records: Records, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Weights of a network trained by a plain torch loop, and its members."""
    is_member = np.random.default_rng(4).permutation(len(records)) < len(records) // 2
    torch.manual_seed(1)
    net = build(RECIPE, records.features.shape[1:], records.n_classes)
    x, y = torch.from_numpy(records.features[is_member]), torch.from_numpy(records.labels[is_member])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(30):
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[part]), y[part]).backward()
            optimizer.step()
    path = tmp_path_factory.mktemp("target") / "target.pt"
    torch.save(net.state_dict(), path)
    return path, is_member


def test_its_leakage_is_found_and_every_number_verified(tmp_path: Path, records: Records, target) -> None:
    weights, is_member = target
    verdict = audit_target(records, RECIPE, weights, is_member, tmp_path / "run", models=16)
    found = verdict.results["attacks"]["eb_lira"]["auc"]
    assert found["low"] > 0.5
    assert not verify_run(tmp_path / "run").problems
    again = audit_target(records, RECIPE, weights, is_member, tmp_path / "run", models=16)
    assert again.results == verdict.results


def test_a_wrong_member_list_is_named(tmp_path: Path, records: Records, target) -> None:
    weights, is_member = target
    strangers = np.random.default_rng(0).permutation(is_member)
    verdict = audit_target(records, RECIPE, weights, strangers, tmp_path / "run", models=16)
    assert verdict.results["attacks"]["eb_lira"]["auc"]["low"] < 0.5


def test_a_config_names_weights_and_members(tmp_path: Path, target) -> None:
    weights, is_member = target
    rows = digits().take(np.arange(600))
    np.savez(tmp_path / "rows.npz", features=rows.features, labels=rows.labels, ids=rows.ids)
    (tmp_path / "members.csv").write_text("id\n" + "\n".join(rows.ids[is_member]) + "\n")
    (tmp_path / "target.pt").write_bytes(weights.read_bytes())
    (tmp_path / "given.toml").write_text(
        """
        [data]
        file = "rows.npz"
        standardise = false
        [model]
        options = { width = 48 }
        [training]
        lr = 0.01
        epochs = 10
        [population]
        models = 4
        [target]
        weights = "target.pt"
        members = "members.csv"
        """
    )
    outcome = run_command("audit", tmp_path / "given.toml", "--out", tmp_path / "run")
    assert outcome.exit_code == 0, outcome
    assert (tmp_path / "run" / "references" / "manifest.json").exists()


def test_an_unknown_member_is_named(tmp_path: Path, records: Records) -> None:
    (tmp_path / "members.txt").write_text(f"{records.ids[0]}\nnobody\n")
    with pytest.raises(InputError, match="'nobody'"):
        read_members(tmp_path / "members.txt", records)


def test_weights_of_another_network_are_refused_before_anything_is_written(
    tmp_path: Path, records: Records, target
) -> None:
    weights, is_member = target
    other = Recipe(net="mlp", net_options=(("width", 32),))
    with pytest.raises(InputError, match="does not fit"):
        audit_target(records, other, weights, is_member, tmp_path / "run", models=4)
    assert not (tmp_path / "run").exists()
