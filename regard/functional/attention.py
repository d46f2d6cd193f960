"""Attention: score, select, read, under a rule. Read this file first.

    weights = select(score(q, k))       who is read, and how much
    output  = weights @ v               what comes back

Here is the truth in plain PyTorch, for any score, select, rule and bias; everything faster must
agree with it. All take as many key heads as query heads; `regard.dispatch` spreads grouped ones.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard import check
from regard.check import Number
from regard.functional import biases, rules
from regard.functional.biases import Bias
from regard.functional.call import Call, repeat_kv_heads
from regard.functional.precision import cast_finite, no_autocast, to_float32
from regard.functional.rules import Rule
from regard.functional.scores import Score, scaled_dot
from regard.functional.selects import HIDDEN, Select, softmax


def self_attention(x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
    """`softmax(x xᵀ) x`: self-attention with nothing to learn, each row a blend of rows like it."""
    return (x @ x.mT).softmax(-1) @ x


def attention(
    q: Float[Tensor, "B H Q D"],
    k: Float[Tensor, "B H K Dk"],
    v: Float[Tensor, "B H K Dv"],
    *,
    score: Score = scaled_dot,
    select: Select = softmax,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
    dropout: Number = 0.0,
) -> Float[Tensor, "B H Q Dv"]:
    """What each query reads (B, H, Q, Dv)."""
    seen = dense_mask(q, k, rule)
    w = weights(q, k, score=score, select=select, rule=seen, bias=bias)
    with no_autocast(q.device):
        return (F.dropout(w, dropout) @ to_float32(without_hidden_keys(v, seen))).to(v.dtype)


def weights(
    q: Float[Tensor, "B H Q D"],
    k: Float[Tensor, "B H K Dk"],
    *,
    score: Score = scaled_dot,
    select: Select = softmax,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Float[Tensor, "B H Q K"]:
    """How much of each key each query reads, in float32 or better."""
    scores = logits(q, k, score=score, rule=rule, bias=bias)
    selected = select(scores)
    check.floats("attend", "what select returns", selected)
    B, H, Q, K = scores.shape
    check.shape("attend", "what select returns", selected, B=B, H=H, Q=Q, K=K)
    return to_float32(selected)


def logits(
    q: Float[Tensor, "B H Q D"],
    k: Float[Tensor, "B H K Dk"],
    *,
    score: Score = scaled_dot,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Float[Tensor, "B H Q K"]:
    """The scores before selecting, in float32 or better; −inf where a key may not be seen."""
    seen = dense_mask(q, k, rule)
    scores = score(without_blind_queries(q, seen), without_hidden_keys(k, seen))
    check.floats("attend", "what score returns", scores)
    B, H, Q, _ = q.shape
    check.shape("attend", "what score returns", scores, B=B, H=H, Q=Q, K=k.shape[2])
    scores = to_float32(scores)
    if bias is not None:
        scores = scores + cast_finite(dense_bias(q, k, bias), scores.dtype)
    return scores if seen is None else scores.masked_fill(~seen, HIDDEN)


def log_probability(
    q: Float[Tensor, "B H Q D"],
    k: Float[Tensor, "B H K Dk"],
    index: Int[Tensor, "B H Q"],
    *,
    score: Score = scaled_dot,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Float[Tensor, "B H Q"]:
    """The log of the softmax at one key a query; −inf, with no gradient, if it may not be seen."""
    return log_softmax_at(logits(q, k, score=score, rule=rule, bias=bias), index)


def log_softmax_at(
    scores: Float[Tensor, "B H Q K"], index: Int[Tensor, "B H Q"]
) -> Float[Tensor, "B H Q"]:
    """The log of the softmax of scores at one key a query; −inf where that has none."""
    hidden = scores.gather(-1, index[..., None]) == HIDDEN
    # a row whose chosen key is hidden is opened first, so that no NaN flows back through it
    # score − logsumexp would cancel where scores are large
    shares = scores.masked_fill(hidden, 0).log_softmax(-1).gather(-1, index[..., None])
    return shares.masked_fill(hidden, HIDDEN)[..., 0]


def run_call(call: Call) -> Float[Tensor, "B H Q Dv"]:
    """What each query of a call reads, grouped heads and all."""
    H = call.q.shape[1]
    return attention(
        call.q,
        repeat_kv_heads(call.k, H),
        repeat_kv_heads(call.v, H),
        score=call.score,
        select=call.select,
        rule=call.rule,
        bias=call.bias,
        dropout=call.dropout,
    )


def dense_mask(
    q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B _ K Dk"], rule: Rule | Tensor | None
) -> Bool[Tensor, "b h q k"] | None:
    """The rule as a bool tensor that broadcasts to (B, H, Q, K), or None if all is seen."""
    if rule is None:
        return None
    sizes = (*q.shape[:3], k.shape[2])
    if isinstance(rule, Tensor):
        seen = rule
    else:
        seen = rules.mask_tensor(rules.bind(rule, *sizes), *sizes, device=q.device)
    check.bools("attend", "what rule returns", seen)
    return seen[(None,) * (4 - seen.dim())]


def dense_bias(
    q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B _ K Dk"], bias: Bias | Tensor
) -> Float[Tensor, "..."]:
    """The bias as a float tensor that broadcasts to (B, H, Q, K)."""
    if isinstance(bias, Tensor):
        return bias
    sizes = (*q.shape[:3], k.shape[2])
    values = biases.bias_tensor(biases.bind(bias, *sizes, dtype=q.dtype), *sizes, device=q.device)
    check.floats("attend", "what bias returns", values)
    return values


def without_hidden_keys(
    x: Float[Tensor, "B H K E"], mask: Bool[Tensor, "b h q k"] | None
) -> Float[Tensor, "B H K E"]:
    """Keys or values, zero where no query sees them: nothing leaks from there, not even NaN."""
    return x if mask is None else x.where(mask.any(2)[..., None], 0)


def without_blind_queries(
    q: Float[Tensor, "B H Q D"], mask: Bool[Tensor, "b h q k"] | None
) -> Float[Tensor, "B H Q D"]:
    """Queries, zero where they may see nothing."""
    return q if mask is None else q.where(mask.any(3, keepdim=True), 0)
