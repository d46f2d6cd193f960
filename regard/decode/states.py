"""A state is a tree of tensors with the batch first: its rows are spread over beams, and moved."""

import copy
import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from regard import check

# What belongs to no row: it is the same for all of them.
_PLAIN = (type(None), int, float, complex, str, bytes, Enum, torch.dtype, torch.device)


def _mapped(change: Callable[[Tensor, str], Tensor], tree: Any, name: str = "state") -> Any:
    """The tree with `change` made to each of its tensors, whose names say where they stand."""
    if isinstance(tree, Tensor):
        return change(tree, name) if tree.dim() else tree
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a NamedTuple
        named = zip(tree._fields, tree, strict=True)
        return type(tree)(*(_mapped(change, x, f"{name}.{field}") for field, x in named))
    if isinstance(tree, tuple | list):
        return type(tree)(_mapped(change, x, f"{name}[{i}]") for i, x in enumerate(tree))
    if isinstance(tree, dict):
        new = copy.copy(tree)
        new.update((key, _mapped(change, x, f"{name}[{key!r}]")) for key, x in tree.items())
        return new
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if f.init}
        changed = {k: _mapped(change, x, f"{name}.{k}") for k, x in parts.items()}
        return dataclasses.replace(tree, **changed)
    if isinstance(tree, _PLAIN):
        return tree
    raise ValueError(
        f"decode: expected {name} as a tree of tensors (tuple, list, dict, NamedTuple, dataclass), "
        f"got a {type(tree).__name__}, in which no beam can be moved"
    )


def batch(where: str, state: Any) -> tuple[int, torch.device]:
    """The batch size and the device of a state, whose tensors must agree on it."""
    found: dict[str, Tensor] = {}

    def keep(x: Tensor, name: str) -> Tensor:
        return found.setdefault(name, x)

    _mapped(keep, state)
    if not found:
        raise ValueError(f"{where}: expected a state with a tensor in it, got {state!r}")
    first = next(iter(found.values()))
    for name, x in found.items():
        _refuse_rows(where, name, x, len(first))
    return len(first), first.device


def _refuse_rows(where: str, name: str, x: Tensor, rows: int) -> None:
    if x.shape[0] != rows:
        raise ValueError(
            f"{where}: expected {name} with the batch first, (B={rows}, …), got {tuple(x.shape)}"
        )


# By their ids, tensors that hold W equal rows for each source, and how often each was written to.
Fresh = dict[int, tuple[Tensor, int]]


def spread(state: Any, width: int) -> tuple[Any, Fresh]:
    """The state with each row `width` times, and those of its tensors that `moved` may trust."""
    made: dict[int, Tensor] = {}

    def spread(x: Tensor, name: str) -> Tensor:
        if id(x) not in made:
            made[id(x)] = x.repeat_interleave(width, 0)
        return made[id(x)]

    state = _mapped(spread, state)
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

    def move(x: Tensor, name: str) -> Tensor:
        kept, writes = fresh.get(id(x), (None, 0))
        if kept is x and x._version == writes:
            return x
        _refuse_rows(where, name, x, B * W)
        return x.index_select(0, index)

    return _mapped(move, state)
