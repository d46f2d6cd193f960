"""A trace is kept whole, in few bytes, and only if a page can show it."""

import json
from dataclasses import replace

import pytest
import torch

from regard.view import Header, Map, Slots, Tokens, Trace
from regard.view.server.limits import Limits
from regard.view.server.stored_trace import build_stored_trace, with_image
from regard.view.traces import wire
from tests.view.example_traces import everything
from tests.view.server.house import seen


def hold(trace, **given):
    how = {"limits": Limits(), "budget": 2**20} | given
    return build_stored_trace("0" * 32, trace, {"python": "x = 1"}, **how)


def test_what_is_lazy_is_computed_once_and_in_float32():
    calls = []

    def cells(layer, head):
        calls.append((layer, head))
        return torch.full((3, 5), 0.2, dtype=torch.float64)

    trace = Trace([Slots("q", 3), Slots("k", 5)], [Map("m", "q", "k", cells, 2, 2)])
    found = hold(trace)
    assert calls == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.trace.map().all_weights().dtype == torch.float32
    assert found.thumbs["m"] == bytes([wire.to_sqrt_bytes(torch.tensor(0.2))]) * 60
    assert found.size_bytes >= 4 * 60


def test_what_is_huge_is_halved_and_says_so():
    trace = Trace(
        [Slots("q", 64), Slots("k", 64)], [Map("m", "q", "k", torch.rand(1, 1, 64, 64) / 64)]
    )
    found = hold(trace, budget=2**15)
    assert found.trace.map().all_weights().dtype == torch.float16
    assert found.trace.header.notes == ("the weights are many, so the page keeps them in float16",)
    error = (found.trace.map().all_weights().float() - trace.map().all_weights()).abs().max()
    assert float(error) < 1e-5
    assert hold(trace).trace.header.notes == ()


def test_what_does_not_fit_is_refused_before_it_is_computed():
    def cells(layer, head):
        raise AssertionError

    trace = Trace([Slots("q", 1000), Slots("k", 1000)], [Map("m", "q", "k", cells)])
    with pytest.raises(ValueError, match="trace: it takes 2 MB, but 1 are kept at most; regard se"):
        hold(trace, budget=2**20)


def test_a_million_tokens_and_too_many_heads_are_refused():
    long = Trace([Tokens("words", ["a"] * 10**6)])
    with pytest.raises(ValueError, match="axes of at most 32768, got 'words' of 1000000"):
        hold(long)
    many = Map("m", "q", "q", torch.ones(20, 10, 1, 1), 20, 10)
    with pytest.raises(ValueError, match="trace: expected at most 199 heads, got 200"):
        hold(Trace([Slots("q", 1)], [many]), limits=replace(Limits(), heads=199))


def test_it_can_be_stopped_between_heads():
    lazy = Map("m", "q", "q", lambda layer, head: torch.ones(1, 1), 3, 1)
    calls = []

    def on_head():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hold(Trace([Slots("q", 1)], [lazy]), on_head=on_head)
    assert len(calls) == 2


def test_the_manifest_of_everything_is_json():
    found = hold(everything())
    told = json.loads(found.manifest_json)
    assert told["id"] == "0" * 32
    assert told["python"] == "x = 1"
    assert {map["id"] for map in told["maps"]} == {"read.0", "look"}


def test_a_picture_is_laid_under_a_grid_and_the_rest_stays():
    picture = torch.randint(256, (3, 4, 5), dtype=torch.uint8)
    found = with_image(seen(), "image", picture)
    assert torch.equal(found.axis("image").image, picture)
    assert torch.equal(found.map().all_weights(), seen().map().all_weights())
    with pytest.raises(ValueError, match="image: expected an axis that is a grid, got 'words' of"):
        with_image(seen(), "words", picture)
    assert found.header == Header(model="toy")


def test_labels_and_outputs_are_counted_at_what_they_take_in_memory():
    axes = [Slots("q", 1), Slots("k", 1)]
    trace = Trace(axes, [Map("m", "q", "k", torch.ones(1, 1, 1, 1))], outputs={"x": [[]] * 10_000})
    assert hold(trace).size_bytes > 56 * 10_000
    with pytest.raises(ValueError, match=r"MB, but .* are kept at most"):
        hold(trace, budget=2**17)
