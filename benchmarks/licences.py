"""The licences of the zoo as a file that ships with it: `python -m benchmarks.licences`.

Writes regard/zoo/LICENCES.md from the cards, which say what each model was trained on.
"""

from pathlib import Path
from typing import Any

from regard import zoo

PLACE = Path(zoo.__file__).parent / "LICENCES.md"
HEAD = """# Licences of the models

Written by `python -m benchmarks.licences` from the cards of the models. The code of Regard is under
Apache-2.0 (see LICENSE). The weights and tokenizers in this folder are not all so:

| model | weights | data |
|---|---|---|
"""


def page(cards: dict[str, dict[str, Any]]) -> str:
    """A table of the models by name, and what each licence means."""
    fields = {name: card["licence"] for name, card in cards.items()}
    rows = [
        f"| `{name}` | {field['weights']['name']} | {field['data']['name']} |"
        for name, field in fields.items()
    ]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(_meanings(fields)) + "\n"


def _meanings(fields: dict[str, Any]) -> list[str]:
    """A line for each licence, with the models that it holds for."""
    found: dict[str, list[str]] = {}
    for name, field in fields.items():
        for part in ("weights", "data"):
            licence = field[part]
            line = f"{licence['name']}: {licence['means']} ({licence['source']})"
            found.setdefault(f"**{part.capitalize()}, {line}", []).append(name)
    return [
        f"- {line.replace(': ', ':** ', 1)}: {', '.join(names)}." for line, names in found.items()
    ]


if __name__ == "__main__":
    PLACE.write_text(page({name: zoo.card(name) for name in zoo.names()}), encoding="utf-8")
    print(f"{PLACE.name}: {len(zoo.names())} models")
