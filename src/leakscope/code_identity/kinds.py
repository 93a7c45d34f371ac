"""Kinds of objects that a walk treats alike."""

from __future__ import annotations

import threading
from io import IOBase
from queue import SimpleQueue
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)
BY_NAME = (
    BuiltinFunctionType, MethodWrapperType, WrapperDescriptorType, MethodDescriptorType,
    ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
IN_CYTHON = ("cython_function_or_method", "fused_cython_function")
WITHOUT_VALUE = (
    type(threading.Lock()), type(threading.RLock()), threading.local, SimpleQueue, IOBase,
)  # fmt: skip
"""Objects that cannot be copied and hold nothing that a module computed: data files do not count."""
NOT_OF_A_CLASS = frozenset(
    {"__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__abstractmethods__",
     "_abc_impl", "__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__"}
)  # fmt: skip
