"""Silent connections are closed in time, and never keep anybody out."""

import http.client
import json
import re
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.view.server import connections
from regard.view.server.connections import MAX_CONNECTIONS, Connections, connections_for
from tests.browser import entered
from tests.view.server.hostile import Client, half_open, held_open

ROOT = Path(__file__).parents[3]


class Fake:
    """A connection that notes that it was closed."""

    def __init__(self, waiting=True):
        self.waiting, self.closed = waiting, False
        self.transport = self

    def is_waiting(self):
        return self.waiting

    def abort(self):
        self.closed = True


def test_the_oldest_stranger_gives_way_to_a_new_connection():
    all, fakes = Connections(max_count=3), [Fake(waiting=n != 1) for n in range(6)]
    for fake in fakes:
        all.add(fake)
    assert [fake.closed for fake in fakes] == [True] * 3 + [False] * 3
    assert all.count == 3


def test_who_is_known_stays_until_only_those_who_wait_are_left():
    all = Connections(max_count=3)
    busy, idle, also = Fake(waiting=False), Fake(), Fake(waiting=False)
    for fake in (busy, idle, also):
        all.add(fake)
        all.authenticate(fake)
    stranger = Fake()
    all.add(stranger)
    assert [fake.closed for fake in (busy, idle, also, stranger)] == [False, True, False, False]
    other = Fake()
    all.add(other)
    assert stranger.closed
    assert not other.closed
    all.authenticate(other)
    other.waiting = False
    last = Fake()
    all.add(last)
    assert last.closed
    assert all.count == 3


def test_a_connection_that_was_closed_is_not_counted_by_being_known():
    all = Connections(max_count=1)
    first, second = Fake(), Fake()
    all.add(first)
    all.add(second)
    all.authenticate(first)
    assert all.count == 1


@pytest.mark.parametrize(
    ("files", "most"), [(None, MAX_CONNECTIONS), (10**6, MAX_CONNECTIONS), (256, 64), (20, 8)]
)
def test_connections_stay_below_what_a_process_may_open(files, most):
    assert connections_for(files) == most


def test_a_process_takes_the_files_that_it_needs_and_may_have(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: asked.append(both))
    assert connections.max_connections() == MAX_CONNECTIONS
    assert asked == [(2 * MAX_CONNECTIONS + 128, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert connections.max_connections() == 64


@pytest.fixture(scope="module")
def server():
    """A server that waits a second for headers and may open few files."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (320, 320));"
        "from tests.view.server.house import run; run()"
    )
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    process = subprocess.Popen([sys.executable, "-c", code], **given)
    link = process.stdout.readline().split()[0]
    port = int(re.match(r"http://127.0.0.1:(\d+)/", link)[1])
    yield SimpleNamespace(process=process, port=port, secret=entered(link)[1])
    process.kill()
    process.wait()


def closed_after(line):
    """How many seconds pass until the other side closes."""
    began = time.monotonic()
    line.settimeout(10)
    try:
        while line.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - began


@pytest.mark.parametrize("number", [0, 1, 2])
def test_half_a_request_is_not_waited_for(server, number):
    with half_open(server.port, number) as line:
        assert 0.5 < closed_after(line) < 5


def test_headers_that_drip_in_are_not_waited_for(server):
    with half_open(server.port, 2) as line:
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reset|pipe"):
            while time.monotonic() - began < 8:
                line.sendall(b"a")
                time.sleep(0.1)
        assert 0.5 < time.monotonic() - began < 5


def wanted(server, *, known):
    """A request for a file of the page, with the secret or without."""
    secret = f"Authorization: Bearer {server.secret}\r\n" if known else ""
    about = f"Host: 127.0.0.1:{server.port}\r\n{secret}"
    return f"GET /icon.svg HTTP/1.1\r\n{about}\r\n".encode()


@pytest.mark.parametrize(("known", "answers"), [(False, 1), (True, 20)])
def test_without_the_secret_a_connection_answers_one_request(server, known, answers):
    with socket.create_connection(("127.0.0.1", server.port), 10) as line:
        line.sendall(wanted(server, known=known) * 20)
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 ") == answers
    assert answer.count(b"connection: close") == (not known)


def test_a_second_request_has_as_long_as_the_first_and_no_longer(server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as line:
        whole = wanted(server, known=True)
        for _ in range(4):
            time.sleep(0.4)
            line.sendall(whole)
            answer = b""
            while not answer.endswith(b"<svg/>"):
                answer += line.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 ")
        line.sendall(whole[:20])
        assert 0.5 < closed_after(line) < 5


def test_a_run_is_watched_for_longer_than_headers_may_take(server):
    body = json.dumps({"model": "toy", "input": "wait"})
    about = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.secret}\r\n"
    post = f"POST /api/runs HTTP/1.1\r\n{about}Content-Length: {len(body)}\r\n\r\n{body}"
    with socket.create_connection(("127.0.0.1", server.port), 10) as line:
        line.sendall(post.encode())
        answer = b""
        while not answer.endswith(b"}"):
            answer += line.recv(65536)
        run = re.search(rb'"id": ?"(\w+)"', answer)[1].decode()
        line.sendall(f"GET /api/runs/{run}/events HTTP/1.1\r\n{about}\r\n".encode())
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            assert line.recv(65536)
            time.sleep(0.2)
    client = Client(server.port, server.secret)
    client.ask("/api/about")
    assert client.errors == []


def test_more_silent_connections_than_files_keep_nobody_out(server):
    client = Client(server.port, server.secret)
    with client.asking(), held_open(server.port, 400):
        time.sleep(0.5)
        for number in range(200):
            half_open(server.port, number).close()
    assert client.errors == []
    assert len(client.seconds) > 10
    assert max(client.seconds) < 3
    open_files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    assert open_files < 320


@pytest.mark.parametrize("count", [60, 200])
def test_bodies_that_do_not_come_keep_nobody_from_the_page_nor_from_a_link(server, count):
    def answered(method, path, body=None):
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        with closing(line):
            line.request(method, path, body)
            return line.getresponse().status

    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(half_open(server.port, 3))
        time.sleep(0.2)
        assert answered("GET", "/") == 200
        # read and judged: nobody has such a link
        assert answered("POST", "/api/session", b'{"token": "x"}') == 401
