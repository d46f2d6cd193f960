"""Errors of wrong shapes and values, worded the same way everywhere."""

import numbers
import reprlib
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

# PEP 484 lets an int pass for a float; checkers of shapes at run time want to be told.
Number = int | float
# The dtypes of computations; smaller floats are for storing alone.
FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
# Positions are whole numbers of 64 bits, and so are the sums of two distances.
POSITION_LIMIT = 1 << 62


def format_shape(sizes: dict[str, int | None]) -> str:
    """`(B=2, H=3, K, D=11)`: a letter for each axis, with its size where that is fixed."""
    return "(" + ", ".join(k if n is None else f"{k}={n}" for k, n in sizes.items()) + ")"


def shape(where: str, name: str, value: Any, **sizes: int | None) -> None:
    """Refuse `given` unless it has these axes; None lets an axis have any size."""
    _check_tensor(where, name, value)
    fits = value.dim() == len(sizes) and all(
        n is None or n == m for n, m in zip(sizes.values(), value.shape, strict=True)
    )
    if not fits:
        raise ValueError(
            f"{where}: expected {name} of shape {format_shape(sizes)}, got {tuple(value.shape)}"
        )


def broadcastable(where: str, name: str, value: Any, **sizes: int) -> None:
    """Refuse `given` unless it broadcasts to these axes without growing any of them."""
    supported_dtype(where, name, value)
    full = tuple(sizes.values())
    behind = full[len(full) - value.dim() :]
    # compared one by one: a compiler of dynamic shapes does not find an equal size in a tuple
    if value.dim() > len(full) or any(
        m != 1 and m != n for m, n in zip(value.shape, behind, strict=True)
    ):
        raise ValueError(
            f"{where}: expected {name} that broadcasts to {format_shape(dict(sizes))}, "
            f"got {tuple(value.shape)}"
        )


def integers(where: str, name: str, value: Any) -> None:
    """Refuse anything but a tensor of whole numbers."""
    whole = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if not isinstance(value, Tensor) or value.dtype not in whole:
        raise ValueError(
            f"{where}: expected {name} as a tensor of integers, got {describe_kind(value)}"
        )


def floats(where: str, name: str, value: Any) -> None:
    """Refuse anything but a tensor of floating-point numbers."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise ValueError(f"{where}: expected {name} as a float tensor, got {describe_kind(value)}")
    supported_dtype(where, name, value)


def supported_dtype(where: str, name: str, value: Any) -> None:
    """Refuse anything but a tensor of real numbers that can be computed with.

    float8 is for storing alone.
    """
    _check_tensor(where, name, value)
    unfit = value.is_floating_point() and value.dtype not in FLOAT_DTYPES
    if unfit or value.is_complex():
        raise ValueError(
            f"{where}: expected {name} in float16, bfloat16, float32 or float64, "
            f"got {describe_kind(value)}. Convert it first: {name}.to(torch.bfloat16)."
        )


def whole_number(where: str, name: str, value: Any) -> None:
    """Refuse anything but a whole number from 0 up to but not 2⁶², as positions are counted."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{where}: expected a whole {name} >= 0, got {brief_text(value)}")
    if value >= POSITION_LIMIT:
        raise ValueError(f"{where}: expected {name} below 2^62, got {brief_text(value)}")


def positive_fields(where: str, config: object, *names: str) -> None:
    """Refuse a config unless each of these fields is at least 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(
                f"{where}: expected {name} of at least 1, got {brief_text(getattr(config, name))}"
            )


def dropout_fields(where: str, config: object, *names: str) -> None:
    """Refuse a config unless each of these fields is a share from 0 up to but not 1."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{where}: expected {name} in [0, 1), got {getattr(config, name)}")


def number(where: str, name: str, value: Any) -> None:
    """Refuse anything but a number of Python's or NumPy's."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{where}: expected {name} as a number, got {describe_kind(value)}")


def below(where: str, name: str, largest: int, limit: int, what: str) -> None:
    """Refuse numbers whose largest is not below a limit."""
    if largest >= limit:
        raise ValueError(f"{where}: expected {name} below {what}={limit}, got {largest}")


def callable_or_tensor(where: str, name: str, value: object, form: str) -> None:
    """Refuse what cannot be called, and a kind of thing where one of its kind is wanted."""
    if isinstance(value, type):
        raise ValueError(
            f"{where}: expected {name} as a value, got the class {value.__name__} itself; "
            "call it with its arguments first"
        )
    if not callable(value) and not isinstance(value, Tensor):
        raise ValueError(f"{where}: expected {name} as {form}, got {describe_kind(value)}")


def bools(where: str, name: str, value: Any) -> None:
    """Refuse anything but a tensor of bools."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        raise ValueError(f"{where}: expected {name} as a bool tensor, got {describe_kind(value)}")


def _check_tensor(where: str, name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{where}: expected {name} as a tensor, got {describe_kind(value)}")


def describe_kind(value: Any) -> str:
    """What `given` is, in the words of an error message."""
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of {value.dtype} and shape {tuple(value.shape)}"
    return f"{brief_text(value)} of type {type(value).__name__}"


def brief_text(value: Any, most: int = 100) -> str:
    """A value as one line of at most `most` letters, for an error message."""
    try:
        text = reprlib.repr(value) if isinstance(value, list | tuple | dict | set) else repr(value)
    except ValueError:  # so does Python refuse an integer of thousands of digits
        return f"an integer of {value.bit_length()} bits"
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def token_batch(where: str, source: Any) -> None:
    """Refuse a source unless it is tokens (B, S), and lengths (B,) from 1 to S."""
    tokens, lengths = source
    shape(where, "source", tokens, B=None, S=None)
    B, S = tokens.shape
    shape(where, "lengths", lengths, B=B)
    if can_read_values(lengths) and not ((lengths > 0) & (lengths <= S)).all():
        raise ValueError(
            f"{where}: expected lengths from 1 to S={S}, got {brief_text(lengths.tolist())}"
        )


def memory_bytes(value: Any) -> int:
    """The bytes that a value of plain Python takes, with all that it contains."""
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum(memory_bytes(name) + memory_bytes(inner) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return size + sum(map(memory_bytes, value))
    return size


def can_read_values(tensor: Tensor) -> bool:
    """Whether the values of `given` can be checked at no cost: on the CPU, and there are any.

    A compiler, a transform such as `vmap`, and fake tensors have none.
    """
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
    )
