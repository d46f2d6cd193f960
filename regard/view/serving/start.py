"""The server on its socket: listens, says where, opens the browser, and ends at Ctrl-C."""

import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from regard.view.serving.access import LINK_SECONDS, Access
from regard.view.serving.app import application
from regard.view.serving.bound import Bound, named, opened, reachable
from regard.view.serving.connections import Connections, max_connections, protocol
from regard.view.serving.desk import Desk
from regard.view.serving.redirect import RedirectFile


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
    ready: Callable[[Callable[[], str], bool], None],
    browse: Callable[[str], Any] | None = None,
) -> None:
    """Answer requests until Ctrl-C.

    Args:
        port: 0 takes a free one.
        place: where on the page to begin, as `#/t/…`.
        ready: told what makes a new link, each for one use, and whether others than this machine
            can reach it.
        browse: opens the address of a file that leads to the page, if given; `in_browser` does.
    """
    try:
        refuse_missing()
        with opened(host, port) as listening, _sigterm_as_interrupt():
            bound = Bound(listening.getsockname()[1], named(listening, host))
            access = Access()

            def link(used: Callable[[], object] = lambda: None) -> str:
                return bound.address(access.link_token(used), place)

            ready(link, reachable(listening))
            # the socket listens already: what comes before the loop waits in line
            with _open_page(browse, link):
                _run(desk, bound, access, listening)
    finally:
        desk.close()


@contextmanager
def _open_page(
    browse: Callable[[str], Any] | None, link: Callable[[Callable[[], object]], str]
) -> Iterator[None]:
    """Open the page through a file, which is gone once it was used, in some minutes or at last."""
    if browse is None:
        yield
        return
    file = RedirectFile()
    try:
        address = file.write(link(file.remove))
        late = threading.Timer(LINK_SECONDS, file.remove)
        late.daemon = True
        late.start()
        threading.Thread(target=browse, args=[address], daemon=True).start()
        yield
    finally:
        file.remove()


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Inside, SIGTERM is a KeyboardInterrupt, so that everything is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(desk: Desk, bound: Bound, access: Access, listening: socket.socket) -> None:
    import uvicorn

    connections = Connections(max_connections(), desk.limits.headers)
    config = uvicorn.Config(
        application(desk, bound, access),
        http=protocol(connections),
        # so many are accepted at a time, each before it is counted
        backlog=max(8, connections.most // 4),
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
