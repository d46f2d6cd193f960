"""A look or an edit belongs to the thread that opened it; all other threads go their way."""

import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn, overrides
from torch.nn import functional as F
from torch.utils import _python_dispatch
from torch.utils.checkpoint import checkpoint

from regard import attend, edit, edits, look
from regard.layers import MultiHead
from regard.looking import is_edited, is_observed, patches, threads
from tests.looking.test_patches import is_wrapped

B, H, Q, D, E = 2, 3, 5, 4, 12


class Theirs(nn.Module):
    """Attends in PyTorch's words and in ours."""

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x) + attend(x, x, x)


def elsewhere(run):
    """What `run` gives, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def tensor():
    return torch.randn(B, H, Q, D)


def modes():
    return overrides._get_current_function_mode_stack()


WATCHES = {"look": lambda model: look(model), "edit": lambda model: edit(model, {"Theirs": drop})}


def drop(call):
    return edits.ablate(0)(call)


@pytest.mark.parametrize("watch", WATCHES.values(), ids=WATCHES)
def test_another_thread_goes_its_way_unseen_and_unchanged(watch):
    model, x = Theirs(), tensor()
    alone = model(x)
    with watch(model), look() as seen:
        model(x)
        seen.clear()
        assert is_observed() and not elsewhere(is_observed) and not elsewhere(is_edited)
        assert torch.equal(elsewhere(lambda: model(x)), alone) and elsewhere(modes) == []
        assert seen.names() == []


@pytest.mark.parametrize("watch", WATCHES.values(), ids=WATCHES)
def test_a_model_that_runs_in_other_threads_alone_is_told_of(watch):
    model, x = Theirs(), tensor()
    kind = "look" if watch is WATCHES["look"] else "edit"
    words = (
        f"{kind}: Theirs ran in other threads alone, where this {kind} does not hold; open it in"
    )
    with pytest.warns(UserWarning, match=words), watch(model) as seen:
        elsewhere(lambda: model(x))
    if kind == "look":
        assert seen.unseen == ("Theirs",)
    with warnings.catch_warnings(), watch(model):
        warnings.simplefilter("error")
        model(x), elsewhere(lambda: model(x)), elsewhere(lambda: Theirs()(x))
    assert threads.all_paths == []


def test_two_threads_look_and_edit_at_the_same_time_each_for_itself():
    model, x, both = Theirs(), tensor(), threading.Barrier(2)
    alone = model(x)

    def looked():
        with look(model) as seen:
            both.wait()
            for _ in range(20):
                assert torch.equal(model(x), alone)
            both.wait()
        return len(seen["Theirs"].calls)

    def edited():
        with edit(model, {"Theirs": edits.ablate(0, 1, 2)}):
            both.wait()
            for _ in range(20):
                assert not model(x).any()
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        of_look, of_edit = pool.submit(looked), pool.submit(edited)
        of_edit.result()
        assert of_look.result() == 40
    assert torch.equal(model(x), alone) and not is_wrapped() and not threads.any_open


def test_many_threads_that_open_and_close_leave_nothing_behind():
    model, x, calls = Theirs(), tensor(), 30

    def run(_):
        for _ in range(calls):
            with look(model) as seen:
                model(x)
            assert len(seen["Theirs"].calls) == 2
        return modes()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(8))) == [[]] * 8
    assert not is_wrapped() and not threads.any_open and not is_observed()


def test_a_look_that_is_closed_by_another_thread_is_refused_in_words_and_over():
    model, x, before = Theirs(), tensor(), modes()
    opened = look(model)
    seen = opened.__enter__()
    with pytest.raises(RuntimeError, match="look, edit: expected to be closed by the thread that"):
        elsewhere(lambda: opened.__exit__(None, None, None))
    model(x)
    assert seen.names() == [] and not is_observed() and not is_wrapped()
    with look(model) as seen:  # whoever opens the next puts the stack in order
        model(x)
    assert seen.names() == ["Theirs"] and modes() == before


def test_a_look_that_another_thread_closed_is_gone_with_the_next_module_that_runs():
    layer, x = nn.TransformerEncoderLayer(E, 4, 16, batch_first=True).eval(), torch.randn(B, Q, E)
    opened, operators = look(layer), []
    with torch.no_grad():
        opened.__enter__()
        with pytest.raises(RuntimeError, match="closed by the thread that opened it"):
            elsewhere(lambda: opened.__exit__(None, None, None))
        with Operators(operators):
            layer(x)
    assert "_transformer_encoder_layer_fwd" in str(operators)
    assert modes() == [] and not is_wrapped() and not threads.stale_modes


def test_a_thread_that_ends_with_a_look_that_another_closed_leaves_nothing_behind():
    with ThreadPoolExecutor(1) as pool:
        opened = look(Theirs())
        pool.submit(opened.__enter__).result()
        with pytest.raises(RuntimeError, match="closed by the thread that opened it"):
            opened.__exit__(None, None, None)
        assert threads.stale_modes and is_wrapped()
        with look(model := Theirs()) as seen:
            model(tensor())
        assert len(seen["Theirs"].calls) == 2 and modes() == []
    gc.collect()
    assert not threads.stale_modes and not is_wrapped() and not threads.any_open


class Operators(_python_dispatch.TorchDispatchMode):
    """Lists the operators that run."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.found.append(func)
        return func(*args, **(kwargs or {}))


