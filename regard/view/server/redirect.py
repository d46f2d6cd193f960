"""A private file that leads a browser to the page, so that no command line holds a secret."""

import html
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

# The address stands in a link too, for who lets no page move on by itself.
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Regard</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}"></head>
<body><p><a href="{address}">Open Regard</a></p></body></html>
"""


@dataclass(eq=False)
class RedirectFile:
    """A page that only this user can read, in a folder of its own, until it is removed."""

    folder: Path = field(default_factory=lambda: Path(mkdtemp(prefix="regard-")))

    def write_redirect(self, address: str) -> str:
        """Write a redirect to an address, and give the address of the file."""
        path = self.folder / "open.html"
        # mkdtemp lets nobody else into the folder; the file has its own bolt, and is always new
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_PAGE.format(address=html.escape(address)))
        return path.as_uri()

    def remove(self) -> None:
        """Remove the file and its folder; more than once does no harm."""
        shutil.rmtree(self.folder, ignore_errors=True)
