"""Tensors in which heads and batches became one axis, and which of the two is outside.

Some models merge (B, H, L, D) into (B·H, L, D), others (H, B, L, D) into (H·B, L, D). The scores
of both look alike, so the order is noted where the axes are merged.
"""

import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from torch import Tensor

MERGE_NAMES = frozenset(["cat", "contiguous", "flatten", "reshape", "view"])


class HeadMerges:
    """The merged axes of tensors, while these live."""

    def __init__(self) -> None:
        # by their memory, which views share: the outer and inner size, and what strides say
        self._entries: dict[int, tuple[weakref.ref[Tensor], int, int, bool | None]] = {}

    def clear(self) -> None:
        """Forget all tensors."""
        self._entries.clear()

    def note(self, name: str, args: tuple[Any, ...], out: Any) -> None:
        """Note what a function gave, if it merged heads and batches, or is about to."""
        if not isinstance(out, Tensor) or out.dim() not in (3, 4) or not args:
            return
        with suppress(Exception):
            x = args[0]
            if name == "cat":
                self._note_cat(x, args[1] if len(args) > 1 else 0, out)
            elif x.dim() == 4 and 1 not in x.shape[:2]:
                is_merged = out.dim() == 3 and out.shape == (x.shape[0] * x.shape[1], *x.shape[2:])
                if is_merged or (out.dim() == 4 and name == "contiguous" and out is not x):
                    self._add(out, x.shape[0], x.shape[1], self._has_heads_outside(x))

    def is_heads_first(self, tensors: Iterable[Tensor], heads: int | None) -> bool:
        """True if heads are the outer part of the first axis of these (N, …, …)."""
        for x in tensors:
            with suppress(Exception):
                found = self._find(x)
                if found is not None and found[0] == heads:
                    outer, inner, is_outside = found
                    return outer != inner if is_outside is None else is_outside
        return False

    def _note_cat(self, parts: Any, dim: Any, out: Tensor) -> None:
        """Note heads that were put one after the other."""
        is_merged = dim == 0 and out.dim() == 3 and len(parts) > 1
        if is_merged and all(part.shape == parts[0].shape for part in parts):
            self._add(out, len(parts), parts[0].shape[0], True)

    def _has_heads_outside(self, x: Tensor) -> bool | None:
        """Whether the first axis (N, M, L, D) is of heads, by its strides; None is unknown."""
        found = self._find(x)
        if found is not None and found[:2] == tuple(x.shape[:2]):
            return found[2]
        if x.is_contiguous():
            return None
        # heads are split from features, so that they lie closer than tokens and batches
        return x.stride(0) < x.stride(1) and x.stride(0) < x.stride(2)

    def _add(self, x: Tensor, outer: int, inner: int, is_outside: bool | None) -> None:
        key, found = x.data_ptr(), self._entries
        kept = weakref.ref(
            x, lambda ref: found.pop(key, None) if _is_same_entry(found, key, ref) else None
        )
        found[key] = kept, outer, inner, is_outside

    def _find(self, x: Tensor) -> tuple[int, int, bool | None] | None:
        found = self._entries.get(x.data_ptr())
        if found is None or (kept := found[0]()) is None or kept.numel() != x.numel():
            return None
        return found[1:]


def _is_same_entry(
    entries: dict[int, tuple[weakref.ref[Tensor], int, int, bool | None]], key: int, ref: Any
) -> bool:
    """True if the entry is still that of this tensor, whose memory may be another's by now."""
    return key in entries and entries[key][0] is ref
