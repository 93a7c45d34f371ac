"""What a module does when it is imported, as far as its source says it.

Caches and installed libraries may hold values that a user's module has computed on import. They may also hold
what a training has left there, or what another machine has, which must not count. The source tells them
apart: it names what it reads, calls and sets.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from leakscope.code_identity.source import chains_in, name_of_callee

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_held_at_first: dict[int, tuple[object, frozenset[Any]]] = {}
"""By id: objects, and which values they had cached when they were first looked at."""


class OnImport(NamedTuple):
    """What modules do when they are imported.

    Attributes:
        reads: names of attributes that they read.
        sets: names of attributes that they set.
        calls: names of functions that they call with constants alone, and these constants.
    """

    reads: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    calls: frozenset[tuple[str, tuple[Any, ...]]] = frozenset()

    def and_of(self, tree: ast.Module) -> OnImport:
        """The same of these modules and of another."""
        nodes = list(_nodes_on_import(tree))
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        return OnImport(
            self.reads | {node.attr for node in attributes if isinstance(node.ctx, ast.Load)},
            self.sets
            | {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
            | _set_by(calls),
            self.calls | {(name_of_callee(call), _constants(call)) for call in calls if _has_constants(call)},
        )


def put_into_libraries(
    value: FunctionType, names: Set[str], is_users: Callable[[str], bool]
) -> Iterator[tuple[str, Any]]:
    """What a function takes from modules of others under one of these names, which a user's module sets.

    Not from `sys`, which says where Python and its modules are.
    """
    for first, *attributes in chains_in(value.__code__):
        path, loaded = first, value.__globals__.get(first)
        while isinstance(loaded, ModuleType) and attributes and attributes[0] in vars(loaded):
            owner, name = loaded, attributes.pop(0)
            path, loaded = f"{path}.{name}", vars(owner)[name]
            is_set = name in names and owner is not sys and not isinstance(loaded, ModuleType)
            if is_set and not is_users(owner.__name__):
                yield f"set {path}", loaded


def returned_on_import(cache: Any, done: OnImport) -> Iterator[tuple[str, Any]]:
    """What a function behind `lru_cache` has returned to calls on import and will return again."""
    name = getattr(cache, "__name__", "")
    calls = {constants for called, constants in done.calls if called == name}
    for constants in sorted(_at_first(cache, {call for call in calls if _is_cached(cache, call)}), key=repr):
        if _is_cached(cache, constants):
            yield f"returned to {constants!r}", cache(*constants)


def computed_on_import(value: object, done: OnImport) -> frozenset[str]:
    """Cached properties of an object that were computed on import."""
    classes = type(value).__mro__
    cached = {name for name in done.reads for base in classes if _is_cached_property(vars(base).get(name))}
    return _at_first(value, cached & getattr(value, "__dict__", {}).keys()) if cached else frozenset()


def _is_cached_property(value: object) -> bool:
    return isinstance(value, functools.cached_property)


def _at_first(holder: object, held: Set[Any]) -> frozenset[Any]:
    """What an object held when it was first looked at: not what a training has added since."""
    return _held_at_first.setdefault(id(holder), (holder, frozenset(held)))[1]


def _is_cached(cache: Any, constants: tuple[Any, ...]) -> bool:
    is_its_own_key = len(constants) == 1 and type(constants[0]) in (int, str)
    key = constants[0] if is_its_own_key else constants
    held = [part for part in gc.get_referents(cache) if type(part) is dict and part is not vars(cache)]
    return any(key in part for part in held)


def _nodes_on_import(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs on import, and the functions of the module that it calls by their names."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Call):
            called = functions.pop(getattr(node.func, "id", ""), None)
            waiting += called.body if called is not None else []
        if isinstance(node, _DEFINITIONS):
            waiting += [*node.decorator_list, node.args]
        elif isinstance(node, ast.If) and _is_of_a_script(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_of_a_script(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def _set_by(calls: Iterable[ast.Call]) -> set[str]:
    """Names that `setattr(module, "name", value)` sets."""
    names = [call.args[1] for call in calls if name_of_callee(call) == "setattr" and len(call.args) == 3]
    return {str(name.value) for name in names if isinstance(name, ast.Constant)}


def _has_constants(call: ast.Call) -> bool:
    return not call.keywords and all(isinstance(argument, ast.Constant) for argument in call.args)


def _constants(call: ast.Call) -> tuple[Any, ...]:
    return tuple(argument.value for argument in call.args if isinstance(argument, ast.Constant))
