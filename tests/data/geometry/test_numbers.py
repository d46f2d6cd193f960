"""Numbers to be sorted: the answer sorts them."""

import numpy as np
import pytest

from regard.data.geometry.numbers import Numbers


def test_an_answer_sorts_its_numbers_and_points_at_no_padding():
    batch = Numbers(1, 7).draw(np.random.default_rng(0), 50)
    for numbers, length, answer in zip(batch.points, batch.lengths, batch.answers, strict=True):
        order = answer[: int(length)]
        assert sorted(order.tolist()) == list(range(int(length)))
        assert (numbers[order, 0].diff() >= 0).all()
        assert (answer[int(length) :] == -1).all()
        assert not numbers[int(length) :].any()
    assert set(batch.lengths.tolist()) == set(range(1, 8))


@pytest.mark.parametrize("sizes", [(0, 5), (6, 5)])
def test_no_numbers_are_refused(sizes):
    with pytest.raises(ValueError, match="Numbers: expected 1 ≤ min_points ≤ max_points"):
        Numbers(*sizes)
