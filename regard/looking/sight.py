"""What one attention saw: exact weights, computed only for the rows that are asked for."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import check
from regard.functional import attention as plain
from regard.functional.call import Call, Why, changed, heard, spread, tensors_of, unread
from regard.functional.edited import part
from regard.functional.precision import autocast_as_now
from regard.functional.scores import known

# From a key that is not read at all to one that is read alone.
SHADES = "·░▒▓█"


class Top(NamedTuple):
    """The best keys of each query: `weights` and `keys`, both (B, H, Q, k)."""

    weights: Tensor
    keys: Tensor


class Source(NamedTuple):
    """What a call is made from: `make` gives it for `tensors`, or for others of the same content.

    Args:
        make: from as many tensors to the call.
        tensors: all that are needed, detached.
        keys: which of them are the keys (B, H, K, D) as they were handed in; None if none is.
    """

    make: Callable[..., Call]
    tensors: list[Tensor]
    keys: int | None = None


@dataclass(frozen=True, eq=False)
class Kept:
    """One call that was seen: how to make it again, and the tensors that must not change.

    Args:
        make: makes the call.
        tensors: what it is made from, each with its version.
        why: which backend ran it.
        autocast: gives the autocast that it ran under.
    """

    make: Callable[..., Call]
    tensors: tuple[tuple[Tensor, int], ...]
    why: Callable[[], Why]
    autocast: Callable[[], AbstractContextManager[None]]

    @property
    def call(self) -> Call:
        """The call, if nobody has written into what it was made from."""
        for tensor, version in self.tensors:
            if tensor._version != version:
                raise RuntimeError(
                    "look: a tensor that was looked at has been changed in place since; read the "
                    "weights before that, or keep copies with look(model, copy=True)"
                )
        with torch.no_grad(), self.autocast():
            return self.make(*(tensor for tensor, _ in self.tensors))

    def weights(self) -> Tensor:
        """All weights (B, H, Q, K)."""
        call = self.call
        with torch.no_grad(), self.autocast():
            return _weights(call).to(call.q.dtype)

    def rows(self, call: Call, batch: int, head: int, queries: Tensor) -> Tensor:
        """The weights of some queries of one head (n, K); `call` is that of this one."""
        with torch.no_grad(), self.autocast():
            return _rows(call, batch, head, queries)


@dataclass(frozen=True, eq=False)
class Sight:
    """What the attention called `name` saw in all its calls, one after the other along Q."""

    name: str
    calls: tuple[Kept, ...]

    def weights(self) -> Tensor:
        """All weights (B, H, Q, K), on the device of the call; a growing K is padded with zeros."""
        parts = [kept.weights() for kept in self.calls]
        if len({w.shape[:2] for w in parts}) > 1:
            raise ValueError(
                f"look: calls of {self.name!r} have other batches or heads than one another, "
                "so they do not join; read them one by one in .calls"
            )
        K = max(w.shape[3] for w in parts)
        return torch.cat([F.pad(w, (0, K - w.shape[3])) for w in parts], 2)

    @torch.no_grad()
    def rows(self, batch: int, head: int, queries: int | Sequence[int] | slice | Tensor) -> Tensor:
        """The weights of some queries of one head (n, K), computed for these alone."""
        calls = [kept.call for kept in self.calls]
        lengths = [call.q.shape[2] for call in calls]
        B, H, _, _ = calls[0].sizes
        _within("batch", batch, B)
        _within("head", head, H)
        wanted = _indices(queries, sum(lengths))
        K = max(call.k.shape[2] for call in calls)
        out, start = calls[0].q.new_zeros(len(wanted), K), 0
        for kept, call, length in zip(self.calls, calls, lengths, strict=True):
            mine = (wanted >= start) & (wanted < start + length)
            if bool(mine.any()):
                rows = kept.rows(call, batch, head, (wanted[mine] - start).to(out.device))
                out[mine.to(out.device), : rows.shape[1]] = rows.to(out.dtype)
            start += length
        return out

    def top(self, k: int) -> Top:
        """The `k` best keys of each query and their weights, formed for one head at a time."""
        found = [w.topk(min(k, w.shape[-1]), dim=-1) for w in self._by_head()]
        best = [torch.stack(part).unflatten(0, self._batch) for part in zip(*found, strict=True)]
        return Top(*best)

    def entropy(self) -> Tensor:
        """How widely each query looks (B, H, Q), in nats: 0 for one key, log K for all alike."""
        wide = torch.stack([torch.special.entr(w.float()).sum(-1) for w in self._by_head()])
        return wide.unflatten(0, self._batch)

    def draw(self, batch: int = 0, head: int = 0) -> str:
        """One head's weights as text, a line a query: the darker, the more of a key is read."""
        rows = self.rows(batch, head, slice(None)).float()
        shade = (rows.clamp(0, 1) * (len(SHADES) - 1)).ceil().long()
        return "\n".join("".join(SHADES[s] for s in row) for row in shade.tolist())

    @property
    def why(self) -> Why:
        """Which backend ran the last call, and what stood against the others."""
        return self.calls[-1].why()

    @property
    def _batch(self) -> tuple[int, int]:
        return self.calls[0].call.sizes[:2]

    def _by_head(self) -> Iterator[Tensor]:
        """The weights (Q, K) of one head after the other."""
        B, H = self._batch
        for head in range(B * H):
            yield self.rows(head // H, head % H, slice(None))


def source(call: Call) -> Source:
    """What a call of ours is made from; its values are not needed."""
    bare = unread(call)
    q, k, _, *others = tensors_of(bare)

    def make(q: Tensor, k: Tensor, *others: Tensor) -> Call:
        parts = iter((q, k, k, *others))
        return unread(changed(bare, lambda _: next(parts)))

    return Source(make, [q, k, *others], keys=1)


def unreadable(reason: str) -> Source:
    """A call that cannot be made again, and why; the words alone, since an error holds tensors."""

    def make(*tensors: Tensor) -> Call:
        raise ValueError(reason)

    return Source(make, [])


def kept(source: Source, why: Callable[[], Why], *, copy: bool) -> Kept:
    """A call to be made again later; with `copy`, one that nobody can change.

    What cannot be kept, in the middle of a model, is an error only when it is read.
    """
    try:
        return _kept(source, why, copy=copy)
    except Exception as error:
        return Kept(unreadable(str(error)).make, (), why, nullcontext)


def _kept(source: Source, why: Callable[[], Why], *, copy: bool) -> Kept:
    make, tensors, _ = source
    autocast = autocast_as_now(tensors[0].device) if tensors else nullcontext
    # tensors of inference mode do not count their versions: only a copy of them is safe
    if copy or any(tensor.is_inference() for tensor in tensors):
        with torch.no_grad():
            call = unread(changed(make(*tensors), Tensor.clone))
        return Kept(lambda: call, (), why, autocast)
    return Kept(make, tuple((tensor, tensor._version) for tensor in tensors), why, autocast)


def _weights(call: Call) -> Tensor:
    k = spread(call.k, call.q.shape[1])
    weights = plain.weights(
        call.q, k, score=call.score, select=call.select, rule=call.rule, bias=call.bias
    )
    return heard(call, weights)


def _rows(call: Call, batch: int, head: int, queries: Tensor) -> Tensor:
    score, select = call.score, part(call.select, batch, head, queries)
    if call.heads is not None and not bool(call.heads[head]):
        return call.q.new_zeros(len(queries), call.k.shape[2])
    if select is None or not isinstance(score, known):
        # a callable of the user's may depend on anything: it is asked for everything
        return _weights(call)[batch, head, queries]
    _, H, Q, K = call.sizes
    shared = head * call.k.shape[1] // H
    device = call.q.device
    places = (
        torch.tensor(batch, device=device),
        torch.tensor(head, device=device),
        (queries + K - Q)[:, None],
        torch.arange(K, device=device),
    )
    return plain.weights(
        call.q[batch : batch + 1, head : head + 1, queries],
        call.k[batch : batch + 1, shared : shared + 1],
        score=score.part(batch, head, queries, K - Q),
        select=select,
        rule=None if call.rule is None else call.rule(*places),
        bias=None if call.bias is None else call.bias(*places),
    )[0, 0]


def _indices(queries: int | Sequence[int] | slice | Tensor, length: int) -> Tensor:
    if isinstance(queries, slice):
        return torch.arange(length)[queries]
    wanted = torch.as_tensor(queries).cpu().reshape(-1)
    if wanted.numel():
        check.integers("look", "queries", wanted)
    wanted = wanted.long()
    if bool(((wanted < -length) | (wanted >= length)).any()):
        raise ValueError(f"look: expected queries below Q={length}, got {wanted.tolist()}")
    return wanted % max(length, 1)


def _within(name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise ValueError(f"look: expected {name} from 0 to {size - 1}, got {index}")
