"""Beam search that stops early only when it can prove that nothing better is to come."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import check
from regard.decode import likeliest, recorded, states, steps
from regard.decode.decoded import Decoded
from regard.decode.steps import Steps
from regard.kernels import one_query
from regard.looking import keep_batch_rows, watched

# Wider beams have more candidates than one program should sort.
WIDEST = 16


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
    most = steps.most("beam", longest)
    recorder = recorded.of(model, source, most)
    room = {} if recorder is None else {"size": recorded.rounded(most)}
    size = room.get("size", most)

    def begun(inputs: Any) -> tuple[_Search, Callable[[_Search], _Search]]:
        state = model.start(inputs[0], **room)
        B, device = states.batch("beam", state)
        tokens = torch.full((B, width), begin, device=device)
        search, fresh = _begun(state, tokens, best, end, size, *inputs[1:])
        return search, partial(_advanced, model, end, fresh)

    penalties = ((5 + torch.arange(1, size + 1, dtype=torch.float64)) / 6) ** length_penalty
    if recorder is None:
        # `along` follows the beams of a look, by `Decoded.rows`
        with keep_batch_rows() if watched() else nullcontext():
            search = steps.run("beam", begun, (source, longest, penalties), most)
    else:
        inputs = (source, *(steps.beside(source, x) for x in (longest, penalties)))
        how = (begin, end, size, width, best)
        search = recorder.run("beam", how, begun, inputs, most)
    parents, tokens = search.history[:, : int(search.made.max())].clone()
    return _traced(_Pool(*map(torch.clone, search.pool)), parents, tokens, end=end)


class _Search(NamedTuple):
    """W beams of each source on their way."""

    state: Any
    tokens: Tensor  # (B, W): the last of each
    running: Tensor  # (B, W): log p
    pool: "_Pool"
    done: Tensor  # (B,): whether no beam can enter the pool any more
    made: Tensor  # (B,): how many steps were made until then
    lost: Tensor  # (T,): at which steps a source had no token to take
    step: Tensor  # (1,)
    history: Tensor  # (2, T, B, W): parents and tokens of each step
    limits: Tensor  # (B,)
    penalties: Tensor  # (T,): for each length, from 1 on


def _begun(
    state: Any, tokens: Tensor, best: int, end: int, size: int, limits: Any, penalties: Tensor
) -> tuple[_Search, states.Fresh]:
    """The beams before their first step, and what of their state is the same for all of a source.

    Args:
        tokens: what each beam begins with (B, W).
        size: for how many steps there is room.
    """
    (B, width), device, dtype = tokens.shape, tokens.device, states.sums(state)
    state, fresh = states.spread(state, width)
    # The beams of a source start alike, so only one of them counts.
    running = torch.full((B, width), -torch.inf, dtype=dtype, device=device)
    running[:, :1] = 0
    search = _Search(
        state,
        tokens,
        running,
        pool=_Pool.empty(B, best, end, running),
        done=torch.zeros(B, dtype=torch.bool, device=device),
        made=torch.zeros_like(tokens[:, 0]),
        lost=torch.zeros(size, dtype=torch.bool, device=device),
        step=torch.zeros(1, dtype=torch.int64, device=device),
        history=tokens.new_zeros(2, size, B, width),
        limits=steps.limits("beam", limits, B, device),
        penalties=penalties.to(device=device, dtype=dtype),
    )
    return search, fresh


def _advanced(model: Steps, end: int, fresh: states.Fresh, search: _Search) -> _Search:
    """The beams with one token more, and the pool with those that ended."""
    settled, limits, penalties = search.done, search.limits, search.penalties
    B, W = search.running.shape
    logits, state = model.step(search.tokens.flatten(), search.state)
    logits = steps.checked("beam", logits, B * W, end)
    if _few(logits, search.running):
        return _chosen(logits, search, state, end, fresh)
    ended, going = _grown(search.running, steps.wide(logits), end)
    step = search.step + 1
    # where the limit is reached, those that still run count as finished
    cut = _Grown(going.totals.masked_fill((limits != step)[:, None], -torch.inf), *going[1:])
    pool = search.pool.joined([ended, cut], settled, step, penalties[search.step])
    running, parents, tokens = going
    # penalties rise or fall with the length: the largest to come is the last or the next
    following = penalties[step.clamp(max=len(penalties) - 1)]
    ahead = penalties[limits - 1].maximum(following)
    done = settled | (limits <= step) | ~_may_enter(pool, running, ahead)
    lost = running.isnan().any(1) | (done & pool.scores[:, 0].isneginf())
    search.lost.index_copy_(0, search.step, (lost & ~settled).any()[None])
    search.history.index_copy_(1, search.step, torch.stack([parents, tokens])[:, None])
    return search._replace(
        state=states.moved("beam", state, parents, fresh),
        tokens=tokens,
        running=running,
        pool=pool,
        done=done,
        made=search.made + ~settled,
        step=step,
    )


def _few(logits: Tensor, running: Tensor) -> bool:
    """Whether a few launches may do all that comes after the logits (B·W, V)."""
    fits = running.dtype == torch.float32 and running.shape[1] <= WIDEST
    return fits and one_query.takes(logits) and logits.stride(1) == 1


def _chosen(logits: Tensor, search: _Search, state: Any, end: int, fresh: states.Fresh) -> _Search:
    """The beams with one token more, in few launches; all but the state is changed in place."""
    from regard.kernels import one_query_beams, one_query_top

    # a state may have kept the last tokens
    tokens = states.unheld(state, search.tokens)
    most = min(2 * tokens.shape[1], logits.shape[1])
    parents = one_query_beams.advance(
        *one_query_top.top(logits, most),
        running=search.running,
        tokens=tokens,
        pool=search.pool,
        done=search.done,
        made=search.made,
        lost=search.lost,
        step=search.step,
        history=search.history,
        limits=search.limits,
        penalties=search.penalties,
        end=end,
    )
    search.step.add_(1)
    return search._replace(state=states.moved("beam", state, parents, fresh), tokens=tokens)


class _Grown(NamedTuple):
    """Beams made one token longer, best first, each (B, W); −inf in `totals` is no beam at all."""

    totals: Tensor
    slots: Tensor
    tokens: Tensor


def _grown(running: Tensor, logits: Tensor, end: int) -> tuple[_Grown, _Grown]:
    """The beams that end here and those that go on, by log p so far (B, W) and logits (B·W, V)."""
    B, W = running.shape
    # The best 2 W tokens of each beam hold the best 2 W of all, and are soon added up.
    best, tokens = likeliest.top(logits, min(2 * W, logits.shape[1]))
    gains = likeliest.normed(best, logits, tokens)
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
    def empty(cls, B: int, N: int, end: int, like: Tensor) -> "_Pool":
        """No hypothesis yet: scores of −inf."""
        none = like.new_full((B, N), -torch.inf)
        zeros = torch.zeros_like(none, dtype=torch.int64)
        # each in memory of its own: they may be changed in place
        return cls(none, none.clone(), zeros, zeros.clone(), zeros + end)

    def joined(
        self, more: list[_Grown], settled: Tensor, length: Tensor, penalty: Tensor
    ) -> "_Pool":
        """The best of these and of `more`, in rows that are not settled."""
        totals, slots, tokens = (torch.cat(parts, 1) for parts in zip(*more, strict=True))
        scores = (totals / penalty).masked_fill(settled[:, None], -torch.inf)
        new = (scores, totals, length.expand_as(slots), slots, tokens)
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
