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
_PLAIN = (type(None), int, float, complex, str, bytes, Enum, torch.dtype, torch.device)


def _mapped(
    change: Callable[[Tensor, str], Tensor],
    tree: Any,
    name: str = "state",
    whole: Callable[[Any, str], Any] | None = None,
) -> Any:
    """The tree with `change` made to each of its tensors, whose names say where they stand.

    Parts that can be `spread` or `reordered` are changed as a `whole`, if that is given.
    """
    if isinstance(tree, Tensor):
        # weights that were prepared for many steps are the same for all rows
        return tree if isinstance(tree, nn.Parameter) else change(tree, name)
    if whole is not None and (_shares(tree) or hasattr(tree, "reordered")):
        return whole(tree, name)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a NamedTuple
        named = zip(tree._fields, tree, strict=True)
        return type(tree)(*(_mapped(change, x, f"{name}.{field}", whole) for field, x in named))
    if isinstance(tree, tuple | list):
        return type(tree)(_mapped(change, x, f"{name}[{i}]", whole) for i, x in enumerate(tree))
    if isinstance(tree, dict):
        new = copy.copy(tree)
        new.update((key, _mapped(change, x, f"{name}[{key!r}]", whole)) for key, x in tree.items())
        return new
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if f.init}
        changed = {k: _mapped(change, x, f"{name}.{k}", whole) for k, x in parts.items()}
        return dataclasses.replace(tree, **changed)
    if isinstance(tree, _PLAIN):
        return tree
    raise ValueError(
        f"decode: expected {name} as a tree of tensors (tuple, list, dict, NamedTuple, dataclass), "
        f"got a {type(tree).__name__}, in which no beam can be moved"
    )


def _shares(part: Any) -> bool:
    """Whether the beams of a source have a part in common: it is spread by itself, never moved."""
    return hasattr(part, "spread")


def batch(where: str, state: Any) -> tuple[int, torch.device]:
    """The batch size and the device of a state, whose tensors must agree on it."""
    found: dict[str, Tensor] = {}

    def keep(x: Tensor, name: str) -> Tensor:
        return found.setdefault(name, x) if x.dim() else x

    _mapped(
        keep, state, whole=lambda part, name: part if _shares(part) else _mapped(keep, part, name)
    )
    if not found:
        raise ValueError(f"{where}: expected a state with a tensor in it, got {state!r}")
    first = next(iter(found.values()))
    for name, x in found.items():
        _refuse_rows(where, name, x, len(first))
    return len(first), first.device


def sums(state: Any) -> torch.dtype:
    """In what dtype the log-probabilities of a model with such a state are summed."""
    exact = any(isinstance(x, Tensor) and x.dtype == torch.float64 for _, x in leaves(state))
    return torch.float64 if exact else torch.float32


def _refuse_rows(where: str, name: str, x: Tensor, rows: int) -> None:
    if x.shape[0] != rows:
        raise ValueError(
            f"{where}: expected {name} with the batch first, (B={rows}, …), got {tuple(x.shape)}"
        )


# By their ids, tensors that hold W equal rows for each source, and how often each was written to.
Fresh = dict[int, tuple[Tensor, int]]


def spread(state: Any, width: int) -> tuple[Any, Fresh]:
    """The state with each row `width` times, and those of its tensors that `moved` may trust.

    A part that can be `spread` by itself does so: its rows are those of all beams of a source.
    """
    made: dict[int, Tensor] = {}

    def spread(x: Tensor, name: str) -> Tensor:
        if not x.dim():
            return x
        if id(x) not in made:
            made[id(x)] = x.repeat_interleave(width, 0)
        return made[id(x)]

    def spreads(part: Any, name: str) -> Any:
        return part.spread(width) if _shares(part) else _mapped(spread, part, name)

    state = _mapped(spread, state, whole=spreads)
    # Nobody counts what is written to a tensor of inference mode, so it is moved every time.
    counted = [x for x in made.values() if not x.is_inference()]
    return state, {id(x): (x, x._version) for x in counted}


def moved(where: str, state: Any, parents: Tensor, fresh: Fresh) -> Any:
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
    # On a card, to ask would be to wait.
    if check.readable(index) and bool((parents == torch.arange(W)).all()):
        return state

    def same(x: Any) -> bool:
        kept, writes = fresh.get(id(x), (None, 0))
        return kept is not None and kept is x and x._version == writes

    def move(x: Tensor, name: str) -> Tensor:
        if not x.dim() or same(x):
            return x
        _refuse_rows(where, name, x, B * W)
        return x.index_select(0, index)

    def moves(part: Any, name: str) -> Any:
        """A part that knows how, such as a cache, which leaves room for what comes next."""
        if _shares(part):
            return part
        rows = [(at, x) for at, x in leaves(part, name) if isinstance(x, Tensor) and x.dim()]
        rows = [(at, x) for at, x in rows if not isinstance(x, nn.Parameter)]
        if all(same(x) for _, x in rows):
            return part
        for at, x in rows:
            _refuse_rows(where, at, x, B * W)
        return part.reordered(index)

    return _mapped(move, state, whole=moves)


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


def holds(tree: Any, x: Tensor) -> bool:
    """Whether a tensor of the tree lies in the memory of `x`."""
    place = x.untyped_storage().data_ptr()
    tensors = (y for _, y in leaves(tree) if isinstance(y, Tensor))
    return any(y.untyped_storage().data_ptr() == place for y in tensors)


def unheld(tree: Any, x: Tensor) -> Tensor:
    """`x`, or a copy where the tree holds it: what is written to it is then not written there."""
    return x.clone() if holds(tree, x) else x


def form(tree: Any) -> tuple[Any, ...]:
    """What two trees share if one can be written over the other: all but the numbers in tensors."""
    return tuple(
        (name, tuple(x.shape), x.dtype, x.device) if isinstance(x, Tensor) else (name, x)
        for name, x in leaves(tree)
    )


def write(tree: Any, new: Any) -> None:
    """Have the tensors of a tree hold what those of a new one of the same form hold."""
    both = zip(leaves(tree), leaves(new), strict=True)
    pairs = [(a, b) for (_, a), (_, b) in both if isinstance(a, Tensor) and a is not b]
    # what lies in memory that is written over is saved first
    written = {a.untyped_storage().data_ptr() for a, _ in pairs}
    saved = [b.clone() if b.untyped_storage().data_ptr() in written else b for _, b in pairs]
    alike: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    for (a, _), b in zip(pairs, saved, strict=True):
        alike.setdefault(a.dtype, []).append((a, b))
    # on a card, all of a dtype are one launch
    for each in alike.values():
        torch._foreach_copy_([a for a, _ in each], [b for _, b in each])


def apart(tree: Any, *others: Any) -> Any:
    """The tree with each tensor in memory of its own, that can be written to, and not of others."""
    taken = {x.untyped_storage().data_ptr() for _, x in leaves(others) if isinstance(x, Tensor)}

    def own(x: Tensor, name: str) -> Tensor:
        place = x.untyped_storage().data_ptr()
        repeats = any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))
        if place in taken or repeats:
            return x.clone(memory_format=torch.contiguous_format)
        taken.add(place)
        return x

    return _mapped(own, tree)


def copied(tree: Any) -> Any:
    """The tree with copies of its tensors."""
    return _mapped(lambda x, name: x.clone(memory_format=torch.contiguous_format), tree)
