"""The fused kernel is additive attention: same numbers, gradients and laws.

Here Triton's interpreter runs it, which is slow: few keys, small tiles. `test_additive_gpu.py` is
for a card.
"""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.functional import attention as functional
from regard.functional.scores import Additive
from regard.kernels.additive import api as additive
from regard.kernels.mask_spec import MaskSpec
from tests.kernels.calls import (
    INTERPRETED,
    QUIET,
    change,
    everything,
    fused,
    inputs,
    plain,
    plain_scores,
    sight,
    small,
)
from tests.oracle import assert_as_good_as

pytestmark = [QUIET, INTERPRETED]

FULL, HALF, HALF16 = torch.float32, torch.bfloat16, torch.float16
BOTH = pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
# With so few numbers the largest error of plain PyTorch is a matter of luck.
LUCK = 4.0
RULES = {
    "window": lambda: rules.window(4),
    "padding": lambda: rules.padding(torch.tensor([3, 17])),
    "padding on the left": lambda: rules.padding(torch.tensor([3, 17]), side="left"),
    "documents": lambda: rules.documents(torch.arange(19).div(7).long().expand(2, -1)),
    "both": lambda: rules.both(rules.causal, rules.window(9), rules.padding(torch.tensor([18, 2]))),
    "mask": lambda: torch.rand(2, 1, 6, 18) < 0.6,
}


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


