"""The tiled kernel is additive attention: same numbers, gradients and laws, little memory."""

import json

import pytest
import torch

from regard.kernels.additive import reference_tiled as additive_reference_tiled
from regard.kernels.additive.reference_tiled import attention, log_probability
from tests.oracle import assert_as_good_as

B, H, Q, K, D, V = 2, 3, 5, 7, 11, 13  # primes: a swapped axis cannot hide
SPREADS = [(B, H, Q, K), (1, H, Q, K), (B, 1, Q, K), (B, H, 1, K), (B, H, Q, 1), (Q, K), (K,)]


@pytest.fixture(params=["one tile", "many tiles"])
def tiling(request, monkeypatch):
    """Every law holds in one pass and in tiles of 4 pairs that no length here divides."""
    if request.param == "many tiles":
        monkeypatch.setitem(additive_reference_tiled.TILE_BYTES, "cpu", 4 * D * 4)


def inputs(dtype=torch.float32, Q=Q, K=K, scale=1.0):
    q, k = scale * torch.randn(B, H, Q, D), scale * torch.randn(B, H, K, D)
    return [x.to(dtype) for x in (q, k, torch.randn(B, H, K, V), torch.randn(H, D))]


def plain_scores(q, k, vector, mask=None, bias=None):
    scores = torch.einsum("bhqkd,hd->bhqk", torch.tanh(q[:, :, :, None] + k[:, :, None]), vector)
    scores = scores.to(torch.promote_types(q.dtype, torch.float32))
    scores = scores if bias is None else scores + bias
    return scores if mask is None else scores.masked_fill(~mask, -torch.inf)


def plain(q, k, v, vector, mask=None, bias=None):
    weights = plain_scores(q, k, vector, mask, bias).softmax(-1)
    return weights.to(v.dtype) @ v


def ours(q, k, v, vector, mask=None, bias=None):
    return attention(q, k, v, vector=vector, mask=mask, bias=bias)


def test_two_keys_by_hand():
    # scores tanh(0) = 0 and tanh(1000) = 1, doubled: weights 1 and e², over 1 + e²
    q, k = torch.zeros(1, 1, 1, 1), torch.tensor([[[[0.0], [1000.0]]]])
    out = attention(q, k, torch.tensor([[[[0.0], [1.0]]]]), vector=torch.tensor([[2.0]]))
    assert out.item() == pytest.approx(0.880797, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("length", [1, 63, 130])
def test_errs_no_more_than_plain_pytorch(dtype, length):
    assert_as_good_as(ours, plain, *inputs(dtype, Q=length, K=length))


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 10.0, 50.0])
def test_errs_no_more_than_plain_at_any_scale(scale, tiling):
    assert_as_good_as(ours, plain, *inputs(scale=scale, Q=61, K=67))


@pytest.mark.parametrize("rows", [8, 200])
def test_errs_no_more_than_plain_summing_over_many_queries(rows, monkeypatch):
    monkeypatch.setitem(additive_reference_tiled.TILE_BYTES, "cpu", rows * 67 * D * 4)
    assert_as_good_as(ours, plain, *inputs(Q=1021, K=67))


def test_errs_no_more_than_plain_with_one_large_dimension(tiling):
    q, k, v, vector = inputs(scale=1e-3, Q=61, K=67)
    q[..., 3] *= 3e4
    k[..., 3] *= -3e4
    assert_as_good_as(ours, plain, q, k, v, vector)


def test_errs_no_more_than_plain_on_equal_rows(tiling):
    q, k, v, vector = inputs()
    q, k = q[:, :, :1].repeat(1, 1, Q, 1), k[:, :, :1].repeat(1, 1, K, 1)
    assert_as_good_as(ours, plain, q, k, v, vector)


@pytest.mark.parametrize("strength", [0.0, 1e-3, 30.0])
def test_errs_no_more_than_plain_at_any_strength_of_vector(strength, tiling):
    q, k, v, vector = inputs(Q=61, K=67)
    assert_as_good_as(ours, plain, q, k, v, strength * vector)


