"""Code that runs and that no module shows: an edit of it must never pass as the same code.

Each attack is a training function that runs a file of the user's, user_hidden.py, which it does not import.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import leakscope
from leakscope.code_identity.opaque import opaque_names
from leakscope.code_identity.walk import CodeIdentity
from leakscope.errors import BankMismatchError
from tests.code_identity.project import Code, Project

PROGRAM = "sys.executable, ['python', 'user_hidden.py']"
LISTED = "sys.executable, 'python', 'user_hidden.py'"
_OS = {
    **{name: f"os.{name}({PROGRAM})" for name in ("execv", "execvp")},
    **{name: f"os.{name}({PROGRAM}, {{}})" for name in ("execve", "execvpe", "posix_spawn", "posix_spawnp")},
    **{name: f"os.{name}({LISTED})" for name in ("execl", "execlp")},
    **{name: f"os.{name}({LISTED}, {{}})" for name in ("execle", "execlpe")},
    **{name: f"os.{name}(os.P_WAIT, {PROGRAM})" for name in ("spawnv", "spawnvp")},
    **{name: f"os.{name}(os.P_WAIT, {PROGRAM}, {{}})" for name in ("spawnve", "spawnvpe")},
    **{name: f"os.{name}(os.P_WAIT, {LISTED})" for name in ("spawnl", "spawnlp")},
    **{name: f"os.{name}(os.P_WAIT, {LISTED}, {{}})" for name in ("spawnle", "spawnlpe")},
    "system": "os.system('python user_hidden.py')",
    "popen": "os.popen('python user_hidden.py')",
}
_NAMED = {
    **{name: f"import os, sys\ndef train():\n    {call}\n" for name, call in _OS.items()},
    "create_subprocess_exec": "import asyncio\ndef train():\n    "
    "asyncio.run(asyncio.create_subprocess_exec('python', 'user_hidden.py'))\n",
    "create_subprocess_shell": "import asyncio\ndef train():\n    "
    "asyncio.run(asyncio.create_subprocess_shell('python user_hidden.py'))\n",
    "subprocess_exec": "def train(loop):\n    loop.subprocess_exec(list, 'python', 'user_hidden.py')\n",
    "subprocess_shell": "def train(loop):\n    loop.subprocess_shell(list, 'python user_hidden.py')\n",
    "SourceFileLoader": "import importlib.machinery\ndef train():\n    "
    "importlib.machinery.SourceFileLoader('h', 'user_hidden.py')\n",
    "SourcelessFileLoader": "import importlib.machinery\ndef train():\n    "
    "importlib.machinery.SourcelessFileLoader('h', 'user_hidden.pyc')\n",
    "ExtensionFileLoader": "import importlib.machinery\ndef train():\n    "
    "importlib.machinery.ExtensionFileLoader('h', 'user_hidden.so')\n",
    "load_module": "def train(loader):\n    return loader.load_module('user_hidden')\n",
    "exec_module": "def train(loader, module):\n    loader.exec_module(module)\n",
    "spec_from_file_location": "import importlib.util\ndef train():\n    "
    "return importlib.util.spec_from_file_location('h', 'user_hidden.py')\n",
    "spec_from_loader": "import importlib.util\ndef train(loader):\n    "
    "return importlib.util.spec_from_loader('h', loader)\n",
    "module_from_spec": "import importlib.util\ndef train(spec):\n    "
    "return importlib.util.module_from_spec(spec)\n",
    "torch.jit": "import torch\ndef train():\n    return torch.jit.load('hidden.pt')\n",
    "torch.export": "import torch\ndef train():\n    return torch.export.load('hidden.pt2')\n",
    "PackageImporter": "import torch.package\ndef train():\n    "
    "return torch.package.PackageImporter('hidden.pt')\n",
    **{
        module: f"def train(text):\n    import {module}\n    return {module}.loads(text)\n"
        for module in ("cloudpickle", "dill", "marshal")
    },
    "pickle.load": "import pickle\ndef train(file):\n    return pickle.load(file)\n",
    "pickle.Unpickler": "import pickle\ndef train(file):\n    return pickle.Unpickler(file).load()\n",
    "joblib": "import joblib\ndef train():\n    return joblib.load('hidden.joblib')\n",
    "shelve.open": "import shelve\ndef train():\n    return shelve.open('hidden')['prep']\n",
    "pty": "import pty\ndef train():\n    pty.spawn(['python', 'user_hidden.py'])\n",
    "load_library": "import numpy as np\ndef train():\n    return np.ctypeslib.load_library('hidden', '.')\n",
    "torch.ops.load_library": "import torch\ndef train():\n    torch.ops.load_library('hidden.so')\n",
    "torch.utils.cpp_extension": "from torch.utils import cpp_extension\ndef train():\n    "
    "return cpp_extension.load('hidden', ['hidden.cpp'])\n",
    "cffi": "import cffi\ndef train():\n    return cffi.FFI().dlopen('./hidden.so')\n",
    "yaml.unsafe_load": "import yaml\ndef train(file):\n    return yaml.unsafe_load(file)\n",
    "UnsafeLoader": "import yaml\ndef train(file):\n    return yaml.load(file, Loader=yaml.UnsafeLoader)\n",
    "Loader": "import yaml\ndef train(file):\n    return yaml.load(file, Loader=yaml.Loader)\n",
    "EntryPoint": "from importlib.metadata import EntryPoint\ndef train():\n    "
    "return EntryPoint('x', 'user_hidden:N', 'g').load()\n",
    "entry_points": "from importlib import metadata\ndef train():\n    return metadata.entry_points()\n",
    "timeit.timeit": "import timeit\ndef train(text):\n    return timeit.timeit(text, number=1)\n",
    "InteractiveInterpreter": "import code\ndef train(text):\n    "
    "code.InteractiveInterpreter().runsource(text)\n",
    "weights_only": "import torch\ndef train():\n    return torch.load('hidden.pt', weights_only=False)\n",
    "allow_pickle": "import numpy as np\ndef train():\n    return np.load('hidden.npy', allow_pickle=True)\n",
    "trusted": "import skops.io as s\ndef train():\n    return s.load('hidden', trusted=['user_hidden.N'])\n",
    "trust_remote_code": "def train(AutoModel, of, trusts=True):\n    "
    "return AutoModel.from_pretrained(\n        of['name'],\n        trust_remote_code=trusts,\n    )\n",
    "zipimport": "import zipimport\ndef train():\n    zipimport.zipimporter('user_hidden.zip')\n",
}
_UNDER_ANOTHER_NAME = {
    "posix_spawn": f"import sys\nfrom os import posix_spawn as p\ndef train():\n    p({PROGRAM}, {{}})\n",
    "execv": f"import os, sys\nrun = os.execv\ndef train():\n    run({PROGRAM})\n",
    "spawnl": f"import sys\nfrom os import spawnl as s\ndef train():\n    s(0, {LISTED})\n",
    "system": "import os\ndef made(f):\n    return lambda: f('python user_hidden.py')\n"
    "train = made(os.system)\n",
    "create_subprocess_exec": "from asyncio import create_subprocess_exec as c\n"
    "def train():\n    return c('python', 'user_hidden.py')\n",
    "SourceFileLoader": "from importlib.machinery import SourceFileLoader as L\n"
    "def train():\n    return L('h', 'user_hidden.py')\n",
    "module_from_spec": "from importlib.util import module_from_spec as m\ndef train(s):\n    return m(s)\n",
    "torch.jit": "from torch.jit import load as get\ndef train():\n    return get('hidden.pt')\n",
    "reload": "def train(module):\n    from importlib import reload as r\n    return r(module)\n",
    "torch.jit.load": "def train():\n    import torch as t\n    return t.jit.load('hidden.pt')\n",
    "pickle.loads": "from pickle import loads as read\ndef train(text):\n    return read(text)\n",
    "joblib.load": "def train():\n    from joblib import load\n    return load('hidden.joblib')\n",
    "numpy.ctypeslib.load_library": "def train():\n    from numpy.ctypeslib import load_library as lib\n"
    "    return lib('hidden', '.')\n",
    "torch.utils.cpp_extension.load": "from torch.utils.cpp_extension import load as build\n"
    "def train():\n    return build('hidden', ['hidden.cpp'])\n",
    "cffi": "def train():\n    from cffi import FFI\n    return FFI().dlopen('./hidden.so')\n",
    "allow_pickle": "import functools, numpy as np\nread = functools.partial(np.load, allow_pickle=True)\n"
    "def train():\n    return read('hidden.npy')\n",
    "trust_remote_code": "HOW = {'trust_remote_code': True}\n"
    "def train(AutoModel):\n    return AutoModel.from_pretrained('hidden', **HOW)\n",
    "yaml.loader.Loader": "from yaml import Loader as L\ndef train(text):\n    return L(text).get_data()\n",
    "torch.export.load": "def train():\n    from torch.export import load\n    return load('hidden.pt')\n",
}
_THIRD = "import numpy as np\ndef train():\n    return np.load('hidden.npy', None, True)\n"
ATTACKS = [
    pytest.param("allow_pickle", _THIRD, id="allow_pickle, third argument"),
    *(pytest.param(name, text, id=name) for name, text in _NAMED.items()),
    *(pytest.param(name, text, id=f"{name}, renamed") for name, text in _UNDER_ANOTHER_NAME.items()),
]


def edited(code: Code, main: str) -> tuple[CodeIdentity, CodeIdentity]:
    """The identities before and after an edit of the hidden file."""
    code.write(user_main=main, user_hidden="N = 1\n")
    before = code.identity()
    code.write(user_hidden="N = 2\n")
    return before, code.identity()


@pytest.mark.parametrize(("name", "main"), ATTACKS)
def test_code_that_is_hidden_is_never_known_to_be_the_same(name: str, main: str, code: Code) -> None:
    for identity in edited(code, main):
        assert identity.unknown and all(name in reason for reason in identity.unknown), identity.unknown


def test_objects_that_a_config_names_are_hidden() -> None:
    """Without hydra, which need not be installed."""
    for imported in ("hydra", "hydra.utils"):
        assert opaque_names(["utils", "instantiate"], [imported]) == {"hydra.utils.instantiate"}
    assert not opaque_names(["utils", "to_absolute_path"], ["hydra.utils"])


def test_such_a_training_function_needs_reuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hidden file changes the models: reusing those of before would be wrong, so the audit refuses."""
    monkeypatch.syspath_prepend(str(tmp_path))
    project, hidden = Project(tmp_path), tmp_path / "hidden.py"
    hidden.write_text("WEIGHT = 2.0\n")
    project.edit("own_train.py", "import functools\n", "import functools\nimport numpy as np\n")
    project.edit(
        "own_train.py",
        "closure = made(2.0)",
        "def closure(records, indices, seed):\n"
        "    from importlib.machinery import SourceFileLoader\n"
        "    module = type(np)('own_hidden')\n"
        f"    SourceFileLoader('own_hidden', {str(hidden)!r}).exec_module(module)\n"
        "    return made(module.WEIGHT)(records, indices, seed)",
    )

    def audit(**settings: bool) -> leakscope.Verdict:
        return project.audit(lambda own: leakscope.FunctionRecipe(own.closure), **settings)

    audit()
    hidden.write_text("WEIGHT = 4.0\n")
    with pytest.raises(BankMismatchError, match=r"SourceFileLoader.*cannot be seen.*--reuse"):
        audit()
    audit(reuse=True)


