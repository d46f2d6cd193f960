import pytest

from regard.train.stopping import Stopping


def after(values, **how):
    stopping = Stopping()
    for step, value in enumerate(values, 1):
        stopping = stopping.after(step, {"bleu": value}, watch="bleu", **how)
    return stopping


def test_the_lowest_is_best_and_the_rest_is_counted():
    found = after([3.0, 2.0, 2.5, 2.0])
    assert (found.best, found.step, found.bad, found.metrics) == (2.0, 2, 2, {"bleu": 2.0})


def test_the_highest_is_best_where_that_is_said():
    assert after([3.0, 2.0, 4.0], best="highest").step == 3


def test_patience_is_used_up_by_bad_judgements_alone():
    assert not after([3.0, 4.0]).done(2)
    assert after([3.0, 4.0, 5.0]).done(2)
    assert not after([3.0, 4.0, 5.0]).done(0)


def test_what_is_not_a_number_is_never_best():
    found = after([float("nan"), float("-inf")])
    assert (found.best, found.bad) == (None, 2)


@pytest.mark.parametrize(
    ("best", "values", "lost"),
    [
        ("lowest", [2.0, 8.0], False),
        ("lowest", [2.0, 8.1], True),
        ("highest", [8.0, 2.0], False),
        ("highest", [8.0, 1.9], True),
        ("lowest", [2.0, float("nan")], True),
        ("lowest", [float("nan"), float("nan")], False),
    ],
)
def test_lost_is_so_many_times_worse_than_the_best(best, values, lost):
    judged = after(values, best=best)
    assert judged.lost(values[-1], 4.0, best=best) == lost
    assert not judged.lost(values[-1], 0.0, best=best)


def test_a_metric_that_is_not_there_is_named_beside_those_that_are():
    with pytest.raises(ValueError, match="fit: the judge gave loss, bleu, not 'accuracy'"):
        Stopping().after(1, {"loss": 1.0, "bleu": 2.0}, watch="accuracy")
