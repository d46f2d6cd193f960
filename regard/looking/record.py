"""One recorded call, as the tensors that it is made from: computed only when it is read."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from regard.functional import attention as plain
from regard.functional import rules
from regard.functional.biases import DenseBias as DenseBias
from regard.functional.call import (
    Call,
    Why,
    map_tensors,
    repeat_kv_heads,
    tensors_of,
    without_values,
    zero_ablated_heads,
)
from regard.functional.edited_selects import restrict_to_rows
from regard.functional.precision import autocast_snapshot
from regard.functional.scores import KNOWN_SCORES
from regard.looking.key_log import CHANGED_TENSOR_ERROR, KeyLog, KeySpan
from regard.looking.key_origins import Origin
from regard.looking.key_store import Placement

# So many masks are compared with a new one: two kinds, as of self- and cross-attention, are usual.
MAX_RECENT_MASKS = 4


class Source(NamedTuple):
    """The tensors of a call, and `make`, which builds it from these or from equal ones.

    Args:
        make: from as many tensors to the call.
        tensors: all that are needed, detached; the queries first, if `keys` are given.
        keys: which of them are the keys (B, H, K, D) as they were handed in; None if none is.
        origin: which keys these are and begin with, if that is known.
        written_counter: gives `written_key_count` of the call, without making it; None if it has to
            be.
    """

    make: Callable[..., Call]
    tensors: list[Tensor]
    keys: int | None = None
    origin: Origin | None = None
    written_counter: Callable[[], int] | None = None

    def count_written(self) -> int:
        """The `written_key_count` of the call."""
        if self.written_counter is not None:
            return self.written_counter()
        return written_key_count(self.make(*self.tensors))


class RecordedCall(NamedTuple):
    """One recorded call: how to make it again, and the tensors that must not change.

    Args:
        make: from tensors to the call.
        tensors: those, and which version of them was seen; without the keys, if there is a span.
        why: which backend ran.
        autocast: gives the autocast that it ran under.
        span: where its keys stand among those its attention saw.
        is_lost: whether rows of the batch were moved before it, and it is not known which.
    """

    make: Callable[..., Call]
    tensors: tuple[tuple[Tensor, int], ...]
    why: Callable[[], Why]
    autocast: Callable[[], AbstractContextManager[None]]
    span: KeySpan | None = None
    is_lost: bool = False

    @property
    def call(self) -> Call:
        """The call, if nobody has written into what it was made from."""
        for tensor, version in self.tensors:
            if not tensor.is_inference() and tensor._version != version:
                raise RuntimeError(CHANGED_TENSOR_ERROR)
        given = [tensor for tensor, _ in self.tensors]
        if self.span is not None:
            given.insert(1, self.span.read_keys())
        with torch.no_grad(), self.autocast():
            return self.make(*given)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, H, Q, K of the call."""
        if self.span is None:
            return self.call.sizes
        B, H, Q, _ = self.tensors[0][0].shape
        return B, H, Q, self.span.width

    def has_keys_in(self, log: KeyLog) -> bool:
        """True if its keys are kept in this log."""
        return self.span is not None and self.span.log is log

    @property
    def is_part_of_prompt(self) -> bool:
        """True if it has several queries whose keys go on from those of the call before."""
        return self.span is not None and self.span.is_continuation and self.sizes[2] > 1

    @property
    def first_key(self) -> int:
        """The position of its first key."""
        return 0 if self.span is None else self.span.start

    def weights(self) -> Tensor:
        """All weights (B, H, Q, K)."""
        call = self.call
        with torch.no_grad(), self.autocast():
            return weights(call).to(call.q.dtype)

    def rows(self, call: Call, batch: int, head: int, queries: Tensor) -> Tensor:
        """The weights of some queries of one head (n, K); `call` is that of this one."""
        with torch.no_grad(), self.autocast():
            return rows(call, batch, head, queries)


def source_of(call: Call) -> Source:
    """The source of a call of ours, without its values."""
    bare = without_values(call)
    q, k, _, *others = tensors_of(bare)

    def make(q: Tensor, k: Tensor, *others: Tensor) -> Call:
        parts = iter((q, k, k, *others))
        return without_values(map_tensors(bare, lambda _: next(parts)))

    return Source(make, [q, k, *others], keys=1)


def unwrap_tensor(x: Any) -> Any:
    """A tensor without the wrappers of torch.func, which end with their transform.

    Raises:
        ValueError: it holds no numbers, or those of many calls at once.
    """
    if type(x) is Tensor and not is_functorch_wrapped_tensor(x):
        return x
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if fake is not None and isinstance(x, fake.FakeTensor):
        raise ValueError("its tensors are fake, as a compiler or an export makes them")
    while isinstance(x, Tensor) and is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_batchedtensor(x):
            raise ValueError("it ran inside of torch.func.vmap, where many calls are one")
        x = torch._C._functorch.get_unwrapped(x)
    return x


def to_readable_source(source: Source) -> Source:
    """The source with its tensors unwrapped; one that raises when made if they hold no numbers."""
    try:
        return source._replace(tensors=[unwrap_tensor(tensor) for tensor in source.tensors])
    except ValueError as error:
        return unreadable_source(
            f"look: expected a call that can be read, got one that cannot: {error}"
        )


def unreadable_source(reason: str) -> Source:
    """A source that raises ValueError with this reason when made; it keeps no tensors alive."""

    def make(*tensors: Tensor) -> Call:
        raise ValueError(reason)

    return Source(make, [])


