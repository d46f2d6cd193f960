"""A trace read as points that are pointed at one by one: a tour, a hull, triangles, an order."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.view.traces.axes import Points, Steps
from regard.view.traces.trace import Trace

# What the points of an answer are, in the order in which they are pointed at.
TASKS = ("tour", "hull", "triangles", "order")
# What a row lacks of one by rounding alone is no share of the end.
_ROUNDING_TOLERANCE = 0.01


class Edge(NamedTuple):
    """A line of the answer, and the step that drew it."""

    start: int
    end: int
    step: int


@dataclass(frozen=True, eq=False)
class PointerTrace:
    """N points, and at which of them each of T steps points.

    Args:
        steps: the id of the axis of steps.
        points: the id of the axis of points.
        xy: where the points are (N, 2), in float64.
        weights: how probable each point is at each step (T, N).
        indices: the point of each step; where there is one fewer, the last step ends the answer.
    """

    task: str
    steps: str
    points: str
    xy: Tensor
    weights: Tensor
    indices: list[int]

    @property
    def end_probability(self) -> Tensor:
        """How probable the end is at each step: what its row lacks of one (T,)."""
        rest = (1 - self.weights.sum(1)).clamp(min=0)
        return torch.where(rest < _ROUNDING_TOLERANCE, torch.zeros_like(rest), rest)

    @property
    def triangles(self) -> list[list[int]]:
        """The corners of every whole triangle, if that is what the points are."""
        if self.task != "triangles":
            return []
        return [self.indices[i : i + 3] for i in range(0, len(self.indices) - 2, 3)]

    @property
    def edges(self) -> list[Edge]:
        """The lines of the answer; the one that closes a tour or a hull comes after all points."""
        if self.task == "triangles":
            sides = ((0, 1, 1), (1, 2, 2), (2, 0, 2))
            found = [
                Edge(corners[a], corners[b], 3 * k + step)
                for k, corners in enumerate(self.triangles)
                for a, b, step in sides
            ]
            return [edge for edge in found if edge.start != edge.end]
        pairs = zip(self.indices, self.indices[1:], strict=False)
        found = [Edge(a, b, step) for step, (a, b) in enumerate(pairs, 1)]
        if self.task != "order" and len(self.indices) > 2:
            found.append(Edge(self.indices[-1], self.indices[0], len(self.indices)))
        return [edge for edge in found if edge.start != edge.end]

    def select_step(self, step: int | None = None) -> int:
        """The step that was asked for, or the one that was least sure where to point."""
        T = len(self.weights)
        if step is not None and not 0 <= step < T:
            raise ValueError(f"plane: expected step from 0 to {T - 1}, got {step}")
        if step is not None:
            return step
        unsure = torch.special.entr(self.weights).sum(1) + torch.special.entr(self.end_probability)
        return int(unsure.argmax())


def why_not(trace: Trace) -> str | None:
    """The reason a trace is none of points that are pointed at, or None if it is one."""
    if not any(isinstance(axis, Points) for axis in trace.axes):
        return f"expected a trace with points, got {', '.join(axis.kind for axis in trace.axes)}"
    if not trace.maps:
        return "expected a first map from steps to points, got no map"
    query, key = (trace.axis(id) for id in (trace.map().query, trace.map().key))
    if not (isinstance(query, Steps) and isinstance(key, Points)):
        return f"expected a first map from steps to points, got one from {query.kind} to {key.kind}"
    task, given = trace.outputs.get("task"), _flatten_list(trace.outputs.get("indices"))
    if task not in TASKS:
        return f"expected a task of outputs that is one of {', '.join(TASKS)}, got {task!r:.80}"
    if given is None or not all(type(i) is int and 0 <= i < key.size for i in given):
        got = f"{trace.outputs.get('indices')!r:.80}"
        return f"expected indices of outputs as whole numbers below {key.size}, got {got}"
    if not query.size - 1 <= len(given) <= query.size:
        return f"expected a point for each of {query.size} steps, got {len(given)}"
    return None


def as_pointer_trace(trace: Trace) -> PointerTrace:
    """The points of a trace, and at which of them it pointed.

    Raises:
        ValueError: the trace is none of points that are pointed at.
    """
    reason = why_not(trace)
    if reason is not None:
        raise ValueError(f"plane: {reason}")
    map, points = trace.map(), trace.axis(trace.map().key)
    assert isinstance(points, Points)
    xy, weights = points.xy.double().cpu(), map.weights().float().cpu()
    given = _flatten_list(trace.outputs["indices"]) or []
    return PointerTrace(trace.outputs["task"], map.query, map.key, xy, weights, given)


def _flatten_list(value: Any) -> list[Any] | None:
    """A list, with the lists inside it taken apart; None of what is no list."""
    if not isinstance(value, list):
        return None
    return [one for each in value for one in (each if isinstance(each, list) else [each])]
