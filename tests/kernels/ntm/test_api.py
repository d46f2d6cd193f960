"""All steps at once: who takes which way, and that both ways are the steps one by one."""

import pytest
import torch
from torch.testing import assert_close

from regard.kernels.backends.flex import has_triton
from regard.kernels.ntm import api as ntm_kernel
from regard.kernels.ntm import reference as ntm_reference
from regard.kernels.ntm.types import MachineState
from regard.models.ntm import NTM, NTMConfig
from tests.kernels.machines import (
    alive,
    each_controller,
    each_heads,
    each_shifts,
    learnt,
    machine,
    walker,
    wanted,
)


def one_by_one(of_x, begin, weights, sizes):
    """Step after step, for autograd to follow."""
    place, found = begin._replace(memory=begin.memory.mT), []
    for z in of_x:
        place, _ = ntm_reference.forward_step(z, place, weights, sizes)
        found.append(torch.cat([place.read.flatten(1), place.hidden], 1))
    return torch.stack(found), place._replace(memory=place.memory.mT)


@each_controller
@each_heads
@each_shifts
def test_all_steps_at_once_are_the_steps_one_by_one(lstm, heads, shifts):
    made = machine(lstm, heads, shifts, steps=4, dtype=torch.float64)
    assert_close(learnt(made), learnt(made, one_by_one), rtol=1e-9, atol=1e-11)


def test_a_walker_leaves_ones_behind_it_by_hand():
    found, end = ntm_kernel.run_all_steps(*walker())
    assert_close(end.weights, torch.eye(5)[3].expand(2, 2, 5))
    assert_close(end.memory[0, :, 0], torch.tensor([0.0, 1, 1, 1, 0]))
    assert_close(found[:, :, :3], torch.ones(3, 2, 3))


@each_controller
@pytest.mark.parametrize("part", MachineState._fields)
def test_what_is_wanted_of_one_end_alone_is_learned(lstm, part):
    leaves, made = alive(machine(lstm, dtype=torch.float64))
    ends = [
        getattr(through(*made)[1], part).sum() for through in (ntm_kernel.run_all_steps, one_by_one)
    ]
    ours, theirs = (torch.autograd.grad(end, leaves, materialize_grads=True) for end in ends)
    assert_close(ours, theirs)


@each_controller
def test_nothing_is_kept_where_nothing_learns(lstm, monkeypatch):
    _, made = alive(machine(lstm))
    kept, (_, *end) = ntm_kernel.run_all_steps(*made)
    monkeypatch.setattr(ntm_kernel, "_StepwiseFunction", None)
    with torch.no_grad():
        found, (_, *last) = ntm_kernel.run_all_steps(*made)
    assert_close([found, *last], [kept, *end], rtol=0, atol=0)


def test_what_is_frozen_gains_nothing():
    made = machine()
    made.of_x.requires_grad_()
    found, _ = ntm_kernel.run_all_steps(*made)
    found.sum().backward()
    assert made.of_x.grad.any() and made.weights.to_heads.grad is None


def test_the_way_back_can_be_gone_twice_but_has_none_of_its_own():
    leaves, made = alive(machine())
    found, _ = ntm_kernel.run_all_steps(*made)
    loss = found.square().sum()
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    again = torch.autograd.grad(loss, leaves, create_graph=True)
    assert_close(first, again)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        again[0].sum().backward()


@pytest.mark.parametrize(
    ("dtype", "N", "B", "device", "takes"),
    [
        (torch.float32, 11, 2, "cpu", True),
        (torch.float64, 11, 2, "cpu", False),
        (torch.float32, ntm_kernel.MAX_MEMORY_ELEMENTS // 8, 2, "cpu", True),
        (torch.float32, ntm_kernel.MAX_MEMORY_ELEMENTS // 8 + 1, 2, "cpu", False),
        (torch.float32, 11, 0, "cpu", False),
        (torch.float32, 11, 2, "meta", False),
    ],
    ids=["small", "float64", "largest", "larger", "nobody", "elsewhere"],
)
def test_a_kernel_takes_what_it_can_hold(dtype, N, B, device, takes, monkeypatch):
    monkeypatch.setattr(ntm_kernel, "DEVICES", ("cpu",))
    of_x, memory = torch.zeros(3, B, 52, dtype=dtype), torch.zeros(B, N, 8, dtype=dtype)
    assert ntm_kernel.can_use_kernel(of_x.to(device), memory.to(device)) == (takes and has_triton())


def test_without_a_card_nothing_is_fused():
    made = machine()
    assert not ntm_kernel.can_use_kernel(made.of_x, made.begin.memory)


def at_once(model, x):
    """All that a machine gives, and all that it learns of it."""
    said, state = model(x)
    out = [said, *state.controller, *state[1:]]
    return [*out, *torch.autograd.grad(wanted(out), [x, *model.parameters()])]


@pytest.mark.gpu
@each_controller
@pytest.mark.parametrize("heads", [(1, 1), (2, 1), (2, 3)])
def test_on_a_card_a_machine_errs_hardly_more_than_the_plain_way_does(lstm, heads, monkeypatch):
    sizes = {
        "width": 100,
        "slots": 128,
        "slot_width": 20,
        "read_heads": heads[0],
        "write_heads": heads[1],
    }
    model = NTM(NTMConfig(controller="lstm" if lstm else "feed_forward", **sizes)).cuda()
    x = torch.randint(2, (4, 42, 10), device="cuda").float().requires_grad_()
    ours = at_once(model, x)
    monkeypatch.setattr(ntm_kernel, "DEVICES", ())
    plain = at_once(model, x)
    truth = at_once(model.double(), x.detach().double().requires_grad_())
    for a, b, exact in zip(ours, plain, truth, strict=True):
        allowed = 4 * (b - exact).abs().max() + 1e-5 * exact.abs().max()
        assert (a - exact).abs().max() <= allowed
