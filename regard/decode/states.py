"""A state is a tree of tensors with the batch first: its rows are spread over beams, and moved."""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

from regard import check

# What belongs to no row: it is the same for all of them.
_ROWLESS_TYPES = (type(None), int, float, complex, str, bytes, Enum, torch.dtype, torch.device)


def _map_tensors(
    change: Callable[[Tensor, str], Tensor],
    tree: Any,
    name: str = "state",
    change_part: Callable[[Any, str], Any] | None = None,
) -> Any:
    """The tree with `change` made to each of its tensors, whose names say where they stand.

    Parts with `expand_beams` or `reorder_and_reserve` are changed by `change_part`, if given.
    """
    if isinstance(tree, Tensor):
        # weights that were prepared for many steps are the same for all rows
        return tree if isinstance(tree, nn.Parameter) else change(tree, name)
    if change_part is not None and (
        _is_shared_by_beams(tree) or hasattr(tree, "reorder_and_reserve")
    ):
        return change_part(tree, name)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a NamedTuple
        named = zip(tree._fields, tree, strict=True)
        return type(tree)(
            *(_map_tensors(change, x, f"{name}.{field}", change_part) for field, x in named)
        )
    if isinstance(tree, tuple | list):
        return type(tree)(
            _map_tensors(change, x, f"{name}[{i}]", change_part) for i, x in enumerate(tree)
        )
    if isinstance(tree, dict):
        new = copy.copy(tree)
        new.update(
            (key, _map_tensors(change, x, f"{name}[{key!r}]", change_part))
            for key, x in tree.items()
        )
        return new
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if f.init}
        changed = {k: _map_tensors(change, x, f"{name}.{k}", change_part) for k, x in parts.items()}
        return dataclasses.replace(tree, **changed)
    if isinstance(tree, _ROWLESS_TYPES):
        return tree
    raise ValueError(
        f"decode: expected {name} as a tree of tensors (tuple, list, dict, NamedTuple, dataclass), "
        f"got a {type(tree).__name__}, in which no beam can be moved"
    )


def _is_shared_by_beams(part: Any) -> bool:
    """Whether the beams of a source share a part: it expands by itself and is never moved."""
    return hasattr(part, "expand_beams")


def batch_size_and_device(where: str, state: Any) -> tuple[int, torch.device]:
    """The batch size and the device of a state, whose tensors must agree on it."""
    found: dict[str, Tensor] = {}

    def collect(x: Tensor, name: str) -> Tensor:
        return found.setdefault(name, x) if x.dim() else x

    _map_tensors(
        collect,
        state,
        change_part=lambda part, name: (
            part if _is_shared_by_beams(part) else _map_tensors(collect, part, name)
        ),
    )
    if not found:
        raise ValueError(f"{where}: expected a state with a tensor in it, got {state!r}")
    first = next(iter(found.values()))
    for name, x in found.items():
        _check_rows(where, name, x, len(first))
    return len(first), first.device


def sum_dtype(state: Any) -> torch.dtype:
    """In what dtype the log-probabilities of a model with such a state are summed."""
    exact = any(isinstance(x, Tensor) and x.dtype == torch.float64 for _, x in leaves(state))
    return torch.float64 if exact else torch.float32


def _check_rows(where: str, name: str, x: Tensor, rows: int) -> None:
    if x.shape[0] != rows:
        raise ValueError(
            f"{where}: expected {name} with the batch first, (B={rows}, …), got {tuple(x.shape)}"
        )


# By their ids, tensors that hold W equal rows for each source, and how often each was written to.
RepeatedTensors = dict[int, tuple[Tensor, int]]


def repeat_rows(state: Any, width: int) -> tuple[Any, RepeatedTensors]:
    """The state with each row `width` times, and the tensors that `reorder_rows` may trust.

    A part with `expand_beams` does so by itself: its rows are those of all beams of a source.
    """
    made: dict[int, Tensor] = {}

    def repeat_tensor(x: Tensor, name: str) -> Tensor:
        if not x.dim():
            return x
        if id(x) not in made:
            made[id(x)] = x.repeat_interleave(width, 0)
        return made[id(x)]

    def repeat_part(part: Any, name: str) -> Any:
        return (
            part.expand_beams(width)
            if _is_shared_by_beams(part)
            else _map_tensors(repeat_tensor, part, name)
        )

    state = _map_tensors(repeat_tensor, state, change_part=repeat_part)
    # Nobody counts what is written to a tensor of inference mode, so it is moved every time.
    counted = [x for x in made.values() if not x.is_inference()]
    return state, {id(x): (x, x._version) for x in counted}


