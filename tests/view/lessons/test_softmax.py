"""The softmax by hand."""

import math

import pytest
import torch

from regard.functional import selects
from regard.view.lessons.softmax import LESSON, naive_softmax

SCORES = [1.0, 2.0, 4.0]


def test_weights_by_hand():
    found = LESSON.answer({"scores": SCORES})
    total = math.e + math.e**2 + math.e**4
    assert found["weights"] == pytest.approx([math.exp(s) / total for s in SCORES])
    assert found["total"] == pytest.approx(1)


@pytest.mark.parametrize("shift", [-1000.0, -3.0, 256.0, 1000.0])
def test_a_shift_of_all_scores_changes_nothing(shift):
    still, shifted = (LESSON.answer({"scores": SCORES, "shift": by}) for by in (0.0, shift))
    assert shifted["weights"] == pytest.approx(still["weights"], abs=1e-6)


def test_the_formula_as_it_stands_breaks_where_ours_does_not():
    fine, broken = (LESSON.answer({"scores": SCORES, "shift": by}) for by in (0.0, 1000.0))
    assert fine["naive"] == pytest.approx(fine["weights"])
    assert broken["naive"] == [None, None, None] and broken["powers"] == [None, None, None]
    assert sum(broken["weights"]) == pytest.approx(1)


def test_the_formula_breaks_from_eighty_nine_on():
    assert naive_softmax(torch.tensor([88.0, 0.0])).isfinite().all()
    assert not naive_softmax(torch.tensor([89.0, 0.0])).isfinite().all()


def test_the_jacobian_is_that_of_autograd_and_its_rows_sum_to_nothing():
    found = LESSON.answer({"scores": SCORES})
    scores = torch.tensor(SCORES)[None, None, None]
    truth = torch.autograd.functional.jacobian(selects.softmax, scores)[0, 0, 0, :, 0, 0, 0]
    assert torch.allclose(torch.tensor(found["jacobian"]), truth, atol=1e-6)
    assert found["sums"] == pytest.approx([0, 0, 0], abs=1e-6)
