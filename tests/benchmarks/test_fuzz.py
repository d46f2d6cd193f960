"""Random calls are right, and a bug that is put in is found by them."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from benchmarks.fuzz import campaign, draws, truth
from regard.functional import attention, rules, scores, selects
from regard.kernels import sdpa
from regard.looking import sight

CALLS = 60


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

    monkeypatch.setattr(selects, "_opened", opened)


def second_best_key(monkeypatch):
    monkeypatch.setattr(selects, "_best", lambda s: s.sort(-1).indices[..., -min(2, s.shape[-1])])


def gradient_twice(monkeypatch):
    before = scores.Additive.__call__

    def doubled(self, q, k):
        score = before(self, q, k)
        return 2 * score - score.detach()

    monkeypatch.setattr(scores.Additive, "__call__", doubled)


def leaking_padding(monkeypatch):
    monkeypatch.setattr(attention, "without_hidden", lambda x, seen: x)


def fused_in_lower_precision(monkeypatch):
    before = sdpa._call

    def lowered(q, k, v, *rest):
        return before(q.bfloat16().to(q.dtype), k, v, *rest)

    monkeypatch.setattr(sdpa, "_call", lowered)


def look_at_other_weights(monkeypatch):
    before = sight.Sight.weights
    monkeypatch.setattr(sight.Sight, "weights", lambda self: before(self).roll(1, -1))


BUGS = [
    *(wrong_scale, window_off_by_one, nan_on_blind_rows, second_best_key, gradient_twice),
    *(leaking_padding, fused_in_lower_precision, look_at_other_weights),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_bug_that_is_put_in_is_found(bug, monkeypatch):
    bug(monkeypatch)
    assert next(failures(ordinary()), None) is not None


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
