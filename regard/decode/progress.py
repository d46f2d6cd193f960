"""Decoding that is heard while it goes on: what was said so far, and what could come next."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decode import states
from regard.decode.steps import StepModel

# Told the tokens of the first row so far and the logits (V,) of what follows them.
OnStep = Callable[[list[int], Tensor], None]


class StepState(NamedTuple):
    """What the model carries, and what each row has said."""

    state: Any
    tokens: Tensor  # (B, T): what it began with, and each token since


@dataclass(frozen=True, eq=False)
class ProgressReporter:
    """The model, each of whose steps is heard; what `on_step` raises ends the decoding at once.

    `greedy`, `sample` and `beam` take it in place of the model and give the same. Of several beams
    the best that is still on its way is heard, so that what it said may change from step to step.
    """

    model: StepModel
    on_step: OnStep

    def start(self, source: Any) -> StepState:
        """The state before the first token."""
        state = self.model.start(source)
        B, device = states.batch_size_and_device("ProgressReporter", state)
        return StepState(state, torch.zeros(B, 0, dtype=torch.int64, device=device))

    def step(self, tokens: Tensor, before: StepState) -> tuple[Tensor, StepState]:
        """The model's own logits and state."""
        logits, state = self.model.step(tokens, before.state)
        said = torch.cat([before.tokens, tokens[:, None]], 1)
        # the first token of all is what it was begun with
        self.on_step(said[0, 1:].tolist(), logits[0])
        return logits, StepState(state, said)
