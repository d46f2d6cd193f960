"""Scores: a number by hand for each, their laws, and what they refuse."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

from regard import attend, logits, look, rules, scores, use_backend, weigh
from regard.functional.scores import DOT_PRODUCT_SCORES, KNOWN_SCORES, index_rows
from tests.mechanisms import SCORES, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11


def four(*rows):
    """Rows as (1, 1, n, D)."""
    return torch.tensor(rows)[None, None]


def test_dot_by_hand():
    q, k = four([1.0, 2.0]), four([3.0, 4.0], [5.0, 6.0])
    assert scores.dot(q, k).tolist() == [[[[11.0, 17.0]]]]


def test_scaled_dot_by_hand():
    q, k = four([1.0, 2.0, 0.0, 0.0]), four([3.0, 4.0, 9.0, 9.0])
    assert scores.scaled_dot(q, k).tolist() == [[[[5.5]]]]


def test_cosine_by_hand():
    q, k = four([3.0, 0.0]), four([1.0, 1.0], [-2.0, 0.0])
    assert scores.Cosine(2.0)(q, k).flatten().tolist() == pytest.approx([math.sqrt(2), -2])


def test_general_by_hand():
    weight = torch.tensor([[[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]])  # (H, D, Dk)
    q, k = four([1.0, 10.0]), four([1.0, 2.0, 3.0])
    assert scores.General(weight)(q, k).tolist() == [[[[22.0]]]]


def test_location_by_hand():
    weight = torch.tensor([[[1.0, 2.0, 9.0], [3.0, 4.0, 9.0]]])  # (H, D, N)
    q, k = four([1.0, 10.0]), torch.randn(1, 1, 2, 5)
    assert scores.Location(weight)(q, k).tolist() == [[[[31.0, 42.0]]]]


def test_additive_by_hand():
    q, k = four([0.5, 0.0]), four([0.5, 1.0])
    score = scores.Additive(torch.tensor([[2.0, 3.0]]))(q, k)
    assert score.item() == pytest.approx(5 * math.tanh(1))


def test_relative_by_hand():
    # distances -1, 0, 1; the only query stands on the last key
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]])
    q, k = four([1.0, 10.0]), four([0.0, 0.0], [2.0, 0.0], [3.0, 0.0])
    assert scores.Relative(keys)(q, k).tolist() == [[[[1.0, 3.0, 13.0]]]]


def test_relative_takes_the_scale_of_the_paper_too():
    q, k, r = torch.randn(B, H, Q, 4), torch.randn(B, H, K, 4), torch.randn(H, 5, 4)
    bare, scaled = scores.Relative(r)(q, k), scores.Relative(r, scale=None)(q, k)
    assert torch.allclose(scaled, bare / 2, atol=1e-6)


# q, k and distances of which every product is told apart; D = 4, so that 1/√D is a half
Q1, K3 = four([1.0, 0.0, 2.0, 0.0]), four([2.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 1.0], [0.0] * 4)
AWAY = torch.tensor([[[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, 0.0]]])
FACTORS = {
    "query and key": (scores.Factors(True), [1.0, 2.0, 0.0]),
    "query and distance": (scores.Factors(False, distances=AWAY), [1.0, 1.0, 2.0]),
    "key": (scores.Factors(False, key=torch.tensor([[1.0, 0, 0, 10]])), [1.0, 7.0, 0.0]),
    "distance": (scores.Factors(False, position=torch.tensor([[2.0, 4.0, 6.0]])), [1.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_by_hand(name):
    # the only query stands on the last of three keys, the first of which is out of reach
    score, expected = FACTORS[name]
    assert score(Q1, K3).tolist() == [[[expected]]]


def test_factors_add_up():
    tables = {"distances": torch.randn(H, 5, D), "key": torch.randn(H, D)}
    tables |= {"position": torch.randn(1, 5)}
    q, k, places = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.arange(Q)
    alone = [scores.Factors(False, **{name: x}, positions=places) for name, x in tables.items()]
    whole = scores.Factors(True, **tables, positions=places)(q, k)
    apart = [scores.Factors(True), *alone]
    assert torch.allclose(whole, sum(score(q, k) for score in apart), atol=1e-5)


def test_queries_with_keys_and_distances_are_shaw_s():
    q, k, r = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(H, 5, D)
    shaw = scores.Relative(r, scale=None)(q, k)
    assert torch.allclose(scores.Factors(True, distances=r)(q, k), shaw, atol=1e-6)


def test_u_and_w_are_transformer_xl_s():
    # Dai et al. 2019, 3.3: (q + u) · k + (q + w) · r, one query's distances after the other
    q, k, r = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(H, 5, D)
    u, w = torch.randn(2, H, D)
    apart = (torch.arange(K) - torch.arange(K - Q, K)[:, None]).clamp(-2, 2) + 2
    expected = torch.einsum("bhqd,bhkd->bhqk", q + u[:, None], k)
    expected += torch.einsum("bhqd,hqkd->bhqk", q + w[:, None], r[:, apart])
    score = scores.Factors(True, r, u, torch.einsum("hd,hnd->hn", w, r))
    assert torch.allclose(score(q, k), expected / D**0.5, atol=1e-5)


@pytest.mark.parametrize("shared", [1, H])
def test_a_part_of_factors_is_the_score_of_some_queries_of_one_head(shared):
    tables = (torch.randn(shared, 5, D), torch.randn(shared, D), torch.randn(shared, 5))
    q, k, queries = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.tensor([4, 0, 3])
    for score in (scores.Factors(True, *tables), scores.Factors(True, *tables, torch.arange(Q))):
        part = score.restrict_to_rows(1, 2, queries, K - Q)(q[1:, 2:, queries], k[1:, 2:])
        assert torch.allclose(part[0, 0], score(q, k)[1, 2, queries], atol=1e-5)


def test_a_look_asks_factors_for_some_rows_alone():
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    score = scores.Factors(True, torch.randn(H, 5, D), torch.randn(H, D), torch.randn(H, 5))
    with look() as seen:
        weights = weigh(q, k, score=score, rule=rules.causal)
    assert torch.allclose(seen["attend.0"].rows(1, 2, [3, 1]), weights[1, 2, [3, 1]], atol=1e-6)


def test_cosine_is_torch_s():
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    theirs = F.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)
    assert torch.allclose(scores.Cosine()(q, k), theirs, atol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_a_blind_query_of_nan_passes_none_to_the_strength(backend):
    q, k = torch.randn(1, 1, 3, D), torch.randn(1, 1, 2, D)
    q[:, :, 0] = torch.nan  # it stands before the first key
    strength = torch.ones(3, requires_grad=True)
    with use_backend(backend):
        attend(q, k, k, score=scores.Cosine(strength), rule=rules.causal).sum().backward()
    assert strength.grad[0] == 0 and strength.grad[2] != 0 and strength.grad.isfinite().all()


def test_a_strength_for_each_query_multiplies_its_row():
    q, k, strength = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.rand(H, Q)
    expected = scores.Cosine()(q, k) * strength[..., None]
    assert torch.allclose(scores.Cosine(strength)(q, k), expected, atol=1e-6)


def test_a_vector_of_zeros_matches_everything_with_nothing():
    q = torch.zeros(B, H, Q, D, requires_grad=True)
    score = scores.Cosine()(q, torch.randn(B, H, K, D))
    score.sum().backward()
    assert score.eq(0).all() and q.grad.isfinite().all()


def test_cosine_does_not_care_for_lengths():
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    assert torch.allclose(scores.Cosine()(q, k), scores.Cosine()(100 * q, k / 100), atol=1e-5)


def test_an_identity_weight_is_dot():
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    assert torch.allclose(scores.General(torch.eye(D).repeat(H, 1, 1))(q, k), scores.dot(q, k))


def test_location_does_not_care_for_keys():
    q, score = torch.randn(B, H, Q, D), scores.Location(torch.randn(H, D, K))
    assert torch.equal(score(q, torch.randn(B, H, K, D)), score(q, torch.randn(B, H, K, 2)))


def test_relative_without_distances_is_dot():
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    assert torch.equal(scores.Relative(torch.zeros(1, 3, D))(q, k), scores.dot(q, k))


def test_relative_is_shaw_s_sum():
    q, k, r = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(H, 5, D)
    apart = (torch.arange(K) - torch.arange(K - Q, K)[:, None]).clamp(-2, 2) + 2
    expected = torch.einsum("bhqd,bhqkd->bhqk", q, k[:, :, None] + r[:, apart])
    assert torch.allclose(scores.Relative(r)(q, k), expected, atol=1e-5)


def test_scores_run_in_float32_at_least():
    q, k = torch.randn(B, H, Q, D).half(), torch.randn(B, H, K, D).half()
    assert scores.dot(q, k).dtype == torch.float32
    assert scores.Additive(torch.randn(H, D))(q, k).dtype == torch.float32
    assert scores.dot(300 * q, 300 * k).isfinite().all()


@pytest.mark.parametrize("name", SCORES)
def test_a_fold_is_the_score_as_a_plain_dot_product(name):
    call = asked(Sizes(), score=name)
    score = call.named["score"]
    if not isinstance(score, DOT_PRODUCT_SCORES):
        pytest.skip("does not fold")
    q, k, scale = score.fold(call.q, call.k)
    assert torch.allclose(q @ k.mT * scale, score(call.q, call.k), atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_a_part_is_the_score_of_some_queries_of_one_head(name):
    call = asked(Sizes(), score=name)
    score, queries = call.named["score"], torch.tensor([4, 0, 3])
    if not isinstance(score, KNOWN_SCORES):
        pytest.skip("has no parts")
    part = score.restrict_to_rows(1, 2, queries, K - Q)(call.q[1:, 2:, queries], call.k[1:, 2:])
    assert torch.allclose(part[0, 0], score(call.q, call.k)[1, 2, queries], atol=1e-5)


def test_what_is_picked_broadcasts_as_before():
    queries = torch.tensor([4, 0])
    assert index_rows(torch.arange(Q), 1, 2, queries).tolist() == [[[4, 0]]]
    assert index_rows(torch.arange(H)[:, None], 1, 2, queries).tolist() == [[[2]]]
    assert index_rows(torch.tensor(7), 1, 2, queries).tolist() == [[[7]]]


WRONG = {
    "General: expected weight of shape (H=3, D=11, Dk=11), got (3, 11, 4)": lambda: scores.General(
        torch.ones(H, D, 4)
    ),
    "General: expected weight of shape (H, D, Dk), got (11, 11)": lambda: scores.General(
        torch.ones(D, D)
    ),
    "Location: expected weight of shape (H=3, D=11, N), got (2, 11, 7)": lambda: scores.Location(
        torch.ones(2, D, K)
    ),
    "Location: 7 keys, but weight has N=6 places": lambda: scores.Location(torch.ones(H, D, 6)),
    "Additive: expected vector of shape (H=3, D=11), got (11, 3)": lambda: scores.Additive(
        torch.ones(D, H)
    ),
    "Additive: expected vector of shape (H, D), got (11,)": lambda: scores.Additive(torch.ones(D)),
    "Cosine: expected strength that broadcasts to (B=2, H=3, Q=5), got (7,)": (
        lambda: scores.Cosine(torch.ones(K))
    ),
    "Relative: expected keys for an odd number of distances N = 2·reach + 1, got N=4": (
        lambda: scores.Relative(torch.ones(H, 4, D))
    ),
    "Factors: expected at least one of the four factors, got none": lambda: scores.Factors(False),
    "Factors: expected distances of shape (H, N, D), got (5, 11)": lambda: scores.Factors(
        distances=torch.ones(5, D)
    ),
    "Factors: expected distances of shape (H=3, N, D=11), got (2, 5, 11)": lambda: scores.Factors(
        distances=torch.ones(2, 5, D)
    ),
    "Factors: expected distances for an odd number of distances N = 2·reach + 1, got N=4": (
        lambda: scores.Factors(distances=torch.ones(H, 4, D))
    ),
    "Factors: expected key of shape (H, D), got (11,)": lambda: scores.Factors(key=torch.ones(D)),
    "Factors: expected key of shape (H=3, D=11), got (3, 5)": lambda: scores.Factors(
        key=torch.ones(H, 5)
    ),
    "Factors: expected position of shape (H, N=5), got (3, 7)": lambda: scores.Factors(
        distances=torch.ones(H, 5, D), position=torch.ones(H, 7)
    ),
    "Factors: expected position for an odd number of distances N = 2·reach + 1, got N=4": (
        lambda: scores.Factors(position=torch.ones(H, 4))
    ),
    "Factors: expected position of shape (H=3, N), got (2, 5)": lambda: scores.Factors(
        position=torch.ones(2, 5)
    ),
    "Relative: expected keys of shape (H=3, N, D=11), got (2, 3, 11)": lambda: scores.Relative(
        torch.ones(2, 3, D)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_score_that_does_not_fit_is_refused_in_words(message):
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    with pytest.raises(ValueError) as refused:
        attend(q, k, v, score=WRONG[message]())
    assert str(refused.value) == message


def test_keys_may_have_a_width_of_their_own_under_general():
    q, k, weight = torch.randn(B, H, Q, D), torch.randn(B, H, K, 4), torch.randn(H, D, 4)
    assert torch.allclose(
        weigh(q, k, score=scores.General(weight)), weigh(q @ weight, k, score=scores.dot), atol=1e-6
    )


@pytest.mark.parametrize("name", ["general", "location", "additive", "relative"])
def test_the_weights_of_a_score_have_a_gradient(name):
    call = asked(Sizes(), score=name)
    (weight,) = (x for x in vars(call.named["score"]).values() if isinstance(x, torch.Tensor))
    weight.requires_grad_()
    logits(call.q, call.k, **call.named).square().sum().backward()
    assert weight.grad.abs().sum() > 0


def test_a_clipped_score_by_hand():
    q, k = torch.tensor([[[[0.5, 0.0]]]]), torch.tensor([[[[1.0, 3.0], [-40.0, 1.0]]]])
    found = scores.Clipped(scores.dot, 3.0)(q, k)
    torch.testing.assert_close(found, torch.tensor([[[[3 * math.tanh(0.5), -3.0]]]]))


def test_clipping_keeps_the_order_and_the_door_takes_it():
    q, k = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7)
    plain, clipped = logits(q, k), logits(q, k, score=scores.Clipped(scores.scaled_dot))
    assert torch.equal(plain.argsort(-1), clipped.argsort(-1))
    assert clipped.abs().max() < 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("of_q, of_k", [(1e-9, 1), (1e-30, 1e-30), (1e19, 1e25), (3e37, 1e-37)])
def test_cosine_and_its_gradient_are_right_at_any_length(of_q, of_k, dtype):
    q, k = torch.randn(B, H, Q, D).to(dtype), torch.randn(B, H, K, D).to(dtype)
    if dtype == torch.float64:
        # as far towards the ends of float64
        of_q, of_k = of_q**8, of_k**8
    ends = [(q * of_q).requires_grad_(), (k * of_k).requires_grad_()]
    leaves = [x.detach().double().requires_grad_() for x in (q, k)]
    found = scores.Cosine(2.0)(*ends)
    truth = 2 * F.cosine_similarity(leaves[0][:, :, :, None], leaves[1][:, :, None], dim=-1)
    torch.testing.assert_close(found.double(), truth, rtol=1e-5, atol=1e-6)
    direction = torch.randn(truth.shape, dtype=torch.double)
    for size, ours, theirs in zip(
        (of_q, of_k),
        torch.autograd.grad(found, ends, direction.to(dtype)),
        torch.autograd.grad(truth, leaves, direction),
        strict=True,
    ):
        # beyond the largest number of a dtype there is no gradient to be right
        if 1e-35 < size < 1e35:
            torch.testing.assert_close(ours.double() * size, theirs, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_cosine_is_exact_and_zero_for_a_vector_of_zeros():
    q, k = torch.randn(1, 1, 3, 4).double(), torch.randn(1, 1, 2, 4).double()
    inputs = [x.requires_grad_() for x in (q * 1e-3, k * 1e3)]
    assert gradcheck(lambda q, k: scores.Cosine(2.0)(1e3 * q, 1e-3 * k), inputs)
    nothing = torch.zeros_like(q, requires_grad=True)
    (grad,) = torch.autograd.grad(scores.Cosine()(nothing, k).sum(), nothing)
    assert grad.eq(0).all()


def test_general_in_halves_keeps_what_is_finite_finite():
    q, k = 200 * torch.randn(1, 1, 3, 16).half(), torch.randn(1, 1, 5, 16).half()
    weight = 100 * torch.randn(1, 16, 16)
    assert attend(q, k, k, score=scores.General(weight)).isfinite().all()


@pytest.mark.parametrize("strength", [np.ones((2, 1, 1)), [1.0, 2.0]], ids=["array", "list"])
def test_a_strength_that_is_neither_number_nor_tensor_is_refused_in_words(strength):
    score = scores.Cosine()
    object.__setattr__(score, "strength", strength)  # past the shape checks of the tests
    with pytest.raises(ValueError, match="Cosine: expected strength as a tensor"):
        attend(*(torch.randn(2, 2, 3, 4) for _ in range(3)), score=score)


def test_a_strength_for_storing_alone_is_refused_in_words():
    score = scores.Cosine(torch.ones(2, 1, 1).to(torch.float8_e4m3fn))
    with pytest.raises(ValueError, match=r"Cosine: expected strength in float16.*float8_e4m3fn"):
        attend(*(torch.randn(2, 2, 3, 4) for _ in range(3)), score=score)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("make, name", [
    (lambda x: scores.General(x), "General: expected weight"),
    (lambda x: scores.Location(x), "Location: expected weight"),
    (lambda x: scores.Additive(x[0]), "Additive: expected vector"),
    (lambda x: scores.Relative(x), "Relative: expected keys"),
    (lambda x: scores.Factors(distances=x), "Factors: expected distances"),
    (lambda x: scores.Factors(key=x[0]), "Factors: expected key"),
    (lambda x: scores.Factors(position=x[0]), "Factors: expected position"),
])  # fmt: skip
def test_a_parameter_that_cannot_be_computed_with_is_refused_in_words(make, name, dtype):
    with pytest.raises(ValueError, match=f"{name} in float16.*{str(dtype)[6:]}"):
        make(torch.ones(1, 3, 5).to(dtype))
