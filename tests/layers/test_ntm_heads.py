"""Heads of a machine: what they are told, how they find a place, and who may see each step."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from regard import look
from regard.functional import memory
from regard.kernels.ntm.types import Sizes
from regard.layers.ntm_heads import (
    HeadParameters,
    Heads,
    State,
    can_run_all_steps,
    run_all_steps,
)

B, E, N, W, T = 2, 11, 7, 5, 3
READS, WRITES = 2, 3
H = READS + WRITES


def heads(shifts=3, **fields):
    return Heads(E, read_heads=READS, write_heads=WRITES, slot_width=W, shifts=shifts, **fields)


def state(*controller):
    places = torch.rand(B, H, N).softmax(-1)
    return State(controller, torch.randn(B, READS, W), places, torch.randn(B, N, W))


def told(made, scale=1.0):
    return made(scale * torch.randn(B, E))


@pytest.mark.parametrize("shift_mode", ["softmax", "real"])
def test_parameters_are_what_a_head_can_be_told(shift_mode):
    parameters = told(heads(5, shift_mode=shift_mode), scale=30.0)
    assert max(parameters.key.abs().max(), parameters.add.abs().max()) <= 1
    assert min(parameters.erase.min(), parameters.gate.min(), parameters.strength.min()) >= 0
    assert max(parameters.erase.max(), parameters.gate.max()) <= 1 <= parameters.sharpness.min()
    assert parameters.shift.min() >= 0 and parameters.shift.shape == (B, H, 5)
    assert_close(parameters.shift.sum(-1), torch.ones(B, H))


def test_a_head_that_only_reads_is_told_nothing_to_write():
    parameters = told(heads())
    assert parameters.key.shape == (B, H, W)
    assert parameters.add.shape == parameters.erase.shape == (B, WRITES, W)


def test_untrained_gates_and_sharpness_are_told_what_is_asked_for():
    made = heads(gate_bias=-1.5, sharpness_bias=2.5)
    bias = HeadParameters(*made.sizes.split_head_parameters(made.head_parameters.bias[None]))
    assert (bias.gate == -1.5).all() and (bias.sharpness == 2.5).all()
    assert not (bias.strength == bias.strength[0, 0]).all()


def test_a_real_shift_of_nothing_stays():
    made = heads(5, shift_mode="real")
    with torch.no_grad():
        HeadParameters(
            *made.sizes.split_head_parameters(made.head_parameters.bias[None])
        ).shift.zero_()
    stays = torch.tensor([0.0, 0, 1, 0, 0])
    assert_close(made(torch.zeros(B, E)).shift, stays.expand(B, H, 5))


def test_a_real_shift_is_told_in_one_number():
    assert heads(5, shift_mode="real").sizes == Sizes(READS, WRITES, W, 1)


@pytest.mark.parametrize("shifts", [1, 3, 5])
def test_a_place_is_found_in_four_stages(shifts):
    made, before = heads(shifts), state()
    parameters = told(made)
    stages = made.address(parameters, before)
    content = memory.content_weights(parameters.key, before.memory, parameters.strength)
    assert_close(stages.content, content)
    assert_close(stages.gated, memory.interpolate(content, before.weights, parameters.gate))
    assert_close(stages.shifted, memory.shift(stages.gated, parameters.shift))
    assert_close(stages.sharpened, memory.sharpen(stages.shifted, parameters.sharpness))


def test_what_is_read_was_written_in_the_same_step():
    made, before = heads(), state()
    parameters, places = told(made), before.weights
    after, read = made.write_and_read(places, parameters, before.memory)
    erase, add = parameters.erase, parameters.add
    written = memory.write_memory(before.memory, places[:, READS:], erase, add)
    assert_close(after, written)
    assert_close(read, memory.read_memory(written, places[:, :READS]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"read_heads": 0}, "Heads: expected at least one head that reads and one that writes"),
        ({"read_heads": 0}, "got read_heads=0 and write_heads=1"),
        ({"write_heads": 0}, "got read_heads=1 and write_heads=0"),
        ({"shifts": 4}, "Heads: expected an odd number of shifts, as many to each side, got 4"),
        ({"shifts": -1}, "expected an odd number of shifts, as many to each side, got -1"),
    ],
)
def test_heads_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Heads(E, **{"read_heads": 1, "write_heads": 1, "slot_width": W, **fields})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_taken_at_once_where_nobody_wants_to_see_them(dtype):
    assert can_run_all_steps(torch.zeros(B, T, E, dtype=dtype), heads())


def test_steps_are_taken_one_by_one_for_who_looks():
    with look():
        assert not can_run_all_steps(torch.zeros(B, T, E), heads())


def test_steps_are_taken_one_by_one_where_each_operation_is_followed():
    made, ways = heads(), []
    torch.func.vmap(lambda x: ways.append(can_run_all_steps(x, made)) or x)(torch.zeros(B, T, E))
    with FakeTensorMode() as mode:
        ways.append(can_run_all_steps(mode.from_tensor(torch.zeros(B, T, E)), made))
    assert ways == [False, False]


def test_steps_are_taken_one_by_one_in_half_precision_and_with_real_shifts():
    x = torch.zeros(B, T, E)
    assert not can_run_all_steps(x.bfloat16(), heads())
    assert not can_run_all_steps(x, heads(shift_mode="real"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not can_run_all_steps(x, heads())


def test_a_controller_without_a_state_is_given_none():
    found, after = run_all_steps(
        torch.randn(T, B, E), state(), torch.randn(E, READS * W), None, heads()
    )
    assert after.controller == ()
    assert found.shape == (T, B, READS * W + E)


def test_the_state_is_what_was_last_read_and_said():
    said, cell = torch.randn(B, E), torch.randn(B, E)
    to_read, to_said = torch.randn(4 * E, READS * W), torch.randn(4 * E, E)
    found, after = run_all_steps(
        torch.randn(T, B, 4 * E), state(said, cell), to_read, to_said, heads()
    )
    assert torch.equal(found[-1], torch.cat([after.read.flatten(1), after.controller[0]], 1))
    assert_close(after.weights.sum(-1), torch.ones(B, H))
