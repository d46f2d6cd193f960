"""Who may come in: one gate before everything, decided by what was bound and by nothing sent."""

import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from regard.view.server.access import Access
from regard.view.server.address import ServerAddress
from regard.view.server.connections import AUTHENTICATE_KEY

Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

# What needs no secret: the page, which knows nothing, its files, and where a link is exchanged.
ENTRY_PATH = "/api/session"
PUBLIC_PATHS = ("/", "/app.js", "/app.css", "/icon.svg", ENTRY_PATH)
_SAME_SITE_VALUES = ("same-origin", "none")
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_CLOSE_HEADER = (b"connection", b"close")
NO_WEBSOCKETS = "there are no sockets here"
INTERNAL_ERROR = "something went wrong here; the terminal where regard serve runs says what"


class Guard:
    """An ASGI application that lets through to another one only who may come in.

    Args:
        report: told in a line of what went wrong inside, which no answer says.
        max_requests: how many requests with the secret may be inside; those without it are as many
            as connections, of which the oldest gives way.
    """

    def __init__(
        self,
        app: App,
        address: ServerAddress,
        access: Access,
        *,
        report: Callable[[str], None],
        max_requests: int = 256,
    ):
        self.app, self.address, self.access, self.report = app, address, access, report
        self.max_requests, self.active_requests = max_requests, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or hand it on; a socket is always refused."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        known = _has_secret(scope, self.access)
        if known and AUTHENTICATE_KEY in scope.get("state", {}):
            scope["state"][AUTHENTICATE_KEY]()
        no = refusal(scope, self.address, has_secret=known)
        if scope["type"] != "http":
            await _refuse_socket(scope, send, *(no or (403, NO_WEBSOCKETS)))
            return
        if no is None and known and self.active_requests >= self.max_requests:
            no = 503, f"{self.active_requests} requests are being answered already; ask again"
        if no is not None:
            await _send_error(send, *no)
            return
        # Without the secret nothing is counted: such a request holds a kilobyte at most, and any
        # number of places would be held by bodies that do not come, and keep out who opens a link.
        self.active_requests += known
        try:
            await self._forward(scope, receive, send, has_secret=known)
        finally:
            self.active_requests -= known

    async def _forward(self, scope: Any, receive: Any, send: Any, *, has_secret: bool) -> None:
        begun = False

        async def send_with_headers(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = _with_security_headers(message.get("headers", []))
                # without the secret, one request a connection: what is sent behind it is not read
                headers += [] if has_secret else [_CLOSE_HEADER]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            self.report(f"{scope['method']} {scope['path']}: {type(error).__name__}: {error}")
            if not begun:
                await _send_error(send, 500, INTERNAL_ERROR)


def refusal(scope: Scope, address: ServerAddress, *, has_secret: bool) -> tuple[int, str] | None:
    """The status and the sentence for who may not come in, or None.

    Args:
        has_secret: whether the secret was sent.
    """
    hosts = list(_header_values(scope, "host"))
    if len(hosts) != 1 or hosts[0].lower() not in address.hosts:
        return 400, "expected the host that regard serve was bound to, got another"
    if not _is_same_origin(scope, address):
        return 403, "expected a request of the page itself, got one of another origin"
    if any("websocket" in value.lower() for value in _header_values(scope, "upgrade")):
        return 403, NO_WEBSOCKETS
    if scope["path"] not in PUBLIC_PATHS and not has_secret:
        return 401, "expected the secret of a session; open a new link of regard serve"
    return None


def _is_same_origin(scope: Scope, address: ServerAddress) -> bool:
    """Whether a request comes from the page, or from no page at all."""
    origins, sites = (
        list(_header_values(scope, "origin")),
        list(_header_values(scope, "sec-fetch-site")),
    )
    if origins:
        return len(origins) == 1 and origins[0].lower() in address.origins
    if scope["type"] != "http":
        return False
    # a link to the page may stand anywhere; what belongs to the page may be fetched by it alone
    return scope["path"] == "/" or all(site in _SAME_SITE_VALUES for site in sites)


def _has_secret(scope: Scope, access: Access) -> bool:
    given = list(_header_values(scope, "authorization"))
    kind, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return kind.lower() == "bearer" and access.is_secret(secret)


def _header_values(scope: Scope, name: str) -> Iterator[str]:
    wanted = name.encode()
    return (v.decode("latin-1") for k, v in scope["headers"] if k.lower() == wanted)


def _with_security_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """These headers with ours; a header of ours that was set already is set anew."""
    kept = [(k, v) for k, v in headers if k.decode("latin-1").lower() not in SECURITY_HEADERS]
    return kept + [(k.encode(), v.encode()) for k, v in SECURITY_HEADERS.items()]


async def _send_error(send: Send, status: int, sentence: str) -> None:
    await _send_response(send, "http.response", status, sentence)


async def _refuse_socket(scope: Scope, send: Send, status: int, sentence: str) -> None:
    """Refuse a socket before it opens, with an answer where the server can send one."""
    if "websocket.http.response" in scope.get("extensions", {}):
        await _send_response(send, "websocket.http.response", status, sentence)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": sentence})


async def _send_response(send: Send, kind: str, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    # what comes behind the headers is not read, so the line cannot be used again
    headers = [(b"content-type", b"application/json"), _CLOSE_HEADER]
    headers += [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send(
        {"type": f"{kind}.start", "status": status, "headers": _with_security_headers(headers)}
    )
    await send({"type": f"{kind}.body", "body": body})
