"""Pages that live outside of docs/, links that lead there, and lists as GitHub reads them."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent

# A Markdown file of the repository, and the page that shows it.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "page/README.md": "page-source.md",
    "regard/zoo/LICENCES.md": "licences.md",
}
# A file that the site gives out as it is.
RAW = {
    "CITATION.cff": "files/CITATION.cff",
    "LICENSE": "files/LICENSE.txt",
    "page/public/icon.svg": "assets/icon.svg",
    "regard/data/samples/ATTRIBUTION.md": "files/ATTRIBUTION.txt",
    "regard/view/page/LICENSES.txt": "files/LICENSES.txt",
}
# Other places that a page may link to.
PLACES = {"README.md": "index.md", "examples": "examples.md", **PAGES, **RAW}

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=[\s)])")
ITEM = re.compile(r"(?:[-*+]|\d+\.) ")
FENCE = re.compile(r"\s*(```|~~~)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files from outside, and one page of all the examples."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    for source, place in RAW.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "examples.md", content=examples()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Mend the links and lists of a page that somebody wrote; the others are right as they are."""
    sources = {place: source for source, place in PAGES.items()}
    home = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if not any((ROOT / home).with_suffix(suffix).exists() for suffix in (".md", ".ipynb")):
        return markdown
    return apart(outside_code(markdown, lambda text: relinked(text, home, page.file.src_uri)))


def examples() -> str:
    """The scripts of examples/, in order, each under its first line."""
    parts = ["# Examples\n\nScripts for a newcomer, to be read in order. Each runs as it stands.\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text()
        title = text.split('"""')[1].strip().splitlines()[0].rstrip(".")
        command = f"`python examples/{path.name}`"
        parts.append(f"## {title}\n\n{command}\n\n```python\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


def relinked(text: str, home: str, here: str) -> str:
    """`text` of the file `home` of the repository, with links that are right on page `here`.

    >>> relinked("[why](ARCHITECTURE.md#one-idea)", "README.md", "mechanisms/dot.md")
    '[why](../architecture.md#one-idea)'
    """

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), found[1]))
        if target in PLACES:
            place = PLACES[target]
        elif target.startswith("docs/"):
            place = target.removeprefix("docs/")
        elif target.startswith("regard/") and (ROOT / target).exists():
            place = "modules.md"
        else:
            raise PluginError(f"{home}: the site has no place for the link to {target}")
        anchor = found[2] if found[2] and target != "README.md" else ""
        return posixpath.relpath(place, posixpath.dirname(here) or ".") + anchor

    return LINK.sub(link, text)


def outside_code(markdown: str, change: Any) -> str:
    """Change every line that stands in no block of code."""
    fence, lines = "", []
    for line in markdown.split("\n"):
        sign = FENCE.match(line)
        if sign and (not fence or sign[1] == fence):
            fence = "" if fence else sign[1]
        lines.append(line if fence or sign else change(line))
    return "\n".join(lines)


def apart(markdown: str) -> str:
    r"""An empty line between a paragraph and the list behind it, which GitHub does without.

    >>> apart("These:\n- one\n- two")
    'These:\n\n- one\n- two'
    """
    fence, lines = False, [""]
    for line in markdown.split("\n"):
        fence ^= bool(FENCE.match(line))
        above = lines[-1]
        paragraph = above.strip() and not ITEM.match(above.lstrip()) and above[0] not in " |#<"
        if not fence and ITEM.match(line) and paragraph and not FENCE.match(above):
            lines.append("")
        lines.append(line)
    return "\n".join(lines[1:])
