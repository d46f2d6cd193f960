"""A trace is read as points that are pointed at: the lines of the answer, its end, its doubt."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard.view import Map, Points, Steps, Trace
from regard.view.traces.pointer_trace import PointerTrace, as_pointer_trace, why_not
from tests.view.example_traces import copying, pointed, translation


def of(task: str, indices: list[int], points: int = 5) -> PointerTrace:
    """Points that are pointed at without a doubt."""
    weights = torch.eye(points)[indices]
    return PointerTrace(task, "steps", "points", torch.rand(points, 2).double(), weights, indices)


@pytest.mark.parametrize(
    ("task", "indices", "edges"),
    [
        ("tour", [2, 0, 1], [(2, 0, 1), (0, 1, 2), (1, 2, 3)]),
        ("hull", [2, 0, 1], [(2, 0, 1), (0, 1, 2), (1, 2, 3)]),
        ("tour", [2, 0, 1, 2], [(2, 0, 1), (0, 1, 2), (1, 2, 3)]),
        ("order", [2, 0, 1], [(2, 0, 1), (0, 1, 2)]),
        ("triangles", [2, 0, 1], [(2, 0, 1), (0, 1, 2), (1, 2, 2)]),
        ("triangles", [0, 1, 2, 3, 1], [(0, 1, 1), (1, 2, 2), (2, 0, 2)]),
        ("tour", [2, 0], [(2, 0, 1)]),
        ("tour", [2], []),
        ("hull", [], []),
    ],
    ids=["tour", "hull", "closed", "order", "triangle", "part", "two", "one", "none"],
)
def test_lines_join_the_points_in_order_and_know_their_step(task, indices, edges):
    assert of(task, indices).edges == edges


def test_triangles_are_threes():
    assert of("triangles", [0, 1, 2, 3, 1, 2, 4]).triangles == [[0, 1, 2], [3, 1, 2]]
    assert of("tour", [0, 1, 2]).triangles == []


def test_what_a_row_lacks_of_one_is_the_share_of_the_end():
    found = replace(of("hull", [0, 1]), weights=torch.tensor([[0.5, 0.2], [0.999, 0.0]]))
    assert_close(found.end_probability, torch.tensor([0.3, 0.0]))


def test_the_step_is_the_one_of_the_greatest_doubt_or_the_one_asked_for():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.9, 0.05, 0.05]])
    found = replace(of("tour", [0, 1, 2], 3), weights=weights)
    assert (found.select_step(), found.select_step(0)) == (1, 0)
    # of one point and the end, half each, one may be in as much doubt as of two points
    ended = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.5, 0.0, 0.0]])
    assert replace(found, weights=ended).select_step() == 2
    with pytest.raises(ValueError, match="plane: expected step from 0 to 2, got 3"):
        found.select_step(3)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("task", ["tour", "hull", "triangles", "order"])
def test_points_and_weights_are_those_of_the_trace(task, ended):
    trace = pointed(task, 7, ended=ended)
    found = as_pointer_trace(trace)
    assert (found.task, found.steps, found.points) == (task, "steps", "points")
    assert torch.equal(found.xy, trace.axis("points").xy.double())
    assert torch.equal(found.weights, trace.map("pointer").weights())
    assert len(found.indices) == trace.axis("steps").size - ended
    assert trace.axis("steps").labels[0] == f"→ {found.indices[0]}"
    assert bool(found.end_probability.any()) is ended


def test_triangles_may_be_lists_of_three_or_one_list():
    nested = pointed("triangles", 7)
    flat = [i for corners in nested.outputs["indices"] for i in corners]
    told = nested.outputs | {"indices": flat}
    assert (
        as_pointer_trace(replace(nested, outputs=told)).indices
        == as_pointer_trace(nested).indices
        == flat
    )


def wrong(**outputs: object) -> Trace:
    """Points that are pointed at, of which the outputs tell something else."""
    trace = pointed("tour", 5)
    return replace(trace, outputs=trace.outputs | outputs)


def turned() -> Trace:
    """Points that look at steps."""
    axes = [Steps("steps", ["a"]), Points("points", torch.rand(3, 2))]
    return Trace(axes, [Map("m", "points", "steps", torch.ones(1, 1, 3, 1))])


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        (translation(), "expected a trace with points, got tokens, tokens"),
        (copying(), "expected a trace with points, got steps, slots"),
        (replace(pointed(), maps=[]), "expected a first map from steps to points, got no map"),
        (turned(), "expected a first map from steps to points, got one from points to steps"),
        (wrong(task="knapsack"), "expected a task of outputs that is one of tour, hull, triangles"),
        (
            wrong(task=None),
            "expected a task of outputs that is one of tour, hull, triangles, order",
        ),
        (wrong(indices=None), "expected indices of outputs as whole numbers below 5, got None"),
        (wrong(indices=[0, 1, 2, 3, 5]), "expected indices of outputs as whole numbers below 5, g"),
        (wrong(indices=[True] * 5), "expected indices of outputs as whole numbers below 5, got [T"),
        (wrong(indices=[0, 1, 2]), "expected a point for each of 5 steps, got 3"),
        (wrong(indices=[0, 1, 2, 3, 4, 0]), "expected a point for each of 5 steps, got 6"),
    ],
)
def test_a_trace_of_anything_else_says_why(trace, reason):
    assert why_not(trace).startswith(reason)
    with pytest.raises(ValueError, match="plane: expected"):
        as_pointer_trace(trace)


def test_a_trace_of_points_has_nothing_against_it():
    assert why_not(pointed()) is None
