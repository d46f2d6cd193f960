"""A line `@trained KIND` becomes a table of the trained models of that kind, out of their cards."""

import json
import re
from pathlib import Path
from typing import Any

ZOO = Path(__file__).parent.parent.parent / "regard" / "zoo"
LINE = re.compile(r"^@trained(?: (\S+))?$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page has the lines."""
    return LINE.sub(lambda found: table(found[1]), markdown)


def table(kind: str | None) -> str:
    """The models of a kind, or all: name, parameters, first number, and how it was trained."""
    lines = ["| name | what it is | parameters | number | trained by | licence |"]
    lines.append("|---|---|---|---|---|---|")
    for card in cards():
        if kind in (None, card["model"]):
            measure, number = first_number(card["numbers"])
            size = f"{card['parameters']:,}" if "parameters" in card else ""
            trained = f"`{card['command']}`, {card['seconds']:,.0f} s on {card['hardware']}"
            licence = card["licence"]["weights"]["name"]
            number = f"{measure} {number:.4g}"
            name, about = f"`{card['name']}`", card["about"]
            lines.append(f"| {name} | {about} | {size} | {number} | {trained} | {licence} |")
    return "\n".join(lines)


def cards() -> list[dict[str, Any]]:
    """The card of each model, by name."""
    return [json.loads(path.read_text()) for path in sorted(ZOO.glob("*/card.json"))]


def first_number(numbers: dict[str, Any]) -> tuple[str, float]:
    """The measure that a card names first, and its value."""
    return next((name, value) for name, value in numbers.items() if isinstance(value, int | float))
