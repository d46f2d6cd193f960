"""Hypotheses that begin as they are told to: while a prefix lasts, no other token may be taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import check
from regard.decode import states
from regard.decode.steps import StepModel


class PrefixState(NamedTuple):
    """What the model carries, and what has to come first."""

    state: Any
    prefix: Tensor  # (B, P): −1 behind the last token of a row
    step_count: int


@dataclass(frozen=True, eq=False)
class ForcedPrefix:
    """The model, each of whose sources has tokens that its hypotheses begin with.

    `greedy`, `sample` and `beam` take it in place of the model. What is given costs nothing: its
    log-probability is 0. Behind it, all is as the model has it.

    Args:
        prefixes: the tokens of each source, or none; the token that ends is not among them.
    """

    model: StepModel
    prefixes: Sequence[Sequence[int]]

    def start(self, source: Any) -> PrefixState:
        """The state before the first token."""
        state = self.model.start(source)
        B, device = states.batch_size_and_device("ForcedPrefix", state)
        if len(self.prefixes) != B:
            raise ValueError(
                f"ForcedPrefix: expected a prefix for each of {B} sources, got {len(self.prefixes)}"
            )
        P = max(map(len, self.prefixes), default=0)
        rows = [[*prefix, *[-1] * (P - len(prefix))] for prefix in self.prefixes]
        prefix = torch.tensor(rows, dtype=torch.int64, device=device).view(B, P)
        return PrefixState(state, prefix, 0)

    def step(self, tokens: Tensor, before: PrefixState) -> tuple[Tensor, PrefixState]:
        """The model's logits, and while the prefix lasts −inf for all but its next token."""
        logits, state = self.model.step(tokens, before.state)
        after = PrefixState(state, before.prefix, before.step_count + 1)
        if before.step_count >= before.prefix.shape[1]:
            return logits, after
        given = before.prefix[:, before.step_count]
        _check_prefix_tokens(logits, given, before.step_count)
        at = given.clamp_min(0)[:, None]
        only = torch.full_like(logits, -torch.inf).scatter(1, at, logits.gather(1, at))
        return torch.where((given >= 0)[:, None], only, logits), after


def _check_prefix_tokens(logits: Tensor, prefix_tokens: Tensor, position: int) -> None:
    """Refuse a token that is none, or that no row may take."""
    if not check.can_read_values(prefix_tokens):
        return
    V, forced = logits.shape[1], prefix_tokens[prefix_tokens >= 0]
    if int(prefix_tokens.max()) >= V:
        raise ValueError(
            f"ForcedPrefix: expected tokens below V = {V}, got {int(prefix_tokens.max())}"
        )
    wanted = logits[prefix_tokens >= 0].gather(1, forced[:, None])
    # of several beams, only those count that are still on their way
    if len(forced) and bool(wanted.isneginf().all()):
        raise ValueError(f"ForcedPrefix: token {int(forced[0])} cannot stand at place {position}")
