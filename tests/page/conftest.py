"""A server of its own for the tests of the page, as a person starts it, and what Python says."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from regard.cli import resolve
from tests.browser import HOW, chromium, entered, found, opened

__all__ = ["chromium"]
ROOT = Path(__file__).parent.parent.parent


class Served:
    """A server, and the pages of it."""

    def __init__(self, link: str):
        self.origin, self.secret = entered(link)

    def open(self, browser, screen="", *, ask=None, **context):
        """A screen of the page, in a window of its own that may not complain."""
        query = f"?{urlencode(ask, quote_via=quote)}" if ask else ""
        context = {"viewport": {"width": 1280, "height": 800}} | context
        address = f"{self.origin}/#/{screen}{query}"
        return opened(browser, address, origin=self.origin, secret=self.secret, **context)


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """`regard serve`, in a folder without runs."""
    if found() is None:
        pytest.skip(f"the page was not tested: there is no Chromium. {HOW}")
    command = [sys.executable, "-m", "regard", "serve", "--no-browser"]
    here = tmp_path_factory.mktemp("served")
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=here,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    yield Served(next(line.strip() for line in process.stdout if line.startswith("http")))
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def said():
    """What the library itself answers: a trace of a model, asked as the page asks."""
    held = {}

    def trace(name, text=None, **options):
        loaded, module = held.setdefault(name, resolve.load_model(name))
        asks = module.input_spec(loaded.card)
        usual = {each.name: each.default for each in asks.options if each.default != ""}
        given = module.parse_input(loaded.card, text or asks.example)
        return module.trace(loaded, given, **usual | options)

    trace.model = lambda name: held.setdefault(name, resolve.load_model(name))[0].model
    return trace
