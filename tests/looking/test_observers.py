"""Who watches is told of every call, and whoever could go past the dispatch steps aside."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import (
    attend,
    edit,
    edits,
    fast_path,
    look,
)
from regard.kernels import guards
from regard.kernels.tour import api as tour_kernel
from regard.layers.ntm_heads import Heads, can_run_all_steps
from regard.looking import is_edited, is_observed, observers, pause_observers
from regard.looking.module_paths import ModulePath
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig

B, H, Q, D = 2, 3, 5, 4


class Layer(nn.Module):
    """Attends to what it is given."""

    def forward(self, x):
        return attend(x, x, x)


WATCHING = {"look": lambda: look(), "edit": lambda: edit(Layer(), {})}


@pytest.mark.parametrize("watch", WATCHING.values(), ids=WATCHING)
def test_every_fast_path_steps_aside_while_observed(watch):
    heads, x = Heads(8, read_heads=1, write_heads=1, slot_width=4), torch.randn(B, Q, 8)
    assert (
        can_run_all_steps(x, heads)
        and fast_path.allowed(x)
        and fast_path.not_observed()
        and not guards.has_function_mode()
    )
    with watch():
        assert is_observed() and guards.has_function_mode() and not fast_path.not_observed()
        assert not can_run_all_steps(x, heads) and not fast_path.allowed(x)
    assert not is_observed() and not guards.has_function_mode()


@pytest.mark.parametrize("watch", WATCHING.values(), ids=WATCHING)
def test_log_probability_of_tours_is_not_fused_while_observed(watch, monkeypatch):
    monkeypatch.setattr(tour_kernel, "can_use_kernel", lambda *given: True)
    fused = torch.full((1, 1, 3), 7.0)
    monkeypatch.setattr(tour_kernel, "log_probability", lambda *given: fused)
    model = AttentionPointer(
        AttentionPointerConfig(width=32, heads=2, layers=1, feed_forward_width=16)
    ).eval()
    read, tours = model.encode(torch.rand(1, 3, 2), torch.tensor([3])), torch.tensor([[[0, 2, 1]]])
    assert model.decoder.log_probability(read, tours, fixed_start=True) is fused
    with watch():
        assert model.decoder.log_probability(read, tours, fixed_start=True) is not fused


@torch.no_grad()
def test_tours_are_decoded_step_by_step_while_observed():
    model = AttentionPointer(
        AttentionPointerConfig(width=32, heads=2, layers=1, feed_forward_width=16)
    ).eval()
    read = model.encode(torch.rand(B, 7, 2), torch.tensor([7, 5]))
    starts = torch.tensor([[0, 3, 4], [1, 2, 0]])
    alone, chosen = model.decode_tours(read, starts=starts), model.decode_tours(read)
    with look(model) as seen:
        assert torch.equal(model.decode_tours(read, starts=starts), alone)
        assert torch.equal(model.decode_tours(read), chosen)
    assert [len(seen[name].calls) for name in ("decoder.glimpse", "decoder")] == [14, 14]


def test_while_observers_are_paused_nothing_is_seen():
    q = torch.randn(B, H, Q, D)
    with look() as seen, pause_observers():
        F.scaled_dot_product_attention(q, q, q)
    assert seen.names() == []


@pytest.mark.parametrize("first, second", [("look", "edit"), ("edit", "look")])
def test_the_last_to_close_leaves_everything_as_it_was(first, second):
    modes = torch._C._len_torch_function_stack()
    outer, inner = WATCHING[first](), WATCHING[second]()
    outer.__enter__(), inner.__enter__()
    assert torch._C._len_torch_function_stack() == modes + 1
    outer.__exit__(None, None, None)
    assert is_observed()
    inner.__exit__(None, None, None)
    assert not is_observed()
    assert torch._C._len_torch_function_stack() == modes


def test_a_compiler_that_meets_an_edit_is_told_in_words(monkeypatch):
    words, model, x = "edit: a compiled model cannot be edited", Layer(), torch.randn(B, H, Q, D)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(RuntimeError, match=words), observers.open_edit(Nothing()):
        model(x)


class Nothing:
    """An edit that changes nothing."""

    path = ModulePath(None)

    def is_target_running(self):
        return False

    def note_row_move(self, parents, *, follow):
        pass

    def note_attention(self, source=None):
        pass

    def edit_call(self, call):
        return call


def test_an_edit_meets_calls_of_pytorch_s_own_too():
    class Theirs(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    model = nn.Sequential(Theirs(), Layer())
    words = "edit: 'Sequential' ran no attention; of this model did 0, 1"
    with pytest.raises(ValueError, match=words), edit(model, {"Sequential": edits.ablate(0)}):
        model(torch.randn(B, H, Q, D))


def test_an_edit_alters_and_a_look_does_not():
    with look():
        assert not is_edited()
        with edit(Layer(), {"Layer": edits.ablate(0)}):
            assert is_edited()
    assert not is_edited()
