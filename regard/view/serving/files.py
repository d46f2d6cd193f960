"""The files of the page, read once from a fixed list: no request names a file."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BUILT = Path(__file__).parent.parent / "page"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_MISSING = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Regard</title>"
    "<p>The page is not built: run <code>make page</code>, then start <code>regard serve</code> "
    "again. The server itself runs.</p></html>"
)


@dataclass(frozen=True)
class File:
    """A file of the page, and a tag that changes when it does."""

    data: bytes
    media: str
    tag: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", f'"{hashlib.sha256(self.data).hexdigest()[:32]}"')


def page_files(folder: Path = BUILT) -> Mapping[str, File]:
    """What lies at each address of the page; where it is not built, a page that says so."""
    found = {
        address: File((folder / name).read_bytes(), media)
        for address, (name, media) in _FILES.items()
        if (folder / name).is_file()
    }
    if "/" not in found or "/app.js" not in found:
        return {"/": File(_MISSING.encode(), _FILES["/"][1])}
    return found
