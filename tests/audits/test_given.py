"""A given model, judged by references: as weights, an estimator or a function, through Python and TOML."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.array_types import AnyArray, BoolArray
from leakscope.audits.given import read_members
from leakscope.audits.planning.plan import plan_audit
from leakscope.audits.settings import AuditSettings
from leakscope.data.digits import digits
from leakscope.disclosure import Disclosure
from leakscope.errors import InputError
from leakscope.evaluate.gate import FEWEST_REFERENCES, Gate
from leakscope.models.registry import build
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.verification import verify_run
from leakscope.types import Records, digest_arrays
from tests.cli.command import run_command

RECIPE = Recipe(net="mlp", net_options=(("width", 48),), lr=0.01, epochs=30)
NEIGHBOUR = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
OWN_CODE = """
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

rows = np.load({rows!r})
members = np.load({members!r})
fitted = KNeighborsClassifier(1).fit(rows["features"][members], rows["labels"][members])

def predict(features):
    return fitted.predict_proba(features)

def train(records, members, seed):
    return KNeighborsClassifier(1).fit(records.features[members], records.labels[members]).predict_proba
"""


class Target(NamedTuple):
    """A folder with a trained network, its records and its members."""

    folder: Path
    records: Records
    is_member: BoolArray

    @property
    def weights(self) -> leakscope.NetWeights:
        return leakscope.NetWeights(self.folder / "target.pt", "mlp", {"width": 48})

    def audit(self, out: Path, model: Any = None, recipe: Any = RECIPE, **settings: Any) -> leakscope.Verdict:
        source = leakscope.GivenTarget(self.records, model or self.weights, self.is_member, recipe)
        return leakscope.audit(source, out=out, **{"models": 8, "device": "cpu", **settings})


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A network trained by a plain torch loop, and a nearest neighbour, on the same half of the digits."""
    folder, records = tmp_path_factory.mktemp("target"), digits().take(np.arange(400))
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
    torch.save(net.state_dict(), folder / "target.pt")
    np.savez(folder / "rows.npz", features=records.features, labels=records.labels, ids=records.ids)
    np.save(folder / "is_member.npy", is_member)
    (folder / "members.csv").write_text("id\n" + "\n".join(records.ids[is_member]) + "\n")
    neighbour = KNeighborsClassifier(1).fit(records.features[is_member], records.labels[is_member])
    joblib.dump(neighbour, folder / "neighbour.joblib")
    code = OWN_CODE.format(rows=str(folder / "rows.npz"), members=str(folder / "is_member.npy"))
    (folder / "given_model_code.py").write_text(code)
    return Target(folder, records, is_member)


def config(target: Target, name: str, model: str, of_target: str, more: str = "") -> Path:
    path = target.folder / f"{name}.toml"
    path.write_text(
        f"[data]\nfile = 'rows.npz'\nstandardise = false\n{model}\n"
        f"[population]\nmodels = 4\ndevice = 'cpu'\n{more}\n[target]\nmembers = 'members.csv'\n{of_target}\n"
    )
    return path


NET = "[model]\noptions = { width = 48 }\n[training]\nlr = 0.01\nepochs = 30"


@pytest.mark.slow
def test_its_leakage_is_measured_and_every_number_verified(tmp_path: Path, target: Target) -> None:
    verdict = target.audit(tmp_path / "run", models=16)
    assert verdict.results.attacks["eb_lira"].auc.low > 0.5
    assert verify_run(tmp_path / "run").problems == []
    assert target.audit(tmp_path / "run", models=16).results == verdict.results


def test_a_wrong_member_list_leaves_nothing_to_measure(tmp_path: Path, target: Target) -> None:
    wrong = target._replace(is_member=np.random.default_rng(0).permutation(target.is_member))
    assert wrong.audit(tmp_path / "run", models=16).results.attacks["eb_lira"].auc.low < 0.5


def test_the_report_says_what_was_given_and_what_was_trained(tmp_path: Path, target: Target) -> None:
    verdict = target.audit(tmp_path / "run", attacks=["lira"])
    sha256 = hashlib.sha256((target.folder / "target.pt").read_bytes()).hexdigest()
    members = digest_arrays(target.records.ids[target.is_member])
    facts = verdict.results.config.source.facts
    assert (facts["sha256"], facts["member list sha256"]) == (sha256, members)
    assert facts["references"] == "8 models, each trained on about 200 of the same records"
    assert "with 8 reference models, trained for this audit." in str(verdict)
    page = (tmp_path / "run" / "report.html").read_text()
    assert members not in page, "a reader could test guesses of the list against it"
    assert members in rebuild_report(tmp_path / "run", Disclosure(with_membership=True)).read_text()
    for text in (sha256, "200 of 400 records", "reference models were trained for this audit"):
        assert text in page
    for text in (page, (tmp_path / "run" / "report.md").read_text()):
        assert "nothing was trained" not in text.lower() and "no model was trained" not in text.lower()


