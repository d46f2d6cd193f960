"""Decoding that a GPU repeats: recorded once for each form of its source, and then replayed.

A step of a small model is a hundred little things that the host tells the GPU one by one; a CUDA
graph tells it all of them at once.
"""

import inspect
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from regard.decode import states, steps
from regard.decode.steps import LoopFactory, StepModel
from regard.kernels.guards import has_function_mode
from regard.runtime.cuda_graphs import capture_graph, run_on_side_stream

# A recording takes as long as some steps do without it.
CAPTURE_MIN_STEPS = 8
# How many forms of source are remembered; each keeps a state on the GPU.
MAX_GRAPHS = 16
# Sizes go up by this much, so that limits which are nearly alike share a recording.
GRAPH_STEPS_MULTIPLE = 16


class CudaGraphCache:
    """The model, with what a GPU was told to decode remembered for as long as this is kept.

    `greedy` and `beam` take it in place of the model and give the same. They record by themselves
    where the model's `start` takes a `size` and its source lies on a GPU, once a call; with this,
    sources of the same form share a recording. While a look is open nothing is recorded.
    """

    def __init__(self, model: StepModel):
        self.model = model
        self._graphs: dict[Hashable, _DecodeGraph] = {}
        self._memory_pool: Any = None

    def start(self, source: Any, **size: int) -> Any:
        """The state before the first token, as the model's own."""
        return self.model.start(source, **size)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits and the state after `tokens`, as the model's own."""
        return self.model.step(tokens, state)

    def run_loop(
        self, where: str, key: Hashable, make_loop: LoopFactory, inputs: Any, max_steps: int
    ) -> Any:
        """What `steps.run_loop` gives, in memory that the next run writes over.

        Args:
            key: all that `begin` depends on beside its inputs.
        """
        form = (where, key, states.tree_spec(inputs), self._capture_conditions())
        recording = self._graphs.pop(form, None)
        if recording is None:
            recording = _DecodeGraph(make_loop, states.clone_tree(inputs), self._memory_pool)
            self._memory_pool = recording.pool
        self._graphs[form] = recording
        if len(self._graphs) > MAX_GRAPHS:
            self._graphs.pop(next(iter(self._graphs)))
        return recording.replay(where, inputs, max_steps)

    def _capture_conditions(self) -> Hashable:
        """What a recording took for granted: where the weights lie, and how they are computed."""
        casts = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")
        if not isinstance(self.model, nn.Module):
            return casts
        weights = chain(self.model.parameters(), self.model.buffers())
        return casts, self.model.training, tuple(x.data_ptr() for x in weights)


class _DecodeGraph:
    """The first state and the step from one to the next, for inputs of one form."""

    def __init__(self, make_loop: LoopFactory, inputs: Any, pool: Any):
        self._inputs = inputs
        with _without_autocast_cache():
            run_on_side_stream(lambda: _check_fixed_shapes(make_loop, inputs))
            self._start_graph, (loop, advance) = capture_graph(
                lambda: _make_loop_in_own_memory(make_loop, inputs), pool
            )
            self.pool = self._start_graph.pool() if pool is None else pool
            self._step_graph, _ = capture_graph(
                lambda: states.copy_into(loop, advance(loop)), self.pool
            )
        self._loop = loop

    def replay(self, where: str, inputs: Any, max_steps: int) -> Any:
        states.copy_into(self._inputs, inputs)
        self._start_graph.replay()
        for step in range(1, max_steps + 1):
            self._step_graph.replay()
            # in the last step nobody waits for the answer
            if (
                step % steps.POLL_EVERY_STEPS == 0
                and step < max_steps
                and bool(self._loop.is_done.all())
            ):
                break
        steps.is_loop_done(where, self._loop)
        return self._loop


def graph_cache_for(model: StepModel, source: Any, max_steps: int) -> CudaGraphCache | None:
    """What records the decoding of this source, or None if it is to be done step by step.

    A replay would show nothing to someone who follows each operation, such as a look.
    """
    recorder = model if isinstance(model, CudaGraphCache) else CudaGraphCache(model)
    if (
        (recorder is not model and max_steps < CAPTURE_MIN_STEPS)
        or not can_capture(source)
        or has_function_mode()
    ):
        return None
    return recorder if "size" in inspect.signature(recorder.model.start).parameters else None


def round_up_steps(max_steps: int) -> int:
    """The room that a recording has for `max_steps` tokens."""
    return -(-max_steps // GRAPH_STEPS_MULTIPLE) * GRAPH_STEPS_MULTIPLE


def can_capture(source: Any) -> bool:
    """Whether a source lies on a GPU that may record."""
    found = [x for _, x in states.leaves(source) if isinstance(x, Tensor)]
    return bool(found) and all(x.is_cuda for x in found) and not _is_capturing()


def _is_capturing() -> bool:
    return torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing()


def _make_loop_in_own_memory(
    make_loop: LoopFactory, inputs: Any
) -> tuple[Any, Callable[[Any], Any]]:
    loop, advance = make_loop(inputs)
    return states.with_own_memory(loop, inputs), advance


def _check_fixed_shapes(make_loop: LoopFactory, inputs: Any) -> None:
    """Go the first steps, and refuse a loop that does not keep its form."""
    loop, advance = make_loop(inputs)
    after = advance(advance(loop))
    for (name, *was), (_, *now) in zip(
        states.tree_spec(loop), states.tree_spec(after), strict=True
    ):
        if was != now:
            raise ValueError(
                f"decode: expected a state that keeps its form where start is given a size, got "
                f"{name} of {now} after {was}"
            )


@contextmanager
def _without_autocast_cache() -> Iterator[None]:
    """Inside, autocast keeps no weights it has cast: they would be gone when they are replayed."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
