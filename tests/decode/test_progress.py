"""Progress: each step reports the tokens so far, and the callback may end the decoding."""

import pytest
import torch

from regard.decode import ForcedPrefix, ProgressReporter, beam, greedy
from tests.decode.tables import BEGIN, END, Trigrams, tables

MARKS = {"begin": BEGIN, "end": END, "longest": 6}


def talkative():
    """A source of which much is said."""
    source = tables(1, 5)
    source[..., END] = -9
    return source


@pytest.mark.parametrize("decode", [greedy, beam])
def test_who_listens_changes_no_bit(decode):
    source = tables(7, 5)
    models = (Trigrams(), ProgressReporter(Trigrams(), lambda said, logits: None))
    alone, reported = (decode(model, source, **MARKS) for model in models)
    for name in ("tokens", "lengths", "scores", "log_probabilities", "parents", "rows"):
        assert torch.equal(getattr(alone, name), getattr(reported, name))


def test_what_is_heard_of_one_hypothesis_grows_by_what_it_said():
    reported, source = [], talkative()
    found = greedy(
        ProgressReporter(Trigrams(), lambda said, logits: reported.append(said)), source, **MARKS
    )
    tokens = found.tokens[0, 0].tolist()
    assert reported == [tokens[:n] for n in range(len(tokens))]


def test_what_is_heard_of_beams_was_said_by_one_of_them():
    reported, source = [], talkative()
    reporter = ProgressReporter(Trigrams(), lambda said, logits: reported.append((said, logits)))
    beam(reporter, source, **MARKS, width=3)
    assert [len(said) for said, _ in reported] == list(range(len(reported)))
    for said, logits in reported:
        before, last = [BEGIN, BEGIN, *said][-2:]
        assert torch.equal(logits, source[0, len(said), before, last])


def test_what_could_come_next_is_heard_whatever_has_to_come():
    reported, source = [], talkative()
    reporter = ProgressReporter(Trigrams(), lambda said, logits: reported.append(logits))
    greedy(ForcedPrefix(reporter, [[2, 2]]), source, **MARKS)
    assert all(logits.isfinite().all() for logits in reported)
    assert torch.equal(reported[1], source[0, 1, BEGIN, 2])


def test_what_who_listens_raises_ends_it_at_once():
    reported = []

    def on_step(said, logits):
        reported.append(said)
        if len(said) == 2:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        greedy(ProgressReporter(Trigrams(), on_step), talkative(), **MARKS)
    assert len(reported) == 3
