"""Models that are tables of logits, small enough to search through from end to end."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

BEGIN, END, STEPS = 1, 0, 12


class State(NamedTuple):
    """The token before the last (B,), the table (B, T, V, V, V), which never changes, the step."""

    before: Tensor
    table: Tensor
    at: int = 0


class Trigrams:
    """The next token depends on the last two and on the step; each source is a table of its own."""

    def start(self, source: Tensor) -> State:
        return State(torch.full((len(source),), BEGIN, device=source.device), source)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        rows = torch.arange(len(tokens), device=tokens.device)
        logits = state.table[rows, state.at, state.before, tokens]
        return logits, State(tokens, state.table, state.at + 1)


def tables(sources: int, size: int, seed: int = 0) -> Tensor:
    """One table of logits (T, V, V, V) a source, in float64 so that no two scores are too near."""
    shape = sources, STEPS, size, size, size
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def bigrams(*rows: list[float]) -> Tensor:
    """A table (1, T, V, V, V) of log-probabilities, from those of what follows a token."""
    V = len(rows)
    return torch.tensor(rows).double().log().expand(1, STEPS, V, V, V).clone()


def log_probability(table: Tensor, tokens: tuple[int, ...]) -> float:
    """The sum over the tokens, one after the other."""
    told = [BEGIN, BEGIN, *tokens]
    places = zip(range(STEPS), told, told[1:], told[2:], strict=False)
    return sum(float(table[t, a, b].log_softmax(-1)[c]) for t, a, b, c in places)


def hypotheses(size: int, longest: int) -> Iterator[tuple[int, ...]]:
    """All that can be said: what ends in END, and what is cut at the longest length."""
    running: list[tuple[int, ...]] = [()]
    for _ in range(longest):
        grown = [(*tokens, token) for tokens in running for token in range(size)]
        yield from (tokens for tokens in grown if tokens[-1] == END)
        running = [tokens for tokens in grown if tokens[-1] != END]
    yield from running


def exhaustive(table: Tensor, longest: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """All hypotheses with their scores, best first."""
    found = hypotheses(table.shape[1], longest)
    ranked = [(log_probability(table, x) / ((5 + len(x)) / 6) ** alpha, x) for x in found]
    return sorted(ranked, reverse=True)


def plain_beam(
    table: Tensor, longest: int, width: int, alpha: float
) -> list[tuple[float, tuple[int, ...]]]:
    """Beam search written down for one source, with lists, and run to the end."""
    table, running, finished = table.log_softmax(-1), [(0.0, ())], []
    for length in range(1, longest + 1):
        grown = [
            (total + float(gain), (*tokens, token))
            for total, tokens in running
            for token, gain in enumerate(table[length - 1][(BEGIN, BEGIN, *tokens)[-2:]])
        ]
        grown = sorted(grown, reverse=True)
        ended = [(s, x) for s, x in grown[:width] if x[-1] == END]
        running = [(s, x) for s, x in grown if x[-1] != END][:width]
        new = ended + (running if length == longest else [])
        finished += [(s / ((5 + length) / 6) ** alpha, x) for s, x in new]
    return sorted(finished, reverse=True)
