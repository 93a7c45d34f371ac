"""Objects, taken apart: a text, and the objects they depend on."""

from __future__ import annotations

import builtins
import copyreg
import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import CellType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.code_identity.source import chains_in, code_digest, global_names, names_in
from leakscope.types import digest_arrays

Parts = Iterable[tuple[str, Any]]
"""Named objects that another depends on."""
_NOTED_BY_PYTHON = frozenset(
    {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__path__", "__cached__",
     "__builtins__", "__annotations__", "__annotate__", "__conditional_annotations__", "__warningregistry__"}
)  # fmt: skip
_BUILTIN_VALUES = frozenset({"None", "True", "False", "Ellipsis", "NotImplemented", *_NOTED_BY_PYTHON})
_MODULES_OF_BUILTINS = ("builtins", "_sitebuiltins", "io", "_io")
_OF_A_DECORATOR = frozenset({"func", "attrname", "lock", "__wrapped__", *functools.WRAPPER_ASSIGNMENTS})
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_CONTENT: tuple[Any, ...] = (
    dict, list, tuple, set, frozenset, deque, str, bytes, bytearray, int, float, complex,
)  # fmt: skip


class ModuleByName(NamedTuple):
    """A module of which code uses only attributes that it names; they are counted beside it."""

    module: ModuleType


class Shape(NamedTuple):
    """An object, as a text and the objects it depends on.

    Attributes:
        text: what it is.
        parts: objects it depends on.
        parts_in_source: more of them, which a source that counts builds: of a lock or a file that it makes,
            nothing is unknown.
    """

    text: str
    parts: Parts = ()
    parts_in_source: Parts = ()


