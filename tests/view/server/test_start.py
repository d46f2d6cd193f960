"""The server on a real socket, as a browser and as who means it harm would meet it."""

import http.client
import json
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from regard.view.server import start

pytest.importorskip("uvicorn")
ROOT = Path(__file__).parents[3]


class Process:
    """A server in a process of its own, and what it printed."""

    def __init__(self):
        code = "from tests.view.server.house import run; run()"
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
        self.process = subprocess.Popen([sys.executable, "-c", code], **given)
        self.link, self.other, self.others = self.process.stdout.readline().split()
        self.browsed = self.process.stdout.readline().split()
        found = re.match(r"http://127.0.0.1:(\d+)/#token=([\w-]+)(/t/.*)", self.link)
        self.port, self.token, self.place = int(found[1]), found[2], found[3]


@pytest.fixture(scope="module")
def server():
    """A server, and the secret that its first link was exchanged for."""
    found = Process()
    found.secret = json.loads(entered(found, found.token)[2])["session"]
    yield found
    found.process.kill()
    found.process.wait()


def entered(server, token, **headers):
    """What a token is exchanged for."""
    return asked(server, "POST", "/api/session", json.dumps({"token": token}), **NONE, **headers)


NONE = {"Authorization": ""}


def bearer(server):
    """The header that says who asks."""
    return {"Authorization": f"Bearer {server.secret}"}


def asked(server, method="GET", path="/api/about", body=None, **headers):
    """The status, the headers and the body of an answer over a line of its own."""
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    given = headers if "Authorization" in headers else {**bearer(server), **headers}
    line.request(method, path, body, given)
    answer = line.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def typed(server, text: bytes, seconds=5.0) -> bytes:
    """What comes back for bytes as they are."""
    with socket.create_connection(("127.0.0.1", server.port), seconds) as line:
        line.sendall(text.replace(b"SECRET", server.secret.encode()))
        return line.recv(65536)


def opened_by(server):
    """The file that the browser was told to open."""
    return Path(unquote(urlsplit(server.browsed[1]).path))


def test_it_listens_on_this_machine_alone(server):
    assert server.others == "False"
    assert server.link != server.other
    assert len(server.token) >= 43
    assert asked(server, path=f"/api/traces/{server.place[3:]}")[0] == 200


def test_a_link_is_exchanged_once_and_never_for_a_cookie(server):
    token = re.search(r"#token=([\w-]+)", server.other)[1]
    assert entered(server, token, Origin="http://evil.com")[0] == 403
    assert entered(server, token, Host="evil.com")[0] == 400
    code, headers, body = entered(server, token, Origin=f"http://127.0.0.1:{server.port}")
    assert (code, json.loads(body)) == (200, {"session": server.secret})
    assert "set-cookie" not in {name.lower() for name in headers}
    assert server.secret not in server.link + server.other
    code, _, body = entered(server, token)
    assert code == 401
    assert json.loads(body)["error"].startswith(
        "this link was used already, or it is older than 10"
    )


@pytest.mark.parametrize("body", ["{}", '{"token": 1}', '{"token": ["a"]}', '{"token": ""}'])
def test_what_is_no_token_gets_no_secret(server, body):
    assert asked(server, "POST", "/api/session", body, **NONE)[0] == 401


def test_the_page_and_its_files_need_no_secret_and_all_else_does(server):
    for path in ("/", "/app.js", "/app.css", "/icon.svg", "/?token=old"):
        assert asked(server, path=path, **NONE)[0] == 200
    assert asked(server, **NONE)[0] == 401
    assert asked(server, Authorization=f"Bearer {server.token}")[0] == 401
    assert asked(server, Cookie=f"regard-{server.port}={server.secret}", **NONE)[0] == 401


