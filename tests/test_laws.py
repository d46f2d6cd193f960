"""The laws of DESIGN.md, held by every score, select, rule and bias on every backend.

What there is stands in `tests/mechanisms.py`; a line there is all a new mechanism needs.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from regard import (
    attend,
    log_probability,
    logits,
    look,
    rules,
    scores,
    selects,
    use_backend,
    weigh,
    why,
)
from regard.functional.biases import bias_tensor, bind
from regard.functional.rules import dense
from regard.kernels.backends import chunked
from tests.mechanisms import (
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
    near_trees,
    plans,
    plans_of,
    sizes,
    trees,
)
from tests.oracle import assert_as_good_as

# Without what is given for each row of the batch, or each query.
UNSTRENGTHENED = [name for name in SCORES if name != "cosine of strengths"]
UNCENTRED = [name for name in SELECTS if name != "gaussian"]
FOLDED = ["cosine", "cosine of strengths", "general", "location"]
HALF = [torch.bfloat16, torch.float16]


@pytest.fixture(scope="module", autouse=True)
def tile_everything():
    """Calls as small as these would not be tiled otherwise."""
    before, chunked.UNTILED_MAX_TERMS = chunked.UNTILED_MAX_TERMS, 0
    yield
    chunked.UNTILED_MAX_TERMS = before


def run(call: Asked, backend: str, *qkv: torch.Tensor, **others) -> torch.Tensor:
    with use_backend(backend):
        return attend(*(qkv or call.qkv), **call.named | others)


def able(call: Asked, backend: str) -> bool:
    return why(*call.qkv, **call.named).reasons[backend] is None


def needs(call: Asked, backend: str) -> None:
    """Skip a call that the backend refuses, in the words in which it does."""
    reason = why(*call.qkv, **call.named).reasons[backend]
    if reason is not None:
        pytest.skip(f"{backend} refuses this: {reason}")


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
@settings(max_examples=50)
@given(st.data())
def test_any_call_agrees_with_the_reference_gradients_too(backend, data):
    call = data.draw(plans_of(backend)).asked()
    assert_same(with_gradients(call, backend), with_gradients(call, "reference"))


@given(plans())
def test_auto_always_runs_and_agrees(plan):
    call = plan.asked()
    assert_same([run(call, "auto")], [run(call, "reference")])


@given(plans(), st.sampled_from([*TRAINED, "triton"]))
def test_a_named_backend_runs_or_says_why_it_cannot(plan, backend):
    call = plan.asked()
    reason = why(*call.qkv, **call.named).reasons[backend]
    if reason is None:
        assert run(call, backend).shape == (*call.q.shape[:3], call.v.shape[3])
        return
    with pytest.raises(ValueError) as refused:
        run(call, backend)
    assert str(refused.value) == f"attend: backend {backend!r} cannot run this: {reason}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("scale", [-2.0, 0.0, 1e-42])
def test_a_scale_may_be_negative_or_nothing_under_any_rule(scale, backend, dtype):
    # queries that see a key that is like them: PyTorch's causal kernel turns a mask of −inf round
    q, v = torch.randn(2, 2, 3, 20, 16).to(dtype)
    for score in (scores.Dot(scale), scores.Cosine(scale)):
        for rule in (rules.causal, rules.both(rules.causal, rules.window(4)), None):
            call = Asked(q, q, v, {"score": score, "rule": rule})
            if able(call, backend):
                ours, theirs = (run(call, name).float() for name in (backend, "reference"))
                torch.testing.assert_close(ours, theirs, atol=3e-2, rtol=3e-2)


# Autocast asks for a dtype, and for nothing else.


@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("score", [name for name in SCORES if name != "clipped"])
def test_autocast_gives_what_the_same_call_gives_in_its_dtype(score, backend):
    plain = asked(Sizes(H=6), score=score, rule="window", bias="alibi")
    needs(plain, backend)
    low = Asked(*(x.bfloat16() for x in plain.qkv), plain.named)
    with torch.autocast("cpu", torch.bfloat16):
        ours = run(plain, backend)
    assert ours.dtype == torch.bfloat16 and torch.equal(ours, run(low, backend))


@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("score", SCORES)
def test_a_look_under_autocast_sees_the_weights_that_were_read(score, select):
    call = asked(Sizes(B=1, H=3, Q=200, K=120, D=8), score=score, select=select)
    with torch.autocast("cpu", torch.bfloat16), look() as seen:
        out = run(call, "reference")
        formed = weigh(call.q, call.k, **call.named)
    weights = seen["attend.0"].weights()
    assert torch.equal(weights, formed)
    torch.testing.assert_close(weights.float() @ call.v, out.float(), atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("length, width", [(7, 16), (63, 16), (63, 32)])
@pytest.mark.parametrize("score", SCORES)
def test_a_gradient_that_is_wanted_changes_no_bit_of_the_answer(score, length, width, dtype):
    call = asked(Sizes(Q=length, K=length, D=width), dtype, score=score)
    for backend in TRAINED:
        if able(call, backend):
            assert torch.equal(run(call, backend), with_gradients(call, backend)[0]), backend


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("rule", ["window", "causal"])
@pytest.mark.parametrize("score", ["cosine", "general", "location", "scaled_dot"])
def test_a_look_shows_the_very_keys_that_were_chosen(score, rule, dtype):
    # half of the keys stand there twice, so that scores are equal
    call = asked(Sizes(Q=300, K=300, D=32), dtype, score=score, rule=rule)
    call.k[:, :, 150:] = call.k[:, :, :150]
    for select in (selects.hard, selects.top_k(3)):
        with look() as seen:
            out = attend(*call.qkv, **call.named, select=select)
        weights = seen["attend.0"].weights().float()
        rows = seen["attend.0"].rows(1, 2, slice(None)).float()
        assert (weights @ call.v.float() - out).abs().max() < 0.1
        assert torch.equal(rows != 0, weights[1, 2] != 0)


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=20)
@given(st.data(), st.sampled_from([30.0, 100.0]))
def test_backends_agree_in_half_precision_however_large_the_scores(backend, data, size):
    plan = data.draw(plans_of(backend, score=FOLDED, bias=[None], select=["softmax"]))
    call = plan.asked(torch.bfloat16)
    large = Asked(call.q * size, call.k * size, call.v, call.named)
    ours, theirs = (run(large, name).float() for name in (backend, "reference"))
    torch.testing.assert_close(ours, theirs, atol=5e-2, rtol=5e-2)


# In small dtypes a backend errs no more than twice what plain PyTorch errs.


def plainly(q, k, v, *, scale=1.0, hidden=None, bias=0.0):
    """Attention as one writes it, all of it in the dtype of its inputs."""
    product = (q * scale) @ k.mT + torch.as_tensor(bias).to(q.dtype)
    if hidden is not None:
        product = product.masked_fill(hidden, -torch.inf)
    return product.softmax(-1) @ v


# One key alone has the gradient zero, which plain PyTorch meets without any error at all.
@pytest.mark.parametrize("length", [2, 63, 130])
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

    # PyTorch's fused kernel itself errs more than its plain operations in float32
    slack = 4.0 if dtype == torch.float32 else 2.0
    assert_as_good_as(ours, lambda *x: plainly(*x, scale=0.25, bias=bias), q, k, v, slack=slack)


@pytest.mark.parametrize("spread, offset", [(10, 0), (2, 300)])
@pytest.mark.parametrize("rule", [None, rules.window(20)], ids=["all", "window"])
@pytest.mark.parametrize("backend", ["auto", "reference", "sdpa"])
@pytest.mark.parametrize("dtype", HALF)
def test_a_bias_in_float32_keeps_its_digits_beside_half_precision(
    dtype, backend, rule, spread, offset
):
    q, k, v = torch.randn(3, 2, 3, 130, 16).to(dtype)
    bias = offset + spread * torch.randn(130, 130)
    hidden = (
        torch.zeros(130, 130, dtype=torch.bool) if rule is None else ~dense(rule, 2, 3, 130, 130)
    )
    exact = plainly(q.double(), k.double(), v.double(), scale=0.25, bias=bias, hidden=hidden)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, bias.masked_fill(hidden, -torch.inf)
    )
    with use_backend(backend), look() as seen:
        out = attend(q, k, v, rule=rule, bias=bias)
    assert (out - exact).abs().max() <= 2 * (theirs - exact).abs().max()
    shown = seen["attend.0"].weights().double() @ v.double()
    assert (shown - exact).abs().max() <= 2 * (theirs - exact).abs().max()


def test_autocast_rounds_no_bias():
    q, k, v, bias = torch.randn(4, 2, 3, 16, 16)
    bias = 300 + 2 * bias
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(q, k, v, bias=bias)
    lowered = [x.bfloat16() for x in (q, k, v)]
    assert torch.equal(out, attend(*lowered, bias=bias))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("name", ["cosine", "general"])
def test_errors_of_folded_scores_are_at_most_twice_those_of_plain_pytorch(name, backend, dtype):
    q, k, v = torch.randn(3, 2, 3, 63, 16).to(dtype)
    weight, hidden = torch.randn(3, 16, 16).to(dtype), ~dense(rules.window(20), 2, 3, 63, 63)
    score = scores.Cosine(5.0) if name == "cosine" else scores.General(weight)

    def plain(q, k, v):
        if name == "general":
            return plainly(q @ weight.to(q), k, v, hidden=hidden)
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
        return plainly(q, k, v, scale=5.0, hidden=hidden)

    def ours(q, k, v):
        return run(Asked(q, k, v, {"score": score, "rule": rules.window(20)}), backend)

    assert_as_good_as(ours, plain, q, k, v)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_errors_of_additive_scores_are_at_most_twice_those_of_plain_pytorch(dtype, scale, backend):
    q, k, v = torch.randn(3, 2, 3, 63, 16)
    q, k, v = (scale * q).to(dtype), (scale * k).to(dtype), v.to(dtype)
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
@given(st.data())
def test_a_blind_query_reads_zeros_and_has_no_gradient_even_if_it_is_nan(backend, data):
    plan = data.draw(plans_of(backend, bias=["alibi", None]))
    call = plan.asked()
    blind = ~seen_by(call, plan.sizes).any(-1)
    call.q[blind] = torch.nan
    out, dq, dk, dv = with_gradients(call, backend)
    assert out[blind].eq(0).all() and dq[blind].eq(0).all()
    assert all(x.isfinite().all() for x in (out, dq, dk, dv))


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(st.data())
def test_a_query_blinded_by_its_bias_reads_zeros_and_has_no_gradient(backend, data):
    call = data.draw(plans_of(backend, bias=["tensor that hides"])).asked()
    call.named["bias"][:, :, ::2] = -torch.inf
    out, *grads = with_gradients(call, backend)
    assert out[:, :, ::2].eq(0).all() and grads[0][:, :, ::2].eq(0).all()
    assert all(x.isfinite().all() for x in (out, *grads))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
@pytest.mark.parametrize("backend", TRAINED)
@given(st.data())
def test_what_no_query_sees_reaches_neither_output_nor_gradient(backend, poison, data):
    plan = data.draw(plans_of(backend))
    call = plan.asked()
    clean = with_gradients(call, backend)
    # a head of keys is hidden if none of the heads that share it sees it
    s = plan.sizes
    hidden = ~seen_by(call, s).any(2).unflatten(1, (s.G, s.H // s.G)).any(2)  # (B, G, K)
    call.k[hidden], call.v[hidden] = poison, poison
    assert_same(with_gradients(call, backend), clean)


@pytest.mark.parametrize("name", ["general", "additive", "location", "relative"])
@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("rule", ["window", "padding"])
def test_a_hidden_nan_does_not_reach_the_weights_of_a_score(name, backend, rule):
    s = Sizes(Q=7, K=5)
    call = asked(s, score=name, rule=rule)
    needs(call, backend)
    (weight,) = (x for x in vars(call.named["score"]).values() if isinstance(x, torch.Tensor))
    seen = seen_by(call, s)
    call.q[~seen.any(-1)], call.k[~seen.any(2)], call.v[~seen.any(2)] = torch.nan, 0, 0
    weight.requires_grad_()
    run(call, backend).sum().backward()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=20)
@given(st.data(), st.sampled_from([1e-20, 1e4, 1e12, 1e16]))
def test_scores_that_float32_holds_never_give_nan(backend, data, size):
    call = data.draw(plans_of(backend)).asked()
    large = Asked(call.q * size, call.k * size, call.v * size, call.named)
    assert not any(x.isnan().any() for x in with_gradients(large, backend))


@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general"])
def test_a_query_whose_scores_float32_does_not_hold_spoils_no_other(score, backend):
    call = asked(Sizes(), score=score, rule="window")
    call.k.mul_(10)
    alone = run(call, backend)[:, :, 1:]
    call.q[:, :, 0] = 3e38
    assert logits(call.q, call.k, **call.named)[:, :, 0].isfinite().logical_not().any()
    found = run(call, backend)[:, :, 1:]
    assert found.isfinite().all()
    assert_same([found], [alone])


@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "additive", "cosine"])
def test_large_halves_do_not_overflow(backend, score):
    call = asked(Sizes(), torch.float16, score=score, rule="window")
    needs(call, backend)
    large = Asked(call.q * 300, call.k * 300, call.v, call.named)
    assert run(large, backend).isfinite().all()


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("dtype", HALF)
def test_a_bias_too_large_for_the_dtype_hides_nothing_by_itself(dtype, backend):
    call = asked(Sizes(), dtype)
    out = run(call, backend, bias=torch.full((5, 7), -1e30))
    assert out.isfinite().all() and out.abs().sum() > 0


@pytest.mark.parametrize("score", [scores.scaled_dot, scores.Additive(torch.ones(2, 4))], ids=str)
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_float64_bias_that_float32_does_not_hold_hides_nothing_and_gives_no_nan(backend, score):
    q = torch.randn(1, 2, 9, 4)
    lowest = torch.full((9, 9), torch.finfo(torch.float64).min, dtype=torch.float64)
    mean = q.mean(2, keepdim=True).expand_as(q)
    with use_backend(backend), look() as seen:
        assert torch.allclose(attend(q, q, q, score=score, bias=lowest), mean, atol=1e-6)
        one = torch.zeros(9, 9, dtype=torch.float64)
        one[0, 1] = 1e39
        assert torch.equal(attend(q, q, q, score=score, bias=one)[:, :, 0], q[:, :, 1])
    assert torch.allclose(seen["attend.1"].weights().sum(-1), torch.ones(()))


@given(plans(rule=trees() | near_trees() | st.none()))
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
@given(st.data())
def test_the_future_does_not_leak(backend, data):
    rule = st.sampled_from(["causal", ("both", "causal", "window")])
    plan = data.draw(plans_of(backend, rule=rule))
    call, s, i = plan.asked(), plan.sizes, plan.sizes.Q // 2
    assume(s.Q)
    q, k, v = (x.clone().requires_grad_() for x in call.qkv)
    out = run(call, backend, q, k, v)[:, :, i]
    grads = torch.autograd.grad(out.sum(), (k, v), materialize_grads=True)
    later = max(0, i + s.K - s.Q + 1)
    assert all(grad[:, :, later:].eq(0).all() for grad in grads)


# What must not matter does not.


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("score", PLACELESS)
def test_more_padding_changes_nothing(score, backend, side):
    call = asked(Sizes(), score=score)
    extra = (0, 0, 4, 0) if side == "left" else (0, 0, 0, 4)
    k, v = (torch.nn.functional.pad(x, extra, value=torch.nan) for x in (call.k, call.v))
    rule = rules.padding(torch.tensor([7, 7]), side=side)
    padded = Asked(call.q, k, v, call.named | {"rule": rule})
    if able(padded, backend):
        assert_same([run(padded, backend)], [run(call, "reference")])


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(st.data())
def test_a_batch_is_its_rows_one_by_one(backend, data):
    rowless = {"score": UNSTRENGTHENED, "select": UNCENTRED, "bias": ["alibi", None]}
    rule = st.sampled_from(["causal", "prefix", None])
    call = data.draw(plans_of(backend, of=sizes(B=3), rule=rule, **rowless)).asked()
    rows = [run(call, backend, *(x[i : i + 1] for x in call.qkv)) for i in range(3)]
    assert_same([run(call, backend)], [torch.cat(rows)])


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(st.data())
def test_the_order_of_keys_does_not_matter(backend, data):
    free = {"score": PLACELESS, "select": UNCENTRED, "bias": [None], "rule": st.none()}
    plan = data.draw(plans_of(backend, **free))
    call, order = plan.asked(), torch.randperm(plan.sizes.K)
    moved = run(call, backend, call.q, call.k[:, :, order], call.v[:, :, order])
    assert_same([moved], [run(call, backend)])


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(st.data())
def test_queries_that_change_places_change_answers(backend, data):
    free = {"score": [n for n in UNSTRENGTHENED if n in PLACELESS], "select": UNCENTRED}
    free |= {"bias": [None, "tensor (H, 1, K)"], "rule": st.sampled_from(["padding", None])}
    plan = data.draw(plans_of(backend, **free))
    call, order = plan.asked(), torch.arange(plan.sizes.Q).flip(0)
    moved = run(call, backend, call.q[:, :, order], call.k, call.v)
    assert_same([moved], [run(call, backend)[:, :, order]])


@pytest.mark.parametrize("backend", TRAINED)
@settings(max_examples=15)
@given(st.data())
def test_grouped_heads_are_repeated_heads(backend, data):
    plan = data.draw(plans_of(backend))
    call, s = plan.asked(), plan.sizes
    k, v = (x.repeat_interleave(s.H // s.G, 1) for x in (call.k, call.v))
    assert_same([run(call, backend)], [run(call, backend, call.q, k, v)])


@pytest.mark.parametrize("backend", TRAINED)
def test_the_last_query_stands_on_the_last_key(backend):
    for rule in [rules.window(2), rules.both(rules.causal, rules.window(3))]:
        call = asked(Sizes(Q=7))
        whole = run(call, "reference", rule=rule)
        last = run(call, backend, call.q[:, :, -3:], call.k, call.v, rule=rule)
        assert_same([last], [whole[:, :, -3:]])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("backend", [*TRAINED, "flex"])
def test_no_keys_at_all_give_zeros_under_every_rule(backend, rule):
    call = asked(Sizes(K=0), rule=rule)
    needs(call, backend)
    assert not run(call, backend).any() and weigh(call.q, call.k, **call.named).shape[3] == 0


def test_documents_of_no_position_are_no_documents():
    call, rule = asked(Sizes(K=0)), rules.documents(torch.zeros(2, 0).long())
    assert not run(call, "auto", rule=rule).any()


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "cosine", "relative", "factors"])
def test_vectors_of_no_width_match_every_key_alike(score):
    call = asked(Sizes(D=0), score=score)
    for backend in ("auto", *TRAINED):
        if backend == "auto" or able(call, backend):
            assert_same([run(call, backend)], [run(call, "reference")])
    if score != "factors":
        assert_same([weigh(call.q, call.k, **call.named)], [torch.full(Sizes().full, 1 / 7)])


@pytest.mark.parametrize("rule", ["padding", "padding on the left", "documents", "mask (Q, K)"])
def test_a_map_over_calls_is_the_calls_one_by_one(rule):
    calls = [asked(Sizes(), rule=rule) for _ in range(3)]
    index = torch.randint(0, 7, (3, 2, 3, 5))

    name = {"padding": "lengths", "documents": "ids"}.get(rule.split()[0])

    def ruled(given):
        return given if name is None else replace(calls[0].named["rule"], **{name: given})

    def both(q, k, v, given, index):
        one = {"rule": ruled(given)}
        return attend(q, k, v, **one), log_probability(q, k, index, **one)

    held = [x.named["rule"] if name is None else getattr(x.named["rule"], name) for x in calls]
    inputs = *(torch.stack(x) for x in zip(*(c.qkv for c in calls), strict=True)), torch.stack(held)
    mapped = torch.func.vmap(both)(*inputs, index)
    alone = [both(*(x[i] for x in inputs), index[i]) for i in range(3)]
    assert_same(list(mapped), [torch.stack(x) for x in zip(*alone, strict=True)])


# Numbers and their derivatives.


@pytest.mark.parametrize("select", [n for n in SELECTS if n not in FLAT])
@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "general", "additive", "relative"])
@pytest.mark.parametrize("backend", TRAINED)
def test_gradients_are_exact_in_float64(backend, score, select):
    s = Sizes(B=1, H=2, G=1, Q=3, K=4, D=3, Dv=2)
    call = asked(s, torch.float64, score=score, select=select, rule="window", bias="alibi")
    needs(call, backend)
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


@pytest.mark.parametrize("pairs", [1, 50, 1 << 22])
@pytest.mark.parametrize("backend", ["reference", "chunked"])
@settings(max_examples=12)
@given(plans(of=sizes(K=7), select=[None], rule=trees() | near_trees() | st.none()))
def test_log_probability_is_that_of_log_softmax_gradients_too(pairs, backend, plan):
    call, s = plan.asked(), plan.sizes
    assume(s.Q)
    q, k, index = call.q.requires_grad_(), call.k.requires_grad_(), torch.randint(0, 7, s.full[:3])
    with pytest.MonkeyPatch.context() as patch, use_backend(backend):
        patch.setattr("regard.kernels.backends.chunked.CHUNK_MAX_PAIRS", pairs)
        ours = log_probability(q, k, index, **call.named)
    scores = logits(q, k, **call.named)
    chosen = scores.gather(-1, index[..., None])[..., 0]
    seen = chosen != -torch.inf
    assert torch.equal(ours != -torch.inf, seen)
    both = ours[seen], chosen[seen] - scores[seen].logsumexp(-1)
    grads = [torch.autograd.grad(x.sum(), (q, k), materialize_grads=True) for x in both]
    assert_same([both[0], *grads[0]], [both[1], *grads[1]])


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("score", SCORES)
def test_pointing_at_a_hidden_key_has_no_gradient(score, backend):
    call = asked(Sizes(), score=score)
    q, k, index = call.q.requires_grad_(), call.k.requires_grad_(), torch.full((2, 3, 5), 6)
    with use_backend(backend):
        out = log_probability(q, k, index, rule=rules.prefix(3), **call.named)
    grads = torch.autograd.grad(out.sum(), (q, k), materialize_grads=True)
    assert out.eq(-torch.inf).all() and all(grad.eq(0).all() for grad in grads)


# Dropout.


@pytest.mark.parametrize("backend", TRAINED)
def test_dropout_drops_its_share_and_keeps_the_mean(backend):
    q, k = torch.zeros(1, 1, 600, 4), torch.zeros(1, 1, 64, 4)
    v = torch.eye(64)[None, None]
    rule = rules.window(600) if backend == "chunked" else None
    weights = run(Asked(q, k, v, {"rule": rule}), backend, dropout=0.3) * 64
    kept = weights != 0
    assert 1 - kept.float().mean() == pytest.approx(0.3, abs=0.015)
    assert torch.allclose(weights[kept], torch.tensor(1 / 0.7), atol=1e-4)


@pytest.mark.parametrize("bias", BIASES)
def test_every_bias_is_added_to_the_score(bias):
    call = asked(Sizes(), bias=bias)
    extra = bias_tensor(bind(call.named["bias"], 2, 3, 5, 7), 2, 3, 5, 7)
    assert_same([logits(call.q, call.k, bias=call.named["bias"])], [logits(call.q, call.k) + extra])
