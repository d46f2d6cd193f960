"""Data files by name: from `REGARD_DATA`, from the cache folder, or fetched once and checked."""

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from regard.runtime import atomic_files


@dataclass(frozen=True)
class RemoteFile:
    """A file that the public can get, and how to know that it is the right one.

    Args:
        sha256: the checksum, 64 hexadecimal digits.
        size: bytes; no more than these are ever fetched.
        relative_path: where it lies inside `REGARD_DATA` and inside the cache folder.
    """

    name: str
    url: str
    sha256: str
    size: int
    relative_path: str

    def __post_init__(self) -> None:
        if not self.url.startswith("https://"):
            raise ValueError(f"RemoteFile: expected a url with https://, got {self.url}")
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"RemoteFile: expected sha256 of 64 hex digits, got {self.sha256!r}")
        if self.size < 1:
            raise ValueError(f"RemoteFile: expected a size of at least 1, got {self.size}")
        place = PurePosixPath(self.relative_path)
        if not place.name or place.is_absolute() or ".." in place.parts:
            raise ValueError(
                f"RemoteFile: expected a relative_path inside a folder, got {self.relative_path!r}"
            )


class Response(Protocol):
    """What is read from."""

    def read(self, max_bytes: int, /) -> bytes:
        """At most `max_bytes` more bytes; none at the end."""
        ...


Progress = Callable[[int, int], None]  # bytes so far, bytes in all
Opener = Callable[[str], AbstractContextManager[Response]]

_CHUNK_BYTES = 2**18


def ignore_progress(done: int, size: int) -> None:
    """Report nothing."""


def open_https(url: str) -> AbstractContextManager[Response]:
    """What the address answers; a redirect to anything but https is refused."""
    request = Request(url, headers={"User-Agent": "regard"})
    return build_opener(_HttpsRedirectHandler).open(request, timeout=30)


def find_or_download(
    file: RemoteFile, *, progress: Progress = ignore_progress, opener: Opener = open_https
) -> Path:
    """The path of `file`, with the checksum it should have.

    Raises:
        ValueError: what was found or fetched is another file.
        OSError: it is nowhere and cannot be fetched or written; the message says where to put it.
    """
    places = [folder / file.relative_path for folder in data_folders()]
    for place in places:
        if place.is_file():
            _check_content(
                file, f"{place}; remove it to fetch it again", *_checksum_and_size(place)
            )
            return place
    _download(file, places[-1], progress, opener)
    return places[-1]


def local_file(path: Path) -> Path:
    """The file as it was typed, or where there is none, of that name in one of the folders."""
    # exists and isfile are False, and do not raise, for what no file system would take as a path
    if path.is_absolute() or os.path.exists(path):  # noqa: PTH110
        return path
    there = (folder / path for folder in data_folders())
    return next((place for place in there if os.path.isfile(place)), path)  # noqa: PTH113


def data_folders() -> list[Path]:
    """Where files are looked for, in this order; what is fetched goes to the last."""
    given = os.environ.get("REGARD_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "")
    # XDG: a relative folder is to be ignored
    cache = cache if cache.is_absolute() else atomic_files.expand_home(Path("~/.cache"))
    return [*([atomic_files.expand_home(Path(given))] if given else []), cache / "regard"]


def _download(file: RemoteFile, path: Path, progress: Progress, opener: Opener) -> None:
    """Fetch into a file of our own, check, then rename: nobody ever sees half a file."""
    # no two processes share a name, so neither can spoil what the other writes
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_part(file, part, _download_chunks(file, path, opener), progress)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(
            f"find_or_download: cannot write to {path.parent}: {error.strerror}"
        ) from None


def _write_part(file: RemoteFile, part: Path, chunks: Iterator[bytes], progress: Progress) -> None:
    digest, done = hashlib.sha256(), 0
    with part.open("xb") as stream:
        for chunk in chunks:
            stream.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, file.size)
        stream.flush()
        os.fsync(stream.fileno())
    _check_content(file, file.url, digest.hexdigest(), done)


def _download_chunks(file: RemoteFile, path: Path, opener: Opener) -> Iterator[bytes]:
    """What the address answers; at most one byte more than it should."""
    left = file.size + 1
    try:
        with opener(file.url) as answer:
            while left and (chunk := answer.read(min(_CHUNK_BYTES, left))):
                left -= len(chunk)
                yield chunk
    except (OSError, HTTPException) as error:
        why = error.reason if type(error) is URLError else error
        raise ConnectionError(
            f"find_or_download: cannot fetch {file.name} from {file.url} ({why}); "
            f"put the file at {path} by hand, or at {file.relative_path} in the folder of "
            "REGARD_DATA"
        ) from None


def _checksum_and_size(path: Path) -> tuple[str, int]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return digest, stream.tell()


def _check_content(file: RemoteFile, where: str, digest: str, size: int) -> None:
    if size > file.size:
        raise ValueError(
            f"find_or_download: expected {file.size:,} bytes for {file.name}, got more from {where}"
        )
    if digest != file.sha256:
        raise ValueError(
            f"find_or_download: expected sha256 {file.sha256} for {file.name}, "
            f"got {digest} ({size:,} of {file.size:,} bytes) from {where}"
        )


class _HttpsRedirectHandler(HTTPRedirectHandler):
    """Follows redirects as long as they stay on https."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.startswith("https://"):
            raise HTTPError(req.full_url, code, f"redirects to {newurl}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
