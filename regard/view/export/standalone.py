"""One offline HTML file of a trace: the page itself with the numbers inside it, asking nobody.

It is the same bundle that `regard serve` serves. Whatever comes from the trace stands in it as data
or is escaped, and the file's own policy lets no script run but the bundle.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any

from regard.view.export import bundle
from regard.view.traces.labels import escape_invisible, truncate_text
from regard.view.traces.page_json import to_page_json
from regard.view.traces.trace import Trace
from regard.view.traces.words import by_words

# What would end a script, or keep its end from being one; in a string `\x3c` is the same sign.
_SCRIPT_END = re.compile(r"<(?=/?script|!--)", re.IGNORECASE)


def page(
    trace: Trace, *, map: str | None = None, layer: int = 0, head: int = 0, words: bool = False
) -> str:
    """The trace as the text of one HTML file.

    Args:
        map: the map to show; if none is named, all of them can be chosen.
        layer: the layer shown first; the others can be chosen.
        head: the head shown first; the others can be chosen.
        words: whether the tokens of a word are drawn as one.

    Raises:
        ValueError: there is no such head, or there are more weights than a page holds.
    """
    trace = by_words(trace) if words else trace
    first = trace.map(map)
    first.check_head(layer, head)
    shown = trace if map is None else replace(trace, maps=[first])
    place = {name: str(number) for name, number in (("layer", layer), ("head", head)) if number}
    # who names a head wants to see that one before all others
    return page_at(shown, {"view": "heads", **place} if map or place else {})


def page_at(
    trace: Trace, place: Mapping[str, str], provenance: Mapping[str, Any] | None = None
) -> str:
    """A whole trace as the text of one HTML file that opens at a place.

    Args:
        place: what the page's address would say: view, map, layer, head, step, scale.
        provenance: how the trace came about: `asked`, `python` and `seconds`.
    """
    title = escape(escape_invisible(trace.header.title or trace.header.model or trace.map().id))
    script = _SCRIPT_END.sub(r"\\x3c", bundle.script())
    style = bundle.style()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="regard-shown"></div>
<noscript><p>This page draws with JavaScript.{_answer_html(trace)}</p></noscript>
<script type="application/json" id="regard-data">{to_page_json(trace, place, provenance)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _answer_html(trace: Trace) -> str:
    """What the model answered, for who sees nothing else."""
    given = trace.outputs.get("text")
    if given is None:
        return ""
    said = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    said = escape(escape_invisible(truncate_text(said, 1000)))
    return f' The answer was: <span dir="auto">{said}</span>'
