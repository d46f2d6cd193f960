"""How well does a query match a key? Each score maps q and k to (B, H, Q, K).

Any callable of the form `(q, k) -> (B, H, Q, K)` is a score. Those that live here are values with a
type, so that a faster kernel can recognise them; `DOT_PRODUCT_SCORES` are the ones that are a plain
dot product once q and k have been projected.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional.positions import distances
from regard.functional.precision import (
    cast_finite,
    tanh,
    to_float32,
    unit_vectors,
    without_autocast,
)

Score = Callable[[Tensor, Tensor], Tensor]
DotProductOperands = tuple[Tensor, Tensor, Number]


@dataclass(frozen=True)
class Dot:
    """Luong et al. 2015, 3.1 (dot): `q · k · scale`.

    With `scale=None` it is Vaswani et al. 2017, eq. 1: `q · k / √D`.
    """

    scale: Number | None = 1.0

    def fold(self, q: Tensor, k: Tensor) -> DotProductOperands:
        """Queries, keys and the scale whose plain dot product is this score."""
        return q, k, root_scale(q) if self.scale is None else self.scale

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse keys of another width than the queries."""
        check.shape("attend", "k", k, B=q.shape[0], H=k.shape[1], K=None, D=q.shape[3])

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "Dot":
        """This score for some queries of one head."""
        return self


dot = Dot(1.0)
scaled_dot = Dot(None)


@dataclass(frozen=True, eq=False)
class Cosine:
    """Graves et al. 2014, eq. 6: `strength · cos(q, k)`.

    A vector of zeros has no direction: it matches every other with 0.

    Args:
        strength: a number, or a tensor that broadcasts to (B, H, Q).
    """

    strength: Number | Tensor = 1.0

    def fold(self, q: Tensor, k: Tensor) -> DotProductOperands:
        """Unit vectors, with a strength for each query multiplied into q."""
        of_q, of_k = unit_vectors(q), unit_vectors(k).to(k.dtype)
        if isinstance(self.strength, Tensor):
            finite = of_q.isfinite().all(-1, keepdim=True)
            # a query that is not finite may be hidden later: it passes no NaN to the strength
            strong = of_q.where(finite, 0) * self.strength[..., None]
            return cast_finite(strong.where(finite, torch.nan), q.dtype), of_k, 1.0
        return of_q.to(q.dtype), of_k, float(self.strength)

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse keys of another width than the queries, and a strength that has no query."""
        Dot().check_shapes(q, k)
        # a number first: a compiler of dynamic numbers cannot ask what attributes one has
        if not isinstance(self.strength, (int, float)) and hasattr(self.strength, "__len__"):
            B, H, Q, _ = q.shape
            check.broadcastable("Cosine", "strength", self.strength, B=B, H=H, Q=Q)

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "Cosine":
        """This score for some queries of one head."""
        if not isinstance(self.strength, Tensor):
            return self
        return Cosine(index_rows(self.strength, batch, head, queries))


@dataclass(frozen=True, eq=False)
class Clipped:
    """Bello et al. 2016, A.1: `bound · tanh(score)`, so that no key is ever beyond all others.

    Args:
        score: what is clipped.
        bound: the highest score there can be.
    """

    score: Score
    bound: Number = 10.0

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        return self.bound * torch.tanh(self.score(q, k))


@dataclass(frozen=True, eq=False)
class General:
    """Luong et al. 2015, 3.1 (general): `q · weight · k`, with weight (H, D, Dk)."""

    weight: Tensor

    def __post_init__(self) -> None:
        _check_parameter("General", "weight", self.weight, H=None, D=None, Dk=None)

    def fold(self, q: Tensor, k: Tensor) -> DotProductOperands:
        """Queries projected into the space of the keys."""
        return cast_finite(_project_queries(q, self.weight), q.dtype), k, 1.0

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K Dk"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse a weight that does not lead from these queries to these keys."""
        check.shape("General", "weight", self.weight, H=q.shape[1], D=q.shape[3], Dk=k.shape[3])

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "General":
        """This score for some queries of one head."""
        return General(self.weight[head : head + 1])


@dataclass(frozen=True, eq=False)
class Location:
    """Luong et al. 2015, eq. 8 (location): `q · weight`, with weight (H, D, N) for N places.

    The keys' content plays no part. Fewer keys than N take the first places.
    """

    weight: Tensor

    def __post_init__(self) -> None:
        _check_parameter("Location", "weight", self.weight, H=None, D=None, N=None)

    def fold(self, q: Tensor, k: Tensor) -> DotProductOperands:
        """The columns of the weight stand in for the keys."""
        places = cast_finite(self.weight[:, :, : k.shape[2]].mT, q.dtype)  # (H, K, D)
        return q, places.expand(q.shape[0], -1, -1, -1), 1.0

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K Dk"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse a weight of other heads or widths, and more keys than it has places."""
        check.shape("Location", "weight", self.weight, H=q.shape[1], D=q.shape[3], N=None)
        K, N = k.shape[2], self.weight.shape[2]
        if K > N:
            raise ValueError(f"Location: {K} keys, but weight has N={N} places")

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "Location":
        """This score for some queries of one head."""
        return Location(self.weight[head : head + 1])


