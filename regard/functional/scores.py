"""How well does a query match a key? Each score maps q and k to (B, H, Q, K).

Any callable of the form `(q, k) -> (B, H, Q, K)` is a score. Those that live here are values with a
type, so that a faster kernel can recognise them; `folds` names the ones that are a plain dot
product once q and k have been projected.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional.positions import distances
from regard.functional.precision import wide

Score = Callable[[Tensor, Tensor], Tensor]
Folded = tuple[Tensor, Tensor, Number]


@dataclass(frozen=True)
class Dot:
    """Luong et al. 2015, 3.1 (dot): `q · k · scale`.

    With `scale=None` it is Vaswani et al. 2017, eq. 1: `q · k / √D`.
    """

    scale: Number | None = 1.0

    def fold(self, q: Tensor, k: Tensor) -> Folded:
        """Queries, keys and the scale whose plain dot product is this score."""
        return q, k, q.shape[-1] ** -0.5 if self.scale is None else self.scale

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def fits(self, q: Tensor, k: Tensor) -> None:
        """Refuse keys of another width than the queries."""
        check.shape("attend", "k", k, B=q.shape[0], H=k.shape[1], K=None, D=q.shape[3])

    def part(self, batch: int, head: int, queries: Tensor, offset: int) -> "Dot":
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

    def fold(self, q: Tensor, k: Tensor) -> Folded:
        """Unit vectors, with a strength for each query multiplied into q."""
        if isinstance(self.strength, Tensor):
            strong = _unit(q) * self.strength[..., None]
            return strong.to(q.dtype), _unit(k).to(k.dtype), 1.0
        return _unit(q).to(q.dtype), _unit(k).to(k.dtype), float(self.strength)

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def fits(self, q: Tensor, k: Tensor) -> None:
        """Refuse keys of another width than the queries, and a strength that has no query."""
        Dot().fits(q, k)
        if isinstance(self.strength, Tensor):
            B, H, Q, _ = q.shape
            check.broadcasts("Cosine", "strength", self.strength, B=B, H=H, Q=Q)

    def part(self, batch: int, head: int, queries: Tensor, offset: int) -> "Cosine":
        """This score for some queries of one head."""
        if not isinstance(self.strength, Tensor):
            return self
        return Cosine(picked(self.strength, batch, head, queries))


@dataclass(frozen=True, eq=False)
class General:
    """Luong et al. 2015, 3.1 (general): `q · weight · k`, with weight (H, D, Dk)."""

    weight: Tensor

    def __post_init__(self) -> None:
        check.shape("General", "weight", self.weight, H=None, D=None, Dk=None)

    def fold(self, q: Tensor, k: Tensor) -> Folded:
        """Queries projected into the space of the keys."""
        return q @ self.weight.to(q.dtype), k, 1.0

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K Dk"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def fits(self, q: Tensor, k: Tensor) -> None:
        """Refuse a weight that does not lead from these queries to these keys."""
        check.shape("General", "weight", self.weight, H=q.shape[1], D=q.shape[3], Dk=k.shape[3])

    def part(self, batch: int, head: int, queries: Tensor, offset: int) -> "General":
        """This score for some queries of one head."""
        return General(self.weight[head : head + 1])


@dataclass(frozen=True, eq=False)
class Location:
    """Luong et al. 2015, eq. 8 (location): `q · weight`, with weight (H, D, N) for N places.

    The keys' content plays no part. Fewer keys than N take the first places.
    """

    weight: Tensor

    def __post_init__(self) -> None:
        check.shape("Location", "weight", self.weight, H=None, D=None, N=None)

    def fold(self, q: Tensor, k: Tensor) -> Folded:
        """The columns of the weight stand in for the keys."""
        places = self.weight[:, :, : k.shape[2]].mT.to(q.dtype)  # (H, K, D)
        return q, places.expand(q.shape[0], -1, -1, -1), 1.0

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K Dk"]
    ) -> Float[Tensor, "B H Q K"]:
        return _product(self, q, k)

    def fits(self, q: Tensor, k: Tensor) -> None:
        """Refuse a weight of other heads or widths, and more keys than it has places."""
        check.shape("Location", "weight", self.weight, H=q.shape[1], D=q.shape[3], N=None)
        if k.shape[2] > self.weight.shape[2]:
            raise ValueError(
                f"Location: {k.shape[2]} keys, but weight has N={self.weight.shape[2]} places"
            )

    def part(self, batch: int, head: int, queries: Tensor, offset: int) -> "Location":
        """This score for some queries of one head."""
        return Location(self.weight[head : head + 1])


@dataclass(frozen=True, eq=False)
class Additive:
    """Bahdanau et al. 2015, A.1.2: `vector · tanh(q + k)`, q and k already projected.

    Luong's concat is the same with one matrix for both. `vector` is (H, D).
    """

    vector: Tensor

    def __post_init__(self) -> None:
        check.shape("Additive", "vector", self.vector, H=None, D=None)

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        q, k = wide(q), wide(k)
        hidden = torch.tanh(q[:, :, :, None] + k[:, :, None])  # (B, H, Q, K, D)
        return torch.einsum("bhqkd,hd->bhqk", hidden, self.vector.to(q.dtype))

    def fits(self, q: Tensor, k: Tensor) -> None:
        """Refuse a vector of other heads or widths than the queries."""
        Dot().fits(q, k)
        check.shape("Additive", "vector", self.vector, H=q.shape[1], D=q.shape[3])

    def part(self, batch: int, head: int, queries: Tensor, offset: int) -> "Additive":
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
        check.shape("Relative", "keys", self.keys, H=None, N=None, D=None)
        if self.keys.shape[1] % 2 == 0:
            raise ValueError(
                "Relative: expected keys for an odd number of distances N = 2·reach + 1, "
                f"got N={self.keys.shape[1]}"
            )

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        q, k, scale = Dot(self.scale).fold(wide(q), wide(k))
        q = q * scale
        reach = self.keys.shape[1] // 2
        apart = distances(q.shape[2], k.shape[2], positions=self.positions, device=q.device)
        place = apart.clamp(-reach, reach) + reach  # (Q, K)
        by_distance = q @ self.keys.to(q.dtype).mT  # (B, H, Q, N)
        return q @ k.mT + by_distance.gather(3, place.expand(*q.shape[:2], -1, -1))

    def fits(self, q: Tensor, k: Tensor) -> None:
        """Refuse distances of other heads or widths than the queries."""
        Dot().fits(q, k)
        H = 1 if self.keys.shape[0] == 1 else q.shape[1]
        check.shape("Relative", "keys", self.keys, H=H, N=None, D=q.shape[3])

    def part(self, batch: int, head: int, queries: Tensor, offset: int) -> "Relative":
        """This score for some queries of one head."""
        one = self.keys if self.keys.shape[0] == 1 else self.keys[head : head + 1]
        places = queries + offset if self.positions is None else self.positions[queries]
        return Relative(one, self.scale, places)


folds = (Dot, Cosine, General, Location)
known = (*folds, Additive, Relative)


def picked(given: Tensor, batch: int, head: int, queries: Tensor) -> Tensor:
    """What broadcasts to (B, H, Q), for some queries of one batch row and head: (1, 1, n)."""
    given = given[(None,) * (3 - given.dim())]
    batch, head = (i if n > 1 else 0 for i, n in zip((batch, head), given.shape[:2], strict=True))
    row = given[batch : batch + 1, head : head + 1]
    return row[:, :, queries] if given.shape[2] > 1 else row


def _product(score: Dot | Cosine | General | Location, q: Tensor, k: Tensor) -> Tensor:
    q, k, scale = score.fold(wide(q), wide(k))
    # scale q, not the product: fewer numbers, and large ones do not overflow before they shrink
    return (q * scale) @ k.mT


def _unit(x: Tensor) -> Tensor:
    x = wide(x)
    # a vector that is not finite stays so, but may be hidden later: it passes no NaN back
    clean = x.where(x.isfinite().all(-1, keepdim=True), 0)
    # the floor keeps zero vectors at zero with a finite gradient; any norm above 1e-6 is exact
    unit = clean * clean.square().sum(-1, keepdim=True).clamp_min(1e-12).rsqrt()
    return unit + (x - clean).detach()
