"""The columns of keys in scores that have other columns, such as sinks, beside them."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from regard.looking.cell_axes import JOIN_NAMES


@runtime_checkable
class Trace(Protocol):
    """A tensor that is followed."""

    @property
    def columns(self) -> tuple[int, int] | None:
        """First and last column of its keys; None is all of them."""


def key_columns(
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    trace: Callable[[Any], Trace | None],
) -> tuple[int, int] | None:
    """First and last column of the keys, if other columns, such as sinks, are put beside them."""
    if name == "pad":
        return _padded_columns(trace(args[0]), *args, **kwargs)
    if name == "setitem":
        return None if trace(args[0]) is not None else _assigned_columns(*args)
    if name not in JOIN_NAMES:
        return None
    parts = args[0] if args else kwargs["tensors"]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    if dim not in (-1, parts[0].dim() - 1):
        return None
    mine = [trace(part) is not None for part in parts]
    widths = [part.shape[-1] for part in parts]
    start = sum(widths[: mine.index(True)])
    stop = sum(widths[: len(mine) - mine[::-1].index(True)])
    return None if (start, stop) == (0, sum(widths)) else (start, stop)


def _padded_columns(
    trace: Trace | None, x: Tensor, pad: Sequence[int], *rest: Any, **named: Any
) -> tuple[int, int] | None:
    """The columns of the keys where others are padded on either side of the last axis."""
    if trace is None or len(pad) != 2 or min(pad) < 0 or not any(pad):
        return None
    start, stop = trace.columns or (0, x.shape[-1])
    return pad[0] + start, pad[0] + stop


def _assigned_columns(buffer: Tensor, index: Any, value: Any) -> tuple[int, int] | None:
    """The columns of a buffer that are assigned, if all its other axes are assigned whole."""
    if not isinstance(index, tuple) or not isinstance(index[-1], slice):
        return None
    if any(part is not Ellipsis and part != slice(None) for part in index[:-1]):
        return None
    if Ellipsis not in index and len(index) != buffer.dim():
        return None
    start, stop, step = index[-1].indices(buffer.shape[-1])
    return None if step != 1 or stop - start == buffer.shape[-1] else (start, stop)
