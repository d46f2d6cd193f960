"""Going from point to point by attention: a glimpse at all that is left, then one is chosen.

Kool et al. 2019, 3.2: the decoder has no state but where it began and where it is.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard import check, door
from regard.functional.pointing import taken
from regard.functional.scores import Clipped, Score, scaled_dot
from regard.kernels.tour_sizes import Sizes, Tables
from regard.layers.pointer import refuse_stuck
from regard.layers.sets import present


class Places(NamedTuple):
    """All that a decoder has to know of the points, computed once for all steps.

    Each is (B, N, E), but for `fixed` and `lengths`. What a glimpse sees is projected by `out`
    before it is compared with what may be chosen; `pointers` have that in them already.
    """

    keys: Tensor
    values: Tensor
    pointers: Tensor
    first: Tensor  # what it means for a query to have begun here
    last: Tensor  # and to be here now
    fixed: Tensor  # (B, E): what is part of every query
    lengths: Tensor  # (B,): how many points there are


class Glimpse(nn.Module):
    """What a query reads in all points that are left, before it chooses one of them.

    It has no weights; it is a module so that a look and an edit tell it from the choice.
    """

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def forward(self, places: Places, queries: Tensor, seen: Tensor) -> Tensor:
        """What each of `queries` (B, Q, E) reads in the points that it sees (B, Q, E)."""
        q, k, v = (_split(x, self.heads) for x in (queries, places.keys, places.values))
        looked = door.attend(q, k, v, rule=seen[:, None])
        return looked.transpose(1, 2).flatten(2)


class Touring(nn.Module):
    """Where to go next, from where it began and where it is.

    Args:
        width: how wide the points are, E.
        heads: how many heads the glimpse has.
        clip: the highest score that a point can have, Bello et al. 2016; 0 does not clip.
    """

    def __init__(self, width: int, heads: int, *, clip: float = 10.0):
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"Touring: width {width} does not split into {heads} heads")
        self.heads, self.clip = heads, clip
        self.glimpse = Glimpse(heads)
        self.nodes = nn.Linear(width, 3 * width, bias=False)
        self.fixed = nn.Linear(width, width, bias=False)
        self.context = nn.Linear(2 * width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        # in place of where it began and is, before the first step
        self.begin = nn.Parameter(torch.empty(2 * width).uniform_(-1, 1))

    @property
    def score(self) -> Score:
        """How well what was seen in a glimpse goes with a point."""
        return Clipped(scaled_dot, self.clip) if self.clip else scaled_dot

    def places(self, x: Tensor, lengths: Tensor) -> Places:
        """What is known of points that were read as `x` (B, N, E)."""
        there = present(lengths, x.shape[1])
        mean = (x if there is None else x * there[..., None]).sum(1) / lengths[:, None]
        keys, values, pointers, first, last = (x @ self._projections().mT).chunk(5, -1)
        return Places(keys, values, pointers, first, last, self.fixed(mean), lengths)

    def _projections(self) -> Tensor:
        """What makes all tables of the points in one product (5 E, E).

        What a glimpse sees is projected by `out` and compared with what may be chosen; instead,
        what may be chosen is projected back.
        """
        keys, values, chosen = self.nodes.weight.chunk(3)
        first, last = self.context.weight.chunk(2, 1)
        pointers = self.out.weight.mT @ chosen
        return torch.cat([keys, values, pointers.to(keys.dtype), first, last])

    def begun(self, places: Places) -> Tensor:
        """The query before the first step (B, E)."""
        return places.fixed + self.context(self.begin)

    def queries(self, places: Places, first: Tensor, last: Tensor) -> Tensor:
        """The queries (B, Q, E) of those who began at `first` (B, Q) and are at `last` (B, Q)."""
        begun, now = (_rows(*pair) for pair in ((places.first, first), (places.last, last)))
        return places.fixed[:, None] + begun + now

    def forward(self, places: Places, queries: Tensor, seen: Tensor) -> Tensor:
        """How much each of `queries` (B, Q, E) is for each point that is `seen` (B, Q, N)."""
        looked, rule = self.glimpse(places, queries, seen), seen[:, None]
        pointers = places.pointers[:, None]
        return door.logits(looked[:, None], pointers, score=self.score, rule=rule)[:, 0]

    @door.named
    def log_probability(self, places: Places, tours: Tensor, *, begun: bool = False) -> Tensor:
        """The log-probability of each step of `tours` (B, S, T), given those before it.

        All steps of all tours are one call. Behind the last point of an answer stands −1: its
        log-probability is 0.

        Args:
            begun: whether the first step was not chosen but given, so that its own is 0.
        """
        B, S, T = tours.shape
        check.shape("Touring", "tours", tours, B=len(places.keys), S=None, T=None)
        N = places.keys.shape[1]
        there = tours.clamp_min(0)
        # a token for each point, as courses count them; behind the end, the end
        when = taken((tours + 1).flatten(0, 1), N + 1)[:, 1:].view(B, S, 1, N)
        tables, sizes = self._tables(places), Sizes(self.heads, self.clip)
        if begun and door.tours_at_once(tables, sizes):
            return door.tours_said(tables, sizes, tours, when[:, :, 0])
        steps = torch.arange(1, T, device=tours.device)
        left = torch.arange(N, device=tours.device) < places.lengths[:, None]
        seen = (when >= steps[:, None]) & left[:, None, None]  # (B, S, T - 1, N)
        first = there[..., :1].expand(B, S, T - 1).flatten(1)
        queries = self.queries(places, first, there[..., :-1].flatten(1))
        index, seen = tours[..., 1:].flatten(1), seen.flatten(1, 2)
        if not begun:
            queries = torch.cat([self.begun(places)[:, None].expand(B, S, -1), queries], 1)
            index = torch.cat([tours[..., 0], index], 1)
            seen = torch.cat([left[:, None].expand(B, S, N), seen], 1)
        looked = self.glimpse(places, queries, seen)[:, None]
        found = door.log_probability(
            looked,
            places.pointers[:, None],
            index[:, None],
            score=self.score,
            rule=seen[:, None],
        )[:, 0]
        later = found[:, -S * (T - 1) :].view(B, S, T - 1) if T > 1 else found.new_zeros(B, S, 0)
        first_step = found.new_zeros(B, S) if begun else found[:, :S]
        return torch.cat([first_step[..., None], later], -1)

    def walked(
        self, places: Places, *, starts: Tensor | None = None, drawn: bool = False
    ) -> Tensor:
        """Whole tours (B, S, N), greedy or drawn, each step of which equals one of `forward`.

        Args:
            starts: where each tour of an instance begins (B, S); None has one choose its own.
        """
        if not door.alone():
            return self._stepped(places, starts, drawn)
        sizes = Sizes(self.heads, self.clip)
        return door.walked(self._tables(places), sizes, starts=starts, drawn=drawn)

    @torch.no_grad()
    def _stepped(self, places: Places, starts: Tensor | None, drawn: bool) -> Tensor:
        """The same for who looks: each step is one of `forward`, each tour a row of its own."""
        B, N, _ = places.keys.shape
        S = 1 if starts is None else starts.shape[1]
        places = Places(*(x.repeat_interleave(S, 0) for x in places))
        there = torch.arange(N, device=places.lengths.device) < places.lengths[:, None]
        left, tours, queries = there, list[Tensor](), self.begun(places)[:, None]
        for step in range(N):
            logits = self(places, queries, left[:, None])[:, 0]
            if drawn:
                logits = logits - torch.empty_like(logits).exponential_().log_()
            # a first step that is given is asked for too, so that queries count steps
            given = starts.flatten() if starts is not None and step == 0 else None
            if given is None:
                refuse_stuck(logits, left, step)
            tours.append(logits.argmax(-1) if given is None else given)
            left = left.scatter(1, tours[-1][:, None], False)
            queries = self.queries(places, tours[0][:, None], tours[-1][:, None])
        return torch.stack(tours, 1).masked_fill(~there, -1).view(B, S, N)

    def _tables(self, places: Places) -> Tables:
        """What a kernel goes by."""
        begin = self.context(self.begin).to(places.fixed.dtype)
        return Tables(*places[:-1], begin, places.lengths)


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """The rows of a table (B, N, E) at `index` (B, Q): (B, Q, E)."""
    B, N, E = table.shape
    flat = (index + torch.arange(B, device=index.device)[:, None] * N).flatten()
    return table.reshape(B * N, E).index_select(0, flat).view(B, -1, E)


def _split(x: Tensor, heads: int) -> Tensor:
    """(B, N, E) as (B, H, N, D)."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)