@pytest.mark.parametrize("few", [0, 4], ids=["tiles", "decoding"])
@pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
def test_two_keys_by_hand(dtype, few, monkeypatch):
    # scores tanh(0) = 0 and tanh(1000) = 1, doubled: weights 1 and e², over 1 + e²
    change(monkeypatch, DECODE_MAX_QUERIES=few)
    q, k = torch.zeros(1, 1, 1, 1), torch.tensor([[[[0.0], [1000.0]]]])
    call = [x.to(dtype) for x in (q, k, torch.tensor([[[[0.0], [1.0]]]]), torch.tensor([[2.0]]))]
    assert fused(*call).item() == pytest.approx(0.880797, rel=torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
def test_errs_no_more_than_plain_pytorch(dtype):
    assert_as_good_as(fused, plain, *inputs(1, 2, 5, 17, 11, Dv=13, dtype=dtype))


def test_errs_no_more_than_plain_where_packing_factors_does_not_pay(monkeypatch):
    change(monkeypatch, TENSOR_CORE_MIN_TERMS=1 << 60)
    assert_as_good_as(fused, plain, *inputs(1, 2, 5, 17, dtype=HALF))


@pytest.mark.parametrize("Q, K", [(1, 1), (1, 33), (33, 1), (17, 5)])
def test_errs_no_more_than_plain_at_any_length(Q, K):
    assert_as_good_as(fused, plain, *inputs(Q=Q, K=K, dtype=HALF))


@BOTH
def test_heads_that_share_their_keys_err_no_more_than_plain(dtype):
    call = inputs(1, 4 if dtype == FULL else 2, 5, 7, groups=2 if dtype == FULL else 1, dtype=dtype)
    assert_as_good_as(fused, plain, *call, slack=LUCK)


@pytest.mark.parametrize("name", RULES)
def test_under_a_rule_it_errs_no_more_than_its_twin(name):
    rule = RULES[name]()

    def twin(q, k, v, vector):
        return functional.attention(q, k, v, score=Additive(vector), rule=rule)

    ours = lambda *x: fused(*x, rule=rule)  # noqa: E731
    assert_as_good_as(ours, twin, *inputs(2, 1, 6, 18), slack=LUCK)


@pytest.mark.parametrize("shape", [(2, 2, 5, 7), (2, 1, 7), (5, 1)], ids=str)
def test_a_bias_spreads_and_learns_like_a_plain_one(shape):
    assert_as_good_as(fused, plain, *inputs(2, 2), torch.randn(shape), slack=LUCK)


def test_one_number_for_all_scores_changes_nothing():
    call = inputs()
    out, *_, d_bias = everything(*call, torch.tensor(3.0))
    torch.testing.assert_close(out, fused(*call))
    assert d_bias.shape == () and d_bias.abs() < 1e-5


@BOTH
def test_a_row_that_sees_nothing_is_zero_forward_and_backward_even_if_it_is_nan(dtype):
    q, k, v, vector = inputs(dtype=dtype)
    q[:, :, 2] = torch.nan
    mask = (torch.arange(5) != 2)[:, None].expand(5, 7)
    out, *grads = everything(q, k, v, vector, rule=mask)
    assert (out[:, :, 2] == 0).all() and (out[:, :, [0, 1, 3, 4]] != 0).all()
    assert (grads[0][:, :, 2] == 0).all() and all(x.isfinite().all() for x in grads)


def test_a_row_blinded_by_its_bias_is_zero_forward_and_backward():
    bias = torch.zeros(5, 7).index_fill(0, torch.tensor(2), -torch.inf)
    out, *grads = everything(*inputs(), bias)
    assert (out[:, :, 2] == 0).all() and (out[:, :, [0, 1, 3, 4]] != 0).all()
    assert (grads[0][:, :, 2] == 0).all() and (grads[4][2] == 0).all()
    assert all(x.isfinite().all() for x in grads)


@pytest.mark.parametrize("few", [0, 5], ids=["tiles", "decoding"])
def test_all_rows_blind_give_zeros(few, monkeypatch):
    change(monkeypatch, DECODE_MAX_QUERIES=few)
    found = everything(*inputs(), rule=torch.zeros((), dtype=torch.bool))
    assert all((x == 0).all() for x in found)


@pytest.mark.parametrize(
    ("dtype", "poison"),
    [
        (FULL, torch.nan),
        (FULL, -torch.inf),
        (HALF, torch.nan),
        (HALF, torch.inf),
    ],
)
def test_what_no_query_sees_reaches_neither_output_nor_gradient(dtype, poison):
    q, k, v, vector = inputs(K=9, dtype=dtype)
    rule = rules.padding(torch.tensor([4]), side="left")
    clean = everything(q, k, v, vector, rule=rule)
    k[:, :, :5], v[:, :, :5] = poison, poison
    near = {} if dtype == FULL else {"atol": 1e-2, "rtol": 2e-2}
    torch.testing.assert_close(everything(q, k, v, vector, rule=rule), clean, **near)


@BOTH
def test_rows_that_see_one_key_read_it_and_pass_no_gradient_on(dtype):
    q, k, v, vector = inputs(Q=5, K=5, dtype=dtype)
    out, dq, dk, _, d_vector = everything(q, k, v, vector, rule=rules.window(0))
    assert torch.equal(out, v)
    assert all((grad == 0).all() for grad in (dq, dk, d_vector))


def test_equal_keys_read_the_mean():
    q, k, v, vector = inputs(K=17)
    out, dq, *_ = everything(q, k[:, :, :1].expand_as(k), v, vector)
    torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out))
    torch.testing.assert_close(dq, torch.zeros_like(dq), atol=1e-6, rtol=0)


def test_a_vector_of_zeros_reads_the_mean():
    q, k, v, vector = inputs(K=17, dtype=HALF)
    mean = v.float().mean(2, keepdim=True).expand(1, 1, 5, 8).to(HALF)
    torch.testing.assert_close(fused(q, k, v, 0 * vector), mean, atol=1e-2, rtol=1e-2)


def test_a_vector_with_zeros_errs_no_more_than_plain():
    q, k, v, vector = inputs(dtype=HALF)
    vector[:, ::2] = 0
    assert_as_good_as(fused, plain, q, k, v, vector)


@pytest.mark.parametrize("scale", [1e-3, 5.0, 50.0])
def test_errs_no_more_than_plain_at_any_scale(scale):
    q, k, v, vector = inputs(K=17, dtype=HALF)
    assert_as_good_as(fused, plain, scale * q, scale * k, v, vector)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_errs_no_more_than_plain_where_a_large_vector_makes_much_of_little(dtype):
    q, k, v, vector = inputs(Q=32, K=32, D=24, dtype=dtype)
    assert_as_good_as(fused, plain, q / 1000, k / 1000, v, 100 * vector)


