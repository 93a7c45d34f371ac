"""Values that modules compute on import, from the environment or a file, count however they are reached."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from leakscope.code_identity.walk import CodeIdentity
from tests.code_identity.project import Code

COMPUTED = """
import os, functools
import numpy as np
from collections import deque
from contextvars import ContextVar
from types import SimpleNamespace
DEPTH = int(os.environ["USER_DEPTH"])
STATE = {"depth": DEPTH}
SPACE = SimpleNamespace(depth=DEPTH)
CONTEXT = ContextVar("depth", default=DEPTH)
NOTHING = ContextVar("nothing")
MASKED = np.ma.array([1.0, 2.0], mask=[DEPTH == 3, False])
class Tagged(np.ndarray):
    pass
TAGGED = np.ones(2).view(Tagged)
TAGGED.depth = DEPTH
class Queue(deque):
    pass
QUEUE = Queue([DEPTH])
def default(depth=DEPTH):
    return depth
def with_depth(cls):
    cls.depth = DEPTH
    return cls
@with_depth
class Decorated:
    @functools.cached_property
    def cached(self):
        return DEPTH
class Meta(type):
    def __getattr__(cls, name):
        return DEPTH
class Made(metaclass=Meta):
    pass
class Described:
    def __get__(self, instance, owner):
        return DEPTH
class Owner:
    depth = Described()
import array, typing, torch
from decimal import Decimal
class Layer(torch.Tensor):
    pass
LAYER = torch.full((2,), float(DEPTH)).as_subclass(Layer)
class Rate(Decimal):
    pass
RATE = Rate(DEPTH)
class Rates(array.array):
    pass
RATES = Rates("d", [DEPTH])
class Failed(Exception):
    pass
FAILED = Failed(DEPTH)
class Slotted:
    __slots__ = ("depth",)
    def __reduce_ex__(self, protocol):
        return "SLOTTED"
