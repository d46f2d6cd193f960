"""A learned score is a module that holds the parameter of a value."""

from typing import get_args

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import look
from regard.functional import scores
from regard.layers import (
    AdditiveScore,
    CosineScore,
    FactorsScore,
    GeneralScore,
    LocationScore,
    MultiHead,
    RelativeScore,
)
from regard.layers.scores import ScoreName, build_score, score_value, with_positions

B, H, Q, K, D = 2, 3, 5, 7, 4

LEARNED = [
    (AdditiveScore(H, D), scores.Additive, (H, D)),
    (GeneralScore(H, D, 11), scores.General, (H, D, 11)),
    (CosineScore(H, 3.0), scores.Cosine, (H,)),
    (LocationScore(H, D, 11), scores.Location, (H, D, 11)),
    (RelativeScore(1, D, 2), scores.Relative, (1, 5, D)),
]


@pytest.mark.parametrize(("module", "kind", "shape"), LEARNED)
def test_each_holds_one_parameter_and_gives_its_value(module, kind, shape):
    (parameter,) = module.parameters()
    assert parameter.shape == shape
    assert isinstance(score_value(module), kind)


def test_cosine_by_hand():
    module = CosineScore(2, 10.0)
    q = torch.tensor([3.0, 4.0]).expand(1, 2, 1, 2)
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).expand(1, 2, 2, 2)
    with torch.no_grad():
        module.strength[1] = 5.0
    assert_close(module.value()(q, k), torch.tensor([[[[6.0, 8.0]], [[3.0, 4.0]]]]))


def test_relative_by_hand():
    module = RelativeScore(1, 4, 1)
    with torch.no_grad():
        module.keys.copy_(torch.tensor([-1.0, 0.0, 1.0]).reshape(1, 3, 1).expand(1, 3, 4))
    ones = torch.ones(1, 1, 3, 4)
    # 4 · (1 + r) / √4, with r = −1 behind, 0 here and 1 ahead
    expected = torch.tensor([[[[2.0, 4.0, 4.0], [0.0, 2.0, 4.0], [0.0, 0.0, 2.0]]]])
    assert_close(module.value()(ones, ones), expected)


def test_relative_with_no_distances_is_the_scaled_dot():
    module, q, k = RelativeScore(H, D, 2), torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    nn.init.zeros_(module.keys)
    assert_close(module.value()(q, k), scores.scaled_dot(q, k))


def test_relative_is_the_paper_pair_by_pair():
    module, q, k = RelativeScore(H, D, 2), torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    found = module.value()(q, k)
    for i in range(Q):
        for j in range(K):
            apart = min(max(j - (i + K - Q), -2), 2)
            pair = k[:, :, j] + module.keys[:, apart + 2]
            assert_close(found[:, :, i, j], (q[:, :, i] * pair).sum(-1) / D**0.5)


SWITCHES = ["query_key", "query_position", "key", "position"]


def test_factors_are_the_paper_pair_by_pair():
    module, q, k = FactorsScore(H, D, 2), torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    found = module.value()(q, k)
    for i in range(Q):
        for j in range(K):
            r = module.distances[:, min(max(j - (i + K - Q), -2), 2) + 2]
            a, b = q[:, :, i], k[:, :, j]
            pair = (a * b + a * r + module.key * b + module.position * r).sum(-1) / D**0.5
            assert_close(found[:, :, i, j], pair)


@pytest.mark.parametrize("off", SWITCHES)
def test_a_factor_switched_off_is_left_out_of_the_sum(off):
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    module = FactorsScore(H, D, 2, **{off: False})
    alone = [FactorsScore(H, D, 2, **{n: n == name for n in SWITCHES}) for name in SWITCHES]
    for one in alone:
        one.load_state_dict(module.state_dict(), strict=False)
    there = [one for one, name in zip(alone, SWITCHES, strict=True) if name != off]
    assert_close(module.value()(q, k), sum(one.value()(q, k) for one in there))


def test_factors_hold_what_is_switched_on():
    held = {"query_key": [], "query_position": ["distances"], "key": ["key"]}
    held |= {"position": ["distances", "position"]}
    for name, expected in held.items():
        module = FactorsScore(H, D, 2, **{n: n == name for n in SWITCHES})
        assert [n for n, _ in module.named_parameters()] == expected


def test_a_gradient_reaches_every_factor():
    module = FactorsScore(H, D, 2)
    module.value()(torch.randn(B, H, Q, D), torch.randn(B, H, K, D)).square().sum().backward()
    assert all(p.grad.any() for p in module.parameters())


def test_factors_that_are_none_are_refused():
    with pytest.raises(ValueError, match="FactorsScore: expected at least one of the four factors"):
        FactorsScore(H, D, 2, **dict.fromkeys(SWITCHES, False))
    with pytest.raises(ValueError, match="FactorsScore: expected reach >= 0, got -1"):
        FactorsScore(H, D, -1)


def test_a_name_gives_its_score():
    values = [type(score_value(build_score(name, H, D))) for name in get_args(ScoreName)]
    assert values == [scores.Dot, scores.Dot, scores.Additive, scores.Cosine, scores.General]
    assert (
        build_score("dot", H, D) is scores.dot
        and build_score("scaled_dot", H, D) is scores.scaled_dot
    )


@pytest.mark.parametrize("module", [RelativeScore(H, D, 2), FactorsScore(H, D, 2)])
def test_positions_reach_the_score_that_asks_for_them(module):
    score, places = module.value(), torch.tensor([1, 4])
    q, k = torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    assert_close(with_positions(score, places)(q[:, :, places], k), score(q, k)[:, :, places])
    assert with_positions(scores.dot, places) is scores.dot


@pytest.mark.parametrize(("module", "kind", "shape"), LEARNED)
def test_a_gradient_reaches_the_parameter(module, kind, shape):
    (parameter,) = module.parameters()
    k = torch.randn(B, H, K, shape[2] if kind is scores.General else D)
    out = module.value()(torch.randn(B, H, Q, D), k)
    (grad,) = torch.autograd.grad(out.square().sum(), parameter)
    assert grad.any()


def test_a_module_of_your_own_may_give_a_value_that_kernels_know():
    class LowRank(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Parameter(torch.randn(H, D, 2)) for _ in range(2))

        def value(self):
            return scores.General(self.a @ self.b.mT)

    layer = MultiHead(H * D, H, score=LowRank())
    with look(layer) as seen:
        layer(torch.randn(B, Q, H * D))
    assert seen["MultiHead"].why.backend == "sdpa"
    assert {"score.a", "score.b"} <= layer.state_dict().keys()


def test_sizes_below_one_are_refused():
    with pytest.raises(ValueError, match=r"score: expected sizes >= 1, got \(3, 0\)"):
        AdditiveScore(3, 0)
    with pytest.raises(ValueError, match="RelativeScore: expected reach >= 0, got -1"):
        RelativeScore(3, 4, -1)
