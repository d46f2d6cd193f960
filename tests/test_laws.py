"""The laws of DESIGN.md, held by every score, select, rule and bias on every backend.

What there is stands in `tests/mechanisms.py`; a line there is all a new mechanism needs.
"""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.nn.attention import flex_attention

from regard import attend, log_probability, logits, rules, scores, use_backend, weigh, why
from regard.functional.rules import dense
from tests.mechanisms import (
    BACKENDS,
    BIASES,
    FLAT,
    LOSSY,
    PLACELESS,
    RULES,
    SCORES,
    SELECTS,
    TRAINED,
    Asked,
    Sizes,
    asked,
    plans,
    sizes,
    trees,
)
from tests.oracle import assert_as_good_as

HALF = [torch.bfloat16, torch.float16]
NEAR = st.tuples(st.just("both"), st.sampled_from(["window", "around"]), trees())


@pytest.fixture(autouse=True, scope="module")
def flex_without_a_compiler():
    """Even an eager flex_attention is traced, which the shape checks of these tests forbid."""
    before = flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    yield
    flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = before


def run(call: Asked, backend: str, *qkv: torch.Tensor, **others) -> torch.Tensor:
    with use_backend(backend):
        return attend(*(qkv or call.qkv), **call.named | others)


def able(call: Asked, backend: str) -> bool:
    return why(*call.qkv, **call.named).reasons[backend] is None


def with_gradients(call: Asked, backend: str) -> list[torch.Tensor]:
    """The output, and the gradients of q, k and v in a fixed direction."""
    leaves = [x.detach().clone().requires_grad_() for x in call.qkv]
    out = run(call, backend, *leaves)
    if not out.requires_grad:
        return [out, *map(torch.zeros_like, leaves)]
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return [out, *torch.autograd.grad(out, leaves, direction, materialize_grads=True)]


def assert_same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-4)


def seen_by(call: Asked, s: Sizes) -> torch.Tensor:
    rule = call.named.get("rule")
    full = s.full
    return torch.ones(full).bool() if rule is None else dense(rule, *full)


# Every backend gives what the reference gives.


@pytest.mark.parametrize("backend", TRAINED[1:])
@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("score", SCORES)
def test_every_score_and_select_agrees_with_the_reference(score, select, backend):
    for rule, bias in [("window", "alibi"), ("around", "tensor that hides"), ("padding", "alibi")]:
        call = asked(Sizes(H=6), score=score, select=select, rule=rule, bias=bias)
        if able(call, backend):
            assert_same(with_gradients(call, backend), with_gradients(call, "reference"))


@pytest.mark.parametrize("backend", TRAINED[1:])
@settings(max_examples=40)
@given(plans(rule=trees() | NEAR | st.none()))
def test_any_call_agrees_with_the_reference_gradients_too(backend, plan):
    call = plan.asked()
    assume(able(call, backend))
    assert_same(with_gradients(call, backend), with_gradients(call, "reference"))


@settings(max_examples=20)
@given(plans(score=[n for n in SCORES if "cosine" in n or "dot" in n], select=[None]))
def test_flex_agrees_with_the_reference(plan):
    call = plan.asked()
    assert_same([run(call, "flex")], [run(call, "reference")])


@pytest.mark.parametrize("rule", RULES)
def test_flex_takes_every_rule(rule):
    for s in [Sizes(), Sizes(H=6, Q=7, K=5)]:
        call = asked(s, rule=rule, bias="relative")
        assert_same([run(call, "flex")], [run(call, "reference")])


@given(plans())
def test_auto_always_runs_and_agrees(plan):
    call = plan.asked()
    assert_same([run(call, "auto")], [run(call, "reference")])


@given(plans(), st.sampled_from([*BACKENDS, "triton"]))
def test_a_named_backend_runs_or_says_why_it_cannot(plan, backend):
    call = plan.asked()
    reason = why(*call.qkv, **call.named).reasons[backend]
    if reason is None:
        assert run(call, backend).shape == (*call.q.shape[:3], call.v.shape[3])
        return
    with pytest.raises(ValueError) as refused:
        run(call, backend)
    assert str(refused.value) == f"attend: backend {backend!r} cannot run this: {reason}"


# In small dtypes a backend errs no more than twice what plain PyTorch errs.


def plainly(q, k, v, *, scale=1.0, hidden=None, bias=0.0):
    """Attention as one writes it, all of it in the dtype of its inputs."""
    product = (q * scale) @ k.mT + torch.as_tensor(bias).to(q.dtype)
    if hidden is not None:
        product = product.masked_fill(hidden, -torch.inf)
    return product.softmax(-1) @ v