@dataclass(frozen=True, eq=False)
class Additive:
    """Bahdanau et al. 2015, A.1.2: `vector · tanh(q + k)`, q and k already projected.

    Luong's concat is the same with one matrix for both. `vector` is (H, D).
    """

    vector: Tensor

    def __post_init__(self) -> None:
        _check_parameter("Additive", "vector", self.vector, H=None, D=None)

    @without_autocast
    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        q, k = to_float32(q), to_float32(k)
        hidden = tanh(q[:, :, :, None] + k[:, :, None])  # (B, H, Q, K, D)
        return torch.einsum("bhqkd,hd->bhqk", hidden, self.vector.to(q.dtype))

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse a vector of other heads or widths than the queries."""
        Dot().check_shapes(q, k)
        check.shape("Additive", "vector", self.vector, H=q.shape[1], D=q.shape[3])

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "Additive":
        """This score for some queries of one head."""
        return Additive(self.vector[head : head + 1])


@dataclass(frozen=True, eq=False)
class Relative:
    """Shaw et al. 2018, eq. 4: `q · (k + r) · scale`, r learned for each distance.

    Args:
        keys: r (H, N, D) with N = 2·reach + 1, for the distances k − q from −reach to reach; what
            is farther takes the outermost. H = 1 is shared by all heads, as in the paper.
        scale: None gives the 1/√D of the paper.
        positions: where the queries stand (Q,); None puts the last query on the last key.
    """

    keys: Tensor
    scale: Number | None = 1.0
    positions: Tensor | None = None

    def __post_init__(self) -> None:
        _check_distances("Relative", "keys", self.keys, H=None, N=None, D=None)

    @without_autocast
    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        q, k, scale = Dot(self.scale).fold(to_float32(q), to_float32(k))
        q = q * scale
        by_distance = q @ self.keys.to(q.dtype).mT  # (B, H, Q, N)
        return q @ k.mT + _by_pair(by_distance, k.shape[2], self.positions)

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse distances of other heads or widths than the queries."""
        Dot().check_shapes(q, k)
        check.shape(
            "Relative", "keys", self.keys, H=_expected_heads(self.keys, q), N=None, D=q.shape[3]
        )

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "Relative":
        """This score for some queries of one head."""
        places = queries + offset if self.positions is None else self.positions[queries]
        return Relative(_head_slice(self.keys, head), self.scale, places)


@dataclass(frozen=True, eq=False)
class Factors:
    """Zhu et al. 2019, eq. 2: `(q · k + q · r + u · k + w · r) / √D`, without those that are None.

    Args:
        query_key: whether there is E1, `q · k`: what the query asks for and what the key says.
        distances: r (H, N, D) of E2, `q · r`: what the query asks for and how far away the key is,
            with N as in `Relative`.
        key: u (H, D) of E3, `u · k`: what the key says, whoever asks.
        position: `w · r` (H, N), which is E4: how far away the key is, whoever asks.
        positions: where the queries stand (Q,); None puts the last query on the last key.

    H = 1 is shared by all heads.
    """

    query_key: bool = True
    distances: Tensor | None = None
    key: Tensor | None = None
    position: Tensor | None = None
    positions: Tensor | None = None

    def __post_init__(self) -> None:
        if not self.query_key and self.distances is self.key is self.position is None:
            raise ValueError("Factors: expected at least one of the four factors, got none")
        N = None
        if self.distances is not None:
            _check_distances("Factors", "distances", self.distances, H=None, N=None, D=None)
            N = self.distances.shape[1]
        if self.key is not None:
            _check_parameter("Factors", "key", self.key, H=None, D=None)
        if self.position is not None:
            _check_distances("Factors", "position", self.position, H=None, N=N)

    @without_autocast
    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        q, k, scale = scaled_dot.fold(to_float32(q), to_float32(k))
        q, (B, H, Q, _), K = q * scale, q.shape, k.shape[2]
        u, w = (None if x is None else x.to(q)[:, None] * scale for x in (self.key, self.position))
        r = None if self.distances is None else self.distances.to(q)
        # q · k + u · k = (q + u) · k, and so with r: two products for four factors
        content = _total(q if self.query_key else None, u)
        by_distance = _total(None if r is None else q @ r.mT, w)
        if by_distance is not None:
            by_distance = _by_pair(by_distance.expand(B, H, Q, -1), K, self.positions)
        score = _total(None if content is None else content @ k.mT, by_distance)
        assert score is not None
        return score.expand(B, H, Q, K)

    def check_shapes(self, q: Tensor, k: Tensor) -> None:
        """Refuse factors of other heads or widths than the queries."""
        Dot().check_shapes(q, k)
        D = q.shape[3]
        if self.distances is not None:
            H = _expected_heads(self.distances, q)
            check.shape("Factors", "distances", self.distances, H=H, N=None, D=D)
        if self.key is not None:
            check.shape("Factors", "key", self.key, H=_expected_heads(self.key, q), D=D)
        if self.position is not None:
            check.shape(
                "Factors", "position", self.position, H=_expected_heads(self.position, q), N=None
            )

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor, offset: int) -> "Factors":
        """This score for some queries of one head."""
        places = queries + offset if self.positions is None else self.positions[queries]
        tables = (self.distances, self.key, self.position)
        r, u, w = (None if x is None else _head_slice(x, head) for x in tables)
        return Factors(self.query_key, r, u, w, places)


