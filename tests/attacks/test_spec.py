"""Attacks as text: every way to write one means the same attack."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from leakscope.attacks import Attack, EbLira, Lira, Rmia, resolve, resolve_all, spec_of
from leakscope.attacks.registry import attack_classes, default_attacks
from leakscope.errors import InputError
from leakscope.options import accepted_values
from leakscope.signals.registry import CLASSIFICATION


@dataclass(frozen=True)
class Wordy(Attack):
    """An attack outside the package, with an option of every type."""

    word: str = "a"
    note: str | None = None
    share: float = 0.5
    count: int | None = 3
    flag: bool = True

    name = "wordy"
    needs = ("loss",)

    def score(self, block):
        return block.of_targets("loss")


VALUES = {
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False),
    str: st.text("aB0_. ,=()'\"\\:/+-[]{}\n\té€", max_size=12)
    | st.sampled_from(["true", "None", "1", "1e3", "NaN", "a, b=c)", "'", '"', "\\", "x:y", "[1]"]),
    type(None): st.none(),
}


@st.composite
def attacks(draw):
    cls = draw(st.sampled_from([*attack_classes().values(), Wordy]))
    options = {}
    for name, accepted in accepted_values(cls).items():
        choices = [VALUES[kind] for kind in accepted.types] + [st.just(value) for value in accepted.values]
        if draw(st.booleans()):
            options[name] = draw(st.one_of(choices))
    try:
        return cls(**options)
    except InputError:  # options that exclude each other
        reject()


@given(attacks())
def test_the_text_of_an_attack_means_the_same_attack(attack):
    again = resolve(spec_of(attack))
    assert again == attack and hash(again) == hash(attack)
    assert again.label == attack.label


@given(attacks())
def test_a_table_of_options_means_the_same_attack(attack):
    name = spec_of(attack).partition("(")[0]
    options = {field.name: getattr(attack, field.name) for field in fields(attack)}
    assert resolve(json.loads(json.dumps({"name": name, **options}))) == attack


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("lira", Lira()),
        ("lira()", Lira()),
        (" lira ( online = False , tail = 'pdf' ) ", Lira(online=False, tail="pdf")),
        ('lira(variance="record")', Lira(variance="record")),
        ({"name": "rmia", "gamma": 2}, Rmia(gamma=2.0)),
        (Lira(online=False), Lira(online=False)),
        (f"{__name__}:Wordy(word='a, b')", Wordy(word="a, b")),
    ],
)
def test_ways_to_write_an_attack(spec, expected):
    assert resolve(spec) == expected


def test_labels_show_what_differs_from_the_defaults():
    assert [a.label for a in (Lira(), Lira(online=False), Rmia(gamma=3), Wordy(word="a b"))] == [
        "lira", "lira(online=false)", "rmia(gamma=3.0)", 'wordy(word="a b")',
    ]  # fmt: skip
    assert spec_of(Wordy(flag=False)) == f"{__name__}:Wordy(flag=false)"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lirra", "attack='lirra' is unknown; did you mean 'lira'\\? choose from base, base_model, "),
        (
            "lira(onlin=false)",
            "unknown option onlin; did you mean 'online'\\? it takes centre, leave_out, online",
        ),
        ("loss(power=2)", "unknown option power; it takes none"),
        ("lira(online=yes)", "online='yes': expected true or false"),
        ("lira(variance=wide)", "variance='wide': expected fixed \\| record \\| global"),
        ("eb_lira(n_types=2.5)", "n_types=2.5: expected an integer"),
        ("lira(online=false", "the bracket is not closed"),
        ("lira(online)", "'online' is not `option=value`"),
        ("lira(online=true, online=false)", "online is given twice"),
        ("no_such_module:Attack", "cannot be imported"),
        ("json:dumps", "is not a subclass of leakscope.Attack"),
        ({"online": False}, "give its `name`"),
        (3, "expected a name, a table with `name`, or an Attack object"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy(spec, message):
    with pytest.raises(InputError, match=message) as caught:
        resolve(spec)
    assert "\n" not in str(caught.value)


def test_several_attacks_count_once_and_must_differ_in_label(tmp_path):
    assert resolve_all(["lira", Lira(), "lira(online=false)"]) == (Lira(), Lira(online=False))
    with pytest.raises(InputError, match=r"attacks=\[\]: choose from"):
        resolve_all([])

    class Lookalike(EbLira):
        pass

    with pytest.raises(InputError, match="two different attacks are called 'eb_lira'"):
        resolve_all(["eb_lira", Lookalike()])


def test_a_module_in_the_given_folder_is_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "attack_in_a_folder.py").write_text(
        "from leakscope import Attack\n"
        "class Twice(Attack):\n"
        "    name = 'twice'\n"
        "    needs = ('log_odds',)\n"
        "    def score(self, block):\n"
        "        return 2 * block.of_targets('log_odds')\n"
    )
    attack = resolve("attack_in_a_folder:Twice", tmp_path)
    assert attack.label == "twice" and spec_of(attack) == "attack_in_a_folder:Twice"


def test_default_attacks_by_audit():
    def names(audit):
        return [attack.label for attack in default_attacks(audit, CLASSIFICATION)]

    assert names("population") == ["correctness", "loss", "lira", "eb_lira"]
    assert names("alone") == ["correctness", "loss", "population"]
    assert names("references") == ["correctness", "loss", "population", "lira", "eb_lira"]
    offline = ["correctness", "loss", "population", "reference", "calibrated", "eb_lira(online=false)"]
    assert names("out_references") == offline


@pytest.fixture
def installed_package(tmp_path, monkeypatch):
    """Installs a tiny package that offers an attack of the given class."""

    def install(class_name, source):
        (tmp_path / "tiny_attacks.py").write_text(source)
        info = tmp_path / "tiny_attacks-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-attacks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[leakscope.attacks]\ntiny = tiny_attacks:{class_name}\n")
        monkeypatch.syspath_prepend(tmp_path)
        attack_classes.cache_clear()

    yield install
    attack_classes.cache_clear()
    sys.modules.pop("tiny_attacks", None)


TINY = """
from dataclasses import dataclass
from leakscope import Attack

@dataclass(frozen=True)
class Tiny(Attack):
    power: float = 1.0
    name = "{name}"
    needs = ("log_odds",)
    default_for = ("population",)

    def score(self, block):
        return block.of_targets("log_odds") * self.power
"""


def test_an_installed_package_brings_an_attack_by_name(installed_package):
    installed_package("Tiny", TINY.format(name="tiny"))
    attack = resolve("tiny(power=2)")
    assert spec_of(attack) == "tiny(power=2.0)" and resolve(spec_of(attack)) == attack
    assert "tiny" not in [
        a.name for a in default_attacks("population", CLASSIFICATION)
    ]  # results do not depend on packages


@pytest.mark.parametrize(
    ("class_name", "name", "message"),
    [
        ("Tiny", "lira", "an attack named 'lira' exists already"),
        ("Absent", "tiny", "tiny_attacks:Absent of an installed package cannot be imported"),
        ("dataclass", "tiny", "tiny_attacks:dataclass is not a subclass of leakscope.Attack"),
    ],
)
def test_a_package_with_a_wrong_attack_is_named(installed_package, class_name, name, message):
    installed_package(class_name, TINY.format(name=name))
    with pytest.raises(InputError, match=message):
        resolve("lira")
