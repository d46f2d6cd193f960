"""Traces that the tests of pictures share."""

import torch

from regard.view import Grid, Header, Map, Points, Series, Slots, Steps, Tokens, Trace

SOURCE = ["She", "eat", "s", "a", "green", "app", "le", "</s>"]
TARGET = ["Elle", "mange", "une", "pom", "me", "ver", "te"]


def translation(*, layers: int = 1, heads: int = 1, **header: object) -> Trace:
    """A sentence of eight pieces and six words, read by one of seven pieces and five words."""
    source = Tokens("source", SOURCE, words=[0, 1, 1, 2, 3, 4, 4, 5], special=[7])
    target = Tokens("target", TARGET, words=[0, 1, 2, 3, 3, 4, 4])
    weights = torch.randn(layers, heads, 7, 8).softmax(-1)
    cross = Map("cross", "target", "source", weights, layers, heads)
    return Trace([source, target], [cross], outputs={"text": "Elle…"}, header=Header(**header))


def several(count: int) -> Trace:
    """So many maps of one sentence: the first has one head, the others two layers of two."""
    axis, w = Tokens("source", SOURCE), torch.randn(2, 2, 8, 8).softmax(-1)
    first = Map("map0", "source", "source", w.mean((0, 1), keepdim=True))
    others = [Map(f"map{n}", "source", "source", w, 2, 2) for n in range(1, count)]
    return Trace([axis], [first, *others])


def everything() -> Trace:
    """Every kind of axis, two maps of which one is lazy, and series of both shapes."""
    lazy = torch.rand(2, 3, 5, 6).softmax(-1)
    axes = [
        Tokens(
            "src", ["a", "b", "c", "d"], words=[0, 0, None, 1], special=[2], names=["ab", *"cd"]
        ),
        Grid("img", 2, 3, torch.rand(3, 4, 5)),
        Grid("bare", 1, 4),
        Slots("mem", 6),
        Points("pts", torch.randn(5, 2, dtype=torch.float64)),
        Steps("t", ["0", "1", "2"]),
    ]
    maps = [
        Map("read.0", "pts", "mem", lambda layer, head: lazy[layer, head], 2, 3),
        Map("look", "t", "src", torch.full((1, 1, 3, 4), 0.25).half(), causal=True),
    ]
    series = [Series("gate", "t", torch.rand(3)), Series("keys", "t", torch.rand(3, 2))]
    header = Header(
        model="m", seed=7, versions={"torch": "2"}, notes=["n"], edits=[{"head": [0, 1]}]
    )
    return Trace(axes, maps, series, {"text": "é\u2028", "p": [0.1, None, True]}, header)


def odd(labels: list[str]) -> Trace:
    """A row of strange labels, read by themselves."""
    n = len(labels)
    weights = torch.randn(1, 1, n, n).softmax(-1)
    return Trace([Tokens("odd", labels)], [Map("self", "odd", "odd", weights)])
