"""A state may be any tree of tensors; its rows are spread and moved wherever they stand."""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch

from regard.decode import beam, greedy, states
from regard.functional import rules
from regard.layers import Cache

B, W = 2, 3
ROWS = torch.tensor([[1, 0, 0], [2, 1, 2]])
MOVED = [1, 0, 0, 5, 4, 5]


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Memory:
    keys: Any
    name: str = "m"
    total: int = field(init=False, default=3)


def tensor() -> torch.Tensor:
    """Rows that are numbered once they are spread."""
    return torch.arange(B * W).float()[:, None]


TREES = {
    "tuple": lambda x: (x, None),
    "list": lambda x: [x, 3],
    "dict": lambda x: {"a": x, "b": {"c": x}},
    "ordered": lambda x: OrderedDict(a=x, b=2.5),
    "named": lambda x: Pair(x, "word"),
    "dataclass": lambda x: Memory(x),
    "nested": lambda x: (Pair([x, {"deep": Memory((x, True))}], None), torch.float32),
    "cache": lambda x: Cache(x[:, :, None, None], x[:, :, None, None]),
    "static cache": lambda x: Cache(x[:, :, None, None], x[:, :, None, None]).to_static(4),
    "rule": lambda x: rules.padding(x[:, 0].long()),
}


def held(tree: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    states._map_tensors(lambda x, name: found.append(x) or x, tree)
    return [x for x in found if x.dim()]


@pytest.mark.parametrize("name", TREES)
def test_every_tensor_of_a_tree_is_moved_and_the_tree_stays_what_it_is(name):
    state = TREES[name](tensor())
    moved = states.reorder_rows("beam", state, ROWS, {})
    assert type(moved) is type(state) and held(state)
    for before, after in zip(held(state), held(moved), strict=True):
        assert torch.equal(after, before[MOVED])


@pytest.mark.parametrize("name", TREES)
def test_every_tensor_of_a_tree_is_spread(name):
    state = TREES[name](tensor())
    spread, _ = states.repeat_rows(state, W)
    for before, after in zip(held(state), held(spread), strict=True):
        assert torch.equal(after, before.repeat_interleave(W, 0))
    assert states.batch_size_and_device("beam", spread)[0] == B * W * W


def test_what_belongs_to_no_row_passes_through():
    length = torch.tensor(3)
    state = (tensor(), length, None, 3, "word", 2.5, True, torch.float16)
    moved = states.reorder_rows("beam", state, ROWS, {})
    assert moved[1] is length and moved[2:] == state[2:]


def test_a_tensor_that_stands_twice_is_spread_once():
    x = tensor()
    (left, right), _ = states.repeat_rows((x, x), W)
    assert left is right


def test_an_untouched_tensor_is_not_copied_and_equals_its_copy():
    state, fresh = states.repeat_rows((torch.randn(B, 5), torch.randn(B, 5)), W)
    stays, moves = states.reorder_rows("beam", (state[0], state[1] + 0), ROWS, fresh)
    assert stays is state[0] and moves is not state[1]
    assert torch.equal(stays, state[0][MOVED]) and torch.equal(moves, state[1])


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x[1:].zero_()])
def test_a_tensor_written_to_is_moved_though_it_is_the_same(write):
    state, fresh = states.repeat_rows((torch.randn(B, 5),), W)
    write(state[0])
    (moved,) = states.reorder_rows("beam", state, ROWS, fresh)
    assert moved is not state[0] and torch.equal(moved, state[0][MOVED])


class Common:
    """What the beams of a source have in common."""

    def __init__(self, width=1):
        self.width = width

    def expand_beams(self, width):
        return Common(self.width * width)


def test_a_part_that_spreads_by_itself_is_never_moved():
    state, fresh = states.repeat_rows((tensor(), Common()), W)
    assert state[1].width == W and states.batch_size_and_device("beam", state)[0] == B * W * W
    moved = states.reorder_rows("beam", (state[0] + 0, state[1]), ROWS.repeat(W, 1), fresh)
    assert moved[1] is state[1]


def test_parents_that_stay_in_their_places_move_nothing():
    state = (tensor(),)
    assert states.reorder_rows("beam", state, torch.tensor([[0, 1, 2], [0, 1, 2]]), {}) is state


class Started:
    """A model that starts with a state that was made before."""

    def __init__(self, state, then=None):
        self.state, self.then = state, then

    def start(self, source):
        return self.state

    def step(self, tokens, state):
        return torch.eye(4)[torch.arange(len(tokens)) % 4], self.then or state


MARKS = {"begin": 1, "end": 0, "longest": 3}
REFUSED = {
    "expected state[1].left with the batch first, (B=2, …), got (5, 2)": (
        (torch.zeros(2, 3), Pair(torch.zeros(5, 2), None))
    ),
    "expected a state with a tensor in it, got (None, 3)": (None, 3),
    "expected a state with a tensor in it, got [tensor(1)]": [torch.tensor(1)],
}


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.parametrize("decode", [greedy, beam])
def test_a_state_whose_rows_are_not_the_batch_is_refused_in_words(decode, words):
    with pytest.raises(ValueError) as refused:
        decode(Started(REFUSED[words]), None, **MARKS)
    assert str(refused.value) == f"{decode.__name__}: {words}"


def test_a_step_that_gives_back_other_rows_is_refused_in_words():
    model = Started({"h": torch.zeros(2, 3)}, then={"h": torch.zeros(2, 3)})
    words = "beam: expected state['h'] with the batch first, (B=6, …), got (2, 3)"
    with pytest.raises(ValueError, match=re.escape(words)):
        beam(model, None, **MARKS, width=3)


@pytest.mark.parametrize("held", [object(), torch.nn.Linear(1, 1), lambda x: x, {1, 2}])
def test_a_thing_whose_rows_cannot_be_moved_is_refused_in_words(held):
    words = rf"state\[0\]\['cache'\] as a tree of tensors .*, got a {type(held).__name__}, in which"
    with pytest.raises(ValueError, match=words):
        beam(Started([{"cache": held}]), None, **MARKS)


def test_a_tree_holds_what_lies_in_the_same_memory():
    x = torch.zeros(3, 2)
    assert states.shares_memory({"a": (x[1:],)}, x) and not states.shares_memory(
        {"a": (x.clone(), None)}, x
    )


def test_what_is_written_over_is_saved_first():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    states.copy_into((a, b, torch.tensor(0)), (b, a, torch.tensor(5)))
    assert a.tolist() == [3.0, 4.0] and b.tolist() == [1.0, 2.0]


def test_what_a_tree_holds_is_copied_and_nothing_else_is():
    x, other = torch.zeros(3), torch.zeros(3)
    held = states.copy_if_shared({"view": x[1:]}, x)
    assert held is not x and torch.equal(held, x)
    assert states.copy_if_shared({"view": x[1:]}, other) is other
