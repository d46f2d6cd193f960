"""Operators of our own: what a compiler sees whole."""

from collections.abc import Callable
from typing import Any

import torch


def register_operator(name: str, implementation: Callable[..., Any]) -> Any:
    """An operator that a compiler sees whole.

    `custom_op` would do the same, but imports the compiler at the first call: a second, and 50 to
    110 MiB.
    """
    torch.library.define(
        f"regard::{name}", torch.library.infer_schema(implementation, mutates_args=())
    )
    torch.library.impl(f"regard::{name}", "default", implementation)
    return getattr(torch.ops.regard, name).default


def forbid_second_derivative(name: str, label: str) -> None:
    """Refuse to differentiate an operator that gives gradients itself: what `label` lacks."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError(f"{label} has no second derivative")

    torch.library.register_autograd(f"regard::{name}", refuse)