class Recorder:
    """Keeps calls one after the other, and of tensors that are equal one.

    Args:
        copy: keep copies, that nobody can change.
    """

    def __init__(self, *, copy: bool):
        self._copy = copy
        self._recent: list[tuple[Tensor, int]] = []

    def keep(
        self, source: Source, why: Callable[[], Why], placement: Placement | None
    ) -> RecordedCall:
        """The record of a call; keys that have a placement stay in their log."""
        make, tensors, keys = source[:3]
        autocast = autocast_snapshot(tensors[0].device) if tensors else nullcontext
        if placement is None:
            return RecordedCall(make, tuple(self._with_version(x) for x in tensors), why, autocast)
        q, *others = (x for i, x in enumerate(tensors) if i != keys)
        given = [self._with_version(_compact(q) if placement.span.is_later else q)]
        given += [self._shared_mask(x) for x in others]
        return RecordedCall(make, tuple(given), why, autocast, placement.span, placement.is_lost)

    def clear(self) -> None:
        """Let go of all tensors."""
        self._recent.clear()

    def _with_version(self, tensor: Tensor) -> tuple[Tensor, int]:
        # tensors of inference mode do not count their versions: only a copy of them is safe
        if self._copy or tensor.is_inference():
            tensor = _compact_copy(tensor)
        return tensor, 0 if tensor.is_inference() else tensor._version

    def _shared_mask(self, tensor: Tensor) -> tuple[Tensor, int]:
        """A mask or bias and its version; an equal one from a recent record, if there is one."""
        for one, version in self._recent:
            unchanged = one.is_inference() or one._version == version
            if unchanged and _is_equal(one, tensor):
                return one, version
        found = self._with_version(_compact(tensor))
        self._recent = [found, *self._recent[: MAX_RECENT_MASKS - 1]]
        return found


def without_spare_memory(record: RecordedCall) -> RecordedCall:
    """The record with tensors copied where they keep much more memory alive than their own."""
    if any(x._version != version for x, version in record.tensors if not x.is_inference()):
        return record
    tensors = [_compact(x) for x, _ in record.tensors]
    return record._replace(
        tensors=tuple((x, 0 if x.is_inference() else x._version) for x in tensors)
    )


def written_key_count(call: Call) -> int:
    """How many of the first keys any query of a call may see, by its mask; all if there is none.

    Where nothing but the weights is known, for which q has no width and the score is none of ours,
    those that are read. Rows of which a model masks everything say nothing.
    """
    K = call.k.shape[2]
    masks = [part.mask for part in _required_rules(call.rule) if isinstance(part, rules.DenseMask)]
    if isinstance(call.bias, DenseBias):
        masks.append(call.bias.values)
    masks = [mask for mask in masks if mask.dim() and mask.shape[-1] == K]
    if not call.q.shape[3] and not isinstance(call.score, KNOWN_SCORES):
        weights = call.score(call.q, repeat_kv_heads(call.k, call.q.shape[1]))
        # a row of which all is masked has weights that are alike
        is_blind = weights.amax(-1, keepdim=True) == weights.amin(-1, keepdim=True)
        masks.append((weights != 0) & ~(is_blind & (K > 1)))
    # where a model attends by itself, its logits are masked already
    visible = getattr(call.score, "visible", None)
    masks += [] if visible is None else [visible]
    return visible_key_count(masks, K)


def visible_key_count(masks: list[Tensor], K: int) -> int:
    """How many of the first keys masks (…, K), bool or added to scores, let any query see."""
    masks = [x if x.dtype == torch.bool else x > torch.finfo(x.dtype).min for x in masks]
    seen = [mask.flatten(0, -2).any(0) if mask.dim() > 1 else mask for mask in masks]
    places = torch.stack(seen).all(0).nonzero().flatten().tolist() if seen else []
    return places[-1] + 1 if places else K


def _required_rules(rule: rules.Rule | None) -> list[rules.Rule]:
    """The rules that all have to let a key be seen; what `either` joins is one of them."""
    if isinstance(rule, rules.Both):
        return [one for part in rule.rules for one in _required_rules(part)]
    return [] if rule is None else [rule]


def _is_equal(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    place = a.data_ptr() == b.data_ptr() and a.stride() == b.stride()
    return (place and a._version == b._version) or torch.equal(a, b)


def _compact(tensor: Tensor) -> Tensor:
    """The tensor, or a copy of it where it would keep much other memory alive."""
    held = tensor.untyped_storage().nbytes()
    return _compact_copy(tensor) if held > 1.25 * tensor.numel() * tensor.element_size() else tensor


def _compact_copy(tensor: Tensor) -> Tensor:
    """A copy, of an axis that only repeats no more than one entry."""
    if tensor.is_nested or tensor.layout != torch.strided:
        return tensor.clone()
    once = tensor
    for axis, (n, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if n > 1 and stride == 0:
            once = once.narrow(axis, 0, 1)
    return once.clone(memory_format=torch.contiguous_format).expand(tensor.shape)


def weights(call: Call) -> Tensor:
    """All weights of a call (B, H, Q, K), before dropout."""
    k = repeat_kv_heads(call.k, call.q.shape[1])
    weights = plain.weights(
        call.q, k, score=call.score, select=call.select, rule=call.rule, bias=call.bias
    )
    return zero_ablated_heads(call, weights)


def rows(call: Call, batch: int, head: int, queries: Tensor) -> Tensor:
    """The weights of some queries of one head (n, K)."""
    score, select = call.score, restrict_to_rows(call.select, batch, head, queries)
    if call.heads is not None and not bool(call.heads[head]):
        return call.q.new_zeros(len(queries), call.k.shape[2])
    if select is None or not isinstance(score, KNOWN_SCORES):
        # a callable of the user's may depend on anything: it is asked for everything
        return weights(call)[batch, head, queries]
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
        score=score.restrict_to_rows(batch, head, queries, K - Q),
        select=select,
        rule=None if call.rule is None else call.rule(*places),
        bias=None if call.bias is None else call.bias(*places),
    )[0, 0]
