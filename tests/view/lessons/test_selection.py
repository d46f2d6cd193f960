"""Soft, hard and local attention, and REINFORCE over a hundred draws."""

import math

import pytest
import torch

from regard.view.lessons.selection import LESSON, NUM_SAMPLES, reinforce_gradients, sample_keys

GIVEN = {"scores": [0.0, math.log(3)], "values": [2.0, 6.0], "focus": 0, "centre": 1.0}


def test_soft_and_hard_by_hand():
    found = LESSON.answer(GIVEN)
    assert found["soft"] == pytest.approx([0.25, 0.75], abs=1e-3)
    assert found["hard"] == [0.0, 1.0] and found["read_hard"] == 6.0
    assert found["read"] == pytest.approx(5, abs=1e-2)


def test_the_exact_gradient_is_that_of_autograd():
    found = LESSON.answer({})
    scores = torch.tensor(found["given"]["scores"], requires_grad=True)
    (scores.softmax(-1) @ torch.tensor(found["given"]["values"])).backward()
    assert found["gradient"] == pytest.approx(scores.grad.tolist(), abs=1e-5)


def test_local_attention_sees_its_window_alone():
    found = LESSON.answer({"centre": 3.0, "reach": 2.0})
    assert [i for i, w in enumerate(found["local"]) if w > 0] == [1, 2, 3, 4, 5]
    at = found["soft"]
    inside = sum(at[1:6])
    # Luong's Gaussian is 1 at the centre, and exp(−2) at the ends of the window
    assert found["local"][3] == pytest.approx(at[3] / inside, rel=1e-4)
    assert found["local"][1] == pytest.approx(at[1] / inside * math.exp(-2), rel=1e-4)


def test_reinforce_is_right_on_average():
    scores, v = torch.tensor([0.5, 1.0, -0.5]), torch.tensor([1.0, 4.0, 2.0])
    p = scores.softmax(-1)
    drawn = torch.arange(3)
    for baseline in (torch.tensor(0.0), (p * v).sum()):
        expected = (p[:, None] * reinforce_gradients(p, v, drawn, baseline)).sum(0)
        assert torch.allclose(expected, p * (v - (p * v).sum()), atol=1e-6)


def test_over_a_hundred_draws_it_is_noisy_and_a_baseline_calms_it():
    found = LESSON.answer({})
    assert len(found["drawn"]) == NUM_SAMPLES
    assert max(found["spread"]) > 4 * max(abs(g) for g in found["gradient"])
    assert sum(found["spread_steadied"]) < 0.6 * sum(found["spread"])


def test_the_running_mean_ends_at_the_estimate():
    found = LESSON.answer({"focus": 2})
    assert found["running"][-1] == pytest.approx(found["estimate"][2], abs=1e-5)
    assert found["running_steadied"][-1] == pytest.approx(found["estimate_steadied"][2], abs=1e-5)


def test_keys_are_drawn_as_often_as_they_weigh():
    scores = torch.tensor([0.0, math.log(4)])[None, None, :, None]
    counts = sum(torch.bincount(sample_keys(scores, seed), minlength=2) for seed in range(40))
    assert (counts / counts.sum()).tolist() == pytest.approx([0.2, 0.8], abs=0.03)


def test_each_score_has_a_value():
    with pytest.raises(ValueError, match="expected 2 values for 2 scores and a focus below 2"):
        LESSON.answer({**GIVEN, "values": [1.0, 2.0, 3.0]})
