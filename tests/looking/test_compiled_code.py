"""Compiled code under a look or an edit is not seen, so it is named at the end."""

import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from regard import edit, edits, look
from regard.looking.compiled_code import CompiledRuns
from tests.looking.test_threads import elsewhere

E, Q = 8, 5


class Attention(nn.Module):
    """Attends for everyone to see."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(E, E), nn.Linear(E, E)

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ x


class Net(nn.Module):
    """Two attentions, of which the second may run in a function of its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.mlp = Attention(), Attention(), nn.Linear(E, E)
        self.tail = self.b

    def forward(self, x):
        return self.tail(x + self.a(x))


def compiled(function):
    return torch.compile(function, backend="eager")


def compiled_tail():
    """A model that runs its second attention in a compiled function."""
    model = Net().eval()
    del model.tail
    model.__dict__["tail"] = compiled(lambda x: x + model.b(x))
    return model


def runs():
    model = nn.ModuleDict({"encoder": Attention(), "decoder": Attention(), "mlp": nn.Linear(E, E)})
    return model, CompiledRuns({name or "Root": module for name, module in model.named_modules()})


def test_a_module_that_ran_compiled_is_named_though_it_also_ran_eagerly():
    model, found = runs()
    assert not found and found.unseen_names(()) == () and found.warning_text(()) is None
    found.note(model["encoder"].forward, (), None)
    assert found and found.unseen_names(["encoder"]) == ("encoder",)
    with pytest.raises(ValueError, match="edit: compiled code ran, which cannot be edited, and 'e"):
        found.check_ran_eagerly(["encoder"], ["encoder"])
    found.check_ran_eagerly(["decoder"], [])


def test_where_a_compiled_function_ran_those_that_ran_eagerly_are_not_named():
    _, found = runs()
    found.note(torch.relu, (), "Root")
    assert found.unseen_names(["Root", "encoder"]) == ("decoder",)
    assert found.unseen_names(["Root", "encoder", "decoder"]) == ()


def test_compiled_code_outside_of_a_model_may_be_all_of_it_or_none():
    _, found = runs()
    found.note(torch.relu, (), None)
    assert found.unseen_names(()) == ("encoder", "decoder")
    assert found.unseen_names(["Root", "encoder"]) == ()


def test_a_compiled_part_without_attention_is_not_complained_of():
    model, found = runs()
    found.note(model["mlp"].forward, (), "Root.mlp")
    found.note(torch.relu, (), "mlp")
    assert found.unseen_names(["Root", "encoder"]) == ()
    found.check_ran_eagerly(["decoder"], ["Root"])


@pytest.mark.compiled
def test_attention_in_a_compiled_function_of_a_model_is_named_at_the_end():
    model, x = compiled_tail(), torch.randn(2, Q, E)
    model(x)
    words = (
        "look: compiled code ran, of which nothing can be seen: calls of b may be missing; "
        "run it eagerly, without torch.compile$"
    )
    for _ in range(2):
        with pytest.warns(UserWarning, match=words) as told, look(model) as seen:
            model(x)
        assert "a" in seen and "b" not in seen and seen.unseen == ("b",) and len(told) == 1
    refused = pytest.raises(ValueError, match=r"edit: compiled code ran.*'b' did not always run")
    with refused, edit(model, {"b": edits.ablate(0)}):
        model(x)
    with edit(model, {"a": edits.ablate(0)}):
        model(x)


@pytest.mark.compiled
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: m.forward, lambda m: lambda x: m(x)])
def test_a_model_that_runs_compiled_is_named_and_an_edit_of_it_refused(wrap):
    model, x = Net().eval(), torch.randn(2, Q, E)
    run = compiled(wrap(model))
    wanted = run(x)
    with pytest.warns(UserWarning, match="calls of a, b may be missing"), look(model) as seen:
        assert torch.equal(run(x), wanted)
    assert seen.names() == [] and seen.unseen == ("a", "b")
    refused = pytest.raises(ValueError, match="edit: compiled code ran, which cannot be edited")
    with refused, edit(model, {"a": edits.hide([(0, 0), (99, 99)])}):
        run(x)


@pytest.mark.compiled
def test_a_compiled_function_without_attention_is_not_complained_of():
    model, x, gelu = Net().eval(), torch.randn(2, Q, E), compiled(lambda x: x.relu() * 2)
    model.mlp.forward = lambda x: gelu(x)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "look")
        with look(model) as seen, edit(model, {"a": edits.ablate(0)}):
            gelu(model(model.mlp(x)))
    assert seen.names() == ["a", "b"] and seen.unseen == ()


@pytest.mark.compiled
def test_a_compiled_model_that_ran_in_other_threads_alone_is_named():
    model, x = Net().eval(), torch.randn(2, Q, E)
    run = compiled(model)
    with pytest.warns(UserWarning, match="look: Net ran in other threads alone"), look(model):
        elsewhere(lambda: run(x))


@pytest.mark.compiled
def test_what_is_compiled_for_the_first_time_inside_of_a_look_is_named():
    code = (
        "import sys, torch, warnings; from tests.looking.test_compiled_code import *\n"
        "model, x, ours = Net().eval(), torch.randn(2, Q, E), torch.compile\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "warnings.simplefilter('ignore')\n"
        "with look(model) as seen: compiled(model)(x)\n"
        "entry = sys.modules['torch._dynamo.eval_frame']._callback_from_stance\n"
        "assert torch.compile is ours and entry.__module__ == 'torch._dynamo.eval_frame'\n"
        "print(*seen.unseen)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["a", "b"], done.stderr
