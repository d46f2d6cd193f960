"""The open connections: how many there may be, how long one may stay silent, and who gives way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

# How long the headers of a request may take to arrive, in seconds.
HEADER_SECONDS = 10.0
MOST_CONNECTIONS = 512
# What a process holds open besides: files, its own pipes, and connections that are being closed.
_OTHER_FILES = 128
# Under this name in a request's state lies what to call when the request had the secret.
ADMIT = "regard.admit"


@dataclass(eq=False)
class Connections:
    """All connections of a server; at the bound, a new one takes the place of an old one.

    First goes the oldest that never sent the secret, whatever it does; then the oldest of the
    others that waits between two requests. So silent ones keep nobody out.

    Args:
        most: how many there may be.
        seconds: how long one may wait without the headers of a request.
    """

    most: int = MOST_CONNECTIONS
    seconds: float = HEADER_SECONDS
    _strangers: dict[Any, None] = field(default_factory=dict)
    _known: dict[Any, None] = field(default_factory=dict)

    def add(self, connection: Any) -> None:
        """Count a connection, and close another one for it, or itself, where there are too many."""
        self._strangers[connection] = None
        if len(self._strangers) + len(self._known) <= self.most:
            return
        idle = (one for one in self._known if one.is_waiting())
        oldest = next(iter(self._strangers))
        out = next(idle, connection) if oldest is connection else oldest
        self.remove(out)
        out.transport.abort()

    def admit(self, connection: Any) -> None:
        """Tell that the secret came by it; what was closed meanwhile is not counted again."""
        if connection in self._strangers:
            del self._strangers[connection]
            self._known[connection] = None

    def remove(self, connection: Any) -> None:
        """Count a connection no more."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._strangers) + len(self._known)


def most_connections() -> int:
    """How many connections this process can hold, once it may hold as many files as allowed."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such bound
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return bounded(None if soft == resource.RLIM_INFINITY else soft)


def bounded(files: int | None) -> int:
    """How many connections fit where so many files may be open: half of what is left over."""
    if files is None:
        return MOST_CONNECTIONS
    return max(8, min(MOST_CONNECTIONS, (files - _OTHER_FILES) // 2))


class _Bounded:
    """Stands before a protocol of uvicorn: counted, and closed where no request comes."""

    bounds: Connections
    loop: asyncio.AbstractEventLoop
    transport: Any
    cycle: Any
    app_state: dict[str, Any]
    _late: asyncio.TimerHandle | None = None

    def is_waiting(self) -> bool:
        """True if no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self.app_state = {ADMIT: lambda: self.bounds.admit(self)}
        self.bounds.add(self)
        self._time()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.remove(self)
        self._untime()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        if not self.is_waiting():
            self._untime()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self._untime()
        # what was sent behind the last request may have begun another one already
        if self.is_waiting():
            self._time()

    def _time(self) -> None:
        # what comes meanwhile, piece by piece, does not make it wait longer
        self._late = self.loop.call_later(self.bounds.seconds, self.transport.abort)

    def _untime(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def protocol(connections: Connections) -> type[asyncio.Protocol]:
    """The HTTP protocol of uvicorn, which by itself waits for headers for ever, within bounds."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return type("BoundedProtocol", (_Bounded, H11Protocol), {"bounds": connections})
