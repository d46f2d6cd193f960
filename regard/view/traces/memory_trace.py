"""A trace read as a machine with a memory: its slots, its heads, and the step where it jumps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.check import Number
from regard.view.traces.axes import Slots
from regard.view.traces.trace import Map, Trace

# How the weights of a head are made, one from the other; a map has the last under its bare name.
STAGES = ("content", "gated", "shifted", "sharpened")
_HEAD_KINDS = ("read", "write")
_REQUIRED_MAPS = tuple(
    kind + stage for kind in _HEAD_KINDS for stage in ("", ".content", ".gated", ".shifted")
)
_REQUIRED_SERIES = (
    "memory",
    *(f"{kind}.{of}" for kind in _HEAD_KINDS for of in ("strength", "gate", "shift", "sharpness")),
)


@dataclass(frozen=True, eq=False)
class MemoryHead:
    """One head of a machine at all of its T steps.

    Args:
        name: what it does, and its number where there are several.
        stages: its weights (4, T, N), in the order of `STAGES`.
        strength: β, how much content that is alike counts for (T,).
        gate: g, the share of content, beside that of the weights before (T,).
        shift: s, how much is moved by each of S places, the middle one by none (T, S).
        sharpness: γ, the power that sharpens (T,).
    """

    name: str
    stages: Tensor
    strength: Tensor
    gate: Tensor
    shift: Tensor
    sharpness: Tensor

    @property
    def weights(self) -> Tensor:
        """What it reads or writes by (T, N)."""
        return self.stages[-1]

    @property
    def shifts(self) -> range:
        """By how many slots each number of `shift` moves."""
        S = self.shift.shape[1]
        return range(-(S // 2), S - S // 2)

    def jump_step(self) -> int:
        """The step at which content moved the head most; what shifting moves does not count.

        Before it is shifted, a head is g · content + (1 − g) · before: its distance from before,
        in total variation, is the share of the weight that was found by content somewhere else.
        """
        if len(self.weights) == 1:
            return 0
        moved = (self.stages[1, 1:] - self.weights[:-1]).abs().sum(1) / 2  # (T - 1,)
        return 1 + int(moved.argmax())


@dataclass(frozen=True, eq=False)
class MemoryTrace:
    """A memory of N slots of width W over T steps, a head that reads and one that writes it.

    Args:
        steps: the id of the axis of steps.
        memory: what the slots hold after each step (T, N, W).
    """

    steps: str
    memory: Tensor
    read_head: MemoryHead
    write_head: MemoryHead

    def select_step(self, step: int | None = None) -> int:
        """The step that was asked for, or the one at which the read head jumps."""
        T = len(self.memory)
        if step is not None and not 0 <= step < T:
            raise ValueError(f"tape: expected step from 0 to {T - 1}, got {step}")
        return self.read_head.jump_step() if step is None else step


def why_not(trace: Trace) -> str | None:
    """The reason a trace is none of a machine with a memory, or None if it is one."""
    slots = {axis.id for axis in trace.axes if isinstance(axis, Slots)}
    if not slots:
        kinds = ", ".join(axis.kind for axis in trace.axes)
        return f"expected a trace with slots of a memory, got {kinds}"
    steps, key = next(((m.query, m.key) for m in trace.maps if m.id == "read"), (None, None))
    maps = {m.id for m in trace.maps if (m.query, m.key) == (steps, key) and key in slots}
    series = {each.id for each in trace.series if each.axis == steps}
    for kind, needed, given in (
        ("map", _REQUIRED_MAPS, maps),
        ("series", _REQUIRED_SERIES, series),
    ):
        for id in needed:
            if id not in given:
                return f"expected a {kind} {id}, got {', '.join(sorted(given)) or 'none'}"
    return None


def as_memory_trace(trace: Trace, *, head: int = 0) -> MemoryTrace:
    """The machine of a trace, with this head that reads and its like that writes, or the last.

    Raises:
        ValueError: the trace is none of a machine, or has no such head.
    """
    reason = why_not(trace)
    if reason is not None:
        raise ValueError(f"tape: {reason}")
    read, write = (trace.map(kind) for kind in _HEAD_KINDS)
    read.check_head(0, head)
    memory = _split_series(trace, "memory", trace.axis(read.key).size)
    return MemoryTrace(
        read.query, memory, *(_build_head(trace, map, head) for map in (read, write))
    )


def used_slots(weights: Tensor, *, min_weight: Number, margin: int) -> list[int]:
    """The slots that any row of weights (…, N) gives `least` or more, and `margin` on each side.

    Slots are a ring: those that go over its end are kept in one piece, so 126, 127, 0, 1.
    Where no weight is so large, all are kept.
    """
    N = weights.shape[-1]
    large = (weights.reshape(-1, N) >= min_weight).any(0)
    if not bool(large.any()):
        return list(range(N))
    near = torch.stack([large.roll(by) for by in range(-margin, margin + 1)]).any(0)
    kept = near.nonzero().flatten().tolist()
    gap = next((place for place in range(N) if not near[place]), None)
    if gap is None or not (near[0] and near[-1]):
        return kept
    return [place for place in kept if place > gap] + [place for place in kept if place < gap]


def _build_head(trace: Trace, map: Map, head: int) -> MemoryHead:
    head = min(head, map.heads - 1)
    name = f"{map.id} head {head}" if map.heads > 1 else f"{map.id} head"
    ids = (f"{map.id}.content", f"{map.id}.gated", f"{map.id}.shifted", map.id)
    stages = torch.stack([trace.map(id).weights(0, head).float().cpu() for id in ids])
    strength, gate, shift, sharpness = (
        _split_series(trace, f"{map.id}.{of}", map.heads)[:, head]
        for of in ("strength", "gate", "shift", "sharpness")
    )
    return MemoryHead(name, stages, strength[:, 0], gate[:, 0], shift, sharpness[:, 0])


def _split_series(trace: Trace, id: str, parts: int) -> Tensor:
    """A series (T, parts * n) as (T, parts, n)."""
    values: Tensor = next(series.values for series in trace.series if series.id == id)
    values = values.float().cpu().reshape(len(values), -1)
    if values.shape[1] % parts:
        raise ValueError(
            f"tape: expected series {id} of {parts} equal parts, got {values.shape[1]} numbers"
        )
    return values.reshape(len(values), parts, -1)
