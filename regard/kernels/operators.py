"""Operators of our own: what a compiler sees whole."""

from collections.abc import Callable
from typing import Any

import torch


def operator(name: str, run: Callable[..., Any]) -> Any:
    """An operator that a compiler sees whole.

    `custom_op` would do the same, but imports the compiler at the first call: a second, and 50 to
    110 MiB.
    """
    torch.library.define(f"regard::{name}", torch.library.infer_schema(run, mutates_args=()))
    torch.library.impl(f"regard::{name}", "default", run)
    return getattr(torch.ops.regard, name).default


def undifferentiated(name: str, what: str) -> None:
    """Refuse to differentiate an operator that gives gradients itself: what `what` lacks."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError(f"{what} has no second derivative")

    torch.library.register_autograd(f"regard::{name}", refuse)
