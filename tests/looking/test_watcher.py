"""Who watches is told of every call, and whoever could go past the door steps aside."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import attend, door, edit, edits, look
from regard.kernels import following, one_query, tour
from regard.layers.turing import Heads, at_once
from regard.looking import altered, aside, watched, watcher
from regard.looking.paths import Path
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from tests.kernels.tours import sizes, tables

B, H, Q, D = 2, 3, 5, 4


class Layer(nn.Module):
    """Attends to what it is given."""

    def forward(self, x):
        return attend(x, x, x)


WATCHING = {"look": lambda: look(), "edit": lambda: edit(Layer(), {})}


@pytest.mark.parametrize("watch", WATCHING.values(), ids=WATCHING)
def test_every_short_way_steps_aside(watch):
    heads, x = Heads(8, reads=1, writes=1, cell=4), torch.randn(B, Q, 8)
    assert at_once(x, heads) and one_query.on_cpu(x) and door.alone() and not following.watched()
    with watch():
        assert watched() and following.watched() and not door.alone()
        assert not at_once(x, heads) and not one_query.on_cpu(x) and not door.swift(x)
    assert not watched() and not following.watched()


@pytest.mark.parametrize("watch", WATCHING.values(), ids=WATCHING)
def test_nobody_says_at_once_how_likely_tours_were_that_are_watched(watch, monkeypatch):
    monkeypatch.setattr(tour, "fused", lambda *given: True)
    assert door.tours_at_once(tables(), sizes())
    with watch():
        assert not door.tours_at_once(tables(), sizes())


@torch.no_grad()
def test_tours_are_walked_step_by_step_for_who_watches():
    model = AttentionPointer(AttentionPointerConfig(width=32, heads=2, layers=1, inner=16)).eval()
    read = model.read(torch.rand(B, 7, 2), torch.tensor([7, 5]))
    starts = torch.tensor([[0, 3, 4], [1, 2, 0]])
    alone, chosen = model.walked(read, starts=starts), model.walked(read)
    with look(model) as seen:
        assert torch.equal(model.walked(read, starts=starts), alone)
        assert torch.equal(model.walked(read), chosen)
    assert [len(seen[name].calls) for name in ("touring.glimpse", "touring")] == [14, 14]


def test_inside_of_the_door_the_watcher_looks_away():
    q = torch.randn(B, H, Q, D)
    with look() as seen, aside():
        F.scaled_dot_product_attention(q, q, q)
    assert seen.names() == []


@pytest.mark.parametrize("first, second", [("look", "edit"), ("edit", "look")])
def test_the_last_to_close_leaves_everything_as_it_was(first, second):
    modes = torch._C._len_torch_function_stack()
    outer, inner = WATCHING[first](), WATCHING[second]()
    outer.__enter__(), inner.__enter__()
    assert torch._C._len_torch_function_stack() == modes + 1
    outer.__exit__(None, None, None)
    assert watched()
    inner.__exit__(None, None, None)
    assert not watched()
    assert torch._C._len_torch_function_stack() == modes


def test_a_compiler_that_meets_an_edit_is_told_in_words(monkeypatch):
    words, model, x = "edit: a compiled model cannot be edited", Layer(), torch.randn(B, H, Q, D)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(RuntimeError, match=words), watcher.changed_by(Nothing()):
        model(x)


class Nothing:
    """An edit that changes nothing."""

    path = Path(None)

    def means(self):
        return False

    def note_row_move(self, parents, *, followed):
        pass

    def meet(self, source=None):
        pass

    def edited(self, call):
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
        assert not altered()
        with edit(Layer(), {"Layer": edits.ablate(0)}):
            assert altered()
    assert not altered()
