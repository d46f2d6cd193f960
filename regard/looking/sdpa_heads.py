"""The heads of a call of `scaled_dot_product_attention`, which never says which axis they are.

It takes any number of batches. A module that merges heads and batches into one axis calls it with
three axes; one that attends inside of windows may have these behind its heads.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from regard.looking.eager_calls import find_head_axis
from regard.looking.head_merges import HeadMerges

Join = Callable[[Tensor], Tensor]


class HeadHints(NamedTuple):
    """What is known of the heads of the attention that is running.

    Args:
        head_count: how many its module has; None if it does not say.
        batches: how many batches there may be, by its last projection.
        merges: the tensors in which heads and batches became one axis.
    """

    head_count: int | None = None
    batches: tuple[int, ...] = ()
    merges: HeadMerges | None = None


def with_heads_apart(
    arguments: dict[str, Any], hints: HeadHints
) -> tuple[dict[str, Any], Join] | None:
    """The arguments of a call as (B, H, …) or (…, H, L, D), and what gives its output back.

    None if they are that already, or if it cannot be told.
    """
    parts: list[Any] = [arguments.get(name) for name in ("query", "key", "value")]
    if any(not isinstance(x, Tensor) or x.is_nested for x in parts):
        return None
    if parts[0].dim() > 4:
        return _with_heads_last(arguments, hints)
    return _with_heads_split(arguments, hints) if all(x.dim() == 3 for x in parts) else None


def is_causal_marker(mask: Any) -> bool:
    """True if a mask is PyTorch's CausalBias: a Tensor that marks a causal mask and holds none."""
    # whoever made one has imported its module, which takes a second that nobody else need spend
    made = sys.modules.get("torch.nn.attention.bias")
    return made is not None and isinstance(mask, made.CausalBias)


def _with_heads_last(
    arguments: dict[str, Any], hints: HeadHints
) -> tuple[dict[str, Any], Join] | None:
    """The arguments with heads behind all batches, of a call with more than four axes."""
    query, key, mask = arguments["query"], arguments["key"], arguments.get("attn_mask")
    outer = tuple(query.shape[:-2])
    if any(arguments[name].shape[:-2] != outer for name in ("key", "value")):
        return None
    axis = find_head_axis(outer, hints.head_count, lambda: (query, key))
    if axis == len(outer) - 1:
        return None
    if isinstance(mask, Tensor) and not is_causal_marker(mask) and mask.dim() > 2:
        mask = mask[(None,) * (query.dim() - mask.dim())].movedim(axis, -3)
    moved = {name: arguments[name].movedim(axis, -3) for name in ("query", "key", "value")}
    return arguments | moved | {"attn_mask": mask}, lambda out: out.movedim(-3, axis)


def _with_heads_split(
    arguments: dict[str, Any], hints: HeadHints
) -> tuple[dict[str, Any], Join] | None:
    """The arguments (B, H, L, D) of a call whose first axis is batches and heads, (B·H, L, D)."""
    query, heads, mask = arguments["query"], hints.head_count, arguments.get("attn_mask")
    N = query.shape[0]
    if heads is None or not 1 < heads <= N or N % heads or not _is_merged(query, N // heads, hints):
        return None
    batch = N // heads
    is_first = hints.merges is not None and hints.merges.is_heads_first(
        (query, arguments["key"]), heads
    )
    # heads of groups are as many for each batch; with heads outside they would mix batches
    has_groups = bool(arguments.get("enable_gqa")) and not is_first
    for name in ("key", "value"):
        rows = arguments[name].shape[0]
        if rows != N and not (has_groups and rows and rows % batch == 0):
            return None

    def split_axis(x: Tensor) -> Tensor:
        return (
            x.unflatten(0, (-1, batch)).transpose(0, 1) if is_first else x.unflatten(0, (batch, -1))
        )

    def join(out: Tensor) -> Tensor:
        return (out.transpose(0, 1) if is_first else out).flatten(0, 1)

    if isinstance(mask, Tensor) and not is_causal_marker(mask) and mask.dim() > 2:
        if mask.dim() > 3 or mask.shape[0] not in (1, N):
            return None
        mask = mask[None] if mask.shape[0] == 1 else split_axis(mask)
    apart = {name: split_axis(arguments[name]) for name in ("query", "key", "value")}
    return arguments | apart | {"attn_mask": mask}, join


def _is_merged(query: Tensor, batch: int, hints: HeadHints) -> bool:
    """True if the first axis may be the heads of so many batches."""
    if batch in hints.batches:
        return True
    # without a batch it is the heads alone, unless it is a batch that was never split into heads
    is_batch = len(query) in hints.batches and query.stride(0) >= query.stride(1)
    return batch == 1 and not is_batch
