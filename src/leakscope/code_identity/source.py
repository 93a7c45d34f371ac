"""Digests of code in which comments, docstrings and layout leave no trace.

A module counts by its syntax tree. A function counts by its compiled code, because that is what runs: the
code is looked up in its source, and the same function compiled from a tree without docstrings, one statement
per line, takes its place. Code that is not in its source has been built at run time, or its file has been
edited since it was imported.
"""

from __future__ import annotations
import __future__

import ast
import dis
import hashlib
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from operator import or_
from types import CodeType
from typing import Any, NamedTuple

_FUTURE = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_BLOCKS = ("body", "orelse", "finalbody")
_Key = tuple[str, bytes, str]


class ModuleSource(NamedTuple):
    """Digest of a module's source, full names of the modules it imports anywhere, and its syntax tree."""

    digest: str
    imports: tuple[str, ...]
    tree: ast.Module


def sha256_of_text(*parts: str) -> str:
    """Sha256 of texts, in order."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def module_source(text: bytes, module: str, is_package: bool) -> ModuleSource:
    """What the source of a module says; one that is no Python counts by its bytes."""
    try:
        tree = _without_docstrings(ast.parse(text))
    except (SyntaxError, ValueError):
        return ModuleSource(hashlib.sha256(text).hexdigest(), (), ast.Module([], []))
    package = module if is_package else module.rpartition(".")[0]
    return ModuleSource(sha256_of_text(ast.dump(tree)), tuple(dict.fromkeys(_imports(tree, package))), tree)


def code_digest(code: CodeType) -> tuple[str, bool]:
    """Digest of a function's code, and whether its source has it."""
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    plain = _plain_codes(text, code.co_flags & _FUTURE).get(_key(code)) if text else None
    return _digest(plain or code), plain is not None


def calls_in(code: CodeType) -> list[ast.Call]:
    """The calls in the source of the code; one that cannot be read has none."""
    text = "".join(linecache.getlines(code.co_filename))
    lines = {line for part in _all_codes(code) for _, _, line in part.co_lines()}
    return [call for call in _calls(text) if call.lineno in lines]


def name_of_callee(call: ast.Call) -> str:
    """The last name of what is called: "f" of `module.f()`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@lru_cache(maxsize=256)
def _calls(text: str) -> tuple[ast.Call, ...]:
    try:
        return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of every function and class within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


def global_names(code: CodeType) -> list[str]:
    """Names that the code looks up among the globals and builtins, in order of their first use."""
    loads = (
        instruction.argval
        for part in _all_codes(code)
        for instruction in dis.get_instructions(part)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )
    return list(dict.fromkeys(loads))


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions, without those that only belong to the next one."""
    return (instruction for instruction in dis.get_instructions(code) if instruction.opname != "EXTENDED_ARG")


def chains_in(code: CodeType) -> list[tuple[str, ...]]:
    """What the code loads: ("a", "b", "c") for `a.b.c`, where `a` is a global or builtin."""
    chains: list[tuple[str, ...]] = []
    for part in _all_codes(code):
        is_open = False
        for instruction in _instructions(part):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                chains.append((instruction.argval,))
                is_open = True
            elif is_open and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                chains[-1] = *chains[-1], instruction.argval
            else:
                is_open = False
    return list(dict.fromkeys(chains))


def names_in(code: CodeType) -> list[str]:
    """Names of globals, attributes and modules in the code."""
    return list(dict.fromkeys(name for part in _all_codes(code) for name in part.co_names))


def imported_names(code: CodeType, package: str) -> list[str]:
    """Full names of the modules that the code, which is in this package, imports when it runs."""
    names = []
    for part in _all_codes(code):
        base, before = "", [0, 0]
        for instruction in _instructions(part):
            if instruction.opname == "IMPORT_NAME":
                base = _absolute(instruction.argval, package, before[-2])
                names.append(base)
            elif instruction.opname == "IMPORT_FROM":
                names.append(f"{base}.{instruction.argval}")
            before.append(instruction.argval)
    return names


def _absolute(name: str, package: str, level: int) -> str:
    """The full name of what `from ..name import` names in a package; the level is the number of dots."""
    above = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
    return ".".join(filter(None, [*above, name]))


@lru_cache(maxsize=256)
def _plain_codes(text: str, future_flags: int) -> dict[_Key, CodeType]:
    """Each code object of a source -> the one that its tree without docstrings and layout compiles to."""
    try:
        written = compile(text, "<code>", "exec", future_flags, dont_inherit=True)
        tree = _one_per_line(_without_docstrings(ast.parse(text)))
        plain = compile(tree, "<code>", "exec", future_flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return dict(_paired(_all_codes(written), _all_codes(plain)))


def _paired(written: Iterable[CodeType], plain: Iterable[CodeType]) -> Iterator[tuple[_Key, CodeType]]:
    """Each code object with its plain one, in order; equal lambdas of one line are the same plain one."""
    by_name: dict[str, list[CodeType]] = {}
    for code in plain:
        by_name.setdefault(code.co_qualname, []).append(code)
    seen: Counter[str] = Counter()
    for code in written:
        same = by_name[code.co_qualname]
        yield _key(code), same[min(seen[code.co_qualname], len(same) - 1)]
        seen[code.co_qualname] += 1


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_linetable, _digest(code)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree without statements that are only a text."""
    for node in ast.walk(tree):
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list):
                left = [statement for statement in block if not _is_text(statement)]
                setattr(node, name, left or ([ast.Pass()] if block else []))
    return tree


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _one_per_line(tree: ast.Module) -> ast.Module:
    """The tree as if every statement were one line."""
    waiting: list[ast.AST] = [tree]
    line = 1
    while waiting:
        node = waiting.pop()
        line += isinstance(node, ast.stmt)
        if "lineno" in node._attributes:
            node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return tree


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Full names of what a tree imports: modules, and names in modules, which may be modules too."""
    for node in _nodes_that_run(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", package, node.level)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes, except those below `if TYPE_CHECKING:`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"  # and not `not TYPE_CHECKING`, below which everything runs


def _digest(code: CodeType) -> str:
    """Digest of everything in a code object that takes part in running it."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    instructions = (code.co_code, code.co_exceptiontable)
    return sha256_of_text(repr((counts, names, instructions)), *_texts(code.co_consts))


def _texts(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, CodeType):
            yield _digest(constant)
        elif isinstance(constant, tuple):
            yield from ("(", *_texts(constant), ")")
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)
