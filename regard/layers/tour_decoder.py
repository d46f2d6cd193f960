"""Going from point to point by attention: a glimpse at all that is left, then one is chosen.

Kool et al. 2019, 3.2: the decoder has no state but where it began and where it is.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard import check, dispatch, fast_path
from regard.functional.pointing_rules import visit_steps
from regard.functional.scores import Clipped, Score, scaled_dot
from regard.kernels.tour import api as tour
from regard.kernels.tour.types import Sizes, Tables
from regard.layers.pointer import check_has_choice
from regard.layers.sets import point_mask


class PointTables(NamedTuple):
    """All that a decoder has to know of the points, computed once for all steps.

    Each is (B, N, E), but for `fixed_context` and `lengths`. What a glimpse sees is projected by
    `out` before it is compared with what may be chosen; `pointers` have that in them already.
    """

    keys: Tensor
    values: Tensor
    pointers: Tensor
    first: Tensor  # what it means for a query to have begun here
    last: Tensor  # and to be here now
    fixed_context: Tensor  # (B, E): what is part of every query
    lengths: Tensor  # (B,): how many points there are


class Glimpse(nn.Module):
    """What a query reads in all points that are left, before it chooses one of them.

    It has no weights; it is a module so that a look and an edit tell it from the choice.
    """

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def forward(self, encoded: PointTables, queries: Tensor, mask: Tensor) -> Tensor:
        """What each of `queries` (B, Q, E) reads in the points that it sees (B, Q, E)."""
        q, k, v = (_split_heads(x, self.heads) for x in (queries, encoded.keys, encoded.values))
        looked = dispatch.attend(q, k, v, rule=mask[:, None])
        return looked.transpose(1, 2).flatten(2)


class TourDecoder(nn.Module):
    """Where to go next, from where it began and where it is.

    Args:
        width: how wide the points are, E.
        heads: how many heads the glimpse has.
        clip: the highest score that a point can have, Bello et al. 2016; 0 does not clip.
    """

    def __init__(self, width: int, heads: int, *, clip: float = 10.0):
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"TourDecoder: width {width} does not split into {heads} heads")
        self.heads, self.clip = heads, clip
        self.glimpse = Glimpse(heads)
        self.nodes = nn.Linear(width, 3 * width, bias=False)
        self.fixed = nn.Linear(width, width, bias=False)
        self.context = nn.Linear(2 * width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        # in place of where it began and is, before the first step
        self.placeholder = nn.Parameter(torch.empty(2 * width).uniform_(-1, 1))

    @property
    def score(self) -> Score:
        """How well what was seen in a glimpse goes with a point."""
        return Clipped(scaled_dot, self.clip) if self.clip else scaled_dot

    def point_tables(self, x: Tensor, lengths: Tensor) -> PointTables:
        """What is known of points that were read as `x` (B, N, E)."""
        there = point_mask(lengths, x.shape[1])
        mean = (x if there is None else x * there[..., None]).sum(1) / lengths[:, None]
        keys, values, pointers, first, last = (x @ self._table_weights().mT).chunk(5, -1)
        return PointTables(keys, values, pointers, first, last, self.fixed(mean), lengths)

    def _table_weights(self) -> Tensor:
        """What makes all tables of the points in one product (5 E, E).

        What a glimpse sees is projected by `out` and compared with what may be chosen; instead,
        what may be chosen is projected back.
        """
        keys, values, chosen = self.nodes.weight.chunk(3)
        first, last = self.context.weight.chunk(2, 1)
        pointers = self.out.weight.mT @ chosen
        return torch.cat([keys, values, pointers.to(keys.dtype), first, last])

    def initial_query(self, encoded: PointTables) -> Tensor:
        """The query before the first step (B, E)."""
        return encoded.fixed_context + self.context(self.placeholder)

    def queries(self, encoded: PointTables, first: Tensor, last: Tensor) -> Tensor:
        """The queries (B, Q, E) of those who began at `first` (B, Q) and are at `last` (B, Q)."""
        begun, now = (
            _gather_rows(*pair) for pair in ((encoded.first, first), (encoded.last, last))
        )
        return encoded.fixed_context[:, None] + begun + now

    def forward(self, encoded: PointTables, queries: Tensor, mask: Tensor) -> Tensor:
        """How much each of `queries` (B, Q, E) is for each point of its `mask` (B, Q, N)."""
        looked, rule = self.glimpse(encoded, queries, mask), mask[:, None]
        pointers = encoded.pointers[:, None]
        return dispatch.logits(looked[:, None], pointers, score=self.score, rule=rule)[:, 0]

    @dispatch.as_module_call
    def log_probability(
        self, encoded: PointTables, tours: Tensor, *, fixed_start: bool = False
    ) -> Tensor:
        """The log-probability of each step of `tours` (B, S, T), given those before it.

        All steps of all tours are one call. Behind the last point of an answer stands −1: its
        log-probability is 0.

        Args:
            fixed_start: whether the first step was not chosen but given, so that its own is 0.
        """
        B, S, T = tours.shape
        check.shape("TourDecoder", "tours", tours, B=len(encoded.keys), S=None, T=None)
        N = encoded.keys.shape[1]
        there = tours.clamp_min(0)
        # a token for each point, as courses count them; behind the end, the end
        when = visit_steps((tours + 1).flatten(0, 1), N + 1)[:, 1:].view(B, S, 1, N)
        tables, sizes = self._kernel_tables(encoded), Sizes(self.heads, self.clip)
        fused = fast_path.not_observed() and tour.can_use_kernel(tables, sizes)
        if fixed_start and fused:
            return tour.log_probability(tables, sizes, tours, when[:, :, 0])
        steps = torch.arange(1, T, device=tours.device)
        left = torch.arange(N, device=tours.device) < encoded.lengths[:, None]
        seen = (when >= steps[:, None]) & left[:, None, None]  # (B, S, T - 1, N)
        first = there[..., :1].expand(B, S, T - 1).flatten(1)
        queries = self.queries(encoded, first, there[..., :-1].flatten(1))
        index, seen = tours[..., 1:].flatten(1), seen.flatten(1, 2)
        if not fixed_start:
            queries = torch.cat([self.initial_query(encoded)[:, None].expand(B, S, -1), queries], 1)
            index = torch.cat([tours[..., 0], index], 1)
            seen = torch.cat([left[:, None].expand(B, S, N), seen], 1)
        looked = self.glimpse(encoded, queries, seen)[:, None]
        found = dispatch.log_probability(
            looked,
            encoded.pointers[:, None],
            index[:, None],
            score=self.score,
            rule=seen[:, None],
        )[:, 0]
        later = found[:, -S * (T - 1) :].view(B, S, T - 1) if T > 1 else found.new_zeros(B, S, 0)
        first_step = found.new_zeros(B, S) if fixed_start else found[:, :S]
        return torch.cat([first_step[..., None], later], -1)

    def decode_tours(
        self, encoded: PointTables, *, starts: Tensor | None = None, sample: bool = False
    ) -> Tensor:
        """Whole tours (B, S, N), greedy or drawn, each step of which equals one of `forward`.

        Args:
            starts: where each tour of an instance begins (B, S); None has one choose its own.
        """
        if not fast_path.not_observed():
            return self._decode_tours_stepwise(encoded, starts, sample)
        sizes = Sizes(self.heads, self.clip)
        return tour.decode_tours(self._kernel_tables(encoded), sizes, starts=starts, sample=sample)

    @torch.no_grad()
    def _decode_tours_stepwise(
        self, encoded: PointTables, starts: Tensor | None, sample: bool
    ) -> Tensor:
        """The same for who looks: each step is one of `forward`, each tour a row of its own."""
        B, N, _ = encoded.keys.shape
        S = 1 if starts is None else starts.shape[1]
        encoded = PointTables(*(x.repeat_interleave(S, 0) for x in encoded))
        there = torch.arange(N, device=encoded.lengths.device) < encoded.lengths[:, None]
        left, tours, queries = there, list[Tensor](), self.initial_query(encoded)[:, None]
        for step in range(N):
            logits = self(encoded, queries, left[:, None])[:, 0]
            if sample:
                logits = logits - torch.empty_like(logits).exponential_().log_()
            # a first step that is given is asked for too, so that queries count steps
            given = starts.flatten() if starts is not None and step == 0 else None
            if given is None:
                check_has_choice(logits, left, step)
            tours.append(logits.argmax(-1) if given is None else given)
            left = left.scatter(1, tours[-1][:, None], False)
            queries = self.queries(encoded, tours[0][:, None], tours[-1][:, None])
        return torch.stack(tours, 1).masked_fill(~there, -1).view(B, S, N)

    def _kernel_tables(self, encoded: PointTables) -> Tables:
        """What a kernel goes by."""
        begin = self.context(self.placeholder).to(encoded.fixed_context.dtype)
        return Tables(*encoded[:-1], begin, encoded.lengths)


def _gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """The rows of a table (B, N, E) at `index` (B, Q): (B, Q, E)."""
    B, N, E = table.shape
    flat = (index + torch.arange(B, device=index.device)[:, None] * N).flatten()
    return table.reshape(B * N, E).index_select(0, flat).view(B, -1, E)


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, N, E) as (B, H, N, D)."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)
