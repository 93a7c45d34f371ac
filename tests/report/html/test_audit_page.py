"""An audit's page: what comes first, what it reveals about single records, what it says is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.recipe_text import recipe_text
from leakscope.audits.report.cells import sets_remarks
from leakscope.audits.report.page import audit_picture
from leakscope.audits.report.page_figures import groups_section
from leakscope.audits.report.page_remedies import actions, what_to_do_section
from leakscope.audits.run import audit
from leakscope.bank.results import read_results, write_results
from leakscope.data.predictions import Predictions
from leakscope.disclosure import KEY, Disclosure
from leakscope.evaluate.config import Source, SourceKind
from leakscope.evaluate.gate import Gate, GateOutcome, GateResult, LimitOutcome, TprLimit
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.rating import highest
from leakscope.evaluate.rating_results import Rating, RatingPart
from leakscope.evaluate.results import AuditResults, GroupFigures
from leakscope.recipe import Distillation, Recipe, Treatment
from leakscope.report.gauge import Gauge
from leakscope.report.levels import Levels
from leakscope.report.page import PAGE, REDACTED_PAGE
from leakscope.runs.kinds import rebuild_report
from tests.quick_audits import quick_audits, whole_audits
from tests.report.page_attacks import arrays
from tests.synthetic_runs import Synthetic

GROUPS = {"city": np.array(["Rome", "Paris"])[np.arange(120) % 2]}


def text(folder: Path) -> str:
    return unescape((folder / PAGE).read_text())


@pytest.fixture(autouse=True, scope="module")
def only_quick_audits() -> Iterator[None]:
    with quick_audits():
        yield


@pytest.fixture(scope="module")
def run(only_quick_audits: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    with whole_audits():
        Synthetic(groups=GROUPS, gate=Gate(max_auc=0.52, max_tpr=(TprLimit(0.1, 0.9),))).audited(folder)
    return folder


def test_the_first_screen_has_verdict_gate_facts_and_limits(run: Path) -> None:
    first = text(run).split('<section id="roc"')[0]
    assert 'class="lead">Membership is detectable.<' in first
    assert re.search(r"ranks a random member .* \d\d\.\d% of the time \(95% interval", first)
    assert "Gate failed" in first and "the limit is 52.0%" in first
    for fact in (
        "120 (made-up)",
        "16, each attacked with the others",
        "5555555555555555",
        "adam with learning rate 0.01",
        "<dt>Seed</dt><dd>0</dd>",
    ):
        assert fact in first
    assert "Limitations" in first and "They hold for this recipe" in first


def test_every_promised_section_is_there_and_in_order(run: Path) -> None:
    wanted = [
        "what-to-do",
        "sets",
        "roc",
        "precision",
        "scores",
        "records",
        "groups",
        "bits",
        "checks",
        "more",
        "method",
        "reproduce",
        "words",
    ]
    assert re.findall(r'<section id="([\w-]+)"', text(run)) == wanted
    rates = r"([\d.]+%, )*[\d.]+%( or [\d.]+%)?"
    assert re.search(f"No group is large enough to measure the TPR at {rates} FPR", text(run))
    assert "leakscope verify whole" in text(run)


def test_records_come_most_exposed_first_with_their_figures(run: Path) -> None:
    found = arrays((run / PAGE).read_text())
    assert (np.diff(found["advantage"]) <= 1e-4).all()
    top = [int(name.removeprefix("person-")) for name in found["id"][:8].tolist()]
    assert all(number % 10 == 0 for number in top)  # the memorised ones
    assert (found["advantage_low"] <= found["advantage"]).all()
    assert found["exposed"][0] == 1 and found["exposed"][-1] == 0
    assert found["paths"].shape == (120, 3, 2)
    gap = found["paths"][0, :, 0] - found["paths"][0, :, 1]
    assert gap[-1] > gap[0]  # it grows apart in training


def test_the_models_trained_on_a_record_are_those_of_the_design(run: Path) -> None:
    found, design = arrays((run / PAGE).read_text()), np.load(run / "design.npy")
    in_mask = np.unpackbits(found["in_mask"].astype(np.uint8), axis=1, bitorder="little")[:, :16]
    for row, name in enumerate(found["id"][:5].tolist()):
        assert in_mask[row].tolist() == design[:, int(name.removeprefix("person-"))].tolist()


def test_previews_name_what_is_distinctive_about_a_record(run: Path) -> None:
    found = arrays((run / PAGE).read_text())
    assert len(found["fields"]) == 120 and any("age" in words for words in found["fields"].tolist())
    assert sorted(found["preview_rows"].tolist()) == list(range(120))


@pytest.mark.usefixtures("whole_audits")
def test_the_report_is_rebuilt_from_the_folder_alone_to_the_byte(run: Path) -> None:
    files = (PAGE, "report.md", "figures/roc.png")
    before = {name: (run / name).read_bytes() for name in files}
    for name in files:
        (run / name).unlink()
    assert rebuild_report(run) == run / PAGE
    assert {name: (run / name).read_bytes() for name in files} == before


def test_a_redacted_audit_has_one_page_without_rows(tmp_path: Path) -> None:
    Synthetic(groups=GROUPS).audited(tmp_path, Disclosure(redacted=True))
    page = (tmp_path / REDACTED_PAGE).read_text()
    assert arrays(page) == {} and "person-" not in page
    assert (tmp_path / KEY).read_bytes().hex() not in page
    assert not {PAGE, "report.md", "previews.npz", "figures"} & {path.name for path in tmp_path.iterdir()}
    assert rebuild_report(tmp_path).read_text() == page  # the same page, from the same key


def given_model(with_references: bool = True) -> Predictions:
    rng = np.random.default_rng(0)
    is_member, in_mask = np.arange(80) < 40, rng.random((8, 80)) < 0.5
    logits = rng.normal(size=(80, 2)) + 2 * is_member[:, None] * [1, -1]
    outputs = rng.normal(size=(8, 80, 2)) + 2 * in_mask[..., None] * [1, -1]
    return Predictions(
        logits=logits.astype(np.float32),
        labels=np.zeros(80, dtype=np.int64),
        ids=np.array([f"person-{i}" for i in range(80)]),
        is_member=is_member,
        reference_logits=outputs.astype(np.float32) if with_references else None,
        reference_in_mask=in_mask if with_references else None,
    )


def test_membership_of_a_given_model_is_revealed_only_on_request(tmp_path: Path) -> None:
    audit(SavedPredictions(given_model()), out=tmp_path)
    silent = arrays((tmp_path / PAGE).read_text())
    assert "is_member" not in silent and not any(name.startswith("other:score_") for name in silent)
    assert silent["outputs"].shape == (
        80,
        8,
    )  # the references; the model's own outputs would reveal its members
    assert "--with-membership" in text(tmp_path)
    requested = arrays(rebuild_report(tmp_path, Disclosure(with_membership=True)).read_text())
    members = {
        name
        for name, flag in zip(requested["id"].tolist(), requested["is_member"].tolist(), strict=True)
        if flag
    }
    assert members == {f"person-{i}" for i in range(40)}
    assert "other:score_loss" in requested and requested["outputs"].shape == (80, 9)


def test_a_given_model_is_described_without_what_only_a_population_has(tmp_path: Path) -> None:
    verdict = audit(SavedPredictions(given_model()), out=tmp_path)
    page = " ".join(text(tmp_path).split())
    bits = page.split('<section id="bits"')[1].split("</section>")[0]
    assert "mutual information" in bits and '<th scope="col">epoch' not in bits and ">epoch<" not in bits
    assert "most exposed records are chosen" not in page  # a set of so few records is left out
    assert sets_remarks(verdict.results)[-1].startswith("Not measurable, most exposed 1%")
    assert "`--with-membership" not in page and "option --with-membership" in page
    assert "can neither pass nor fail" not in page


def test_a_model_without_references_gets_a_whole_report(tmp_path: Path) -> None:
    audit(SavedPredictions(given_model(with_references=False)), out=tmp_path)
    page = text(tmp_path)
    for absent in (
        "Records have no risk over models",
        "Undefined: ",
        "would reveal its members",
        "1, without reference models",
        "there is only one target",
        "In the order of the input: no figure ranks them.",
    ):
        assert absent in page
    assert "Most exposed first" not in page and "Select a record to see every" not in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s, ()),
        (lambda s: replace(s, n_checkpoints=1), ("Records have no trajectory over training",)),
        (lambda s: replace(s, attacks=("loss",)), ("loss",)),
        (lambda s: replace(s, leak=0.0), ("Membership is not detectable with these attacks",)),
        (lambda s: replace(s, pictures=True), ()),
    ],
)
def test_a_missing_part_is_named_and_the_rest_is_there(
    change: Callable[[Synthetic], Synthetic], words: tuple[str, ...], tmp_path: Path
) -> None:
    change(Synthetic(n_records=60, n_models=8)).audited(tmp_path)
    page = text(tmp_path)
    assert page.rstrip().endswith("</html>")
    for sentence in (*words, "No gate was set"):
        assert sentence in page


def test_pictures_become_thumbnails(tmp_path: Path) -> None:
    Synthetic(n_records=40, n_models=8, pictures=True).audited(tmp_path)
    assert arrays((tmp_path / PAGE).read_text())["pictures"].shape == (40, 8, 8, 1)


def limit(
    on: str, allowed: float, bound: float | None, outcome: GateOutcome, attack: str | None = "loss"
) -> LimitOutcome:
    return LimitOutcome(on, 0.1 if on == "max_tpr" else None, allowed, bound, attack, outcome, "")


def test_the_gauge_displays_the_tightest_limit(run: Path) -> None:
    results = read_results(run, AuditResults)
    loss = results.attacks["loss"]

    def gauge(outcome: GateOutcome, *limits: LimitOutcome) -> Gauge:
        gate = GateResult(outcome, limits)
        config = replace(results.config, gate=Gate(max_tpr=(TprLimit(0.1, 0.2),)))
        return audit_picture(replace(results, config=config, gate=gate))

    without_gate = audit_picture(replace(results, gate=None))
    assert isinstance(without_gate, Levels)
    figures = [part.level for part in results.rating.parts if part.about != "gate"]  # which is no figure
    assert highest([row.level for row in without_gate.figures]) == highest(figures) != "none found"
    tpr = loss.tpr_at_fpr[0]
    failed = gauge("failed", limit("max_auc", 0.9, 0.62, "passed"), limit("max_tpr", 0.2, tpr.low, "failed"))
    assert (failed.value, failed.high, failed.limit, failed.passed) == (tpr.value, tpr.high, 0.2, False)
    tight = gauge(
        "passed", limit("max_auc", 0.9, 0.62, "passed"), limit("max_advantage", 0.21, 0.2, "passed")
    )
    assert (tight.label, tight.value) == ("Advantage (loss)", loss.advantage.value)
    assert gauge("inconclusive", limit("max_epsilon", 1.0, None, "inconclusive")) is None
    auc = gauge("failed", limit("max_auc", 0.5, 0.55, "failed"))
    assert (auc.label, auc.low) == ("Chance to rank a member above a non-member (AUC of loss)", loss.auc.low)
    share = gauge("failed", limit("max_exposed_share", 0.1, 0.2, "failed", attack=None))
    assert (share.value, share.end) == (0.2, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("population", "All models were trained for this audit."),
        ("given model", "its reference models were trained for this audit"),
        ("predictions", "no model was trained"),
        ("merged", "The models of several audits were merged"),
    ],
)
def test_the_page_says_what_was_audited_and_how_to_repeat_it(
    run: Path, tmp_path: Path, kind: SourceKind, sentence: str
) -> None:
    shutil.copytree(run, tmp_path / "run")
    results = read_results(run, AuditResults)
    source = Source(kind, {"Weights sha256": "7" * 64}, '[data]\nfile = "a<b>.csv"')
    write_results(tmp_path / "run", replace(results, config=replace(results.config, source=source)))
    raw = rebuild_report(tmp_path / "run").read_text()
    assert "a<b>" not in raw
    section = unescape(raw).split('<section id="reproduce"')[1]
    for part in (sentence, "7" * 64, '[data]\nfile = "a<b>.csv"'):
        assert part in section
    assert ("leakscope audit audit.toml" in section) == (kind != "merged")
    assert ("no model was trained" in section) == (kind == "predictions")


def test_a_recipe_as_text_whoever_trained() -> None:
    assert recipe_text({"saved": "logits"}) == "saved logits"
    given = {"target": "76a5", "references": Recipe().description(), "evaluated_epochs": [1]}
    assert recipe_text(given) == recipe_text(Recipe().description())
    assert recipe_text({"estimator": "sklearn.svm:SVC"}) == "sklearn.svm:SVC"
    adapters = AdapterRecipe(base="gpt2", lora=Lora(rank=4), epochs=2).description()
    assert recipe_text(adapters) == "LoRA of rank 4, adamw with learning rate 0.0002, 2 epochs, batch size 8"


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (
            Recipe(treatment=Treatment()),
            "the 5% of each model's members that were most exposed early in training were left out of the "
            "training, and still count as members",
        ),
        (
            Recipe(treatment=Treatment("down_weight", "random", 0.1)),
            "10% of each model's members, drawn at random, were given weight 0.1 in the training",
        ),
        (Recipe(treatment=Treatment(choice="listed", records=(1,))), "the listed records were left out"),
        (Recipe(distillation=Distillation(7, 3)), "7 sub-models, of which 3 were not trained on the member"),
    ],
)
def test_a_recipe_s_stages_are_on_the_page(recipe: Recipe, sentence: str) -> None:
    assert sentence in recipe_text(recipe.description())
    assert ";" not in recipe_text(Recipe().description())


def test_what_to_do_fits_the_outcome(run: Path) -> None:
    results = read_results(run, AuditResults)
    first, *others = results.rating.parts
    parts = (replace(first, level="severe", at_most="severe"), *others)
    rated = replace(results, rating=Rating("severe", "severe", parts, None), gate=None)
    assert actions(rated)[-1].startswith("Set limits")
    assert any(line.startswith("Leakage: try the defences") for line in actions(rated))
    saved = replace(rated, config=replace(results.config, source=Source("predictions", {})), attacks={
        label: replace(figures, groups={}) for label, figures in results.attacks.items()
    }, fit=(), accuracy=None)  # fmt: skip
    lines = actions(saved)
    assert any("cannot try defences" in line for line in lines)
    assert not any("nothing that calls for a change" in line for line in lines)
    undecided = GateResult("inconclusive", (limit("max_epsilon", 1.0, None, "inconclusive"),))
    assert actions(replace(results, gate=undecided))[0].startswith("Audit with more models")
    failed = Outcome("members", "failed", "The list is wrong.")
    assert actions(replace(results, hygiene=(failed,)))[0].startswith("Repair the audit first")


def test_the_level_of_a_large_share_of_exposed_records_is_explained(run: Path) -> None:
    results = read_results(run, AuditResults)
    few = tuple(part for part in results.rating.parts if part.about != "exposed")
    part = RatingPart("exposed", "share of exposed records", "low", "low", 0.95, 0.95, None, None)
    for parts, is_explained in (((*few, part), True), ((*few, replace(part, value=0.0)), False)):
        rated = replace(results, rating=replace(results.rating, parts=parts))
        text = what_to_do_section(rated).markdown()
        assert ("their share does not raise it, as more models detect more" in text) == is_explained


def test_a_group_that_was_not_tested_is_not_called_safe(run: Path) -> None:
    results = read_results(run, AuditResults)
    attack = results.strongest_attack
    figures = results.attacks[attack]

    def words(groups: dict[str, tuple[GroupFigures, ...]]) -> str:
        attacks = {**results.attacks, attack: replace(figures, groups=groups)}
        return groups_section(replace(results, attacks=attacks), 0).markdown()

    every = figures.groups["city"]
    none = words({"city": tuple(replace(g, auc=figures.auc) for g in every)})
    assert "none is more exposed" in none and "the intervals below do not" in none
    assert "was not tested" in words({"city": tuple(replace(g, records=5) for g in every)})
