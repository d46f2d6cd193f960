"""A small server for tests: a model that does as it is told, a lesson, and who talks to them."""

import asyncio
import threading
from dataclasses import dataclass, field

import torch

from regard.view import Grid, Header, Map, Series, Tokens, Trace
from regard.view.export.page_files import PageFile
from regard.view.inputs import Input, Option
from regard.view.server.address import ServerAddress
from regard.view.server.available_models import AvailableModel

SECRET = "secret-of-this-launch"
BOUND = ServerAddress(8000, ("127.0.0.1", "localhost"))
BEARER = {"authorization": f"Bearer {SECRET}"}
FILES = {
    "/": PageFile(b"<!doctype html>", "text/html"),
    "/app.js": PageFile(b"1", "text/javascript"),
    "/app.css": PageFile(b"a{}", "text/css"),
    "/icon.svg": PageFile(b"<svg/>", "image/svg+xml"),
}


def seen(title: str = "") -> Trace:
    """A sentence of two pieces that look at a picture of two by three, and a series."""
    weights = torch.tensor([[[[0.5, 0.25, 0.25, 0, 0, 0], [0, 0, 0, 0, 0, 1.0]]]])
    axes = [Tokens("words", ["<script>alert(1)</script>", "b"]), Grid("image", 2, 3)]
    maps = [Map("cross", "words", "image", weights)]
    series = [Series("gate", "words", torch.tensor([0.5, 0.125]))]
    return Trace(axes, maps, series, {"text": title}, Header(title=title, model="toy"))


@dataclass
class Toy:
    """A model: `wait` goes on until it is let go, `break` breaks, `refuse` refuses."""

    bytes: int = 100
    go: threading.Event = field(default_factory=threading.Event)
    told: list = field(default_factory=list)

    def trace(self, text, options, on_progress, edits):
        self.told.append((text, options, edits))
        if text == "wait":
            step = 0
            while not self.go.wait(0.002):
                on_progress(step := step + 1, None, "so far")
        if text == "break":
            raise RuntimeError("/home/me/secret.py broke")
        if text == "refuse":
            raise ValueError("toy: expected another text")
        return seen(text)


@dataclass
class Lesson:
    """A lesson that doubles x."""

    def to_json(self):
        return {"name": "twice", "title": "Twice", "question": "How much?"}

    def answer(self, inputs):
        if inputs.get("x") == "wrong":
            raise ValueError("lesson twice: expected a number")
        return {"y": 2 * inputs["x"], "code": "y = 2 * x"}


def offer(toy: Toy, name: str = "toy") -> AvailableModel:
    """That model, for a list of models."""
    beam = Option("beam", "how many", "whole", 1, 1, 5)
    card = {"recipe": "toys", "config": {"kind": "toy"}, "numbers": {"right": 0.5}}
    asks = Input("text", "A sentence.", "a b", 7, options=(beam,))
    return AvailableModel(
        name, "a toy", card, False, asks, lambda: toy, lambda *given: f"trace{given}"
    )


def asgi(app, method="GET", path="/", headers=None, body=(), query=b"", kind="http"):
    """What an ASGI application sends when it is asked by hand, and how much of a body it took."""
    pieces, sent, taken = list(body), [], 0

    async def receive():
        nonlocal taken
        if taken >= len(pieces):
            return {"type": "http.request", "body": b"", "more_body": False}
        taken += 1
        return {"type": "http.request", "body": pieces[taken - 1], "more_body": True}

    async def send(message):
        sent.append(message)

    given = {"host": "127.0.0.1:8000"} if headers is None else headers
    pairs = given.items() if isinstance(given, dict) else given
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(k.lower().encode(), v.encode()) for k, v in pairs],
        "http_version": "1.1",
        "scheme": "http" if kind == "http" else "ws",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50000),
        "root_path": "",
        "subprotocols": [],
        "extensions": {},
    }
    asyncio.run(app(scope, receive, send))
    return sent, taken


def status(sent) -> int:
    """The status of what was sent."""
    return sent[0]["status"]


def headers(sent) -> dict[str, str]:
    """The headers of what was sent."""
    return {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}


def run() -> None:
    """This house on a real socket, in a process of its own; the address is printed."""
    from regard.cli.console import print_text
    from regard.view.server.app_state import AppState
    from regard.view.server.limits import Limits
    from regard.view.server.start import serve

    limits = Limits(upload_seconds=0.5, header_seconds=1.0)
    state = AppState(
        {"toy": offer(Toy())}, {"twice": Lesson()}, print_text, limits=limits, page_files=FILES
    )
    told = "#/t/" + state.store_trace(seen(), {})
    serve(
        state,
        fragment=told,
        on_ready=lambda link, others: print_text(f"{link()} {link()} {others}"),
        open_url=lambda address: print_text(f"browse {address}"),
    )
    print_text("ended")
