"""One query on a card: `pytest -o addopts= tests/kernels/test_additive_single_gpu.py`."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels.additive import plan as additive_plan
from regard.kernels.additive.plan import plan_call
from regard.kernels.mask_spec import MaskSpec
from tests.kernels.calls import change, compiled_and_not, everything, fused, inputs, plain
from tests.oracle import assert_as_good_as

pytestmark = pytest.mark.gpu

FULL, HALF, HALF16 = torch.float32, torch.bfloat16, torch.float16
EACH = pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
# A decoder's step, and one over keys of three blocks.
STEPS = pytest.mark.parametrize(("B", "K"), [(256, 16), (64, 130)])
RULES = {
    "window": lambda B, K: rules.window(4),
    "padding": lambda B, K: rules.padding(torch.arange(B, device="cuda") % (K + 1)),
    "left padding": lambda B, K: rules.padding(
        torch.arange(B, device="cuda") % (K + 1), side="left"
    ),
    "documents": lambda B, K: rules.documents(torch.arange(K, device="cuda").expand(B, K) // 7),
    "mask": lambda B, K: torch.rand(B, 1, 1, K, device="cuda") < 0.3,
    "all blind but one": lambda B, K: (torch.arange(B, device="cuda") == 1)[:, None, None, None],
}


@pytest.fixture(autouse=True)
def planned_anew():
    """No launch is remembered."""
    additive_plan._make_plan.cache_clear()
    yield
    additive_plan._make_plan.cache_clear()


def slack(dtype):
    """With so few numbers the largest error of plain float32 is a matter of luck."""
    return 4.0 if dtype == FULL else 2.0


def step(B, K, D=256, *, H=1, Dv=512, dtype=HALF):
    return inputs(B, H, 1, K, D, Dv=Dv, device="cuda", dtype=dtype)


@STEPS
@EACH
def test_errs_no_more_than_plain_pytorch(dtype, B, K):
    call = step(B, K, dtype=dtype)
    assert_as_good_as(fused, plain, *call)
    assert "single" in plan_call(*call[:3], None, call[3], MaskSpec(), None)[1].kernels


@EACH
@pytest.mark.parametrize("K", [5, 64, 65, 1000])
@pytest.mark.parametrize(("D", "Dv"), [(8, 8), (100, 200), (1024, 512), (512, 1024)])
def test_errs_no_more_than_plain_at_any_size(D, Dv, K, dtype):
    assert_as_good_as(fused, plain, *step(3, K, D, H=2, Dv=Dv, dtype=dtype), slack=slack(dtype))


@EACH
@pytest.mark.parametrize(("D", "Dv"), [(8, 8), (100, 200), (1024, 512)])
def test_a_single_key_is_read_whatever_it_scores_so_that_nothing_flows_to_the_scores(D, Dv, dtype):
    q, k, v, vector = (x.requires_grad_() for x in step(3, 1, D, H=2, Dv=Dv, dtype=dtype))
    out = fused(q, k, v, vector)
    torch.testing.assert_close(out, v, rtol=0, atol=0)
    for grad in torch.autograd.grad(out.float().square().sum(), [q, k, vector]):
        assert grad.double().abs().max() < 1e-9


@STEPS
@EACH
@pytest.mark.parametrize("name", RULES)
def test_under_a_rule_it_errs_no_more_than_plain(name, dtype, B, K):
    rule = RULES[name](B, K)
    ours, theirs = lambda *x: fused(*x, rule=rule), lambda *x: plain(*x, rule=rule)
    assert_as_good_as(ours, theirs, *step(B, K, 64, Dv=40, dtype=dtype), slack=slack(dtype))


@STEPS
@pytest.mark.parametrize("dtype", [FULL, HALF], ids=str)
def test_a_bias_spreads_and_learns_like_a_plain_one(dtype, B, K):
    bias = torch.randn(2, 1, K).to("cuda", dtype)
    assert_as_good_as(fused, plain, *step(B, K, 64, H=2, Dv=64, dtype=dtype), bias)


@STEPS
@EACH
@pytest.mark.parametrize("scale", [1e-3, 0.1, 5.0, 50.0])
def test_errs_no_more_than_plain_at_any_scale(scale, dtype, B, K):
    q, k, v, vector = step(B, K, 64, Dv=64, dtype=dtype)
    assert_as_good_as(fused, plain, scale * q, scale * k, v, vector, slack=slack(dtype))


@STEPS
@EACH
@pytest.mark.parametrize("poison", [torch.nan, torch.inf], ids=str)
def test_what_is_not_seen_reaches_no_gradient_and_has_none(poison, dtype, B, K):
    q, k, v, vector = step(B, K, dtype=dtype)
    hidden = torch.arange(K, device="cuda") >= 5
    clean = everything(q, k, v, vector, rule=~hidden)
    k[:, :, hidden], v[:, :, hidden] = poison, poison
    found = everything(q, k, v, vector, rule=~hidden)
    assert all(map(torch.equal, found, clean))
    assert all((x[:, :, hidden] == 0).all() for x in found[2:4])


@STEPS
def test_a_blind_query_is_zero_forward_and_backward_even_if_it_is_nan(B, K):
    q, k, v, vector = step(B, K)
    q[1], k[1], v[1] = torch.nan, torch.nan, torch.nan
    lengths = torch.full((B,), K, device="cuda").index_fill(0, torch.tensor([1], device="cuda"), 0)
    out, *grads = everything(q, k, v, vector, rule=rules.padding(lengths))
    assert all((x[1] == 0).all() for x in (out, *grads[:3]))
    assert all(x.isfinite().all() for x in (out, *grads))


@STEPS
@EACH
def test_the_same_call_gives_the_same_bits(dtype, B, K):
    call = step(B, K, dtype=dtype)
    first, *others = (everything(*call) for _ in range(10))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


@STEPS
def test_it_gives_what_bands_give(B, K, monkeypatch):
    call = step(B, K)
    alone = everything(*call)
    change(monkeypatch, single_query_block=None)
    for mine, other in zip(alone, everything(*call), strict=True):
        torch.testing.assert_close(mine, other, atol=3e-2, rtol=3e-2)


@STEPS
@pytest.mark.parametrize("learns", [True, False])
def test_a_captured_step_gives_what_the_next_batch_gives(learns, B, K):
    leaves = [x.requires_grad_() for x in step(B, K)]
    leaves += [torch.zeros(B, 1, 1, K, device="cuda", requires_grad=learns)]
    rule = rules.padding(torch.arange(B, device="cuda") % K + 1)

    def train():
        out = fused(*leaves, rule=rule)
        return [out, *torch.autograd.grad(out.sum(), [x for x in leaves if x.requires_grad])]

    captured = replayed(train, leaves)
    assert all(map(torch.equal, captured, train()))


def replayed(train, leaves):
    """What a captured step gives when it runs again, on other numbers."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        train()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = train()
    with torch.no_grad():
        for x in leaves:
            x.copy_(torch.randn_like(x))
    graph.replay()
    return [x.clone() for x in found]


@pytest.mark.parametrize("rule", [None, rules.window(9)], ids=["all", "window"])
def test_compiles_whole_and_gives_the_same(rule):
    leaves = [x.requires_grad_() for x in step(8, 16)]
    for mine, other in zip(*compiled_and_not(leaves, rule), strict=True):
        torch.testing.assert_close(mine, other, atol=3e-2, rtol=3e-2)


# Last, because an address that is not aligned ends all that a process does on a card.


@EACH
def test_inputs_and_gradients_may_lie_anywhere(dtype):
    call = step(8, 16, dtype=dtype)
    expected = everything(*call)
    moved = [torch.cat([x.new_zeros(1), x.flatten()])[1:].view_as(x) for x in call]
    leaves = [x.detach().requires_grad_() for x in moved]
    out = fused(*leaves)
    towards = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    apart = torch.cat([out.new_zeros(1), out.flatten()])
    grads = torch.autograd.grad(apart, leaves, torch.cat([towards.new_zeros(1), towards.flatten()]))
    for mine, other in zip((out, *grads), expected, strict=True):
        torch.testing.assert_close(mine, other, atol=3e-2, rtol=3e-2)
