"""A trace holds what fits together, computes what is asked for, and nothing else."""

import gc
import math
import sys
import time

import pytest
import torch
from torch.testing import assert_close

from regard.view import Header, Map, Series, Slots, Trace

Q, K = 3, 5
AXES = [Slots("q", Q), Slots("k", K)]


def uniform(layers: int = 1, heads: int = 1) -> torch.Tensor:
    return torch.full((layers, heads, Q, K), 1 / K)


def test_lazy_weights_are_computed_only_when_asked():
    asked = []

    def cells(layer, head):
        asked.append((layer, head))
        return uniform()[0, 0]

    trace = Trace(AXES, [Map("m", "q", "k", cells, 2, 3)])
    assert asked == []
    trace.map("m").weights(1, 2)
    assert asked == [(1, 2)]


def test_a_map_answers_alike_whether_it_is_lazy_or_not():
    w = torch.randn(2, 3, Q, K).softmax(-1)
    given = Trace(AXES, [Map("m", "q", "k", w, 2, 3)]).map()
    lazy = Trace(AXES, [Map("m", "q", "k", lambda i, j: w[i, j], 2, 3)]).map()
    assert torch.equal(given.weights(1, 2), w[1, 2])
    assert torch.equal(lazy.weights(1, 2), w[1, 2])
    assert torch.equal(given.all_weights(), lazy.all_weights())
    assert all(map(torch.equal, given.stats(), lazy.stats()))


def test_stats_by_hand():
    w = torch.zeros(1, 2, Q, K)
    w[0, 0] = 1 / K
    w[0, 1, :, 0] = 1
    entropy, most, sink = Map("m", "q", "k", w, 1, 2).stats()
    assert_close(entropy, torch.tensor([[math.log(K), 0]]))
    assert_close(most, torch.tensor([[1 / K, 1]]))
    assert_close(sink, torch.tensor([[1 / K, 1]]))


def test_rows_may_sum_to_less_than_one():
    assert Trace(AXES, [Map("m", "q", "k", uniform() / 3)]).map().weights().sum() < 1.1


def test_half_precision_is_allowed_its_rounding():
    w = torch.randn(1, 1, 50, 999).softmax(-1)
    for dtype in (torch.float16, torch.bfloat16):
        Map("m", "q", "k", w.to(dtype))
    thirds = torch.full((1, 1, 1, 3), 1 / 3).bfloat16()
    assert thirds.float().sum() > 1.0015
    Map("m", "q", "k", thirds)


def test_half_precision_is_allowed_no_more_than_its_rounding():
    w = torch.tensor([[[[0.5, 0.5, 0.01]]]]).bfloat16()
    with pytest.raises(ValueError, match=r"rows that sum to at most 1, got 1\.01"):
        Map("m", "q", "k", w)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w * 2, "expected rows that sum to at most 1, got 2"),
        (lambda w: w - 0.3, "expected weights of at least 0, got -0.1"),
        (lambda w: w * math.nan, "expected weights of finite numbers, got NaN or infinity"),
        (lambda w: w.long(), "expected weights as a float tensor, got a tensor of int64"),
    ],
)
def test_wrong_weights_are_refused_at_once_or_when_asked(change, message):
    with pytest.raises(ValueError, match=f"^Map 'm': {message}"):
        Map("m", "q", "k", change(uniform()))
    lazy = Trace(AXES, [Map("m", "q", "k", lambda i, j: change(uniform())[i, j])])
    with pytest.raises(ValueError, match=f"^Map 'm': {message}"):
        lazy.map().weights()


def test_weights_of_another_shape_are_refused_at_once_or_when_asked():
    with pytest.raises(ValueError, match=r"cells of shape \(layers=1, heads=1, Q=3, K=5\), got"):
        Trace(AXES, [Map("m", "k", "q", uniform().mT), Map("n", "q", "k", uniform().mT)])
    lazy = Trace(AXES, [Map("m", "k", "q", lambda i, j: uniform()[i, j])])
    with pytest.raises(ValueError, match=r"expected weights of shape \(Q=5, K=3\), got \(3, 5\)"):
        lazy.map().weights()
    with pytest.raises(ValueError, match=r"of shape \(layers=2, heads=1, Q, K\), got"):
        Map("m", "q", "k", uniform(), 2)
    with pytest.raises(ValueError, match="expected at least one weight"):
        Map("m", "q", "k", torch.zeros(1, 1, 0, 0))


def test_heads_that_are_not_there_are_refused():
    found = Map("m", "q", "k", uniform(2, 3), 2, 3)
    with pytest.raises(ValueError, match="Map 'm': expected head from 0 to 2, got 3"):
        found.weights(0, 3)
    with pytest.raises(ValueError, match="Map 'm': expected layer from 0 to 1, got -1"):
        found.weights(-1, 0)
    with pytest.raises(ValueError, match="expected at least one of heads, got 0"):
        Map("m", "q", "k", uniform(), 1, 0)


@pytest.mark.parametrize(
    ("sizes", "found"),
    [([(1, 1), (2, 2), (2, 2)], "1"), ([(1, 1), (2, 1)], "1"), ([(2, 2), (1, 1)], "0")],
)
def test_of_maps_with_one_head_and_with_many_the_first_with_many_is_found(sizes, found):
    maps = [Map(str(n), "q", "k", uniform(*size), *size) for n, size in enumerate(sizes)]
    assert Trace(AXES, maps).multi_head_map().id == found
    assert Trace(AXES, [Map("alone", "q", "k", uniform())]).multi_head_map().id == "alone"


