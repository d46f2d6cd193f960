"""Nobody comes in but the page itself: every route is walked, with every wrong host and origin."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from regard.view.server import guard
from regard.view.server.access import Access
from regard.view.server.address import ServerAddress
from tests.view.server.house import BEARER, BOUND, SECRET, asgi, headers, status

WRONG_HOSTS = [
    "evil.com",
    "localhost.evil.com",
    "127.0.0.1.nip.io",
    "127.0.0.1.nip.io:8000",
    "",
    "localhost:8000@evil.com",
    "localhost:8001",
    "localhost",
    "[::1]:8000",
    "127.0.0.1:8000 ",
    "127.0.0.1:8000, evil.com",
    "0.0.0.0:8000",
]
ORIGINS = ["http://evil.com", "null", "", "https://127.0.0.1:8000", "http://localhost:8001", "file"]
ROOT = Path(__file__).parents[3]
GOOD = {"host": "127.0.0.1:8000"}
ALL = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def walked(house):
    """Every address of the application by its own table, filled in, with its methods."""
    fill = {"run": "0" * 32, "trace": "1" * 32, "kind": "png", "lesson": "twice"}
    for route in house.app.app.routes:
        path = re.sub(r"{(\w+)(:int)?}", lambda m: fill.get(m[1], "0"), route.path)
        yield path, sorted(route.methods)


def test_the_table_has_every_address_of_the_contract(house):
    text = (ROOT / "docs" / "page.md").read_text()
    told = set(re.findall(r"`(GET|POST|DELETE) (/api/[^?`]*)", text))
    routes = [route for route in house.app.app.routes if route.path.startswith("/api/")]
    there = {(m, re.sub(":int", "", r.path)) for r in routes for m in r.methods - {"HEAD"}}
    assert len(told) == 19
    assert told == there


@pytest.mark.parametrize("host", WRONG_HOSTS)
def test_a_wrong_host_is_refused_at_every_address(house, host):
    for path, methods in walked(house):
        for method in methods:
            sent, _ = asgi(house.app, method, path, {"host": host, **BEARER})
            assert status(sent) == 400, (method, path)


def test_a_host_that_is_missing_or_there_twice_is_refused(house):
    twice = [("host", "127.0.0.1:8000"), ("host", "127.0.0.1:8000")]
    for path, _ in walked(house):
        assert status(asgi(house.app, "GET", path, BEARER)[0]) == 400
        assert status(asgi(house.app, "GET", path, [*twice, *BEARER.items()])[0]) == 400


def test_what_was_bound_decides_and_not_what_was_sent(house):
    forged = {"x-forwarded-host": "127.0.0.1:8000", "forwarded": "host=127.0.0.1:8000"}
    sent, _ = asgi(house.app, "GET", "/", {"host": "evil.com", **forged, **BEARER})
    assert status(sent) == 400
    six = ServerAddress(8000, ("[::1]", "localhost"))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"[::1]:8000")]}
    assert guard.refusal(scope, six, has_secret=False) is None
    assert guard.refusal(scope, BOUND, has_secret=True)[0] == 400


@pytest.mark.parametrize("origin", ORIGINS)
def test_another_origin_is_refused_by_every_method_at_every_address(house, origin):
    for path, _ in walked(house):
        for method in ALL:
            sent, _ = asgi(house.app, method, path, {**GOOD, "origin": origin, **BEARER})
            assert status(sent) == 403, (method, path)


def test_two_origins_are_refused_even_if_one_is_ours(house):
    pairs = [*GOOD.items(), ("origin", "http://127.0.0.1:8000"), ("origin", "http://evil.com")]
    assert status(asgi(house.app, "GET", "/api/about", [*pairs, *BEARER.items()])[0]) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "strange"])
def test_what_another_site_embeds_is_refused_but_a_link_to_the_page_is_not(house, site):
    for path, _ in walked(house):
        sent, _ = asgi(house.app, "GET", path, {**GOOD, "sec-fetch-site": site, **BEARER})
        assert status(sent) == (200 if path == "/" else 403), path


def without(house, given, path, method):
    site = {"sec-fetch-site": "same-origin"}
    return status(asgi(house.app, method, path, {**GOOD, **site, **given})[0])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {SECRET}"},
        {"authorization": f"Bearer {SECRET}x"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer \xe9"},
        {"cookie": f"regard-8000={SECRET}"},
        {"cookie": f"session={SECRET}; regard-session={SECRET}; Authorization={SECRET}"},
        {"origin": "http://localhost:8000"},
    ],
    ids=str,
)
def test_without_the_secret_there_is_the_bare_page_and_nothing_else(house, given):
    for path, methods in walked(house):
        if path == guard.ENTRY_PATH:  # which has no token to exchange here
            assert without(house, given, path, "POST") == 400
            continue
        for method in methods:
            found = without(house, given, path, method)
            assert found == (200 if path in guard.PUBLIC_PATHS else 401), (method, path)


def test_the_token_of_a_link_opens_nothing_but_the_entry(house):
    token = house.access.link_token()
    assert without(house, {"authorization": f"Bearer {token}"}, "/api/about", "GET") == 401
    asked = asgi(house.app, "GET", "/api/about", GOOD, query=f"token={token}".encode())
    assert status(asked[0]) == 401


def test_the_secret_is_taken_from_one_header_alone(house):
    assert status(asgi(house.app, "GET", "/api/about", {**GOOD, **BEARER})[0]) == 200
    twice = [*GOOD.items(), *BEARER.items(), ("authorization", "Bearer x")]
    assert status(asgi(house.app, "GET", "/api/about", twice)[0]) == 401
    asked = asgi(house.app, "GET", "/api/about", GOOD, query=f"token={SECRET}".encode())
    assert status(asked[0]) == 401


def test_no_answer_sets_a_cookie(house):
    for path, methods in walked(house):
        for method in methods:
            sent, _ = asgi(house.app, method, path, {**GOOD, **BEARER})
            assert "set-cookie" not in headers(sent), (method, path)


@pytest.mark.parametrize("path", ["/", "/api/about", "/api/runs/0/events", "/no"])
@pytest.mark.parametrize("origin", ["http://evil.com", "http://127.0.0.1:8000", None])
def test_every_socket_is_refused_whoever_opens_it(house, path, origin):
    given = {**GOOD, **BEARER, **({"origin": origin} if origin else {})}
    sent, _ = asgi(house.app, "GET", path, given, kind="websocket")
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_an_upgrade_to_a_socket_is_refused_at_every_address(house):
    for path, _ in walked(house):
        given = {**GOOD, **BEARER, "upgrade": "WebSocket", "connection": "upgrade"}
        assert status(asgi(house.app, "GET", path, given)[0]) == 403


def test_a_socket_is_refused_in_words_where_the_server_can_say_them(house):
    scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"evil.com")]}
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(house.app(scope | {"extensions": {"websocket.http.response": {}}}, None, send))
    assert status(sent) == 400
    assert headers(sent)["content-security-policy"].startswith("default-src 'none'")


def test_every_answer_has_the_policy_and_none_speaks_of_sharing(house, monkeypatch):
    def broken(*_):
        raise RuntimeError

    monkeypatch.setattr(house.state.jobs, "counts", broken)
    big, bodies = {"content-length": "999999999"}, []
    asked = [(p, m, {}) for p, methods in walked(house) for m in (*methods, "OPTIONS", "PUT")]
    asked += [("/no", "GET", {}), ("/api/traces", "POST", big), ("/", "GET", {"host": "evil"})]
    for path, method, more in asked:
        sent, _ = asgi(house.app, method, path, {**GOOD, **BEARER, **more})
        found = headers(sent)
        assert {name: found[name] for name in guard.SECURITY_HEADERS} == guard.SECURITY_HEADERS, (
            path,
            method,
        )
        assert not [name for name in found if name.startswith("access-control-")]
        bodies.append(status(sent))
    assert {200, 400, 404, 405, 413, 500} <= set(bodies)


def test_the_policy_is_the_strict_one():
    policy = dict(part.split(" ", 1) for part in guard._CONTENT_SECURITY_POLICY.split("; "))
    assert policy.pop("default-src") == "'none'"
    assert policy.pop("img-src") == "'self' blob: data:"
    for name in ("frame-ancestors", "base-uri", "form-action"):
        assert policy.pop(name) == "'none'"
    assert policy == dict.fromkeys(("script-src", "style-src", "connect-src", "font-src"), "'self'")


def test_an_error_inside_is_a_sentence_outside_and_a_line_for_the_terminal(house, monkeypatch):
    def broken(*_):
        raise RuntimeError("/home/me/secret.py")

    monkeypatch.setattr(house.state.jobs, "counts", broken)
    sent, _ = asgi(house.app, "GET", "/api/about", {**GOOD, **BEARER})
    assert status(sent) == 500
    assert json.loads(sent[1]["body"])["error"].startswith("something went wrong here; the ter")
    assert house.lines == ["GET /api/about: RuntimeError: /home/me/secret.py"]


def test_no_more_are_let_in_than_there_is_room_for():
    async def app(scope, receive, send):
        raise AssertionError

    full = guard.Guard(app, BOUND, Access(SECRET), report=print, max_requests=0)
    assert status(asgi(full, "GET", "/", {**GOOD, **BEARER})[0]) == 503


def test_strangers_take_no_place_from_each_other_nor_from_who_has_the_secret():
    found = []

    async def slow(scope, receive, send):
        await asyncio.sleep(0.2)
        await guard._send_error(send, 200, "")

    async def asked(given):
        async def send(message):
            if message["type"] == "http.response.start":
                found.append((bool(given), message["status"]))

        pairs = [(k.encode(), v.encode()) for k, v in {**GOOD, **given}.items()]
        await app({"type": "http", "method": "GET", "path": "/", "headers": pairs}, None, send)

    async def run():
        await asyncio.gather(*[asked({}) for _ in range(50)], *[asked(BEARER) for _ in range(16)])

    app = guard.Guard(slow, BOUND, Access(SECRET), report=print, max_requests=16)
    asyncio.run(run())
    assert found.count((False, 200)) == 50
    assert found.count((True, 200)) == 16
    assert app.active_requests == 0
