"""What the server is bound to: its names and its origins."""

import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerAddress:
    """An address that was bound.

    Args:
        host_names: what the host may be called; no header that is sent adds to them.
    """

    port: int
    host_names: tuple[str, ...]

    @property
    def hosts(self) -> frozenset[str]:
        """What may stand in the header Host."""
        bare = self.host_names if self.port == 80 else ()  # browsers leave the port of http out
        return frozenset([f"{name}:{self.port}" for name in self.host_names] + list(bare))

    @property
    def origins(self) -> frozenset[str]:
        """What may stand in the header Origin."""
        return frozenset(f"http://{host}" for host in self.hosts)

    def page_url(self, token: str, fragment: str = "") -> str:
        """What to open; `place` is where on the page, as `#/t/…`.

        The token stands behind the #, which browsers send to nobody.
        """
        return f"http://{self.host_names[0]}:{self.port}/#token={token}{fragment.removeprefix('#')}"


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one.

    Raises:
        OSError: there is no such address here, or another program has the port.
    """
    [(family, _, _, _, address), *_] = _resolve_host(host, port)
    # asyncio sends small pieces at once only where the protocol is named; else each waits 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listening


def host_names_of(listener: socket.socket, host: str) -> tuple[str, ...]:
    """What the host of a socket may be called, the best name first."""
    there = listener.getsockname()[0]
    address = ipaddress.ip_address(there)
    if address.is_unspecified:
        known = [_bracket_ipv6(one) for one in _own_addresses()]
        loops = ["127.0.0.1", "localhost", *(["[::1]"] if address.version == 6 else [])]
        return tuple(dict.fromkeys([*known, socket.gethostname().lower(), *loops]))
    names = [_bracket_ipv6(there)]
    if there in ("127.0.0.1", "::1"):
        names.append("localhost")
    elif host.lower() != there:
        names.append(_bracket_ipv6(host.lower()))
    return tuple(names)


def is_reachable(listener: socket.socket) -> bool:
    """Whether others than this machine can reach it."""
    return not ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _resolve_host(host: str, port: int) -> list[Any]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise OSError(f"expected an address of this machine, got {host!r:.80}") from None
    # of a name that has both, the older kind: browsers try both, curl and proxies that one
    return sorted(found, key=lambda one: one[0] != socket.AF_INET)


def _own_addresses() -> list[str]:
    """By which others reach this machine, as far as it knows them itself."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    there = [str(one[4][0]).partition("%")[0] for one in found]
    return [one for one in there if not ipaddress.ip_address(one).is_loopback]


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host
