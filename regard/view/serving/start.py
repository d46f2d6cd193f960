"""The server on its socket: listens, says where, opens the browser, and ends at Ctrl-C."""

import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from regard.view.serving.app import application
from regard.view.serving.bound import Bound, named, opened, reachable
from regard.view.serving.desk import Desk


def refuse_missing() -> None:
    """Say at once what is missing for a server."""
    try:
        for name in ("PIL.Image", "starlette", "uvicorn"):
            import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError("serving needs the web: pip install 'regard[web]'") from None


def in_browser(address: str) -> None:
    """Open an address in the user's browser, if there is one with windows."""
    with suppress(webbrowser.Error):
        found = webbrowser.get()
        # one that draws in the terminal would take it from us
        if type(found) is not webbrowser.GenericBrowser:
            found.open(address)


def serve(
    desk: Desk,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    place: str = "",
    ready: Callable[[str, bool], None],
    browse: Callable[[str], Any] | None = None,
) -> None:
    """Answer requests until Ctrl-C.

    Args:
        port: 0 takes a free one.
        place: where on the page to begin, as `#/t/…`.
        ready: told the address, and whether others than this machine can reach it.
        browse: opens the address, if given; `in_browser` does.
    """
    try:
        refuse_missing()
        with opened(host, port) as listening:
            bound = Bound(listening.getsockname()[1], named(listening, host))
            address = bound.address(place)
            ready(address, reachable(listening))
            # the socket listens already: what comes before the loop waits in line
            if browse is not None:
                threading.Thread(target=browse, args=[address], daemon=True).start()
            _run(desk, bound, listening)
    finally:
        desk.close()


def _run(desk: Desk, bound: Bound, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        application(desk, bound),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