def reorder_rows(where: str, state: Any, parents: Tensor, repeated: RepeatedTensors) -> Any:
    """The state whose row w of each source is the row `parents` (B, W) of the same source.

    A tensor that `step` hands on as it got it, such as the memory of an encoder, is not copied:
    spreading made all W rows of a source equal, parents stay with their source, so moving the rows
    gives the same numbers. It is known to be that tensor if it is the same object (kept here, so
    that its id is its own) and torch has counted no write to it or to a view of it since.
    """
    B, W = parents.shape
    if W == 1:
        return state
    index = (parents + torch.arange(B, device=parents.device)[:, None] * W).flatten()
    # On a GPU, to ask would be to wait.
    if check.can_read_values(index) and bool((parents == torch.arange(W)).all()):
        return state

    def is_unchanged(x: Any) -> bool:
        kept, writes = repeated.get(id(x), (None, 0))
        return kept is not None and kept is x and x._version == writes

    def reorder_tensor(x: Tensor, name: str) -> Tensor:
        if not x.dim() or is_unchanged(x):
            return x
        _check_rows(where, name, x, B * W)
        return x.index_select(0, index)

    def reorder_part(part: Any, name: str) -> Any:
        """A part that knows how, such as a cache, which leaves room for what comes next."""
        if _is_shared_by_beams(part):
            return part
        rows = [(at, x) for at, x in leaves(part, name) if isinstance(x, Tensor) and x.dim()]
        rows = [(at, x) for at, x in rows if not isinstance(x, nn.Parameter)]
        if all(is_unchanged(x) for _, x in rows):
            return part
        for at, x in rows:
            _check_rows(where, at, x, B * W)
        return part.reorder_and_reserve(index)

    return _map_tensors(reorder_tensor, state, change_part=reorder_part)


def leaves(tree: Any, name: str = "state") -> Iterator[tuple[str, Any]]:
    """All that a tree holds, tensors of no axes and plain values too, by their names."""
    inside: Any
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        inside = ((f"{name}.{field}", x) for field, x in zip(tree._fields, tree, strict=True))
    elif isinstance(tree, tuple | list):
        inside = ((f"{name}[{i}]", x) for i, x in enumerate(tree))
    elif isinstance(tree, dict):
        inside = ((f"{name}[{key!r}]", x) for key, x in tree.items())
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = (f.name for f in dataclasses.fields(tree) if f.init)
        inside = ((f"{name}.{field}", getattr(tree, field)) for field in fields)
    else:
        yield name, tree
        return
    for part, x in inside:
        yield from leaves(x, part)


def shares_memory(tree: Any, x: Tensor) -> bool:
    """Whether a tensor of the tree lies in the memory of `x`."""
    place = x.untyped_storage().data_ptr()
    tensors = (y for _, y in leaves(tree) if isinstance(y, Tensor))
    return any(y.untyped_storage().data_ptr() == place for y in tensors)


def copy_if_shared(tree: Any, x: Tensor) -> Tensor:
    """`x`, or a copy where the tree holds it: what is written to it is then not written there."""
    return x.clone() if shares_memory(tree, x) else x


def tree_spec(tree: Any) -> tuple[Any, ...]:
    """What two trees share if one can be written over the other: all but the numbers in tensors."""
    return tuple(
        (name, tuple(x.shape), x.dtype, x.device) if isinstance(x, Tensor) else (name, x)
        for name, x in leaves(tree)
    )


def copy_into(tree: Any, new: Any) -> None:
    """Have the tensors of a tree hold what those of a new one of the same form hold."""
    both = zip(leaves(tree), leaves(new), strict=True)
    pairs = [(a, b) for (_, a), (_, b) in both if isinstance(a, Tensor) and a is not b]
    # what lies in memory that is written over is saved first
    written = {a.untyped_storage().data_ptr() for a, _ in pairs}
    saved = [b.clone() if b.untyped_storage().data_ptr() in written else b for _, b in pairs]
    alike: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    for (a, _), b in zip(pairs, saved, strict=True):
        alike.setdefault(a.dtype, []).append((a, b))
    # on a GPU, all of a dtype are one launch
    for each in alike.values():
        torch._foreach_copy_([a for a, _ in each], [b for _, b in each])


def with_own_memory(tree: Any, *others: Any) -> Any:
    """The tree with each tensor in memory of its own, that can be written to, and not of others."""
    taken = {x.untyped_storage().data_ptr() for _, x in leaves(others) if isinstance(x, Tensor)}

    def own_copy(x: Tensor, name: str) -> Tensor:
        place = x.untyped_storage().data_ptr()
        repeats = any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))
        if place in taken or repeats:
            return x.clone(memory_format=torch.contiguous_format)
        taken.add(place)
        return x

    return _map_tensors(own_copy, tree)


def clone_tree(tree: Any) -> Any:
    """The tree with copies of its tensors."""
    return _map_tensors(lambda x, name: x.clone(memory_format=torch.contiguous_format), tree)
