"""Random calls as plain data: a call is drawn from its number and knows nothing of who answers it.

Mechanisms are tuples, a name and what it is given; floats in them are rounded to the call's dtype.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.fuzz.chance import DTYPES, Draw, rounded
from benchmarks.fuzz.mechanisms import bias, edits, index, rule, score, select
from benchmarks.fuzz.truth import Array, Spec, arrays, seen

BACKENDS = ("auto", "reference", "sdpa", "chunked", "flex", "triton")
HEADS = ((1, 1), (3, 3), (2, 1), (2, 2), (6, 3), (6, 2), (5, 1), (4, 4))
LENGTHS = (1, 2, 3, 5, 7, 11, 13)
STRIDES = ("plain", "plain", "heads last", "sliced", "expanded", "shifted")


@dataclass
class Call:
    """One call. Arrays are float64 and exact in `dtype`; `spoiled` says where NaN will stand."""

    number: str
    function: str
    dtype: str
    backend: str
    autocast: bool
    strides: str
    q: Array
    k: Array
    v: Array
    score: Spec = ("scaled_dot",)
    select: Spec = ("softmax",)
    rule: Spec | None = None
    bias: Spec | None = None
    bias_dtype: str = "float32"
    score_dtype: str | None = None  # of the score's tensors; None is `dtype`
    edits: tuple[Spec, ...] = ()
    looked: bool = False
    tiled: bool = False
    gradient: bool = False
    index: Array | None = None
    direction_seed: int = 0
    spoil: float | None = None
    tags: dict[str, str] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)  # what could not be judged as closely
    luck: tuple[float, float] | None = None  # draws of the likeliest keys beyond the expected

    @property
    def full(self) -> tuple[int, int, int, int]:
        return (*self.q.shape[:3], self.k.shape[2])


def call(seed: int, number: int) -> Call:
    """The call of this number."""
    draw = Draw(seed, number)
    dtype = draw.of(tuple(DTYPES), (3, 4, 2, 1.5))
    shape = _sizes(draw)
    apart = Draw(seed, number, 1)
    if apart.chance(0.03):  # one query of very many heads, as where a token is decoded
        D, Dv = apart.of((1, 5, 8)), apart.of((1, 3))
        shape = apart.of((2, 3)), 64, apart.of((64, 64, 16)), 1, apart.of((16, 19)), D, Dv, "heads"
    size = _magnitude(draw, dtype)
    q, k, v = _tensors(draw, dtype, shape, size)
    autocast = draw.chance(0.06)
    found = Call(
        f"{seed}:{number}",
        draw.of(("attend", "weigh", "logits", "log_probability"), (6, 2, 1, 1.5)),
        dtype,
        draw.of(BACKENDS, (5, 2, 3, 2, 0.35, 0.2)),
        autocast,
        draw.of(STRIDES),
        *(q, k, v),
        direction_seed=draw.whole(0, 2**31),
    )
    if found.strides == "expanded":
        found.q, found.k, found.v = (np.repeat(x[:1], len(x), 0) for x in (q, k, v))
    found.tags["magnitude"] = size[0]
    found.tags["sizes"] = shape[-1]
    _draw_mechanisms(draw, found, size)
    _draw_circumstances(draw, found)
    _draw_seldom(Draw(seed, number, 2), found)
    return found


def _draw_mechanisms(draw: Draw, call: Call, size: Any) -> None:
    """Score, rule, bias and select, each of them at times the default."""
    if draw.chance(0.75):
        call.score = score(draw, call, call.dtype, near_one=size[0] == "one")
    if call.score[0] in ("general", "location") and draw.chance(0.5):
        _widen_keys(draw, call, size[2])
    if draw.chance(0.8):
        call.rule = rule(draw, *call.full)
    if draw.chance(0.4):
        call.bias, call.bias_dtype = bias(draw, *call.full, call.dtype)
    if draw.chance(0.5) and call.function in ("attend", "weigh"):
        call.select = select(draw, call)
    if call.function == "log_probability":
        call.index = index(draw, call)


def _draw_circumstances(draw: Draw, call: Call) -> None:
    """Whether the call is looked at, edited, differentiated, and has NaN where nobody looks."""
    if draw.chance(0.8) and not _may_run(call):
        call.backend = "auto"
    call.looked = draw.chance(0.12)
    if draw.chance(0.08) and min(call.full) > 0:
        call.select = ("softmax",) if call.select[0] == "sampled" else call.select
        call.edits = edits(draw, call)
    call.gradient = draw.chance(0.2)
    call.tiled = draw.chance(0.3)
    if draw.chance(0.25) and call.rule and not call.edits:
        call.spoil = draw.of((np.nan, np.inf, -np.inf))


def _draw_seldom(draw: Draw, call: Call) -> None:
    """What chance alone draws too seldom; of other numbers, so that calls stay as they were."""
    if call.edits:
        return
    if call.function == "attend" and min(call.full) > 0 and draw.chance(0.04):
        _draw_blocks(draw, call)
    if call.bias and call.bias[0] in ("tensor", "relative") and draw.chance(0.15):
        _draw_far_bias(draw, call)
    same_width = call.q.shape[3] == call.k.shape[3]
    if call.function == "attend" and call.spoil is None and same_width and draw.chance(0.02):
        _draw_falling_scale(draw, call)
    if call.score[0] == "cosine" and not call.gradient and draw.chance(0.3):
        call.q, call.k = (_of_any_size(draw, x, call.dtype) for x in (call.q, call.k))
    size = max(np.abs(x).max(initial=0) for x in (call.q, call.k))
    near_zero = 1e-9 < size < 0.1 and call.dtype != "float16"
    if call.score[0] == "additive" and near_zero and draw.chance(0.5):  # of scores near one
        call.score = "additive", rounded(call.score[1] / size, call.dtype)
    if call.dtype in ("bfloat16", "float16") and draw.chance(0.3):
        call.score_dtype = "float32"
        call.score = arrays(call.score, lambda x: rounded(x * draw.random.uniform(1, 2), "float32"))
    if call.tags["sizes"] == "heads" and draw.chance(0.3):  # slopes that no dtype holds exactly
        call.bias, call.bias_dtype = ("alibi",), call.dtype


def _draw_far_bias(draw: Draw, call: Call) -> None:
    """A bias far from zero, which half precision would round by as much as it varies."""
    assert call.bias is not None
    name, values, *rest = call.bias
    call.bias_dtype = "float64" if call.dtype == "float64" else "float32"
    call.bias = (
        name,
        rounded(values + draw.of((-3000.0, -300.0, 30.0, 300.0)), call.bias_dtype),
        *rest,
    )


def _draw_blocks(draw: Draw, call: Call) -> None:
    """A window that is cut into several blocks, with its gradient."""
    window = "window", draw.whole(0, 5)
    call.rule = draw.of((window, ("both", window, ("causal",)), ("both", window, ("prefix", 4))))
    call.tiled = call.gradient = True
    call.backend = draw.of(("auto", "chunked"))


def _draw_falling_scale(draw: Draw, call: Call) -> None:
    """A causal call on the default path whose scale is not above 0."""
    name = draw.of(("dot", "cosine")) if call.tags["magnitude"] == "one" else "dot"
    call.score = name, draw.of((-1.0, 0.0, -0.125, -3.0))
    call.select, call.rule, call.bias, call.backend = ("softmax",), ("causal",), None, "auto"


# Powers of ten between which a dtype holds normal numbers.
POWERS = {"float64": (-300, 300), "float32": (-36, 37), "bfloat16": (-36, 37), "float16": (-3, 4)}


def _of_any_size(draw: Draw, x: Array, dtype: str) -> Array:
    """The same directions, of vectors as short or long as the dtype holds."""
    largest = np.abs(x).max(initial=0) or 1.0
    return rounded(x / largest * 10.0 ** draw.whole(*POWERS[dtype]), dtype)


def _sizes(draw: Draw) -> tuple[Any, ...]:
    """B, H, G, Q, K, D, Dv, and a word for them."""
    (H, G), B = draw.of(HEADS), draw.of((1, 2, 3))
    Q, K, D, Dv = (draw.of(LENGTHS), draw.of(LENGTHS), draw.of((1, 2, 3, 5, 8, 11, 16)), 0)
    Dv = draw.of((1, 2, 3, 5, 8))
    word = draw.of(("tiny", "long", "wide", "empty", "large"), (90, 5, 3, 1.5, 0.5))
    if word == "long":
        Q, K = draw.of(((1, 130), (64, 64), (63, 130), (130, 63), (257, 257), (17, 96)))
        (B, H, G), D = draw.of(((1, 1, 1), (2, 2, 1), (1, 3, 3))), draw.of((2, 5, 8))
    if word == "wide":
        D, Dv = draw.of((31, 64, 65, 128)), draw.of((16, 64))
    if word == "large":
        (H, G), B, Q, K, D = draw.of(((1, 1), (2, 1))), 1, 65, 131, draw.of((64, 128))
    if word == "empty":
        lost = draw.whole(0, 4)
        B, Q, K, D, Dv = (0 if i == lost else n for i, n in enumerate((B, Q, K, D, Dv)))
    return B, H, G, Q, K, D, Dv, word


def _magnitude(draw: Draw, dtype: str) -> tuple[str, float, float, float]:
    """A word, and how large q, k and v are."""
    word = draw.of(("one", "small", "tiny", "large", "huge"), (70, 10, 6, 8, 6))
    if word == "one":
        return word, 1.0, 1.0, draw.of((1.0, 1.0, 30.0))
    top = 2 if dtype == "float16" else 18
    low, high = {"small": (-2.3, -1), "tiny": (-9, -3), "large": (0.3, 1.6), "huge": (2, top)}[word]
    if word == "huge" and dtype == "float16":
        low = 1.5
    sizes = [10 ** float(draw.random.uniform(low, high)) for _ in range(3)]
    if draw.chance(0.3):
        sizes[draw.whole(0, 2)] = 1.0
    return word, *sizes


def _tensors(draw: Draw, dtype: str, shape: tuple[Any, ...], size: Any) -> list[Array]:
    B, H, G, Q, K, D, Dv, _ = shape
    found = []
    for (heads, length, width), scale in zip(
        ((H, Q, D), (G, K, D), (G, K, Dv)), size[1:], strict=True
    ):
        x = draw.random.standard_normal((B, heads, length, width)) * scale
        if draw.chance(0.06):
            x = x * draw.mask(B, heads, length, 1)  # some vectors are zeros
        found.append(np.maximum(np.minimum(x, LARGEST[dtype]), -LARGEST[dtype]))
    return [rounded(x, dtype) for x in found]


# Scores of some 128 products stay inside of float32, which is all that is promised.
LARGEST = {"float64": 1e19, "float32": 2e18, "bfloat16": 2e18, "float16": 6e4}


def _may_run(call: Call) -> bool:
    """False if the backend surely refuses; `sdpa` and `flex` take folding scores and softmax."""
    folds = call.score[0] in ("scaled_dot", "dot", "cosine", "general", "location")
    soft = call.select[0] == "softmax"
    near = call.rule is not None and call.rule[0] in ("window", "around", "both", "either")
    able = {
        "sdpa": folds and soft,
        "flex": folds and soft,
        "chunked": near or call.score[0] == "additive",
        "triton": False,
    }
    return call.function == "attend" and able.get(call.backend, True)


def _widen_keys(draw: Draw, call: Call, size: float) -> None:
    """Give the keys a width of their own, where the score allows it."""
    width = draw.of((1, 2, 4, 7))
    keys = draw.random.standard_normal((*call.k.shape[:3], width)) * min(size, 1e4)
    keys = np.repeat(keys[:1], len(keys), 0) if call.strides == "expanded" else keys
    call.k = rounded(keys, call.dtype)
    if call.score[0] == "general":
        call.score = "general", draw.normal(call.dtype, call.full[1], call.q.shape[3], width)


def spoiled(call: Call) -> tuple[Array, Array]:
    """Keys (B, K) hidden from all of their row, and queries (B, H, Q) that see nothing."""
    visible = seen(call.rule, *call.full)
    return ~visible.any((1, 2)), ~visible.any(3)
