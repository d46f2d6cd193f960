"""The open connections, bounded in number and in the time that one may stay silent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

# How long the headers of a request may take to arrive, in seconds.
HEADER_SECONDS = 10.0
MAX_CONNECTIONS = 512
# What a process holds open besides: files, its own pipes, and connections that are being closed.
_OTHER_FILES = 128
# Under this name in a request's state lies what to call when the request had the secret.
AUTHENTICATE_KEY = "regard.admit"


@dataclass(eq=False)
class Connections:
    """All connections of a server; at the bound, a new one takes the place of an old one.

    First goes the oldest that never sent the secret, whatever it does; then the oldest of the
    others that waits between two requests. So silent ones keep nobody out.

    Args:
        max_count: how many there may be.
        header_seconds: how long one may wait without the headers of a request.
    """

    max_count: int = MAX_CONNECTIONS
    header_seconds: float = HEADER_SECONDS
    _unauthenticated: dict[Any, None] = field(default_factory=dict)
    _authenticated: dict[Any, None] = field(default_factory=dict)

    def add(self, connection: Any) -> None:
        """Count a connection, and close another one for it, or itself, where there are too many."""
        self._unauthenticated[connection] = None
        if len(self._unauthenticated) + len(self._authenticated) <= self.max_count:
            return
        idle = (one for one in self._authenticated if one.is_waiting())
        oldest = next(iter(self._unauthenticated))
        out = next(idle, connection) if oldest is connection else oldest
        self.remove(out)
        out.transport.abort()

    def authenticate(self, connection: Any) -> None:
        """Count a connection as one with the secret, unless it was closed meanwhile."""
        if connection in self._unauthenticated:
            del self._unauthenticated[connection]
            self._authenticated[connection] = None

    def remove(self, connection: Any) -> None:
        """Count a connection no more."""
        self._unauthenticated.pop(connection, None)
        self._authenticated.pop(connection, None)

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._unauthenticated) + len(self._authenticated)


def max_connections() -> int:
    """The number of connections this process can hold, after raising its limit of open files."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such bound
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections_for(None if soft == resource.RLIM_INFINITY else soft)


def connections_for(max_files: int | None) -> int:
    """The number of connections for a limit of open files: half of what is left over."""
    if max_files is None:
        return MAX_CONNECTIONS
    return max(8, min(MAX_CONNECTIONS, (max_files - _OTHER_FILES) // 2))


class _BoundedProtocol:
    """A mixin for uvicorn's protocol: counts connections, and closes those without a request."""

    bounds: Connections
    loop: asyncio.AbstractEventLoop
    transport: Any
    cycle: Any
    app_state: dict[str, Any]
    _timer: asyncio.TimerHandle | None = None

    def is_waiting(self) -> bool:
        """True if no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self.app_state = {AUTHENTICATE_KEY: lambda: self.bounds.authenticate(self)}
        self.bounds.add(self)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.remove(self)
        self._stop_timer()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        if not self.is_waiting():
            self._stop_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self._stop_timer()
        # what was sent behind the last request may have begun another one already
        if self.is_waiting():
            self._start_timer()

    def _start_timer(self) -> None:
        # what comes meanwhile, piece by piece, does not make it wait longer
        self._timer = self.loop.call_later(self.bounds.header_seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded_protocol(connections: Connections) -> type[asyncio.Protocol]:
    """The HTTP protocol of uvicorn, which by itself waits for headers for ever, within bounds."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return type("BoundedProtocol", (_BoundedProtocol, H11Protocol), {"bounds": connections})
