"""From a user's object to everything it runs.

Modules of the user's count whole, with every module they import. What their source does not say counts by
value: what a function encloses, its defaults, the globals it reads, the arguments of a partial, the
attributes of an object, and all that is in a module which is passed around. In the script or notebook that is
being run, only what is used counts, so that the call of an audit can change. Where something cannot be
compared, a reason is noted.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from leakscope.code_identity.kinds import BY_NAME, IN_CYTHON, NOT_OF_A_CLASS, PLAIN, WITHOUT_VALUE
from leakscope.code_identity.on_import import (
    OnImport,
    computed_on_import,
    put_into_libraries,
    returned_on_import,
)
from leakscope.code_identity.opaque import (
    HIDDEN_MODULES,
    is_opaque,
    name_of_opaque,
    opaque_keywords,
    opaque_names,
    opaque_options,
)
from leakscope.code_identity.origin import NOT_INSTALLED, OURS, PYTHON, origin_of
from leakscope.code_identity.shapes import (
    ModuleByName,
    Shape,
    array,
    attribute,
    attributes_of,
    copied,
    enclosed,
    globals_in,
    globals_of,
    inherited,
    loaded_by,
    mapping,
    partial,
    tensor,
)
from leakscope.code_identity.source import (
    calls_in,
    code_digest,
    imported_names,
    module_source,
    names_in,
    sha256_of_text,
)
from leakscope.user_code import module_that_names, path_of


@dataclass(frozen=True)
class CodeIdentity:
    """What code is, as far as it can be known.

    Attributes:
        modules: the user's modules -> digest of their source.
        values: what belongs to the code besides -> digest of its value.
        packages: installed packages that it uses -> version.
        unknown: what cannot be compared, and why; if there is any, only the user knows whether the code is
            the same.
    """

    modules: Mapping[str, str]
    values: Mapping[str, str]
    packages: Mapping[str, str]
    unknown: tuple[str, ...] = ()


def code_identity(**roots: object) -> CodeIdentity:
    """The identity of the code that these objects run; their names appear in messages."""
    walk = _Walk()
    values: dict[str, str] = {}
    for name, value in roots.items():
        try:
            values.update(walk.root(name, value))
        except RecursionError:
            walk.unknown.add(f"{name} is nested too deeply to be compared")
    walk.note_search_path()
    modules, packages = (dict(sorted(counted.items())) for counted in (walk.modules, walk.packages))
    return CodeIdentity(modules, values, packages, tuple(sorted(walk.unknown)))


class _Walk:
    """A walk over objects, which collects modules, packages and what cannot be compared."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.unknown: set[str] = set()
        self._digests: dict[tuple[int, bool], str] = {}
        self._on_import = OnImport()  # of the user's modules
        self._objects: list[object] = []  # as long as they live, no other object gets their ids
        self._depths: dict[int, int] = {}  # of the objects that are being walked over
        self._is_in_source = False
        self._searches = False  # whether a function changes where modules are searched
        self._origin = functools.cache(origin_of)  # for one walk: modules may be loaded from elsewhere later

    def root(self, name: str, value: object) -> dict[str, str]:
        """Digests of an object and, one by one, of what it depends on."""
        if type(value) in PLAIN:
            return {name: self.digest(value, name)[:16]}
        if (module := module_that_names(value)) is not None:
            self.module(module)  # what else it imports runs, too
        self._is_in_source, self._depths = False, {id(value): 0}
        self._objects.append(value)
        shape = self._shape(value, name)
        digests = {name: sha256_of_text(shape.text)[:16]}
        for part, digest in self._digests_of_parts(shape, name):
            label = f"{name}.{part}"
            digests[label] = sha256_of_text(digests.get(label, ""), digest)[:16]  # labels may coincide
        self._depths = {}
        return digests

    def note_search_path(self) -> None:
        """Notes modules that are not there yet, if a function that runs later may make them findable."""
        missing = [name for name, version in self.packages.items() if version == NOT_INSTALLED]
        if self._searches:
            self.unknown |= {f"{name} is searched in sys.path only when the code runs" for name in missing}

    def digest(self, value: object, where: str) -> str:
        """Digest of an object and of everything it depends on; `where` names it in a reason."""
        if type(value) in PLAIN:
            return sha256_of_text(type(value).__name__, repr(value))
        if id(value) in self._depths:
            return f"{len(self._depths) - self._depths[id(value)]} levels up"
        key = id(value), self._is_in_source
        if key not in self._digests:
            self._objects.append(value)
            self._depths[id(value)] = len(self._depths)
            shape = self._shape(value, where)
            parts = [f"{name} {digest}" for name, digest in self._digests_of_parts(shape, where)]
            del self._depths[id(value)]
            self._digests[key] = sha256_of_text(shape.text, *parts)
        return self._digests[key]

    def _digests_of_parts(self, shape: Shape, where: str) -> Iterator[tuple[str, str]]:
        for name, value in shape.parts:
            yield name, self.digest(value, f"{where}.{name}")
        before, self._is_in_source = self._is_in_source, True
        for name, value in shape.parts_in_source:
            yield name, self.digest(value, f"{where}.{name}")
        self._is_in_source = before

    def _shape(self, value: Any, where: str) -> Shape:
        if value is sys.modules:
            self.unknown.add(f"{where} is sys.modules, and what is taken from it cannot be seen")
            return Shape("sys.modules")
        if type(value) in (dict, MappingProxyType):
            self._note_uses(opaque_options(value), where)
            return mapping(value)
        if type(value) in (list, tuple):
            return Shape(type(value).__name__, [(str(index), item) for index, item in enumerate(value)])
        if type(value) in (set, frozenset):
            return Shape(
                type(value).__name__, [("", d) for d in sorted(self.digest(v, where) for v in value)]
            )
        if isinstance(value, ModuleByName):
            return self._module_by_name(value.module, where)
        if isinstance(value, functools.partial):
            self._note_uses(opaque_options(value.keywords), where)
            return partial(value)
        if isinstance(value, MethodType):
            return Shape("method", [("function", value.__func__), ("object", value.__self__)])
        if isinstance(value, np.ndarray):
            return array(value)
        if isinstance(value, FunctionType):
            return self._function(value, where)
        if isinstance(value, (ModuleType, type, *BY_NAME)) or type(value).__name__ in IN_CYTHON:
            return self._named(value, where)
        return self._object(value, where)

    def module(self, name: str) -> bool:
        """Counts a module and what it imports; true for one that counts by its whole source."""
        waiting = [name]
        while waiting:
            module = waiting.pop()
            origin = None if module in self.modules or module == "__main__" else self._origin(module)
            if origin is None or origin.package == OURS:
                continue
            if origin.package is not None:
                self.packages[origin.package] = origin.version
                continue
            waiting.append(module.rpartition(".")[0] or module)  # a package runs before what is in it
            self.modules[module] = ""
            if origin.source is None:
                self.unknown.add(f"{module} has no source in Python")
                continue
            try:
                text = origin.source.read_bytes()
            except OSError:
                self.unknown.add(f"the source of {module} cannot be read")
                continue
            source = module_source(text, module, origin.is_package)
            self.modules[module] = source.digest[:16]
            self._on_import = self._on_import.and_of(source.tree)
            waiting += source.imports
        return bool(self.modules.get(name))

    def _is_users(self, module: str) -> bool:
        """True for a module of the user's, for the running script, and for one that was made at run time."""
        origin = self._origin(module)
        return module == "__main__" or origin is None or not origin.package or origin.version == NOT_INSTALLED

    def _function(self, value: FunctionType, where: str) -> Shape:
        # Not its `__module__`, which `functools.wraps` changes. What `exec` built may have none.
        module = str(value.__globals__.get("__name__") or "__main__")
        name, is_whole = f"function {module}:{value.__qualname__}", self.module(module)
        if not self._is_users(module):
            self._note_programs(module, where)
            self._note_opaque_value(value, where)
            return Shape(name, enclosed(value))
        digest, has_source = code_digest(value.__code__)
        if not has_source:
            self.unknown.add(f"{where} was built at run time, or its file was edited after it was imported")
        self.packages[PYTHON] = f"{sys.version_info.major}.{sys.version_info.minor}"
        self._note_opaque(value, where, is_whole)
        parts, used = list(enclosed(value)), list(globals_of(value, self._is_users))
        used += self._imported_within(value, where)
        used += put_into_libraries(value, self._on_import.sets, self._is_users)
        used += ((f"replaced {path_of(put)}", put) for put in loaded_by(value) if self._is_replaced(put))
        if not is_whole:
            return Shape(f"{name} {digest}", [*parts, *used])
        if _uses_globals(value):
            used.append(("globals()", globals_in(value.__globals__)))
        return Shape(f"{name} {digest}", parts, used)

    def _imported_within(self, value: FunctionType, where: str) -> Iterator[tuple[str, ModuleType]]:
        """Modules of the user's that a function imports when it runs; only loaded ones have values."""
        for name in imported_names(value.__code__, _package_of(value)):
            self.module(name)
            origin = self._origin(name)
            if origin is None or origin.source is None:
                continue
            try:
                yield f"import {name}", importlib.import_module(name)
            except (Exception, SystemExit):  # what a module of the user's raises when it is imported
                self.unknown.add(f"{where} imports {name}, which cannot be imported now")

    def _note_opaque(self, value: FunctionType, where: str, is_whole: bool) -> None:
        """Notes that a function runs code which cannot be seen."""
        loaded = list(loaded_by(value))
        opaque = {name_of_opaque(used) for used in loaded if is_opaque(used)}
        opaque |= {"sys.modules"} if any(used is sys.modules for used in loaded) else set()
        opaque |= {"globals"} if not is_whole and _uses_globals(value) else set()
        imported = imported_names(value.__code__, _package_of(value))
        is_imported_here = not {"sys", "sys.path"}.isdisjoint(imported) and "path" in names_in(value.__code__)
        self._searches |= is_imported_here or any(used is sys.path for used in loaded)
        modules = [*imported, *(used.__name__ for used in loaded if isinstance(used, ModuleType))]
        opaque |= opaque_names(names_in(value.__code__), modules) | opaque_keywords(calls_in(value.__code__))
        self._note_uses(opaque, where)

    def _note_uses(self, names: Iterable[str], where: str) -> None:
        self.unknown |= {f"{where} uses {name}, and what that runs cannot be seen" for name in names}

    def _note_opaque_value(self, value: Any, where: str) -> None:
        """The same for a function of another's that is kept as a value, under whatever name."""
        if is_opaque(value):
            self.unknown.add(f"{where} is {name_of_opaque(value)}, and what that runs cannot be seen")

    def _note_programs(self, module: str, where: str) -> None:
        if module.partition(".")[0] in HIDDEN_MODULES:
            self.unknown.add(f"{where} is of {module}, and what that runs cannot be seen")

    def _named(self, value: Any, where: str) -> Shape:
        """A module, a class, or what is written in C."""
        if isinstance(value, ModuleType):
            return self._module_used_whole(value, where)
        if isinstance(value, type):
            return self._class(value, where)
        owner = getattr(value, "__self__", None)
        module = getattr(value, "__module__", None) or getattr(owner, "__name__", "builtins")
        self.module(str(module))
        self._note_programs(str(module), where)
        self._note_opaque_value(value, where)
        is_bound = owner is not None and not isinstance(owner, ModuleType | type)
        return Shape(f"{module}:{value.__qualname__}", [("object", owner)] if is_bound else ())

    def _module_by_name(self, value: ModuleType, where: str) -> Shape:
        self.module(value.__name__)
        self._note_programs(value.__name__, where)
        return Shape(f"module {value.__name__}")

    def _module_used_whole(self, value: ModuleType, where: str) -> Shape:
        """A module that is passed around: whoever gets it may use anything in it."""
        shape = self._module_by_name(value, where)
        if not self._is_users(value.__name__):
            return shape
        return shape._replace(parts_in_source=globals_in(vars(value)).items())

    def _class(self, value: type, where: str) -> Shape:
        module, name = str(value.__module__), f"class {path_of(value)}"
        if module == "builtins" and any(isinstance(inner, FunctionType) for inner in vars(value).values()):
            module = "__main__"  # built by `exec`
        is_whole = self.module(module)
        if not self._is_users(module):
            self._note_programs(module, where)
            self._note_opaque_value(value, where)
            return Shape(name, self._replaced(value))
        attributes = [
            (key, attribute(inner)) for key, inner in sorted(vars(value).items()) if key not in NOT_OF_A_CLASS
        ]
        bases = [*((f"base {base.__name__}", base) for base in value.__bases__), ("metaclass", type(value))]
        return Shape(name, bases, attributes) if is_whole else Shape(name, [*bases, *attributes])

    def _replaced(self, value: type) -> Iterator[tuple[str, Any]]:
        """Methods of an installed class that the user's code put there."""
        for base in value.__mro__:
            yield from ((key, inner) for key, inner in vars(base).items() if self._is_in_file(inner))

    def _is_replaced(self, value: Any) -> bool:
        """True for what code of the user's has put into a library, or has changed there."""
        is_installed = isinstance(value, type) and not self._is_users(str(value.__module__))
        return self._is_in_file(value) or (is_installed and any(self._replaced(value)))

    def _is_in_file(self, value: Any) -> bool:
        """True for a function in a file of the user's or in the running script, and not a generated one."""
        module = str(value.__globals__.get("__name__")) if isinstance(value, FunctionType) else ""
        origin = self._origin(module) if module not in ("", "__main__") else None
        return module == "__main__" or (origin is not None and origin.source is not None)

    def _object(self, value: Any, where: str) -> Shape:
        """An object of the user's by its attributes, any other by what copies it."""
        cls = type(value)
        attributes: list[tuple[str, Any]] = []
        if self._is_users(str(cls.__module__)):
            attributes += attributes_of(value, computed_on_import(value, self._on_import))
        try:
            if hasattr(cls, "untyped_storage"):
                return tensor(value)
            if self._is_users(str(cls.__module__)):
                parts = list(inherited(value, self._is_users))
            elif isinstance(value, ContextVar):
                parts = [("name", value.name), ("value", _value_in_context(value))]
            elif isinstance(value, weakref.ref):
                parts = [("referent", value())]
            elif dataclasses.is_dataclass(value):
                parts = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
                parts += ((name, vars(value)[name]) for name in self._set_besides(value))
            else:
                parts = list(copied(value))
                wrapped = getattr(value, "__wrapped__", None)  # the function behind a cache
                parts.append(("wrapped", wrapped))
                if isinstance(value, functools._lru_cache_wrapper) and self._is_in_file(wrapped):
                    parts += returned_on_import(value, self._on_import)
        except Exception:  # an object that cannot be copied may raise anything
            if not (self._is_in_source and isinstance(value, WITHOUT_VALUE)):
                self.unknown.add(f"{where} is {cls.__name__}, which cannot be compared")
            parts = sorted(getattr(value, "__dict__", {}).items())
        return Shape("object", [("class", cls), *attributes, *parts])

    def _set_besides(self, value: Any) -> list[str]:
        """Attributes that the user's modules have set on an object of an installed dataclass."""
        fields = {field.name for field in dataclasses.fields(value)}
        return sorted((self._on_import.sets & getattr(value, "__dict__", {}).keys()) - fields)


def _package_of(value: FunctionType) -> str:
    return str(value.__globals__.get("__package__") or "")


def _uses_globals(value: FunctionType) -> bool:
    return any(used is builtins.globals for used in loaded_by(value))


def _value_in_context(variable: ContextVar[Any]) -> Any:
    """The value of a context variable or its default; None where it has neither."""
    try:
        return variable.get()
    except LookupError:
        return None
