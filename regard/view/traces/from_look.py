"""A `Trace` of any look: at our models, at PyTorch's attention, at a Hugging Face model.

Nothing is computed until it is shown: a head is read from the look when it is asked for.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.looking import Seen
from regard.looking.attention_record import AttentionRecord
from regard.view.traces.axes import Tokens
from regard.view.traces.trace import (
    NOT_CAUSES_NOTE,
    Header,
    Map,
    Trace,
    UnseenError,
)

# What the queries and the keys of a map are called; None leaves them their numbers.
MapLabels = tuple[Sequence[str] | None, Sequence[str] | None]
# Rows by which it is seen whether nobody looks ahead.
_CAUSAL_CHECK_ROWS = 16
_MAX_ID_CHARACTERS = 80


class _SeenAttention(NamedTuple):
    """One attention, and how large it is."""

    name: str
    record: AttentionRecord
    sizes: tuple[int, int, int]  # H, Q, K


def trace(
    seen: Seen,
    *,
    tokens: Sequence[str] | Mapping[str, MapLabels] | None = None,
    keys: Sequence[str] | None = None,
    title: str = "",
    model: str = "",
    batch: int = 0,
) -> Trace:
    """What a look has seen, as data for every picture and for the page.

    Attentions that are named alike but for one number, and are of one size, are the layers of one
    map: `h.0.attn` and `h.1.attn` of `h.attn`.

    Args:
        seen: what `regard.look` gave, while it is open or after it.
        tokens: what the queries are called, and the keys where there are as many; or for each map,
            by its id or by the name of an attention in it, what its queries and its keys are.
        keys: what the keys are called where they are not the queries, and what those are that look
            at one another. Where there are as many of both, say it for each map.
        model: whose attention it is.
        batch: which row of the batch.

    Raises:
        UnseenError: nothing was seen.
        ValueError: there are labels that fit nothing, or there is no such row.
    """
    found = [_seen_attention(name, seen[name], batch) for name in seen.names()]
    if not found:
        raise UnseenError("trace: the look has seen no attention yet")
    groups = _group_layers(found)
    labels = _find_labels(groups, tokens, keys)
    axes, maps = dict[tuple[str, ...], Tokens](), []
    for (id, layers), (queries, across) in zip(groups.items(), labels, strict=True):
        query, key = _axis_id(axes, "tokens", queries), _axis_id(axes, "keys", across)
        maps.append(_build_map(id, layers, (query, key), batch))
    first = found[0].record.calls[0].call.q
    return Trace(
        list(axes.values()),
        maps,
        header=Header(
            model=model,
            title=title,
            dtype=str(first.dtype).removeprefix("torch."),
            device=first.device.type,
            notes=[NOT_CAUSES_NOTE],
        ),
    )


def _seen_attention(name: str, record: AttentionRecord, batch: int) -> _SeenAttention:
    if len({kept.sizes[:2] for kept in record.calls}) > 1:
        raise ValueError(
            f"trace: calls of {name!r} have other batches or heads than one another, so they are "
            "no one map; look at one call of the model"
        )
    B, H, Q, K = record.sizes
    if not 0 <= batch < B:
        raise ValueError(f"trace: expected batch from 0 to {B - 1}, got {batch}")
    return _SeenAttention(name, record, (H, Q, K))


def _group_layers(attentions: list[_SeenAttention]) -> dict[str, list[_SeenAttention]]:
    """The layers of each map by its id, in the order in which they were first seen."""
    groups: dict[str, list[_SeenAttention]] = {}
    left = list(attentions)
    while left:
        layers = _first_layer_group(left)
        names = {each.name for each in layers}
        left = [each for each in left if each.name not in names]
        id = _make_id(_common_name(layers)) if len(layers) > 1 else _make_id(layers[0].name)
        same = sum(re.fullmatch(re.escape(id) + r"(-\d+)?", other) is not None for other in groups)
        groups[f"{id}-{same + 1}" if same else id] = layers
    return groups


def _first_layer_group(attentions: list[_SeenAttention]) -> list[_SeenAttention]:
    """The first attention and all that differ from it in one number, in the order of that."""
    first = attentions[0]
    parts = _split_name(first.name)
    best = [first]
    for place in range(1, len(parts), 2):
        layers = [
            x
            for x in attentions
            if x.sizes == first.sizes and _differs_only_at(parts, x.name, place)
        ]
        if len(layers) > len(best):
            best = sorted(layers, key=lambda x: int(_split_name(x.name)[place]))
    return best


def _split_name(name: str) -> list[str]:
    """The text of a name and its numbers in turn: `h.0.attn` is `h.`, `0`, `.attn#`, `1`, ``.

    The first use of a layer that is shared has no number of its own, as `h.attn#2` has.
    """
    return re.split(r"([0-9]+)", name if "#" in name else f"{name}#1")


def _differs_only_at(parts: list[str], name: str, place: int) -> bool:
    """Whether a name has these parts, but for the number at one place."""
    others = _split_name(name)
    return len(others) == len(parts) and all(
        a == b for i, (a, b) in enumerate(zip(parts, others, strict=True)) if i != place
    )


def _common_name(layers: list[_SeenAttention]) -> str:
    """The name that layers share, without the number in which they differ."""
    pairs = zip(*(_split_name(each.name) for each in layers[:2]), strict=True)
    return "".join(a if a == b else "" for a, b in pairs)


def _make_id(name: str) -> str:
    """A name as an id of a trace; of a long one, its end."""
    name = name.removesuffix("#1").removesuffix("#")
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    safe = re.sub(r"\.{2,}", ".", safe)[-_MAX_ID_CHARACTERS:].strip(".-")
    return safe or "attention"


def _find_labels(
    groups: dict[str, list[_SeenAttention]], tokens: Any, keys: Sequence[str] | None
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What the queries and the keys of each map are called."""
    by_map = _labels_by_map_id(groups, tokens) if isinstance(tokens, Mapping) else {}
    said = [
        ("tokens", None if isinstance(tokens, Mapping) else _check_strings("tokens", tokens)),
        ("keys", _check_strings("keys", keys)),
    ]
    given = [(name, labels) for name, labels in said if labels is not None]
    sizes = {n for layers in groups.values() for n in layers[0].sizes[1:]}
    for name, labels in given:
        if len(labels) not in sizes:
            there = ", ".join(f"{id} {layers[0].sizes[1:]}" for id, layers in groups.items())
            raise ValueError(
                f"trace: {len(labels)} {name} name nothing; queries and keys are {there:.300}"
            )
    found = []
    for id, layers in groups.items():
        _, Q, K = layers[0].sizes
        queries, across = by_map.get(id, (None, None))
        if id not in by_map:
            # tokens are first of all queries, and keys are keys
            queries = next((labels for _, labels in given if len(labels) == Q), None)
            across = next((labels for _, labels in given[::-1] if len(labels) == K), None)
        elif across is None and Q == K:
            across = queries
        found.append(
            (
                _labels_or_numbers(id, "queries", queries, Q),
                _labels_or_numbers(id, "keys", across, K),
            )
        )
    return found


