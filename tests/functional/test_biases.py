"""Biases: a number by hand for each, agreement with the papers' code, refusals."""

import pytest
import torch

from regard import attend, biases, logits, scores
from regard.functional.biases import bias_tensor, bind, distance_buckets
from tests.mechanisms import BIASES, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11

# what `get_slopes` of the authors' repository (ofirpress/attention_with_linear_biases) returns
PUBLISHED = {
    8: [2.0**-i for i in range(1, 9)],
    12: [2.0**-i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(4)],
}


def test_alibi_by_hand():
    drawn = bias_tensor(biases.alibi(8), 1, 8, 2, 3).expand(1, 8, 2, 3)
    assert drawn[0, 0].tolist() == [[-0.5, 0.0, -0.5], [-1.0, -0.5, 0.0]]
    assert drawn[0, 2, 1].tolist() == [-0.25, -0.125, 0.0]


@pytest.mark.parametrize("heads", PUBLISHED)
def test_alibi_has_the_published_slopes(heads):
    assert biases.alibi(heads).slopes().tolist() == pytest.approx(PUBLISHED[heads])


def test_relative_by_hand():
    # ahead=False: distances 0 and 1 have their own buckets, then come two that grow
    bias = biases.relative(
        torch.tensor([[1.0, 2.0, 3.0, 4.0]]), bidirectional=False, max_distance=8
    )
    assert bias_tensor(bias, 1, 1, 1, 9).flatten().tolist() == [4, 4, 4, 4, 4, 3, 3, 2, 1]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("count, max_distance", [(32, 128), (8, 20)])
def test_buckets_are_those_of_t5(bidirectional, count, max_distance):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    apart = torch.arange(-300, 301)
    theirs = t5.T5Attention._relative_position_bucket(apart, bidirectional, count, max_distance)
    assert torch.equal(distance_buckets(apart, count, bidirectional, max_distance), theirs)


def test_a_tensor_is_not_shifted():
    values = torch.randn(Q, K)
    bare = logits(torch.ones(B, H, Q, D), torch.ones(B, H, K, D), score=scores.dot, bias=values)
    assert torch.allclose(bare - D, values.expand(B, H, Q, K), atol=1e-5)


@pytest.mark.parametrize("name", BIASES)
def test_a_bias_asked_for_single_places_says_the_same(name):
    s = Sizes()
    bias = bind(asked(s, bias=name).named["bias"], *s.full)
    whole = bias_tensor(bias, *s.full).expand(s.full)
    for b, h, q, k in [(0, 0, 0, 0), (1, 2, 4, 6), (1, 0, 3, 2)]:
        one = bias(*map(torch.tensor, (b, h, q + K - Q, k)))
        assert one.item() == pytest.approx(whole[b, h, q, k].item())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_bias_of_another_float_type_will_do(dtype):
    q, k, v = torch.ones(B, H, Q, D), torch.ones(B, H, K, D), torch.randn(B, H, K, D)
    out = attend(q, k, v, score=scores.Additive(torch.ones(H, D)), bias=torch.zeros(K).to(dtype))
    assert torch.allclose(out, v.mean(2, keepdim=True).expand_as(out), atol=1e-5)


@pytest.mark.parametrize("score", [scores.scaled_dot, scores.Relative(torch.zeros(1, 1, D))])
def test_a_learned_table_has_a_gradient(score):
    table = torch.zeros(H, 8, requires_grad=True)
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    attend(q, k, v, score=score, bias=biases.relative(table)).sum().backward()
    assert table.grad.abs().sum() > 0


WRONG = {
    "alibi: expected heads >= 1, got 0": lambda: biases.alibi(0),
    "alibi: expected as many heads as q has, H=3, got 4": lambda: biases.alibi(4),
    "relative: expected table as a float tensor, got a tensor of int64": (
        lambda: biases.relative(torch.ones(H, 8).long())
    ),
    "relative: expected table of shape (H, N), got (8,)": lambda: biases.relative(torch.ones(8)),
    "relative: expected table of shape (H=3, N), got (2, 8)": (
        lambda: biases.relative(torch.ones(2, 8))
    ),
    "relative: expected a table of N >= 4 buckets, got N=3": (
        lambda: biases.relative(torch.ones(H, 3))
    ),
    "relative: expected max_distance > 4, the distances with a bucket of their own, got 4": (
        lambda: biases.relative(torch.ones(H, 8), bidirectional=False, max_distance=4)
    ),
    "attend: expected bias as a float tensor, got a tensor of bool": (
        lambda: torch.ones(Q, K).bool()
    ),
    "attend: expected bias that broadcasts to (B=2, H=3, Q=5, K=7), got (7, 5)": (
        lambda: torch.ones(K, Q)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_bias_that_cannot_be_meant_is_refused_in_words(message):
    with pytest.raises(ValueError) as refused:
        attend(torch.ones(B, H, Q, D), *torch.ones(2, B, H, K, D), bias=WRONG[message]())
    assert str(refused.value) == message


def test_slopes_are_exact_in_float64():
    q, k = torch.zeros(1, 12, 1, 2).double(), torch.zeros(1, 12, 3000, 2).double()
    found = logits(q, k, bias=biases.alibi(12))[0, :, 0, 0]
    whole, rest = [2.0 ** -(i + 1) for i in range(8)], [2 ** -(i + 0.5) for i in range(4)]
    assert (found / 2999 + torch.tensor(whole + rest, dtype=torch.double)).abs().max() < 1e-15


def test_a_table_in_half_precision_has_a_gradient_that_is_summed_in_float32():
    table = torch.zeros(1, 4, dtype=torch.bfloat16, requires_grad=True)
    q = torch.zeros(1, 1, 64, 2, dtype=torch.bfloat16)
    logits(q, q, bias=biases.relative(table, max_distance=2)).sum().backward()
    # so many pairs share a bucket; one after the other, bfloat16 counts no farther than 256
    assert table.grad is not None and table.grad.tolist() == [[64, 2016, 0, 2016]]
