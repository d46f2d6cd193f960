"""`Trace`: the one neutral object between any model and any picture.

A trace has axes (what was looked from and at), maps (who looked where, by layer and head), series
(numbers along an axis) and outputs (what the model answered). It knows no model.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import check
from regard.view.traces.axes import Axis, check_finite, check_id, check_text

SCHEMA = 1
# What every trace of a model may note.
NOT_CAUSES_NOTE = "weights say where a model looked, not why it answered so"
# A row is a share of one, as far as its numbers can say so.
_ROW_SUM_TOLERANCE = 1e-3
_MAX_JSON_DEPTH = 32
# Beyond this no float says a whole number, and no other language reads it.
INTEGER_LIMIT = 2**63
# How many weights are checked at a time: what that needs beside them is some MB, however many.
_MAX_BLOCK_WEIGHTS = 2**21


class Stats(NamedTuple):
    """What is to be known of each head of a map, each (layers, heads) in float32."""

    entropy: Tensor  # how widely a query looks, in nats: the mean over queries
    max: Tensor  # the greatest weight of all
    sink: Tensor  # how much the first key gets: the mean over queries


class UnseenError(ValueError):
    """There is no attention to show."""


@dataclass(frozen=True, eq=False)
class Map:
    """Who looked where: the weights of `query` on `key`, for every layer and head.

    Args:
        query: the id of the axis that looks.
        key: the id of the axis that is looked at.
        cells: the weights (layers, heads, Q, K), or what gives the (Q, K) of a layer and a head
            when it is asked; rows may sum to less than one, but not to more.
        causal: whether a query sees only keys up to its own place.
        sizes: (Q, K); the trace fills it in.
        names: the attention of each layer, as a look and an edit name it; empty where none is.
    """

    id: str
    query: str
    key: str
    cells: Tensor | Callable[[int, int], Tensor]
    layers: int = 1
    heads: int = 1
    causal: bool = False
    sizes: tuple[int, int] | None = None
    names: Sequence[Any] = ()

    def __post_init__(self) -> None:
        where = check_id("Map", self.id)
        for name, size in (("layers", self.layers), ("heads", self.heads)):
            if isinstance(size, bool) or size < 1:
                raise ValueError(f"{where}: expected at least one of {name}, got {size!r}")
        object.__setattr__(self, "names", _check_layer_names(where, self.names, self.layers))
        if isinstance(self.cells, Tensor):
            Q, K = self.sizes or (None, None)
            check.shape(where, "cells", self.cells, layers=self.layers, heads=self.heads, Q=Q, K=K)
            object.__setattr__(self, "cells", self.cells.detach())
            _check_weights(where, self.cells)

    def weights(self, layer: int = 0, head: int = 0) -> Tensor:
        """The weights (Q, K) of one head, computed now if they are not there yet, and checked."""
        self.check_head(layer, head)
        if isinstance(self.cells, Tensor):
            return self.cells[layer, head]
        where, found = f"Map {self.id!r}", self.cells(layer, head)
        Q, K = self.sizes or (None, None)
        check.shape(where, "weights", found, Q=Q, K=K)
        found = found.detach()
        _check_weights(where, found)
        return found

    def check_head(self, layer: int, head: int) -> None:
        """Refuse a layer or a head that is not there."""
        for name, index, size in (("layer", layer, self.layers), ("head", head, self.heads)):
            if not 0 <= index < size:
                raise ValueError(
                    f"Map {self.id!r}: expected {name} from 0 to {size - 1}, got {index}"
                )

    def label(self, layer: int | None = None, head: int | None = None) -> str:
        """The id, and which layer and head where there is more than one."""
        parts = [self.id]
        parts += [f"layer {layer}"] if layer is not None and self.layers > 1 else []
        parts += [f"head {head}"] if head is not None and self.heads > 1 else []
        return " · ".join(parts)

    def all_weights(self) -> Tensor:
        """All weights (layers, heads, Q, K)."""
        if isinstance(self.cells, Tensor):
            return self.cells
        layers, heads = range(self.layers), range(self.heads)
        return torch.stack([torch.stack([self.weights(i, j) for j in heads]) for i in layers])

    def stats(self) -> Stats:
        """Entropy, greatest weight and sink of every head, one head in memory at a time."""
        rows = []
        for layer in range(self.layers):
            for head in range(self.heads):
                rows.append(_head_stats(self.weights(layer, head)))
        return Stats(*torch.stack(rows).reshape(self.layers, self.heads, 3).unbind(2))


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers along an axis, (n,) or (n, m): a gate, a probability, a key strength."""

    id: str
    axis: str
    values: Tensor

    def __post_init__(self) -> None:
        where = check_id("Series", self.id)
        check.floats(where, "values", self.values)
        if self.values.dim() not in (1, 2):
            raise ValueError(
                f"{where}: expected values of shape (n,) or (n, m), got {tuple(self.values.shape)}"
            )
        check_finite(where, "values", self.values)
        object.__setattr__(self, "values", self.values.detach())