def _labels_by_map_id(
    groups: dict[str, list[_SeenAttention]], tokens: Mapping[str, MapLabels]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, pair in tokens.items():
        ids = [id for id, layers in groups.items() if name in (id, *(x.name for x in layers))]
        if not ids:
            raise ValueError(
                f"trace: no map is named {name!r:.80}; there is {', '.join(groups):.300}"
            )
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"trace: expected (queries, keys) for {name!r:.80}, got {pair!r:.80}")
        found[ids[0]] = tuple(_check_strings(name, labels) for labels in pair)
    return found


def _check_strings(name: str, labels: Any) -> tuple[str, ...] | None:
    if isinstance(labels, str):
        raise ValueError(f"trace: expected {name} as a list of strings, got one string")
    return None if labels is None else tuple(labels)


def _labels_or_numbers(
    id: str, what: str, labels: tuple[str, ...] | None, size: int
) -> tuple[str, ...]:
    """The labels, or where there are none, numbers."""
    if labels is None:
        return tuple(map(str, range(size)))
    if len(labels) != size:
        raise ValueError(f"trace: expected {size} {what} of {id!r}, got {len(labels)}")
    return labels


def _axis_id(axes: dict[tuple[str, ...], Tokens], name: str, labels: tuple[str, ...]) -> str:
    """The id of the axis of these labels; maps that have the same share it."""
    if labels not in axes:
        same = sum(re.fullmatch(rf"{name}(-\d+)?", axis.id) is not None for axis in axes.values())
        axes[labels] = Tokens(f"{name}-{same + 1}" if same else name, labels)
    return axes[labels].id


def _build_map(id: str, layers: list[_SeenAttention], axes: tuple[str, str], batch: int) -> Map:
    sights, (H, Q, K) = [each.record for each in layers], layers[0].sizes

    def cells(layer: int, head: int) -> Tensor:
        return sights[layer].rows(batch, head, slice(None)).float().cpu()

    return Map(
        id,
        *axes,
        cells,
        len(layers),
        H,
        causal=Q == K > 1 and _is_causal(sights[0], Q, batch),
        names=[each.name for each in layers],
    )


def _is_causal(record: AttentionRecord, Q: int, batch: int) -> bool:
    """Whether nobody looks ahead, by some rows of the first head."""
    queries = torch.arange(Q - 1)[:: -(-Q // _CAUSAL_CHECK_ROWS)]
    ahead = torch.arange(Q) > queries[:, None]
    return not bool(record.rows(batch, 0, queries).cpu()[ahead].any())
