"""Operations of both scores, counted by hand for one pair of a query and a key."""

import pytest

from benchmarks import scores
from benchmarks.additive_gpu import Size
from benchmarks.scores import Operations, of_additive, of_scaled_dot

WIDE = Size(B=1, Q=2, K=3, D=1024)  # values are 512 wide


@pytest.mark.parametrize(
    ("training", "products"),
    [(False, 1024 + 512), (True, (1024 + 512) + 2 * (1024 + 512))],
    ids=["forward", "both"],
)
def test_scaled_dot_is_two_products_and_two_more_for_each_backward(training, products):
    assert of_scaled_dot(WIDE, training) == Operations(products)


def test_an_additive_score_adds_a_sum_and_a_tanh_for_each_number_of_the_width():
    assert of_additive(WIDE, False) == Operations(1024 + 512, 1024, 1024)


def test_an_additive_score_takes_tanh_once_for_both_directions():
    # scores, reading; dv and dp; the vector, 1 - t², times the score's gradient; three sums
    expected = Operations(1024 + 512 + 2 * 512 + 3 * 1024, 3 * 1024, 1024)
    assert of_additive(WIDE, True) == expected
    assert str(expected) == "5,632 multiply-adds, 3,072 additions, 1,024 tanh"


def test_a_row_names_both_times_and_both_counts(monkeypatch):
    monkeypatch.setattr(scores, "ON_CPU", Size(1, 5, 7, 11, scores.ON_CPU.dtype))
    monkeypatch.setattr(scores.torch.cuda, "is_available", lambda: False)
    forward, both = scores.rows()
    assert "B 1, Q 5, K 7, D = Dv = 11, float32, forward" in forward.claim
    assert "for each of 35 pairs 22 multiply-adds, 11 additions, 11 tanh" in forward.measured
    assert forward.measured.endswith("against 22 multiply-adds")
    assert both.measured.endswith("against 66 multiply-adds")
