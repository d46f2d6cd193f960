"""One call of attention as a value: what is asked for, before anyone decides how to run it."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional import biases, rules
from regard.functional.biases import Bias
from regard.functional.precision import has_autocast, to_autocast
from regard.functional.rules import Rule
from regard.functional.scores import KNOWN_SCORES, Score, scaled_dot
from regard.functional.selects import Gaussian, Select, softmax


@dataclass(frozen=True, eq=False)
class Call:
    """What `attend` was asked for. Where nothing is read, the keys stand in for the values.

    An edit takes one call and gives another (`regard.edits`); four fields are there for it alone.

    Args:
        heads: which heads are heard (H,), bool; None is all. One that is not reads zeros.
        first_query: how many queries its attention had before this call, while an edit is open.
        first_key: the position of its first key then; not 0 where a cache let older ones go.
        model_mask: False where another's model hides a cell by a large negative number instead of
            −inf; bool, broadcasts to (B, H, Q, K). None is nowhere.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    score: Score
    select: Select
    rule: Rule | None
    bias: Bias | None
    dropout: Number
    heads: Tensor | None = None
    first_query: int = 0
    first_key: int = 0
    model_mask: Tensor | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, H, Q, K."""
        B, H, Q, _ = self.q.shape
        return B, H, Q, self.k.shape[2]


@dataclass(frozen=True)
class Why:
    """Which backend runs a call, and what stands against each of the others.

    Args:
        backend: the one that runs.
        reasons: for each backend None if it could run the call, else why it cannot.
    """

    backend: str
    reasons: dict[str, str | None]

    def __str__(self) -> str:
        others = {name: reason for name, reason in self.reasons.items() if name != self.backend}
        lines = [f"{self.backend} runs this call"]
        lines += [
            f"  {name}: {reason or 'could, but another comes first'}"
            for name, reason in others.items()
        ]
        return "\n".join(lines)


def build_call(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    *,
    score: Score = scaled_dot,
    select: Select = softmax,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
    where: str = "attend",
) -> Call:
    """The call, with shapes, kinds and values checked, and rule and bias told the sizes."""
    v = k if v is None else v
    if not is_standard(q, k, v):
        check_qkv(q, k, v, where=where)
        q, k, v = autocast_qkv(q, k, v)
    check.callable_or_tensor(where, "score", score, "a callable (q, k)")
    check.callable_or_tensor(where, "select", select, "a callable on scores")
    if isinstance(score, KNOWN_SCORES):
        score.check_shapes(q, k)
    if isinstance(select, Gaussian):
        select.check_shapes(q)
    sizes = (*q.shape[:3], k.shape[2])
    if rule is not None:
        check.callable_or_tensor(where, "rule", rule, "a callable (b, h, q, k) or a bool tensor")
        rule = rules.bind(rule, *sizes)
    if bias is not None:
        check.callable_or_tensor(where, "bias", bias, "a callable (b, h, q, k) or a float tensor")
        bias = biases.bind(bias, *sizes, dtype=q.dtype)
    return Call(q, k, v, score, select, rule, bias, 0.0)


def with_dropout(call: Call, dropout: Number) -> Call:
    """The call with a share of its weights dropped."""
    check.number("attend", "dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"attend: expected dropout from 0 up to but not 1, got {dropout!r}")
    return replace(call, dropout=dropout) if dropout else call


def without_values(call: Call) -> Call:
    """The call without its values: all that its weights need."""
    return replace(call, v=call.k, dropout=0.0, model_mask=None)


def zero_ablated_heads(call: Call, x: Tensor) -> Tensor:
    """What the heads of a call found (B, H, …), zero where one of them is not heard."""
    if call.heads is None:
        return x
    dead = ~call.heads.to(x.device)
    return x.masked_fill(dead.view(-1, *(1 for _ in x.shape[2:])), 0)


def check_edited_call(call: Any, before: Call, *, where: str) -> Call:
    """The call that a change made of the one before it, checked: it must be of the same sizes."""
    if not isinstance(call, Call):
        raise TypeError(
            f"{where}: expected a change to give a Call, got {check.describe_kind(call)}"
        )
    made = build_call(
        call.q,
        call.k,
        call.v,
        score=call.score,
        select=call.select,
        rule=call.rule,
        bias=call.bias,
        where=where,
    )
    wanted, got = ((*x.sizes, x.v.shape[3]) for x in (before, made))
    if got != wanted:
        form = check.format_shape(dict(zip(("B", "H", "Q", "K", "Dv"), wanted, strict=True)))
        raise ValueError(f"{where}: expected a call of the same sizes {form}, got {got}")
    heads = call.heads
    if heads is not None:
        check.bools(where, "heads", heads)
        check.shape(where, "heads", heads, H=wanted[1])
        heads = heads.to(made.q.device)
    return replace(with_dropout(made, call.dropout), heads=heads, model_mask=before.model_mask)


def is_standard(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether q, k and v plainly go together, at a glance; if not, `check_qkv` says why."""
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return False
    shape, of_keys, of_values = q.shape, k.shape, v.shape
    if not (len(shape) == len(of_keys) == len(of_values) == 4 and q.dtype == k.dtype == v.dtype):
        return False
    B, H, Q, D = shape
    b, h, K, d = of_keys
    same = b == B and d == D and of_values[:3] == of_keys[:3] and q.device == k.device == v.device
    there = Q and K and B and h and H % h == 0 and q.dtype in check.FLOAT_DTYPES
    return bool(same and there) and not has_autocast(q.device)


