"""Heads: one averages two needs, two do both."""

import pytest
import torch

from regard.view.lessons.heads import FIRST_TOKEN, LESSON, PREVIOUS_TOKEN, TOKENS, split_values


def test_one_head_brings_back_the_average_of_two_needs():
    found = LESSON.answer({"heads": "1"})
    v = torch.tensor(found["values"])
    for i in range(2, TOKENS):
        blend = (v[PREVIOUS_TOKEN[i]] + v[FIRST_TOKEN[i]]) / 2
        assert found["read"][i] == pytest.approx(blend.tolist(), abs=1e-5)
    assert found["error"] > 0.2


@pytest.mark.parametrize("heads", ["2", "4"])
def test_two_heads_of_the_same_width_bring_back_both(heads):
    found = LESSON.answer({"heads": heads})
    assert found["error"] < 1e-5
    assert torch.allclose(torch.tensor(found["read"]), torch.tensor(found["wanted"]), atol=1e-5)


def test_no_other_blend_of_one_head_is_better_on_average():
    errors = {}
    for share in (0.3, 0.5, 0.7):
        v = torch.randn(4000, 2, 4, generator=torch.Generator().manual_seed(0))
        blend = share * v[:, 0] + (1 - share) * v[:, 1]
        wanted = torch.cat([v[:, 0, :2], v[:, 1, 2:]], -1)
        errors[share] = (blend - wanted).square().mean().item()
    assert min(errors, key=errors.get) == 0.5


def test_without_a_head_its_need_alone_is_missed():
    found = LESSON.answer({"heads": "2", "killed": [1]})
    assert found["errors"][0] < 1e-5 and found["errors"][1] > 0.5
    assert all(row[2:] == [0.0, 0.0] for row in found["read"])


def test_heads_that_are_not_there_cannot_be_killed():
    with pytest.raises(ValueError, match="lesson heads: killed: there are 2 heads, got 3"):
        LESSON.answer({"heads": "2", "killed": [0, 3]})


def test_split_keeps_neighbours_in_one_head():
    v = torch.arange(24.0).view(6, 4)
    assert split_values(v, 2)[0, 1, 0].tolist() == [2.0, 3.0]
