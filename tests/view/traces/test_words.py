"""Whole words: what a word reads and how much it is read."""

import torch
from torch.testing import assert_close

from regard.view import Map, Series, Tokens, Trace, by_words
from tests.view.example_traces import copying, everything, translation


def test_merging_by_hand():
    axis = Tokens("s", ["to", "day", "ok"], words=[0, 0, 1])
    w = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.1, 0.4], [0.0, 0.25, 0.75]])
    series = Series("p", "s", torch.tensor([[1.0], [3.0], [5.0]]))
    merged = by_words(Trace([axis], [Map("m", "s", "s", w[None, None])], [series]))
    assert merged.axis("s").labels == ("today", "ok")
    assert_close(merged.map().weights(), torch.tensor([[0.45, 0.55], [0.25, 0.75]]))
    assert merged.series[0].values.tolist() == [[2.0], [5.0]]


def test_rows_of_merged_words_still_sum_to_one():
    merged = by_words(translation(layers=2, heads=3))
    for layer, head in ((0, 0), (1, 2)):
        w = merged.map().weights(layer, head)
        assert w.shape == (5, 6)
        assert_close(w.sum(1), torch.ones(5))


def test_a_word_is_special_if_all_of_it_is():
    assert by_words(translation()).axis("source").special == (5,)
    axis = Tokens("s", ["a", "b", "c"], words=[0, 0, 1], special=[0, 2])
    assert by_words(Trace([axis])).axis("s").special == (1,)


def test_merging_twice_is_merging_once():
    once = by_words(translation())
    again = by_words(once)
    assert once.axes == again.axes
    assert torch.equal(once.map().all_weights(), again.map().all_weights())


def test_what_has_no_words_stays_as_it_is():
    before = everything()
    after = by_words(before)
    assert after.axis("mem") == before.axis("mem")
    assert after.map("read.0").cells is before.map("read.0").cells
    assert after.series[0].values.tolist() == before.series[0].values.tolist()
    assert after.axis("src").labels == ("ab", "c", "d")
    assert_close(after.map("look").weights()[0], torch.tensor([0.5, 0.25, 0.25]))


def test_a_machine_with_a_memory_stays_as_it_is():
    before = copying(heads=2)
    after = by_words(before)
    assert after.axes == before.axes
    assert all(a.cells is b.cells for a, b in zip(after.maps, before.maps, strict=True))
    assert all(a is b for a, b in zip(after.series, before.series, strict=True))


def test_a_blank_before_a_word_is_not_part_of_it():
    axis = Tokens("s", [" to", "day", " "], words=[0, 0, 1])
    assert by_words(Trace([axis])).axis("s").labels == ("today", " ")


def test_merging_waits_until_it_is_asked():
    asked = []
    axis = Tokens("s", ["a", "b"], words=[0, 0])
    trace = Trace([axis], [Map("m", "s", "s", lambda i, j: asked.append(1) or torch.eye(2))])
    merged = by_words(trace)
    assert not asked
    assert merged.map().weights().tolist() == [[1.0]]


def test_layers_keep_their_names():
    axis = Tokens("s", ["to", "day", "ok"], words=[0, 0, 1])
    w = torch.rand(2, 1, 3, 3).softmax(-1)
    merged = by_words(Trace([axis], [Map("m", "s", "s", w, 2, names=["h.0", "h.1"])]))
    assert merged.map().names == ("h.0", "h.1")
