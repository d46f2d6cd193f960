"""One offline HTML file of a trace: the alignment, its numbers, and nothing asked of the network.

Whatever comes from the trace is escaped, and the page's own policy lets no script run but ours.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from torch import Tensor

from regard.check import Number
from regard.view.axes import Axis
from regard.view.colours import CIVIDIS, colour
from regard.view.inline import SCRIPT, STYLE
from regard.view.labels import columns, shortened, visible
from regard.view.trace import Header, Map, Trace
from regard.view.words import by_words

# Beyond these a browser becomes slow.
MOST_CELLS, MOST_WEIGHTS = 128 * 128, 2**24
# Pixels; a letter is about this share of the font's size wide.
_LARGEST_CELL, _SMALLEST_CELL, _FONT, _LETTER = 26, 12, 13, 0.62
_MEANING = (
    "A row is a query and a column is a key. A weight says how much of a key was read: "
    "where the model looked, not why it answered."
)
_KEYS = "Arrow keys move, [ and ] change the head, { and } the layer, Escape leaves."


def page(
    trace: Trace, *, map: str | None = None, layer: int = 0, head: int = 0, words: bool = False
) -> str:
    """The trace as the text of one HTML file.

    Args:
        map: the map to show; if none is named, the first, and the others can be chosen.
        layer: the layer shown first; the others can be chosen.
        head: the head shown first; the others can be chosen.
        words: whether the tokens of a word are drawn as one.
    """
    trace = by_words(trace) if words else trace
    first = trace.map(map)
    first.refuse_beyond(layer, head)
    shown = trace.maps if map is None else [first]
    _refuse_large(shown)
    weights = [each.whole().float().cpu() for each in shown]
    title = _text(trace.header.title or trace.header.model or first.id)
    data = [_data(trace, each, w) for each, w in zip(shown, weights, strict=True)]
    parts = [
        f'<h1 dir="auto">{title}</h1>',
        _pairs(trace.outputs),
        _maps([each.id for each in shown]),
        *(_section(trace, m, w, layer, head) for m, w in zip(shown, weights, strict=True)),
        _footer(trace.header),
    ]
    body = f"""<main>
{"".join(part + chr(10) for part in parts if part)}</main>
<script type="application/json" id="data">{_json({"colours": CIVIDIS, "maps": data})}</script>
<script>{SCRIPT}</script>"""
    return f'<!doctype html>\n<html lang="en">\n{_head(title)}\n<body>\n{body}\n</body>\n</html>\n'


def _refuse_large(maps: Any) -> None:
    for map in maps:
        Q, K = map.sizes
        if Q * K > MOST_CELLS:
            raise ValueError(
                f"page: map {map.id!r} has {Q} × {K} cells, but a page holds {MOST_CELLS}. "
                "Merge words, name another map, or draw it as .png."
            )
    total = sum(map.layers * map.heads * math.prod(map.sizes) for map in maps)
    if total > MOST_WEIGHTS:
        raise ValueError(f"page: {total} weights, but a page holds {MOST_WEIGHTS}. Name one map.")


def _head(title: str) -> str:
    policy = (
        f"default-src 'none'; script-src '{_digest(SCRIPT)}'; style-src '{_digest(STYLE)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>"""


def _section(trace: Trace, map: Map, weights: Tensor, layer: int, head: int) -> str:
    # a map with fewer heads than the one that was asked for begins with its last
    layer, head = min(layer, map.layers - 1), min(head, map.heads - 1)
    w, name = weights[layer, head], _text(map.id)
    queries, keys, heads = trace.axis(map.query), trace.axis(map.key), range(map.heads)
    return f"""<section class="map">
<h2>{name}: {_text(map.query)} looks at {_text(map.key)}</h2>
<div class="controls" hidden>
{_choice("layer", "Layer", range(map.layers), layer)}{_choice("head", "Head", heads, head)}
<label>Scale <select class="scale" autocomplete="off"><option value="linear">linear</option>
<option value="sqrt">square root</option><option value="log">logarithm</option></select></label>
<button type="button" class="save">Save picture (SVG)</button>
</div>
<p class="readout" role="status" aria-live="polite">Point at a cell, or move with the keys.</p>
<div class="scroll">{_svg(name, queries, keys, w)}</div>
<details>
<summary>Show as table</summary>
<div class="scroll" tabindex="0" role="region" aria-label="Weights of {name} as a table">
{_table(queries, keys, w)}
</div>
</details>
</section>"""


def _maps(ids: list[str]) -> str:
    """The choice of a map; without the script, all of them are shown."""
    choice = _choice("maps", "Map", ids, 0)
    return f'<div class="controls maps" hidden>\n{choice}</div>' if choice else ""


def _choice(name: str, label: str, options: Sequence[Any], chosen: int) -> str:
    if len(options) == 1:
        return ""
    listed = "".join(
        f'<option value="{i}"{" selected" if i == chosen else ""}>{_text(str(option))}</option>'
        for i, option in enumerate(options)
    )
    return f'<label>{label} <select class="{name}" autocomplete="off">{listed}</select></label>\n'


