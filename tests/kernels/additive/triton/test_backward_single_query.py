"""One query's backward in one launch: additive attention's own gradients, under any rule."""

from math import log

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels.additive import api as additive
from regard.kernels.additive import plan as additive_plan
from regard.kernels.additive.plan import Tile
from tests.kernels.calls import INTERPRETED, QUIET, change, everything, fused, inputs, plain, sight
from tests.oracle import assert_as_good_as

pytestmark = [QUIET, INTERPRETED]

FULL, HALF, HALF16 = torch.float32, torch.bfloat16, torch.float16
BOTH = pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
EACH = pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
# Keys that fit into one block, and keys of three blocks, the last of them with two.
LENGTHS = pytest.mark.parametrize("K", [17, 130])
# With so few numbers the largest error of plain PyTorch is a matter of luck.
LUCK = 4.0
RULES = {
    "causal": lambda K: rules.causal,
    "window": lambda K: rules.window(4),
    "padding": lambda K: rules.padding(torch.tensor([3, K])),
    "padding on the left": lambda K: rules.padding(torch.tensor([3, K]), side="left"),
    "documents": lambda K: rules.documents(torch.arange(K).expand(2, K) // 7),
    "both": lambda K: rules.both(rules.window(K - 2), rules.padding(torch.tensor([K - 1, 5]))),
    "mask": lambda K: torch.rand(2, 1, 1, K) < 0.6,
    "one is blind": lambda K: torch.tensor([True, False])[:, None, None, None],
    "all are blind": lambda K: torch.tensor(False),
}


@pytest.fixture(autouse=True)
def planned_anew():
    additive_plan._make_plan.cache_clear()
    yield
    additive_plan._make_plan.cache_clear()


def one(B=2, H=1, K=17, D=11, *, Dv=13, **made):
    """A call of one query; neither width is a power of two."""
    return inputs(B, H, 1, K, D, Dv=Dv, **made)


def by_bands(monkeypatch):
    """From here on one query goes through bands, as others do."""
    change(monkeypatch, single_query_block=None, SMALL_MAX_LENGTH=0, tile=Tile(1, 1, 2, 1))


@EACH
def test_two_keys_by_hand(dtype):
    # tanh is 0 and ½, scores are 0 and log 3: weights ¼ and ¾, and what is read is the second
    q, k = torch.zeros(1, 1, 1, 1), torch.tensor([0.0, log(3) / 2]).view(1, 1, 2, 1)
    v, vector = torch.tensor([0.0, 1.0]).view(1, 1, 2, 1), torch.tensor([[2 * log(3)]])
    call = [x.to(dtype) for x in (q, k, v, vector)]
    found = [x.flatten().tolist() for x in everything(*call, direction=1.0)]
    w = 2 * log(3)
    expected = [[3 / 4], [-3 / 64 * w], [-3 / 16 * w, 9 / 64 * w], [1 / 4, 3 / 4], [3 / 32]]
    for mine, exact in zip(found, expected, strict=True):
        assert mine == pytest.approx(exact, rel=4 * torch.finfo(dtype).eps)


@EACH
@pytest.mark.parametrize("K", [1, 16, 63, 64, 130])
def test_errs_no_more_than_plain_at_any_length(K, dtype):
    assert_as_good_as(fused, plain, *one(4, 2, K, dtype=dtype))


@BOTH
@pytest.mark.parametrize(("D", "Dv"), [(1, 1), (100, 3), (16, 200), (300, 64)])
def test_errs_no_more_than_plain_at_any_width(D, Dv, dtype):
    assert_as_good_as(fused, plain, *one(D=D, Dv=Dv, dtype=dtype), slack=LUCK)


@LENGTHS
@pytest.mark.parametrize("name", RULES)
def test_under_a_rule_it_errs_no_more_than_plain(name, K):
    rule = RULES[name](K)
    ours, theirs = lambda *x: fused(*x, rule=rule), lambda *x: plain(*x, rule=rule)
    assert_as_good_as(ours, theirs, *one(K=K), slack=LUCK)
    assert_as_good_as(ours, theirs, *one(K=K, dtype=HALF))


@LENGTHS
@pytest.mark.parametrize("shape", [(2, 2, 1, 0), (2, 1, 0), (2, 1, 1, 1), (0,)], ids=str)
def test_a_bias_spreads_and_learns_like_a_plain_one(shape, K):
    bias = torch.randn([n or K for n in shape])
    assert_as_good_as(fused, plain, *one(2, 2, K), bias, slack=LUCK)
    assert_as_good_as(fused, plain, *one(2, 2, K, dtype=HALF), bias.to(HALF))


@LENGTHS
def test_a_bias_that_does_not_learn_is_only_added(K):
    call, bias = one(K=K), torch.randn(K)
    fixed = lambda *x: fused(*x, bias)  # noqa: E731
    assert_as_good_as(fixed, lambda *x: plain(*x, bias.to(x[0])), *call, slack=LUCK)


@LENGTHS
@BOTH
@pytest.mark.parametrize("scale", [1e-3, 5.0, 50.0])
def test_errs_no_more_than_plain_at_any_scale(scale, dtype, K):
    q, k, v, vector = one(4, 1, K, dtype=dtype)
    assert_as_good_as(fused, plain, scale * q, scale * k, v, vector, slack=LUCK)


@pytest.mark.parametrize("dtype", [HALF, HALF16], ids=str)
def test_errs_no_more_than_plain_where_a_large_vector_makes_much_of_little(dtype):
    q, k, v, vector = one(8, 2, 32, 24, dtype=dtype)
    assert_as_good_as(fused, plain, q / 1000, k / 1000, v, 100 * vector)


@LENGTHS
@BOTH
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("poison", [torch.nan, -torch.inf])
def test_what_is_not_seen_reaches_no_gradient_and_has_none(poison, side, dtype, K):
    q, k, v, vector = one(1, 2, K, dtype=dtype)
    rule = rules.padding(torch.tensor([4]), side=side)
    hidden = slice(4, K) if side == "right" else slice(0, K - 4)
    clean = everything(q, k, v, vector, rule=rule)
    k[:, :, hidden], v[:, :, hidden] = poison, poison
    found = everything(q, k, v, vector, rule=rule)
    assert all(map(torch.equal, found, clean))
    assert all((x[:, :, hidden] == 0).all() for x in found[2:4])


@BOTH
def test_what_a_mask_hides_in_between_may_be_nan(dtype):
    q, k, v, vector = one(dtype=dtype)
    mask = torch.arange(17) % 3 > 0
    clean = everything(q, k, v, vector, rule=mask)
    k[:, :, ~mask], v[:, :, ~mask] = torch.nan, torch.nan
    found = everything(q, k, v, vector, rule=mask)
    assert all(map(torch.equal, found, clean))
    assert all((x[:, :, ~mask] == 0).all() for x in found[2:4])


@LENGTHS
def test_a_query_blinded_by_its_bias_is_zero_forward_and_backward(K):
    bias = torch.zeros(2, 1, 1, K)
    bias[1] = -torch.inf
    out, dq, dk, dv, d_vector, d_bias = everything(*one(K=K), bias)
    assert all((x[1] == 0).all() and (x[0] != 0).any() for x in (out, dq, dk, dv, d_bias))
    assert d_vector.isfinite().all()


@LENGTHS
@BOTH
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_a_blind_query_is_zero_forward_and_backward_whatever_it_is(poison, dtype, K):
    q, k, v, vector = one(K=K, dtype=dtype)
    q[1], k[1], v[1] = poison, poison, poison
    out, dq, dk, dv, d_vector = everything(
        q, k, v, vector, rule=rules.padding(torch.tensor([K, 0]))
    )
    assert all((x[1] == 0).all() and (x[0] != 0).any() for x in (out, dq, dk, dv))
    assert d_vector.isfinite().all()


@LENGTHS
def test_nan_that_is_seen_shows(K):
    q, k, v, vector = one(K=K)
    k[0, 0, 5] = torch.nan
    _, dq, dk, dv, _ = everything(q, k, v, vector)
    assert all(x[0, 0].isnan().all() for x in (dq, dk, dv))
    assert all(x[1].isfinite().all() for x in (dq, dk, dv))


@BOTH
def test_one_key_passes_no_gradient_on(dtype):
    q, k, v, vector = one(K=1, dtype=dtype)
    out, dq, dk, dv, d_vector = everything(q, k, v, vector, direction=1.0)
    assert torch.equal(out, v) and (dv == 1).all()
    assert all((grad == 0).all() for grad in (dq, dk, d_vector))


def test_equal_values_pass_no_gradient_on():
    q, k, v, vector = one(dtype=HALF)
    _, *grads = everything(q, k, v[:, :, :1].expand_as(v).contiguous(), vector)
    assert all(grads[at].abs().max() < 1e-6 for at in (0, 1, 3))


@BOTH
def test_it_gives_what_bands_give(dtype, monkeypatch):
    call = one(1, 1, dtype=dtype)
    at_once = everything(*call)
    by_bands(monkeypatch)
    near = {"atol": 2e-2, "rtol": 2e-2} if dtype == HALF else {}
    torch.testing.assert_close(at_once, everything(*call), **near)


@BOTH
@pytest.mark.parametrize(("together", "numbers"), [(64, 64 * 16), (16, 8192), (8, 8 * 16)])
def test_blocks_and_chunks_do_not_matter(together, numbers, dtype, monkeypatch):
    call = *one(1, 2, 19, 40, Dv=20, dtype=dtype), torch.randn(19)
    whole = everything(*call, rule=rules.window(16))
    change(monkeypatch, SINGLE_QUERY_BLOCK_KEYS=together, SINGLE_QUERY_BLOCK_ELEMENTS=numbers)
    near = {"atol": 1e-2, "rtol": 1e-2} if dtype == HALF else {}
    torch.testing.assert_close(everything(*call, rule=rules.window(16)), whole, **near)


@LENGTHS
@pytest.mark.parametrize("learns", [True, False])
def test_it_is_one_launch(learns, K, monkeypatch):
    names, run = [], additive_plan.Plan.launch
    watched = lambda self, name, *x, **y: names.append(name) or run(self, name, *x, **y)  # noqa: E731
    change(monkeypatch, launch=watched)
    everything(*one(1, 1, K, dtype=HALF), *([torch.zeros(K)] if learns else []))
    assert [x for x in names if x != "combine"] == ["decode", f"single{' and bias' * learns}"]


def test_keys_that_heads_share_and_log_probabilities_go_another_way(monkeypatch):
    names, run = [], additive_plan.Plan.launch
    watched = lambda self, name, *x, **y: names.append(name) or run(self, name, *x, **y)  # noqa: E731
    change(monkeypatch, launch=watched, SMALL_MAX_LENGTH=0, tile=Tile(1, 1, 2, 1))
    assert_as_good_as(fused, plain, *inputs(1, 2, 1, 7, groups=1), slack=LUCK)
    q, k, _, vector = (x.requires_grad_() for x in one(1, 1))
    index = torch.zeros(1, 1, 1, dtype=torch.long)
    additive.log_probability(q, k, index, vector=vector, spec=sight(None, q, k)).sum().backward()
    assert "single" not in names and "weigh" in names


@LENGTHS
@BOTH
def test_the_same_call_gives_the_same_bits(dtype, K):
    call = one(K=K, dtype=dtype)
    first, *others = (everything(*call) for _ in range(3))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_layout_of_the_input_does_not_matter():
    q, k, v, vector = one(2, 2)
    expected = everything(q, k, v, vector)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    wide = [torch.nn.functional.pad(x, (1, 2))[..., 1:-2] for x in (q, k, v)]
    shared = q, k[:1].expand_as(k), v[:1].expand_as(v)
    for call in (turned, wide):
        assert all(map(torch.equal, everything(*call, vector), expected))
    whole = everything(*(x.contiguous() for x in shared), vector)
    assert all(map(torch.equal, everything(*shared, vector), whole))


def test_the_gradient_that_comes_may_be_spread():
    q, k, v, vector = (x.requires_grad_() for x in one())
    spread = torch.autograd.grad(fused(q, k, v, vector).sum(), (q, k, v, vector))
    expected = everything(q, k, v, vector, direction=1.0)[1:]
    assert all(map(torch.equal, spread, expected))


def test_a_second_derivative_is_refused_in_words():
    q, *others = (x.requires_grad_() for x in one())
    (dq,) = torch.autograd.grad(fused(q, *others).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(dq.sum(), q)


@LENGTHS
def test_it_is_a_well_formed_operator(K):
    q, k, v, vector = (x.requires_grad_() for x in one(K=K))
    bias = torch.randn(K, requires_grad=True)
    seen = sight(rules.both(rules.causal, torch.rand(K) < 0.8), q, k)
    rule = seen.first, seen.last, seen.ids, seen.mask, bias, seen.back, seen.ahead
    torch.library.opcheck(additive._forward, (q, k, v, None, vector, *rule))


@pytest.mark.compiled
def test_compiles_whole_and_gives_the_same():
    leaves = [x.requires_grad_() for x in one(dtype=HALF)]
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    found = []
    for run in (compiled, fused):
        out = run(*leaves, rule=rules.window(9))
        found.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    assert all(map(torch.equal, *found))
