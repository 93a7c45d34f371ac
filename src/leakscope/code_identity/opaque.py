"""Functions that run code which no walk over a user's objects can see.

They start another program, run text or a file as Python, load a module or a compiled library that is not
imported by name, or make code or objects of bytes. An unpickled object runs the code of its class, which
nothing else need name. `torch.load` and `numpy.load` read numbers alone unless a keyword asks for more, so
what they read counts as data, as any file that a training function reads does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

from leakscope.code_identity.source import name_of_callee

_PROGRAMS_OF_OS = frozenset(
    {"system", "popen", "startfile", "posix_spawn", "posix_spawnp",
     "execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe",
     "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe"}
)  # fmt: skip
_PROGRAMS_OF_ASYNCIO = frozenset({"create_subprocess_exec", "create_subprocess_shell"})
_LOADERS = frozenset({"SourceFileLoader", "SourcelessFileLoader", "ExtensionFileLoader"})
_MACHINERY = frozenset({"spec_from_file_location", "spec_from_loader", "module_from_spec"})
_FINDERS_OF_HYDRA = ("instantiate", "call", "get_class", "get_method", "get_static_method", "get_object")
_UNPICKLERS = frozenset({"load", "loads", "Unpickler"})
_ANYWHERE = frozenset(
    {*_PROGRAMS_OF_OS, *_PROGRAMS_OF_ASYNCIO, *_LOADERS, *_MACHINERY, "import_module", "load_module",
     "exec_module", "subprocess_exec", "subprocess_shell", "run_path", "run_module", "Popen", "__globals__",
     "f_globals", "__subclasses__"}
)  # fmt: skip
"""Names that say enough wherever they are used, as of `loader.exec_module`."""
_PATHS = frozenset(
    {"builtins.exec", "builtins.eval", "builtins.compile", "builtins.__import__", "importlib.import_module",
     "importlib.__import__", "importlib._bootstrap.__import__", "importlib.reload", "pkgutil.resolve_name",
     "pydoc.locate", "pydoc.importfile", "gc.get_objects", "gc.get_referrers", "joblib.load",
     "joblib.numpy_pickle.load", "shelve.open",
     *(f"{module}.{name}" for module in ("pickle", "_pickle") for name in _UNPICKLERS),
     "numpy.ctypeslib.load_library", "numpy.ctypeslib._ctypeslib.load_library", "torch.ops.load_library",
     "torch.classes.load_library", "torch._ops._Ops.load_library", "torch._classes._Classes.load_library",
     "torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline",
     "yaml.unsafe_load", "yaml.unsafe_load_all",
     *(f"yaml.{name}" for name in ("UnsafeLoader", "Loader", "CLoader")),
     "yaml.loader.UnsafeLoader", "yaml.loader.Loader", "yaml.cyaml.CLoader",
     *(f"hydra.utils.{name}" for name in _FINDERS_OF_HYDRA),
     "hydra._internal.instantiate._instantiate2.instantiate",
     "importlib.metadata.EntryPoint", "importlib.metadata.entry_points",
     "timeit.timeit", "timeit.Timer", "code.InteractiveInterpreter", "code.InteractiveConsole",
     "codeop.compile_command", "codeop.Compile", "codeop.CommandCompiler",
     "pandas.read_pickle", "pandas.io.pickle.read_pickle", "torch.hub.load",
     "torch.jit.load", "torch.jit._serialization.load", "torch.export.load",
     "torch.package.PackageImporter", "torch.package.package_importer.PackageImporter",
     *(f"{module}.{name}" for module in ("os", "posix", "nt") for name in _PROGRAMS_OF_OS),
     *(f"asyncio.subprocess.{name}" for name in _PROGRAMS_OF_ASYNCIO),
     *(f"{module}.{name}" for module in ("importlib.machinery", "_frozen_importlib_external")
       for name in _LOADERS),
     *(f"{module}.{name}" for module in ("_frozen_importlib", "_frozen_importlib_external")
       for name in _MACHINERY)}
)  # fmt: skip
"""Functions and classes by their module and name, under whatever name they are used."""
HIDDEN_MODULES = frozenset(
    {"subprocess", "_posixsubprocess", "pty", "ctypes", "runpy", "imp", "zipimport", "marshal", "cloudpickle",
     "dill", "cffi", "_cffi_backend"}
)  # fmt: skip
"""Modules that are there to run other programs, or to make code of files and bytes."""


_KEYWORDS: Mapping[str, tuple[object, ...]] = {
    "allow_pickle": (False,),
    "trust_remote_code": (False, None),
    "trusted": (False, None),
    "weights_only": (True, None),
}
"""Keywords that ask for objects or code instead of numbers, unless they have one of these values."""


def is_opaque(value: Any) -> bool:
    """Whether this function or class, under whatever name, runs code that cannot be seen."""
    return isinstance(value, FunctionType | BuiltinFunctionType | type) and _path(value) in _PATHS


def name_of_opaque(value: Any) -> str:
    """How a message names such a function: by its path where the name alone says little."""
    return _short(_path(value))


def opaque_names(names: Iterable[str], imported: Iterable[str]) -> set[str]:
    """What code uses that cannot be seen.

    Args:
        names: of globals, attributes and modules in the code.
        imported: full names of the modules that it imports when it runs, and of what it takes from them.
    """
    used, modules = set(names), set(imported)
    hidden = HIDDEN_MODULES & {name.partition(".")[0] for name in modules}
    return {*_ANYWHERE & used, *hidden} | {
        _short(path) for path in _PATHS if _is_imported(path, modules, used)
    }


def opaque_keywords(calls: Iterable[ast.Call]) -> set[str]:
    """Keywords in calls that ask for objects or code; what such a keyword says to `save` is harmless."""
    calls = list(calls)
    given = [(name_of_callee(call), word.arg or "", word.value) for call in calls for word in call.keywords]
    # numpy.load takes it as its third argument, too; others' third is seldom a bare True.
    given += [("load", "allow_pickle", call.args[2]) for call in calls if _has_true_as_third(call)]
    return {name for callee, name, value in given if _asks(name, value) and _is_reader(callee, name)}


def _has_true_as_third(call: ast.Call) -> bool:
    third = call.args[2] if len(call.args) > 2 else None
    return name_of_callee(call) == "load" and isinstance(third, ast.Constant) and third.value is True


def _asks(name: str, value: ast.expr) -> bool:
    is_harmless = isinstance(value, ast.Constant) and value.value in _KEYWORDS.get(name, ())
    return name in _KEYWORDS and not is_harmless


def opaque_options(options: Mapping[Any, Any]) -> set[str]:
    """The same in a dictionary of keywords."""
    given = {name: options[name] for name in _KEYWORDS if name in options and name != "trusted"}
    return {name for name, value in given.items() if type(value) is bool and value not in _KEYWORDS[name]}


def _is_reader(name: str, keyword: str) -> bool:
    return name in ("load", "loads") if keyword == "trusted" else not name.startswith("save")


def _is_imported(path: str, modules: set[str], names: set[str]) -> bool:
    """Whether "a.b.c" is imported where it is used, as a whole or as a module and the names after it."""
    parts = path.split(".")
    return any(
        ".".join(parts[:length]) in modules and names.issuperset(parts[length:])
        for length in range(1, len(parts) + 1)
    )


def _short(path: str) -> str:
    name = path.rpartition(".")[2]
    return name if name in _ANYWHERE else path.removeprefix("builtins.")


def _path(value: FunctionType | BuiltinFunctionType | type) -> str:
    return f"{value.__module__}.{value.__qualname__}"
