"""Any state as tensors and JSON: a tree of dicts, lists and tuples goes in, and comes back equal.

Tensors that are one and the same (tied weights) are written once and stay tied by name, which is
what safetensors asks for. Nothing is pickled.
"""

from typing import Any

import torch
from torch import Tensor


def pack_tree(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """The tensors of `tree` by their path, on the CPU, and the rest as JSON that names them.

    >>> pack_tree({"a": torch.ones(2), 3: (None, 0.5)})
    ({'a': tensor([1., 1.])}, {'dict': [['a', {'tensor': 'a'}], [3, {'tuple': [None, 0.5]}]]})
    """
    packing = _TreePacker()
    return packing.tensors, packing.pack_node(tree, "")


def unpack_tree(tensors: dict[str, Tensor], node: Any) -> Any:
    """The tree that was packed."""
    if not isinstance(node, dict):
        return node
    [(kind, inside)] = node.items()
    if kind == "tensor":
        # a copy, in memory that torch aligns as it likes: what was read lies anywhere
        return tensors[inside].clone()
    if kind == "dict":
        return {key: unpack_tree(tensors, value) for key, value in inside}
    parts = [unpack_tree(tensors, value) for value in inside]
    return tuple(parts) if kind == "tuple" else parts


class _TreePacker:
    """What was met on the way: each tensor's name, and whose memory is taken."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[Any, str] = {}
        self._storages: set[int] = set()

    def pack_node(self, tree: Any, path: str) -> Any:
        if isinstance(tree, Tensor):
            return {"tensor": self._add_tensor(tree, path or "tensor")}
        if isinstance(tree, dict):
            inside = [
                [self._check_key(k, path), self.pack_node(v, _join_path(path, k))]
                for k, v in tree.items()
            ]
            return {"dict": inside}
        if isinstance(tree, list | tuple):
            kind = "tuple" if isinstance(tree, tuple) else "list"
            return {kind: [self.pack_node(v, _join_path(path, i)) for i, v in enumerate(tree)]}
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        raise ValueError(
            f"checkpoint: expected tensors, numbers and strings, "
            f"got {type(tree).__name__} at {path or 'the top'}"
        )

    def _check_key(self, key: Any, path: str) -> int | str:
        if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)):
            return key
        raise ValueError(
            f"checkpoint: expected keys that are names or numbers, got {key!r} in {path}"
        )

    def _add_tensor(self, tensor: Tensor, path: str) -> str:
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if tensor.numel() and same in self._names:
            return self._names[same]
        self._names[same] = path
        kept = tensor.detach().to("cpu").contiguous()
        memory = kept.untyped_storage().data_ptr()
        # two views into one memory that are not the same view: safetensors wants them apart
        if memory in self._storages:
            kept = kept.clone()
        self._storages.add(kept.untyped_storage().data_ptr())
        self.tensors[path] = kept
        return path


def _join_path(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def are_finite(tensors: list[Tensor]) -> bool:
    """Whether all of them hold numbers only, asked of the device once."""
    each = [torch.isfinite(x).all() for x in tensors if x.is_floating_point()]
    return not each or bool(torch.stack(each).all())