@pytest.mark.parametrize("part", ["axes", "maps", "series"])
def test_ids_that_come_twice_are_refused(part):
    twice = {
        "axes": [Slots("q", Q), Slots("k", K), Slots("q", 1)],
        "maps": [Map("q", "q", "k", uniform())] * 2,
        "series": [Series("q", "q", torch.zeros(Q))] * 2,
    }
    with pytest.raises(ValueError, match=f"Trace: expected {part} of different ids, got 'q' twice"):
        Trace(**({"axes": AXES} | {part: twice[part]}))


def test_parts_that_are_not_there_are_named():
    with pytest.raises(ValueError, match="Trace: no axis named 'x'; there is q, k"):
        Trace(AXES, [Map("m", "x", "k", uniform())])
    with pytest.raises(ValueError, match="Trace: no axis named 'x'"):
        Trace(AXES, series=[Series("s", "x", torch.zeros(3))])
    with pytest.raises(ValueError, match="Trace: no map named 'y'; there is none"):
        Trace(AXES).map("y")
    with pytest.raises(ValueError, match="Trace: no map named None; there is none"):
        Trace(AXES).map()
    with pytest.raises(ValueError, match="Trace: expected at least one axis, got none"):
        Trace([])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(4), r"Series 's': expected values of shape \(n=3\), got \(4,\)"),
        (torch.zeros(4, 2), r"expected values of shape \(n=3, m\), got \(4, 2\)"),
        (torch.zeros(3, 2, 1), r"expected values of shape \(n,\) or \(n, m\), got"),
        (torch.full((3,), -math.inf), "expected values of finite numbers"),
        (torch.zeros(3).bool(), "expected values as a float tensor"),
    ],
)
def test_series_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Trace(AXES, series=[Series("s", "q", values)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (math.nan, "outputs: expected values of finite numbers"),
        ({3: "x"}, "outputs: expected a key as a string, got 3 of type int"),
        (torch.zeros(1), "outputs: expected what JSON can say, got a tensor of float32"),
        ("\ud800", "outputs: expected a value as valid Unicode"),
    ],
)
def test_outputs_that_json_cannot_say_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Trace(AXES, outputs={"x": given})


def test_whole_numbers_that_no_float_can_say_are_refused():
    with pytest.raises(ValueError, match=r"outputs: expected whole numbers below 2\^63, got"):
        Trace(AXES, outputs={"x": [10**400]})
    with pytest.raises(ValueError, match="got one of about 10000 digits"):
        Trace(AXES, outputs={"x": -(10**9999)})
    with pytest.raises(ValueError, match="Header: expected whole numbers"):
        Header(seed=2**63)
    assert Trace(AXES, outputs={"x": 2**63 - 1}).outputs == {"x": 2**63 - 1}


@pytest.fixture
def without_collecting():
    """No garbage is collected: that takes as long as all other tests have left objects."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collecting")
def test_many_parts_are_put_together_in_time_that_grows_as_they_do():
    def seconds(count):
        axes = [Slots(f"a{n}", 1) for n in range(count)]
        one = torch.ones(1, 1, 1, 1)
        maps = [Map(f"m{n}", f"a{n}", f"a{n}", one) for n in range(count)]
        began = time.process_time()
        Trace(axes, maps)
        return time.process_time() - began

    seconds(10)
    # eight times as many: 64 times as long if each were compared with all others
    assert seconds(8000) < 30 * seconds(1000)


def test_a_large_head_is_checked_and_summed_up_as_a_small_one(monkeypatch):
    w = torch.rand(1, 2, 50, 30).softmax(-1)
    whole = Map("m", "q", "k", w, 1, 2).stats()
    monkeypatch.setattr(sys.modules["regard.view.traces.trace"], "_MAX_BLOCK_WEIGHTS", 100)
    for a, b in zip(whole, Map("m", "q", "k", w, 1, 2).stats(), strict=True):
        assert_close(a, b)
    w[0, 1, 49, 29] = math.nan
    with pytest.raises(ValueError, match="finite"):
        Map("m", "q", "k", w, 1, 2)


def test_outputs_that_go_on_for_ever_are_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(ValueError, match="outputs: expected at most 32 levels, got more"):
        Trace(AXES, outputs={"x": endless})


def test_outputs_are_a_copy():
    tokens = ["a"]
    trace = Trace(AXES, outputs={"tokens": tokens})
    tokens.append("b")
    assert trace.outputs == {"tokens": ["a"]}


def test_headers_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="Header: expected schema 1, got 2"):
        Header(schema=2)
    with pytest.raises(ValueError, match="Header: expected a note as a string, got 3"):
        Header(notes=[3])
    with pytest.raises(ValueError, match="Header: expected torch as a string, got 2"):
        Header(versions={"torch": 2})


def test_a_trace_holds_no_graph():
    w = uniform().requires_grad_()
    trace = Trace(AXES, [Map("m", "q", "k", w)], [Series("s", "q", w[0, 0, :, 0])])
    assert not trace.map().weights().requires_grad
    assert not trace.map().all_weights().requires_grad
    assert not trace.series[0].values.requires_grad


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["a"], "Map 'm': expected a name for each of 2 layers, got 1"),
        ("ab", "Map 'm': expected a name for each of 2 layers, got one string"),
        ([1, 2], "Map 'm': expected the name of layer 0 as a string, got"),
        (["a", "\ud800"], "Map 'm': expected the name of layer 1 as valid Unicode"),
    ],
)
def test_names_are_one_a_layer_or_none(names, match):
    w = torch.full((2, 1, 3, 3), 0.25)
    assert Map("m", "s", "s", w, 2, names=["h.0", "h.1"]).names == ("h.0", "h.1")
    assert Map("m", "s", "s", w, 2).names == ()
    with pytest.raises(ValueError, match=match):
        Map("m", "s", "s", w, 2, names=names)
