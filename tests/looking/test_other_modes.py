"""Others' function modes and tracers see what a model calls, and not what a look does beside it."""

import warnings

import pytest
import torch
from torch import nn, overrides
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard import edit, edits, look
from regard.looking.other_modes import has_recorders, hide_recorders, run_visible, without_recorders
from tests.looking.test_threads import elsewhere

E, Q = 8, 5


class Attention(nn.Module):
    """Attends by itself and by PyTorch's function, and joins keys as a cache does."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(E, E)

    def forward(self, x):
        q = self.q(x)
        keys = torch.cat([q[:, None], x[:, None]], 2)
        read = F.scaled_dot_product_attention(q[:, None], keys, keys)[:, 0]
        return (q @ q.mT).mul(0.5).softmax(-1) @ read


class Record(TorchFunctionMode):
    """Keeps what it sees, and adds to all that it gets."""

    def __init__(self, noise=0.0):
        super().__init__()
        self.functions, self.noise = [], noise

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.functions.append(func)
        out = func(*args, **(kwargs or {}))
        if self.noise and isinstance(out, torch.Tensor) and out.is_floating_point():
            out.add_(self.noise)
        return out


def modes():
    return overrides._get_current_function_mode_stack()


@pytest.mark.parametrize("is_outside", [True, False])
def test_a_mode_sees_the_same_functions_with_a_look_and_without(is_outside):
    model, x, alone, beside = Attention(), torch.randn(2, Q, E), Record(), Record()
    with alone:
        model(x)
    first, second = (beside, look(model)) if is_outside else (look(model), beside)
    with first, second:
        model(x)
    assert beside.functions == alone.functions and modes() == []


def test_a_mode_that_writes_into_all_it_gets_changes_the_same_bits_under_a_look():
    model, x = Attention(), torch.randn(2, Q, E)
    y = x.clone()
    with torch.no_grad():
        with Record(0.1):
            alone = model(x)
        with Record(0.1), look(model) as seen:
            found = model(y)
    assert torch.equal(found, alone)
    assert len(seen["Attention"].calls) == 2


def test_a_mode_is_back_after_an_error_in_what_the_model_calls():
    x, mode = torch.randn(2, Q, E), Record()
    with mode, look():
        before = modes()
        with pytest.raises(RuntimeError):
            x @ x
        assert modes() == before
    assert modes() == []


def test_a_device_is_no_recorder_and_stays():
    with torch.device("meta"):
        assert not has_recorders()
        with Record() as mode, hide_recorders():
            assert torch.zeros(1).is_meta and not mode.functions
            run_visible(torch.zeros, (1,), {})
            assert mode.functions == [torch.zeros] and len(modes()) == 1
            with without_recorders():
                torch.ones(1)
            assert torch.ones not in mode.functions


def operators(traced):
    return [node.kind() for node in traced.inlined_graph.nodes()]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("error::torch.jit.TracerWarning")
def test_a_model_is_traced_inside_of_a_look_that_called_no_function_before():
    model, x = nn.Sequential(Sums(), Sums()).eval(), torch.randn(2, Q, E)
    alone = operators(torch.jit.trace(model, x))

    def trace():  # the observer mode of a new thread has called none
        with look(model) as seen:
            return torch.jit.trace(model, x), seen.names()

    traced, names = elsewhere(trace)
    assert operators(traced) == alone and names == ["0", "1"]
    assert torch.equal(traced(x), model(x))


class Sums(nn.Module):
    """Attends by itself."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(E, E), nn.Linear(E, E)

    def forward(self, x):
        return (self.q(x) @ self.k(x).transpose(-2, -1) * 0.5).softmax(-1) @ x


@pytest.mark.compiled  # the shape checks would be traced as well
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_is_edited_is_traced_as_it_is_edited():
    model, x = Sums().eval(), torch.randn(2, Q, E)
    with warnings.catch_warnings(), edit(model, {"Sums": edits.heat(3.0)}):
        warnings.simplefilter("ignore")
        traced, y = torch.jit.trace(model, x, check_trace=False), torch.randn(2, Q, E)
        wanted = model(y)
    torch.testing.assert_close(traced(y), wanted)
