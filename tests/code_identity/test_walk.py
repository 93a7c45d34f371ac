"""What counts as a user's code, attacked from the sides that an edit of a plain file does not show."""

from __future__ import annotations

import functools
import linecache
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from leakscope.code_identity.walk import CodeIdentity, code_identity
from tests.code_identity.project import Code, printed_by

EDITED_FILES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a module imported within the function": (
        {
            "user_main": "def train():\n    import user_other\n    return user_other.N\n",
            "user_other": "N = 1\n",
        },
        {"user_other": "N = 2\n"},
    ),
    "a module that an imported module imports within a function": (
        {
            "user_main": "from user_other import f\ndef train():\n    return f()\n",
            "user_other": "def f():\n    from user_third import g\n    return g()\n",
            "user_third": "def g():\n    return 1\n",
        },
        {"user_third": "def g():\n    return 2\n"},
    ),
    "a relative import": (
        {
            "user_main": "from user_pack.inner import train\n",
            "user_pack____init__": "",
            "user_pack__inner": "from . import outer\nfrom .outer import f\ndef train():\n    return f()\n",
            "user_pack__outer": "def f():\n    return 1\n",
        },
        {"user_pack__outer": "def f():\n    return 2\n"},
    ),
    "the __init__ of a package": (
        {
            "user_main": "from user_pack.inner import train\n",
            "user_pack____init__": "import torch\n",
            "user_pack__inner": "def train():\n    return 1\n",
        },
        {"user_pack____init__": "import torch\ntorch.set_default_dtype(torch.float32)\n"},
    ),
    "a decorator": (
        {
            "user_main": "from user_other import twice\n@twice\ndef train():\n    return 1\n",
            "user_other": "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g():\n"
            "        return 2 * f()\n    return g\n",
        },
        {
            "user_other": "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g():\n"
            "        return 3 * f()\n    return g\n"
        },
    ),
    "a function behind a cache": (
        {"user_main": "import functools\n@functools.lru_cache\ndef train():\n    return 1\n"},
        {"user_main": "import functools\n@functools.lru_cache\ndef train():\n    return 2\n"},
    ),
    "a function that is looked up by name": (
        {
            "user_main": "import user_other\ndef train():\n    return getattr(user_other, 'f' + 'g')()\n",
            "user_other": "def fg():\n    return 1\n",
        },
        {"user_other": "def fg():\n    return 2\n"},
    ),
    "a module that is not imported for types alone": (
        {
            "user_main": "import typing as t\nif not t.TYPE_CHECKING:\n    import user_other\n"
            "def train():\n    return 1\n",
            "user_other": "import torch\n",
        },
        {"user_other": "import torch\ntorch.set_default_dtype(torch.float32)\n"},
    ),
    "what an import registers": (
        {
            "user_main": "import user_other as o, user_third\ndef train():\n    return o.LOSSES['l1']()\n",
            "user_other": "LOSSES = {}\n",
            "user_third": "import user_other\nuser_other.LOSSES['l1'] = lambda: 1\n",
        },
        {"user_third": "import user_other\nuser_other.LOSSES['l1'] = lambda: 2\n"},
    ),
}


@pytest.mark.parametrize("what", EDITED_FILES)
def test_an_edit_of_any_file_that_runs_is_noticed(what: str, code: Code) -> None:
    files, edited = EDITED_FILES[what]
    code.write(**files)
    first = code.identity()
    assert code.identity() == first
    code.write(**edited)
    assert code.identity() != first
    assert first.unknown == ()


