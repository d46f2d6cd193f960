"""Local attention beside loops written from the equations of Luong et al. 2015, 3.2."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard import look
from regard.functional import rules, selects
from regard.layers import Additive, Dot, General, LocalM, LocalP

B, Q, K, E, M, REACH = 2, 5, 17, 7, 3, 2


def some(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(B, Q, E, dtype=dtype), torch.randn(B, K, M, dtype=dtype)


def within(layer, x, memory, centre, length):
    """The places in reach of a centre, and their softmax."""
    places = [s for s in range(length) if abs(s - centre) <= REACH]
    weight = layer.attention.score.weight[0]
    return places, torch.stack([x @ weight @ memory[s] for s in places]).softmax(0)


def predicted(layer, x, memory, length):
    """One step of local-p."""
    hidden = torch.tanh(layer.hidden.weight @ x)
    centre = length * torch.sigmoid(layer.vector.weight[0] @ hidden)
    places, weights = within(layer, x, memory, centre.item(), length)
    near = [torch.exp(-((s - centre) ** 2) / (2 * (REACH / 2) ** 2)) for s in places]
    return sum(w * n * memory[s] for w, n, s in zip(weights, near, places, strict=True))


@pytest.mark.parametrize("lengths", [[K, K], [K, 6]], ids=str)
def test_local_p_is_the_paper_step_by_step(lengths):
    layer = LocalP(E, M, reach=REACH).double()
    x, memory = some(torch.float64)
    out = layer(x, memory, lengths=torch.tensor(lengths))
    for b, length in enumerate(lengths):
        for t in range(Q):
            assert_close(out[b, t], predicted(layer, x[b, t], memory[b], length))


def test_the_gradient_finds_what_predicts_the_centre():
    layer = LocalP(E, M, reach=REACH).double()
    x, memory = some(torch.float64)
    steps = [predicted(layer, x[b, t], memory[b], K) for b in range(B) for t in range(Q)]
    weights = [layer.vector.weight, layer.hidden.weight, layer.attention.score.weight]
    expected = torch.autograd.grad(torch.stack(steps).square().sum(), weights)
    found = torch.autograd.grad(layer(x, memory).square().sum(), weights)
    assert all(grad.any() for grad in found)
    assert_close(found, expected)


def test_local_p_by_hand():
    layer = LocalP(1, 1, reach=2, attention=Dot())
    memory = torch.tensor([[[0.0], [0.0], [4.0], [0.0]]])
    x = torch.zeros(1, 1, 1)
    # the sigmoid of 0 is a half: the centre is 2, all of the four in reach, with 1/4 each
    assert layer.centre(x, memory).tolist() == [[2.0]]
    assert layer(x, memory).item() == pytest.approx(1.0)
    shifted = torch.tensor([[[0.0], [4.0], [0.0], [0.0]]])
    assert layer(x, shifted).item() == pytest.approx(math.exp(-1 / 2))


def test_local_m_looks_around_its_own_step():
    layer, (x, memory) = LocalM(E, M, reach=REACH), some()
    out = layer(x, memory)
    for b in range(B):
        for t in range(Q):
            places, weights = within(layer, x[b, t], memory[b], t, K)
            assert_close(out[b, t], weights @ memory[b, places])


@pytest.mark.parametrize("kind", [LocalM, LocalP])
def test_one_step_at_a_time_is_all_at_once(kind):
    layer, (x, memory) = kind(E, M, reach=REACH), some()
    keys, steps = layer.keys(memory), []
    for t in range(Q):
        start = {"start": t} if kind is LocalM else {}
        steps.append(layer(x[:, t : t + 1], memory, keys=keys, **start))
    assert_close(torch.cat(steps, 1), layer(x, memory))


def test_a_step_may_be_counted_by_a_tensor():
    layer, (x, memory) = LocalM(E, M, reach=REACH), some()
    assert_close(layer(x, memory, start=torch.tensor(4)), layer(x, memory, start=4))
    assert layer.centre(x, start=4)[1].tolist() == [4, 5, 6, 7, 8]


def test_a_step_beyond_the_end_reads_nothing():
    layer, (x, memory) = LocalM(E, M, reach=REACH), some()
    out = layer(x, memory, start=K)
    assert out[:, :2].any()
    assert not out[:, 2:].any()


@pytest.mark.parametrize("kind", [LocalM, LocalP])
def test_padding_changes_nothing_not_even_if_it_is_nan(kind):
    layer, (x, memory) = kind(E, M, reach=REACH), some()
    more = torch.cat([memory, torch.full((B, 4, M), math.nan)], 1)
    lengths = torch.full((B,), K)
    assert_close(layer(x, more, lengths=lengths), layer(x, memory))


@pytest.mark.parametrize("kind", [LocalM, LocalP])
def test_a_batch_is_its_rows(kind):
    layer, (x, memory) = kind(E, M, reach=REACH), some()
    lengths = torch.tensor([K, 9])
    rows = [layer(x[i : i + 1], memory[i : i + 1], lengths=lengths[i : i + 1]) for i in range(B)]
    assert_close(layer(x, memory, lengths=lengths), torch.cat(rows))


@pytest.mark.parametrize("kind", [LocalM, LocalP])
def test_a_rule_hides_more(kind):
    layer, (x, memory) = kind(E, M, reach=REACH), some()
    assert_close(layer(x, memory, rule=rules.prefix(K)), layer(x, memory))
    assert not layer(x, memory, rule=rules.prefix(0)).any()


def test_local_p_costs_its_window_and_can_be_looked_at():
    layer, (x, memory) = LocalP(E, M, reach=REACH, attention=Additive(E, M, 11)), some()
    with look(layer) as seen:
        out = layer(x, memory)
    weights = seen["attention"].weights()[:, 0]
    assert seen["attention"].why.backend == "chunked"
    assert weights.count_nonzero(-1).max() <= 2 * REACH + 1
    assert_close(weights @ memory, out)


def test_gradients_are_right():
    layer = LocalP(2, 2, reach=1, attention=General(2, 2)).double()
    x, memory = torch.randn(1, 2, 2).double(), torch.randn(1, 5, 2).double()
    inputs = (x.requires_grad_(), memory.requires_grad_(), *layer.parameters())
    assert torch.autograd.gradcheck(lambda x, memory, *_: layer(x, memory), inputs)


def test_weights_are_saved_and_loaded():
    (x, memory), a, b = some(), LocalP(E, M, reach=REACH), LocalP(E, M, reach=REACH)
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(x, memory), b(x, memory))


def test_a_reach_that_reaches_nothing_is_refused():
    with pytest.raises(ValueError, match="LocalM: expected reach >= 0, got -1"):
        LocalM(E, M, reach=-1)
    with pytest.raises(ValueError, match="LocalP: expected reach >= 1, got 0"):
        LocalP(E, M, reach=0)


def test_inputs_that_do_not_fit_are_refused():
    layer, (x, memory) = LocalP(E, M, reach=REACH), some()
    with pytest.raises(ValueError, match=r"LocalP: expected x of shape \(B, Q, E=7\)"):
        layer(memory, memory)
    with pytest.raises(ValueError, match=r"LocalP: expected lengths of shape \(B=2\), got \(3,\)"):
        layer(x, memory, lengths=torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="LocalP: expected lengths as a tensor of integers"):
        layer(x, memory, lengths=torch.tensor([1.0, 2.0]))


def hiding(lengths):
    """The padding as a bias."""
    return torch.where(torch.arange(K) < lengths[:, None], 0.0, -math.inf)[:, None, None]


@pytest.mark.parametrize("select", [selects.softmax, selects.hard], ids=["softmax", "hard"])
@pytest.mark.parametrize("kind", [LocalM, LocalP])
def test_a_bias_hides_what_lengths_hide_and_the_window_stays(kind, select):
    layer, (x, memory), lengths = kind(E, M, reach=REACH), some(), torch.tensor([K, 3])
    ruled = layer(x, memory, lengths=lengths, select=select)
    given = {"lengths": lengths} if kind is LocalP else {}
    assert_close(layer(x, memory, bias=hiding(lengths), select=select, **given), ruled)
    assert_close(layer(x, memory, bias=torch.zeros(()), lengths=lengths, select=select), ruled)


def test_each_row_may_stand_at_a_step_of_its_own():
    layer, (x, memory) = LocalM(E, M, reach=REACH), some()
    out = layer(x[:, :1], memory, start=torch.tensor([1, 9]), bias=torch.zeros(()))
    rows = [layer(x[b : b + 1, :1], memory[b : b + 1], start=s) for b, s in enumerate((1, 9))]
    assert_close(out, torch.cat(rows))


def test_a_step_beyond_the_end_reads_nothing_under_a_bias_too():
    layer, (x, memory) = LocalM(E, M, reach=REACH), some()
    out = layer(x, memory.requires_grad_(), start=torch.tensor(K), bias=torch.zeros(()))
    assert out[:, :2].any() and not out[:, 2:].any()
    out.sum().backward()
    assert memory.grad.isfinite().all()


def test_local_p_draws_by_the_product_of_softmax_and_gaussian():
    layer, (x, memory) = LocalP(E, M, reach=REACH), some()
    given = []
    layer(x, memory, select=lambda scores: given.append(scores) or selects.softmax(scores))
    centre = layer.centre(x, memory)
    scores = torch.einsum("bqe,em,bkm->bqk", x, layer.attention.score.weight[0], memory)
    apart = torch.arange(K) - centre[..., None]
    product = scores.exp() * torch.exp(-(apart**2) / (2 * (REACH / 2) ** 2))
    product = product.masked_fill(apart.abs() > REACH, 0)
    assert_close(given[0][:, 0].softmax(-1), product / product.sum(-1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_centre_at_the_end_finds_its_way_back_in_half_precision(dtype):
    layer = LocalP(E, E, reach=REACH, attention=Dot()).to(dtype)
    # a logit of 7 or so, whose sigmoid is 1 in half precision
    torch.nn.init.constant_(layer.hidden.weight, 1.0)
    torch.nn.init.constant_(layer.vector.weight, 1.0)
    x, memory = torch.ones(B, Q, E, dtype=dtype), torch.randn(B, K, E).to(dtype)
    assert (layer.centre(x, memory) < K).all()
    layer(x, memory)[:, :, 0].sum().backward()
    assert layer.vector.weight.grad.abs().max() > 0