def test_the_report_holds_the_config_file(tmp_path: Path, target: Target) -> None:
    path = config(target, "shown", NET, "weights = 'target.pt'", "seed = 3 # a comment of mine")
    assert run_command("audit", path, "--out", tmp_path / "run", "--quiet").exit_code == 0
    assert leakscope.open_run(tmp_path / "run").results.config.source.toml == path.read_text()
    assert "# a comment of mine" in (tmp_path / "run" / "report.html").read_text()


def test_a_config_honours_attacks_design_signals_and_device(tmp_path: Path, target: Target) -> None:
    attacks = "[attacks]\nnames = ['rmia', 'lira(online=false)']\nfpr = [0.2]"
    more = f"design = 'pairs'\nsignals = ['entropy']\n{attacks}"
    path = config(target, "settings", NET, "weights = 'target.pt'", more)
    done = run_command("audit", path, "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done
    results = json.loads(done.out)
    assert list(results["attacks"]) == ["rmia", "lira(online=false)"]
    assert results["config"]["fpr_budgets"] == [0.2]
    assert results["config"]["source"]["facts"]["references"].startswith(
        "4 models, each trained on about 200"
    )
    in_mask = np.load(tmp_path / "run" / "references" / "design.npy")
    np.testing.assert_array_equal(in_mask[0], ~in_mask[1])
    assert (tmp_path / "run" / "signals" / "entropy.npy").exists()
    tpu = config(target, "tpu", NET, "weights = 'target.pt'")
    tpu.write_text(tpu.read_text().replace("'cpu'", "'tpu'"))
    refused = run_command("audit", tpu, "--out", tmp_path / "tpu")
    assert refused.exit_code == 2 and "device='tpu'" in refused.err


def test_pixels_are_standardized_as_the_config_says(tmp_path: Path) -> None:
    """The weights read the brightness of an image against a mean that only the right scaling puts at 0."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    images = (60 + 100 * labels[:, None, None, None] + rng.integers(0, 9, (40, 1, 4, 4))).astype(np.uint8)
    np.savez(tmp_path / "rows.npz", features=images, labels=labels)
    torch.save({"1.weight": torch.stack([-torch.ones(16), torch.ones(16)]), "1.bias": torch.zeros(2)},
               tmp_path / "target.pt")  # fmt: skip
    (tmp_path / "tiny_image_net.py").write_text(
        "from torch import nn\n"
        "def build(input_shape, n_classes): return nn.Sequential(nn.Flatten(), nn.Linear(16, n_classes))\n"
    )
    (tmp_path / "members.txt").write_text("\n".join(f"row-{i}" for i in range(20)))
    text = (
        "[data]\nfile = 'rows.npz'\nstandardise = false\n[model]\nnet = 'tiny_image_net:build'\n"
        "[training]\nepochs = 1\n[population]\nmodels = 2\ndevice = 'cpu'\n"
        "[target]\nweights = 'target.pt'\nmembers = 'members.txt'\n"
    )
    accuracy = {}
    for name, scaling in {"raw": "", "scaled": "pixel_mean = [0.45]\npixel_std = [0.2]\n"}.items():
        (tmp_path / "given.toml").write_text(text + scaling)
        done = run_command("audit", tmp_path / "given.toml", "--out", tmp_path / name, "--json")
        assert done.exit_code == 0, done
        accuracy[name] = json.loads(done.out)["accuracy"]["members"]["value"]
    assert accuracy == {"raw": 0.5, "scaled": 1.0}
    (tmp_path / "given.toml").write_text(text + "pixel_mean = [0.5]\n")
    assert "give both or neither" in run_command("audit", tmp_path / "given.toml").err


def predict_of(target: Target) -> Any:
    return joblib.load(target.folder / "neighbour.joblib").predict_proba


def train_neighbour(records: Records, members: AnyArray, seed: int) -> Any:
    """A user's training function."""
    return KNeighborsClassifier(1).fit(records.features[members], records.labels[members]).predict_proba


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "estimator", "function"])
@pytest.mark.parametrize(
    "recipe", [NEIGHBOUR, FunctionRecipe(train_neighbour)], ids=["estimators", "function"]
)
def test_an_estimator_or_function_with_references_of_its_kind(
    tmp_path: Path, target: Target, kind: str, recipe: Any
) -> None:
    file = target.folder / "neighbour.joblib"
    model = {
        "file": leakscope.FittedEstimator(file, trust=True),
        "estimator": leakscope.FittedEstimator(joblib.load(file)),
        "function": leakscope.PredictFunction(predict_of(target)),
    }[kind]
    verdict = target.audit(tmp_path / "run", model, recipe, attacks=["loss", "lira"])
    assert verdict.results.accuracy.members.value == 1.0
    # All of 200 members are right, and 196 of 200 others; Fisher's exact test (p = 0.12): it may be chance.
    auc = verdict.results.attacks["loss"].auc
    assert auc.value == pytest.approx(0.51) and auc.low < 0.5 < auc.high
    facts = verdict.results.config.source.facts
    assert facts["kind"] == ("function" if kind == "function" else "fitted estimator")
    if kind == "file":
        assert facts["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert verify_run(tmp_path / "run").problems == []


@pytest.mark.slow
def test_configs_of_an_estimator_and_of_functions(tmp_path: Path, target: Target) -> None:
    estimator = "[model]\nestimator = 'sklearn.neighbors:KNeighborsClassifier'\noptions = { n_neighbors = 1 }"
    train = "[model]\ntrain = 'given_model_code:train'"
    trusted, own = "estimator = 'neighbour.joblib'\ntrust = true", "predict = 'given_model_code:predict'"
    for name, model, of_target in (("trusted", estimator, trusted), ("own", train, own), ("mixed", NET, own)):
        path = config(target, name, model, of_target)
        done = run_command("audit", path, "--out", tmp_path / name, "--json")
        assert done.exit_code == 0, done
        assert json.loads(done.out)["accuracy"]["members"]["value"] == 1.0
    untrusted = config(target, "untrusted", estimator, "estimator = 'neighbour.joblib'")
    refused = run_command("audit", untrusted, "--out", tmp_path / "untrusted")
    assert refused.exit_code == 2 and "`trust = true` under [target]" in refused.err
    assert "--trust" not in refused.err, "audit has no such option"
    assert not (tmp_path / "untrusted").exists()


@pytest.mark.skipif(importlib.util.find_spec("skops") is None, reason="skops is not installed")
def test_a_skops_file_needs_no_trust(tmp_path: Path, target: Target) -> None:
    import skops.io
    from sklearn.linear_model import LogisticRegression

    records, members = target.records, target.is_member
    fitted = LogisticRegression(max_iter=500).fit(records.features[members], records.labels[members])
    skops.io.dump(fitted, tmp_path / "model.skops")
    recipe = EstimatorRecipe(LogisticRegression(max_iter=500), processes=1)
    model = leakscope.FittedEstimator(tmp_path / "model.skops")
    verdict = target.audit(tmp_path / "run", model, recipe, models=4, attacks=["loss"])
    assert verdict.results.config.source.facts["estimator"] == "LogisticRegression"


def test_the_plan_counts_the_references(target: Target) -> None:
    source = leakscope.GivenTarget(target.records, target.weights, target.is_member, RECIPE)
    planned = plan_audit(AuditSettings(models=4, device="cpu", attacks=["loss"]), source)
    assert planned.cost is not None
    assert (planned.population.members, planned.population.nonmembers) == (200, 200)
    assert planned.resolution.record_advantage is None


def test_the_same_recipe_with_other_weights_is_another_run(tmp_path: Path, target: Target) -> None:
    target.audit(tmp_path / "run", models=2, attacks=["loss"])
    neighbour = leakscope.FittedEstimator(target.folder / "neighbour.joblib", trust=True)
    with pytest.raises(InputError, match=r"holds a different bank \(recipe\.target is"):
        target.audit(tmp_path / "run", neighbour, models=2, attacks=["loss"])


def test_weights_of_another_network_are_refused_before_anything_is_written(
    tmp_path: Path, target: Target
) -> None:
    other = leakscope.NetWeights(target.folder / "target.pt", "mlp", {"width": 32})
    with pytest.raises(InputError, match="does not fit"):
        target.audit(tmp_path / "run", other, models=4)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("is_member", "named"),
    [
        (np.ones(400, dtype=bool), "400 of 400 are members"),
        (np.zeros(400, dtype=bool), "0 of 400 are members"),
        (np.ones(7, dtype=bool), r"is_member must be bool \(400,\)"),
        (np.arange(400), "one bool per record"),
        (np.array(["yes", "no"] * 200), "one bool per record"),
    ],
    ids=["all", "none", "too few", "indices", "texts"],
)
def test_membership_that_makes_no_sense_is_refused(
    tmp_path: Path, target: Target, is_member: AnyArray, named: str
) -> None:
    with pytest.raises(InputError, match=named):
        target._replace(is_member=is_member).audit(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_zeros_and_ones_are_membership_too(tmp_path: Path, target: Target) -> None:
    as_list: Any = [int(member) for member in target.is_member]
    settings: dict[str, Any] = {"models": 2, "attacks": ["loss"]}
    numbers = target._replace(is_member=as_list).audit(tmp_path / "numbers", **settings)
    assert numbers.results == target.audit(tmp_path / "bools", **settings).results


def test_a_list_of_members(tmp_path: Path, target: Target) -> None:
    ids, path = target.records.ids, tmp_path / "members.csv"
    wanted = np.isin(ids, ids[:3])
    for text in (
        "\n".join(ids[:3]),
        "ID,when\n" + "\n".join(f"{name},today" for name in ids[:3]),
        "patient\n" + "\n".join(ids[:3]),
        "\r\n".join([*ids[:3], ids[0], "", ids[1]]),
        "\ufeff" + "\n".join(ids[:3]),
    ):
        path.write_bytes(text.encode())
        np.testing.assert_array_equal(read_members(path, target.records, "patient"), wanted)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{0}\nnobody\n", "'nobody'"),
        (
            "{0}x\n{0}\n",
            "1 id is not among the records.*If the first line is a header, call it 'id'",
        ),  # a typo is no header
        ("who\n{0}\n", "'who'"),
        ("", "lists no ids"),
        ("id\n", "lists no ids"),
        ("\n\n", "lists no ids"),
    ],
)
def test_a_list_of_members_that_makes_no_sense_is_refused(
    tmp_path: Path, target: Target, content: str, named: str
) -> None:
    (tmp_path / "members.txt").write_text(content.format(target.records.ids[0]))
    with pytest.raises(InputError, match=named):
        read_members(tmp_path / "members.txt", target.records)


