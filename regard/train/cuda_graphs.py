"""Work that a GPU repeats: recorded once for each form of its input, and then replayed.

Small models spend their time on the host, which tells the GPU a thousand little things a step. A
CUDA graph tells it all of them at once.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from regard.runtime import cuda_graphs

# What is done with a batch on a GPU, and the tensors that come of it.
Work = Callable[[Any], tuple[Tensor | None, ...]]


class _CapturedGraph(NamedTuple):
    graph: Any
    inputs: list[Tensor]
    outputs: tuple[Tensor | None, ...]


class GraphedCallable:
    """The work, done as told the first time that a form of batch comes, and replayed from then on.

    A form is the shapes and dtypes of a batch's tensors; its plain numbers are not looked at, so
    the work must not depend on them, nor wait for the GPU. What it makes must stay in the GPU's
    memory: weights, moments and random state are changed in place by every replay.

    Args:
        work: what is done with a batch on the GPU.
        to_device: what brings a batch there.
    """

    def __init__(self, work: Work, to_device: Callable[[Any], Any] = lambda batch: batch):
        self._work, self._to_device = work, to_device
        self._graphs: dict[Hashable, _CapturedGraph] = {}
        self._warmed_up: set[Hashable] = set()
        self._pool: Any = None

    def __call__(self, batch: Any) -> tuple[Tensor | None, ...]:
        """What the work gives for this batch."""
        given = list(iter_tensors(batch))
        form = tuple((tuple(x.shape), x.dtype) for x in given)
        if form not in self._warmed_up:
            self._warmed_up.add(form)
            return cuda_graphs.run_on_side_stream(partial(self._work, self._to_device(batch)))
        if form not in self._graphs:
            self._graphs[form] = self._capture(self._to_device(batch))
        recorded = self._graphs[form]
        for ours, theirs in zip(recorded.inputs, given, strict=True):
            # from pinned memory the GPU fetches it by itself, while the host goes on
            ours.copy_(theirs if theirs.is_cuda else theirs.pin_memory(), non_blocking=True)
        recorded.graph.replay()
        # the next replay writes over them
        return tuple(None if x is None else x.clone() for x in recorded.outputs)

    def _capture(self, batch: Any) -> _CapturedGraph:
        # one memory for all graphs: no two of them run at a time
        graph, outputs = cuda_graphs.capture_graph(partial(self._work, batch), self._pool)
        self._pool = graph.pool() if self._pool is None else self._pool
        return _CapturedGraph(graph, list(iter_tensors(batch)), outputs)


def iter_tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of a batch, in order: of a dataclass, tuple, list or dict, and inside those."""
    if isinstance(tree, Tensor):
        yield tree
        return
    inside: Any = ()
    if is_dataclass(tree):
        inside = (getattr(tree, field.name) for field in fields(tree))
    elif isinstance(tree, dict):
        inside = tree.values()
    elif isinstance(tree, list | tuple):
        inside = tree
    for part in inside:
        yield from iter_tensors(part)
