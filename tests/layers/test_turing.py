"""Heads of a machine: what they are told, how they find a place, and who may see each step."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from regard import look
from regard.functional import memory
from regard.kernels.tape_sizes import Sizes
from regard.layers.turing import Heads, Orders, State, at_once, through

B, E, N, W, T = 2, 11, 7, 5, 3
READS, WRITES = 2, 3
H = READS + WRITES


def heads(shifts=3, **fields):
    return Heads(E, reads=READS, writes=WRITES, cell=W, shifts=shifts, **fields)


def state(*controller):
    places = torch.rand(B, H, N).softmax(-1)
    return State(controller, torch.randn(B, READS, W), places, torch.randn(B, N, W))


def told(made, scale=1.0):
    return made(scale * torch.randn(B, E))


@pytest.mark.parametrize("shifting", ["softmax", "real"])
def test_orders_are_what_a_head_can_be_told(shifting):
    orders = told(heads(5, shifting=shifting), scale=30.0)
    assert max(orders.key.abs().max(), orders.add.abs().max()) <= 1
    assert min(orders.erase.min(), orders.gate.min(), orders.strength.min()) >= 0
    assert max(orders.erase.max(), orders.gate.max()) <= 1 <= orders.sharpness.min()
    assert orders.shift.min() >= 0 and orders.shift.shape == (B, H, 5)
    assert_close(orders.shift.sum(-1), torch.ones(B, H))


def test_a_head_that_only_reads_is_told_nothing_to_write():
    orders = told(heads())
    assert orders.key.shape == (B, H, W)
    assert orders.add.shape == orders.erase.shape == (B, WRITES, W)


def test_untrained_gates_and_sharpness_are_told_what_is_asked_for():
    made = heads(gate=-1.5, sharpness=2.5)
    bias = Orders(*made.sizes.parts(made.orders.bias[None]))
    assert (bias.gate == -1.5).all() and (bias.sharpness == 2.5).all()
    assert not (bias.strength == bias.strength[0, 0]).all()


def test_a_real_shift_of_nothing_stays():
    made = heads(5, shifting="real")
    with torch.no_grad():
        Orders(*made.sizes.parts(made.orders.bias[None])).shift.zero_()
    stays = torch.tensor([0.0, 0, 1, 0, 0])
    assert_close(made(torch.zeros(B, E)).shift, stays.expand(B, H, 5))


def test_a_real_shift_is_told_in_one_number():
    assert heads(5, shifting="real").sizes == Sizes(READS, WRITES, W, 1)


@pytest.mark.parametrize("shifts", [1, 3, 5])
def test_a_place_is_found_in_four_stages(shifts):
    made, before = heads(shifts), state()
    orders = told(made)
    stages = made.found(orders, before)
    content = memory.content(orders.key, before.memory, orders.strength)
    assert_close(stages.content, content)
    assert_close(stages.gated, memory.interpolate(content, before.weights, orders.gate))
    assert_close(stages.shifted, memory.shift(stages.gated, orders.shift))
    assert_close(stages.sharpened, memory.sharpen(stages.shifted, orders.sharpness))


def test_what_is_read_was_written_in_the_same_step():
    made, before = heads(), state()
    orders, places = told(made), before.weights
    after, read = made.moved(places, orders, before.memory)
    written = memory.write(before.memory, places[:, READS:], orders.erase, orders.add)
    assert_close(after, written)
    assert_close(read, memory.read(written, places[:, :READS]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reads": 0}, "Heads: expected at least one head that reads and one that writes, got rea"),
        ({"writes": 0}, "got reads=1 and writes=0"),
        ({"shifts": 4}, "Heads: expected an odd number of shifts, as many to each side, got 4"),
        ({"shifts": -1}, "expected an odd number of shifts, as many to each side, got -1"),
    ],
)
def test_heads_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Heads(E, **{"reads": 1, "writes": 1, "cell": W, **fields})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_taken_at_once_where_nobody_wants_to_see_them(dtype):
    assert at_once(torch.zeros(B, T, E, dtype=dtype), heads())


def test_steps_are_taken_one_by_one_for_who_looks():
    with look():
        assert not at_once(torch.zeros(B, T, E), heads())


def test_steps_are_taken_one_by_one_where_each_operation_is_followed():
    made, ways = heads(), []
    torch.func.vmap(lambda x: ways.append(at_once(x, made)) or x)(torch.zeros(B, T, E))
    with FakeTensorMode() as mode:
        ways.append(at_once(mode.from_tensor(torch.zeros(B, T, E)), made))
    assert ways == [False, False]


def test_steps_are_taken_one_by_one_in_half_precision_and_with_real_shifts():
    x = torch.zeros(B, T, E)
    assert not at_once(x.bfloat16(), heads())
    assert not at_once(x, heads(shifting="real"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not at_once(x, heads())


def test_a_controller_without_a_state_is_given_none():
    found, after = through(torch.randn(T, B, E), state(), torch.randn(E, READS * W), None, heads())
    assert after.controller == ()
    assert found.shape == (T, B, READS * W + E)


def test_the_state_is_what_was_last_read_and_said():
    said, cell = torch.randn(B, E), torch.randn(B, E)
    to_read, to_said = torch.randn(4 * E, READS * W), torch.randn(4 * E, E)
    found, after = through(torch.randn(T, B, 4 * E), state(said, cell), to_read, to_said, heads())
    assert torch.equal(found[-1], torch.cat([after.read.flatten(1), after.controller[0]], 1))
    assert_close(after.weights.sum(-1), torch.ones(B, H))
