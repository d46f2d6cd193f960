"""Greedy takes the likeliest token; a draw follows the probabilities it was told to follow."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.decode import Draw, greedy, sample
from tests.decode.tables import BEGIN, END, Trigrams, bigrams, log_probability, tables

MARKS = {"begin": BEGIN, "end": END, "longest": 6}
SHARES = torch.tensor([0.05, 0.4, 0.3, 0.15, 0.1])


def drawn(shares: torch.Tensor, draw: Draw | None, count: int = 20_000) -> torch.Tensor:
    """How often each token came first, as shares, when many sources draw from the same ones."""
    V = len(shares)
    source = shares.log().expand(count, 1, V, V, V)
    generator = torch.Generator().manual_seed(0)
    found = sample(Trigrams(), source, begin=1, end=0, longest=1, draw=draw, generator=generator)
    return found.tokens.flatten().bincount(minlength=V) / count


def assert_near(found: torch.Tensor, shares: torch.Tensor, count: int = 20_000):
    """Four standard deviations of a count off at most."""
    allowed = 4 * (shares * (1 - shares) / count).sqrt()
    assert ((found - shares).abs() <= allowed).all(), found


def test_greedy_by_hand():
    source = bigrams([1, 0, 0, 0], [0, 0, 0.6, 0.4], [0.3, 0, 0.2, 0.5], [0.9, 0, 0.05, 0.05])
    found = greedy(Trigrams(), source, **MARKS)
    assert found.tokens.tolist() == [[[2, 3, END]]] and found.lengths.tolist() == [[3]]
    assert_close(found.log_probabilities.exp().item(), 0.6 * 0.5 * 0.9)
    assert found.finished.all() and found.sequences() == [[[2, 3]]]


@pytest.mark.parametrize("decode", [greedy, sample])
def test_log_probabilities_are_those_of_the_tokens(decode):
    source = tables(9, 4)
    found = decode(Trigrams(), source, **MARKS)
    for b in range(9):
        tokens = tuple(found.tokens[b, 0, : int(found.lengths[b, 0])].tolist())
        expected = log_probability(source[b], tokens)
        assert found.log_probabilities[b, 0].item() == pytest.approx(expected, abs=1e-5)
    assert torch.equal(found.scores, found.log_probabilities)


@pytest.mark.parametrize("decode", [greedy, sample])
def test_after_the_end_all_tokens_are_the_end(decode):
    found = decode(Trigrams(), tables(50, 3), **MARKS)
    behind = torch.arange(found.tokens.shape[2]) >= found.lengths[..., None]
    assert found.tokens[behind].eq(END).all() and behind.any()
    last = found.tokens.gather(2, found.lengths[..., None] - 1)[..., 0]
    assert torch.equal(last == END, found.finished)


def test_a_batch_of_many_is_many_batches_of_one():
    source = tables(9, 5)
    together = greedy(Trigrams(), source, **MARKS)
    for b in range(9):
        alone = greedy(Trigrams(), source[b : b + 1], **MARKS)
        assert alone.sequences()[0] == together.sequences()[b]
        assert_close(alone.scores[0], together.scores[b])


def test_all_rows_done_stop_the_loop():
    found = greedy(Trigrams(), bigrams([1.0, 0.0], [0.9, 0.1]), begin=1, end=0, longest=12)
    assert found.tokens.shape == (1, 1, 1)


def test_what_does_not_end_is_cut():
    found = greedy(Trigrams(), bigrams([1.0, 0.0], [0.1, 0.9]), begin=1, end=0, longest=5)
    assert found.sequences() == [[[1] * 5]] and not found.finished.any()


def test_a_limit_for_each_source_is_that_source_alone_with_its_limit():
    source, limits = tables(30, 5), torch.randint(1, 11, (30,))
    together = greedy(Trigrams(), source, **MARKS | {"longest": limits})
    for b, limit in enumerate(limits.tolist()):
        alone = greedy(Trigrams(), source[b : b + 1], **MARKS | {"longest": limit})
        assert together.sequences()[b] == alone.sequences()[0]
        assert together.finished[b] == alone.finished[0]


@pytest.mark.parametrize("draw", [Draw(1e-6), Draw(1e-310), Draw(top_k=1), Draw(top_p=1e-6)])
def test_a_draw_with_no_choice_is_greedy(draw):
    source = tables(50, 5)
    assert (
        sample(Trigrams(), source, **MARKS, draw=draw).sequences()
        == greedy(Trigrams(), source, **MARKS).sequences()
    )


@pytest.mark.parametrize("draw", [None, Draw(), Draw(top_k=99), Draw(top_p=1.0)])
def test_tokens_come_as_often_as_they_are_likely(draw):
    assert_near(drawn(SHARES, draw), SHARES)


@pytest.mark.parametrize("temperature", [0.5, 2])
def test_a_temperature_divides_the_logits(temperature):
    shares = (SHARES.log() / temperature).softmax(-1)
    assert_near(drawn(SHARES, Draw(temperature)), shares)


@pytest.mark.parametrize(
    "draw, kept",
    [
        (Draw(top_k=2), [1, 2]),
        (Draw(top_p=0.65), [1, 2]),
        (Draw(top_p=0.75), [1, 2, 3]),
        (Draw(top_p=0.4), [1]),
        # of the three best, 0.4 and 0.3 of 0.85 are 0.82 of what is left
        (Draw(top_k=3, top_p=0.8), [1, 2]),
        (Draw(top_k=3, top_p=0.83), [1, 2, 3]),
    ],
)
def test_what_is_outside_of_top_k_and_top_p_is_never_drawn(draw, kept):
    shares = torch.zeros(5)
    shares[kept] = SHARES[kept] / SHARES[kept].sum()
    found = drawn(SHARES, draw)
    assert found[shares == 0].eq(0).all()
    assert_near(found, shares)


def test_of_equal_tokens_top_k_keeps_just_k():
    assert int(drawn(torch.full((5,), 0.2), Draw(top_k=2)).gt(0).sum()) == 2


@pytest.mark.parametrize("draw", [None, Draw(top_k=4)])
def test_a_forbidden_token_is_never_drawn(draw):
    found = drawn(torch.tensor([0.5, 0.0, 0.0, 0.5]), draw)
    assert found[1:3].eq(0).all()


def test_a_generator_makes_draws_repeatable():
    def once(seed):
        generator = torch.Generator().manual_seed(seed)
        return sample(Trigrams(), tables(50, 5), **MARKS, generator=generator).sequences()

    assert once(1) == once(1) != once(2)


def test_a_row_that_is_done_may_forbid_everything():
    source = bigrams([0.0, 0.0], [1.0, 0.0]).repeat(2, 1, 1, 1, 1)
    source[1, :, :, BEGIN] = torch.tensor([0.0, 1.0]).log()  # the second goes on
    assert sample(Trigrams(), source, **MARKS).sequences() == [[[]], [[1] * 6]]
    assert greedy(Trigrams(), source, **MARKS).sequences() == [[[]], [[1] * 6]]


@pytest.mark.parametrize("decode", [greedy, sample])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_logits_without_a_token_to_take_are_an_error(decode, value):
    words = "expected logits with a token to take, got NaN or only -inf at step 1"
    with pytest.raises(ValueError, match=f"{decode.__name__}: {words}"):
        decode(Trigrams(), torch.full((1, 1, 3, 3, 3), value), **MARKS)


@pytest.mark.parametrize("decode", [greedy, sample])
def test_a_hypothesis_has_a_token(decode):
    with pytest.raises(ValueError, match=f"{decode.__name__}: expected longest >= 1, got 0"):
        decode(Trigrams(), tables(1, 3), begin=1, end=0, longest=0)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"temperature": 0.0}, "Draw: expected temperature > 0, got 0.0"),
        ({"temperature": math.nan}, "Draw: expected temperature > 0, got nan"),
        ({"top_k": 0}, "Draw: expected top_k >= 1, got 0"),
        ({"top_p": 0.0}, "Draw: expected top_p above 0 and up to 1, got 0.0"),
        ({"top_p": 1.5}, "Draw: expected top_p above 0 and up to 1, got 1.5"),
    ],
)
def test_a_draw_that_makes_no_sense_is_refused_in_words(given, words):
    with pytest.raises(ValueError) as refused:
        Draw(**given)
    assert str(refused.value) == words
