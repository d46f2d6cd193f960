"""The files of the page, read once from a fixed list: no request names a file."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PAGE_FOLDER = Path(__file__).parent.parent / "page"
_PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_NOT_BUILT_HTML = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Regard</title>"
    "<p>The page is not built: run <code>make page</code>, then start <code>regard serve</code> "
    "again. The server itself runs.</p></html>"
)


@dataclass(frozen=True)
class PageFile:
    """A file of the page, and a tag that changes when it does."""

    data: bytes
    media_type: str
    etag: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "etag", f'"{hashlib.sha256(self.data).hexdigest()[:32]}"')


def load_page_files(folder: Path = PAGE_FOLDER) -> Mapping[str, PageFile]:
    """What lies at each address of the page; where it is not built, a page that says so."""
    found = {
        address: PageFile((folder / name).read_bytes(), media)
        for address, (name, media) in _PAGE_FILES.items()
        if (folder / name).is_file()
    }
    if "/" not in found or "/app.js" not in found:
        return {"/": PageFile(_NOT_BUILT_HTML.encode(), _PAGE_FILES["/"][1])}
    return found
