"""What an additive score costs beside scaled dot at the same sizes: operations, and time.

`python -m benchmarks scores`, on a CPU or a GPU. Nobody claims anything about these figures.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

import regard
from benchmarks.additive_gpu import DECODING, FLOAT, MAIN, Size, attended, runner
from benchmarks.measure import Row, race

ON_CPU = Size(2, 512, 512, 256, torch.float32)


@dataclass(frozen=True)
class Operations:
    """What attention needs for one pair of a query and a key, softmax and scale left out.

    Nothing that is computed once more to save memory counts.
    """

    multiply_adds: int
    additions: int = 0
    tanh: int = 0

    def __str__(self) -> str:
        parts = [f"{self.multiply_adds:,} multiply-adds"]
        parts += [f"{self.additions:,} additions"] if self.additions else []
        parts += [f"{self.tanh:,} tanh"] if self.tanh else []
        return ", ".join(parts)


def of_scaled_dot(size: Size, training: bool) -> Operations:
    """q · k and reading v; backward two products for each of them."""
    return Operations((size.D + size.E) * (3 if training else 1))


def of_additive(size: Size, training: bool) -> Operations:
    """Sum, tanh, product with the vector and reading v; backward as in `docs/kernels.md`."""
    forward = Operations(size.D + size.E, size.D, size.D)
    if not training:
        return forward
    # Reading has two products again. The vector has one; 1 − t² and its product with the gradient
    # of the score are one each; the sums over keys and over queries are additions.
    multiply_adds = forward.multiply_adds + 2 * size.E + 3 * size.D
    return Operations(multiply_adds, 3 * size.D, size.D)


def rows() -> Iterator[Row]:
    """A row for each size and direction, on the machine at hand."""
    if torch.cuda.is_available():
        yield from (_row(size, training) for size in (MAIN, FLOAT) for training in (False, True))
        yield _row(DECODING, False)
    else:
        yield from (_row(ON_CPU, training) for training in (False, True))


def _row(size: Size, training: bool) -> Row:
    additive, dot = _sides(size, training)
    found = race(additive, dot, rounds=11, inner=10 if torch.cuda.is_available() else 1)
    ours, theirs = of_additive(size, training), of_scaled_dot(size, training)
    return Row(
        f"Additive beside scaled dot, {size}, {'forward and backward' if training else 'forward'}",
        "",
        "",
        f"{found.times_the_time:.1f} × the time ({found}); for each of "
        f"{size.B * size.Q * size.K:,} pairs {ours}, against {theirs}",
        True,
    )


def _sides(size: Size, training: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """One call of `attend` with either score, on the same random inputs."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    new = partial(torch.randn, device=device, dtype=size.dtype)
    shapes = ((size.B, 1, size.Q, size.D), (size.B, 1, size.K, size.D), (size.B, 1, size.K, size.E))
    q, k, v = (new(shape, requires_grad=training) for shape in shapes)
    vector = new(1, size.D, requires_grad=training)
    upstream = [new(size.B, 1, size.Q, size.E)] if training else []
    additive = runner(attended, (q, k, v, vector), *upstream)
    return additive, runner(regard.attend, (q, k, v), *upstream)
