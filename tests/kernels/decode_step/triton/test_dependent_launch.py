"""Launches follow one another early only where a card records them, and the numbers stay."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.linear import linear
from regard.kernels.decode_step.triton.norm import add_norm
from regard.runtime.cuda_graphs import capture_graph, run_on_side_stream

UNCHAINED = {"CHAINED": False}


@pytest.mark.parametrize("capability", [8, 9])
@pytest.mark.parametrize("records", [True, False])
def test_launches_are_chained_by_a_card_that_can_and_records(capability, records, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: records)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (capability, 0))
    chain._can_launch_early.cache_clear()
    chained = records and capability == 9
    found = chain.launch_options(SimpleNamespace(is_cuda=True, device=torch.device("cuda")))
    assert found == ({"CHAINED": True, "launch_pdl": True} if chained else UNCHAINED)
    chain._can_launch_early.cache_clear()


def test_no_card_chains_nothing():
    assert chain.launch_options(torch.zeros(1)) == UNCHAINED


@pytest.mark.gpu
@torch.no_grad()
def test_a_chain_on_a_card_gives_what_its_launches_give_one_by_one():
    half = {"device": "cuda", "dtype": torch.bfloat16}
    layers = [nn.Linear(256, 256, **half) for _ in range(40)]
    x, norm = torch.randn(64, 256, **half), nn.LayerNorm(256, **half)

    def work():
        y = x
        for layer in layers:
            y, _ = add_norm(y, linear(y, layer.weight, layer.bias), norm, keep_sum=False)
        return y

    expected = run_on_side_stream(work).clone()
    graph, found = capture_graph(work, None)
    for _ in range(200):
        found.zero_()
        graph.replay()
        assert torch.equal(found, expected)
