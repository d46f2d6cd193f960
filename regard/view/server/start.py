"""The server on its socket: listens, says where, opens the browser, and ends at Ctrl-C."""

import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from regard.view.server.access import LINK_SECONDS, Access
from regard.view.server.address import ServerAddress, host_names_of, is_reachable, open_socket
from regard.view.server.app import build_app
from regard.view.server.app_state import AppState
from regard.view.server.connections import Connections, bounded_protocol, max_connections
from regard.view.server.redirect import RedirectFile


def check_web_installed() -> None:
    """Say at once what is missing for a server."""
    try:
        for name in ("PIL.Image", "starlette", "uvicorn"):
            import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError("serving needs the web: pip install 'regard[web]'") from None


def open_in_browser(address: str) -> None:
    """Open an address in the user's browser, if there is one with windows."""
    with suppress(webbrowser.Error):
        found = webbrowser.get()
        # one that draws in the terminal would take it from us
        if type(found) is not webbrowser.GenericBrowser:
            found.open(address)


def serve(
    state: AppState,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    fragment: str = "",
    on_ready: Callable[[Callable[[], str], bool], None],
    open_url: Callable[[str], Any] | None = None,
) -> None:
    """Answer requests until Ctrl-C.

    Args:
        port: 0 takes a free one.
        fragment: where on the page to begin, as `#/t/…`.
        on_ready: told what makes a new link, each for one use, and whether others than this machine
            can reach it.
        open_url: opens the address of a file that leads to the page, if given; `in_browser` does.
    """
    try:
        check_web_installed()
        with open_socket(host, port) as listening, _sigterm_as_interrupt():
            bound = ServerAddress(listening.getsockname()[1], host_names_of(listening, host))
            access = Access()

            def new_link(on_exchange: Callable[[], object] = lambda: None) -> str:
                return bound.page_url(access.link_token(on_exchange), fragment)

            on_ready(new_link, is_reachable(listening))
            # the socket listens already: what comes before the loop waits in line
            with _open_page(open_url, new_link):
                _run_server(state, bound, access, listening)
    finally:
        state.close()


@contextmanager
def _open_page(
    open_url: Callable[[str], Any] | None, new_link: Callable[[Callable[[], object]], str]
) -> Iterator[None]:
    """Open the page through a file, which is gone once it was used, in some minutes or at last."""
    if open_url is None:
        yield
        return
    file = RedirectFile()
    try:
        address = file.write_redirect(new_link(file.remove))
        late = threading.Timer(LINK_SECONDS, file.remove)
        late.daemon = True
        late.start()
        threading.Thread(target=open_url, args=[address], daemon=True).start()
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


def _run_server(
    state: AppState, address: ServerAddress, access: Access, listener: socket.socket
) -> None:
    import uvicorn

    connections = Connections(max_connections(), state.limits.header_seconds)
    config = uvicorn.Config(
        build_app(state, address, access),
        http=bounded_protocol(connections),
        # so many are accepted at a time, each before it is counted
        backlog=max(8, connections.max_count // 4),
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
        uvicorn.Server(config).run(sockets=[listener])
