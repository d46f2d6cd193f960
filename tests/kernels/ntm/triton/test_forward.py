"""All steps forward in one kernel are those of the plain twin, and so is all that they leave."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.ntm import launch as ntm_launch
from regard.kernels.ntm import reference as ntm_reference
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.machines import each_controller, each_heads, machine, walker

pytestmark = [QUIET, INTERPRETED]


def plain(made):
    """Where the machine is at every moment, and what each step leaves, the plain way."""
    places, left = [made.begin._replace(memory=made.begin.memory.mT)], []
    for z in made.of_x:
        after, kept = ntm_reference.forward_step(z, places[-1], made.weights, made.sizes)
        places.append(after)
        left.append(kept)
    return [list(map(torch.stack, zip(*each, strict=True))) for each in (places, left)]


@each_controller
@each_heads
def test_the_machine_is_where_its_twin_is_at_every_moment(lstm, heads):
    made = machine(lstm, heads)
    (hidden, cell, read, places, memory), _ = plain(made)
    kept = ntm_launch.launch_forward(*made)
    assert_close(kept.read_hidden, torch.cat([read.flatten(2), hidden], 2))
    assert_close([kept.cell, kept.addresses, kept.memory], [cell, places, memory.mT])


@each_controller
@each_heads
def test_what_is_left_for_the_way_back_is_what_its_twin_leaves(lstm, heads):
    made = machine(lstm, heads)
    (hidden, *_), (gates, _, _, _, content, gated, _) = plain(made)
    kept = ntm_launch.launch_forward(*made)
    assert_close([kept.gates, kept.content, kept.gated], [gates, content, gated])
    raw = hidden[1:] @ made.weights.to_heads.mT + made.weights.bias
    assert_close(kept.head_parameters, raw, rtol=1e-4, atol=1e-5)


def test_a_walker_leaves_ones_behind_it_by_hand():
    kept = ntm_launch.launch_forward(*walker())
    assert_close(kept.addresses[1:], torch.eye(5)[1:4, None, None].expand(3, 2, 2, 5))
    assert_close(kept.memory[:, 0, :, 0], torch.eye(5)[:4].cumsum(0) - torch.eye(5)[0])


def test_places_and_slots_that_fill_their_tiles_are_found_too():
    made = machine(N=8, W=8, C=16, steps=2)
    _, _, _, places, memory = plain(made)[0]
    kept = ntm_launch.launch_forward(*made)
    assert_close([kept.addresses, kept.memory], [places, memory.mT])


def test_a_memory_of_zeros_is_the_same_everywhere():
    made = machine(steps=1)
    made.begin.memory.zero_()
    kept = ntm_launch.launch_forward(*made)
    assert_close(kept.content, torch.full_like(kept.content, 1 / 11))