READING = """
import json
import timeit
import numpy as np
import torch

FOLDER = {folder!r}
OPTIONS = dict(weights_only=True, allow_pickle=False, trusted=True)

def train(other):
    other.join(trusted=True, **OPTIONS)
    total = np.load(FOLDER + "/a.npy").sum()
    total += np.load(FOLDER + "/a.npy", None, False).sum()
    total += np.load(FOLDER + "/a.npy", allow_pickle=False).sum() + timeit.default_timer()
    total += torch.load(FOLDER + "/a.pt", weights_only=True).sum().item()
    np.save(FOLDER + "/b.npy", total, allow_pickle=True)
    other.save_checkpoint(FOLDER + "/b.pt", weights_only=False)
    model = torch.jit.script(torch.nn.Linear(1, 1))
    return total + len(json.loads("[1]")), model
"""


def test_data_files_are_read_as_before(code: Code) -> None:
    """Whatever reads arrays and weights needs no permission, also beside `torch.jit.script`."""
    code.write(user_main=READING.format(folder=str(code.folder)))
    assert code.identity().unknown == ()


def test_a_model_that_a_module_unpickles_on_import_counts_by_value(code: Code) -> None:
    path = code.folder / "a.pt"
    code.write(user_main=f"import torch\nW = torch.load({str(path)!r})\ndef train():\n    return W\n")
    torch.save(torch.ones(2), path)
    first = code.identity()
    assert code.identity() == first and first.unknown == ()
    torch.save(torch.zeros(2), path)
    assert code.identity() != first