EDITED_LINES = {
    "a number": ("def train():\n    return 1\n", "return 1", "return 1.0"),
    "a truth": ("def train():\n    return 1\n", "return 1", "return True"),
    "what a try covers": (
        "def train(a, b):\n    try:\n        a()\n    finally:\n        print()\n        b()\n",
        "        b()", "    b()",
    ),
    "a class within a function": (
        "def train():\n    class A:\n        x = 1\n    return A\n", "x = 1", "x = 2",
    ),
    "a metaclass": (
        "class M(type):\n    def __call__(self):\n        return 1\nclass train(metaclass=M):\n    pass\n",
        "return 1", "return 2",
    ),
    "a registered function": (
        "import functools\n@functools.singledispatch\ndef f(x):\n    return 0\n@f.register\n"
        "def _(x: int):\n    return 1\ndef train():\n    return f(1)\n", "return 1", "return 2",
    ),
    "an enumeration": (
        "from enum import Enum\nclass E(Enum):\n    A = 1\ndef train():\n    return E.A\n", "A = 1", "A = 2",
    ),
    "a default of a data class": (
        "from dataclasses import dataclass\n@dataclass\nclass O:\n    lr: float = 0.1\n"
        "def train():\n    return O()\n", "0.1", "0.2",
    ),
    "a property of the user's making": (
        "class P(property):\n    def __get__(self, o, t=None):\n        return 2\nclass train:\n    @P\n"
        "    def x(self):\n        return 1\n", "return 2", "return 3",
    ),
    "a value of a property of the user's making": (
        "class P(property):\n    def __init__(self, f, k):\n        super().__init__(f)\n        self.k = k\n"
        "class train:\n    x = P(len, 2)\n", "len, 2", "len, 3",
    ),
    "a cached property of the user's making": (
        "import functools\nclass P(functools.cached_property):\n    def __get__(self, o, t=None):\n"
        "        return 2\nclass train:\n    @P\n    def x(self):\n        return 1\n",
        "return 2", "return 3",
    ),
    "a static method of the user's making": (
        "class P(staticmethod):\n    def __call__(self):\n        return 2\nclass train:\n    @P\n"
        "    def x():\n        return 1\n", "return 2", "return 3",
    ),
    "a partial of the user's making": (
        "import functools\nclass P(functools.partial):\n    def __call__(self):\n        return 2\n"
        "train = P(len)\n", "return 2", "return 3",
    ),
    "a frozen weight": (
        "import torch\nW = torch.ones(2, requires_grad=False)\ndef train():\n    return W\n", "False", "True",
    ),
    "a hook of a weight": (
        "import torch\nW = torch.ones(2, requires_grad=True)\nW.register_hook(lambda g: 2 * g)\n"
        "def train():\n    return W\n", "2 * g", "3 * g",
    ),
    "a function put into a library": (
        "import numpy as np\nnp.user_log = lambda x: 2 * x\ndef train():\n    return np.user_log(1)\n",
        "2 * x", "3 * x",
    ),
    "a method put into a class of a library": (
        "import sklearn.svm as svm\nsvm.LinearSVC.user_fit = lambda self: 2\n"
        "def train():\n    return svm.LinearSVC()\n", "self: 2", "self: 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", EDITED_LINES)
@pytest.mark.parametrize("whole", [True, False])
def test_an_edit_of_a_line_is_noticed(what: str, whole: bool, code: Code) -> None:
    """Also by the objects alone, as in a notebook: without the digests of whole modules."""
    text, old, new = EDITED_LINES[what]
    assert text.count(old) == 1

    def digests(text: str) -> CodeIdentity:
        code.write(user_main=text)
        return code.identity() if whole else replace(code.identity(), modules={})

    assert digests(text) == digests(text + "# a comment\n") != digests(text.replace(old, new))


def test_files_that_do_not_run_do_not_count(code: Code) -> None:
    code.write(user_main="from user_other import N\ndef train():\n    return N\n", user_other="N = 1\n")
    code.write(user_unrelated="M = 1\n")
    first = code.identity()
    code.write(user_unrelated="M = 2\n")
    assert code.identity() == first
    assert set(first.modules) == {"user_main", "user_other"}


def test_comments_docstrings_and_layout_leave_no_trace(code: Code) -> None:
    code.write(
        user_main="N = 1\nclass A:\n    def f(self, x): return [x, (N)]\n"
        "def train(a=1):\n    while True:\n        pass\n    if a: return A().f(a)\n"
    )
    first = code.identity()
    code.write(
        user_main='"""Doc."""\n# A comment\nN = 1\n"""About N."""\n\nclass A:\n    "Doc."\n\n    def f(\n'
        '        self,\n        x,\n    ):\n        """Doc."""\n        return [  # here\n            x,\n'
        "            N,\n        ]\n\n\ndef train(a = 1):\n    'Doc.'\n    while True: pass\n    if a:\n"
        "        return (A()\n            .f(a))\n"
    )
    assert code.identity() == first


ENCLOSED: dict[str, Callable[[Any, Any], Any]] = {
    "a closure": lambda module, value: module.made(value),
    "a closure within a closure": lambda module, value: module.made(module.made(value)),
    "a partial's argument": lambda module, value: functools.partial(module.train, value),
    "a partial's keyword": lambda module, value: functools.partial(module.train, a=value),
    "an attribute": lambda module, value: module.Trainer(value),
    "an attribute that pickle would not see": lambda module, value: module.Secretive(value),
    "an attribute in slots": lambda module, value: module.Slotted(value),
    "a bound method": lambda module, value: module.Trainer(value).run,
    "an item of a container of the user's": lambda module, value: module.Steps([value]),
    "the class itself": lambda module, value: type("Made", (module.Trainer,), {"extra": value})(0),
}
HOLDERS = """
def train(a=1):
    return a
def made(value):
    return lambda: value
class Trainer:
    def __init__(self, value):
        self.value = value
    def __call__(self):
        return self.value
    def run(self):
        return self.value
class Secretive(Trainer):
    def __getstate__(self):
        return {}
class Slotted:
    __slots__ = ("value",)
    def __init__(self, value):
        self.value = value
class Steps(list):
    pass
"""


@pytest.mark.parametrize("what", ENCLOSED)
def test_values_count_that_no_file_shows(what: str, code: Code) -> None:
    code.write(user_main=HOLDERS)
    module = code.load()
    one, same, other = (code_identity(train=ENCLOSED[what](module, value)) for value in (2.5, 2.5, 3.5))
    assert one == same != other
    assert one.unknown == ()


def test_values_that_a_file_reads_from_elsewhere_count(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    code.write(
        user_main="import user_other\ndef train():\n    return user_other.EPOCHS\n",
        user_other="import os\nEPOCHS = int(os.environ['USER_EPOCHS'])\n",
    )
    monkeypatch.setenv("USER_EPOCHS", "3")
    first = code.identity()
    monkeypatch.setenv("USER_EPOCHS", "60")
    assert code.identity() != first


def test_what_was_replaced_at_run_time_counts(code: Code) -> None:
    code.write(
        user_main="import user_other\ndef train():\n    return user_other.f()\n",
        user_other="def f():\n    return 1\ndef g():\n    return 2\n",
    )
    module = code.load()
    first = code_identity(train=module.train)
    module.user_other.f = module.user_other.g
    assert code_identity(train=module.train) != first


def test_a_file_edited_after_its_import_is_not_what_runs(code: Code) -> None:
    """Models of the old code must not pass as those of the new one."""
    old, new = "def f():\n    return 1\n", "def f():\n    return 2\n"
    code.write(user_main="import user_other\ndef train():\n    return user_other.f()\n", user_other=old)
    module = code.load()
    code.write(user_other=new)
    stale = code_identity(train=module.train)
    assert "edited after it was imported" in stale.unknown[0]
    fresh = code.identity()
    assert (stale.modules, stale.values) != (fresh.modules, fresh.values)


UNKNOWN = {
    "a function that runs text": "def train(text):\n    exec(text)\n",
    "a helper that evaluates": "def f(text):\n    return eval(text)\ndef train():\n    return f('1')\n",
    "a function that exec made": "exec('def train():\\n    return 1\\n')\n",
    "a module of any name": "import importlib\ndef train(n):\n    return importlib.import_module(n)\n",
    "another program": "import subprocess\ndef train():\n    subprocess.run(['train'])\n",
    "another program by its function": "from subprocess import run\ndef train():\n    run(['train'])\n",
    "another program, imported within": "def train():\n    import subprocess as s\n    s.run(['train'])\n",
    "the shell": "import os\ndef train():\n    os.system('train')\n",
    "a library in C": "import ctypes\ndef train():\n    ctypes.CDLL('x.so')\n",
    "a module in C": "import user_c\ndef train():\n    pass\n",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_cannot_be_known_is_said(what: str, code: Code) -> None:
    (code.folder / "user_c.so").write_bytes(b"not really")
    code.write(user_main="try:\n" + "".join(f"    {line}\n" for line in UNKNOWN[what].splitlines())
               + "except ImportError:\n    def train():\n        pass\n")  # fmt: skip
    identity = code.identity()
    assert len(identity.unknown) == 1, identity.unknown


@pytest.mark.parametrize("name", [None, "nowhere", "__main__"])
def test_what_exec_builds_is_compared_all_the_same(name: str | None) -> None:
    def built(text: str) -> CodeIdentity:
        namespace: dict[str, Any] = {"__name__": name} if name else {}
        exec(f"class Trainer:\n    def __call__(self):\n        return {text}\n", namespace)
        return code_identity(train=namespace["Trainer"]())

    one, same, other = built("1"), built("1"), built("2")
    assert one == same != other


def test_ordinary_code_is_known(code: Code) -> None:
    code.write(
        user_main="import logging, re, threading\nfrom dataclasses import dataclass, field\n"
        "from collections import namedtuple\nimport numpy as np\nimport torch\nfrom torch import nn\n"
        "LOCK, LOG, WORD = threading.Lock(), logging.getLogger(__name__), re.compile('a+')\n"
        "Pair = namedtuple('Pair', 'a b')\n@dataclass\nclass Options:\n    lr: float = 0.1\n"
        "    steps: list = field(default_factory=lambda: [1])\n"
        "    @property\n    def half(self):\n        return self.lr / 2\n"
        "@torch.no_grad()\ndef evaluate(model):\n    model.eval()\n    return torch.relu(torch.ones(2))\n"
        "def train(records, options=Options()):\n    with LOCK:\n        LOG.info(WORD.sub('', 'a'))\n"
        "        return Pair(evaluate(nn.Linear(2, 2)), np.log(options.half))\n"
    )
    identity = code.identity()
    assert identity.unknown == ()
    assert {"numpy", "python", "torch"} <= set(identity.packages)
    assert code.identity() == identity


def test_a_value_that_cannot_be_compared_is_said_only_where_no_source_makes_it(code: Code) -> None:
    code.write(user_main=HOLDERS)
    identity = code_identity(train=code.load().made(threading.Lock()))
    assert identity.unknown == ("train.value is lock, which cannot be compared",)


def test_installed_packages_count_by_version_not_by_source(code: Code) -> None:
    site = code.folder / "site-packages"
    info = site / "user_lib-1.0.dist-info"
    info.mkdir(parents=True)
    sys.path.append(str(site))  # the fixture restores it
    code.write(user_main="import user_lib\ndef train():\n    return user_lib.f()\n")

    def identity(version: str, result: int) -> CodeIdentity:
        (info / "METADATA").write_text(f"Name: user_lib\nVersion: {version}\n")
        (site / "user_lib.py").write_text(f"def f():\n    return {result}\n")
        program = (
            "from leakscope.code_identity.walk import code_identity; import user_main; "
            "print(code_identity(train=user_main.train))"
        )
        return eval(printed_by(program, [code.folder, site]), {"CodeIdentity": CodeIdentity})

    first = identity("1.0", 1)
    assert first.packages["user_lib"] == "1.0" and set(first.modules) == {"user_main"}
    assert identity("1.0", 2) == first
    assert identity("1.1", 2).packages["user_lib"] == "1.1"


def test_in_a_notebook_only_what_is_used_counts() -> None:
    def run_cells(*cells: str) -> CodeIdentity:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for number, cell in enumerate(cells):
            name = f"<cell {number} {hash(cells)}>"
            linecache.cache[name] = len(cell), None, cell.splitlines(True), name
            exec(compile(cell, name, "exec", dont_inherit=True), namespace)
        return code_identity(train=namespace["train"])

    helper, cell = "EPOCHS = 3\ndef f():\n    return EPOCHS\n", "def train():\n    return f()\n"
    first = run_cells(helper, cell, "models = 16\n")
    assert first.unknown == ()
    assert run_cells(helper, f"# the same\n\n{cell}", "models = 32\n") == first
    assert run_cells(helper.replace("3", "60"), cell) != first
    assert run_cells(helper.replace("return EPOCHS", "return -EPOCHS"), cell) != first
    future = "from __future__ import annotations\n"
    assert run_cells(helper, future + cell).unknown == ()
    assert run_cells(helper, cell.replace("f()", "globals()['f']()")).unknown
