"""All that the server has: what it was handed, what it keeps, and who does its work."""

import asyncio
import gc
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.view.export.page_files import PageFile, load_page_files
from regard.view.server.available_models import AvailableModel, Lesson, LoadedModel
from regard.view.server.errors import RefusedError, error_sentence
from regard.view.server.job_queue import JobQueue
from regard.view.server.limits import Limits
from regard.view.server.lru_cache import LRUCache
from regard.view.server.render_queue import RenderQueue
from regard.view.server.stored_trace import Provenance, StoredTrace, build_stored_trace
from regard.view.traces.trace import Trace

T = TypeVar("T")


class LoadError(Exception):
    """A model could not be loaded; why is for the terminal, since it names files."""


@dataclass(eq=False)
class AppState:
    """What requests are answered from.

    Args:
        available_models: the models that can be asked, by name.
        lessons: the lessons, by name.
        report: told in a line of what no answer says.
        budget: how many bytes models and traces may take, half of it each.
        page_files: the files of the page.
        unreadable_runs: how many folders of runs could not be read, and the first of them by name.
    """

    available_models: Mapping[str, AvailableModel]
    lessons: Mapping[str, Lesson]
    report: Callable[[str], None]
    budget: int = 2**31
    limits: Limits = field(default_factory=Limits)
    page_files: Mapping[str, PageFile] = field(default_factory=load_page_files)
    unreadable_runs: Mapping[str, Any] = field(default_factory=lambda: {"count": 0, "named": []})

    def __post_init__(self) -> None:
        self.loaded_models: LRUCache[LoadedModel] = LRUCache(self.budget // 2)
        self.traces: LRUCache[StoredTrace] = LRUCache(self.budget // 2)
        bounds = self.limits
        self.jobs = JobQueue(
            bounds.waiting,
            bounds.lessons,
            job_seconds=bounds.run_seconds,
            format_error=self._error_message,
        )
        # two pool tiles; one opens what was sent, so that never two large traces are on their way
        self._read_pool = ThreadPoolExecutor(2, "regard-reader")
        self._open_pool = ThreadPoolExecutor(1, "regard-opener")
        self.render_queue = RenderQueue(bounds.render_seconds, bounds.waiting)
        self._upload_slots = asyncio.Semaphore(2)

    async def run_in_read_pool(self, work: Callable[[], T]) -> T:
        """Do something that takes a moment beside the loop, so that others are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._read_pool, work)

    async def run_in_open_pool(self, work: Callable[[], T]) -> T:
        """The same for what was sent, one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._open_pool, work)

    def upload_slot(self) -> AbstractAsyncContextManager[Any]:
        """Inside, at most one other large body is on its way."""
        return self._upload_slots

    def load_model(self, available: AvailableModel) -> LoadedModel:
        """A model, loaded now if it is not there; only the worker may ask."""
        there = self.loaded_models.get(available.name)
        if there is None:
            try:
                there = available.load()
            except Exception as error:
                raise LoadError(f"{available.name}: {type(error).__name__}: {error}") from error
            self.loaded_models.add(available.name, there, there.bytes)
        return there

    def store_trace(
        self, trace: Trace, provenance: Provenance, on_head: Callable[[], None] = lambda: None
    ) -> str:
        """Put a trace on the shelf, and give its id."""
        id = secrets.token_hex(16)
        found = build_stored_trace(
            id, trace, provenance, limits=self.limits, budget=self.traces.budget, on_head=on_head
        )
        self.traces.add(id, found, found.size_bytes)
        return id

    def make_room(self, size: int) -> None:
        """Let go, for certain, of traces that would not fit beside one of so many bytes.

        Not from the loop: it takes a moment.
        """
        self.traces.make_room(size)
        # an error that went by can hold a trace in a cycle, through the frames it came from
        gc.collect()

    def get_trace(self, id: str) -> StoredTrace:
        """The trace of this id, or a refusal."""
        there = self.traces.get(id)
        if there is None:
            raise RefusedError(404, "no trace of this id is kept here; run it again, or open it")
        return there

    def close(self) -> None:
        """Let nothing new begin, and stop what goes on."""
        self.jobs.close()
        self._read_pool.shutdown(wait=False, cancel_futures=True)
        self._open_pool.shutdown(wait=False, cancel_futures=True)
        self.render_queue.close()

    def _error_message(self, error: Exception) -> str:
        """What a page is told of an error inside a run: a sentence of ours, or where to look."""
        if isinstance(error, ValueError) and str(error):
            return error_sentence(error)
        self.report(f"{type(error).__name__}: {error}")
        did = "could not be loaded" if isinstance(error, LoadError) else "failed"
        return f"the model {did}; the terminal where regard serve runs says why"
