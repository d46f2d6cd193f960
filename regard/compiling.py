"""What is worth compiling where a training asks for it: much of the same, many thousand times."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import ParamSpec, TypeVar

import torch

Given = ParamSpec("Given")
Found = TypeVar("Found")

_asked: ContextVar[bool] = ContextVar("asked", default=False)
COMPILERS = ("g++", "clang++", "c++", "cl")


@contextmanager
def asked() -> Iterator[None]:
    """What is ready in here is compiled when it is first called.

    Raises:
        ValueError: there is nothing to compile it with.
    """
    if not any(map(shutil.which, COMPILERS)):
        raise ValueError(
            f"compiled: expected a C++ compiler, one of {', '.join(COMPILERS)}, got none; install "
            "one, or go without training.compiled"
        )
    before = _asked.set(True)
    try:
        yield
    finally:
        _asked.reset(before)


def ready(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The function, compiled where that is asked for."""
    return _compiled(function) if _asked.get() else function


@cache
def _compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    return torch.compile(function)
