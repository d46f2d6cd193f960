"""What one attention saw: exact weights, computed only for the rows that are asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import check
from regard.functional.call import Why
from regard.functional.precision import to_float32
from regard.looking.record import RecordedCall

# From a key that is not read at all to one that is read alone.
SHADES = "·░▒▓█"


class Top(NamedTuple):
    """The best keys of each query: `weights` and `keys`, both (B, H, Q, k)."""

    weights: Tensor
    keys: Tensor


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """What the attention called `name` saw in all its calls, one after the other along Q.

    Keys stand at their positions, also where a cache lets the oldest go. Where rows of the batch
    were moved between calls, as beams of `generate` are, each row is that of its own hypothesis:
    of the last call's row, back through the rows that it goes on from.
    """

    name: str
    calls: tuple[RecordedCall, ...]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, H, Q and K of all calls together."""
        sizes = [kept.sizes for kept in self.calls]
        if len({(B, H) for B, H, _, _ in sizes}) > 1:
            raise ValueError(
                f"look: calls of {self.name!r} have other batches or heads than one another, "
                "so they do not join; read them one by one in .calls"
            )
        return *sizes[0][:2], sum(Q for _, _, Q, _ in sizes), self._width

    def weights(self) -> Tensor:
        """All weights (B, H, Q, K), on the device of the call; a growing K is padded with zeros."""
        self._check_rows_known()
        _, _, _, K = self.sizes
        parts = []
        for kept in self.calls:
            rows = None if kept.span is None else kept.span.parent_rows()
            parts.append(
                _padded_weights(kept, K) if rows is None else _padded_weights(kept, K)[rows]
            )
        return torch.cat(parts, 2)

    def along(self, rows: Tensor) -> Tensor:
        """The weights of hypotheses (N, H, Q, K) by the row of the batch each was at every call.

        Args:
            rows: (N, calls), −1 after the end, whose weights are zeros: the `beam_indices` that
                Hugging Face's `generate(num_beams=…, output_scores=True,
                return_dict_in_generate=True)` gives. Calls beyond it are left out as zeros.
        """
        check.integers("look", "rows", rows)
        check.shape("look", "rows", rows, N=None, calls=None)
        B, _, _, K = self.sizes
        if rows.shape[1] > len(self.calls) or bool(((rows < -1) | (rows >= B)).any()):
            raise ValueError(
                f"look: expected rows from -1 to {B - 1} for at most {len(self.calls)} calls of "
                f"{self.name!r}, got {rows.shape[1]} calls and rows up to {int(rows.max())}"
            )
        parts, left = [], len(self.calls) - rows.shape[1]
        if left and any(kept.is_part_of_prompt for kept in self.calls[1:]):
            raise ValueError(
                f"look: expected rows for all {len(self.calls)} calls of {self.name!r}, of which "
                f"some have parts of a prompt, got {rows.shape[1]}; repeat the first column for "
                "each part, or generate without prefill_chunk_size"
            )
        for kept, mine in zip(self.calls, F.pad(rows, (0, left), value=-1).unbind(1), strict=True):
            found = _padded_weights(kept, K)
            mine = mine.to(found.device)
            over = (mine < 0)[:, None, None, None]
            parts.append(found[mine.clamp_min(0)].masked_fill(over, 0))
        return torch.cat(parts, 2)

    @torch.no_grad()
    def rows(self, batch: int, head: int, queries: int | Sequence[int] | slice | Tensor) -> Tensor:
        """The weights of some queries of one head (n, K), computed for these alone."""
        self._check_rows_known()
        sizes = [kept.sizes for kept in self.calls]
        _check_index("batch", batch, sizes[0][0])
        _check_index("head", head, sizes[0][1])
        wanted = _indices(queries, sum(Q for _, _, Q, _ in sizes))
        out, start = None, 0
        for kept, (_, _, Q, K) in zip(self.calls, sizes, strict=True):
            mine = (wanted >= start) & (wanted < start + Q)
            if bool(mine.any()) or out is None:
                call, moved = kept.call, None if kept.span is None else kept.span.parent_rows()
                row = batch if moved is None else int(moved[batch])
                if out is None:
                    out = call.q.new_zeros(len(wanted), self._width)
                found = kept.rows(call, row, head, (wanted[mine] - start).to(out.device))
                columns = slice(kept.first_key, kept.first_key + K)
                out[mine.to(out.device), columns] = found.to(out.dtype)
            start += Q
        assert out is not None
        return out

    def top(self, k: int) -> Top:
        """The `k` best keys of each query and their weights, formed for one head at a time."""
        if 0 in self._batch:
            return Top(*self.weights().topk(min(k, self._width), dim=-1))
        found = [w.topk(min(k, w.shape[-1]), dim=-1) for w in self._weights_by_head()]
        best = [torch.stack(part).unflatten(0, self._batch) for part in zip(*found, strict=True)]
        return Top(*best)

    def entropy(self) -> Tensor:
        """How widely each query looks (B, H, Q), in nats: 0 for one key, log K for all alike."""
        if 0 in self._batch:
            return self.weights().sum(-1)
        found = torch.stack(
            [torch.special.entr(to_float32(w)).sum(-1) for w in self._weights_by_head()]
        )
        return found.unflatten(0, self._batch)

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
        return self.calls[0].sizes[:2]

    @property
    def _width(self) -> int:
        return max(kept.first_key + kept.sizes[3] for kept in self.calls)

    def _check_rows_known(self) -> None:
        if any(kept.is_lost for kept in self.calls):
            raise ValueError(
                f"look: rows of the batch were moved between calls of {self.name!r}, as beams are, "
                "but its keys do not say how; read the calls one by one in .calls"
            )

    def _weights_by_head(self) -> Iterator[Tensor]:
        """The weights (Q, K) of one head after the other."""
        B, H = self._batch
        for head in range(B * H):
            yield self.rows(head // H, head % H, slice(None))


def _padded_weights(call: RecordedCall, width: int) -> Tensor:
    """The weights of a call (B, H, Q, width), with its keys at their positions."""
    found, first = call.weights(), call.first_key
    return F.pad(found, (first, width - first - found.shape[3]))


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


def _check_index(name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise ValueError(f"look: expected {name} from 0 to {size - 1}, got {index}")
