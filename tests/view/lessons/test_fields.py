"""What lessons may be given: taken within bounds, refused in words beyond."""

import math

import pytest

from regard.view.lessons.fields import Choice, Integer, Permutation, Real, Row, Rows, Subset

PAIR = Row(2, 2, 3, ())


@pytest.mark.parametrize(
    "field, given",
    [
        (Integer(1, 5, 1), 5),
        (Choice(("a", "b"), "a"), "b"),
        (Row(1, 3, 2, ()), [1.5, -2.0]),
        (Rows(1, 2, PAIR, ()), [[0.0, 1.0], [2.0, -3.0]]),
        (Permutation(2, 4, ()), [2, 0, 1]),
        (Subset(4), [0, 3]),
    ],
)
def test_what_is_within_bounds_is_taken_as_it_is(field, given):
    assert field.check_value("here", given) == given


def test_reals_are_taken_to_three_decimals():
    assert Real(0, 1, 0.5).check_value("here", 0.12349) == 0.123
    assert Real(0, 9, 0.5).check_value("here", 4) == 4.0


@pytest.mark.parametrize("given", [0, 6, True, 2.0, "2", None, [2], 10**400, math.nan])
def test_what_is_no_whole_number_within_bounds_is_refused(given):
    with pytest.raises(ValueError, match="here: expected a whole number from 1 to 5, got"):
        Integer(1, 5, 1).check_value("here", given)


@pytest.mark.parametrize("given", [-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0", 10**400])
def test_what_is_no_number_within_bounds_is_refused(given):
    with pytest.raises(ValueError, match="here: expected a number from 0 to 1, got"):
        Real(0, 1, 0.5).check_value("here", given)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="here: expected one of dot, cosine, got 'cross'"):
        Choice(("dot", "cosine"), "dot").check_value("here", "cross")


@pytest.mark.parametrize("given", [[], [1.0] * 4, 3, "12", {"a": 1}])
def test_a_list_of_another_length_is_refused(given):
    with pytest.raises(ValueError, match="here: expected a list of 1 to 3 numbers, got"):
        Row(1, 3, 2, ()).check_value("here", given)


def test_an_error_says_which_entry_of_which_row():
    with pytest.raises(ValueError, match=r"here\[1\]\[0\]: expected a number from -3 to 3, got 4"):
        Rows(1, 2, PAIR, ()).check_value("here", [[0.0, 1.0], [4.0, 0.0]])


def test_a_row_may_be_of_numbers_that_are_not_below_zero():
    with pytest.raises(ValueError, match=r"here\[0\]: expected a number from 0 to 1, got -0.5"):
        Row(1, 1, 1, (), non_negative=True).check_value("here", [-0.5])


@pytest.mark.parametrize("given", [[0, 0], [1, 2], [0, 1, 1]])
def test_an_order_has_each_place_once(given):
    with pytest.raises(ValueError, match="here"):
        Permutation(2, 4, ()).check_value("here", given)


def test_picked_places_come_sorted_and_never_twice():
    assert Subset(5).check_value("here", [4, 1]) == [1, 4]
    with pytest.raises(ValueError, match="here: expected no place twice, got"):
        Subset(5).check_value("here", [1, 1])


def test_an_error_is_short_whatever_was_given():
    with pytest.raises(ValueError, match=r"…$") as told:
        Integer(1, 5, 1).check_value("here", "x" * 10_000)
    assert len(str(told.value)) < 120
