"""The parts of the navigation that are lists of pages: mechanisms, and the reference."""

import re
from pathlib import Path
from typing import Any

import reference
from mkdocs.config.defaults import MkDocsConfig

DOCS = Path(__file__).parent.parent
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the lists where the navigation has their names."""
    lists = {"@mechanisms": mechanisms(), "@api": api()}
    config.nav = [filled(entry, lists) for entry in config.nav or []]
    return config


def filled(entry: Any, lists: dict[str, list[Any]]) -> Any:
    """An entry of the navigation, with a list for each name."""
    if not isinstance(entry, dict):
        return entry
    (title, below), *_ = entry.items()
    if isinstance(below, list):
        below = [filled(each, lists) for each in below]
    return {title: lists.get(below, below) if isinstance(below, str) else below}


def mechanisms() -> list[Any]:
    """The pages that the table of docs/mechanisms/README.md links to, under its bold rows."""
    found: list[Any] = ["mechanisms/README.md"]
    seen, pages = set[str](), list[Any]()
    for line in (DOCS / "mechanisms" / "README.md").read_text().splitlines():
        if line.startswith("| **"):
            pages = []
            found.append({line.split("**")[1]: pages})
        elif line.startswith("|") and found[1:]:
            for title, page in LINK.findall(line):
                if page not in seen:
                    pages.append({title[0].upper() + title[1:]: f"mechanisms/{page}"})
                    seen.add(page)
    return found


def api() -> list[Any]:
    """The pages of the reference by section."""
    sections: dict[str, list[Any]] = {}
    for entry in reference.entries():
        sections.setdefault(entry.section, []).append({entry.title: entry.place})
    return ["api/index.md", *({title: pages} for title, pages in sections.items())]