def test_large_queries_meet_large_keys_of_the_other_sign():
    # e^{2q} overflows and e^{2k} underflows where e^{2(q + k)} is ordinary
    q, k, v, vector = inputs(dtype=HALF)
    assert_as_good_as(fused, plain, q + 50, k - 50, v, vector)


@BOTH
def test_log_probability_errs_no_more_than_plain(dtype):
    q, k, _, vector = inputs(1, 2, 5, 7, dtype=dtype)
    index = torch.randint(7, (1, 2, 5))

    def ours(q, k, vector):
        return additive.log_probability(q, k, index, vector=vector, spec=MaskSpec())

    def theirs(q, k, vector):
        return plain_scores(q, k, vector).log_softmax(-1).gather(-1, index[..., None])[..., 0]

    assert_as_good_as(ours, theirs, q, k, vector, slack=LUCK)


def test_log_probability_under_a_rule_and_a_bias_errs_no_more_than_its_twin():
    q, k, _, vector = inputs(1, 2, 5, 17, groups=1)
    rule, bias = rules.both(rules.causal, rules.window(9)), torch.randn(2, 1, 17)
    index = torch.arange(12, 17).expand(1, 2, 5)

    def ours(q, k, vector, bias):
        seen = sight(rule, q, k)
        return additive.log_probability(q, k, index, vector=vector, spec=seen, bias=bias)

    def theirs(q, k, vector, bias):
        asked = {"score": Additive(vector), "rule": rule, "bias": bias}
        return functional.log_probability(q, k.expand(1, 2, 17, 8), index, **asked)

    assert_as_good_as(ours, theirs, q, k, vector, bias, slack=LUCK)


def test_a_choice_that_may_not_be_seen_is_impossible_and_has_no_gradient():
    q, k, _, vector = (x.requires_grad_() for x in inputs())
    mask = torch.arange(7).expand(5, 7) != torch.tensor([0, 0, 6, 6, 6])[:, None]
    index = torch.tensor([0, 1, 5, 6, 6]).expand(1, 1, 5)
    chosen = additive.log_probability(q, k, index, vector=vector, spec=sight(mask, q, k))
    assert (chosen == -torch.inf).tolist() == [[[True, False, False, True, True]]]
    dq, *others = torch.autograd.grad(chosen.sum(), (q, k, vector))
    assert (dq[:, :, [0, 3, 4]] == 0).all() and (dq[:, :, [1, 2]] != 0).all()
    assert all(grad.isfinite().all() for grad in others)


@BOTH
def test_the_same_call_gives_the_same_bits(dtype):
    call = inputs(K=9, dtype=dtype)
    first, *others = (everything(*call, rule=rules.causal) for _ in range(3))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_layout_of_the_input_does_not_matter():
    q, k, v, vector = inputs(1, 2, dtype=HALF)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    columns = v.mT.contiguous().mT, vector.T.contiguous().T
    assert torch.equal(fused(*turned, *columns), fused(q, k, v, vector))


def test_autocast_does_not_lower_the_precision():
    call = inputs()
    expected = everything(*call)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(torch.equal, everything(*call), expected))


def test_a_second_derivative_is_refused():
    q, k, v, vector = (x.requires_grad_() for x in inputs())
    (dq,) = torch.autograd.grad(fused(q, k, v, vector).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="the fused kernel has no second derivative"):
        dq.sum().backward()


@pytest.mark.parametrize("reads", [True, False], ids=["attention", "log probability"])
def test_it_is_a_well_formed_operator(reads):
    q, k, v, vector = (x.requires_grad_() for x in inputs())
    index, bias = torch.randint(7, (1, 1, 5)), torch.randn(5, 7, requires_grad=True)
    seen = sight(rules.both(rules.causal, torch.rand(7) < 0.8), q, k)
    rule = seen.first, seen.last, seen.ids, seen.mask, bias, seen.back, seen.ahead
    what = (v, None) if reads else (None, index)
    torch.library.opcheck(additive._forward, (q, k, *what, vector, *rule))


@pytest.mark.compiled
def test_compiles_whole_and_gives_the_same():
    leaves = [x.requires_grad_() for x in inputs(dtype=HALF)]
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    found = []
    for run in (compiled, fused):
        out = run(*leaves, rule=rules.causal)
        found.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    assert all(map(torch.equal, *found))
