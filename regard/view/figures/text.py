"""An alignment drawn as text, for a terminal: the darker, the more of a key is read."""

import math
from collections.abc import Sequence

from regard.check import Number
from regard.looking.attention_record import SHADES
from regard.view.traces.axes import Points, Slots
from regard.view.traces.labels import (
    display_width,
    escape_invisible,
    grapheme_clusters,
    pad_text,
    truncate_text,
)
from regard.view.traces.memory_trace import used_slots
from regard.view.traces.trace import Trace
from regard.view.traces.words import by_words

# What is below counts as not read, unlike in a look: softmax never gives zero.
MIN_SHADED_WEIGHT = 0.05
_LEGENDS = (
    "· below 5 %   ░ to 25 %   ▒ to 50 %   ▓ to 75 %   █ above",
    "·<5 ░≤25 ▒≤50 ▓≤75 █>75 %",
)
_MIN_WIDTH, _MAX_LABEL_HEIGHT = 30, 12


def alignment(
    trace: Trace,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    width: int = 80,
    words: bool = False,
) -> str:
    """The weights of one head as text: a line a query, a column a key.

    Keys stand above their columns; they are written downwards where a line has no room for them,
    and in several bands where even that is too wide. Slots of a memory that no query looks at, nor
    at one beside them, are left out, and so are points that none looks at.

    Args:
        width: how many columns the terminal has.
        words: whether the tokens of a word are drawn as one.
    """
    if width < _MIN_WIDTH:
        raise ValueError(f"alignment: expected a width of at least {_MIN_WIDTH}, got {width}")
    trace = by_words(trace) if words else trace
    chosen = trace.map(map)
    seen = chosen.weights(layer, head).float().cpu()
    asks, keys = (_axis_labels(trace.axis(id).labels) for id in (chosen.query, chosen.key))
    title = f"{chosen.label(layer, head)}: {chosen.query} (down) looks at {chosen.key} (across)"
    axis = trace.axis(chosen.key)
    if isinstance(axis, Slots | Points):
        kept = used_slots(seen, min_weight=MIN_SHADED_WEIGHT, margin=int(isinstance(axis, Slots)))
        # points lie on no ring that would begin elsewhere
        kept = sorted(kept) if isinstance(axis, Points) else kept
        title += f", {len(kept)} of {len(keys)} shown" if len(kept) < len(keys) else ""
        seen, keys = seen[:, kept], [keys[place] for place in kept]
    w = seen.tolist()
    asks = [truncate_text(label, width // 3) for label in asks]
    left = max(display_width(label) for label in asks)
    side = [pad_text(label, left, align_right=True) for label in asks]
    room = width - left - 1
    if sum(_column_width(key) + 1 for key in keys) - 1 <= room:
        bands = [_horizontal_band(keys, w, side)]
    else:
        most = room // 2
        starts = range(0, len(keys), most)
        bands = [
            _vertical_band(keys[i : i + most], [r[i : i + most] for r in w], side) for i in starts
        ]
    legend = next((text for text in _LEGENDS if display_width(text) <= width), _LEGENDS[-1])
    parts = [truncate_text(title, width), *("\n".join(band) for band in bands), legend]
    return "\n\n".join(parts)


def shade(weight: Number) -> str:
    """The sign for a weight.

    >>> "".join(map(shade, (0, 0.04, 0.05, 0.25, 0.26, 0.5, 0.75, 0.76, 1)))
    '··░░▒▒▓██'
    """
    return SHADES[0] if weight < MIN_SHADED_WEIGHT else SHADES[min(4, math.ceil(4 * weight))]


def _axis_labels(labels: Sequence[str]) -> list[str]:
    return [truncate_text(escape_invisible(label), 4 * _MAX_LABEL_HEIGHT) for label in labels]


def _column_width(key: str) -> int:
    return max(2, display_width(key))


def _horizontal_band(keys: list[str], rows: list[list[float]], side: list[str]) -> list[str]:
    """A band whose keys stand side by side, each cell as wide as its key."""
    lines = [
        _join_line(
            " " * display_width(side[0]), [pad_text(key, _column_width(key)) for key in keys], " "
        )
    ]
    for label, row in zip(side, rows, strict=True):
        cells = [
            _cell_text(weight, _column_width(key)) for weight, key in zip(row, keys, strict=True)
        ]
        lines.append(_join_line(label, cells, " "))
    return lines


def _vertical_band(keys: list[str], rows: list[list[float]], side: list[str]) -> list[str]:
    """A band whose keys are written downwards, ending above their cells of two columns."""
    letters = [grapheme_clusters(truncate_text(key, _MAX_LABEL_HEIGHT)) for key in keys]
    tall = max(map(len, letters))
    above = [[""] * (tall - len(key)) + key for key in letters]
    blank = " " * display_width(side[0])
    lines = [_join_line(blank, [pad_text(key[i], 2) for key in above], "") for i in range(tall)]
    for label, row in zip(side, rows, strict=True):
        lines.append(_join_line(label, [_cell_text(weight, 2) for weight in row], ""))
    return lines


def _cell_text(weight: Number, width: int) -> str:
    sign = shade(weight)
    # one dot in the middle keeps an empty cell quiet
    return sign.center(width) if sign == SHADES[0] else sign * width


def _join_line(label: str, cells: list[str], between: str) -> str:
    return f"{label} {between.join(cells)}".rstrip()