def test_a_large_bias_costs_no_more_digits_than_in_plain(tiling):
    *rest, vector = inputs(Q=61, K=67)
    bias = 300 + 10 * torch.randn(H, 61, 67)
    assert_as_good_as(
        lambda *x: ours(*x[:4], None, x[4]),
        lambda *x: plain(*x[:4], None, x[4]),
        *rest,
        vector,
        bias,
    )


def test_rows_that_see_one_key_give_the_scores_exactly_no_gradient(tiling):
    mask = torch.eye(Q, K, dtype=torch.bool)
    q, k, v, vector = (x.requires_grad_() for x in inputs())
    out = ours(q, k, v, vector, mask)
    assert torch.equal(out, v[:, :, :Q])
    grads = torch.autograd.grad(out, (q, k, vector), torch.randn_like(out))
    assert all((g == 0).all() for g in grads)


@pytest.mark.parametrize("shape", SPREADS, ids=str)
def test_mask_and_bias_spread_like_plain_ones(shape, tiling):
    bias = torch.randn(shape)
    mask = torch.rand(shape) < 0.7
    mask = mask.index_fill(-1, torch.tensor(0), True)
    assert_as_good_as(
        lambda *x: ours(*x[:4], mask, x[4]), lambda *x: plain(*x[:4], mask, x[4]), *inputs(), bias
    )


def test_one_number_for_all_scores_changes_nothing(tiling):
    *leaves, bias = [x.requires_grad_() for x in (*inputs(), torch.tensor(3.0))]
    out = ours(*leaves, torch.tensor(True), bias)
    torch.testing.assert_close(out, ours(*leaves))
    assert torch.autograd.grad(out.sum(), bias)[0].abs() < 1e-5


def test_gradients_are_right_in_float64(tiling):
    leaves = [x.requires_grad_() for x in inputs(torch.float64)]
    bias = torch.randn(H, 1, K, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(B, 1, Q, K) < 0.8
    index = mask.expand(B, H, Q, K).int().argmax(-1)

    def point(q, k, _, vector, bias):
        return log_probability(q, k, index, vector=vector, mask=mask, bias=bias)

    for f in (lambda *x: ours(*x[:4], mask, x[4]), point):
        assert torch.autograd.gradcheck(f, (*leaves, bias), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_log_probability_errs_no_more_than_plain(dtype, tiling):
    q, k, _, vector = inputs(dtype)
    index = torch.randint(K, (B, H, Q))

    def plain_choice(q, k, vector):
        return (
            plain_scores(q, k, vector)
            .log_softmax(-1)
            .gather(-1, index[..., None])[..., 0]
            .to(q.dtype)
        )

    assert_as_good_as(
        lambda q, k, vector: log_probability(q, k, index, vector=vector), plain_choice, q, k, vector
    )


def test_a_choice_that_may_not_be_seen_is_impossible_and_has_no_gradient(tiling):
    q, k, _, vector = (x.requires_grad_() for x in inputs())
    mask = torch.arange(K) > 0
    chosen = log_probability(
        q, k, torch.zeros(B, H, Q, dtype=torch.int64), vector=vector, mask=mask
    )
    assert (chosen == -torch.inf).all()
    assert all((g == 0).all() for g in torch.autograd.grad(chosen.sum(), (q, k, vector)))


@pytest.mark.parametrize("by", ["mask", "bias"])
def test_a_row_that_sees_nothing_is_zero_forward_and_backward(by, tiling):
    mask = (torch.arange(Q) != 2)[:, None].expand(Q, K)
    bias = torch.zeros(Q, K).masked_fill(~mask, -torch.inf).requires_grad_()
    leaves = [x.requires_grad_() for x in inputs()]
    out = ours(*leaves, mask) if by == "mask" else ours(*leaves, None, bias)
    assert (out[:, :, 2] == 0).all()
    assert (out[:, :, [0, 1, 3, 4]] != 0).all()
    grads = torch.autograd.grad(out.sum(), [*leaves, *([bias] if by == "bias" else [])])
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0][:, :, 2] == 0).all()


