"""Looks at models of Hugging Face that generate are exact beside eager ones of what came out."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import decode, look, weigh
from tests.looking import hugging_face as hf

B, H, D = 2, 3, 4


@pytest.mark.parametrize("prompt", [5, 12], ids=["short", "long"])
@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "gpt2"])
def test_every_cache_is_looked_at_by_the_positions_of_its_keys(name, cache, prompt):
    if name == "gpt2" and cache:
        pytest.skip("one kind of cache is enough of GPT-2")
    model, tokens = hf.make(name), hf.words(prompt)
    with look(model) as seen:
        out = model.generate(tokens, cache_implementation=cache, **hf.settings(new=14))
    for attention, expected in zip(seen.names(), hf.eager(model, out), strict=True):
        record, Q = seen[attention], out.shape[1] - 1
        found = record.weights()
        assert found.shape[2] == Q and record.sizes == tuple(found.shape)
        assert torch.allclose(found[..., :Q], expected[:, :, :Q, :Q], atol=1e-6)
        assert not found[..., Q:].any()
        rows = record.rows(1, 2, [Q - 1, 3])
        assert torch.allclose(rows, found[1, 2, [Q - 1, 3]], atol=1e-6)
        assert len({id(kept.span.log) for kept in record.calls}) == 1


@pytest.mark.parametrize("name, cache", [("mistral", None), ("llama", "static")])
def test_a_cache_of_a_model_that_attends_by_itself_is_kept_once_too(name, cache):
    model, tokens = hf.make(name), hf.words(5)
    model.set_attn_implementation("eager")
    with look(model) as seen:
        out = model.generate(tokens, cache_implementation=cache, **hf.settings(new=10))
    for attention, expected in zip(seen.names(), hf.eager(model, out), strict=True):
        found = seen[attention].weights()
        assert torch.allclose(found[..., :14], expected[:, :, :14, :14], atol=1e-6)
        assert len({id(kept.span.log) for kept in seen[attention].calls}) == 1


def test_padding_on_the_left_hides_keys_and_moves_none():
    model, tokens = hf.make("llama"), hf.words(6)
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    with look(model) as seen:
        out = model.generate(tokens, **hf.settings(new=8) | {"attention_mask": mask})
    real = F.pad(mask, (0, 8), value=1)
    for attention, expected in zip(seen.names(), hf.eager(model, out, real), strict=True):
        found = seen[attention].weights()
        assert torch.allclose(found[1], expected[1, :, :13, :13], atol=1e-6)
        assert torch.allclose(found[0, :, 3:], expected[0, :, 3:13, :13], atol=1e-6)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_inference_mode_keeps_each_key_once_too(name):
    model, tokens = hf.make(name), hf.words(5)
    with torch.inference_mode():
        with look(model) as seen:
            out = model.generate(tokens, **hf.settings(new=10))
        for attention, expected in zip(seen.names(), hf.eager(model, out), strict=True):
            found = seen[attention].weights()
            assert torch.allclose(found, expected[:, :, :14, :14], atol=1e-6)
            assert len({id(kept.span.log) for kept in seen[attention].calls}) == 1


# Beams.


@pytest.mark.parametrize("returned", [1, 3])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_beams_of_a_decoder_are_followed_to_the_hypotheses(name, returned):
    model, tokens = hf.make(name), hf.words(6)
    with look(model) as seen:
        out = model.generate(tokens, **hf.beams(returned, new=10))
    for attention, expected in zip(seen.names(), hf.eager(model, out.sequences), strict=True):
        found = seen[attention].along(out.beam_indices)
        for n, steps in enumerate((out.beam_indices >= 0).sum(1).tolist()):
            Q = 6 + steps - 1
            assert torch.allclose(found[n, :, :Q, :Q], expected[n, :, :Q, :Q], atol=1e-6)
            assert not found[n, :, Q:].any()


def test_beams_whose_prompt_was_read_in_parts_are_followed_by_a_row_for_each_part():
    model, tokens = hf.make("llama"), hf.words(6)
    with look(model) as seen:
        out = model.generate(tokens, prefill_chunk_size=4, **hf.beams(2, new=8))
    rows = torch.cat([out.beam_indices[:, :1], out.beam_indices], 1)
    for attention, expected in zip(seen.names(), hf.eager(model, out.sequences), strict=True):
        with pytest.raises(ValueError, match=r"for all 9 calls .* parts of a prompt, got 8"):
            seen[attention].along(out.beam_indices)
        found = seen[attention].along(rows)
        for n, steps in enumerate((out.beam_indices >= 0).sum(1).tolist()):
            Q = 6 + steps - 1
            assert torch.allclose(found[n, :, :Q, :Q], expected[n, :, :Q, :Q], atol=1e-6)


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_beams_of_an_encoder_and_a_decoder_are_followed_to_the_hypotheses(name):
    model, tokens = hf.make(name), hf.words(7)
    mask = torch.ones_like(tokens)
    mask[0, -2:] = 0
    with look(model) as seen:
        out = model.generate(tokens, **hf.beams(2, new=9) | {"attention_mask": mask})
    own, cross = hf.eager_decoder(model, tokens.repeat_interleave(2, 0), out.sequences, mask)
    names = [name for name in seen.names() if "decoder" in name]
    for i, attention in enumerate(names):
        expected = (cross if i % 2 else own)[i // 2]
        found = seen[attention].along(out.beam_indices)
        for n, steps in enumerate((out.beam_indices >= 0).sum(1).tolist()):
            K = expected.shape[3] if i % 2 else steps
            assert torch.allclose(found[n, :, :steps, :K], expected[n, :, :steps, :K], atol=1e-6)


def test_rows_of_the_last_step_are_their_own_hypotheses_all_the_way_back():
    model, tokens = hf.make("gpt2"), hf.words(6)
    with look(model) as seen:
        out = model.generate(tokens, **hf.beams(4, new=10) | {"eos_token_id": None})
    # nothing ended, so what was returned is what ran at the last step
    last = out.beam_indices[:, -1]
    assert len(last.unique()) > 2
    for attention, expected in zip(seen.names(), hf.eager(model, out.sequences), strict=True):
        record = seen[attention]
        assert torch.allclose(record.weights()[last], expected[:, :, :15, :15], atol=1e-6)
        row = int(last[5])
        assert torch.allclose(record.rows(row, 1, slice(None)), expected[5, 1, :15, :15], atol=1e-6)


class Cached(nn.Module):
    """Attends to a cache that it is handed."""

    def forward(self, q, k):
        return F.scaled_dot_product_attention(q, k, k)


class Two(nn.Module):
    """A cache that is moved with the beams, and one that is made anew from them, inexactly."""

    def __init__(self):
        super().__init__()
        self.exact, self.rounded = Cached(), Cached()

    def forward(self, q, k, noise):
        return self.exact(q, k) + self.rounded(q, k + noise)


def test_rows_that_cannot_be_followed_are_refused_and_never_mixed():
    model, k = Two(), torch.randn(4, H, 5, D)
    with look(model) as seen:
        for step in range(3):
            model(torch.randn(4, H, 1, D), k, 1e-3 * torch.randn(()))
            if step < 2:
                k = k.index_select(0, torch.tensor([1, 1, 0, 3]))
                k = torch.cat([k, torch.randn(4, H, 1, D)], 2)
    words = "look: rows of the batch were moved between calls of 'rounded', as beams are, but its k"
    for read in (seen["rounded"].weights, lambda: seen["rounded"].rows(0, 0, 0)):
        with pytest.raises(ValueError, match=words):
            read()
    assert seen["exact"].weights().shape == (4, H, 3, 7)
    assert seen["rounded"].calls[2].weights().shape == (4, H, 1, 7)


class Steps(nn.Module):
    """A decoder of somebody else's, for our beam search."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, H * D)
        self.attention = Cached()

    def start(self, source):
        return torch.zeros(len(source), H, 0, D)

    def step(self, tokens, k):
        q = self.embed(tokens).view(-1, H, 1, D)
        k = torch.cat([k, q], 2)
        return self.attention(q, k).flatten(1) @ self.embed.weight.T, k


