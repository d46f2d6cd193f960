"""The cache: what is found has its checksum, and what is fetched is whole or not there at all."""

import hashlib
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import replace
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from regard.data import download
from regard.data.download import RemoteFile, find_or_download

CONTENT = bytes(range(256)) * 5000  # several chunks
SUM = hashlib.sha256(CONTENT).hexdigest()
SOURCE = RemoteFile("words", "https://example.org/words.gz", SUM, len(CONTENT), "set/words.gz")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """The cache folder of each test is its own."""
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regard"


def answers(content: bytes):
    return lambda url: closing(io.BytesIO(content))


def never(url: str):
    raise AssertionError("nothing should be fetched")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_file_is_fetched_once(home):
    assert find_or_download(SOURCE, opener=answers(CONTENT)) == home / "set" / "words.gz"
    assert find_or_download(SOURCE, opener=never).read_bytes() == CONTENT
    assert files(home) == ["words.gz"]


def test_the_folder_of_the_user_comes_first(home, tmp_path, monkeypatch):
    put(home / SOURCE.relative_path, CONTENT)
    mine = put(tmp_path / "mine" / SOURCE.relative_path, CONTENT)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "mine"))
    assert find_or_download(SOURCE, opener=never) == mine
    mine.unlink()
    assert find_or_download(SOURCE, opener=never) == home / SOURCE.relative_path


def test_without_xdg_the_cache_is_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert download.data_folders() == [tmp_path / ".cache" / "regard"]


def test_progress_grows_to_the_whole():
    seen = []
    find_or_download(SOURCE, opener=answers(CONTENT), progress=lambda *given: seen.append(given))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[1:] + b"x", b""])
def test_a_wrong_checksum_names_both_and_leaves_nothing(content, home):
    got = hashlib.sha256(content).hexdigest()
    with pytest.raises(
        ValueError, match=rf"find_or_download: expected sha256 {SUM} for words, got {got} \("
    ):
        find_or_download(SOURCE, opener=answers(content))
    assert files(home) == []


def test_no_more_than_the_known_size_is_fetched(home):
    endless = io.BytesIO(CONTENT * 3)
    with pytest.raises(
        ValueError, match="expected 1,280,000 bytes for words, got more from https:"
    ):
        find_or_download(SOURCE, opener=lambda url: nullcontext(endless))
    assert endless.tell() == len(CONTENT) + 1
    assert files(home) == []


@pytest.mark.parametrize("content", [b"other", CONTENT + b"x"])
def test_a_wrong_file_that_is_there_is_named(content, home):
    path = put(home / SOURCE.relative_path, content)
    with pytest.raises(ValueError, match=f"for words, got .* from {path}; remove it to fetch it"):
        find_or_download(SOURCE, opener=never)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (URLError("no route to host"), "no route to host"),
        (TimeoutError("timed out"), "timed out"),
        (HTTPError(SOURCE.url, 404, "Not Found", {}, None), "HTTP Error 404: Not Found"),
    ],
)
def test_without_a_network_it_says_where_to_put_the_file(error, why, home):
    def fails(url):
        raise error

    with pytest.raises(ConnectionError) as refused:
        find_or_download(SOURCE, opener=fails)
    assert str(refused.value) == (
        f"find_or_download: cannot fetch words from https://example.org/words.gz ({why}); "
        "put the file at "
        f"{home}/set/words.gz by hand, or at set/words.gz in the folder of REGARD_DATA"
    )
    assert files(home) == []


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), KeyboardInterrupt()])
def test_a_fetch_that_breaks_off_leaves_nothing(error, home):
    class Breaks(io.BytesIO):
        def read(self, most):
            if self.tell():
                raise error
            return super().read(most)

    with pytest.raises(ConnectionError if isinstance(error, OSError) else KeyboardInterrupt):
        find_or_download(SOURCE, opener=lambda url: closing(Breaks(CONTENT)))
    assert files(home) == []