SLOTTED = Slotted()
SLOTTED.depth = DEPTH
ROWS = np.array([("a", DEPTH)], dtype=[("name", object), ("depth", object)])
KIND = typing.NewType("KIND", int if DEPTH == 3 else float)
"""
LAZY = "import user_values\ndef __getattr__(name):\n    return user_values.STATE[name]\n"


class Way(NamedTuple):
    """How `train` reaches a value: what it returns, what stands before it, and its first line."""

    result: str
    before: str = ""
    inside: str = "pass"
    argument: str = ""


COUNTED = {
    "an attribute": Way("user_values.DEPTH"),
    "getattr": Way("getattr(user_values, 'STATE')['depth']"),
    "getattr by another function": Way("get(user_values)", "def get(m):\n    return getattr(m, 'DEPTH')"),
    "getattr of getattr": Way("getattr(getattr(user_lazy, 'user_values'), 'DEPTH')", "import user_lazy"),
    "vars": Way("vars(user_values)['STATE']['depth']"),
    "the module's dictionary": Way("user_values.__dict__['DEPTH']"),
    "its attribute getter": Way("user_values.__getattribute__('DEPTH')"),
    "globals": Way("globals()['MINE']", "MINE = user_values.DEPTH"),
    "globals by another name": Way("g()['MINE']", "g = globals; MINE = user_values.DEPTH"),
    "attrgetter": Way("get(user_values)", "import operator; get = operator.attrgetter('DEPTH')"),
    "a partial": Way("get('DEPTH')", "import functools; get = functools.partial(getattr, user_values)"),
    "a module in a dictionary": Way("TOOLS['v'].DEPTH", "TOOLS = {'v': user_values}"),
    "a module as a default": Way("m.DEPTH", argument="m=user_values"),
    "a module by a local name": Way("m.DEPTH", inside="m = user_values"),
    "an import within": Way("again.STATE", inside="import user_values as again"),
    "a value imported within": Way("STATE", inside="from user_values import STATE"),
    "a module first imported within": Way("user_late.DEPTH", inside="import user_late"),
    "an attribute that a module makes up": Way("user_lazy.depth", "import user_lazy"),
    "a context variable": Way("user_values.CONTEXT.get()"),
    "a namespace": Way("user_values.SPACE.depth"),
    "a default": Way("user_values.default()"),
    "a class attribute set by a decorator": Way("user_values.Decorated.depth"),
    "a cached property": Way("user_values.Decorated().cached"),
    "a metaclass": Way("user_values.Made.depth"),
    "a descriptor": Way("user_values.Owner().depth"),
    "a weak reference": Way("R()[0]", "import weakref; R = weakref.ref(user_values.QUEUE)"),
    "a queue of a class of the user's": Way("user_values.QUEUE[0]"),
    "the mask of an array": Way("user_values.MASKED.sum()"),
    "an attribute of an array": Way("user_values.TAGGED.depth"),
    "a tensor of a class of the user's": Way("user_values.LAYER"),
    "a number of a class of the user's": Way("user_values.RATE"),
    "numbers of a class of the user's": Way("user_values.RATES[0]"),
    "what an exception was raised with": Way("user_values.FAILED.args"),
    "slots that pickle does not see": Way("user_values.SLOTTED.depth"),
    "an array of several types": Way("user_values.ROWS['depth']"),
    "what a type stands for": Way("user_values.KIND.__supertype__"),
    "a builtin of the user's": Way("USER_DEPTH", "import builtins; builtins.USER_DEPTH = user_values.DEPTH"),
    "a value of this thread": Way(
        "LOCAL.depth", "import threading; LOCAL = threading.local(); LOCAL.depth = user_values.DEPTH"
    ),
}
SAID = {
    "subclasses, which any module may add": Way("user_values.Described.__subclasses__()"),
    "a generator": Way("next(STEPS)", "STEPS = (d for d in [user_values.DEPTH])"),
    "sys.modules": Way("sys.modules['user_values'].DEPTH", "import sys"),
    "sys.modules by another name": Way("loaded['user_values'].DEPTH", "from sys import modules as loaded"),
    "import_module": Way("importlib.import_module('user_values').DEPTH", "import importlib"),
    "import_module by another name": Way("im('user_values')", "from importlib import import_module as im"),
    "resolve_name": Way("pkgutil.resolve_name('user_values:DEPTH')", "import pkgutil"),
    "the text of a constant": Way("eval(TEXT)", "TEXT = 'user_values.DEPTH'"),
    "eval of builtins": Way("builtins.eval('user_values.DEPTH')", "import builtins"),
    "exec by another name": Way("run('1')", "run = exec"),
    "the globals of a function": Way("train.__globals__['user_values'].DEPTH"),
    "a function of a ufunc": Way(
        "F(1)", "import numpy as np; F = np.frompyfunc(lambda x: user_values.DEPTH, 1, 1)"
    ),
    "a library that is loaded later": Way("FFI.dlopen('x.so')", "import cffi; FFI = cffi.FFI()"),
    "a function of torch.ops": Way("LIB('x.so')", "import torch; LIB = torch.ops.load_library"),
    "a pickled table": Way("pandas.read_pickle('a.pkl')", "import pandas"),
    "a module that torch.hub loads": Way("torch.hub.load('.', 'f', source='local')", "import torch"),
    "a module that is found when the code runs": Way(
        "LATE", "import sys", "sys.path.append('a'); import LATE"
    ),
    "a module that fails when it is imported": Way("1", inside="import user_broken"),
}


def identities(code: Code, way: Way, monkeypatch: pytest.MonkeyPatch) -> list[CodeIdentity]:
    """With one value, with the same again, and with another."""
    code.write(
        user_main=f"import user_values\n{way.before}\ndef train({way.argument}):\n    {way.inside}\n"
        f"    return {way.result}\n",
        user_values=COMPUTED,
        user_late=COMPUTED,
        user_lazy=LAZY,
        user_broken="raise OSError('not today')\n",
    )
    found = []
    for depth in ("3", "3", "12"):
        monkeypatch.setenv("USER_DEPTH", depth)
        found.append(code.identity())
    return found


@pytest.mark.parametrize("what", COUNTED)
def test_a_computed_value_counts(what: str, code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    one, same, other = identities(code, COUNTED[what], monkeypatch)
    assert one.unknown == ()
    assert one == same
    assert one.modules == other.modules and one.values != other.values


@pytest.mark.parametrize("what", SAID)
def test_a_value_that_cannot_be_found_is_said(what: str, code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(identity.unknown for identity in identities(code, SAID[what], monkeypatch))


def test_what_nothing_reaches_does_not_count(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    one, same, other = identities(code, Way("user_values.NOTHING"), monkeypatch)
    assert one == same == other
    assert one.unknown == ()


def test_comments_and_docstrings_of_a_module_that_is_passed_around_do_not_count(code: Code) -> None:
    def identity(text: str) -> CodeIdentity:
        code.write(
            user_main="import user_values\ndef train():\n    return vars(user_values)\n", user_values=text
        )
        return code.identity()

    plain = identity("STEPS = [1]\nclass A:\n    def f(self):\n        return 1\n")
    assert plain == identity(
        '"""Doc."""\n# Why\nSTEPS = [1]\n\n\nclass A:\n    """Doc."""\n\n    def f(self):\n'
        '        """Doc."""\n        return (1)  # one\n'
    )


def test_a_function_may_use_arrays(code: Code) -> None:
    code.write(user_main="import numpy as np\nW = np.ones(3)\ndef train():\n    return globals()['W'] + W\n")
    assert code.identity().unknown == ()


ORDINARY = """
import abc, argparse, collections, datetime, decimal, enum, fractions, io, logging, pathlib, sys
import random, re, queue, threading, typing, uuid, weakref
import numpy as np, polars, torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
T = typing.TypeVar("T")
class Color(enum.Enum):
    RED = 1