def test_the_browser_is_told_a_private_file_which_is_gone_once_it_was_used(server):
    path = opened_by(server)
    assert server.browsed == ["browse", path.as_uri()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    token = re.search(r"url=[^#]*#token=([\w-]+)/t/", path.read_text())[1]
    assert token not in server.link + server.other
    assert entered(server, token)[0] == 200
    assert not path.parent.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_file_is_gone_when_the_server_ends(number):
    other = Process()
    assert opened_by(other).exists()
    while not opened(other.port):
        time.sleep(0.01)
    other.process.send_signal(number)
    other.process.communicate(timeout=15)
    assert not opened_by(other).parent.exists()


def opened(port):
    """Whether a server answers there already."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    line.request("GET", "/")
    return line.getresponse().status == 200


def test_wrong_hosts_and_origins_are_refused_on_the_line_too(server):
    assert asked(server, Host="evil.com")[0] == 400
    assert asked(server, Host=f"[::1]:{server.port}")[0] == 400
    assert asked(server, Host=f"localhost:{server.port}")[0] == 200
    assert asked(server, Origin="http://evil.com")[0] == 403
    without = typed(server, b"GET /api/about HTTP/1.0\r\nAuthorization: Bearer SECRET\r\n\r\n")
    assert b" 400 " in without.splitlines()[0]


def test_nothing_says_what_it_is_made_of(server):
    for path in ("/api/about", "/no"):
        _, headers, _ = asked(server, path=path)
        assert "server" not in {name.lower() for name in headers}


def test_no_socket_opens(server):
    text = (
        f"GET /api/about HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nOrigin: http://127.0.0.1:{server.port}\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Authorization: Bearer SECRET\r\n\r\n"
    )
    assert typed(server, text.encode()).startswith(b"HTTP/1.1 403 ")


def test_a_body_that_drips_in_is_not_waited_for(server):
    text = (
        f"POST /api/lessons/twice HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        "Authorization: Bearer SECRET\r\nContent-Length: 100\r\n\r\n{"
    )
    began = time.monotonic()
    assert typed(server, text.encode()).startswith(b"HTTP/1.1 408 ")
    assert 0.4 < time.monotonic() - began < 4


def test_a_body_in_chunks_over_the_bound_is_refused_before_its_end(server):
    head = (
        f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        "Authorization: Bearer SECRET\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    answer = typed(server, head.encode() + chunk * 9)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"content-security-policy" in answer


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n",
        b"POST /api/runs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
    ids=["tls", "hosts", "proxy", "length", "long"],
)
def test_what_is_no_request_is_refused_and_the_server_lives(server, text):
    assert typed(server, text)[9:12] in (b"400", b"431")
    assert asked(server)[0] == 200


def test_many_at_once_are_answered(server):
    found = []

    def client():
        for _ in range(20):
            body = json.dumps({"x": 2})
            found.append(asked(server, "POST", "/api/lessons/twice", body)[0])

    threads = [threading.Thread(target=client) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 200


def test_ctrl_c_ends_it_cleanly_even_while_somebody_watches(server):
    """The last of this file: it ends the server of all of them."""
    body = json.dumps({"model": "toy", "input": "wait"})
    id = json.loads(asked(server, "POST", "/api/runs", body)[2])["id"]
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    line.request("GET", f"/api/runs/{id}/events", headers=bearer(server))
    assert b"data:" in line.getresponse().readline()
    server.process.send_signal(signal.SIGINT)
    out, error = server.process.communicate(timeout=15)
    assert (server.process.returncode, out, error) == (0, "ended\n", "")


@pytest.mark.parametrize("kind", [webbrowser.GenericBrowser, webbrowser.BackgroundBrowser])
def test_a_browser_of_the_terminal_is_not_opened(kind, monkeypatch):
    opened, browser = [], kind("true")
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    monkeypatch.setattr(browser, "open", opened.append)
    start.open_in_browser("http://a")
    assert opened == ([] if kind is webbrowser.GenericBrowser else ["http://a"])


def test_without_a_browser_nothing_happens(monkeypatch):
    def none():
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    start.open_in_browser("http://a")


def test_without_the_extra_one_sentence_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ModuleNotFoundError, match=r"serving needs .*: pip install 'regard\[web\]'"):
        start.check_web_installed()
