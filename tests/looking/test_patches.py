"""What is wrapped of PyTorch while a look is open is put back, and a model carries none of it."""

import copy
import pickle

import pytest
import torch
from torch import nn, overrides

from regard import look
from regard.layers import MultiHead
from regard.looking.patches import Patch

B, Q, E, H = 2, 5, 12, 4
CALL, ASKED = nn.Module._call_impl, overrides.has_torch_function


def is_wrapped():
    """True if PyTorch is not as it was before any look."""
    return nn.Module._call_impl is not CALL or overrides.has_torch_function is not ASKED


def test_pytorch_is_wrapped_while_a_look_is_open_and_no_longer():
    assert not is_wrapped()
    with look(), look():
        assert is_wrapped()
    assert not is_wrapped()


class Owner:
    """Has a function that is wrapped."""

    def call(self):
        return ["original"]


def patched():
    patch = Patch(Owner, "call", lambda self: [*patch.original(self), "ours"])
    return patch


@pytest.fixture(autouse=True)
def _restored():
    original = Owner.call
    yield
    Owner.call = original


def test_a_function_is_wrapped_once_and_put_back():
    patch, original = patched(), Owner.call
    for _ in range(2):
        patch.install(), patch.install()
        assert Owner().call() == ["original", "ours"]
        patch.remove()
        assert Owner.call is original


def test_whoever_wrapped_it_meanwhile_keeps_their_wrapper():
    patch = patched()
    patch.install()
    ours = Owner.call
    Owner.call = lambda self: [*ours(self), "theirs"]
    for _ in range(2):
        patch.remove()
        assert Owner().call() == ["original", "ours", "theirs"]
        patch.install()
        assert Owner().call() == ["original", "ours", "theirs"]
    Owner.call = ours
    patch.remove()
    assert Owner().call() == ["original"]


def test_a_wrapper_of_somebody_else_s_from_before_is_kept():
    patch, original = patched(), Owner.call
    Owner.call = lambda self: [*original(self), "theirs"]
    patch.install()
    assert Owner().call() == ["original", "theirs", "ours"]
    patch.remove()
    assert Owner().call() == ["original", "theirs"]


# A model that is looked into is as it was.


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_made_during_a_look_carries_nothing_of_it(copied):
    model, x = nn.Sequential(MultiHead(E, H), nn.Linear(E, E)), torch.randn(B, Q, E)
    with look(model) as seen:
        twin = copied(model)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in twin.modules())
    with look(model) as seen:
        twin[0](x)
    assert torch.equal(twin(x), model(x))
    shares = copied is copy.copy  # its children are those of the model themselves
    assert seen.names() == (["0"] if shares else [])


def test_nothing_is_put_on_a_model():
    model = nn.Sequential(MultiHead(E, H), nn.Linear(E, E))
    before = [dict(module.__dict__) for module in model.modules()]
    with look(model):
        assert [dict(module.__dict__) for module in model.modules()] == before


def test_a_replica_is_itself_and_no_other_module():
    model, x = nn.Linear(E, E), torch.randn(B, Q, E)
    with look(model):
        replica = model._replicate_for_data_parallel()
        replica.weight, replica.bias = model.weight * 2, model.bias
        assert torch.equal(replica(x), nn.functional.linear(x, model.weight * 2, model.bias))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_an_encoder_is_scripted_while_a_look_is_open():
    model = nn.TransformerEncoderLayer(E, H, 16, batch_first=True).eval()
    x = torch.randn(B, Q, E)
    with look(), torch.no_grad():
        scripted = torch.jit.script(model)
        torch.testing.assert_close(scripted(x), model(x))
