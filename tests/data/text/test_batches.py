"""Batches: every example once an epoch, within the cap, in an order that seed and epoch decide."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.data.text.batches import (
    BEGIN,
    END,
    PAD,
    Batch,
    TokenBatches,
)
from regard.train import Training, devices

ids = st.lists(st.integers(3, 9), max_size=7)
many = st.lists(st.tuples(ids.filter(len), ids), min_size=1, max_size=40)


def some(n: int) -> list[tuple[list[int], list[int]]]:
    """Examples of all kinds of lengths; the first source token tells which it is."""
    return [([3 + i, *range(3, 3 + i % 7)], [*range(3, 3 + i % 5)]) for i in range(n)]


def drawn(batches: TokenBatches, number: int, start: int = 0) -> list[list[int]]:
    return [batch.indices.tolist() for batch in batches.epoch(number, start)]


def size(batch: Batch) -> int:
    return len(batch) * max(batch.source.shape[1], batch.target.shape[1])


def test_a_batch_by_hand():
    examples = [([5], [6, 7]), ([8, 9, 3, 4], [])]
    (batch,) = TokenBatches(examples, tokens=8, seed=0, shuffle=False).epoch(0)
    assert batch.source.tolist() == [[5, PAD, PAD, PAD], [8, 9, 3, 4]]
    assert batch.source_lengths.tolist() == [1, 4]
    assert batch.target.tolist() == [[BEGIN, 6, 7, END], [BEGIN, END, PAD, PAD]]
    assert batch.target_lengths.tolist() == [4, 2]
    assert batch.indices.tolist() == [0, 1]
    assert batch.tokens == 4  # 6 7 END, and END


@given(many, st.integers(1, 50), st.booleans())
def test_every_example_comes_once_an_epoch(examples, tokens, shuffle):
    batches = list(TokenBatches(examples, tokens=tokens, seed=0, shuffle=shuffle).epoch(3))
    assert sorted(i for b in batches for i in b.indices.tolist()) == [*range(len(examples))]
    for batch in batches:
        for row, i in enumerate(batch.indices.tolist()):
            source, target = examples[i][0], [BEGIN, *examples[i][1], END]
            assert batch.source[row, : batch.source_lengths[row]].tolist() == source
            assert batch.target[row, : batch.target_lengths[row]].tolist() == target


@given(many, st.integers(1, 50))
def test_a_batch_keeps_within_the_cap_unless_one_example_breaks_it(examples, tokens):
    for batch in TokenBatches(examples, tokens=tokens, seed=0).epoch(0):
        assert size(batch) <= tokens or len(batch) == 1


@given(many, st.integers(1, 50))
def test_behind_the_ends_there_is_padding_and_the_tokens_are_counted(examples, tokens):
    for batch in TokenBatches(examples, tokens=tokens, seed=0).epoch(0):
        for rows, lengths in (
            (batch.source, batch.source_lengths),
            (batch.target, batch.target_lengths),
        ):
            assert torch.equal((rows != PAD).sum(1), lengths)
            assert rows.shape[1] == lengths.max()
        assert batch.tokens == (batch.target[:, 1:] != PAD).sum()


@given(many, st.integers(1, 50), st.integers(0, 5), st.data())
def test_a_later_start_gives_the_rest_of_the_same_epoch(examples, tokens, number, data):
    batches = TokenBatches(examples, tokens=tokens, seed=7)
    start = data.draw(st.integers(0, len(batches)))
    assert drawn(batches, number, start) == drawn(batches, number)[start:]


def test_the_order_is_a_function_of_seed_and_epoch_alone():
    batches = TokenBatches(some(100), tokens=60, seed=1)
    first = drawn(batches, 0)
    assert drawn(batches, 1) != first
    assert drawn(batches, 0) == first
    assert drawn(TokenBatches(some(100), tokens=60, seed=1), 0) == first
    assert drawn(TokenBatches(some(100), tokens=60, seed=2), 0) != first


def test_drawing_batches_leaves_the_random_state_alone():
    state = torch.get_rng_state()
    list(TokenBatches(some(20), tokens=30, seed=1).epoch(0))
    assert torch.equal(torch.get_rng_state(), state)


def test_every_epoch_has_as_many_batches():
    batches = TokenBatches(some(200), tokens=60, seed=1)
    assert {len(drawn(batches, number)) for number in range(5)} == {len(batches)}


def test_batches_hold_like_lengths_but_come_in_any_order():
    batches = list(TokenBatches(some(500), tokens=64, seed=1).epoch(0))
    real = sum(int(b.source_lengths.sum() + b.target_lengths.sum()) for b in batches)
    assert real / sum(b.source.numel() + b.target.numel() for b in batches) > 0.85
    longest = [b.source.shape[1] for b in batches]
    assert longest != sorted(longest)


def test_other_examples_meet_in_each_epoch():
    batches = TokenBatches(some(500), tokens=64, seed=1)
    groups = [{frozenset(group) for group in drawn(batches, number)} for number in range(2)]
    assert len(groups[0] & groups[1]) < len(batches) / 2


def test_without_shuffling_every_epoch_goes_from_short_to_long():
    batches = TokenBatches(some(100), tokens=60, seed=1, shuffle=False)
    sizes = [max(b.source.shape[1], b.target.shape[1]) for b in batches.epoch(0)]
    assert sizes == sorted(sizes)
    assert drawn(batches, 0) == drawn(batches, 9)


def test_a_batch_moves_whole():
    batch = next(TokenBatches(some(5), tokens=99, seed=1).epoch(0))
    moved = batch.to("meta")
    kinds = [moved.source, moved.source_lengths, moved.target, moved.target_lengths, moved.indices]
    assert {x.device.type for x in kinds} == {"meta"}
    assert moved.tokens == batch.tokens
    assert_close(batch.to(torch.device("cpu")).target, batch.target)


def test_fabric_moves_a_batch():
    engine = devices.launch_fabric(Training(device="cpu"))
    batch = next(TokenBatches(some(5), tokens=99, seed=1).epoch(0))
    assert_close(engine.to_device(batch).target, batch.target)


def test_no_time_is_lost():
    began = time.process_time()
    batches = TokenBatches(some(10_000), tokens=1000, seed=1)
    drawn(batches, 0)
    # 50 ms and a tenth of a millisecond a batch on a quiet machine; ten times that is a fault
    assert time.process_time() - began < 0.5 + 1e-3 * len(batches)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokens": 0}, "TokenBatches: expected tokens of at least 1, got 0"),
        ({"seed": -1}, "TokenBatches: expected a seed of at least 0, got -1"),
        ({"examples": []}, "TokenBatches: expected examples, got none"),
        ({"examples": [([3], []), ([], [3])]}, "expected a source, got none in example 1"),
        ({"examples": [([3, -2], [3])]}, r"expected source ids from 0 to 2\^31 - 1, got -2 to 3"),
        ({"examples": [([3], [2**31])]}, r"target ids from 0 to 2\^31 - 1, got 1 to 2147483648"),
    ],
)
def test_what_makes_no_batches_is_refused(change, said):
    given = {"examples": some(3), "tokens": 9, "seed": 0} | change
    with pytest.raises(ValueError, match=said):
        TokenBatches(given.pop("examples"), **given)


def test_a_place_outside_the_epoch_is_refused_at_once():
    batches = TokenBatches(some(3), tokens=99, seed=0)
    with pytest.raises(ValueError, match="epoch: expected start from 0 to 1, got 2"):
        batches.epoch(0, 2)
    with pytest.raises(ValueError, match="epoch: expected a number of at least 0, got -1"):
        batches.epoch(-1)


@given(many, st.integers(1, 50), st.integers(1, 4), st.booleans())
def test_with_a_grain_every_example_comes_once_and_equal_lengths_have_equal_forms(
    examples, tokens, grain, shuffle
):
    made = TokenBatches(examples, tokens=tokens, seed=0, shuffle=shuffle, length_multiple=grain)
    batches = list(made.epoch(3))
    found = [i for b in batches for i in b.indices.tolist() if i >= 0]
    assert sorted(found) == [*range(len(examples))]
    assert len(batches) == len(made)
    rows = {}
    for batch in batches:
        length = batch.source.shape[1]
        assert batch.target.shape == batch.source.shape and length % grain == 0
        assert rows.setdefault(length, len(batch)) == len(batch)
        assert size(batch) <= tokens or len(batch) == 1


def test_rows_that_no_example_fills_hold_nothing_to_learn():
    made = TokenBatches(
        [([5], [6]), ([7], [])], tokens=12, seed=0, shuffle=False, length_multiple=4
    )
    (batch,) = made.epoch(0)
    assert batch.source.tolist() == [[5, PAD, PAD, PAD], [7, PAD, PAD, PAD], [PAD] * 4]
    assert batch.source_lengths.tolist() == [1, 1, 1]
    assert batch.target.tolist() == [[BEGIN, 6, END, PAD], [BEGIN, END, PAD, PAD], [PAD] * 4]
    assert batch.target_lengths.tolist() == [3, 2, 0]
    assert batch.indices.tolist() == [0, 1, -1] and batch.tokens == 3


def test_lengths_too_rare_to_fill_a_batch_join_the_next_longer_ones():
    examples = [([3] * n, []) for n in (2, 2, 2, 2, 5, 8)]
    made = TokenBatches(examples, tokens=16, seed=0, length_multiple=4)
    assert sorted(tuple(b.source.shape) for b in made.epoch(0)) == [(2, 8), (4, 4)]


def test_a_length_multiple_below_one_is_refused():
    with pytest.raises(ValueError, match="expected a length_multiple of at least 1, got 0"):
        TokenBatches(some(3), tokens=9, seed=0, length_multiple=0)
