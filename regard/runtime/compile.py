"""What is worth compiling where a training asks for it: much of the same, many thousand times."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_compilation_enabled: ContextVar[bool] = ContextVar("asked", default=False)
CXX_COMPILERS = ("g++", "clang++", "c++", "cl")


@contextmanager
def enable_compilation() -> Iterator[None]:
    """What is ready in here is compiled when it is first called.

    Raises:
        ValueError: there is nothing to compile it with.
    """
    if not any(map(shutil.which, CXX_COMPILERS)):
        raise ValueError(
            f"torch_compile: expected a C++ compiler, one of {', '.join(CXX_COMPILERS)}, got none; "
            "install one, or go without training.torch_compile"
        )
    before = _compilation_enabled.set(True)
    try:
        yield
    finally:
        _compilation_enabled.reset(before)


def maybe_compile(function: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled where that is asked for."""
    return _compile_cached(function) if _compilation_enabled.get() else function


@cache
def _compile_cached(function: Callable[P, R]) -> Callable[P, R]:
    return torch.compile(function)
