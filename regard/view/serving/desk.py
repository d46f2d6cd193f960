"""All that the server has: what it was handed, what it keeps, and who does its work."""

import asyncio
import gc
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.view.serving.drawer import Drawer
from regard.view.serving.files import File, page_files
from regard.view.serving.keeping import Kept, Told, kept
from regard.view.serving.limits import Limits
from regard.view.serving.offers import Lesson, Model, Offer
from regard.view.serving.refusing import RefusedError, sentence
from regard.view.serving.runs import Line
from regard.view.serving.shelf import Shelf
from regard.view.trace import Trace

T = TypeVar("T")


class LoadError(Exception):
    """A model could not be loaded; why is for the terminal, since it names files."""


@dataclass(eq=False)
class Desk:
    """What requests are answered from.

    Args:
        offers: the models that can be asked, by name.
        lessons: the lessons, by name.
        report: told in a line of what no answer says.
        budget: how many bytes models and traces may take, half of it each.
        files: the files of the page.
        unreadable: how many folders of runs could not be read, and the first of them by name.
    """

    offers: Mapping[str, Offer]
    lessons: Mapping[str, Lesson]
    report: Callable[[str], None]
    budget: int = 2**31
    limits: Limits = field(default_factory=Limits)
    files: Mapping[str, File] = field(default_factory=page_files)
    unreadable: Mapping[str, Any] = field(default_factory=lambda: {"count": 0, "named": []})

    def __post_init__(self) -> None:
        self.models: Shelf[Model] = Shelf(self.budget // 2)
        self.traces: Shelf[Kept] = Shelf(self.budget // 2)
        bounds = self.limits
        self.line = Line(
            bounds.waiting, bounds.lessons, seconds=bounds.seconds, failed=self._failed
        )
        # two pool tiles; one opens what was sent, so that never two large traces are on their way
        self._readers = ThreadPoolExecutor(2, "regard-reader")
        self._opener = ThreadPoolExecutor(1, "regard-opener")
        self.drawer = Drawer(bounds.drawing, bounds.waiting)
        self._uploads = asyncio.Semaphore(2)

    async def read(self, work: Callable[[], T]) -> T:
        """Do something that takes a moment beside the loop, so that others are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def open(self, work: Callable[[], T]) -> T:
        """The same for what was sent, one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._opener, work)

    def uploading(self) -> AbstractAsyncContextManager[Any]:
        """Inside, at most one other large body is on its way."""
        return self._uploads

    def model(self, offer: Offer) -> Model:
        """A model, loaded now if it is not there; only the worker may ask."""
        there = self.models.get(offer.name)
        if there is None:
            try:
                there = offer.load()
            except Exception as error:
                raise LoadError(f"{offer.name}: {type(error).__name__}: {error}") from error
            self.models.put(offer.name, there, there.bytes)
        return there

    def keep(self, trace: Trace, told: Told, tell: Callable[[], None] = lambda: None) -> str:
        """Put a trace on the shelf, and give its id."""
        id = secrets.token_hex(16)
        found = kept(id, trace, told, limits=self.limits, budget=self.traces.budget, tell=tell)
        self.traces.put(id, found, found.size)
        return id

    def make_room(self, size: int) -> None:
        """Let go, for certain, of traces that would not fit beside one of so many bytes.

        Not from the loop: it takes a moment.
        """
        self.traces.make_room(size)
        # an error that went by can hold a trace in a cycle, through the frames it came from
        gc.collect()

    def found(self, id: str) -> Kept:
        """The trace of this id, or a refusal."""
        there = self.traces.get(id)
        if there is None:
            raise RefusedError(404, "no trace of this id is kept here; run it again, or open it")
        return there

    def close(self) -> None:
        """Let nothing new begin, and stop what goes on."""
        self.line.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._opener.shutdown(wait=False, cancel_futures=True)
        self.drawer.close()

    def _failed(self, error: Exception) -> str:
        """What a page is told of an error inside a run: a sentence of ours, or where to look."""
        if isinstance(error, ValueError) and str(error):
            return sentence(error)
        self.report(f"{type(error).__name__}: {error}")
        did = "could not be loaded" if isinstance(error, LoadError) else "failed"
        return f"the model {did}; the terminal where regard serve runs says why"