@dataclass(frozen=True)
class Header:
    """Where a trace comes from, so that its picture can be made again."""

    model: str = ""
    family: str = ""
    title: str = ""
    run_id: str = ""
    dtype: str = ""
    device: str = ""
    seed: int | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Any] = ()
    edits: Sequence[Any] = ()
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"Header: expected schema {SCHEMA}, got {self.schema!r}")
        for name in ("model", "family", "title", "run_id", "dtype", "device"):
            check_text("Header", name, getattr(self, name))
        to_json_value("Header", self.seed)
        for name, value in [*self.versions.items(), *(("a note", note) for note in self.notes)]:
            check_text("Header", str(name), value)
        object.__setattr__(self, "versions", to_json_value("Header", dict(self.versions)))
        object.__setattr__(self, "notes", tuple(self.notes))
        object.__setattr__(self, "edits", tuple(to_json_value("Header", list(self.edits))))


@dataclass(frozen=True, eq=False)
class Trace:
    """What was seen, as data.

    Args:
        outputs: what the model answered, in what JSON can say: text, tokens, probabilities.
    """

    axes: Sequence[Axis]
    maps: Sequence[Map] = ()
    series: Sequence[Series] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)
    header: Header = field(default_factory=Header)
    _axes: Mapping[str, Axis] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("axes", "maps", "series"):
            ids = Counter(part.id for part in getattr(self, name))
            twice = sorted(id for id, count in ids.items() if count > 1)
            if twice:
                raise ValueError(f"Trace: expected {name} of different ids, got {twice[0]!r} twice")
        if not self.axes:
            raise ValueError("Trace: expected at least one axis, got none")
        object.__setattr__(self, "axes", tuple(self.axes))
        object.__setattr__(self, "_axes", {axis.id: axis for axis in self.axes})
        object.__setattr__(self, "maps", tuple(map(self._with_sizes, self.maps)))
        object.__setattr__(self, "series", tuple(self.series))
        object.__setattr__(self, "outputs", to_json_value("outputs", dict(self.outputs)))
        for series in self.series:
            n = self.axis(series.axis).size
            wide = {"m": None} if series.values.dim() == 2 else {}
            check.shape(f"Series {series.id!r}", "values", series.values, n=n, **wide)

    def axis(self, id: str) -> Axis:
        """The axis of this id."""
        return self._axes.get(id) or _get_part("axis", id, self.axes)

    def map(self, id: str | None = None) -> Map:
        """The map of this id, or the first one."""
        if id is None and self.maps:
            return self.maps[0]
        return _get_part("map", id, self.maps)

    def multi_head_map(self) -> Map:
        """The first map that has more than one head, in one layer or in several, or the first."""
        return next((map for map in self.maps if map.layers * map.heads > 1), self.map())

    def _with_sizes(self, map: Map) -> Map:
        """The map, told how many queries and keys it has; its weights were checked before."""
        Q, K = self.axis(map.query).size, self.axis(map.key).size
        if isinstance(map.cells, Tensor):
            where = f"Map {map.id!r}"
            check.shape(where, "cells", map.cells, layers=map.layers, heads=map.heads, Q=Q, K=K)
        placed = copy(map)
        object.__setattr__(placed, "sizes", (Q, K))
        return placed


