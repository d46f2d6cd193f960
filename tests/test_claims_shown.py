"""Claims of the surveys that no other test covers: readers, convolutions, projections, order.

`docs/claims.md` names these tests beside the claims that they show.
"""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import attend, layers, load, look, rules, scores, weigh
from regard.data.text.corpus import Corpus
from regard.functional.attention import self_attention
from regard.layers.rnn import RNNLayer, step_cells

B, H, T, S, E, V = 2, 2, 5, 7, 8, 11
ORDER = [4, 1, 2, 3, 0]
each_number_of_heads = pytest.mark.parametrize("heads", [1, 2, 4, 8])


def layers_to_reach(length, kernel, *, dilated=False):
    """The number of causal convolutions until the last of `length` places depends on the first.

    Dilated: each layer skips `kernel` times as many places as the one below.
    """
    reached, depth = F.one_hot(torch.tensor([[0]]), length).double(), 0
    while not reached[0, 0, -1]:
        dilation = kernel**depth if dilated else 1
        padded = F.pad(reached, ((kernel - 1) * dilation, 0))
        sums = F.conv1d(padded, torch.ones(1, 1, kernel).double(), dilation=dilation)
        reached, depth = (sums > 0).double(), depth + 1
    return depth


def first_token_gradient(read, length):
    """The norm of the gradient of `read(x)` (1, E) by the first token of a sequence x."""
    torch.manual_seed(0)
    x = torch.randn(1, length, E, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(read(x).sum(), x)[0][0, 0].norm().item()


@pytest.mark.parametrize(("kernel", "plain", "dilated"), [(2, 63, 6), (3, 32, 4), (4, 21, 3)])
def test_convolutions_reach_far_by_depth_and_dilated_ones_by_its_logarithm(kernel, plain, dilated):
    assert layers_to_reach(64, kernel) == plain == -(-63 // (kernel - 1))
    assert layers_to_reach(64, kernel, dilated=True) == dilated
    assert kernel ** (dilated - 1) < 64 <= kernel**dilated


@pytest.mark.parametrize(("before", "causal"), [(2, True), (1, False), (0, False)])
def test_a_convolution_is_causal_if_all_its_padding_comes_first(before, causal):
    x, kernel = torch.randn(1, E, T), torch.randn(E, E, 3)
    other = x.clone()
    other[:, :, 3:] += 1
    one, moved = (F.conv1d(F.pad(y, (before, 2 - before)), kernel) for y in (x, other))
    assert torch.allclose(one[:, :, :3], moved[:, :, :3]) == causal


def test_one_layer_of_attention_reaches_every_token():
    x = torch.randn(1, 1, S, E, dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(lambda x: attend(x, x, x)[0, 0].sum(-1), x)
    assert slopes[:, 0, 0].abs().sum(-1).min() > 0  # (queries, keys)


@pytest.mark.parametrize("cut", [None, *range(1, T)])
def test_every_step_between_two_tokens_is_on_the_only_path_of_an_rnn(cut):
    cells, x = nn.ModuleList([nn.GRUCell(E, E)]), torch.randn(T, B, E, requires_grad=True)
    hidden = (torch.zeros(B, E),)
    for step, token in enumerate(x):
        hidden = tuple(h.detach() if step == cut else h for h in hidden)
        hidden = step_cells(cells, token, hidden, nn.Identity())
    first = torch.autograd.grad(hidden[0].sum(), x)[0][0]
    assert first.any() == (cut is None)


def test_the_gradient_of_an_rnn_by_its_first_token_vanishes_exponentially():
    torch.manual_seed(0)
    rnn = RNNLayer(E, E, bidirectional=False).double()
    norms = [
        first_token_gradient(lambda x: rnn(x, torch.tensor([x.shape[1]]))[1], n)
        for n in (10, 20, 40, 80)
    ]
    # twice the length squares what is left, and the power leaves room for chance
    assert norms[0] < 1 and all(longer < shorter**1.5 for shorter, longer in pairwise(norms))
    assert norms[-1] > 0


@pytest.mark.parametrize("n", [10, 20, 40, 80])
def test_the_gradient_of_even_attention_by_its_first_token_is_one_share_of_all(n):
    def last_output(x):
        x = x[:, None]
        return attend(0 * x.detach(), x, x)[:, 0, -1]

    assert first_token_gradient(last_output, n) == pytest.approx(E**0.5 / n)


def test_a_convolution_is_one_head_for_each_place_of_its_kernel():
    x, kernel = torch.randn(B, S, E), torch.randn(E, E, 3)  # kernel: (out, in, places)

    def one_place(b, h, q, k):
        return k == q + h - 1

    heads = x[:, None].expand(-1, 3, -1, -1)
    read = attend(heads, heads, heads, rule=one_place)  # zeros beyond the edges
    joined = read.transpose(1, 2).flatten(2) @ kernel.permute(2, 1, 0).flatten(0, 1)
    assert_close(joined.mT, F.conv1d(x.mT, kernel, padding=1), atol=1e-5, rtol=1e-4)


def test_projections_of_attention_are_convolutions_of_one_pixel():
    layer, image = layers.MultiHead(E, H), torch.randn(B, E, 3, 4)
    q, k, v = (
        F.conv2d(image, part.weight[..., None, None], part.bias).flatten(2).mT
        for part in (layer.query, layer.key, layer.value)
    )
    q, k, v = (x.unflatten(2, (H, -1)).transpose(1, 2) for x in (q, k, v))
    joined = attend(q, k, v).transpose(1, 2).flatten(2)
    assert_close(layer.out(joined), layer(image.flatten(2).mT))


def test_one_hot_times_a_table_is_a_row_of_it():
    table, words = torch.randn(V, E), torch.randint(V, (B, T))
    assert_close(F.one_hot(words, V).float() @ table, F.embedding(words, table))


def test_one_hot_words_match_themselves_alone():
    words = torch.eye(V)[None, None]
    assert torch.equal(words @ words.mT, words)
    assert_close(attend(words, words, words, score=scores.Dot(100.0)), words)


def test_projections_tell_words_apart_that_match_a_query_alike():
    gave, mary, susan = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, -0.1]])
    q, k = gave[None, None, None], torch.stack([mary, susan])[None, None]
    assert weigh(q, k).flatten().tolist() == [0.5, 0.5]
    by_second_number = torch.tensor([[0.0, 20.0], [0.0, 0.0]])
    assert weigh(q @ by_second_number, k)[..., 0] > 0.9


