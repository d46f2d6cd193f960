"""One fused call of PyTorch: which scores it takes, what it refuses, what it spells out."""

import pytest
import torch
from torch.nn import functional as F

from regard import attend, rules, scores, use_backend, why
from regard.kernels.backends import sdpa
from tests.mechanisms import FUSED, SCORES, SELECTS, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11


def test_without_a_rule_it_is_pytorch_s_own_bit_for_bit():
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    assert torch.equal(attend(q, k, v), F.scaled_dot_product_attention(q, k, v))


def test_causal_on_a_square_is_pytorch_s_own_bit_for_bit():
    q, k, v = torch.randn(3, B, H, K, D)
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(attend(q, k, v, rule=rules.causal), theirs)


@pytest.mark.parametrize("Q, K", [(1, 7), (5, 7), (7, 7), (7, 5), (7, 1), (1, 1)])
def test_causal_is_aligned_to_the_lower_right(Q, K):
    q, k, v = torch.randn(B, 6, Q, D), torch.randn(B, 3, K, D), torch.randn(B, 3, K, D)
    with use_backend("reference"):
        expected = attend(q, k, v, rule=rules.causal)
    assert torch.allclose(sdpa.fused_attention(q, k, v, causal=True), expected, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_it_takes_every_score_that_folds_and_refuses_the_others(name):
    call = asked(Sizes(), score=name)
    reason = why(*call.qkv, **call.named).reasons["sdpa"]
    folds = "only dot, scaled_dot, Cosine, General and Location fold into a dot product"
    assert reason == (None if name in FUSED else folds)


@pytest.mark.parametrize("name", [n for n in SELECTS if n != "softmax"])
def test_it_refuses_every_select_but_the_softmax(name):
    call = asked(Sizes(), select=name)
    words = "attend: backend 'sdpa' cannot run this: only the softmax is fused"
    with use_backend("sdpa"), pytest.raises(ValueError, match=words):
        attend(*call.qkv, **call.named)


def test_a_learned_bias_has_the_gradient_of_the_reference():
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    grads = []
    for backend in ("sdpa", "reference"):
        bias = torch.linspace(-1, 1, K).requires_grad_()
        with use_backend(backend):
            attend(q, k, v, bias=bias).square().sum().backward()
        grads.append(bias.grad)
    assert torch.allclose(*grads, atol=1e-4)


def test_a_learned_strength_has_the_gradient_of_the_reference():
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    grads = []
    for backend in ("sdpa", "reference"):
        strength = torch.ones(H, Q, requires_grad=True)
        with use_backend(backend):
            attend(q, k, v, score=scores.Cosine(strength)).square().sum().backward()
        grads.append(strength.grad)
    assert torch.allclose(*grads, atol=1e-4)


@pytest.mark.parametrize("hidden", [None, "rule", "bias"])
def test_one_query_of_many_heads_reads_what_pytorch_s_kernel_gives_it(hidden, monkeypatch):
    q, k, v = torch.randn(20, 8, 1, D), torch.randn(20, 8, 17, D), torch.randn(20, 8, 17, 5)
    lengths = torch.arange(20) % 17  # the first row sees nothing
    told = {"rule": rules.padding(lengths)} if hidden == "rule" else {}
    if hidden == "bias":
        seen = torch.arange(17) < lengths[:, None]
        told = {"bias": torch.where(seen, 0.5, -torch.inf)[:, None, None]}
    assert sdpa._is_cpu_decode_step(q, k)
    with use_backend("sdpa"):
        ours = attend(q, k, v, **told)
        monkeypatch.setattr(sdpa, "_is_cpu_decode_step", lambda q, k: False)
        torch.testing.assert_close(ours, attend(q, k, v, **told), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "rule", [None, rules.causal, rules.window(2)], ids=["all", "causal", "near"]
)
@pytest.mark.parametrize("scale", [None, -0.3, 0.3, 1.0])
@pytest.mark.parametrize("width", [3, 4, 32])
@pytest.mark.parametrize("size, dtype", [(1e6, torch.float32), (1e4, torch.bfloat16)], ids=str)
def test_gradients_of_large_scores_are_those_of_the_reference(width, scale, rule, size, dtype):
    leaves = [torch.randn(1, 2, 40, width).mul_(size).to(dtype) for _ in range(2)]
    leaves.append(torch.randn(1, 2, 40, width).to(dtype))
    leaves, found = [leaf.requires_grad_() for leaf in leaves], []
    for backend in ("sdpa", "reference"):
        with use_backend(backend):
            out = attend(*leaves, score=scores.Dot(scale), rule=rule)
        found.append(torch.autograd.grad(out.sum(), leaves[2])[0])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "rule", [None, rules.causal, rules.window(2)], ids=["all", "causal", "near"]
)
@pytest.mark.parametrize("scale", [None, -3.3])
def test_half_precision_rounds_no_scale_into_queries_that_learn(scale, rule, dtype):
    q, k, v = (torch.randn(1, 2, 80, 32, dtype=dtype) for _ in range(3))
    still = attend(q, k, v, score=scores.Dot(scale), rule=rule)
    learned = attend(q.clone().requires_grad_(), k, v, score=scores.Dot(scale), rule=rule)
    assert torch.equal(learned, still)


def test_where_a_mask_must_be_in_half_precision_its_rows_are_moved_to_zero_first():
    q = torch.empty(1, 1, 2, 4, dtype=torch.bfloat16, device="meta")
    bias = torch.tensor([[300.0, 301.5, 299.25], [-8.0, -torch.inf, -70000.0]])
    found = sdpa._mask_for_kernel(bias, q)
    assert found.dtype == torch.bfloat16
    assert found.tolist() == [[-1.5, 0.0, -2.25], [0.0, -torch.inf, -70144.0]]
    assert torch.equal(sdpa._mask_for_kernel(bias, torch.empty(0).half()), bias)


@pytest.mark.parametrize("rule", [None, rules.causal, rules.prefix(5)])
@pytest.mark.parametrize("ask", ["forwards", "twice", "both ways"])
def test_it_has_the_derivatives_of_torch_func_that_fused_kernels_have_not(ask, rule):
    q, k, v = torch.randn(3, B, H, K, D).double()
    run = lambda q: attend(q, k, v, rule=rule).square().sum()  # noqa: E731
    derive = {
        "forwards": lambda q: torch.func.jvp(run, (q,), (v,))[1],
        "twice": torch.func.grad(lambda q: torch.func.grad(run)(q).square().sum()),
        "both ways": lambda q: torch.func.jvp(torch.func.grad(run), (q,), (v,))[1],
    }[ask]
    with use_backend("reference"):
        expected = derive(q)
    with use_backend("sdpa"):
        torch.testing.assert_close(derive(q), expected)
