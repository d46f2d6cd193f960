"""What is told aside is done; what is recorded is done when it is replayed."""

import pytest
import torch

from regard.runtime import cuda_graphs


def test_what_is_done_aside_is_done_and_given():
    x = torch.zeros(3)
    assert cuda_graphs.run_on_side_stream(lambda: x.add_(1)) is x
    assert x.tolist() == [1, 1, 1]


@pytest.mark.gpu
def test_a_recording_is_not_done_until_it_is_replayed_and_then_as_often():
    x = torch.zeros(3, device="cuda")
    cuda_graphs.run_on_side_stream(lambda: x + 1)
    graph, made = cuda_graphs.capture_graph(lambda: x.add_(1))
    assert x.tolist() == [0, 0, 0] and made is x
    for _ in range(2):
        graph.replay()
    assert x.tolist() == [2, 2, 2]


@pytest.mark.gpu
def test_recordings_share_the_memory_of_a_pool():
    x = torch.ones(1 << 20, device="cuda")
    first, _ = cuda_graphs.capture_graph(lambda: (x + 1).sum())
    before = torch.cuda.memory_reserved()
    _, total = cuda_graphs.capture_graph(lambda: (x + 2).sum(), first.pool())
    assert torch.cuda.memory_reserved() == before
    assert total.shape == ()
