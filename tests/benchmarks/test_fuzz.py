"""Random calls are right, and a bug that is put in is found by them."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.fuzz import campaign, draws, truth
from regard import dispatch
from regard.functional import (
    attention,
    biases,
    edited_selects,
    precision,
    rules,
    scores,
    selects,
)
from regard.kernels.additive import reference_tiled
from regard.kernels.backends import chunked, sdpa
from regard.looking import attention_record

CALLS = 80


def failures(numbers) -> Iterator[str]:
    """What is wrong, call by call."""
    for number in numbers:
        yield from (what for _, what in campaign.run(0, [number]).failures)


def ordinary(stop: int = CALLS) -> Iterator[int]:
    """Calls of ordinary sizes and magnitudes; not flex, which the shape checks hinder."""
    for number in range(stop):
        call = draws.call(0, number)
        kind = call.tags["magnitude"], call.tags["sizes"]
        if kind == ("one", "tiny") and call.backend != "flex":
            yield number


def test_random_calls_agree_with_a_program_that_shares_no_line_with_regard():
    assert list(failures(ordinary())) == []


def test_the_same_number_is_the_same_call():
    one, two = draws.call(3, 14), draws.call(3, 14)
    assert np.array_equal(one.q, two.q) and campaign.summary(one) == campaign.summary(two)
    assert campaign.summary(draws.call(3, 15)) != campaign.summary(one)


def wrong_scale(monkeypatch):
    monkeypatch.setattr(scores.Dot, "fold", lambda self, q, k: (q, k, (self.scale or 0.4) * 1.001))


def window_off_by_one(monkeypatch):
    def near(self, b, h, q, k):
        return (q - k).abs() < self.reach

    monkeypatch.setattr(rules.Window, "__call__", near)


def nan_on_blind_rows(monkeypatch):
    def opened(s):
        return s, torch.zeros_like(s[..., :1], dtype=torch.bool)

    monkeypatch.setattr(selects, "_open_blind_rows", opened)


def second_best_key(monkeypatch):
    monkeypatch.setattr(
        selects, "_best_keys", lambda s: s.sort(-1).indices[..., -min(2, s.shape[-1])]
    )


def gradient_twice(monkeypatch):
    before = scores.Additive.__call__

    def doubled(self, q, k):
        score = before(self, q, k)
        return 2 * score - score.detach()

    monkeypatch.setattr(scores.Additive, "__call__", doubled)


def leaking_padding(monkeypatch):
    monkeypatch.setattr(attention, "without_hidden_keys", lambda x, seen: x)


def fused_in_lower_precision(monkeypatch):
    before = sdpa._matmul_or_kernel

    def lowered(q, k, v, *rest):
        return before(q.bfloat16().to(q.dtype), k, v, *rest)

    monkeypatch.setattr(sdpa, "_matmul_or_kernel", lowered)


def look_at_other_weights(monkeypatch):
    before = attention_record.AttentionRecord.weights
    monkeypatch.setattr(
        attention_record.AttentionRecord, "weights", lambda self: before(self).roll(1, -1)
    )


BUGS = [
    *(wrong_scale, window_off_by_one, nan_on_blind_rows, second_best_key, gradient_twice),
    *(leaking_padding, fused_in_lower_precision, look_at_other_weights),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_bug_that_is_put_in_is_found(bug, monkeypatch):
    bug(monkeypatch)
    assert next(failures(ordinary()), None) is not None


def half_precision_off_by_two_percent(monkeypatch):
    before = sdpa._matmul_or_kernel
    share = {torch.bfloat16: 1.02}
    monkeypatch.setattr(
        sdpa, "_matmul_or_kernel", lambda q, *rest: before(q, *rest) * share.get(q.dtype, 1)
    )


def next_of_nearly_equal_keys(monkeypatch):
    def chosen(self, s):
        if s.shape[-1] <= self.n:
            return selects.softmax(s)
        top = s.detach().topk(self.n + 1, -1)
        near = top.values[..., -2:-1] - top.values[..., -1:] < 1e-3
        last = torch.where(near, top.indices[..., -1:], top.indices[..., -2:-1])
        kept = torch.zeros_like(s, dtype=torch.bool).scatter(-1, top.indices[..., :-2], True)
        return selects.softmax(s.masked_fill(~kept.scatter(-1, last, True), -torch.inf))

    monkeypatch.setattr(selects.TopK, "__call__", chosen)


def table_summed_in_half_precision(monkeypatch):
    monkeypatch.setattr(biases.Relative, "bind", lambda self, *sizes: self)


def chunks_at_the_first_places(monkeypatch):
    before = chunked._query_chunks

    def chunks(call, **named):
        rules = None
        for rows, part in before(call, **named):
            rules = rules or (part.rule, part.q.shape)
            same = rules[1] == part.q.shape
            yield rows, replace(part, rule=rules[0] if same else part.rule)

    monkeypatch.setattr(chunked, "_query_chunks", chunks)


def decoded_with_another_scale(monkeypatch):
    before = sdpa._matmul_attention
    monkeypatch.setattr(
        sdpa, "_matmul_attention", lambda q, k, v, m, s: before(q, k, v, m, s * 1.001)
    )


def logs_without_a_gradient(monkeypatch):
    before = edited_selects.log_weights
    monkeypatch.setattr("regard.dispatch.log_weights", lambda select, s: before(select, s).detach())


def autocast_in_the_reference(monkeypatch):
    for module in (precision, attention):
        monkeypatch.setattr(module, "no_autocast", lambda device: nullcontext())


def bias_gradient_of_the_last_block(monkeypatch):
    def fold(d, total, block):
        total.view((1,) * (4 - total.ndim) + total.shape).zero_()
        before(d, total, block)

    before = reference_tiled.add_bias_gradient
    monkeypatch.setattr(reference_tiled, "add_bias_gradient", fold)


def last_of_equal_keys(monkeypatch):
    def best(s):
        value, index = s.detach().flip(-1).max(-1)
        return torch.where(value == -torch.inf, -1, s.shape[-1] - 1 - index)

    monkeypatch.setattr(selects, "_best_keys", best)


def weights_cut_to_bfloat16_instead_of_rounded(monkeypatch):
    def cut(call, found):
        found = before(call, found)
        if call.q.dtype != torch.bfloat16 or found.dtype != torch.float32:
            return found
        return (found.detach().view(torch.int32) & -(1 << 16)).view(torch.float32)

    before = dispatch.zero_ablated_heads
    monkeypatch.setattr(dispatch, "zero_ablated_heads", cut)


def half_precision_off_by_half_a_percent(monkeypatch):
    before = sdpa._matmul_or_kernel
    share = {torch.bfloat16: 1.005}
    monkeypatch.setattr(
        sdpa, "_matmul_or_kernel", lambda q, *rest: before(q, *rest) * share.get(q.dtype, 1)
    )


def distance_to_a_centre_in_half_precision(monkeypatch):
    monkeypatch.setattr(rules, "to_float32", lambda x: x)


def centre_of_a_query_that_sees_nothing(monkeypatch):
    def weights(self, s):
        apart = (torch.arange(s.shape[-1]) - self.centre[..., None]) / self.width
        return selects.softmax(s) * torch.exp(-apart.square() / 2)

    monkeypatch.setattr(selects.Gaussian, "__call__", weights)


def forced_rows_that_sum_to_one(monkeypatch):
    def forced(self, s):
        weights = before(self, s)
        return weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)

    before = edited_selects.ForcedWeightSelect.__call__
    monkeypatch.setattr(edited_selects.ForcedWeightSelect, "__call__", forced)


def heat_without_a_gradient_in_float32(monkeypatch):
    def heated(self, s):
        return before(self, s.detach() if s.dtype == torch.float32 else s)

    before = edited_selects.TemperatureSelect.scaled_scores
    monkeypatch.setattr(edited_selects.TemperatureSelect, "scaled_scores", heated)


def heat_with_twice_the_gradient(monkeypatch):
    before = edited_selects.TemperatureSelect.scaled_scores
    monkeypatch.setattr(
        edited_selects.TemperatureSelect,
        "scaled_scores",
        lambda self, s: before(
            self, s + precision.to_float32(s) - precision.to_float32(s).detach()
        ),
    )


def slopes_in_float32(monkeypatch):
    before = biases.Alibi._slope
    monkeypatch.setattr(
        biases.Alibi,
        "_slope",
        lambda self, h: before(replace(self, dtype=torch.float32), h).to(self.dtype),
    )


def output_of_autocast_in_float32(monkeypatch):
    before = dispatch._run_backend

    def run(backend, call):
        out = before(backend, call)
        return out.float() if torch.is_autocast_enabled("cpu") else out

    monkeypatch.setattr(dispatch, "_run_backend", run)


def best_keys_of_a_look_in_another_order(monkeypatch):
    before = attention_record.AttentionRecord.top
    monkeypatch.setattr(
        attention_record.AttentionRecord,
        "top",
        lambda self, k: attention_record.Top(*(x.flip(-1) for x in before(self, k))),
    )


def entropy_of_a_look_in_bits(monkeypatch):
    before = attention_record.AttentionRecord.entropy
    monkeypatch.setattr(
        attention_record.AttentionRecord, "entropy", lambda self: before(self) * 1.4427
    )


def decoded_without_a_mask(monkeypatch):
    before = sdpa._matmul_attention
    monkeypatch.setattr(
        sdpa, "_matmul_attention", lambda q, k, v, mask, s: before(q, k, v, None, s)
    )


def scale_that_is_not_above_zero(monkeypatch):
    monkeypatch.setattr(sdpa, "_with_positive_scale", lambda q, scale: (q, scale))


def vectors_whose_squares_overflow(monkeypatch):
    def unit(x):
        return torch.nn.functional.normalize(precision.to_float32(x), dim=-1, eps=0)

    monkeypatch.setattr(scores, "unit_vectors", unit)


def tanh_by_a_sigmoid(monkeypatch):
    monkeypatch.setattr(scores, "tanh", lambda x: 2 * torch.sigmoid(2 * x) - 1)


def gradient_of_a_vector_off_in_bfloat16(monkeypatch):
    def steeper(self, q, k):
        v = self.vector
        if v.dtype == torch.bfloat16:
            v = v.detach().float() + (v - v.detach()).float() * (1 + 2**-7)
        return before(scores.Additive(v), q, k)

    before = scores.Additive.__call__
    monkeypatch.setattr(scores.Additive, "__call__", steeper)


def gradient_of_a_hidden_key(monkeypatch):
    def share(s, index):
        hidden = s.gather(-1, index[..., None]) == -torch.inf
        log = s.masked_fill(s == -torch.inf, -1e4).log_softmax(-1).gather(-1, index[..., None])
        return (log + torch.where(hidden, -torch.inf, 0.0))[..., 0]

    monkeypatch.setattr(attention, "log_softmax_at", share)


def look_that_rounds_nothing_it_folds(monkeypatch):
    def product(score, q, k):
        q, k, scale = score.fold(precision.to_float32(q), precision.to_float32(k))
        return (q * scale) @ k.mT

    monkeypatch.setattr(scores, "_product", product)


def weight_in_half_precision(monkeypatch):
    before = scores._project_queries
    monkeypatch.setattr(scores, "_project_queries", lambda q, w: before(q, w.to(q.dtype)))


# Bugs that few calls show, each with one that does.
RARE = [
    (half_precision_off_by_two_percent, 44),
    (next_of_nearly_equal_keys, 574),
    (table_summed_in_half_precision, 4077),
    (chunks_at_the_first_places, 523),
    (decoded_with_another_scale, 147),
    (logs_without_a_gradient, 388),
    (autocast_in_the_reference, 11),
    (bias_gradient_of_the_last_block, 3844),
    (last_of_equal_keys, 52),
    (weights_cut_to_bfloat16_instead_of_rounded, 27),
    (half_precision_off_by_half_a_percent, 44),
    (distance_to_a_centre_in_half_precision, 759),
    (centre_of_a_query_that_sees_nothing, 439),
    (forced_rows_that_sum_to_one, 392),
    (heat_without_a_gradient_in_float32, 1379),
    (best_keys_of_a_look_in_another_order, 9),
    (entropy_of_a_look_in_bits, 76),
    (decoded_without_a_mask, 5966),
    (scale_that_is_not_above_zero, 1641),
    (heat_with_twice_the_gradient, 197),
    (slopes_in_float32, 980),
    (output_of_autocast_in_float32, 11),
    (vectors_whose_squares_overflow, 20),
    (tanh_by_a_sigmoid, 174),
    (gradient_of_a_vector_off_in_bfloat16, 4077),
    (gradient_of_a_hidden_key, 140),
    (look_that_rounds_nothing_it_folds, 21268),
    (weight_in_half_precision, 5121),
]


@pytest.mark.parametrize(("bug", "number"), RARE, ids=lambda x: getattr(x, "__name__", None))
def test_a_bug_that_few_calls_show_is_found_by_one_of_them(bug, number, monkeypatch):
    assert list(failures([number])) == []
    bug(monkeypatch)
    assert len(list(failures([number]))) == 1


def test_the_truth_by_hand():
    q, k = np.array([[[[1.0, 2.0]]]]), np.array([[[[3.0, 4.0], [5.0, 6.0]]]])
    assert truth.scores(("dot", 1.0), q, k).tolist() == [[[[11.0, 17.0]]]]
    assert truth.seen(("causal",), 1, 1, 2, 3).astype(int).tolist() == [[[[1, 1, 0], [1, 1, 1]]]]
    row = np.log([[[[1.0, 3.0]]]])
    np.testing.assert_allclose(truth.softmax(row), [[[[0.25, 0.75]]]])
    np.testing.assert_allclose(truth.sparsemax(np.array([[[[1.0, 0.5]]]])), [[[[0.75, 0.25]]]])
    assert [truth.bucket(-d, 4, False, 8) for d in range(6)] == [0, 1, 2, 2, 3, 3]


def test_a_forced_weight_whose_rest_underflows_is_counted_apart_and_a_plain_one_is_not():
    for number, expected in ((24978, 1), (273, 0)):
        tally = campaign.run(24, [number])
        unsure = tally.counts["unsure force where rounding may empty the rest"]
        assert (unsure, tally.failures) == (expected, [])


def test_edited_logits_that_float16_cannot_hold_are_infinite_and_right():
    assert campaign.run(101, [68695, 89446]).failures == []


def test_a_failure_comes_with_the_command_that_shows_it_again():
    tally = campaign.Tally(2, failures=[(7, "attend float32: wrong")])
    last = campaign.report(tally, seed=5).splitlines()[-2:]
    assert last[0] == "python -m benchmarks fuzz --seed 5 --only 7  # attend float32: wrong"
    assert last[1] == "fuzz: 2 calls, 1 wrong, seed 5"