def test_a_look_that_is_forgotten_is_closed_with_its_last_reference():
    before, opened = modes(), look(Theirs())
    opened.__enter__()
    assert is_observed()
    del opened
    gc.collect()
    assert not is_observed() and not is_wrapped() and modes() == before


class Other(overrides.TorchFunctionMode):
    """A mode of somebody else's."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_mode_that_was_opened_inside_stays_when_a_look_is_closed_out_of_order():
    before, opened, other = modes(), look(), Other()
    opened.__enter__(), other.__enter__()
    opened.__exit__(None, None, None)
    assert modes() == [*before, other]
    other.__exit__(None, None, None)
    assert modes() == before and not is_wrapped()


def test_an_interrupted_model_is_left_by_name():
    class Interrupted(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    model = nn.Sequential(Interrupted(), Theirs())
    with look(model) as seen:
        with pytest.raises(KeyboardInterrupt):
            model(tensor())
        model[1](tensor())
        attend(tensor(), tensor(), tensor())
    assert seen.names() == ["1"]


def test_a_thread_that_autograd_hands_the_mode_to_is_watched_too():
    layer, x = MultiHead(E, H), torch.randn(B, Q, E)
    with edit(layer, {"MultiHead": edits.ablate(0, 1, 2)}), look(layer) as seen:
        (mode,) = modes()

        def handed():
            with mode:
                return layer(x)

        assert torch.equal(elsewhere(handed), layer.out.bias.expand(B, Q, E))
    assert len(seen["MultiHead"].calls) == 1 and modes() == []


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_backward_pass_hands_the_mode_on_and_edits_what_it_computes_again(reentrant):
    model, stacks = Theirs(), []
    model.register_forward_pre_hook(lambda *given: stacks.append(len(modes())))
    x, change = tensor().requires_grad_(), {"Theirs": edits.chain(edits.ablate(1), edits.heat(3.0))}
    with edit(model, change):
        (wanted,) = torch.autograd.grad(model(x).square().sum(), x)
        checkpoint(model, x, use_reentrant=reentrant).square().sum().backward()
        assert len(modes()) == 1
    torch.testing.assert_close(x.grad, wanted)
    assert stacks == [1, 1, 1] and modes() == []


@pytest.mark.filterwarnings("ignore:look. TransformerEncoderLayer ran in other threads")
def test_a_native_encoder_in_another_thread_keeps_its_kernels():
    layer = nn.TransformerEncoderLayer(E, 4, 16, batch_first=True).eval()
    x = torch.randn(B, Q, E)

    def run():
        with torch.no_grad():
            return layer(x)

    alone = elsewhere(run)
    with look(layer) as seen:
        assert torch.equal(elsewhere(run), alone) and not seen.names()
        assert torch.backends.mha.get_fastpath_enabled()


def test_patches_are_shared_by_all_threads():
    with look():
        assert elsewhere(is_wrapped)
        elsewhere(lambda: look().__enter__() and None)
        gc.collect()
        assert is_wrapped() and patches
    assert not is_wrapped()


# Compilers follow what says who watches, whatever other threads do.


@pytest.mark.compiled
def test_a_compiled_model_in_another_thread_is_compiled_twice_at_most():
    counter = pytest.importorskip("torch._dynamo.testing").CompileCounter()
    model, x = MultiHead(E, H).eval(), torch.randn(B, Q, E)
    compiled = torch.compile(model, backend=counter, fullgraph=True)

    def run():
        with torch.no_grad():
            return compiled(x)

    alone = elsewhere(run)
    for _ in range(3):
        with look(nn.Identity()):
            assert torch.equal(elsewhere(run), alone)
            with look() as seen:
                assert torch.equal(elsewhere(run), alone)
        assert torch.equal(elsewhere(run), alone) and seen.names() == []
    assert counter.frame_count <= 2


@pytest.mark.compiled
def test_a_model_is_compiled_while_another_thread_looks():
    counter = pytest.importorskip("torch._dynamo.testing").CompileCounter()
    x = torch.randn(B, Q, E)
    model = nn.TransformerEncoderLayer(E, 4, 16, batch_first=True).eval()
    with torch.no_grad():
        alone = model(x)

    def run():
        with torch.no_grad():
            return torch.compile(model, backend=counter)(x)

    with look():
        torch.testing.assert_close(elsewhere(run), alone)
    assert counter.frame_count >= 1


@pytest.mark.compiled
def test_who_looks_and_runs_a_compiled_model_is_told_in_words():
    model, x = Ours(), tensor()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    elsewhere(lambda: compiled(x))
    with look(), pytest.raises(Exception, match="compiled model cannot be looked into"):
        compiled(x)


class Ours(nn.Module):
    """Attends in our words alone."""

    def forward(self, x):
        return attend(x, x, x)


@pytest.mark.compiled
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_parts_that_are_compiled_run_as_they_are_inside_of_a_look(backend):
    flex = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    functions = [
        lambda x: F.layer_norm(x, (D,)) * torch.tanh(x),
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: (x @ x.mT).softmax(-1) @ x,
    ]
    parts = [torch.compile(f, backend=backend, fullgraph=True) for f in functions]
    parts.append(lambda x: flex(x, x, x))
    x = tensor()
    alone = [part(x) for part in parts]
    for _ in range(2):
        with look():
            assert all(map(torch.equal, alone, [part(x) for part in parts]))
