import pytest

from regard.train.early_stopping import EarlyStopping


def after(values, **how):
    stopping = EarlyStopping()
    for step, value in enumerate(values, 1):
        stopping = stopping.with_metrics(step, {"bleu": value}, monitor="bleu", **how)
    return stopping


def test_the_lowest_is_best_and_the_rest_is_counted():
    found = after([3.0, 2.0, 2.5, 2.0])
    assert (found.best, found.step, found.bad, found.metrics) == (2.0, 2, 2, {"bleu": 2.0})


def test_the_highest_is_best_where_that_is_said():
    assert after([3.0, 2.0, 4.0], mode="highest").step == 3


def test_patience_is_used_up_by_bad_validations_alone():
    assert not after([3.0, 4.0]).is_out_of_patience(2)
    assert after([3.0, 4.0, 5.0]).is_out_of_patience(2)
    assert not after([3.0, 4.0, 5.0]).is_out_of_patience(0)


def test_what_is_not_a_number_is_never_best():
    found = after([float("nan"), float("-inf")])
    assert (found.best, found.bad) == (None, 2)


@pytest.mark.parametrize(
    ("mode", "values", "lost"),
    [
        ("lowest", [2.0, 8.0], False),
        ("lowest", [2.0, 8.1], True),
        ("highest", [8.0, 2.0], False),
        ("highest", [8.0, 1.9], True),
        ("lowest", [2.0, float("nan")], True),
        ("lowest", [float("nan"), float("nan")], False),
    ],
)
def test_lost_is_so_many_times_worse_than_the_best(mode, values, lost):
    found = after(values, mode=mode)
    assert found.should_roll_back(values[-1], 4.0, mode=mode) == lost
    assert not found.should_roll_back(values[-1], 0.0, mode=mode)


def test_a_metric_that_is_not_there_is_named_beside_those_that_are():
    with pytest.raises(ValueError, match="fit: validate gave loss, bleu, not 'accuracy'"):
        EarlyStopping().with_metrics(1, {"loss": 1.0, "bleu": 2.0}, monitor="accuracy")
