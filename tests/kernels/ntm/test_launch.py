"""How kernels of a machine are started: what is theirs, and in tiles of any size."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.ntm import api as ntm_kernel
from regard.kernels.ntm import launch as ntm_launch
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.machines import each_controller, learnt, machine

pytestmark = [QUIET, INTERPRETED]


@each_controller
def test_what_is_kept_begins_with_where_the_machine_began(lstm):
    made = machine(lstm, (2, 3), steps=2)
    kept, begin = ntm_launch.launch_forward(*made), made.begin
    assert torch.equal(kept.read_hidden[0], torch.cat([begin.read.flatten(1), begin.hidden], 1))
    first = [kept.cell[0], kept.addresses[0], kept.memory[0]]
    assert_close(first, [begin.cell, begin.weights, begin.memory], rtol=0, atol=0)
    assert [len(x) for x in kept] == [2, 3, 3, 3, 3, 2, 2, 2]


def test_nothing_that_was_given_is_written_over():
    made = machine(steps=1)
    given = [made.of_x, *made.begin, *made.weights]
    before = [x.clone() for x in given]
    kept = ntm_launch.launch_forward(*made)
    gained = torch.ones_like(kept.read_hidden[1:])
    ends = tuple(torch.ones_like(x[-1]) for x in (kept.cell, kept.addresses, kept.memory))
    ntm_launch.launch_backward(gained, ends, kept, made.weights, made.sizes)
    assert_close(given, before, rtol=0, atol=0)
    assert all((end == 1).all() for end in ends)


def test_what_is_kept_is_of_the_dtype_of_the_machine_whatever_is_usual():
    made = machine(steps=1)
    torch.set_default_dtype(torch.float64)
    try:
        kept = ntm_launch.launch_forward(*made)
    finally:
        torch.set_default_dtype(torch.float32)
    assert {x.dtype for x in kept} == {torch.float32}


@pytest.mark.parametrize("lies", ["apart", "turned"])
def test_inputs_may_lie_anyhow(lies, monkeypatch):
    made = machine(steps=2)
    plain = learnt(made)
    apart, turned = made.of_x.repeat_interleave(2, 2)[..., ::2], made.of_x.mT.contiguous().mT
    monkeypatch.setattr(ntm_kernel, "DEVICES", ("cpu",))
    made = made._replace(of_x=apart if lies == "apart" else turned)
    found, _ = ntm_kernel.run_all_steps(*made)
    assert not made.of_x.is_contiguous()
    assert_close(found, plain[0][0])


@each_controller
def test_matrices_larger_than_a_tile_are_multiplied_tile_by_tile(lstm, monkeypatch):
    # more orders than the 128 that are told at a time
    made = machine(lstm, (2, 3), W=11, steps=2)
    assert made.sizes.num_head_parameters > 128
    plain = learnt(made)
    monkeypatch.setattr(ntm_kernel, "DEVICES", ("cpu",))
    monkeypatch.setattr(ntm_launch, "BLOCK_ROWS", 8)
    monkeypatch.setattr(ntm_launch, "BLOCK_COLUMNS", 8)
    assert_close(learnt(made), plain, rtol=1e-4, atol=5e-5)