def test_lost_zeros_and_a_list_of_all_records_are_named(tmp_path: Path, target: Target) -> None:
    records = replace(target.records, ids=np.array([f"{row:05}" for row in range(len(target.records))]))
    path = tmp_path / "members.csv"
    path.write_text("id\n00000\n102\n7\n")
    with pytest.raises(InputError) as caught:
        read_members(path, records)
    assert str(caught.value) == (
        f"members={str(path)!r}: 2 ids are not among the records (the first is '102'). The records have ids "
        "such as '00000': were leading zeros lost?"
    )
    path.write_text("00000\n100000\n")
    with pytest.raises(InputError, match=r"\('100000'\). The records have ids such as '00000'$"):
        read_members(path, records)
    path.write_text("\n".join(records.ids))
    with pytest.raises(InputError, match="names every record as a member; list only those that the model"):
        read_members(path, records)


def test_a_list_of_members_that_cannot_be_read_is_refused(tmp_path: Path, target: Target) -> None:
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "nowhere.txt", tmp_path, tmp_path / "binary.txt"):
        with pytest.raises(InputError, match=r"cannot be read.*one id per line"):
            read_members(path, target.records)
    with pytest.raises(InputError, match=r"nowhere\.txt' cannot be read \(there is no such file\)"):
        read_members(tmp_path / "nowhere.txt", target.records)


