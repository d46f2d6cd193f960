"""Of equal keys, the fuzzer takes those that a call is seen to have chosen."""

import numpy as np

from benchmarks.fuzz.choices import nearest_choice

BEST = np.array([[[[True, False, False, False]]]])
LOST = np.array([[[[False, False, False, True]]]])
VALUES = np.array([1.0, 10.0, 100.0, 1000.0])


def read(keys):
    return (keys @ VALUES)[..., None]


def test_of_equal_keys_the_one_is_taken_whose_value_came_back():
    for key, value in ((1, 11.0), (2, 101.0)):
        chosen = nearest_choice(BEST, LOST, 2, read, np.full((1, 1, 1, 1), value), 1e-7)
        assert chosen[0, 0, 0].tolist() == [True, key == 1, key == 2, False]


def test_a_key_that_is_not_among_the_best_is_never_taken():
    chosen = nearest_choice(BEST, LOST, 2, read, np.full((1, 1, 1, 1), 1001.0), 1e-7)
    assert chosen[0, 0, 0, 0] and not chosen[0, 0, 0, 3]


def test_a_small_number_of_a_row_tells_keys_apart_that_a_rounded_large_one_does_not():
    def both(keys):
        small = keys @ np.array([0.0, 0.5, 0.6, 0.0])
        return np.stack([small, 20 + 0.1 * small], -1)

    # of the second key, with 20.05 rounded as a dtype of few digits may round it
    found = np.array([[[[0.5, 20.0625]]]])
    chosen = nearest_choice(BEST, LOST, 2, both, found, 2.0**-7)
    assert chosen[0, 0, 0].tolist() == [True, True, False, False]


def test_numbers_that_are_rounded_to_whole_steps_tell_keys_apart_by_steps():
    def both(keys):
        return np.stack(
            [keys @ np.array([0.0, 10.4, 5.4, 0.0]), keys @ np.array([0, 0.4, 0, 0])], -1
        )

    found = np.array([[[[10.0, 0.0]]]])
    chosen = nearest_choice(BEST, LOST, 2, both, found, 2.0**-10, smallest=1.0)
    assert chosen[0, 0, 0].tolist() == [True, True, False, False]
    chosen = nearest_choice(BEST, LOST, 2, both, found, 2.0**-10)
    assert chosen[0, 0, 0].tolist() == [True, False, True, False]
