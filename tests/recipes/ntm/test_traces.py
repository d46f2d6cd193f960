"""Showing: what is answered, and a trace of all that a machine did with its memory for it."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard import edit, edits
from regard.data.ntm.copy import Copy
from regard.looking import is_observed
from regard.recipes import copy
from regard.recipes.ntm import traces
from regard.view import UnseenError
from regard.view.traces.memory_trace import as_memory_trace, why_not
from tests.recipes.untrained import MACHINE, NET, copying, saying, untrained

TEXT = "01 11 10"


@pytest.fixture
def loaded():
    return untrained(copy, bits=2)


@pytest.fixture
def trace(loaded):
    return copy.trace(loaded, TEXT)


def test_who_can_copy_says_what_was_typed(loaded):
    found = copy.predict(saying(loaded, copying), TEXT)
    assert (found.text, found.answer, found.candidates) == (TEXT, TEXT, [])


def test_what_is_said_is_above_one_half(loaded):
    found = copy.predict(saying(loaded, lambda x: torch.tensor([9.0, -9]).expand(1, 8, 2)), TEXT)
    assert (found.text, found.answer) == ("10 10 10", TEXT)


def test_a_trace_is_one_of_a_machine(trace):
    assert why_not(trace) is None
    assert [axis.size for axis in trace.axes] == [8, 8]
    assert {series.id for series in trace.series} >= {"inputs", "targets", "outputs", "reads"}


def test_rows_of_every_map_sum_to_one(trace):
    for map in trace.maps:
        assert_close(map.all_weights().sum(-1), torch.ones(1, 1, 8))


def test_a_trace_has_every_head_in_its_place():
    many = untrained(copy, replace(MACHINE, read_heads=2, write_heads=3), bits=2)
    trace = copy.trace(many, TEXT)
    assert [trace.map(id).heads for id in ("read", "read.content", "write")] == [2, 2, 3]
    assert why_not(trace) is None


def test_the_memory_of_a_trace_is_what_the_machine_holds_after_each_step(loaded, trace):
    with torch.no_grad():
        _, state = loaded.model(Copy(bits=2).parse_episode(TEXT).inputs)
    found = as_memory_trace(trace)
    assert_close(found.memory[-1], state.memory[0])
    assert_close(found.read_head.weights[-1], state.weights[0, 0])
    assert_close(found.write_head.weights[-1], state.weights[0, 1])


def test_looking_changes_no_word(loaded, trace):
    said = copy.predict(loaded, TEXT)
    assert (trace.outputs["text"], trace.outputs["answer"]) == (said.text, TEXT)
    assert trace.header.title == f"{TEXT} → {said.text}"


def test_steps_are_named_by_what_came_in_and_what_was_said(trace):
    said = trace.outputs["text"].split()
    expected = ["start", "01", "11", "10", "end", *(f"→ {each}" for each in said)]
    assert list(trace.axis("steps").labels) == expected


def test_a_net_without_a_memory_has_nothing_to_show():
    with pytest.raises(UnseenError, match="trace: a model of kind lstm has no memory to look at"):
        copy.trace(untrained(copy, NET, bits=2), TEXT)


@pytest.mark.parametrize("show", [copy.predict, copy.trace])
def test_more_vectors_than_slots_are_refused(loaded, show):
    with pytest.raises(ValueError, match="copy: 9 vectors do not fit into a memory of 8 slots"):
        show(loaded, "01" * 9)


@pytest.mark.parametrize("show", [copy.predict, copy.trace])
def test_more_steps_than_one_would_type_are_refused(loaded, show, monkeypatch):
    monkeypatch.setattr(traces, "MAX_STEPS", 7)
    with pytest.raises(ValueError, match="copy: expected at most 7 steps, got 8"):
        show(loaded, TEXT)


def test_every_step_is_told_and_what_is_said_grows(loaded):
    told = []
    trace = copy.trace(loaded, TEXT, on_progress=lambda *given: told.append(given))
    assert [done for done, _, _ in told] == list(range(1, 9))
    assert {total for _, total, _ in told} == {8}
    words = trace.outputs["text"].split()
    said = [" ".join(words[:n]) or None for n in range(4)]
    assert [text for _, _, text in told] == [None] * 5 + said[1:]


def test_what_is_told_may_end_it_at_once_and_nothing_is_left_open(loaded):
    def tell(done, total, text):
        if done == 3:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        copy.trace(loaded, TEXT, on_progress=tell)
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in loaded.model.modules()]
    assert not any(hooks) and not is_observed()


def test_only_what_a_reading_head_seeks_can_be_edited_by_its_name(trace):
    assert {map.id: map.names for map in trace.maps if map.names} == {"read.content": ("heads",)}


def test_an_edit_of_what_heads_seek_is_seen_in_the_map_that_has_its_name(loaded):
    loaded = untrained(copy, replace(MACHINE, read_heads=2), bits=2)
    with edit(loaded.model, {"heads": edits.hide([(2, 5)], heads=[1])}):
        content = copy.trace(loaded, TEXT).map("read.content")
    hidden = (content.all_weights()[0] == 0).nonzero().tolist()
    assert hidden == [[1, 2, 5]]


def test_it_is_right_if_it_says_the_answer(trace, loaded):
    assert trace.outputs["right"] == (trace.outputs["text"] == trace.outputs["answer"])
    assert trace.outputs["answer"] == TEXT
