"""A loop learns what it learnt before, only later."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard.layers import deferred_weight_grads
from regard.layers.deferred_weight_grads import DeferredWeightGrads
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig

B, E, T = 3, 5, 4


class Net(nn.Module):
    """One of each that has weights, and one without a bias, used at every step."""

    def __init__(self):
        super().__init__()
        self.map, self.plain = nn.Linear(E, E), nn.Linear(E, E, bias=False)
        self.gru, self.lstm = nn.GRUCell(E, E), nn.LSTMCell(E, E)

    def forward(self, x, how=nullcontext):
        h = c = torch.zeros_like(x)
        with how():
            for _ in range(T):
                # three axes, as a decoder's query has
                h = self.gru(self.map(x[:, None]).squeeze(1), h)
                x, c = self.lstm(self.plain(h), (x, c))
        return x + h


def net(device="cpu", dtype=torch.float64):
    torch.manual_seed(0)
    return Net().to(device, dtype), torch.randn(B, E, device=device, dtype=dtype)


def learnt(model, x, how):
    x = x.clone().requires_grad_()
    out = model(x, how)
    return out, torch.autograd.grad(out.square().sum(), [x, *model.parameters()])


def test_a_loop_learns_what_it_learns_step_by_step():
    model, x = net()
    assert_close(learnt(model, x, DeferredWeightGrads), learnt(model, x, nullcontext))


@pytest.mark.gpu
def test_on_a_card_a_loop_learns_what_it_learns_step_by_step():
    model, x = net("cuda", torch.float32)
    found = learnt(model, x, lambda: deferred_weight_grads.maybe_defer_weight_grads(x))
    assert_close(found, learnt(model, x, nullcontext), rtol=1e-4, atol=1e-4)


class Products(TorchDispatchMode):
    """Counts products of matrices."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return func(*args, **(kwargs or {}))


def test_each_weight_costs_one_product_whatever_the_steps():
    layer, x = nn.Linear(E, E), torch.randn(B, E)
    with DeferredWeightGrads():
        out = x
        for _ in range(T):
            out = layer(out)
    with Products() as products:
        out.sum().backward()
    # the first step's input learns nothing
    assert products.count == (T - 1) + 1


def test_a_graph_that_is_kept_learns_the_same_again():
    model, x = net()
    out = model(x, DeferredWeightGrads).sum()
    out.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    out.backward()
    assert_close([p.grad for p in model.parameters()], first)


def test_who_asked_for_something_else_before_learns_the_same():
    model, x = net()
    x.requires_grad_()
    out = model(x, DeferredWeightGrads).square().sum()
    torch.autograd.grad(out, x, retain_graph=True)
    expected = learnt(model, x.detach(), nullcontext)[1]
    assert_close(torch.autograd.grad(out, [x, *model.parameters()]), expected)


def test_weights_that_are_fixed_stay_so():
    model, x = net()
    model.gru.requires_grad_(False)
    model(x, DeferredWeightGrads).sum().backward()
    assert all(p.grad is None for p in model.gru.parameters())
    assert all(p.grad is not None for p in model.map.parameters())


def test_autocast_lowers_the_steps_and_weights_learn_in_their_own_dtype():
    model, x = net(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out, found = learnt(model, x, DeferredWeightGrads)
        plain, expected = learnt(model, x, nullcontext)
    assert out.dtype == plain.dtype
    assert [g.dtype for g in found] == [torch.float32] * len(found)
    assert_close(found, expected, rtol=0.1, atol=0.1)


def test_a_second_derivative_is_refused():
    model, x = net()
    x.requires_grad_()
    (slope,) = torch.autograd.grad(model(x, DeferredWeightGrads).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_off_a_card_nothing_is_deferred():
    assert isinstance(deferred_weight_grads.maybe_defer_weight_grads(torch.ones(1)), nullcontext)


KINDS = {
    "bahdanau": {},
    "lstm of two layers": {"cell": "lstm", "layers": 2},
    "luong": {"query_state": "current", "attention": "general"},
    "local-p": {"query_state": "current", "attention": "dot", "span": "local_p"},
    "coverage": {"attention": "coverage"},
    "location-aware": {"attention": "location_aware"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_decoder_learns_what_it_learns_step_by_step(kind, monkeypatch):
    torch.manual_seed(0)
    sizes = {"vocabulary": 11, "embedding": 6, "width": 6, "alignment": 6, "readout": 6}
    model = Seq2Seq(Seq2SeqConfig(**sizes, **KINDS[kind])).double()
    source = (torch.randint(11, (B, 7)), torch.tensor([7, 2, 5]))
    target, found = torch.randint(11, (B, T)), []
    for how in (nullcontext, DeferredWeightGrads):
        monkeypatch.setattr(
            deferred_weight_grads, "maybe_defer_weight_grads", lambda x, how=how: how()
        )
        loss = model(source, target).square().mean()
        weights = list(model.parameters())
        found.append((loss, torch.autograd.grad(loss, weights, allow_unused=True)))
    assert_close(*found)