def to_json_value(where: str, data: Any, depth: int = 0) -> Any:
    """A copy in what JSON can say and give back unchanged: tuples become lists, NaN is refused."""
    if depth > _MAX_JSON_DEPTH:
        raise ValueError(f"{where}: expected at most {_MAX_JSON_DEPTH} levels, got more")
    if data is None or isinstance(data, bool):
        return data
    if isinstance(data, int):
        if abs(data) >= INTEGER_LIMIT:
            raise ValueError(
                f"{where}: expected whole numbers below 2^63, got {_digits_text(data)}"
            )
        return data
    if isinstance(data, float):
        if not math.isfinite(data):
            raise ValueError(f"{where}: expected values of finite numbers, got {data}")
        return data
    if isinstance(data, str):
        return check_text(where, "a value", data)
    if isinstance(data, list | tuple):
        return [to_json_value(where, value, depth + 1) for value in data]
    if isinstance(data, dict):
        return {
            check_text(where, "a key", k): to_json_value(where, v, depth + 1)
            for k, v in data.items()
        }
    raise ValueError(f"{where}: expected what JSON can say, got {check.describe_kind(data):.200}")


def _digits_text(number: int) -> str:
    """A whole number of any length; Python itself writes none of over 4300 digits."""
    return f"one of about {int(number.bit_length() * math.log10(2)) + 1} digits"


def fields_to_json(part: Any, *, exclude: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a part that JSON can say."""
    given = {f.name: getattr(part, f.name) for f in fields(part) if f.name not in exclude}
    return to_json_value(type(part).__name__, given)


def _check_layer_names(where: str, names: Sequence[Any], layers: int) -> tuple[str, ...]:
    if isinstance(names, str) or len(names) not in (0, layers):
        got = "one string" if isinstance(names, str) else len(names)
        raise ValueError(f"{where}: expected a name for each of {layers} layers, got {got}")
    return tuple(check_text(where, f"the name of layer {i}", name) for i, name in enumerate(names))


def _get_part(kind: str, id: str | None, parts: Sequence[Any]) -> Any:
    for part in parts:
        if part.id == id:
            return part
    there = ", ".join(part.id for part in parts) or "none"
    raise ValueError(f"Trace: no {kind} named {id!r:.80}; there is {there:.200}")


def _check_weights(where: str, weights: Tensor) -> None:
    check.floats(where, "weights", weights)
    if not weights.numel():
        raise ValueError(f"{where}: expected at least one weight, got {tuple(weights.shape)}")
    least, most = math.inf, -math.inf
    for rows in _blocks(weights):
        check_finite(where, "weights", rows)
        least = min(least, float(rows.min()))
        most = max(most, float(rows.sum(-1, dtype=torch.float32).max()))
    if least < 0:
        raise ValueError(f"{where}: expected weights of at least 0, got {least:g}")
    if most > 1 + _ROW_SUM_TOLERANCE + torch.finfo(weights.dtype).eps:
        raise ValueError(f"{where}: expected rows that sum to at most 1, got {most:g}")


def _head_stats(weights: Tensor) -> Tensor:
    """The three numbers of `Stats` of one head (Q, K), in float32 on the CPU."""
    wide = sum(torch.special.entr(rows.float()).sum(1).sum() for rows in _blocks(weights))
    found = (wide / len(weights), weights.max().float(), weights[:, 0].float().mean())
    return torch.stack(found).cpu()


def _blocks(weights: Tensor) -> Iterator[Tensor]:
    """The rows of weights (…, K), so many at a time that what is computed of them is small."""
    yield from weights.flatten(0, -2).split(max(1, _MAX_BLOCK_WEIGHTS // weights.shape[-1]))