class Flags(enum.Flag):
    A = enum.auto()
class Base(abc.ABC, typing.Generic[T]):
    @abc.abstractmethod
    def f(self): ...
class Shaped(typing.Protocol):
    x: int
class Options(typing.TypedDict):
    lr: float
class Net(torch.nn.Module):
    pass
VALUES = [
    Color.RED, Flags.A, Options(lr=1.0), Net(), torch.ones(2), torch.device("cpu"), torch.float32,
    np.random.default_rng(0), np.random.RandomState(0), np.float32(1), np.dtype("f4"), random.Random(0),
    polars.DataFrame({"a": [1]}), make_pipeline(StandardScaler()), re.compile("a"), pathlib.Path("a"),
    datetime.timedelta(1), decimal.Decimal(1), fractions.Fraction(1, 2), uuid.UUID(int=1),
    collections.OrderedDict(a=1), collections.deque([1]), collections.Counter("a"),
    collections.defaultdict(list), logging.getLogger("a"), argparse.ArgumentParser("a"), io.StringIO("a"),
    threading.Lock(), threading.RLock(), threading.Condition(), threading.Event(), threading.local(),
    queue.Queue(), list[int], typing.Optional[int], int | None, slice(1), sys.__stderr__, ValueError("a"),
]
def train(records):
    return [getattr(value, "lr", 0) for value in VALUES], Base, Shaped, T
"""


def test_ordinary_values_are_known(code: Code) -> None:
    code.write(user_main=ORDINARY)
    identity = code.identity()
    assert identity.unknown == ()
    assert code.identity() == identity


def test_equal_lambdas_of_one_line_count(code: Code) -> None:
    """They become the same code object where every statement is one line."""
    code.write(user_main="STEPS = (lambda x: x + 1, lambda x: x + 1)\ndef train():\n    return STEPS\n")
    one = code.identity()
    code.write(user_main="STEPS = (lambda x: x + 1, lambda x: x + 2)\ndef train():\n    return STEPS\n")
    assert one.unknown == () and one.values != code.identity().values
