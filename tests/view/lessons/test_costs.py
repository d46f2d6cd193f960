"""What attention costs, counted, and that the cheaper ways answer the same."""

import pytest
import torch

from regard.functional import rules
from regard.view.lessons.costs import LESSON, NUM_STREAMED_KEYS, online_softmax, window_pair_count


def test_eight_thousand_tokens_are_256_mebibytes():
    found = LESSON.answer({"length": 8192})
    assert found["bytes"]["whole"] == 256 * 2**20
    assert found["operations"]["whole"] == 4 * 64 * 8192**2


@pytest.mark.parametrize("length, reach", [(16, 0), (16, 3), (23, 22), (17, 200)])
def test_pairs_of_a_window_are_those_the_rule_lets_through(length, reach):
    mask = rules.dense(rules.window(reach), 1, 1, length, length)
    assert window_pair_count(length, reach) == mask.sum().item()


@pytest.mark.parametrize("block", [1, 3, 4, 16])
def test_streaming_gives_the_same_answer(block):
    found = LESSON.answer({"block": block, "seed": 5})
    assert found["streaming"] == pytest.approx(found["read"], abs=1e-6)
    assert len(found["steps"]) == -(-NUM_STREAMED_KEYS // block)


def test_streaming_by_hand_shrinks_what_was_summed_before():
    a, b = online_softmax(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 6.0]), 1)
    assert a == {"most": 1, "shrunk": 0, "total": 1, "blend": 2, "read": 2}
    assert b["shrunk"] == pytest.approx(0.1353353)
    assert b["read"] == pytest.approx((2 * 0.1353353 + 6) / 1.1353353)


def test_streaming_does_not_overflow():
    scores = torch.tensor([500.0, 1000.0, 999.0])
    last = online_softmax(scores, torch.tensor([1.0, 2.0, 3.0]), 2)[-1]
    assert last["read"] == pytest.approx((scores.softmax(-1) @ torch.tensor([1.0, 2, 3])).item())


@pytest.mark.parametrize("reach", [2, 16, 300])
def test_a_window_run_as_a_window_gives_what_a_mask_gives(reach):
    assert LESSON.answer({"length": 256, "reach": reach})["difference"] < 1e-5


def test_a_long_text_never_forms_its_square():
    with torch.profiler.profile(profile_memory=True) as told:
        LESSON.answer({"length": 8192, "reach": 512})
    largest = max(event.cpu_memory_usage for event in told.events())
    assert largest < 2 * 2**20 < 4 * 8192**2
