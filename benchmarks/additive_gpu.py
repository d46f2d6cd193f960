"""Bahdanau's score on a GPU: `attend` against the eager formula and the compiled one.

A term is one tanh: of one query, one key and one number of their width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

import regard
from benchmarks.measure import Race, Row, alone, gpu_peak, in_words, race
from regard import rules, scores
from regard.functional.call import Why

DEVICE = "cuda"
CALLS = 10
# The units for tanh take 16 numbers a clock in every multiprocessor; an H200 runs at 1.98 GHz.
TANH_A_CLOCK, CLOCK = 16, 1.98e9

Read = Callable[..., Tensor]
Run = Callable[[], tuple[Tensor, ...]]
Found = tuple[str, bool]


@dataclass(frozen=True)
class Size:
    """The sizes of a call with one head; values are as wide as the keys up to 512."""

    B: int
    Q: int
    K: int
    D: int
    dtype: torch.dtype = torch.bfloat16

    @property
    def E(self) -> int:
        """How wide values are."""
        return min(self.D, 512)

    @property
    def terms(self) -> int:
        """How many tanh a forward pass takes."""
        return self.B * self.Q * self.K * self.D

    def __str__(self) -> str:
        lengths = f"T {self.K}" if self.Q == self.K else f"Q {self.Q}, K {self.K}"
        dtype = str(self.dtype).removeprefix("torch.")
        widths = f"D = Dv = {self.D}" if self.D == self.E else f"D = {self.D}, Dv = {self.E}"
        return f"B {self.B}, {lengths}, {widths}, {dtype}"


MAIN = Size(16, 1024, 1024, 256)
DECODING = Size(64, 1, 4096, 512)
LONG = Size(1, 16384, 16384, 256)
SMALL = Size(32, 64, 64, 256)
HALF = Size(4, 4096, 4096, 256)
FLOAT = Size(16, 1024, 1024, 256, torch.float32)
WIDTHS = (Size(16, 1024, 1024, 64), Size(16, 1024, 1024, 1024))


def attended(q: Tensor, k: Tensor, v: Tensor, vector: Tensor) -> Tensor:
    """Through `attend`."""
    return regard.attend(q, k, v, score=scores.Additive(vector))


def formula(q: Tensor, k: Tensor, v: Tensor, vector: Tensor) -> Tensor:
    """As it is written everywhere: the (Q, K, D) tensor of tanh values."""
    score = torch.tanh(q[:, :, :, None] + k[:, :, None]) @ vector[0]
    return score.softmax(-1) @ v


@dataclass(frozen=True)
class Case:
    """The random inputs of a size, on which all sides run; with gradients if it is training."""

    size: Size
    training: bool = False

    @cached_property
    def leaves(self) -> tuple[Tensor, ...]:
        """q, k, v and vector."""
        B, Q, K, D, E = self.size.B, self.size.Q, self.size.K, self.size.D, self.size.E
        shapes = ((B, 1, Q, D), (B, 1, K, D), (B, 1, K, E), (1, D))
        drawn = (torch.randn(shape, device=DEVICE, dtype=self.size.dtype) for shape in shapes)
        return tuple(leaf.requires_grad_(self.training) for leaf in drawn)

    @cached_property
    def upstream(self) -> tuple[Tensor, ...]:
        """The gradient of the output; nothing where none is asked for."""
        B, Q, E = self.size.B, self.size.Q, self.size.E
        shape, dtype = (B, 1, Q, E), self.size.dtype
        return (torch.randn(shape, device=DEVICE, dtype=dtype),) if self.training else ()

    @cached_property
    def ours(self) -> Run:
        return runner(attended, self.leaves, *self.upstream)

    @cached_property
    def eager(self) -> Run:
        return runner(formula, self.leaves, *self.upstream)

    @cached_property
    def compiled(self) -> Run:
        return runner(fresh(formula), self.leaves, *self.upstream)

    def races(self, *, rounds: int = 10, inner: int = 5) -> tuple[Race, Race]:
        """Ours in turns with the eager formula, and with the compiled one."""
        eager = race(self.ours, self.eager, rounds=rounds, inner=inner, warm=3)
        return eager, race(self.ours, self.compiled, rounds=rounds, inner=inner, warm=3)

    def row(self, claim: str, must: str, aim: str, measured: Callable[[], Found]) -> Row:
        """The claim as measured; missed, and not measured, if another backend takes the call."""
        q, k, v, vector = self.leaves
        why = regard.why(q, k, v, score=scores.Additive(vector))
        return Row(claim, must, aim, *(unfused(why) or measured()))


def runner(read: Read, leaves: tuple[Tensor, ...], upstream: Tensor | None = None) -> Run:
    """What reads once from the leaves: the output, and all gradients for one of the output."""

    def once() -> tuple[Tensor, ...]:
        out = read(*leaves)
        return (out,) if upstream is None else (out, *torch.autograd.grad(out, leaves, upstream))

    return once


def fresh(read: Read, dynamic: bool = False) -> Read:
    """`read` compiled for the sizes it will see, or for any; whatever was compiled before."""
    torch.compiler.reset()
    return torch.compile(read, dynamic=dynamic)


def unfused(why: Why) -> Found | None:
    """What to say of a call that the fused kernel does not take; None if it does."""
    if why.backend == "triton":
        return None
    reason = why.reasons["triton"] or "could, but another comes first"
    return f"not measured: {why.backend} takes the call; triton: {reason}", False


def same_bits(run: Run) -> int:
    """How many of so many calls give the very bits of the first, which is one of them."""

    def bits() -> list[Tensor]:
        return [found.detach().contiguous().view(torch.uint8) for found in run()]

    first = bits()
    return 1 + sum(all(map(torch.equal, first, bits())) for _ in range(CALLS - 1))


def reading(*tensors: Tensor) -> Callable[[], Tensor]:
    """Copies as many bytes as these tensors hold, which reads them once and writes them once."""
    size = sum(x.nbytes for x in tensors)
    source, copy = (torch.zeros(size, device=DEVICE, dtype=torch.uint8) for _ in range(2))
    return lambda: copy.copy_(source)


def rate(size: Size, seconds: float) -> str:
    """Terms a second, also as a share of one tanh a term on the units for it."""
    found = size.terms / seconds
    units = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    cap = units * TANH_A_CLOCK * CLOCK
    return (
        f"{found / 1e12:.2f} × 10¹² terms/s, {found / cap:.0%} of the {cap / 1e12:.2f} × 10¹² of "
        "the tanh units"
    )


def over(eager: Race, compiled: Race) -> str:
    """Two races in words."""
    return (
        f"{eager.times_faster:.1f} × eager ({eager}), "
        f"{compiled.times_faster:.1f} × torch.compile ({compiled})"
    )


def rows() -> Iterator[Row]:
    """The claims about the additive score on a GPU, and figures without a claim."""
    yield _forward()
    yield _training()
    yield _decoding()
    yield _long()
    yield _small()
    yield _causal()
    yield _figure(FLOAT, training=False)
    yield _figure(FLOAT, training=True)
    yield _log_probability()
    yield from map(_width, WIDTHS)


def _forward() -> Row:
    case = Case(MAIN)

    def measured() -> Found:
        eager, compiled = case.races(inner=20)
        words = f"{over(eager, compiled)}; {rate(MAIN, compiled.ours)}"
        return words, eager.times_faster >= 16 and compiled.times_faster >= 4.5

    return case.row(
        f"Additive, {MAIN}, forward, over eager `tanh(q + k) @ vector` and torch.compile of it; "
        "terms (one tanh each) against the peak of the tanh units: multiprocessors × "
        f"{TANH_A_CLOCK} a clock × {CLOCK / 1e9} GHz",
        "≥ 16 × eager, ≥ 4.5 × torch.compile",
        "≥ 6 × 10¹² terms/s",
        measured,
    )


def _training() -> Row:
    case = Case(MAIN, training=True)

    def measured() -> Found:
        eager, compiled = case.races(inner=10)
        held = (*case.leaves, *case.upstream)
        peak, theirs, fused = (
            gpu_peak(run, *held) for run in (case.ours, case.eager, case.compiled)
        )
        same = same_bits(case.ours)
        words = (
            f"{over(eager, compiled)}; {peak:.2f} GiB (eager {theirs:.2f}, torch.compile "
            f"{fused:.2f}); {same} of {CALLS} calls the same bits"
        )
        return words, compiled.times_faster >= 3.5 and peak <= 1 and same == CALLS

    return case.row(
        f"Additive, {MAIN}, forward and backward; peak of all allocated memory, inputs included; "
        "bits of the output and all four gradients",
        f"≥ 3.5 × torch.compile, peak memory ≤ 1 GiB, {CALLS} calls the same bits",
        "≥ 8 ×",
        measured,
    )


def _decoding() -> Row:
    case = Case(DECODING)

    def measured() -> Found:
        eager, compiled = case.races(inner=20)
        of_any_length = runner(fresh(formula, dynamic=True), case.leaves)
        growing = race(case.ours, of_any_length, rounds=10, inner=20, warm=3)
        _, k, v, _ = case.leaves
        copied = race(case.ours, reading(k, v), rounds=10, inner=20, warm=3)
        once = copied.theirs / 2
        words = (
            f"{over(eager, growing)}; compiled for this one length {compiled.times_faster:.1f} × "
            f"({compiled}); {copied.ours / once:.2f} × reading K and V once "
            f"({in_words(copied.ours)} against {in_words(once)})"
        )
        return words, eager.times_faster >= 3 and growing.times_faster >= 2

    return case.row(
        f"Additive, {DECODING}, forward (decoding), over eager and over torch.compile for any "
        "length (K grows with every token; then compiled for this one length); reading K and V "
        "once is half the time of a copy of as many bytes, which reads and writes",
        "≥ 3 × eager, ≥ 2 × torch.compile",
        "≤ 1.3 × reading K and V once",
        measured,
    )


def _long() -> Row:
    case = Case(LONG, training=True)

    def measured() -> Found:
        seconds = alone(case.ours, rounds=5)
        inputs = sum(leaf.nbytes for leaf in case.leaves) / 2**30
        peak = gpu_peak(case.ours, *case.leaves, *case.upstream)
        words = f"{peak / inputs:.1f} × ({peak:.3f} of {inputs:.3f} GiB) in {in_words(seconds)}"
        return words, peak <= 8 * inputs

    return case.row(
        f"Additive, {LONG}, forward and backward: peak of all allocated memory over q, k, v and "
        "vector",
        "runs, peak memory ≤ 8 × the inputs",
        "",
        measured,
    )


def _small() -> Row:
    case = Case(SMALL, training=True)

    def measured() -> Found:
        found = case.races(rounds=20, inner=50)
        return over(*found), all(each.times_faster >= 1.5 for each in found)

    return case.row(
        f"Additive, {SMALL}, forward and backward (small)",
        "≥ 1.5 × eager and torch.compile",
        "≥ 4 ×",
        measured,
    )


def _causal() -> Row:
    case = Case(HALF)
    q, k, v, vector = case.leaves
    score = scores.Additive(vector)

    def measured() -> Found:
        if against := unfused(regard.why(q, k, v, score=score, rule=rules.causal)):
            return against
        causal = runner(partial(regard.attend, score=score, rule=rules.causal), (q, k, v))
        found = race(causal, case.ours, rounds=15, inner=3, warm=3)
        return f"{found.times_the_time:.3f} × ({found})", found.times_the_time <= 0.6

    return case.row(
        f"Additive, {HALF}, forward, causal over full", "≤ 0.6 × the time", "0.52 ×", measured
    )


def _figure(size: Size, training: bool) -> Row:
    case = Case(size, training)

    def measured() -> Found:
        eager, compiled = case.races(inner=3)
        speed = "" if training else f"; {rate(size, compiled.ours)}"
        return f"{over(eager, compiled)}{speed}", True

    passes = "forward and backward" if training else "forward"
    return case.row(f"Additive, {size}, {passes}", "", "", measured)


def _width(size: Size) -> Row:
    case = Case(size)

    def measured() -> Found:
        seconds = alone(case.ours, rounds=15, inner=3)
        return f"{rate(size, seconds)} ({in_words(seconds)})", True

    return case.row(f"Additive, {size}, forward", "", "", measured)


def _log_probability() -> Row:
    case = Case(MAIN, training=True)
    q, k, _, vector = case.leaves
    index = torch.randint(MAIN.K, q.shape[:3], device=DEVICE)
    upstream = torch.randn(index.shape, device=DEVICE, dtype=q.dtype)

    def ours(q: Tensor, k: Tensor, vector: Tensor) -> Tensor:
        return regard.log_probability(q, k, index, score=scores.Additive(vector))

    def theirs(q: Tensor, k: Tensor, vector: Tensor) -> Tensor:
        score = torch.tanh(q[:, :, :, None] + k[:, :, None]) @ vector[0]
        return score.log_softmax(-1).gather(-1, index[..., None])[..., 0]

    def measured() -> Found:
        sides = (runner(read, (q, k, vector), upstream) for read in (ours, fresh(theirs)))
        found = race(*sides, rounds=10, inner=3, warm=3)
        return f"{found.times_faster:.1f} × torch.compile ({found})", True

    with regard.look() as seen:  # `why` speaks of `attend`; what ran here, a look knows
        ours(q, k, vector)
    (name,) = seen
    return Row(
        f"`log_probability` of Additive, {MAIN}, forward and backward, over torch.compile of "
        "`log_softmax` and `gather`",
        "",
        "",
        *(unfused(seen[name].why) or measured()),
    )