DOT_PRODUCT_SCORES = (Dot, Cosine, General, Location)
# Those that ask where the queries stand.
POSITIONAL_SCORES = (Relative, Factors)
KNOWN_SCORES = (*DOT_PRODUCT_SCORES, Additive, *POSITIONAL_SCORES)


def root_scale(q: Tensor) -> float:
    """1/√D, and 1 for D = 0; its last bit is that of PyTorch's fused kernels, not `D ** -0.5`."""
    return 1 / math.sqrt(q.shape[-1] or 1)


def index_rows(x: Tensor, batch: int, head: int, queries: Tensor) -> Tensor:
    """What broadcasts to (B, H, Q, …), for some queries of one batch row and head: (1, 1, n, …)."""
    x = x[(None,) * (3 - x.dim())]
    batch, head = (i if n > 1 else 0 for i, n in zip((batch, head), x.shape[:2], strict=True))
    row = x[batch : batch + 1, head : head + 1]
    return row[:, :, queries] if x.shape[2] > 1 else row


def _total(*parts: Tensor | None) -> Tensor | None:
    """The sum of those that are there."""
    there = [part for part in parts if part is not None]
    return sum(there[1:], there[0]) if there else None


def _by_pair(by_distance: Tensor, K: int, positions: Tensor | None) -> Tensor:
    """What is there for each distance (B, H, Q, N), for each pair of a query and a key."""
    B, H, Q, N = by_distance.shape
    reach = N // 2
    apart = distances(Q, K, positions=positions, device=by_distance.device).clamp(-reach, reach)
    return by_distance.gather(3, (apart + reach).expand(B, H, -1, -1))


def _expected_heads(table: Tensor, q: Tensor) -> int:
    """How many heads a table of distances must have: all share one, or each has its own."""
    return 1 if table.shape[0] == 1 else q.shape[1]


def _head_slice(table: Tensor, head: int) -> Tensor:
    return table if table.shape[0] == 1 else table[head : head + 1]


def _check_parameter(where: str, name: str, parameter: Tensor, **sizes: int | None) -> None:
    """Refuse a parameter that cannot be computed with, or of another shape."""
    check.supported_dtype(where, name, parameter)
    check.shape(where, name, parameter, **sizes)


def _check_distances(where: str, name: str, table: Tensor, **sizes: int | None) -> None:
    """Refuse a parameter for an even number of distances."""
    _check_parameter(where, name, table, **sizes)
    if (N := table.shape[1]) % 2 == 0:
        raise ValueError(
            f"{where}: expected {name} for an odd number of distances N = 2·reach + 1, got N={N}"
        )


@without_autocast
def _product(score: Dot | Cosine | General | Location, q: Tensor, k: Tensor) -> Tensor:
    # folded before they are widened: what fused kernels round is rounded here as well
    q, k, scale = score.fold(q, k)
    # scale q, not the product: fewer numbers, and large ones do not overflow before they shrink
    return (to_float32(q) * scale) @ to_float32(k).mT


@without_autocast
def _project_queries(q: Tensor, weight: Tensor) -> Tensor:
    """Queries (B, H, Q, D) times a weight (H, D, Dk); one that is not finite is NaN."""
    finite = q.isfinite().all(-1, keepdim=True)
    # such a query may be hidden later: it passes no NaN back to the weight
    clean = to_float32(q).where(finite, 0)
    return (clean @ weight.to(clean.dtype)).where(finite, torch.nan)
