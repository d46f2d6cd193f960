"""Chromium for the tests that look at the page as a person would, and what it must never do.

`from tests.browser import chromium, opened`: the first is a fixture, the second opens a page.
"""

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "apt install chromium, or put a Chrome onto the PATH"


def found() -> str | None:
    """Where the system's Chromium is."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The system's Chromium; where there is none, the test is skipped and says how to get it."""
    pytest.importorskip(
        "playwright.sync_api", reason="the page was not tested: pip install 'regard[dev]'"
    )
    if found() is None:
        pytest.skip(f"the page was not tested: there is no Chromium. {HOW}")
    with launched() as browser:
        yield browser


@contextmanager
def launched() -> Iterator[Any]:
    """The system's Chromium, at work."""
    from playwright.sync_api import sync_playwright

    # a sandbox needs a user; whoever is root in a container has none
    alone = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=found(), args=alone)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Any,
    address: str,
    *,
    offline: bool = False,
    origin: str = "",
    secret: str = "",
    refused: int | None = None,
    **context: Any,
) -> Iterator[Any]:
    """A page at an address, which may not complain, nor ask anything of another origin.

    Args:
        offline: whether the network is off.
        origin: what every request must begin with; without it, only the page itself is asked for.
        secret: what a link was exchanged for, as a tab keeps it.
        refused: the status with which the server refuses what the test asks for; browsers say it.
        context: what playwright's `new_context` takes, such as `viewport` or `color_scheme`.
    """
    inside = browser.new_context(offline=offline, **context)
    let_in(inside, secret)
    try:
        page = inside.new_page()
        trouble: list[str] = []
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("console", lambda said: trouble.extend(_bad(said, refused)))
        page.on("requestfailed", lambda asked: trouble.extend(_failed(asked)))
        page.on("request", lambda asked: trouble.extend(_elsewhere(asked.url, address, origin)))
        page.goto(address)
        yield page
        assert not trouble, trouble
    finally:
        inside.close()


def entered(link: str) -> tuple[str, str]:
    """The origin of a link, and the secret that it is exchanged for, once."""
    origin, _, token = link.partition("/#token=")
    body = json.dumps({"token": token.partition("/")[0]}).encode()
    with urllib.request.urlopen(f"{origin}/api/session", body, timeout=20) as answer:
        return origin, json.load(answer)["session"]


def let_in(context: Any, secret: str) -> None:
    """Let a browser's tabs begin as one that a link has let in."""
    if secret:
        script = f"sessionStorage.setItem('regard-session', {json.dumps(secret)})"
        context.add_init_script(f"if (location.protocol === 'http:') {script}")


def _bad(said: Any, refused: int | None) -> list[str]:
    # that canvases are read back again and again is our doing, not the page's
    expected = "willReadFrequently" in said.text or f"with a status of {refused} " in said.text
    return [said.text] if said.type in ("error", "warning") and not expected else []


def _failed(asked: Any) -> list[str]:
    # what the page gave up by itself, or what became a download, has not failed
    given_up = "ERR_ABORTED" in (asked.failure or "")
    return [] if given_up else [f"failed: {asked.url:.200} ({asked.failure})"]


def _elsewhere(url: str, address: str, origin: str) -> list[str]:
    ours = url.startswith(("blob:", "data:")) or url.partition("#")[0] == address.partition("#")[0]
    return [] if ours or (origin and url.startswith(origin)) else [f"asked for {url:.200}"]