@pytest.mark.parametrize("length", [1, 63, 130])
@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_errors_are_at_most_twice_those_of_plain_pytorch(dtype, backend, length):
    q, k, v = torch.randn(3, 2, 3, length, 16).to(dtype)
    rule = rules.both(rules.causal, rules.window(20))
    hidden = ~dense(rule, 2, 3, length, length)

    def ours(q, k, v):
        return run(Asked(q, k, v, {"rule": rule}), backend)

    assert_as_good_as(ours, lambda *x: plainly(*x, scale=0.25, hidden=hidden), q, k, v)


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_errors_with_a_bias_are_at_most_twice_those_of_plain_pytorch(dtype, backend):
    q, k, v = torch.randn(3, 2, 3, 63, 16).to(dtype)
    bias = 3 * torch.randn(2, 3, 63, 63)

    def ours(q, k, v):
        return run(Asked(q, k, v, {"bias": bias}), backend)

    assert_as_good_as(ours, lambda *x: plainly(*x, scale=0.25, bias=bias), q, k, v)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_errors_of_additive_scores_are_at_most_twice_those_of_plain_pytorch(dtype, backend):
    q, k, v = torch.randn(3, 2, 3, 63, 16).to(dtype)
    vector = torch.randn(3, 16).to(dtype)

    def plain(q, k, v):
        hidden = torch.tanh(q[:, :, :, None] + k[:, :, None])
        return (hidden @ vector.to(q)[:, None, :, None])[..., 0].softmax(-1) @ v

    def ours(q, k, v):
        return run(Asked(q, k, v, {"score": scores.Additive(vector)}), backend)

    assert_as_good_as(ours, plain, q, k, v)


@pytest.mark.parametrize("dtype", HALF)
@given(plans(of=sizes(B=2), select=["softmax", "sparsemax"]))
def test_the_output_has_the_dtype_of_its_input(dtype, plan):
    call = plan.asked(dtype)
    assert run(call, "auto").dtype == dtype
    assert weigh(call.q, call.k, **call.named).dtype == dtype


# What may not be seen is not there.


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=25)
@given(plans(rule=trees() | NEAR))
def test_a_blind_query_reads_zeros_and_has_no_gradient_even_if_it_is_nan(backend, plan):
    call = plan.asked()
    assume(able(call, backend) and plan.bias != "tensor that hides")
    blind = ~seen_by(call, plan.sizes).any(-1)
    call.q[blind] = torch.nan
    out, dq, dk, dv = with_gradients(call, backend)
    assert out[blind].eq(0).all() and dq[blind].eq(0).all()
    assert all(x.isfinite().all() for x in (out, dq, dk, dv))


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(plans(bias=["tensor that hides"], rule=trees() | NEAR | st.none()))
def test_a_query_blinded_by_its_bias_reads_zeros_and_has_no_gradient(backend, plan):
    call = plan.asked()
    call.named["bias"][:, :, ::2] = -torch.inf
    assume(able(call, backend))
    out, *grads = with_gradients(call, backend)
    assert out[:, :, ::2].eq(0).all() and grads[0][:, :, ::2].eq(0).all()
    assert all(x.isfinite().all() for x in (out, *grads))


