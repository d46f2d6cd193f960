"""The loops that pointers are raced with do the same work, and come to the same answers."""

import torch
from torch.testing import assert_close

from benchmarks import pointer_eager
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig

B, N = 3, 7
POINTS, LENGTHS = torch.rand(B, N, 2), torch.full((B,), N)


def test_points_are_read_alike():
    config = AttentionPointerConfig(
        width=32, heads=2, layers=2, feed_forward_width=48, norm="batch"
    )
    model = AttentionPointer(config).eval()
    assert_close(pointer_eager.read(model, POINTS), model.encode(POINTS, LENGTHS))


def test_greedy_tours_are_ours():
    model = AttentionPointer(AttentionPointerConfig(width=32, heads=2, layers=1)).eval()
    read = model.encode(POINTS, LENGTHS)
    assert torch.equal(pointer_eager.toured(model, read), model.decode_tours(read)[:, 0])


def test_answers_are_as_likely_and_teach_the_same():
    model = PointerNetwork(PointerNetworkConfig(width=16, pointing_rule="permutation"))
    answers = torch.rand(B, N).argsort(1)
    found = []
    for said in (model(POINTS, LENGTHS, answers)[:, :N], None):
        if said is None:
            said = pointer_eager.log_probability(model, POINTS, LENGTHS, answers)
        model.zero_grad()
        said.sum().backward()
        found.append([said.detach(), *(weight.grad.clone() for weight in model.parameters())])
    assert_close(*found, rtol=1e-4, atol=1e-5)
