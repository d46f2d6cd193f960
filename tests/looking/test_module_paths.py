"""Where a call is made: by the module that runs, by its methods too, and by its copies."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import edits
from regard.looking import as_module_call, edit, look
from regard.looking.module_paths import ModulePath

X = torch.zeros(1)


class Part(nn.Module):
    """Says where it is, in its forward and beside it."""

    def __init__(self, path=None):
        super().__init__()
        self.said = []
        self.path = path

    def forward(self, x):
        self.said.append(self.path.name)
        return x

    @as_module_call
    def beside(self, x, *, fails=False):
        """Which is no forward."""
        self.said.append(self.path.name)
        if fails:
            raise ZeroDivisionError
        return x


class Whole(nn.Module):
    """Two parts."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Part(), Part()])

    def forward(self, x):
        return self.start(self.parts[1].beside(self.parts[0](x)))

    @as_module_call
    def start(self, x):
        """Begins anew."""
        return self.parts[0](x)


@pytest.fixture
def followed_model():
    model, begun = Whole(), []
    path = ModulePath(model, lambda: begun.append(path.name))
    for part in model.parts:
        part.path = path
    with look(), path.follow_model():
        yield model, path, begun


def test_the_module_that_runs_is_named_by_its_path(followed_model):
    model, path, _ = followed_model
    assert path.name is None and not path.has_run
    model(X)
    assert model.parts[0].said == ["parts.0", "parts.0"] and model.parts[1].said == ["parts.1"]
    assert path.name is None and path.has_run
    assert path.names == ["Whole", "parts", "parts.0", "parts.1"]


def test_a_method_beside_forward_has_the_name_of_its_module(followed_model):
    model, path, begun = followed_model
    assert model.parts[1].beside(X) is X
    assert model.parts[1].said == ["parts.1"] and path.name is None and not begun


def test_a_method_that_fails_is_left_again(followed_model):
    model, path, _ = followed_model
    with pytest.raises(ZeroDivisionError):
        model.parts[0].beside(X, fails=True)
    assert path.name is None


def test_the_root_begins_anew_by_its_forward_and_by_its_named_methods(followed_model):
    model, _, begun = followed_model
    model.start(X)
    assert begun == ["Whole"]
    model(X)
    assert begun == ["Whole"] * 3


def test_a_copy_that_shares_its_hooks_has_the_name(followed_model):
    model, _, _ = followed_model
    twin = object.__new__(Part)
    twin.__dict__.update(model.parts[1].__dict__)
    twin.beside(X)
    assert twin.said == ["parts.1"]


def test_nothing_is_left_on_a_model_and_nothing_is_asked_of_it():
    model, path = Whole(), ModulePath(None)
    with path.follow_model():
        assert path.names == [] and path.name is None
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_a_named_method_keeps_its_name_and_its_words():
    assert Part.beside.__name__ == "beside" and Part.beside.__doc__ == "Which is no forward."


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("made", [lambda x: torch.jit.trace(x, (X,)), torch.jit.script])
@pytest.mark.parametrize("is_part", [False, True])
def test_what_torch_jit_made_is_refused_in_words(made, is_part):
    model = made(nn.Linear(1, 1))
    model = nn.Sequential(model) if is_part else model
    part = r" \(its part '0' is\)" if is_part else ""
    words = rf"look: a model that torch\.jit scripted or traced{part} cannot be looked into"
    with pytest.raises(ValueError, match=words):
        look(model).__enter__()


class Direct(nn.Module):
    """Attends in its forward and in a method beside it."""

    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x

    def encode(self, x):
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("method", ["forward", "encode"])
def test_a_method_that_attends_and_was_called_directly_is_named_at_the_end(method):
    model, x = Direct(), torch.randn(2, 3, 5, 8)
    words = rf"look: 'Direct' attended in its method Direct\.{method}, .*; call the module itself$"
    with pytest.warns(UserWarning, match=words) as told, look(model) as seen:
        getattr(model, method)(x)
    assert seen.names() == [] and seen.unseen == ("Direct",) and len(told) == 1
    refused = pytest.raises(ValueError, match="edit: 'Direct' attended in its method Direct")
    with refused, edit(model, {"Direct": edits.ablate(0)}):
        getattr(model, method)(x)


def test_attention_of_another_model_beside_one_is_not_complained_of():
    model, other, x = Direct(), Direct(), torch.randn(2, 3, 5, 8)

    class Trainer(nn.Module):
        def __init__(self):
            super().__init__()
            self.student = nn.Linear(2, 2)

        def training_step(self, x):
            return other(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with look(model) as seen, edit(model, {"Direct": edits.ablate(0)}):
            other(x), other.forward(x), F.scaled_dot_product_attention(x, x, x)
        with look(trainer := Trainer()):
            trainer.training_step(x)
    assert seen.names() == [] and seen.unseen == ()


def test_leaves_that_ran_are_listed_where_nothing_else_did():
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.warns(UserWarning, match="in Sequential, of which these ran: Linear"), look(model):
        model[0](torch.zeros(1, 2))