def test_all_rows_blind_give_zeros(tiling):
    leaves = [x.requires_grad_() for x in inputs()]
    out = ours(*leaves, torch.zeros((), dtype=torch.bool))
    assert (out == 0).all()
    assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), leaves))


@pytest.mark.parametrize(("queries", "keys"), [(0, K), (Q, 0), (0, 0)])
def test_no_queries_or_no_keys_give_zeros(queries, keys):
    leaves = [x.requires_grad_() for x in inputs(Q=queries, K=keys)]
    out = ours(*leaves, torch.ones(queries, keys, dtype=torch.bool))
    assert out.shape == (B, H, queries, V)
    assert (out == 0).all()
    assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), leaves))


def test_an_empty_batch_gives_an_empty_answer():
    q, k, v, vector = inputs()
    assert ours(q[:0], k[:0], v[:0], vector).shape == (0, H, Q, V)


def test_keys_outside_a_window_cost_nothing(monkeypatch):
    monkeypatch.setitem(additive_reference_tiled.TILE_BYTES, "cpu", 16 * D * 4)
    seen, tanh = [], additive_reference_tiled._TiledCall.tanh
    monkeypatch.setattr(
        additive_reference_tiled._TiledCall,
        "tanh",
        lambda s, q, k: seen.append(len(q) * q.shape[1] * k.shape[1]) or tanh(s, q, k),
    )
    place = torch.arange(131)
    ours(*inputs(Q=131, K=131), (place[:, None] - place).abs() <= 2)
    assert sum(seen) <= B * H * 131 * (4 + 5)  # rows of a tile, and the window


def test_layout_of_the_input_does_not_matter(tiling):
    q, k, v, vector = inputs()
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(ours(*turned, vector), ours(q, k, v, vector))


def test_autocast_does_not_lower_the_precision():
    leaves = [x.requires_grad_() for x in inputs()]
    out = ours(*leaves)
    grads = torch.autograd.grad(out.sum(), leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = ours(*leaves)
        assert torch.equal(cast, out)
        assert all(map(torch.equal, torch.autograd.grad(cast.sum(), leaves), grads))


def test_a_second_derivative_is_refused():
    q, k, v, vector = (x.requires_grad_() for x in inputs())
    (dq,) = torch.autograd.grad(ours(q, k, v, vector).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="the tiled form has no second derivative"):
        dq.sum().backward()


def test_memory_does_not_hold_a_query_key_width_tensor(tmp_path):
    q, k, v, vector = (
        torch.randn(s, requires_grad=True) for s in [(1, 1, 509, 256)] * 3 + [(1, 256)]
    )
    with torch.profiler.profile(profile_memory=True) as profile:
        ours(q, k, v, vector).sum().backward()
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    events = [e["args"] for e in events if e["name"] == "[memory]"]
    before = events[0]["Total Allocated"] - events[0]["Bytes"]
    peak = max(e["Total Allocated"] for e in events) - before
    assert additive_reference_tiled.TILE_BYTES["cpu"] <= peak <= 509 * 509 * 256 * 4 / 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_it_is_a_well_formed_operator(dtype):
    q, k, v, vector = (x.requires_grad_() for x in inputs(dtype))
    index = torch.randint(K, (B, H, Q, 1))
    mask, bias = torch.rand(Q, K) < 0.8, torch.randn(B, 1, Q, K, requires_grad=True)
    torch.library.opcheck(additive_reference_tiled._forward, (q, k, v, index, vector, mask, bias))
    torch.library.opcheck(additive_reference_tiled._forward, (q, k, v, index, vector, None, None))


@pytest.mark.compiled
def test_compiles_whole_and_gives_the_same():
    leaves = [x.requires_grad_() for x in inputs()]
    mask = torch.rand(B, 1, Q, K) < 0.8
    eager, whole = ours(*leaves, mask), torch.compile(ours, fullgraph=True)(*leaves, mask)
    torch.testing.assert_close(whole, eager)
    expected = torch.autograd.grad(eager.sum(), leaves)
    torch.testing.assert_close(torch.autograd.grad(whole.sum(), leaves), expected)
