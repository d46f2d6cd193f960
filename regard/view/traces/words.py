"""Whole words instead of the pieces a model reads: summed over keys, averaged over queries."""

from dataclasses import replace

import torch
from torch import Tensor

from regard.view.traces.axes import Axis, Tokens
from regard.view.traces.trace import Map, Series, Trace


def by_words(trace: Trace) -> Trace:
    """The trace with the tokens of each word as one; what has no words stays as it is.

    A word is looked at as much as its tokens are together, and looks where they look on average,
    so a row that summed to one still does. A series gives a word the mean of its tokens.
    """
    groups = {
        axis.id: axis.word_groups()
        for axis in trace.axes
        if isinstance(axis, Tokens) and axis.words is not None
    }
    return replace(
        trace,
        axes=[_join_tokens(axis, groups.get(axis.id)) for axis in trace.axes],
        maps=[_merge_map(map, groups.get(map.query), groups.get(map.key)) for map in trace.maps],
        series=[_average_series(series, groups.get(series.axis)) for series in trace.series],
    )


def _join_tokens(axis: Axis, groups: list[list[int]] | None) -> Axis:
    if groups is None or not isinstance(axis, Tokens):
        return axis
    # a blank that tells a piece where its word begins is not part of the word
    joined = ["".join(axis.labels[place] for place in group) for group in groups]
    names = axis.names or [word.strip() or word for word in joined]
    special = [n for n, group in enumerate(groups) if set(group) <= set(axis.special)]
    return Tokens(axis.id, names, special=special)


def _merge_map(map: Map, queries: list[list[int]] | None, keys: list[list[int]] | None) -> Map:
    if queries is None and keys is None:
        return map

    def cells(layer: int, head: int) -> Tensor:
        w = map.weights(layer, head)
        w = w if keys is None else _group_sums(w.T, keys).T
        return w if queries is None else _group_means(w, queries)

    return replace(map, cells=cells, sizes=None)


def _average_series(series: Series, groups: list[list[int]] | None) -> Series:
    return series if groups is None else replace(series, values=_group_means(series.values, groups))


def _group_sums(x: Tensor, groups: list[list[int]]) -> Tensor:
    # half precision would lose what is small
    wide = x if x.dtype == torch.float64 else x.float()
    group = [n for n, places in enumerate(groups) for _ in places]
    out = wide.new_zeros(len(groups), *x.shape[1:])
    return out.index_add(0, torch.tensor(group, device=x.device), wide)


def _group_means(x: Tensor, groups: list[list[int]]) -> Tensor:
    sums = _group_sums(x, groups)
    counts = torch.tensor([len(places) for places in groups], device=x.device)
    return sums / counts.reshape(-1, *[1] * (x.dim() - 1))
