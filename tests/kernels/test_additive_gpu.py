"""The fused kernel on a card: run with `pytest -o addopts= tests/kernels/test_additive_gpu.py`."""

import sys

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

import regard
from regard import rules, scores
from regard.kernels.additive import api as additive
from regard.kernels.additive import plan as additive_plan
from regard.kernels.additive.triton.scores import tanh
from regard.kernels.mask_spec import MaskSpec
from tests.kernels.calls import (
    change,
    compiled_and_not,
    everything,
    fused,
    inputs,
    plain,
    plain_scores,
    sight,
)
from tests.oracle import assert_as_good_as

pytestmark = pytest.mark.gpu

FULL, HALF, HALF16 = torch.float32, torch.bfloat16, torch.float16
B, H, Q, K, D = 2, 2, 63, 130, 64
RULES = {
    "causal": lambda: rules.causal,
    "window": lambda: rules.window(17),
    "padding": lambda: rules.padding(on_card([3, 101])),
    "left padding": lambda: rules.padding(on_card([3, 101]), side="left"),
    "documents": lambda: rules.documents(torch.arange(K, device="cuda").expand(B, K) // 37),
    "both": lambda: rules.both(rules.causal, rules.window(90), rules.padding(on_card([60, K]))),
    "mask": lambda: torch.rand(B, 1, Q, K, device="cuda") < 0.1,
    "all blind but one": lambda: torch.arange(Q, device="cuda")[:, None].expand(Q, K) == 7,
}


@pytest.fixture(autouse=True)
def packed(monkeypatch):
    """Factors are packed for tensor cores, though calls are small; no launch is remembered."""
    change(monkeypatch, TENSOR_CORE_MIN_TERMS=0)
    yield
    additive_plan._make_plan.cache_clear()


@triton.jit
def _bend(x_ptr, to_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(to_ptr + at, tanh(tl.load(x_ptr + at), True))


def on_card(numbers):
    return torch.tensor(numbers, device="cuda")


def made(*sizes, dtype=HALF, **others):
    """Inputs of B = 2, H = 2, Q = 63, K = 130 and D = 64, where nothing else is said."""
    return inputs(*sizes, *(B, H, Q, K, D)[len(sizes) :], device="cuda", dtype=dtype, **others)


def assert_near(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=3e-2, rtol=3e-2)


def plain_everything(*call, rule=None):
    """What plain PyTorch gives, output and gradients, as `everything` for the kernels."""
    leaves = [x.detach().clone().requires_grad_() for x in call]
    out = plain(*leaves, rule=rule)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return [out, *torch.autograd.grad(out, leaves, direction)]


# By the oracle.


@pytest.mark.parametrize("Q, K", [(1, 130), (3, 1000), (63, 130), (130, 63), (1025, 1025)])
@pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
def test_errs_no_more_than_plain_pytorch(dtype, Q, K):
    assert_as_good_as(fused, plain, *made(1, 2, Q, K, Dv=64, dtype=dtype))


@pytest.mark.parametrize("dtype", [HALF, HALF16], ids=str)
def test_errs_no_more_than_plain_where_packing_factors_does_not_pay(dtype, monkeypatch):
    change(monkeypatch, TENSOR_CORE_MIN_TERMS=1 << 60)
    assert_as_good_as(fused, plain, *made(Dv=64, dtype=dtype))


@pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
@pytest.mark.parametrize("D", [40, 512])
def test_a_backward_in_one_launch_errs_no_more_than_plain(D, dtype):
    call = made(3, 2, 33, 64, D, Dv=200, dtype=dtype)
    assert additive_plan.plan_call(*call[:3], None, call[3], MaskSpec(), None)[1].small_tile
    assert_as_good_as(fused, plain, *call)


@pytest.mark.parametrize("name", RULES)
def test_a_backward_in_one_launch_under_a_rule_errs_no_more_than_plain(name, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Q", 33)
    monkeypatch.setattr(sys.modules[__name__], "K", 60)
    rule = RULES[name]()
    assert_as_good_as(
        lambda *x: fused(*x, rule=rule), lambda *x: plain(*x, rule=rule), *made(Dv=64)
    )


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
@pytest.mark.parametrize("D", [8, 100, 256, 1024])
def test_errs_no_more_than_plain_at_any_width(D, dtype):
    assert_as_good_as(fused, plain, *made(1, 2, Q, K, D, Dv=64, dtype=dtype))


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
@pytest.mark.parametrize("Dv", [8, 200, 512])
def test_errs_no_more_than_plain_at_any_width_of_values(Dv, dtype):
    assert_as_good_as(fused, plain, *made(Dv=Dv, dtype=dtype))


@pytest.mark.parametrize("name", RULES)
def test_under_a_rule_it_errs_no_more_than_plain(name):
    rule = RULES[name]()
    assert_as_good_as(
        lambda *x: fused(*x, rule=rule), lambda *x: plain(*x, rule=rule), *made(Dv=64)
    )


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_a_bias_spreads_and_learns_like_a_plain_one(dtype):
    bias = torch.randn(H, 1, K).to("cuda", dtype)
    assert_as_good_as(fused, plain, *made(Dv=64, dtype=dtype), bias)


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_heads_that_share_their_keys_err_no_more_than_plain(dtype):
    assert_as_good_as(fused, plain, *made(2, 4, Dv=64, groups=2, dtype=dtype))


@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.1, 0.3, 5.0, 50.0])
def test_errs_no_more_than_plain_at_any_scale(scale):
    q, k, v, vector = made(Dv=64)
    assert_as_good_as(fused, plain, scale * q, scale * k, v, vector)


@pytest.mark.parametrize("dtype", [HALF, HALF16], ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1e-2, 0.1])
def test_errs_no_more_than_plain_where_a_large_vector_makes_much_of_little(scale, dtype):
    q, k, v, vector = made(Dv=64, dtype=dtype)
    assert_as_good_as(fused, plain, scale * q, scale * k, v, 100 * vector)


