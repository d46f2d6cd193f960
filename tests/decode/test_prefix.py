"""ForcedPrefix: what is given comes first, costs nothing, and changes nothing behind it."""

import pytest
import torch
from torch.testing import assert_close

from regard.decode import ForcedPrefix, beam, greedy, sample
from tests.decode.tables import BEGIN, END, Trigrams, log_probability, plain_beam, tables

MARKS = {"begin": BEGIN, "end": END, "longest": 6}


def best(source, prefix, longest=5):
    """All that begins so, with what is not given of its log-probability, best first."""
    found = plain_beam(source, longest, 4**longest, 0.0)
    given = log_probability(source, prefix)
    return [(total - given, x) for total, x in found if x[: len(prefix)] == prefix]


@pytest.mark.parametrize("decode", [greedy, sample, beam])
def test_every_hypothesis_begins_as_it_is_told(decode):
    prefixes = [[2], [3, 1, 2], [], [1, 1]]
    found = decode(ForcedPrefix(Trigrams(), prefixes), tables(4, 5), **MARKS).tokens
    for row, prefix in zip(found[:, 0].tolist(), prefixes, strict=True):
        assert row[: len(prefix)] == prefix


@pytest.mark.parametrize("prefix", [(2,), (3, 1), (1, 2, 2)])
def test_a_wide_beam_finds_the_best_of_all_that_begin_so(prefix):
    source = tables(1, 4)
    found = beam(ForcedPrefix(Trigrams(), [prefix]), source, **MARKS | {"longest": 5}, width=64)
    total, tokens = best(source[0], prefix)[0]
    assert tuple(found.tokens[0, 0, : int(found.lengths[0, 0])].tolist()) == tokens
    assert found.log_probabilities[0, 0].item() == pytest.approx(total)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_beam_goes_on_from_a_prefix_as_from_a_beginning(width):
    source = tables(1, 4)
    found = beam(ForcedPrefix(Trigrams(), [[3, 2]]), source, **MARKS | {"longest": 5}, width=width)

    class Later(Trigrams):
        def start(self, source):
            return super().start(source)._replace(before=torch.tensor([3]), at=2)

    on = beam(Later(), source, begin=2, end=END, longest=3, width=width)
    assert found.tokens[0, 0, 2:].tolist() == on.tokens[0, 0].tolist()
    assert_close(found.log_probabilities, on.log_probabilities)


@pytest.mark.parametrize("decode", [greedy, beam])
def test_no_prefix_changes_no_bit(decode):
    source = tables(7, 5)
    alone, told = (
        decode(m, source, **MARKS) for m in (Trigrams(), ForcedPrefix(Trigrams(), [[]] * 7))
    )
    for name in ("tokens", "lengths", "scores", "log_probabilities", "parents", "rows"):
        assert torch.equal(getattr(alone, name), getattr(told, name))


@pytest.mark.parametrize("decode", [greedy, beam])
def test_a_prefix_of_one_row_changes_no_bit_of_another(decode):
    source = tables(3, 5)
    alone = decode(Trigrams(), source, **MARKS)
    told = decode(ForcedPrefix(Trigrams(), [[], [4, 4], []]), source, **MARKS)
    for row in (0, 2):
        assert told.sequences()[row] == alone.sequences()[row]
        assert torch.equal(told.scores[row], alone.scores[row])


def test_what_the_model_would_say_anyway_is_said_the_same():
    source = tables(1, 5)
    said = greedy(Trigrams(), source, **MARKS).sequences()[0][0]
    told = greedy(ForcedPrefix(Trigrams(), [said[:2]]), source, **MARKS)
    assert told.sequences()[0][0] == said


@pytest.mark.parametrize(
    ("prefixes", "match"),
    [
        ([[1]], "ForcedPrefix: expected a prefix for each of 2 sources, got 1"),
        ([[1], [7]], "ForcedPrefix: expected tokens below V = 5, got 7"),
        ([[2, 3], [2, 3]], "ForcedPrefix: token 3 cannot stand at place 1"),
    ],
)
def test_what_cannot_come_first_is_refused(prefixes, match):
    source = tables(2, 5)
    source[:, 1, :, 2, 3] = -torch.inf
    with pytest.raises(ValueError, match=match):
        greedy(ForcedPrefix(Trigrams(), prefixes), source, **MARKS)
