"""What a GPU is told once, and then repeats: the two things that every recording takes."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

R = TypeVar("R")


def run_on_side_stream(work: Callable[[], R]) -> R:
    """What the work gives, done on a stream of its own, as a recording does it.

    The libraries of a GPU make their plans when a shape is new, which no recording can do.
    """
    if not torch.cuda.is_available():
        return work()
    stream, now = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(now)
    with torch.cuda.stream(stream):
        made = work()
    now.wait_stream(stream)
    return made


def capture_graph(work: Callable[[], R], pool: Any = None) -> tuple[Any, R]:
    """A graph of the work on a GPU, which has not been done yet, and what it will fill.

    Args:
        pool: the memory of another graph, to be shared if no two of them run at a time.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        made = work()
    return graph, made
