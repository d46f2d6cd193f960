"""Beam search that stops early only when it can prove that nothing better is to come."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import check
from regard.decode import states, steps
from regard.decode.decoded import Decoded
from regard.decode.steps import Steps


@torch.no_grad()
def beam(
    model: Steps,
    source: Any,
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
    width: int = 5,
    length_penalty: check.Number = 0.0,
    best: int = 1,
) -> Decoded:
    """The `best` hypotheses a source that a search with `width` beams finds.

    A hypothesis is finished when its `end` is among the `width` best candidates of a step; `width`
    others run on. A source is done when none of them can enter its `best` any more, so the answer
    is that of running to `longest`, where those that still run count as finished.

    Args:
        width: how many hypotheses of a source run at a time.
        length_penalty: α of Wu et al. 2016, equation 14: hypotheses are ranked by
            log p / ((5 + length) / 6)^α. 0 ranks by log p; above 0 favours the longer ones.
        best: how many finished hypotheses to return, at most `width`.

    The other arguments are those of `greedy`.
    """
    if not 1 <= best <= width:
        raise ValueError(f"beam: expected best from 1 to width = {width}, got {best}")
    # beyond, the penalties of long sentences leave what float32 can hold
    if not -10 <= length_penalty <= 10:
        raise ValueError(f"beam: expected length_penalty from -10 to 10, got {length_penalty}")
    state = model.start(source)
    B, device = states.batch("beam", state)
    limits = steps.limits("beam", longest, B, device)
    cuts = set(limits.tolist())
    penalties = [((5 + n) / 6) ** length_penalty for n in range(1, max(cuts) + 1)]
    state, fresh = states.spread(state, width)
    tokens = torch.full((B, width), begin, device=device)
    # The beams of a source start alike, so only one of them counts.
    running = torch.full((B, width), -torch.inf, device=device)
    running[:, :1] = 0
    pool, settled = _Pool.empty(B, best, end, device), torch.zeros(B, device=device).bool()
    history = []
    for length, penalty in enumerate(penalties, start=1):
        logits, state = model.step(tokens.flatten(), state)
        ended, going = _grown(running, steps.checked("beam", logits, B * width, end), end)
        pool = pool.joined(ended, settled, length, penalty)
        if length in cuts:
            pool = pool.joined(going, settled | (limits != length), length, penalty)
        running, parents, tokens = going
        history.append((parents, tokens))
        # penalties rise or fall with the length: the largest to come is the last or the next
        following = penalties[min(length, len(penalties) - 1)]
        ahead = running.new_tensor(penalties)[limits - 1].clamp(min=following)
        done = settled | (limits <= length) | ~_may_enter(pool, running, ahead)
        lost = running.isnan().any(1) | (done & pool.scores[:, 0].isneginf())
        if steps.over("beam", done, lost & ~settled, length):
            break
        settled, state = done, states.moved("beam", state, parents, fresh)
    return _traced(pool, *map(torch.stack, zip(*history, strict=True)), end=end)


class _Grown(NamedTuple):
    """Beams made one token longer, best first, each (B, W); −inf in `totals` is no beam at all."""

    totals: Tensor
    slots: Tensor
    tokens: Tensor


def _grown(running: Tensor, logits: Tensor, end: int) -> tuple[_Grown, _Grown]:
    """The beams that end here and those that go on, by log p so far (B, W) and logits (B·W, V)."""
    B, W = running.shape
    # The best 2 W tokens of each beam hold the best 2 W of all, and are soon added up.
    best, tokens = logits.topk(min(2 * W, logits.shape[1]))
    gains = logits.log_softmax(-1).gather(1, tokens)
    # A row that forbids every token has no softmax; the row of no beam has no say, were it NaN.
    gains = gains.masked_fill(best.isneginf(), -torch.inf).view(B, W, -1)
    totals = (running[..., None] + gains).masked_fill(running.isneginf()[..., None], -torch.inf)
    # A beam has one token to end with, so at most W of 2 W candidates end, and W can go on.
    totals, places = totals.flatten(1).topk(min(2 * W, W * gains.shape[2]))
    slots, tokens = places // gains.shape[2], tokens.view(B, -1).gather(1, places)
    ends = tokens == end
    ended = _Grown(totals.masked_fill(~ends, -torch.inf)[:, :W], slots[:, :W], tokens[:, :W])
    onward = ends.byte().sort(dim=1, stable=True).indices[:, :W]
    going = (totals.masked_fill(ends, -torch.inf), slots, tokens)
    return ended, _Grown(*(x.gather(1, onward) for x in going))


class _Pool(NamedTuple):
    """The N best finished hypotheses of each source, best first, each (B, N)."""

    scores: Tensor
    totals: Tensor
    lengths: Tensor
    slots: Tensor
    tokens: Tensor

    @classmethod
    def empty(cls, B: int, N: int, end: int, device: torch.device) -> "_Pool":
        """No hypothesis yet: scores of −inf."""
        none = torch.full((B, N), -torch.inf, device=device)
        zeros = torch.zeros((B, N), dtype=torch.int64, device=device)
        return cls(none, none, zeros, zeros, zeros + end)

    def joined(self, more: _Grown, settled: Tensor, length: int, penalty: float) -> "_Pool":
        """The best of these and of `more`, in rows that are not settled."""
        scores = (more.totals / penalty).masked_fill(settled[:, None], -torch.inf)
        lengths = torch.full_like(more.slots, length)
        new = (scores, more.totals, lengths, more.slots, more.tokens)
        both = [torch.cat(pair, dim=1) for pair in zip(self, new, strict=True)]
        # Stable: of equals the one found first stays, as it does when the search stops early.
        order = both[0].sort(dim=1, descending=True, stable=True).indices
        return _Pool(*(x.gather(1, order[:, : self.scores.shape[1]]) for x in both))


def _may_enter(pool: _Pool, running: Tensor, largest: Tensor) -> Tensor:
    """Whether a running beam can still enter a pool (B,), with the largest penalties to come (B,).

    A beam of log p that ends later has log p' / penalty with log p' <= log p <= 0. The largest
    penalty to come bounds that from above, whatever the sign of α: log p / largest. Rounding
    keeps the order of sums and quotients, so the bound holds for the numbers computed, too.
    """
    return running.amax(1) / largest > pool.scores[:, -1]


def _traced(pool: _Pool, parents: Tensor, tokens: Tensor, *, end: int) -> Decoded:
    """The hypotheses of a pool, walked back from their last tokens to their first."""
    T, B, W = parents.shape
    slots, words, rows = pool.slots, [], []
    for t in reversed(range(T)):
        before = t < pool.lengths - 1
        last = pool.tokens.masked_fill(t >= pool.lengths, end)
        words.append(torch.where(before, tokens[t].gather(1, slots), last))
        slots = torch.where(before, parents[t].gather(1, slots), slots)
        rows.append(slots)
    first = torch.arange(B, device=parents.device)[:, None, None] * W
    return Decoded(
        tokens=torch.stack(words[::-1], dim=2),
        lengths=pool.lengths,
        finished=(pool.tokens == end) & (pool.lengths > 0),
        scores=pool.scores,
        log_probabilities=pool.totals,
        parents=parents,
        rows=torch.stack(rows[::-1], dim=2) + first,
    )
