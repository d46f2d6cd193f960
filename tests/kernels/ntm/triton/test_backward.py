"""All steps back in one kernel teach what the plain twin does."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.ntm import api as ntm_kernel
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.machines import (
    alive,
    each_controller,
    each_heads,
    each_shifts,
    learnt,
    machine,
    walker,
)

pytestmark = [QUIET, INTERPRETED]


def fused(monkeypatch):
    """From here on the kernels take all steps."""
    monkeypatch.setattr(ntm_kernel, "DEVICES", ("cpu",))


def assert_taught_alike(made, monkeypatch):
    """All that comes out, and what all that goes in gains, is what the plain way has."""
    plain = learnt(made)
    fused(monkeypatch)
    assert ntm_kernel.can_use_kernel(made.of_x, made.begin.memory)
    assert_close(learnt(made), plain, rtol=1e-4, atol=2e-5)


@each_controller
@each_heads
@each_shifts
def test_gradients_are_those_of_the_plain_way(lstm, heads, shifts, monkeypatch):
    assert_taught_alike(machine(lstm, heads, shifts), monkeypatch)


@pytest.mark.parametrize("part", ["cell", "weights", "memory"])
def test_what_is_wanted_of_one_end_alone_is_learned(part, monkeypatch):
    leaves, made = alive(machine(steps=2))

    def slopes():
        end = getattr(ntm_kernel.run_all_steps(*made)[1], part)
        return torch.autograd.grad(end.square().sum(), leaves, materialize_grads=True)

    plain = slopes()
    fused(monkeypatch)
    assert_close(slopes(), plain, rtol=1e-4, atol=2e-5)


def test_vectors_without_a_direction_are_taught_as_the_plain_way_does(monkeypatch):
    made = machine(False, steps=1)
    made.begin.memory.zero_()
    made.weights.to_heads.zero_()
    made.sizes.split_head_parameters(made.weights.bias[None])[0].zero_()
    assert_taught_alike(made, monkeypatch)


def test_slots_that_fill_their_tile_are_taught_too(monkeypatch):
    assert_taught_alike(machine(N=8, W=8, C=16, steps=2), monkeypatch)


def test_gains_are_finite_where_heads_are_at_one_place(monkeypatch):
    fused(monkeypatch)
    assert all(x.isfinite().all() for x in learnt(walker())[1])
