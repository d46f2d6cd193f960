"""A machine is read from its trace: heads, numbers, the slots that matter, the step it jumps."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard.view import Map, Series, Slots, Steps, Trace
from regard.view.traces.memory_trace import as_memory_trace, used_slots, why_not
from tests.view.example_traces import copying, translation


def without(id: str) -> Trace:
    """A machine whose trace has lost a map or a series."""
    trace = copying()
    kept = ([part for part in parts if part.id != id] for parts in (trace.maps, trace.series))
    return replace(trace, **dict(zip(("maps", "series"), kept, strict=True)))


def changed(id: str, values: torch.Tensor) -> Trace:
    """A machine of which one series is another."""
    trace = copying(heads=2)
    series = [Series(id, "steps", values) if s.id == id else s for s in trace.series]
    return replace(trace, series=series)


def test_the_read_head_jumps_where_content_moves_it_and_not_where_it_is_shifted():
    head = as_memory_trace(copying(vectors=3)).read_head
    moved = (head.weights[1:] - head.weights[:-1]).abs().sum(1) / 2
    assert_close(moved, torch.full((7,), 0.9))  # by shifts as far as by the jump
    assert head.jump_step() == 4


def test_the_jump_by_hand():
    before, content = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]), torch.eye(2)[[0, 0, 1]]
    gate = torch.tensor([[0.5], [1.0], [0.6]])
    gated = gate * content + (1 - gate) * torch.cat([before[:1], before[:-1]])
    stages = torch.stack([content, gated, gated, before])
    # by half of one at step 1, where g is 1, and by 0.6 of one at step 2
    assert replace(as_memory_trace(copying()).read_head, stages=stages).jump_step() == 2


def test_a_machine_of_one_step_has_only_that():
    head = as_memory_trace(copying()).read_head
    assert replace(head, stages=head.stages[:, :1]).jump_step() == 0


def test_numbers_are_those_of_the_head():
    strength = torch.arange(16.0).reshape(8, 2)
    found = as_memory_trace(changed("read.strength", strength), head=1).read_head
    assert found.strength.tolist() == strength[:, 1].tolist()
    shift = torch.arange(48.0).reshape(8, 6)
    found = as_memory_trace(changed("read.shift", shift), head=1).read_head
    assert found.shift.tolist() == shift[:, 3:].tolist()
    assert list(found.shifts) == [-1, 0, 1]
    assert found.name == "read head 1"


def test_the_memory_is_cut_into_slots():
    trace = copying(slots=17, width=5)
    (flat,) = (series.values for series in trace.series if series.id == "memory")
    assert as_memory_trace(trace).memory[3, 4].tolist() == flat[3, 20:25].tolist()


def test_where_fewer_heads_write_the_last_of_them_stands_beside():
    trace, one = copying(heads=2), copying()
    maps = [m for m in trace.maps if m.id[:4] == "read"] + [
        m for m in one.maps if m.id[:5] == "write"
    ]
    series = [one.series[n] if s.id[:6] == "write." else s for n, s in enumerate(trace.series)]
    found = as_memory_trace(replace(trace, maps=maps, series=series), head=1)
    assert (found.read_head.name, found.write_head.name) == ("read head 1", "write head")


@pytest.mark.parametrize(
    ("large", "margin", "kept"),
    [
        ([4], 1, [3, 4, 5]),
        ([2, 6], 0, [2, 6]),
        ([0], 1, [7, 0, 1]),
        ([6, 7, 0], 1, [5, 6, 7, 0, 1]),
        ([], 2, list(range(8))),
        ([0, 3, 6], 1, list(range(8))),
    ],
)
def test_slots_are_used_where_a_weight_is_large_or_near_one_on_the_ring(large, margin, kept):
    w = torch.full((3, 8), 0.049)
    w[1, large] = 0.05
    assert used_slots(w, min_weight=0.05, margin=margin) == kept


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        (translation(), "expected a trace with slots of a memory, got tokens, tokens"),
        (without("read"), "expected a map read, got none"),
        (without("write.gated"), "expected a map write.gated, got read, read.content, read.gated"),
        (without("read.shift"), "expected a series read.shift, got adds, inputs, memory, outputs"),
        (without("targets"), None),
    ],
    ids=["tokens", "read", "map", "series", "targets"],
)
def test_what_is_no_machine_is_refused_in_words(trace, reason):
    found = why_not(trace)
    assert found is None if reason is None else found.startswith(reason)
    if reason is not None:
        with pytest.raises(ValueError, match=f"tape: {reason}"):
            as_memory_trace(trace)


def test_a_map_onto_something_else_is_none_of_the_machine():
    trace = copying()
    other = Map("write", "steps", "other", torch.ones(1, 1, 8, 1))
    maps = [other if m.id == "write" else m for m in trace.maps]
    found = why_not(replace(trace, axes=[*trace.axes, Slots("other", 1)], maps=maps))
    assert found.startswith("expected a map write, got read,")
    reads = replace(trace.map("read"), key="places")
    found = why_not(replace(trace, axes=[*trace.axes, Steps("places", ["0"] * 17)], maps=[reads]))
    assert found == "expected a map read, got none"


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="tape: expected step from 0 to 7, got 8"):
        as_memory_trace(copying()).select_step(8)
    with pytest.raises(ValueError, match="Map 'read': expected head from 0 to 1, got 2"):
        as_memory_trace(copying(heads=2), head=2)
    with pytest.raises(ValueError, match="series memory of 17 equal parts, got 86 numbers"):
        as_memory_trace(changed("memory", torch.zeros(8, 86)))
