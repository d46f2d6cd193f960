"""Access to the server: links that open the page once, and the secret of the session."""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# How long a link may wait to be opened, in seconds, and how many may wait at a time.
LINK_SECONDS = 600.0
MAX_OPEN_LINKS = 64


@dataclass(frozen=True)
class _Link:
    """A link that is not used yet."""

    deadline: float
    on_exchange: Callable[[], object]


@dataclass(eq=False)
class Access:
    """The links of this launch and its secret; several threads may use it at once.

    Args:
        secret: whoever sends it in a header may do all that the page can; no link holds it.
        clock: the time in seconds.
    """

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    clock: Callable[[], float] = time.monotonic
    _links: dict[bytes, _Link] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def link_token(self, on_exchange: Callable[[], object] = lambda: None) -> str:
        """A token for one link; `used` is called when it has been exchanged."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._drop_expired()
            while len(self._links) >= MAX_OPEN_LINKS:
                del self._links[next(iter(self._links))]
            self._links[_digest(token)] = _Link(self.clock() + LINK_SECONDS, on_exchange)
        return token

    def exchange(self, token: str) -> str | None:
        """The secret for the token of a link, once and in time; else None."""
        with self._lock:
            self._drop_expired()
            # by its digest, so that how long it takes says nothing about the token
            link = self._links.pop(_digest(token), None)
        if link is None:
            return None
        link.on_exchange()
        return self.secret

    def is_secret(self, secret: str) -> bool:
        """True if this is the secret; compared in constant time."""
        return hmac.compare_digest(secret.encode(), self.secret.encode())

    def _drop_expired(self) -> None:
        now = self.clock()
        for digest in [digest for digest, link in self._links.items() if link.deadline < now]:
            del self._links[digest]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