@torch.no_grad()
def test_rows_of_our_own_beam_search_stay_those_of_the_batch_for_along():
    torch.manual_seed(2)
    model = Steps()
    with look(model) as seen:
        found = decode.beam(model, torch.zeros(2), begin=1, end=0, longest=7, width=3)
    looked = seen["attention"].weights()
    weights = decode.hypothesis_weights(found, looked[:, :, : found.parents.shape[0]])
    assert any(log.moves for log in {kept.span.log for kept in seen["attention"].calls})
    for source in range(2):
        n = int(found.lengths[source, 0])
        k = model.embed(torch.cat([torch.tensor([1]), found.tokens[source, 0, : n - 1]]))
        k = k.view(n, H, D).transpose(0, 1)[None]
        expected = weigh(k, k, rule=torch.ones(n, n).tril().bool())
        assert torch.allclose(weights[source, 0, :, :n, :n], expected[0], atol=1e-6)


@pytest.mark.parametrize("wrong", [[[0, 8]], [[-2]], [[0] * 30]])
def test_rows_of_hypotheses_that_are_not_there_are_refused(wrong):
    model, k = Cached(), torch.randn(8, H, 5, D)
    with look(model) as seen:
        for n in (4, 5):
            model(torch.randn(8, H, 1, D), k[:, :, :n].clone())
    with pytest.raises(ValueError, match="look: expected rows from -1 to 7 for at most 2 calls"):
        seen["Cached"].along(torch.tensor(wrong))