def test_errs_no_more_than_plain_on_equal_rows():
    q, k, v, vector = made(Dv=64)
    q, k = (x[:, :, :1].repeat(1, 1, x.shape[2], 1) for x in (q, k))
    assert_as_good_as(fused, plain, q, k, v, vector)


@pytest.mark.parametrize("which", ["key", "query", "dimension"])
def test_one_large_among_ordinary_errs_no_more_than_plain(which):
    q, k, v, vector = made(Dv=64)
    where = {"key": k[:, :, :1], "query": q[:, :, :1], "dimension": q[..., :1]}[which]
    where *= 50
    assert_as_good_as(fused, plain, q, k, v, vector)


@pytest.mark.parametrize("Q", [1, 3, 63], ids=["one query", "decoding", "tiles"])
def test_a_large_query_that_meets_its_keys_halfway_errs_no_more_than_plain(Q):
    q, k, v, vector = made(2, 2, Q, Dv=64)
    q[:, :, 0], k = 15, k / 4 - 14.5
    assert_as_good_as(fused, plain, q, k, v, vector)


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_log_probability_errs_no_more_than_plain(dtype):
    q, k, _, vector = made(Dv=64, dtype=dtype)
    index = torch.randint(K, (B, H, Q), device="cuda")

    def ours(q, k, vector):
        return additive.log_probability(q, k, index, vector=vector, spec=MaskSpec())

    def theirs(q, k, vector):
        return plain_scores(q, k, vector).log_softmax(-1).gather(-1, index[..., None])[..., 0]

    assert_as_good_as(ours, theirs, q, k, vector)


def test_tanh_is_right_to_a_few_units_in_the_last_place():
    x = torch.cat([torch.linspace(-most, most, 4096) for most in (40.0, 1.0, 0.6, 1e-3)]).cuda()
    found = torch.empty_like(x)
    _bend[(1,)](x, found, len(x))
    exact = x.double().tanh()
    size = exact.float().abs()
    unit = torch.nextafter(size, torch.full_like(size, torch.inf)) - size
    # two of the interpreter, and what a card's exp2 and reciprocal leave
    assert ((found.double() - exact).abs() / unit.double()).max() <= 4


# Laws.


@pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
@pytest.mark.parametrize("Q", [1, 63, 100])
def test_one_key_is_read_and_passes_no_gradient_on(Q, dtype):
    q, k, v, vector = made(1, 2, Q, 1, Dv=64, dtype=dtype)
    out, dq, dk, _, d_vector = everything(q, k, v, vector)
    # the product with weights of one keeps 22 of the 24 bits of float32
    torch.testing.assert_close(out, v.expand_as(out), atol=0, rtol=2e-6 if dtype == FULL else 0)
    for grad in (dq, dk, d_vector):
        torch.testing.assert_close(grad, torch.zeros_like(grad), atol=1e-5, rtol=0)


@pytest.mark.parametrize("Q", [1, 3, 63], ids=["one query", "decoding", "tiles"])
@pytest.mark.parametrize("poison", [torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_what_no_query_sees_reaches_neither_output_nor_gradient(dtype, poison, Q):
    q, k, v, vector = made(2, 2, Q, Dv=64, dtype=dtype)
    rule = rules.padding(on_card([77, K]))
    clean = everything(q, k, v, vector, rule=rule)
    k[0, :, 77:], v[0, :, 77:] = poison, poison
    assert_near(everything(q, k, v, vector, rule=rule), clean)


@pytest.mark.parametrize("Q", [1, 3, 63], ids=["one query", "decoding", "tiles"])
def test_nan_that_is_seen_shows(Q):
    q, k, v, vector = made(2, 2, Q, Dv=64)
    k[0, 0, 5] = torch.nan
    out = fused(q, k, v, vector)
    assert out[0, 0].isnan().all() and out[0, 1].isfinite().all() and out[1].isfinite().all()


def test_a_row_that_sees_nothing_is_zero_forward_and_backward_even_if_it_is_nan():
    q, k, v, vector = made(Dv=64)
    q[:, :, 2] = torch.nan
    mask = (torch.arange(Q, device="cuda") != 2)[:, None].expand(Q, K)
    out, *grads = everything(q, k, v, vector, rule=mask)
    assert (out[:, :, 2] == 0).all() and (grads[0][:, :, 2] == 0).all()
    assert all(x.isfinite().all() for x in (out, *grads))


def test_a_choice_that_may_not_be_seen_is_impossible_and_has_no_gradient():
    q, k, _, vector = (x.requires_grad_() for x in made(Dv=64))
    index = torch.arange(Q, device="cuda").expand(B, H, Q) % 2
    seen = sight(torch.arange(K, device="cuda") > 0, q, k)
    chosen = additive.log_probability(q, k, index, vector=vector, spec=seen)
    assert torch.equal(chosen == -torch.inf, index == 0)
    dq, *others = torch.autograd.grad(chosen.sum(), (q, k, vector))
    assert (dq[:, :, ::2] == 0).all() and all(x.isfinite().all() for x in others)


@pytest.mark.parametrize("Q", [1, 3, 63], ids=["one query", "decoding", "tiles"])
@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_the_same_call_gives_the_same_bits(dtype, Q):
    call = made(2, 2, Q, 1000, Dv=64, groups=1, dtype=dtype)
    first, *others = (everything(*call, rule=rules.causal) for _ in range(10))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_few_queries_read_what_tiles_read(monkeypatch):
    call = made(2, 2, 3, 1000, Dv=64)
    few = fused(*call, rule=rules.window(500))
    change(monkeypatch, DECODE_MAX_QUERIES=0)
    assert_near([few], [fused(*call, rule=rules.window(500))])


def test_bands_of_queries_make_the_whole(monkeypatch):
    call = made(1, 2, 300, 130, Dv=64)
    whole = everything(*call, rule=rules.causal)
    change(monkeypatch, SCRATCH_MIN_BYTES=0, SCRATCH_RATIO_BOUNDS=(0.0, 0.0))
    assert_near(everything(*call, rule=rules.causal), whole)


@pytest.mark.parametrize("Q", [1, 3, 63], ids=["one query", "decoding", "tiles"])
def test_what_was_launched_for_one_rule_is_not_taken_for_another(Q):
    call = made(1, 2, Q, Dv=64, dtype=FULL)
    for reach in (1, 16, 5, 0):
        rule = rules.window(reach)
        assert_near(everything(*call, rule=rule), plain_everything(*call, rule=rule))


def test_layout_of_the_input_does_not_matter():
    q, k, v, vector = made(Dv=64)
    expected = everything(q, k, v, vector)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    columns = [x.mT.contiguous().mT for x in (q, k, v)]
    wide = [torch.nn.functional.pad(x, (1, 2))[..., 1:-2] for x in (q, k, v)]
    for call in (turned, columns, wide):
        assert_near(everything(*call, vector), expected)


def test_memory_is_a_small_multiple_of_the_inputs():
    call = [x.requires_grad_() for x in made(1, 4, 4096, 4096, 256, Dv=256)]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    fused(*call, rule=rules.causal).sum().backward()
    peak = torch.cuda.max_memory_allocated() - before
    assert peak < 16 * sum(x.numel() * x.element_size() for x in call)


# The door, and the compiler.


def test_the_door_takes_it_on_a_card():
    q, k, v, vector = made(Dv=64)
    asked = {"score": scores.Additive(vector), "rule": rules.causal}
    assert regard.why(q, k, v, **asked).backend == "triton"
    with regard.use_backend("reference"):
        expected = regard.attend(q, k, v, **asked)
    with regard.look() as seen:
        out = regard.attend(q, k, v, **asked)
    assert seen["attend.0"].why.backend == "triton"
    assert_near([out], [expected])


def test_it_trains_under_autocast():
    leaves = [x.requires_grad_() for x in made(Dv=64, dtype=FULL)]
    q, k, v, vector = leaves
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = regard.attend(q, k, v, score=scores.Additive(vector))
    assert out.dtype == torch.bfloat16
    grads = torch.autograd.grad(out.float().square().sum(), leaves)
    whole = plain(*leaves)
    expected = torch.autograd.grad(whole.square().sum(), leaves)
    assert all(x.dtype == FULL for x in grads)
    for mine, other in zip((out.float(), *grads), (whole, *expected), strict=True):
        torch.testing.assert_close(mine, other, atol=0.05 * other.abs().max().item(), rtol=0.05)


@pytest.mark.parametrize("reads", [True, False], ids=["attention", "log probability"])
def test_it_is_a_well_formed_operator(reads):
    q, k, v, vector = (x.requires_grad_() for x in made(Dv=64))
    index = torch.randint(K, (B, H, Q), device="cuda")
    bias = torch.randn(Q, K, device="cuda", requires_grad=True)
    seen = sight(rules.both(rules.causal, torch.rand(K, device="cuda") < 0.8), q, k)
    rule = seen.first, seen.last, seen.ids, seen.mask, bias, seen.back, seen.ahead
    what = (v, None) if reads else (None, index)
    torch.library.opcheck(additive._forward, (q, k, *what, vector, *rule))


@pytest.mark.parametrize("rule", [None, rules.causal], ids=["all", "causal"])
@pytest.mark.parametrize("K", [60, K])
def test_compiles_whole_and_gives_the_same(K, rule):
    leaves = [x.requires_grad_() for x in made(2, 2, 33, K, Dv=64)]
    assert_near(*compiled_and_not(leaves, rule))


# Last, because an address that is not aligned ends all that a process does on a card.


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_inputs_may_lie_anywhere(dtype):
    call = made(1, 2, 64, 128, Dv=64, dtype=dtype)
    expected = everything(*call)
    moved = [torch.cat([x.new_zeros(1), x.flatten()])[1:].view_as(x) for x in call]
    assert all(x.data_ptr() % 16 for x in moved)
    assert_near(everything(*moved), expected)


@pytest.mark.parametrize("reads", [True, False], ids=["attention", "log probability"])
def test_gradients_may_lie_anywhere(reads):
    q, k, v, vector = (x.requires_grad_() for x in made(1, 2, 64, 128, Dv=64))
    index = torch.randint(128, (1, 2, 64), device="cuda")
    grads = []
    for lead in (0, 1):
        if reads:
            out = fused(q, k, v, vector)
        else:
            out = additive.log_probability(q, k, index, vector=vector, spec=MaskSpec())
        moved = torch.cat([out.new_zeros(lead), out.flatten()])
        grads.append(torch.autograd.grad(moved.square().sum(), (q, k, vector)))
    assert_near(*grads)
