"""Telling: what is heard is what was said, and who listens may end it."""

import pytest
import torch

from regard.decode import Beginning, Telling, beam, greedy
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
    models = (Trigrams(), Telling(Trigrams(), lambda said, logits: None))
    alone, heard = (decode(model, source, **MARKS) for model in models)
    for name in ("tokens", "lengths", "scores", "log_probabilities", "parents", "rows"):
        assert torch.equal(getattr(alone, name), getattr(heard, name))


def test_what_is_heard_of_one_hypothesis_grows_by_what_it_said():
    heard, source = [], talkative()
    found = greedy(Telling(Trigrams(), lambda said, logits: heard.append(said)), source, **MARKS)
    tokens = found.tokens[0, 0].tolist()
    assert heard == [tokens[:n] for n in range(len(tokens))]


def test_what_is_heard_of_beams_was_said_by_one_of_them():
    heard, source = [], talkative()
    telling = Telling(Trigrams(), lambda said, logits: heard.append((said, logits)))
    beam(telling, source, **MARKS, width=3)
    assert [len(said) for said, _ in heard] == list(range(len(heard)))
    for said, logits in heard:
        before, last = [BEGIN, BEGIN, *said][-2:]
        assert torch.equal(logits, source[0, len(said), before, last])


def test_what_could_come_next_is_heard_whatever_has_to_come():
    heard, source = [], talkative()
    telling = Telling(Trigrams(), lambda said, logits: heard.append(logits))
    greedy(Beginning(telling, [[2, 2]]), source, **MARKS)
    assert all(logits.isfinite().all() for logits in heard)
    assert torch.equal(heard[1], source[0, 1, BEGIN, 2])


def test_what_who_listens_raises_ends_it_at_once():
    heard = []

    def hear(said, logits):
        heard.append(said)
        if len(said) == 2:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        greedy(Telling(Trigrams(), hear), talkative(), **MARKS)
    assert len(heard) == 3
