"""Windows, centres and additive scores in memory linear in the length."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard import (
    attend,
    biases,
    log_probability,
    logits,
    rules,
    scores,
    selects,
    use_backend,
    weigh,
    why,
)
from regard.kernels.backends import chunked
from tests.mechanisms import FUSED, LOCAL, Sizes, asked, lengths

B, H, D = 2, 3, 11
SIZES = [(1, 1), (5, 7), (7, 5), (37, 35), (35, 37)]


@pytest.fixture(scope="module", autouse=True)
def tile_everything():
    """Calls as small as these would not be tiled otherwise."""
    before, chunked.UNTILED_MAX_TERMS = chunked.UNTILED_MAX_TERMS, 0
    yield
    chunked.UNTILED_MAX_TERMS = before


def both_ways(q, k, v, **named):
    """Output and gradients, in chunks and whole."""
    found = []
    for backend in ("chunked", "reference"):
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        with use_backend(backend):
            out = attend(*leaves, **named)
        direction = torch.linspace(-1, 1, out.numel()).view_as(out)
        grads = torch.autograd.grad(out, leaves, direction, materialize_grads=True)
        found.append([out, *grads])
    return found


def assert_same(found):
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


RULES = {
    "window": lambda s: rules.window(3),
    "nothing but itself": lambda s: rules.window(0),
    "wider than there are keys": lambda s: rules.window(40),
    "causal window": lambda s: rules.both(rules.causal, rules.window(3)),
    "window and padding": lambda s: rules.both(rules.window(3), rules.padding(lengths(s))),
    "window and padding on the left": lambda s: rules.both(
        rules.window(3), rules.padding(lengths(s), side="left")
    ),
    "window and documents": lambda s: rules.both(
        rules.window(3), rules.documents(torch.arange(s.K).div(4).long().expand(s.B, -1))
    ),
    "window and a mask": lambda s: rules.both(rules.window(3), torch.rand(s.Q, s.K) < 0.7),
    "window at other places": lambda s: rules.both(
        rules.window(3), rules.at(rules.causal, torch.zeros(s.Q).long())
    ),
    "two windows": lambda s: rules.either(
        rules.window(1), rules.both(rules.causal, rules.window(4))
    ),
    "around": lambda s: rules.around(torch.rand(s.B, s.H, s.Q) * s.K, 2.5),
    "around and causal": lambda s: rules.both(
        rules.causal, rules.around(torch.rand(s.B, s.H, s.Q) * s.K, 2)
    ),
    "around far outside": lambda s: rules.around(torch.rand(s.B, s.H, s.Q) * 999 - 500, 2),
}


@pytest.mark.parametrize("Q, K", SIZES)
@pytest.mark.parametrize("name", RULES)
def test_every_near_rule_agrees_with_the_reference(name, Q, K, monkeypatch):
    monkeypatch.setattr("regard.kernels.backends.chunked.BLOCK_QUERIES", 4)
    s = Sizes(Q=Q, K=K, H=6)
    call = asked(s)
    assert_same(both_ways(*call.qkv, rule=RULES[name](s), bias=biases.alibi(6)))
    assert_same(both_ways(*call.qkv, rule=RULES[name](s)))


@pytest.mark.parametrize("block", [1, 3, 16, 1000])
@pytest.mark.parametrize("name", ["window", "causal window", "window and padding"])
def test_the_size_of_a_block_does_not_matter(name, block, monkeypatch):
    monkeypatch.setattr("regard.kernels.backends.chunked.BLOCK_QUERIES", block)
    s = Sizes(Q=23, K=29)
    assert_same(both_ways(*asked(s).qkv, rule=RULES[name](s)))


@pytest.mark.parametrize("select", [*LOCAL, "gaussian"])
@pytest.mark.parametrize("score", [*FUSED, "additive"])
@pytest.mark.parametrize("rule", ["window", "around"])
def test_every_score_and_select_agrees_with_the_reference(score, select, rule):
    s = Sizes(Q=11, K=13)
    call = asked(s, score=score, select=select)
    rule = RULES[rule](s)
    if why(*call.qkv, rule=rule, **call.named).reasons["chunked"] is None:
        assert_same(both_ways(*call.qkv, rule=rule, **call.named))
    else:
        assert select == "gaussian"


@pytest.mark.parametrize("bias", ["alibi", "relative", "tensor (B, H, Q, K)", "one's own"])
@pytest.mark.parametrize("rule", ["window", "around"])
def test_a_bias_keeps_its_place_inside_a_window(bias, rule):
    s = Sizes(Q=11, K=13)
    call = asked(s, bias=bias)
    assert_same(both_ways(*call.qkv, rule=RULES[rule](s), **call.named))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
@pytest.mark.parametrize("Q", [5, 70])
def test_keys_out_of_every_window_are_not_there(Q, poison):
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, 90, D), torch.randn(B, H, 90, D)
    clean = both_ways(q, k, v, rule=rules.window(3))
    k[:, :, : 90 - Q - 3], v[:, :, : 90 - Q - 3] = poison, poison
    assert_same([both_ways(q, k, v, rule=rules.window(3))[0], clean[0]])


@pytest.mark.parametrize("Q", [300, 331])
def test_an_additive_score_under_a_short_window_runs_in_blocks(Q, monkeypatch):
    q, k = torch.randn(1, H, Q, 3), torch.randn(1, H, 331, 3)
    named = {"score": scores.Additive(torch.randn(H, 3)), "rule": rules.window(2)}
    assert_same(both_ways(q, k, k, **named))
    monkeypatch.setattr(chunked.local, "split_into_blocks", None)
    with pytest.raises(TypeError), use_backend("chunked"):
        attend(q, k, k, **named)


@pytest.mark.parametrize("reach", [40, 10**6])
def test_a_window_wider_than_the_keys_costs_no_more_than_they_do(reach, monkeypatch):
    q, score = torch.randn(B, H, 13, D), scores.Additive(torch.randn(H, D))
    assert_same(both_ways(q, q, q, score=score, rule=rules.window(reach)))
    assert_same(both_ways(q, q, q, select=selects.hard, rule=rules.window(reach)))
    monkeypatch.setattr(chunked.local, "split_into_blocks", None)
    with use_backend("chunked"):  # all of it at once
        attend(q, q, q, score=score, rule=rules.window(reach))


@pytest.mark.parametrize("D, Dv", [(0, 3), (3, 0)])
@pytest.mark.parametrize("rule", ["window", "around"])
def test_keys_or_values_without_width_are_taken(rule, D, Dv):
    call = asked(Sizes(D=D, Dv=Dv), rule=rule, score="dot")
    assert_same(both_ways(*call.qkv, **call.named))


def test_local_p_costs_its_window_and_says_what_the_reference_says():
    q, k, v = torch.randn(B, H, 5, D), torch.randn(B, H, 50, D), torch.randn(B, H, 50, D)
    centre = torch.rand(B, H, 5) * 50
    local_p = {"rule": rules.around(centre, 4), "select": selects.gaussian(centre, 2.0)}
    assert why(q, k, v, **local_p).backend == "chunked"
    assert_same(both_ways(q, k, v, **local_p))


def test_local_p_teaches_its_centre():
    q, k, v = torch.randn(B, H, 5, D), torch.randn(B, H, 50, D), torch.randn(B, H, 50, D)
    grads = []
    for backend in ("chunked", "reference"):
        centre = torch.linspace(3, 40, 30).view(B, H, 5).requires_grad_()
        select = selects.gaussian(centre, 2.0)
        with use_backend(backend):
            attend(q, k, v, rule=rules.around(centre, 4), select=select).sum().backward()
        grads.append(centre.grad)
    assert grads[0].abs().sum() > 0 and torch.allclose(*grads, atol=1e-4)


@pytest.mark.parametrize("pairs", [1, 40, 1 << 22])
def test_an_additive_score_agrees_however_few_queries_are_taken_at_a_time(pairs, monkeypatch):
    monkeypatch.setattr("regard.kernels.backends.chunked.CHUNK_MAX_PAIRS", pairs)
    call = asked(Sizes(Q=11), score="additive", bias="alibi", rule="documents")
    assert_same(both_ways(*call.qkv, **call.named))


def test_windows_go_through_the_transforms_of_torch_func():
    q, k, v = torch.randn(3, B, H, 5, D)

    def total(q):
        with use_backend("chunked"):
            return attend(q, k, v, rule=rules.window(2)).square().sum()

    ours = torch.func.grad(total)(q)
    (theirs,) = torch.autograd.grad(total(q.requires_grad_()), q)
    torch.testing.assert_close(ours, theirs)


def test_windows_are_chosen_where_they_pay():
    q, k, v = torch.randn(3, 1, 1, 2000, 4)
    assert why(q, k, v, rule=rules.window(5)).backend == "chunked"
    assert why(q, k, v, rule=rules.window(1500)).backend == "sdpa"
    assert why(q, k, v, rule=rules.causal).backend == "sdpa"


REFUSED = {
    "only additive scores, windows and centres gain from chunks": {},
    "an additive score is tiled under the softmax alone": {
        "score": scores.Additive(torch.ones(H, D)),
        "select": selects.hard,
    },
    "an additive score is tiled without dropout": {
        "score": scores.Additive(torch.ones(H, D)),
        "dropout": 0.5,
    },
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_chunks_cannot_run_is_said_in_words(reason):
    q, k, v = torch.randn(3, B, H, 5, D)
    with use_backend("chunked"), pytest.raises(ValueError, match=reason):
        attend(q, k, v, **REFUSED[reason])


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that any operation makes, backward too."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        tensors = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        self.numbers = max([self.numbers, *(x.untyped_storage().size() for x in tensors)])
        return out


def bytes_of(length, **named):
    q, k, v = torch.randn(3, 1, 1, length, 4).requires_grad_()
    with Largest() as largest:
        attend(q, k, v, **named).sum().backward()
    return largest.numbers


NEAR = {
    "window": lambda n: {
        "rule": rules.both(rules.causal, rules.window(8)),
        "bias": biases.alibi(1),
    },
    "around": lambda n: {"rule": rules.around(torch.rand(1, 1, n) * n, 4)},
}


@pytest.mark.parametrize("name", NEAR)
def test_memory_grows_linearly_with_the_length(name):
    small, large = (bytes_of(n, **NEAR[name](n)) for n in (1024, 4096))
    assert large <= 4.2 * small and large < 4096 * 4096


def test_pointing_never_forms_all_scores(monkeypatch):
    monkeypatch.setattr("regard.kernels.backends.chunked.CHUNK_MAX_PAIRS", 1 << 14)
    q, k = torch.randn(2, 1, 1, 1024, 4).requires_grad_()
    with Largest() as largest:
        log_probability(q, k, torch.zeros(1, 1, 1024).long(), rule=rules.causal).sum().backward()
    assert largest.numbers <= 4 * (1 << 14) * 2


def test_a_few_terms_are_formed_at_once(monkeypatch):
    monkeypatch.setattr(chunked, "UNTILED_MAX_TERMS", 1 << 16)
    monkeypatch.setattr(chunked.additive_reference_tiled, "attention", None)
    q, k, v = torch.randn(3, B, H, 5, D)
    assert attend(q, k, v, score=scores.Additive(torch.randn(H, D))).shape == (B, H, 5, D)


@pytest.mark.parametrize("terms", [1, 1000, 1 << 22])
def test_additive_logits_are_the_same_in_parts_gradients_too(terms, monkeypatch):
    monkeypatch.setattr(chunked, "SCORE_CHUNK_MAX_TERMS", terms)
    leaves = [torch.randn(s, requires_grad=True) for s in [(B, H, 5, D), (B, H, 7, D), (H, D)]]
    found = []
    for backend in ("chunked", "reference"):
        with use_backend(backend):
            out = logits(*leaves[:2], score=scores.Additive(leaves[2]), rule=rules.causal)
        grads = torch.autograd.grad(out.masked_fill(out.isinf(), 0).square().sum(), leaves)
        found.append([out, *grads])
    assert_same(found)


def test_the_gradient_of_keys_in_half_precision_is_not_rounded_part_by_part(monkeypatch):
    monkeypatch.setattr(chunked, "SCORE_CHUNK_MAX_TERMS", 1)
    monkeypatch.setattr(chunked, "CHUNK_MAX_PAIRS", 1)
    q = torch.ones(1, 1, 400, 1, dtype=torch.bfloat16)
    k = torch.zeros(1, 1, 2, 1, dtype=torch.bfloat16, requires_grad=True)
    # each query gives 1, and bfloat16 holds no 257
    score = scores.Additive(torch.ones(1, 1))
    (got,) = torch.autograd.grad(logits(0 * q, k, score=score).sum(), k)
    assert got.flatten().tolist() == [400, 400]
    # each query gives 1/2 to the key that it points at, and takes as much from the other
    index = torch.zeros(1, 1, 400, dtype=torch.long)
    with use_backend("chunked"):
        said = log_probability(q, k, index, score=scores.dot, rule=rules.window(400))
    (got,) = torch.autograd.grad(said.sum(), k)
    assert got.flatten().tolist() == [200, -200]
    bias = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)
    with use_backend("chunked"):
        said = log_probability(q, 0 * k, index, score=scores.dot, bias=bias)
    (got,) = torch.autograd.grad(said.sum(), bias)
    assert got.tolist() == [200, -200]


def test_the_gradient_of_a_vector_in_half_precision_is_not_rounded_part_by_part(monkeypatch):
    monkeypatch.setattr(chunked, "SCORE_CHUNK_MAX_TERMS", 1)
    monkeypatch.setattr(chunked, "CHUNK_MAX_PAIRS", 1)
    q = torch.zeros(1, 1, 400, 1, dtype=torch.bfloat16)
    k = torch.tensor([20.0, 0.0], dtype=torch.bfloat16)[None, None, :, None]
    vector = torch.zeros(1, 1, dtype=torch.bfloat16, requires_grad=True)
    # each query gives tanh 20 = 1 for the first key, and bfloat16 holds no 257
    (got,) = torch.autograd.grad(logits(q, k, score=scores.Additive(vector)).sum(), vector)
    assert got.item() == 400
    # each query gives 1/2 if it points at the first key
    index, rule = torch.zeros(1, 1, 400, dtype=torch.long), rules.window(400)
    with use_backend("chunked"):
        said = log_probability(q, k, index, score=scores.Additive(vector), rule=rule)
    (got,) = torch.autograd.grad(said.sum(), vector)
    assert got.item() == 200
    # and 1/4 of a value of 1 at the first key
    with use_backend("chunked"):
        out = attend(q, k, k / 20, score=scores.Additive(vector), rule=rules.prefix(2))
    (got,) = torch.autograd.grad(out.sum(), vector)
    assert got.item() == 100


@pytest.mark.parametrize("few", [0, 1 << 16])
def test_what_is_read_in_chunks_has_the_dtype_of_the_values(few, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_MAX_PAIRS", 1)
    monkeypatch.setattr(chunked, "UNTILED_MAX_TERMS", few)
    q, k, v = torch.randn(3, B, H, 5, D).bfloat16()
    score, rule = scores.Additive(torch.randn(H, D)), rules.padding(torch.tensor([5, 3]))
    with use_backend("chunked"):
        found = attend(q, k, v, score=score, rule=rule)
    with use_backend("reference"):
        expected = attend(q, k, v, score=score, rule=rule)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("name", ["attend", "weigh", "logits", "log_probability"])
def test_derivatives_of_torch_func_are_those_of_the_reference_however_large(name, few, monkeypatch):
    if not few:
        monkeypatch.setattr(chunked, "UNTILED_MAX_TERMS", 0)
        monkeypatch.setattr(chunked, "SCORE_CHUNK_MAX_TERMS", 16)
        monkeypatch.setattr(chunked, "CHUNK_MAX_PAIRS", 8)
    score = scores.Additive(torch.randn(3, 5))
    index = torch.zeros(2, 3, 7, dtype=torch.long)
    run = {
        "attend": lambda q: attend(q, q, q, score=score, rule=rules.prefix(5)),
        "weigh": lambda q: weigh(q, q, score=score),
        "logits": lambda q: logits(q, q, score=score),
        "log_probability": lambda q: log_probability(q, q, index, score=score),
    }[name]
    q, tangent, found = torch.randn(2, 3, 7, 5), torch.randn(2, 3, 7, 5), []
    for backend in ("auto", "reference"):
        with use_backend(backend):
            forwards = torch.func.jvp(run, (q,), (tangent,))[1]
            backwards = torch.func.grad(lambda q: run(q).square().sum())(q)
        found.append((forwards, backwards))
    assert found[0][0].abs().max() > 0
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("select", [selects.top_k(2), selects.sparsemax, selects.straight_through])
def test_windows_have_forward_derivatives_for_every_local_select(select):
    def run(q):
        return attend(q, q, q, rule=rules.window(1), select=select)

    q, tangent, found = torch.randn(2, 3, 70, 5), torch.randn(2, 3, 70, 5), []
    for backend in ("chunked", "reference"):
        with use_backend(backend):
            found.append(torch.func.jvp(run, (q,), (tangent,))[1])
    assert torch.allclose(*found, atol=1e-5)


def test_a_centre_without_an_end_of_its_reach_is_no_window():
    q = torch.randn(1, 1, 5, 4)
    call = {"rule": rules.around(torch.ones(1, 1, 5), float("inf"))}
    assert torch.allclose(attend(q, q, q, **call), attend(q, q, q), atol=1e-6)
    with use_backend("chunked"), pytest.raises(ValueError, match="only additive scores, windows"):
        attend(q, q, q, **call)


def test_a_gaussian_around_a_centre_in_float32_is_exact_for_queries_in_float64():
    x, centre = torch.randn(1, 1, 200, 8, dtype=torch.float64), torch.rand(1, 1, 200)
    call = {"rule": rules.around(centre + 3, 2.0), "select": selects.gaussian(centre, 2.0)}
    with use_backend("reference"):
        expected = attend(x, x, x, **call)
    with use_backend("chunked"):
        assert (attend(x, x, x, **call) - expected).abs().max() < 1e-14
