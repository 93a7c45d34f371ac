"""The reference and the schema of config files say what the program reads, no more and no less."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leakscope.audits.config import SECTIONS, AuditConfig, parse_config
from leakscope.audits.config_model import OF_A_BASE
from leakscope.audits.config_page import config_page
from leakscope.audits.config_reference import Table, config_tables, inner_table
from leakscope.audits.config_schema import config_schema
from leakscope.disk.toml_text import toml_text, toml_value
from leakscope.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
TABLES = config_tables()
NEEDED = {
    "data": 'dataset = "digits"',
    "training.privacy": "epsilon = 8",
    "gate": "max_auc = 0.6\nmax_epsilon = 3",
    "target": 'members = "m.csv"\nestimator = "x.joblib"',
    "predictions": 'file = "x.csv"',
    "claim": "epsilon = 8",
}
"""What a table cannot do without."""
EXCLUDED = {("data", name) for name in ("groups", "task")} | {
    ("model", name) for name in ("options", *OF_A_BASE)
}
"""Settings that would do nothing beside those that are needed."""


def parsed(text: str) -> AuditConfig:
    return parse_config(text, Path("my.toml"))


def config_with(name: str, content: str) -> str:
    records = "" if name in ("data", "predictions") else '[data]\ndataset = "digits"\n'
    records += '[model]\nbase = "a_folder"\n' if name == "model.lora" else ""
    return f"{records}[{name}]\n{NEEDED.get(name, '')}\n{content}\n"


def same(config: AuditConfig) -> dict[str, Any]:
    """A config without the text it was read from."""
    return {**vars(config), "settings": replace(config.settings, config_text=None)}


def written_defaults(table: Table) -> list[str]:
    return [
        f"{setting.name} = {toml_value(setting.default)}"
        for setting in table.settings
        if setting.default is not None and (table.name, setting.name) not in EXCLUDED
    ]


def test_the_page_and_the_schema_of_the_documentation_are_current() -> None:
    """`make reference` writes both."""
    assert (ROOT / "docs" / "config.md").read_text() == config_page()
    assert json.loads((ROOT / "docs" / "config.schema.json").read_text()) == config_schema()


def test_every_table_that_is_read_is_described_and_no_other() -> None:
    assert {table.name for table in TABLES if "." not in table.name} == set(SECTIONS)
    assert all(setting.meaning and "None" not in setting.meaning for t in TABLES for setting in t.settings)
    assert sum(len(table.settings) for table in TABLES) > 80


def test_the_settings_of_a_population_are_read_as_they_are_written() -> None:
    """Settings remember whether they were given, so a config with every default is another one."""
    (table,) = (table for table in TABLES if table.name == "population")
    config = parsed(config_with("population", "\n".join(written_defaults(table))))
    for setting in table.settings:
        given = getattr(config.settings, setting.name)
        assert given == setting.default or list(given) == list(setting.default)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.name != "population"], ids=lambda table: table.name
)
def test_a_table_with_every_default_is_the_table_without(table: Table) -> None:
    every = config_with(table.name, "\n".join(written_defaults(table)))
    assert same(parsed(every)) == same(parsed(config_with(table.name, "")))
    assert written_defaults(table) or table.name in ("data", "attacks", "model")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_setting_is_known_to_the_program_and_one_letter_less_is_not(table: Table) -> None:
    for setting in table.settings:
        if len(setting.name) < 3:
            continue
        wrong = setting.name[:-1]
        with pytest.raises(InputError) as refused:
            parsed(config_with(table.name, f"{wrong} = 1"))
        assert f"{table.name}.{wrong} is not a known setting; did you mean {setting.name!r}?" in str(
            refused.value
        )
        if inner_table(setting.hint) is None:
            try:
                parsed(config_with(table.name, f"{setting.name} = []"))
            except InputError as error:
                assert "not a known setting" not in str(error)
            except tomllib.TOMLDecodeError:
                pytest.fail("the example is not TOML")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[trainig]\nlr = 1", "trainig is not a known setting; did you mean 'training'?"),
        ("[gate]\nmax_tpr = [{ fpr = 0.1, tpr = 0.5, tprs = 1 }]", "gate.max_tpr.0.tprs .* mean 'tpr'?"),
        ("[attacks]\nnames = [{ name = 'lira', onlin = false }]", "onlin"),
        ("[attacks]\nnames = ['lira(onlin=false)']", "onlin"),
        ("[training.privcy]\nepsilon = 8", "training.privcy .* did you mean 'privacy'?"),
        ("[training.privacy]\nepsilon = 8\nclipp = 1", "training.privacy.clipp .* did you mean 'clip'?"),
        ("[training.treatment]\nshar = 0.1", "training.treatment.shar .* did you mean 'share'?"),
    ],
)
def test_unknown_settings_at_every_level(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parsed(f'{text}\n[data]\ndataset = "digits"\n')


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("options = { widht = 4 }", "net='mlp': 'widht' is not an option of mlp; did you mean 'width'?"),
        (
            "estimator = 'sklearn.ensemble:RandomForestClassifier'\noptions = { n_estimator = 4 }",
            "'n_estimator' is not an option of RandomForestClassifier; did you mean 'n_estimators'?",
        ),
    ],
)
def test_unknown_options_of_models(model: str, message: str) -> None:
    from leakscope.models.registry import build

    config = parsed(f'[model]\n{model}\n[data]\ndataset = "digits"\n')
    with pytest.raises(InputError) as refused:
        build(config.recipe(), (4,), 2)  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_a_setting_in_another_table_is_sent_there() -> None:
    with pytest.raises(InputError, match=r"training.signals is not .*; it belongs to \[population\]"):
        parsed('[training]\nsignals = ["loss"]\n[data]\ndataset = "digits"\n')


def test_the_schema_accepts_what_the_program_accepts() -> None:
    check = jsonschema.Draft7Validator(config_schema())
    check.check_schema(config_schema())
    configs = sorted((ROOT / "examples").glob("*.toml"))
    assert len(configs) > 5
    for path in configs:
        assert list(check.iter_errors(tomllib.loads(path.read_text()))) == [], path.name
    for table in TABLES:
        example = tomllib.loads(table.example)
        if table.name != "predictions":
            example.setdefault("data", {"dataset": "digits"})
        assert list(check.iter_errors(example)) == [], table.name


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"data": {"dataset": "digits"}, "trainig": {}},
        {"data": {"dataset": 3}},
        {"data": {"dataset": "digits"}, "training": {"epochs": "many"}},
        {"data": {"dataset": "digits"}, "training": {"optimizer": "sdg"}},
        {"data": {"dataset": "digits"}, "training": {"privacy": {"clipp": 1}}},
        {"data": {"dataset": "digits"}, "gate": {"max_tpr": [{"fpr": 0.1}]}},
        {"data": {"dataset": "digits"}, "target": {"weights": "x"}},
    ],
)
def test_the_schema_refuses_what_the_program_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, config_schema())
    with pytest.raises(InputError):
        parsed(toml_text(wrong))
