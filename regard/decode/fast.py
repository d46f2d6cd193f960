"""The fastest decoder of what is decoded, also inside the wrappers of this package."""

from dataclasses import replace
from typing import Any

from regard.decode.cuda_graph_cache import CudaGraphCache
from regard.decode.prefix import ForcedPrefix
from regard.decode.progress import ProgressReporter
from regard.decode.steps import StepModel
from regard.fast_decode import fast_decoder


def decoder_of(model: StepModel, *, static: bool) -> StepModel:
    """An object with `start` and `step` that decodes as `model` does.

    Args:
        model: a model, or a wrapper of this package around one.
        static: True if `start` is given a `size`, so that no shape changes from step to step.
    """
    if isinstance(model, CudaGraphCache):
        return decoder_of(model.model, static=static)
    if isinstance(model, ForcedPrefix | ProgressReporter):
        return replace(model, model=decoder_of(model.model, static=static))
    found: Any = fast_decoder(model, static=static)
    return found
