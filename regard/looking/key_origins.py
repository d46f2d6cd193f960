"""Keys that `torch.cat` joined from those of an earlier call and new ones: never compared.

A cache that grows joins its keys with the new ones at every step. Where nobody wrote into either,
by the versions that PyTorch counts, they need not be compared to know what they go on from.
"""

import weakref
from typing import Any, NamedTuple

from torch import Tensor


class Origin(NamedTuple):
    """The identity of a call's keys, and of the keys that they begin with.

    Args:
        keys_id: the number of these very keys.
        prefix_id: that of the keys that they begin with, all but the new ones; None if unknown.
    """

    keys_id: int
    prefix_id: int | None


class KeyOrigins:
    """The origins of keys, while the tensors live."""

    def __init__(self) -> None:
        self._origins: dict[int, tuple[weakref.ref[Tensor], int, Origin]] = {}
        self._count = 0

    def clear(self) -> None:
        """Forget all keys."""
        self._origins.clear()

    def note_cat(self, result: Any, tensors: Any = None, dim: Any = 0, **kwargs: Any) -> None:
        """Note what `torch.cat(tensors, dim)` gave, if it joined keys and new ones."""
        if not isinstance(tensors, list | tuple) or len(tensors) != 2 or kwargs:
            return
        first = tensors[0]
        found = self._find_origin(first) if isinstance(first, Tensor) else None
        if found is not None and type(result) is Tensor and result.dim() == 4 and dim in (-2, 2):
            self._add_origin(result, found.keys_id)

    def origin_of(self, k: Any) -> Origin | None:
        """The origin of the keys of a call (B, H, K, D); None if they have no version."""
        if type(k) is not Tensor or k.dim() != 4 or k.is_inference():
            return None
        return self._find_origin(k) or self._add_origin(k, None)

    def _find_origin(self, k: Tensor) -> Origin | None:
        found = self._origins.get(id(k))
        if found is None:
            return None
        tensor, version, origin = found
        return origin if tensor() is k and version == k._version else None

    def _add_origin(self, k: Tensor, prefix_id: int | None) -> Origin | None:
        if k.is_inference():
            return None
        self._count += 1
        key, found, origin = id(k), self._origins, Origin(self._count, prefix_id)
        found[key] = weakref.ref(k, lambda _: found.pop(key, None)), k._version, origin
        return origin
