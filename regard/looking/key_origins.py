"""Which keys are known to be those of a call before and some more, since `torch.cat` made them so.

A cache that grows joins its keys with the new ones at every step. Where nobody wrote into either,
by the versions that PyTorch counts, they need not be compared to know what they go on from.
"""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor


class Origin(NamedTuple):
    """What is known of the keys of a call.

    Args:
        own: the number of these very keys.
        first: the number of the keys that they begin with, all but the new ones; None if unknown.
    """

    own: int
    first: int | None


class KeyOrigins:
    """The origins of keys, while the tensors live."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Tensor], int, Origin]] = {}
        self._count = 0

    def clear(self) -> None:
        """Forget all keys."""
        self._found.clear()

    def note_cat(self, out: Any, tensors: Any = None, dim: Any = 0, **kwargs: Any) -> None:
        """Note what `torch.cat(tensors, dim)` gave, if it joined keys and new ones."""
        if not isinstance(tensors, list | tuple) or len(tensors) != 2 or kwargs:
            return
        found = self._known(tensors[0])
        if found is not None and type(out) is Tensor and out.dim() == 4 and dim in (-2, 2):
            self._note(out, found.own)

    def of(self, k: Any) -> Origin | None:
        """The origin of the keys of a call (B, H, K, D); None if nobody counts their versions."""
        if type(k) is not Tensor or k.dim() != 4 or k.is_inference():
            return None
        return self._known(k) or self._note(k, None)

    def _known(self, k: Tensor) -> Origin | None:
        found = self._found.get(id(k))
        if found is None:
            return None
        tensor, version, origin = found
        return origin if tensor() is k and version == k._version else None

    def _note(self, k: Tensor, first: int | None) -> Origin | None:
        if k.is_inference():
            return None
        self._count += 1
        key, found, origin = id(k), self._found, Origin(self._count, first)
        found[key] = weakref.ref(k, lambda _: found.pop(key, None)), k._version, origin
        return origin


def key_of(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The keys among the arguments of `scaled_dot_product_attention`."""
    return args[1] if len(args) > 1 else kwargs.get("key")
