"""Modules that are told from their code to be unable to attend, and run without the watcher."""

import pytest
import torch
from torch import nn, overrides
from torch.nn import functional as F

from regard import look
from regard.looking import threads
from regard.looking.leaf_modules import Leaves, can_attend

B, H, Q, D = 2, 3, 4, 6


class Norm(nn.Module):
    """As Llama's."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(D)), 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)).to(
            x.dtype
        )


class Multiplies(nn.Module):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


class Attends(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


class Calls(nn.Module):
    """Calls what it was made with."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return self.scale(x)


class Lists(Calls):
    """The same, from a tuple."""

    def forward(self, x):
        return self.scale[0](x)


ATTEND = Attends().forward


class Default(nn.Module):
    def forward(self, x, scale=ATTEND):
        return scale(x)


class Own(nn.Module):
    """Its method has a harmless name."""

    def mean(self, x):
        return F.scaled_dot_product_attention(x, x, x)

    def forward(self, x):
        return self.mean(x)


ATTENDING = {
    "matmul": Multiplies,
    "sdpa": Attends,
    "function": lambda: Calls(Attends()),
    "attribute": lambda: Calls(Attends().forward),
    "tuple": lambda: Lists((Attends().forward,)),
    "default": Default,
    "method": Own,
}


@pytest.mark.parametrize("kind", ATTENDING.values(), ids=ATTENDING)
def test_whatever_way_a_leaf_attends_it_is_looked_at(kind):
    model = nn.Sequential(Norm(), kind(), Norm())
    assert can_attend(model[1])
    with torch.no_grad(), look(model) as seen:
        x = model(torch.randn(B, H, Q, D))
    assert len(seen) == 1 and x.shape == (B, H, Q, D)


def test_norms_and_activations_and_dropouts_cannot_attend():
    quiet = [Norm(), nn.LayerNorm(D), nn.GELU(), nn.SiLU(), nn.Dropout(0.1), nn.Embedding(9, D)]
    assert not any(map(can_attend, quiet))
    heard = [nn.Linear(D, D), nn.MultiheadAttention(D, H), nn.Bilinear(D, D, D), nn.Identity()]
    assert [can_attend(module) for module in heard] == [True, True, True, False]


def test_a_hook_or_a_forward_of_its_own_makes_a_leaf_one_that_is_watched():
    leaves, norm, x = Leaves(), Norm(), torch.randn(D)
    assert leaves.is_idle(norm, (x,), {}) and not leaves.is_idle(norm, (Attends().forward,), {})
    assert not leaves.is_idle(norm, (), {"x": x})
    hook = norm.register_forward_hook(lambda module, args, out: Attends()(out))
    assert not leaves.is_idle(norm, (x,), {})
    hook.remove()
    assert leaves.is_idle(norm, (x,), {})
    norm.forward = Attends().forward
    assert not leaves.is_idle(norm, (x,), {})


def test_the_watcher_is_off_in_a_leaf_alone_and_back_where_it_raises():
    model = nn.Sequential(Norm(), Attends())
    with look(model) as seen:
        watcher = threads.here()
        with pytest.raises(RuntimeError):
            model(torch.randn(B, H, Q, D + 1))
        assert overrides._get_current_function_mode() is watcher
        assert watcher.can_pause(model[0], (torch.randn(D),), {})
        assert not watcher.can_pause(model[1], (torch.randn(D),), {})
        with overrides.BaseTorchFunctionMode():
            # another mode is on top, which must see what there is
            assert not watcher.can_pause(model[0], (torch.randn(D),), {})
        model(torch.randn(B, H, Q, D))
    assert list(seen) == ["1"]


def test_a_leaf_runs_watched_while_scores_are_followed():
    q = torch.randn(B, H, Q, D)
    model = nn.ModuleDict({"drop": nn.Dropout(0.0)})
    with look(model):
        scores = q @ q.mT
        assert not threads.here().can_pause(model["drop"], (scores,), {})
        del scores
        assert threads.here().can_pause(model["drop"], (q,), {})