def test_a_query_blinded_by_its_bias_reads_zeros_on_flex():
    call = asked(Sizes(), bias="tensor that hides")
    call.named["bias"][:, :, ::2] = -torch.inf
    assert_same([run(call, "flex")], [run(call, "reference")])


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=25)
@given(plans(rule=trees() | NEAR))
def test_what_no_query_sees_reaches_neither_output_nor_gradient(backend, poison, plan):
    call = plan.asked()
    assume(able(call, backend))
    clean = with_gradients(call, backend)
    # a head of keys is hidden if none of the heads that share it sees it
    s = plan.sizes
    hidden = ~seen_by(call, s).any(2).unflatten(1, (s.G, s.H // s.G)).any(2)  # (B, G, K)
    call.k[hidden], call.v[hidden] = poison, poison
    assert_same(with_gradients(call, backend), clean)


@settings(max_examples=10)
@given(plans(score=["scaled_dot", "cosine"], select=[None], rule=trees()))
def test_what_no_query_sees_does_not_reach_flex(plan):
    call, s = plan.asked(), plan.sizes
    clean = run(call, "flex")
    hidden = ~seen_by(call, s).any(2).unflatten(1, (s.G, s.H // s.G)).any(2)
    call.k[hidden], call.v[hidden] = torch.nan, torch.inf
    assert_same([run(call, "flex")], [clean])


@pytest.mark.parametrize("name", ["general", "additive", "location", "relative"])
@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("rule", ["window", "padding"])
def test_a_hidden_nan_does_not_reach_the_weights_of_a_score(name, backend, rule):
    s = Sizes(Q=7, K=5)
    call = asked(s, score=name, rule=rule)
    if not able(call, backend):
        pytest.skip("cannot")
    (weight,) = (x for x in vars(call.named["score"]).values() if isinstance(x, torch.Tensor))
    seen = seen_by(call, s)
    call.q[~seen.any(-1)], call.k[~seen.any(2)], call.v[~seen.any(2)] = torch.nan, 0, 0
    run(call, backend, call.q, call.k, call.v.requires_grad_(), score=type(
        call.named["score"]
    )(weight.requires_grad_())).sum().backward()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=15)
@given(plans(of=sizes(D=5), rule=trees() | NEAR | st.none()), st.sampled_from([1e-20, 1e4, 1e12]))
def test_finite_input_never_gives_nan(backend, plan, size):
    call = plan.asked()
    assume(able(call, backend))
    large = Asked(call.q * size, call.k * size, call.v * size, call.named)
    results = [run(large, backend)] if backend == "flex" else with_gradients(large, backend)
    assert not any(x.isnan().any() for x in results)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "additive", "cosine"])
def test_large_halves_do_not_overflow(backend, score):
    call = asked(Sizes(), torch.float16, score=score, rule="window")
    if not able(call, backend):
        pytest.skip("cannot")
    large = Asked(call.q * 300, call.k * 300, call.v, call.named)
    assert run(large, backend).isfinite().all()


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("dtype", HALF)
def test_a_bias_too_large_for_the_dtype_hides_nothing_by_itself(dtype, backend):
    call = asked(Sizes(), dtype)
    out = run(call, backend, bias=torch.full((5, 7), -1e30))
    assert out.isfinite().all() and out.abs().sum() > 0


@given(plans(rule=trees() | NEAR | st.none()))
def test_a_key_that_is_not_seen_has_no_weight(plan):
    call = plan.asked()
    seen = seen_by(call, plan.sizes)
    weights = weigh(call.q, call.k, **call.named)
    named = {name: x for name, x in call.named.items() if name != "select"}
    if plan.bias != "tensor that hides":
        assert torch.equal(logits(call.q, call.k, **named) != -torch.inf, seen)
    assert weights[~seen].eq(0).all() and (weights >= 0).all()


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(plans(rule=st.just("causal") | st.just(("both", "causal", "window"))))
def test_the_future_does_not_leak(backend, plan):
    call = plan.asked()
    s, i = plan.sizes, plan.sizes.Q // 2
    assume(s.Q and s.K and able(call, backend))
    q, k, v = (x.clone().requires_grad_() for x in call.qkv)
    out = run(call, backend, q, k, v)[:, :, i]
    grads = torch.autograd.grad(out.sum(), (k, v), materialize_grads=True)
    later = max(0, i + s.K - s.Q + 1)
    assert all(grad[:, :, later:].eq(0).all() for grad in grads)


# What must not matter does not.


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("score", PLACELESS)
def test_more_padding_changes_nothing(score, backend, side):
    call = asked(Sizes(), score=score)
    extra = (0, 0, 4, 0) if side == "left" else (0, 0, 0, 4)
    k, v = (torch.nn.functional.pad(x, extra, value=torch.nan) for x in (call.k, call.v))
    rule = rules.padding(torch.tensor([7, 7]), side=side)
    padded = Asked(call.q, k, v, call.named | {"rule": rule})
    if able(padded, backend):
        assert_same([run(padded, backend)], [run(call, "reference")])


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=15)
@given(plans(of=sizes(B=3), bias=["alibi", None], rule=st.sampled_from(["causal", "prefix", None])))
def test_a_batch_is_its_rows_one_by_one(backend, plan):
    call = plan.asked()
    assume(able(call, backend) and plan.select != "gaussian" and plan.score != "cosine of strengths")
    rows = [run(call, backend, *(x[i : i + 1] for x in call.qkv)) for i in range(3)]
    assert_same([run(call, backend)], [torch.cat(rows)])


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=15)
@given(plans(score=PLACELESS, bias=[None], rule=st.none()), st.integers(0, 99))
def test_the_order_of_keys_does_not_matter(backend, plan, seed):
    call = plan.asked()
    assume(able(call, backend) and plan.select != "gaussian")
    order = torch.randperm(plan.sizes.K, generator=torch.Generator().manual_seed(seed))
    moved = run(call, backend, call.q, call.k[:, :, order], call.v[:, :, order])
    assert_same([moved], [run(call, backend)])


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=15)
@given(plans(bias=[None, "tensor (H, 1, K)"], rule=st.sampled_from(["prefix", "padding", None])))
def test_queries_that_change_places_change_answers(backend, plan):
    call = plan.asked()
    assume(able(call, backend) and plan.select != "gaussian" and plan.score in PLACELESS)
    assume(plan.score != "cosine of strengths")
    order = torch.arange(plan.sizes.Q).flip(0)
    moved = run(call, backend, call.q[:, :, order], call.k, call.v)
    assert_same([moved], [run(call, backend)[:, :, order]])


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=15)
@given(plans(rule=trees() | NEAR | st.none()))
def test_grouped_heads_are_repeated_heads(backend, plan):
    call, s = plan.asked(), plan.sizes
    assume(able(call, backend))
    k, v = (x.repeat_interleave(s.H // s.G, 1) for x in (call.k, call.v))
    assert_same([run(call, backend)], [run(call, backend, call.q, k, v)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_last_query_stands_on_the_last_key(backend):
    for rule in [rules.causal, rules.window(2), rules.both(rules.causal, rules.window(3))]:
        call = asked(Sizes(Q=7))
        whole = run(call, backend, rule=rule) if backend != "chunked" else None
        whole = run(call, "reference", rule=rule) if whole is None else whole
        if able(Asked(*call.qkv, {"rule": rule}), backend):
            last = run(call, backend, call.q[:, :, -3:], call.k, call.v, rule=rule)
            assert_same([last], [whole[:, :, -3:]])


# Numbers and their derivatives.


@pytest.mark.parametrize("select", [n for n in SELECTS if n not in FLAT])
@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "general", "additive", "relative"])
@pytest.mark.parametrize("backend", TRAINED)
def test_gradients_are_exact_in_float64(backend, score, select):
    s = Sizes(B=1, H=2, G=1, Q=3, K=4, D=3, Dv=2)
    call = asked(s, torch.float64, score=score, select=select, rule="window", bias="alibi")
    if not able(call, backend):
        pytest.skip("cannot")
    inputs = [x.requires_grad_() for x in call.qkv]
    assert gradcheck(lambda *x: run(call, backend, *x), inputs, fast_mode=True)


@given(plans(rule=trees() | st.none()))
def test_weights_times_values_is_what_is_read(plan):
    call, s = plan.asked(), plan.sizes
    weights = weigh(call.q, call.k, **call.named)
    assert_same([weights @ call.v.repeat_interleave(s.H // s.G, 1)], [run(call, "auto")])


@given(plans(select=[n for n in SELECTS if n not in LOSSY], bias=[None, "alibi"]))
def test_rows_that_see_anything_sum_to_one(plan):
    call, s = plan.asked(), plan.sizes
    total = weigh(call.q, call.k, **call.named).sum(-1)
    assert torch.allclose(total, seen_by(call, s).any(-1).float(), atol=1e-5)


@settings(max_examples=40)
@given(
    plans(of=sizes(K=7), select=[None], rule=trees() | NEAR | st.none()),
    st.sampled_from([1, 50, 1 << 22]),
    st.booleans(),
)
def test_log_probability_is_that_of_log_softmax_gradients_too(plan, pairs, whole):
    call, s = plan.asked(), plan.sizes
    index = torch.randint(0, 7, (s.B, s.H, s.Q))
    q, k = call.q.requires_grad_(), call.k.requires_grad_()
    with pytest.MonkeyPatch.context() as patch, use_backend("reference" if whole else "auto"):
        patch.setattr("regard.kernels.chunked.PAIRS", pairs)
        ours = log_probability(q, k, index, **call.named)
    scores = logits(q, k, **call.named).gather(-1, index[..., None])[..., 0]
    total = weigh(q, k, **call.named).gather(-1, index[..., None])[..., 0]
    finite = scores != -torch.inf
    assert torch.equal(ours != -torch.inf, finite)
    assert_same([ours[finite].exp()], [total[finite]])
    direction = torch.randn(ours[finite].shape)
    theirs = (logits(q, k, **call.named).logsumexp(-1) * -1 + scores)[finite]
    grads = [
        torch.autograd.grad((x * direction).sum(), (q, k), materialize_grads=True)
        for x in (ours[finite], theirs)
    ]
    assert_same(*grads)


# Dropout.


@pytest.mark.parametrize("backend", TRAINED)
def test_dropout_drops_its_share_and_keeps_the_mean(backend):
    q, k = torch.zeros(1, 1, 3000, 4), torch.zeros(1, 1, 64, 4)
    v = torch.eye(64)[None, None]
    rule = rules.window(5000) if backend == "chunked" else None
    weights = run(Asked(q, k, v, {"rule": rule}), backend, dropout=0.3) * 64
    kept = weights != 0
    assert 1 - kept.float().mean() == pytest.approx(0.3, abs=0.01)
    assert torch.allclose(weights[kept], torch.tensor(1 / 0.7), atol=1e-4)


@pytest.mark.parametrize("bias", BIASES)
def test_every_bias_is_added_to_the_score(bias):
    call = asked(Sizes(), bias=bias)
    from regard.functional.biases import added, placed

    extra = added(placed(call.named["bias"], 2, 3, 5, 7), 2, 3, 5, 7)
    assert_same([logits(call.q, call.k, bias=call.named["bias"])], [logits(call.q, call.k) + extra])