def enclosed(value: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function carries with it."""
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    yield from ((name, cell.cell_contents) for name, cell in cells if _is_filled(cell))
    yield "defaults", (value.__defaults__, value.__kwdefaults__)
    yield from ((f"attribute {name}", inner) for name, inner in sorted(vars(value).items()))


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a variable that has no value yet
        return False


def globals_of(value: FunctionType, is_users: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """The globals that a function names, and what it may use of modules of the user's among them.

    Of a module that only gives attributes (`module.name`), these are what the function names. A module that
    is used in any other way, such as `getattr(module, name)`, may give anything it has.
    """
    names = names_in(value.__code__)
    whole = [used for used in loaded_by(value) if isinstance(used, ModuleType)]
    known = {**dict(_added_to_builtins(value)), **value.__globals__}
    waiting = [(name, known[name]) for name in global_names(value.__code__) if name in known]
    while waiting:
        name, used = waiting.pop(0)
        yield name, ModuleByName(used) if isinstance(used, ModuleType) else used
        if isinstance(used, ModuleType) and name.count(".") < 8 and is_users(used.__name__):
            inside = globals_in(vars(used))
            if used in whole:
                yield from ((f"{name}.{inner}", inside[inner]) for inner in inside)
            else:
                waiting += [(f"{name}.{inner}", inside[inner]) for inner in names if inner in inside]


def _added_to_builtins(value: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function takes from the builtins and Python did not put there, such as `builtins.LR = 0.1`."""
    for name in global_names(value.__code__):
        found = vars(builtins).get(name)
        is_pythons = name in _BUILTIN_VALUES or getattr(found, "__module__", None) in _MODULES_OF_BUILTINS
        if name in vars(builtins) and not is_pythons:
            yield name, found


def globals_in(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What a module has computed and imported, without what Python notes about it."""
    return {name: value for name, value in sorted(namespace.items()) if name not in _NOTED_BY_PYTHON}


def loaded_by(value: FunctionType) -> Iterator[Any]:
    """What a function takes from globals and builtins, and from modules among them by attribute.

    Of `module.inner.f.x`, that is `f`. A module is what is taken where the function passes it on, or asks it
    for something that it does not have as a global, such as `__dict__`.
    """
    for first, *attributes in chains_in(value.__code__):
        loaded = value.__globals__.get(first, getattr(builtins, first, None))
        while isinstance(loaded, ModuleType) and attributes and attributes[0] in vars(loaded):
            loaded = vars(loaded)[attributes.pop(0)]
        yield loaded


def attribute(value: Any) -> Any:
    """What an attribute of a class runs.

    A method that a decorator such as `dataclass` generated has no source; its code is compared as it is.
    """
    if isinstance(value, property):
        return _decorated(value, value.fget, value.fset, value.fdel)
    if isinstance(value, functools.cached_property):
        return _decorated(value, value.func)
    if isinstance(value, staticmethod | classmethod):
        if type(value) not in (staticmethod, classmethod):
            return _decorated(value, value.__func__)
        value = value.__func__
    inner = inspect.unwrap(value) if callable(value) else value
    if not isinstance(inner, FunctionType) or not inner.__code__.co_filename.startswith("<"):
        return value
    digest, has_source = code_digest(inner.__code__)
    used = {name: inner.__globals__.get(name) for name in global_names(inner.__code__)}
    return value if has_source else (digest, dict(enclosed(inner)), used)


def _decorated(value: Any, *functions: Any) -> Any:
    """The functions behind a property; of one of the user's making also its class and attributes."""
    if type(value) in (property, functools.cached_property):
        return functions
    own = {name: inner for name, inner in vars(value).items() if name not in _OF_A_DECORATOR}
    return type(value), functions, own


def attributes_of(value: Any, computed: Set[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Attributes of an object; of its cached properties only these. The content of a container, too."""
    cls = type(value)
    slots = {
        name for base in cls.__mro__ for name, a in vars(base).items() if isinstance(a, MemberDescriptorType)
    }
    own = getattr(value, "__dict__", {})
    attributes = {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **own}
    for name, inner in sorted(attributes.items()):
        if name in computed or not isinstance(getattr(cls, name, None), functools.cached_property):
            yield name, inner
    contents: list[Any] = [content(value) for content in _CONTENT if isinstance(value, content)]
    yield from (("content", content) for content in contents)


def inherited(value: Any, is_users: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """What an object of the user's holds beside its attributes, such as the number that a `Decimal` is.

    The class that it comes from says it, whatever the user's own class says to `pickle`.
    """
    for base in type(value).__mro__[:-1]:
        reduce = vars(base).get("__reduce_ex__") or vars(base).get("__reduce__")
        if reduce is not None and not is_users(str(base.__module__)):
            protocol = (4,) if "__reduce_ex__" in vars(base) else ()
            parts = _parts_of_copy(reduce(value, *protocol))
            # A dictionary as state is that of the attributes.
            yield from ((name, part) for name, part in parts if type(part) is not dict)
            return


def copied(value: Any) -> Iterator[tuple[str, Any]]:
    """What `copy` and `pickle` make the object from."""
    if isinstance(value, np.ufunc) and value.__name__.endswith("(vectorized)"):
        raise TypeError("numpy keeps the function that this one calls to itself")
    reduce = copyreg.dispatch_table.get(type(value))
    reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    yield from _parts_of_copy(reduced)
    if isinstance(reduced, str):  # such as what a cache or a `NewType` stands for
        yield from globals_in(getattr(value, "__dict__", {})).items()


def _parts_of_copy(reduced: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(reduced, str):
        yield "name", reduced
        return
    for name, part in zip(("function", "arguments", "state", "items", "pairs"), reduced, strict=False):
        yield name, list(part) if name in ("items", "pairs") and part is not None else part


def mapping(value: Mapping[Any, Any]) -> Shape:
    """A dictionary."""
    keys = [(f"key {index}", key) for index, key in enumerate(value)]
    values = [(key if type(key) is str else f"value {at}", value[key]) for at, key in enumerate(value)]
    return Shape("dict", [*keys, *values])


def partial(value: functools.partial[Any]) -> Shape:
    """A function with some of its arguments."""
    arguments = [(f"argument {index}", argument) for index, argument in enumerate(value.args)]
    named = sorted({**value.keywords, **vars(value)}.items())
    return Shape("partial", [("class", type(value)), ("function", value.func), *arguments, *named])


def array(value: AnyArray) -> Shape:
    """An array of numbers, texts or objects, and what a subclass of arrays holds besides."""
    besides = list(_besides_numbers(value))
    if value.dtype.kind in "OT" or value.dtype.hasobject:
        return Shape(f"array {value.dtype} {value.shape}", [("items", value.tolist()), *besides])
    return Shape(f"array {digest_arrays(np.asarray(value))}", besides)


def _besides_numbers(value: AnyArray) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ma.MaskedArray):
        yield "mask", np.ma.getmaskarray(value)
        yield "fill value", np.asarray(value.fill_value)
    elif type(value) not in (np.ndarray, np.memmap):  # a memmap notes where its file is
        yield "class", type(value)
        yield from sorted(vars(value).items())


def tensor(value: Any) -> Shape:
    """A tensor of torch: its numbers, whether they are trained, and what it holds besides."""
    torch: Any = sys.modules["torch"]
    content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    text = f"tensor {value.dtype} {tuple(value.shape)} {value.requires_grad} {digest_arrays(content)}"
    hooks = [list((getattr(value, name, None) or {}).values()) for name in _HOOKS]
    return Shape(text, [("class", type(value)), ("hooks", hooks), *sorted(vars(value).items())])
