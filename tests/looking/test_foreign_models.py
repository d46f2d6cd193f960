"""Every model tried: the same bits, its own weights, and edits that are what they are by hand.

Which were tried is written in docs/looking.md, by `python -m benchmarks foreign`.
"""

import itertools
import warnings

import pytest
import torch

from regard import edit, edits, look
from tests.looking import timm_models
from tests.looking.foreign_models import ALL, Attentions, compared, create

every = pytest.mark.parametrize("name", ALL)


@pytest.fixture(autouse=True)
def plain(request):
    """Hugging Face's flex attention without its compiler, which takes a minute."""
    if "flex" not in request.node.name:
        yield
        return
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        warnings.filterwarnings("ignore", "flex_attention called without")
        yield


@every
def test_a_look_changes_no_bit_and_sees_the_model_s_own_weights(name):
    found = compared(name)
    assert found.is_equal and found.gap <= 1e-6
    assert found.names and found.unseen == ()


@every
@torch.no_grad()
def test_an_edit_is_what_it_is_by_hand(name):
    foreign = create(name)
    alone, plainly = foreign.call(), foreign.eager or foreign.call
    with look(foreign.model) as seen:
        foreign.call()
    # the first that has several keys, and the numbers of its calls
    counts = {n: len(seen[n].calls) for n in seen}
    first = next(n for n in seen if seen[n].calls[0].weights().shape[3] > 1)
    before = sum(counts[n] for n in itertools.takewhile(first.__ne__, seen))
    mine = range(before, before + counts[first])
    _, H, _, K = seen[first].calls[0].weights().shape

    with edit(foreign.model, {first: edits.ablate(*range(H))}), look(foreign.model) as seen:
        out = foreign.call()
    with Attentions(mine):
        silent = plainly()
    assert not any(call.weights().any() for call in seen[first].calls)
    torch.testing.assert_close(out, silent)
    assert not torch.equal(out, alone) and torch.equal(foreign.call(), alone)

    with edit(foreign.model, {first: edits.hide([(None, K - 1)])}), look(foreign.model) as seen:
        out = foreign.call()
    # a sink of x-transformers is a column on the left
    with Attentions(mine, K if "with sinks" in name else K - 1):
        masked = plainly()
    assert not seen[first].calls[0].weights()[..., K - 1].any()
    torch.testing.assert_close(out, masked, atol=1e-5, rtol=1e-4)


# What has no weights from queries to keys.


@pytest.mark.parametrize("name", timm_models.OTHERS)
@torch.no_grad()
def test_what_attends_otherwise_is_named_and_never_shown_as_a_map(name):
    model, images = timm_models.create(name)
    alone = model(images)
    words = pytest.warns(UserWarning, match=r"look: \d+ modules of .* was seen: .*attn")
    with words, look(model) as seen:
        assert torch.equal(model(images), alone)
    other = ("FactorAttnConvRelPosEnc", "XCA")
    modules = dict(model.named_modules())
    assert seen.unseen and {type(modules[n]).__name__ for n in seen.unseen} <= set(other)
    assert not any(type(modules[n]).__name__ in other for n in seen.names())


@torch.no_grad()
def test_a_state_space_model_is_said_to_have_none():
    transformers = pytest.importorskip("transformers")
    config = transformers.MambaConfig(hidden_size=16, num_hidden_layers=2, vocab_size=50)
    model = transformers.MambaModel(config).eval()
    words = "look: no attention was seen in MambaModel, .*MambaMixer"
    with pytest.warns(UserWarning, match=words), look(model) as seen:
        model(torch.randint(0, 50, (2, 5)))
    assert seen.names() == []
