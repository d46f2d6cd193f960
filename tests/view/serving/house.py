"""A small server for tests: a model that does as it is told, a lesson, and who talks to them."""

import asyncio
import threading
from dataclasses import dataclass, field

import torch

from regard.view import Grid, Header, Map, Series, Tokens, Trace
from regard.view.inputs import Input, Option
from regard.view.serving.bound import Bound
from regard.view.serving.files import File
from regard.view.serving.offers import Offer

SECRET = "secret-of-this-launch"
BOUND = Bound(8000, ("127.0.0.1", "localhost"))
BEARER = {"authorization": f"Bearer {SECRET}"}
FILES = {
    "/": File(b"<!doctype html>", "text/html"),
    "/app.js": File(b"1", "text/javascript"),
    "/app.css": File(b"a{}", "text/css"),
    "/icon.svg": File(b"<svg/>", "image/svg+xml"),
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

    def trace(self, text, options, tell, edits):
        self.told.append((text, options, edits))
        if text == "wait":
            step = 0
            while not self.go.wait(0.002):
                tell(step := step + 1, None, "so far")
        if text == "break":
            raise RuntimeError("/home/me/secret.py broke")
        if text == "refuse":
            raise ValueError("toy: expected another text")
        return seen(text)


@dataclass
class Lesson:
    """A lesson that doubles x."""

    def told(self):
        return {"name": "twice", "title": "Twice", "question": "How much?"}

    def run(self, given):
        if given.get("x") == "wrong":
            raise ValueError("lesson twice: expected a number")
        return {"y": 2 * given["x"], "code": "y = 2 * x"}


def offer(toy: Toy, name: str = "toy") -> Offer:
    """That model, for a list of models."""
    beam = Option("beam", "how many", "whole", 1, 1, 5)
    card = {"recipe": "toys", "config": {"kind": "toy"}, "numbers": {"right": 0.5}}
    asks = Input("text", "A sentence.", "a b", 7, options=(beam,))
    return Offer(name, "a toy", card, False, asks, lambda: toy, lambda *given: f"trace{given}")


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
    from regard.terminal import say
    from regard.view.serving.desk import Desk
    from regard.view.serving.limits import Limits
    from regard.view.serving.start import serve

    limits = Limits(upload=0.5, headers=1.0)
    desk = Desk({"toy": offer(Toy())}, {"twice": Lesson()}, say, limits=limits, files=FILES)
    told = "#/t/" + desk.keep(seen(), {})
    serve(
        desk,
        place=told,
        ready=lambda link, others: say(f"{link()} {link()} {others}"),
        browse=lambda address: say(f"browse {address}"),
    )
    say("ended")