@pytest.mark.parametrize(("models", "outcome"), [(1, "inconclusive"), (2, "inconclusive"), (8, "passed")])
def test_a_gate_does_not_pass_with_few_references(
    target: Target, tmp_path: Path, models: int, outcome: str
) -> None:
    verdict = target.audit(tmp_path, models=models, gate=Gate(max_auc=1.0), fpr=(0.1,))
    assert verdict.outcome == outcome
    assert ("too few to show that a model is within a limit" in str(verdict)) == (outcome != "passed")
    assert ("can show that a model leaks, but not that it does not" in str(verdict)) == (models < 8)
    design = np.load(tmp_path / "references" / "design.npy")
    assert design.shape[0] == models
    # A single reference is trained on as many records as the target; a balanced design on halves of the rest.
    assert abs(design.sum(axis=1) - target.is_member.sum()).max() <= 1
    assert verify_run(tmp_path).problems == []


def test_a_broken_limit_fails_with_one_reference(target: Target, tmp_path: Path) -> None:
    verdict = target.audit(tmp_path, models=1, gate=Gate(max_auc=0.3))
    assert verdict.outcome == "failed"


def test_the_plan_says_that_a_gate_cannot_pass_with_few_references(target: Target) -> None:
    source = leakscope.GivenTarget(target.records, target.weights, target.is_member, RECIPE)
    gate = Gate(max_auc=0.9)
    for models in (2, FEWEST_REFERENCES):
        planned = plan_audit(AuditSettings(models=models, device="cpu", gate=gate), source)
        assert any("too few" in limit for limit in planned.undecidable) == (models < FEWEST_REFERENCES)
