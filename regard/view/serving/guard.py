"""Who may come in: one gate before everything, decided by what was bound and by nothing sent."""

import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from regard.view.serving.access import Access
from regard.view.serving.bound import Bound
from regard.view.serving.connections import ADMIT_KEY

Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

# What needs no secret: the page, which knows nothing, its files, and where a link is exchanged.
ENTRY_PATH = "/api/session"
OPEN = ("/", "/app.js", "/app.css", "/icon.svg", ENTRY_PATH)
_OURS = ("same-origin", "none")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_CLOSE = (b"connection", b"close")
NO_SOCKETS = "there are no sockets here"
BROKEN = "something went wrong here; the terminal where regard serve runs says what"


class Guard:
    """An ASGI application that lets through to another one only who may come in.

    Args:
        report: told in a line of what went wrong inside, which no answer says.
        at_once: how many requests with the secret may be inside; those without it are as many as
            connections, of which the oldest gives way.
    """

    def __init__(
        self,
        app: App,
        bound: Bound,
        access: Access,
        *,
        report: Callable[[str], None],
        at_once: int = 256,
    ):
        self.app, self.bound, self.access, self.report = app, bound, access, report
        self.at_once, self.inside = at_once, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or hand it on; a socket is always refused."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        known = _has_secret(scope, self.access)
        if known and ADMIT_KEY in scope.get("state", {}):
            scope["state"][ADMIT_KEY]()
        no = refusal(scope, self.bound, known=known)
        if scope["type"] != "http":
            await _close(scope, send, *(no or (403, NO_SOCKETS)))
            return
        if no is None and known and self.inside >= self.at_once:
            no = 503, f"{self.inside} requests are being answered already; ask again"
        if no is not None:
            await _answer(send, *no)
            return
        # Without the secret nothing is counted: such a request holds a kilobyte at most, and any
        # number of places would be held by bodies that do not come, and keep out who opens a link.
        self.inside += known
        try:
            await self._through(scope, receive, send, known=known)
        finally:
            self.inside -= known

    async def _through(self, scope: Any, receive: Any, send: Any, *, known: bool) -> None:
        begun = False

        async def headed(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = _guarded(message.get("headers", []))
                # without the secret, one request a connection: what is sent behind it is not read
                headers += [] if known else [_CLOSE]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, headed)
        except Exception as error:
            self.report(f"{scope['method']} {scope['path']}: {type(error).__name__}: {error}")
            if not begun:
                await _answer(send, 500, BROKEN)


def refusal(scope: Scope, bound: Bound, *, known: bool) -> tuple[int, str] | None:
    """The status and the sentence for who may not come in, or None.

    Args:
        known: whether the secret was sent.
    """
    hosts = list(_sent(scope, "host"))
    if len(hosts) != 1 or hosts[0].lower() not in bound.hosts:
        return 400, "expected the host that regard serve was bound to, got another"
    if not _ours(scope, bound):
        return 403, "expected a request of the page itself, got one of another origin"
    if any("websocket" in value.lower() for value in _sent(scope, "upgrade")):
        return 403, NO_SOCKETS
    if scope["path"] not in OPEN and not known:
        return 401, "expected the secret of a session; open a new link of regard serve"
    return None


def _ours(scope: Scope, bound: Bound) -> bool:
    """Whether a request comes from the page, or from no page at all."""
    origins, sites = list(_sent(scope, "origin")), list(_sent(scope, "sec-fetch-site"))
    if origins:
        return len(origins) == 1 and origins[0].lower() in bound.origins
    if scope["type"] != "http":
        return False
    # a link to the page may stand anywhere; what belongs to the page may be fetched by it alone
    return scope["path"] == "/" or all(site in _OURS for site in sites)


def _has_secret(scope: Scope, access: Access) -> bool:
    given = list(_sent(scope, "authorization"))
    kind, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return kind.lower() == "bearer" and access.admits(secret)


def _sent(scope: Scope, name: str) -> Iterator[str]:
    wanted = name.encode()
    return (v.decode("latin-1") for k, v in scope["headers"] if k.lower() == wanted)


def _guarded(headers: Any) -> list[tuple[bytes, bytes]]:
    """These headers with ours; a header of ours that was set already is set anew."""
    kept = [(k, v) for k, v in headers if k.decode("latin-1").lower() not in HEADERS]
    return kept + [(k.encode(), v.encode()) for k, v in HEADERS.items()]


async def _answer(send: Send, status: int, sentence: str) -> None:
    await _said(send, "http.response", status, sentence)


async def _close(scope: Scope, send: Send, status: int, sentence: str) -> None:
    """Refuse a socket before it opens, with an answer where the server can send one."""
    if "websocket.http.response" in scope.get("extensions", {}):
        await _said(send, "websocket.http.response", status, sentence)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": sentence})


async def _said(send: Send, kind: str, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    # what comes behind the headers is not read, so the line cannot be used again
    headers = [(b"content-type", b"application/json"), _CLOSE]
    headers += [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": f"{kind}.start", "status": status, "headers": _guarded(headers)})
    await send({"type": f"{kind}.body", "body": body})