def _svg(name: str, queries: Axis, keys: Axis, w: Tensor) -> str:
    Q, K = w.shape
    cell = max(_SMALLEST_CELL, min(_LARGEST_CELL, 1000 // max(Q, K)))
    font = min(_FONT, cell - 2)
    letter = _LETTER * font
    rows, heads = ([shortened(visible(s), 20) for s in axis.labels] for axis in (queries, keys))
    left = 16 + letter * max(columns(label) for label in rows)
    longest = letter * max(columns(label) for label in heads)
    # labels lean where there is room between their lines
    angle = 45 if cell > 1.5 * font else 90
    above = 10 + font + longest * math.sin(math.radians(angle))
    right = max(70, longest * math.cos(math.radians(angle)))
    legend = 8 * len(CIVIDIS) + 70
    wide, high = left + max(K * cell + right, legend), above + Q * cell + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" font-size="{font}" fill="currentColor" '
        f'font-family="system-ui, sans-serif" role="application" tabindex="0" '
        f'aria-label="Matrix {name}. {escape(_KEYS)}">'
    ]
    for k, label in enumerate(heads):
        x, y = left + (k + 0.5) * cell, above - 5
        turned = f'transform="translate({x:.1f} {y:.1f}) rotate(-{angle})"'
        parts.append(_label(turned, label, keys.labels[k]))
    for q, label in enumerate(rows):
        placed = f'x="{left - 5:.1f}" y="{above + (q + 0.5) * cell:.1f}" text-anchor="end"'
        parts.append(_label(placed, label, queries.labels[q]))
    parts += _cells(queries, keys, w, left, above, cell)
    parts.append(
        f'<rect class="cursor" visibility="hidden" x="0" y="0" width="{cell}" height="{cell}" '
        'fill="none"/>'
    )
    parts += _legend(float(w.max()), left, above + Q * cell + 14)
    return "\n".join([*parts, "</svg>"])


def _label(place: str, short: str, label: str) -> str:
    return (
        f'<text {place} dominant-baseline="central" unicode-bidi="plaintext">'
        f"{escape(short)}<title>{_text(label)}</title></text>"
    )


def _cells(
    queries: Axis, keys: Axis, w: Tensor, left: Number, above: Number, cell: int
) -> list[str]:
    most = max(float(w.max()), 1e-6)
    asks, looked = ([_text(s) for s in axis.labels] for axis in (queries, keys))
    return [
        f'<rect class="cell" x="{left + k * cell:.1f}" y="{above + q * cell:.1f}" '
        f'width="{cell}" height="{cell}" fill="{colour(weight / most)}">'
        f"<title>{asks[q]} → {looked[k]}: {weight:.4f}</title></rect>"
        for q, row in enumerate(w.tolist())
        for k, weight in enumerate(row)
    ]


def _legend(most: Number, x: Number, y: Number) -> list[str]:
    steps = [
        f'<rect x="{x + 12 + 8 * i:.1f}" y="{y:.1f}" width="8" height="10" fill="{mixed}"/>'
        for i, mixed in enumerate(CIVIDIS)
    ]
    style = 'font-size="11" dominant-baseline="central"'
    after = x + 12 + 8 * len(CIVIDIS) + 5
    return [
        f'<text x="{x:.1f}" y="{y + 5:.1f}" {style}>0</text>',
        *steps,
        f'<text class="most" x="{after:.1f}" y="{y + 5:.1f}" {style}>{most:.4f}</text>',
    ]


def _table(queries: Axis, keys: Axis, w: Tensor) -> str:
    head = "".join(f'<th scope="col" dir="auto">{_text(s)}</th>' for s in keys.labels)
    rows = [
        f'<tr><th scope="row" dir="auto">{_text(label)}</th>'
        + "".join(f"<td>{weight:.4f}</td>" for weight in row)
        + "</tr>"
        for label, row in zip(queries.labels, w.tolist(), strict=True)
    ]
    corner = f'<th scope="col">{_text(queries.id)} \\ {_text(keys.id)}</th>'
    caption = f"<caption>How much each {_text(queries.id)} reads of each {_text(keys.id)}</caption>"
    parts = [caption, f"<thead><tr>{corner}{head}</tr></thead>", "<tbody>", *rows, "</tbody>"]
    return "\n".join(["<table>", *parts, "</table>"])


def _footer(header: Header) -> str:
    facts = {name: getattr(header, name) for name in ("model", "family", "run_id", "dtype")}
    facts |= {"device": header.device, "seed": header.seed} | dict(header.versions)
    notes = "".join(f'<li dir="auto">{_text(note)}</li>' for note in header.notes)
    edits = "".join(f"<li>edited: {_text(json.dumps(e))}</li>" for e in header.edits)
    told = f"<ul>{notes}{edits}</ul>" if notes or edits else ""
    return f"<footer>\n<p>{_MEANING}</p>\n{told}\n{_pairs(facts)}\n</footer>"


def _pairs(given: Mapping[str, Any]) -> str:
    told = {k: v for k, v in given.items() if v is not None and v != ""}
    rows = [
        f'<dt>{_text(name)}</dt><dd dir="auto">'
        + _text(shortened(value if isinstance(value, str) else json.dumps(value), 1000))
        + "</dd>"
        for name, value in told.items()
    ]
    return f"<dl>{''.join(rows)}</dl>" if rows else ""


def _data(trace: Trace, map: Map, weights: Tensor) -> dict[str, Any]:
    """What the script needs; the numbers are exact, as little-endian float32."""
    queries, keys = ([visible(s) for s in trace.axis(id).labels] for id in (map.query, map.key))
    given = base64.b64encode(weights.numpy().astype("<f4").tobytes()).decode()
    sizes = {"layers": map.layers, "heads": map.heads}
    return {"id": map.id, "queries": queries, "keys": keys, "weights": given} | sizes


def _text(given: str) -> str:
    return escape(visible(given))


def _json(given: Any) -> str:
    """JSON that cannot end the element it stands in, nor begin a comment."""
    text = json.dumps(given, ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
