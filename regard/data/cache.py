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

from regard import files


@dataclass(frozen=True)
class Source:
    """A file that the public can get, and how to know that it is the right one.

    Args:
        sha256: the checksum, 64 hexadecimal digits.
        size: bytes; no more than these are ever fetched.
        place: where it lies inside `REGARD_DATA` and inside the cache folder.
    """

    name: str
    address: str
    sha256: str
    size: int
    place: str

    def __post_init__(self) -> None:
        if not self.address.startswith("https://"):
            raise ValueError(f"Source: expected an address with https://, got {self.address}")
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"Source: expected sha256 of 64 hex digits, got {self.sha256!r}")
        if self.size < 1:
            raise ValueError(f"Source: expected a size of at least 1, got {self.size}")
        place = PurePosixPath(self.place)
        if not place.name or place.is_absolute() or ".." in place.parts:
            raise ValueError(f"Source: expected a place inside a folder, got {self.place!r}")


class Answer(Protocol):
    """What is read from."""

    def read(self, most: int, /) -> bytes:
        """At most `most` more bytes; none at the end."""
        ...


Progress = Callable[[int, int], None]  # bytes so far, bytes in all
Opener = Callable[[str], AbstractContextManager[Answer]]

_CHUNK = 2**18


def silent(done: int, size: int) -> None:
    """Report nothing."""


def https(address: str) -> AbstractContextManager[Answer]:
    """What the address answers; a redirect to anything but https is refused."""
    request = Request(address, headers={"User-Agent": "regard"})
    return build_opener(_OnlyHttps).open(request, timeout=30)


def find(source: Source, *, progress: Progress = silent, opener: Opener = https) -> Path:
    """The file of `source`, with the checksum it should have.

    Raises:
        ValueError: what was found or fetched is another file.
        OSError: it is nowhere and cannot be fetched or written; the message says where to put it.
    """
    places = [folder / source.place for folder in folders()]
    for place in places:
        if place.is_file():
            _refuse_other(source, f"{place}; remove it to fetch it again", *_sum(place))
            return place
    _fetch(source, places[-1], progress, opener)
    return places[-1]


def local_file(path: Path) -> Path:
    """The file as it was typed, or where there is none, of that name in one of the folders."""
    # exists and isfile are False, and do not raise, for what no file system would take as a path
    if path.is_absolute() or os.path.exists(path):  # noqa: PTH110
        return path
    there = (folder / path for folder in folders())
    return next((place for place in there if os.path.isfile(place)), path)  # noqa: PTH113


def folders() -> list[Path]:
    """Where files are looked for, in this order; what is fetched goes to the last."""
    given = os.environ.get("REGARD_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "")
    # XDG: a relative folder is to be ignored
    cache = cache if cache.is_absolute() else files.expand_home(Path("~/.cache"))
    return [*([files.expand_home(Path(given))] if given else []), cache / "regard"]


def _fetch(source: Source, place: Path, progress: Progress, opener: Opener) -> None:
    """Fetch into a file of our own, check, then rename: nobody ever sees half a file."""
    # no two processes share a name, so neither can spoil what the other writes
    part = place.with_name(f"{place.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(source, part, _chunks(source, place, opener), progress)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(f"find: cannot write to {place.parent}: {error.strerror}") from None


def _write(source: Source, part: Path, chunks: Iterator[bytes], progress: Progress) -> None:
    digest, done = hashlib.sha256(), 0
    with part.open("xb") as stream:
        for chunk in chunks:
            stream.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, source.size)
        stream.flush()
        os.fsync(stream.fileno())
    _refuse_other(source, source.address, digest.hexdigest(), done)


def _chunks(source: Source, place: Path, opener: Opener) -> Iterator[bytes]:
    """What the address answers; at most one byte more than it should."""
    left = source.size + 1
    try:
        with opener(source.address) as answer:
            while left and (chunk := answer.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk
    except (OSError, HTTPException) as error:
        why = error.reason if type(error) is URLError else error
        raise ConnectionError(
            f"find: cannot fetch {source.name} from {source.address} ({why}); "
            f"put the file at {place} by hand, or at {source.place} in the folder of REGARD_DATA"
        ) from None


def _sum(path: Path) -> tuple[str, int]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return digest, stream.tell()


def _refuse_other(source: Source, where: str, digest: str, size: int) -> None:
    if size > source.size:
        raise ValueError(
            f"find: expected {source.size:,} bytes for {source.name}, got more from {where}"
        )
    if digest != source.sha256:
        raise ValueError(
            f"find: expected sha256 {source.sha256} for {source.name}, "
            f"got {digest} ({size:,} of {source.size:,} bytes) from {where}"
        )


class _OnlyHttps(HTTPRedirectHandler):
    """Follows redirects as long as they stay on https."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.startswith("https://"):
            raise HTTPError(req.full_url, code, f"redirects to {newurl}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