def check_qkv(q: Tensor, k: Tensor, v: Tensor, *, where: str) -> None:
    """Refuse q, k and v that do not go together; the width of k is the score's business."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        check.floats(where, name, x)
    check.shape(where, "q", q, B=None, H=None, Q=None, D=None)
    B, H, _, D = q.shape
    heads = k.shape[1] if k.dim() == 4 and k.shape[1] and H % k.shape[1] == 0 else H
    check.shape(where, "k", k, B=B, H=heads, K=None, D=k.shape[3] if k.dim() == 4 else D)
    check.shape(where, "v", v, B=B, H=heads, K=k.shape[2], Dv=None)
    for name, x in (("k", k), ("v", v)):
        # autocast brings all but float64 to one dtype
        mixed = x.dtype != q.dtype
        if mixed and (not has_autocast(q.device) or torch.float64 in (x.dtype, q.dtype)):
            raise ValueError(
                f"{where}: expected {name} of the dtype of q, {_dtype_name(q)}, got "
                f"{_dtype_name(x)}"
            )
        if x.device != q.device:
            raise ValueError(f"{where}: expected {name} on {q.device} like q, got {x.device}")


def autocast_qkv(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v in the dtype that autocast asks for, where it is on; float64 is left alone."""
    if not has_autocast(q.device) or q.dtype == torch.float64:
        return q, k, v
    q = to_autocast(q)
    return q, k.to(q.dtype), v.to(q.dtype)


def tensors_of(value: Any) -> list[Tensor]:
    """Every tensor that a call, a score, a rule, a bias or a select holds."""
    if isinstance(value, Tensor):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        value = tuple(vars(value).values())
    if isinstance(value, tuple):
        return [x for part in value if part is not None for x in tensors_of(part)]
    return []


def map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A call, a score, a rule, a bias or a select, with every tensor in it changed."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple):
        return tuple(map_tensors(part, function) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{k: map_tensors(x, function) for k, x in vars(value).items()})
    return value


def repeat_kv_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values with a head for each query head; queries of a group share one."""
    shared = x.shape[1]
    if shared == heads:
        return x
    B, _, K, E = x.shape
    return x[:, :, None].expand(B, shared, heads // shared, K, E).reshape(B, heads, K, E)


def _dtype_name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