def test_a_folder_that_cannot_be_written_is_named(home):
    put(home, b"a file where the folder should be")
    with pytest.raises(
        OSError, match=f"find_or_download: cannot write to {home}/set: Not a directory"
    ):
        find_or_download(SOURCE, opener=answers(CONTENT))


class Together(io.BytesIO):
    """Content that two readers read chunk by chunk at the same time."""

    both = threading.Barrier(2)

    def read(self, most):
        self.both.wait(10)
        return super().read(most)


def test_two_at_once_both_find_the_whole_file(home):
    with ThreadPoolExecutor(2) as two:
        calls = [
            two.submit(find_or_download, SOURCE, opener=lambda _: closing(Together(CONTENT)))
            for _ in "ab"
        ]
    assert [call.result().read_bytes() for call in calls] == [CONTENT, CONTENT]
    assert files(home) == ["words.gz"]


def test_others_may_read_what_was_fetched():
    mask = os.umask(0o022)
    try:
        assert find_or_download(SOURCE, opener=answers(CONTENT)).stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)


class Server(BaseHTTPRequestHandler):
    """Answers /words with the content, and everything else with 404."""

    def do_GET(self):
        self.send_response(200 if self.path == "/words.gz" else 404)
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_):
        """Say nothing."""


def test_a_file_comes_over_a_real_connection():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    try:
        opener = lambda url: urlopen(url.replace("https://example.org", here))  # noqa: E731
        assert find_or_download(SOURCE, opener=opener).read_bytes() == CONTENT
    finally:
        server.shutdown()
        server.server_close()


def test_where_nobody_answers_it_says_so(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(ConnectionError, match=r"cannot fetch words .*refused.*; put the file at"):
        find_or_download(replace(SOURCE, url="https://127.0.0.1:9/words.gz"))


def test_a_file_that_is_not_where_it_was_typed_is_found_in_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "data" / "tsp").mkdir(parents=True)
    (tmp_path / "data" / "tsp" / "a.txt").touch()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert download.local_file(Path("tsp/a.txt")) == tmp_path / "data" / "tsp" / "a.txt"
    for gone in (
        Path("tsp/b.txt"),
        tmp_path / "a.txt",
        Path("tsp"),
        Path("a\0b"),
        Path("x" * 9999),
    ):
        assert download.local_file(gone) == gone
    (tmp_path / "tsp").mkdir()
    (tmp_path / "tsp" / "a.txt").touch()
    assert download.local_file(Path("tsp/a.txt")) == Path("tsp/a.txt")


def test_nothing_but_https_is_followed():
    handler, request, headers = download._HttpsRedirectHandler(), Request(SOURCE.url), HTTPMessage()
    further = handler.redirect_request(
        request, None, 302, "Found", headers, "https://example.org/b"
    )
    assert further.full_url == "https://example.org/b"
    with pytest.raises(HTTPError, match=r"redirects to http://example\.org/b"):
        handler.redirect_request(request, None, 302, "Found", headers, "http://example.org/b")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://example.org"}, "RemoteFile: expected a url with https://, got http:"),
        ({"url": "file:///etc/passwd"}, "RemoteFile: expected a url with https://, got file:"),
        ({"sha256": "00"}, "RemoteFile: expected sha256 of 64 hex digits, got '00'"),
        ({"size": 0}, "RemoteFile: expected a size of at least 1, got 0"),
        (
            {"relative_path": "/etc/passwd"},
            "RemoteFile: expected a relative_path inside a folder, got '/etc/passwd'",
        ),
        ({"relative_path": "a/../../b"}, "RemoteFile: expected a relative_path inside a folder"),
        ({"relative_path": ""}, "RemoteFile: expected a relative_path inside a folder, got ''"),
    ],
)
def test_a_source_that_could_do_harm_is_refused(change, said):
    given = {"name": "x", "url": SOURCE.url, "sha256": SUM, "size": 1, "relative_path": "x"}
    with pytest.raises(ValueError, match=said):
        RemoteFile(**given | change)