@each_number_of_heads
def test_parameters_do_not_depend_on_the_number_of_heads(heads):
    assert sum(p.numel() for p in layers.MultiHead(E, heads).parameters()) == 4 * (E * E + E)


@each_number_of_heads
def test_blocks_without_positions_are_equivariant_and_their_mean_is_invariant(heads):
    blocks = nn.Sequential(*(layers.EncoderBlock(E, heads, 2 * E) for _ in range(3))).double()
    x = torch.randn(B, T, E, dtype=torch.float64)
    assert_close(blocks(x[:, ORDER]), blocks(x)[:, ORDER])
    assert_close(blocks(x[:, ORDER]).mean(1), blocks(x).mean(1))


def test_attention_is_the_only_exchange_between_the_tokens_of_a_block():
    block, x = layers.EncoderBlock(E, H, 2 * E), torch.randn(1, T, E)
    other = x.clone()
    other[:, 0] = torch.randn(E)
    alone = torch.eye(T, dtype=torch.bool)
    assert_close(block(x, rule=alone)[:, 1:], block(other, rule=alone)[:, 1:])
    assert (block(x) != block(other)).any(-1).all()


def test_queries_come_from_the_decoder_and_keys_and_values_from_the_encoder():
    block, x, memory = layers.DecoderBlock(E, H, 2 * E), torch.randn(B, T, E), torch.randn(B, S, E)
    with look(block) as seen:
        out = block(x, memory)
    cross = next(name for name in seen.names() if name.endswith("cross"))
    assert seen[cross].weights().shape == (B, H, T, S)
    assert out.shape == x.shape
    assert_close(block(x, block.cross.keys(memory)), out)  # the source alone makes both


def test_a_weighted_mean_lies_between_its_values():
    x = torch.randn(B, T, E)
    read = self_attention(x)
    assert (read <= x.amax(1, keepdim=True)).all() and (read >= x.amin(1, keepdim=True)).all()


def test_attention_weights_follow_tokens_and_those_of_a_linear_layer_follow_places():
    x, linear = torch.randn(1, 1, T, E).double(), torch.randn(T, T).double()
    moved = x[:, :, ORDER]
    assert_close(weigh(moved, moved), weigh(x, x)[:, :, ORDER][..., ORDER])
    assert not torch.allclose(linear @ moved, (linear @ x)[:, :, ORDER])


def test_a_causal_mask_gives_weight_to_every_earlier_token_and_to_no_later_one():
    x = torch.randn(1, 1, T, E)
    seen = weigh(x, x, rule=rules.causal)[0, 0] > 0
    assert seen.equal(torch.ones(T, T, dtype=torch.bool).tril())


def test_sentences_have_fewer_tokens_than_their_vectors_have_numbers():
    translator = load("translate-en-fr-small")
    pairs = Corpus().read_pairs().pairs
    longest = max(len(translator.tokenizer.encode(side)) for pair in pairs for side in pair)
    assert longest < translator.config.width
