import pytest

from regard.train.stream import Stream


class Letters:
    """Three batches an epoch, named by epoch and place."""

    def epoch(self, number, start=0):
        yield from [f"{number}{letter}" for letter in "abc"][start:]


class Nothing:
    def epoch(self, number, start=0):
        yield from ()


def test_epochs_follow_each_other_without_end():
    stream = Stream(Letters())
    assert [stream.next_batch() for _ in range(7)] == ["0a", "0b", "0c", "1a", "1b", "1c", "2a"]


@pytest.mark.parametrize("taken", range(8))
def test_a_place_that_was_written_down_is_found_again(taken):
    stream = Stream(Letters())
    for _ in range(taken):
        stream.next_batch()
    again = Stream(Letters(), stream.epoch, stream.batch)
    assert [again.next_batch() for _ in range(4)] == [stream.next_batch() for _ in range(4)]


def test_no_batches_at_all_are_an_error_and_not_a_loop():
    with pytest.raises(ValueError, match="fit: expected batches, got none in epoch 1"):
        Stream(Nothing()).next_batch()
