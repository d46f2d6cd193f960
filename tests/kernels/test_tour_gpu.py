"""Kernels of tours on a card: as on a CPU, in every dtype, and drawn anew by every replay."""

import pytest
import torch
from torch.testing import assert_close

from regard.kernels.tour import api as tour_kernel
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from regard.runtime import cuda_graphs

pytestmark = pytest.mark.gpu

B, N = 5, 37
SMALL = AttentionPointerConfig(layers=1)


def made(dtype=torch.float32):
    """A model, what it read, and where its tours begin."""
    model = AttentionPointer(SMALL).eval()
    points, lengths = torch.rand(B, N, 2), torch.tensor([37, 20, 37, 33, 36])
    with torch.no_grad():
        read = model.encode(points, lengths)
    starts = torch.arange(20).expand(B, 20)
    read = type(read)(*(x.to(dtype) if x.is_floating_point() else x for x in read))
    return model.to(dtype), read, starts


def on_card(model, read, starts):
    return model.cuda(), type(read)(*(x.cuda() for x in read)), starts.cuda()


def test_greedy_tours_are_those_of_the_cpu():
    model, read, starts = made()
    there = model.decode_tours(read, starts=starts), model.decode_tours(read)
    model, read, starts = on_card(model, read, starts)
    assert tour_kernel.can_use_kernel(
        model.decoder._kernel_tables(read), tour_kernel.Sizes(8, 10.0)
    )
    assert torch.equal(model.decode_tours(read, starts=starts).cpu(), there[0])
    assert torch.equal(model.decode_tours(read).cpu(), there[1])


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_likelihoods_and_their_gradients_are_those_of_float64(dtype, far):
    exact = made(torch.float64)
    tours = exact[0].decode_tours(exact[1], starts=exact[2], sample=True)
    worth, found = torch.randn(tours.shape), []
    model, read, _ = exact
    for at, kind in (("cpu", torch.float64), ("cuda", dtype)):
        leaves = [x.to(at, kind).requires_grad_() for x in read[:-1]]
        given = type(read)(*leaves, read.lengths.to(at))
        said = model.to(at, kind).log_probability(given, tours.to(at), fixed_start=True)
        grads = torch.autograd.grad((said * worth.to(at)).sum(), leaves)
        found.append([x.cpu().double() for x in (said, *grads)])
    for truth, ours in zip(*found, strict=True):
        assert (ours - truth).abs().max() <= far * truth.abs().max()


def test_every_replay_draws_anew():
    model, read, starts = on_card(*made())
    cuda_graphs.run_on_side_stream(lambda: model.decode_tours(read, starts=starts, sample=True))
    graph, tours = cuda_graphs.capture_graph(
        lambda: model.decode_tours(read, starts=starts, sample=True)
    )
    graph.replay()
    first = tours.clone()
    graph.replay()
    assert not torch.equal(first, tours)
    assert_close(tours.max(-1).values, (read.lengths - 1)[:, None].expand(B, 20))


def test_where_somebody_looks_the_steps_are_seen():
    import regard

    model, read, starts = on_card(*made())
    tours = model.decode_tours(read, starts=starts)
    quiet = model.log_probability(read, tours, fixed_start=True)
    with regard.look() as seen:
        loud = model.log_probability(read, tours, fixed_start=True)
    assert seen.names()
    assert_close(loud, quiet, rtol=1e-3, atol=1e-4)
