import math

import pytest

from regard.train import Schedule
from regard.train.schedules import cosine, halving, inverse_square_root, linear, rate_factor


@pytest.mark.parametrize("kind", ["constant", "inverse_square_root", "linear", "cosine", "halving"])
def test_every_schedule_rises_in_a_line_to_its_top(kind):
    halved = {"after": 50, "every": 10} if kind == "halving" else {}
    schedule = Schedule(kind, warmup=4, **halved)
    assert [rate_factor(schedule, step, 100) for step in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1.0]


def test_constant_stays():
    assert {rate_factor(Schedule(), step, 9) for step in range(1, 10)} == {1.0}


def test_inverse_square_root_is_that_of_the_transformer():
    width, warmup = 512, 4000
    top = (width * warmup) ** -0.5
    for step in (1, 2000, 4000, 9000, 100_000):
        published = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        schedule = Schedule("inverse_square_root", warmup=warmup)
        assert math.isclose(top * rate_factor(schedule, step, 100_000), published)
    assert inverse_square_root(16, 4) == 0.5


def test_linear_and_cosine_by_hand():
    assert [linear(x) for x in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]
    assert [round(cosine(x), 12) for x in (0.0, 1 / 3, 0.5, 1.0)] == [1.0, 0.75, 0.5, 0.0]


def test_halving_by_hand():
    shares = [halving(step, after=5, every=2) for step in range(3, 10)]
    assert shares == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert rate_factor(Schedule("halving", after=5, every=2), 7, 100) == 0.25


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_floor_is_what_is_left_at_the_end(kind):
    schedule = Schedule(kind, warmup=2, floor=0.1)
    assert math.isclose(rate_factor(schedule, 10, 10), 0.1)
    assert math.isclose(rate_factor(schedule, 6, 10), 0.55)
    assert math.isclose(rate_factor(schedule, 99, 10), 0.1)
