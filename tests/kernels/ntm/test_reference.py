"""A step in few operations is the step of the functions, and its way back is autograd's."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.functional import memory
from regard.kernels.ntm import reference as ntm_reference
from regard.kernels.ntm.types import MachineState
from regard.layers.ntm_heads import Heads
from tests.kernels.machines import (
    alive,
    each_controller,
    each_heads,
    each_shifts,
    machine,
    walker,
)


def begun(made):
    """Where a machine begins, its slots last."""
    return made.begin._replace(memory=made.begin.memory.mT)


def stepped(made):
    return ntm_reference.forward_step(made.of_x[0], begun(made), made.weights, made.sizes)


def gained(after):
    """What is gained by all that a step gives, the same whenever it is asked."""
    fixed = torch.Generator().manual_seed(3)
    return MachineState(*(torch.randn(x.shape, generator=fixed).to(x) for x in after))


def by_autograd(made):
    """What the inputs, all of the beginning and the bias of the orders gain."""
    leaves, made = alive(made)
    after, _ = stepped(made)
    wanted = sum((x * g).sum() for x, g in zip(after, gained(after), strict=True))
    of_x, *begin = torch.autograd.grad(wanted, leaves, materialize_grads=True)
    return [of_x[0], *begin[:5], begin[-1]]


def by_hand(made):
    """The same, as it is written out."""
    after, kept = stepped(made)
    around = gained(after), begun(made), after, kept
    found, gates, orders = ntm_reference.backward_step(*around, made.weights, made.sizes)
    return [gates, *found[:4], found.memory.mT, orders.sum(0)]


def test_a_step_of_a_walker_by_hand():
    (_, _, read, places, slots), _ = stepped(walker())
    assert_close(places, torch.eye(5)[1].expand(2, 2, 5))
    assert_close(slots.mT, torch.eye(5)[1][:, None].expand(2, 5, 3))
    assert_close(read, torch.ones(2, 1, 3))


def heard(made):
    """All that a controller is told, but what it said itself."""
    return made.of_x[0] + made.begin.read.flatten(1) @ made.weights.read.mT


def test_a_controller_without_a_state_is_one_layer():
    made = machine(lstm=False)
    assert_close(stepped(made)[0].hidden, heard(made).tanh())


def test_a_controller_with_a_state_is_the_lstm_of_pytorch():
    made = machine(lstm=True)
    cell = nn.LSTMCell(4 * 13, 13, bias=False)
    cell.weight_ih.data, cell.weight_hh.data = torch.eye(4 * 13), made.weights.hidden
    after, (hidden, kept) = stepped(made)[0], cell(heard(made), made.begin[:2])
    assert_close([after.hidden, after.cell], [hidden, kept])


@each_heads
@each_shifts
def test_heads_move_as_their_functions_say(heads, shifts):
    made = machine(False, heads, shifts)
    after, kept = stepped(made)
    told = Heads(13, read_heads=heads[0], write_heads=heads[1], slot_width=7, shifts=shifts)
    told.head_parameters.weight.data, told.head_parameters.bias.data = (
        made.weights.to_heads,
        made.weights.bias,
    )
    orders = told(after.hidden)
    content = memory.content_weights(orders.key, made.begin.memory, orders.strength)
    gated = memory.interpolate(content, made.begin.weights, orders.gate)
    places = memory.sharpen(memory.shift(gated, orders.shift), orders.sharpness)
    slots, read = told.write_and_read(places, orders, made.begin.memory)
    assert_close([kept.content, kept.gated, after.weights], [content, gated, places])
    assert_close([after.memory.mT, after.read], [slots, read])


@each_controller
@each_heads
@each_shifts
def test_the_way_back_is_that_of_autograd(lstm, heads, shifts):
    made = machine(lstm, heads, shifts, dtype=torch.float64)
    assert_close(by_hand(made), by_autograd(made), rtol=1e-9, atol=1e-11)


@each_heads
@pytest.mark.parametrize("size", [0, 1e-9])
def test_the_way_back_through_a_memory_of_next_to_nothing_is_that_of_autograd(heads, size):
    made = machine(False, heads, dtype=torch.float64)
    made.begin.memory.mul_(size)
    assert_close(by_hand(made), by_autograd(made))


def test_the_way_back_through_a_key_of_zeros_is_that_of_autograd():
    made = machine(False, dtype=torch.float64)
    made.weights.to_heads.zero_()
    made.sizes.split_head_parameters(made.weights.bias[None])[0].zero_()
    assert_close(by_hand(made), by_autograd(made))


def test_the_way_back_is_finite_where_all_is_erased_at_one_place():
    assert all(x.isfinite().all() for x in by_hand(walker()))