# One module, used several times.


def test_every_use_of_a_layer_that_is_shared_has_a_name_of_its_own():
    model, tokens = hf.make("albert"), hf.words(9)
    with look(model) as seen:
        for _ in range(2):
            model(tokens)
    name = "encoder.albert_layer_groups.0.albert_layers.0.attention"
    assert seen.names() == [name, f"{name}#2", f"{name}#3", f"{name}#4"]
    for use, expected in zip(seen.names(), hf.eager(model, tokens), strict=True):
        found = seen[use].weights()
        assert torch.allclose(found, torch.cat([expected, expected], 2), atol=1e-6)


class Shared(nn.Module):
    """A decoder of one layer used twice, with a cache for each use and one memory."""

    def __init__(self):
        super().__init__()
        self.own, self.cross = Cached(), Cached()

    def forward(self, q, caches, memory):
        for cache in caches:
            q = self.cross(self.own(q, cache), memory)
        return q


def test_uses_of_a_shared_layer_are_told_apart_while_its_caches_grow():
    model, memory = Shared(), torch.randn(B, H, 6, D)
    caches = torch.randn(2, B, H, 9, D)
    with look(model) as seen:
        model(torch.randn(B, H, 5, D), caches[:, :, :, :5], memory)
        for n in range(6, 10):
            model(torch.randn(B, H, 1, D), caches[:, :, :, :n].clone(), memory)
    assert seen.names() == ["own", "cross", "own#2", "cross#2"]
    for i, use in enumerate(("own", "own#2")):
        calls = seen[use].calls
        assert [kept.call.sizes[2:] for kept in calls] == [(5, 5), *((1, n) for n in range(6, 10))]
        assert torch.equal(calls[-1].call.k, caches[i])
    assert seen["cross#2"].weights().shape == (B, H, 9, 6)


class Stepping(nn.Module):
    """A decoder that goes step by step inside of one forward."""

    def __init__(self):
        super().__init__()
        self.own, self.cross = Cached(), Cached()

    def forward(self, q, k, memory):
        for n in range(2, q.shape[2] + 1, 2):
            self.cross(self.own(q[:, :, n - 2 : n], k[:, :, :n].clone()), memory)


def test_steps_of_a_decoder_inside_of_one_forward_are_no_uses_of_their_own():
    model = Stepping()
    with look(model) as seen:
        model(*(torch.randn(B, H, 6, D) for _ in range(2)), torch.randn(B, H, 2, D))
    assert seen.names() == ["own", "cross"]
    assert seen["own"].weights().shape == (B, H, 6, 6)
    assert seen["cross"].weights().shape == (B, H, 6, 2)


def test_two_sequences_that_alternate_are_each_kept_once():
    model, both = Cached(), torch.randn(2, B, H, 9, D)
    with look(model) as seen:
        for n in range(3, 10):
            for k in both:
                model(torch.randn(B, H, 3 if n == 3 else 1, D), k[:, :, :n].clone())
    calls = seen["Cached"].calls
    assert len({id(kept.span.log) for kept in calls}) == 2
    assert all(torch.equal(x.call.k, both[i % 2][:, :, : 3 + i // 2]) for i, x in enumerate(calls))


@pytest.mark.parametrize("device", ["meta", "vmap"])
@pytest.mark.filterwarnings("ignore")
def test_rows_that_hold_no_numbers_are_moved_as_without_a_look(device):
    class Moving(nn.Module):
        def forward(self, x, index):
            return x.index_select(0, index)

    x, index, model = torch.randn(3, 2, 4, 4), torch.tensor([[2, 0, 1], [1, 0, 2]]), Moving()
    with look(model):
        if device == "meta":
            assert model(x.to("meta"), index[0].to("meta")).shape == x.shape
        else:
            assert torch.equal(torch.func.vmap(model, (None, 0))(x, index), x[index])
