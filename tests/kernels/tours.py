"""Tables of points that kernels of tours go by, and tours through them."""

import torch

from regard.functional.pointing_rules import visit_steps
from regard.kernels.tour.types import Sizes, Tables
from regard.layers.tour_decoder import PointTables, TourDecoder

B, N, S, E, H = 3, 13, 5, 32, 2
LENGTHS = torch.tensor([13, 7, 11])


def tables(points: int = N, *, dtype: torch.dtype = torch.float32) -> Tables:
    """What could be known of points, some of which are padding where there are 13."""
    sizes = [(B, points, E)] * 5 + [(B, E), (E,)]
    lengths = LENGTHS if points == N else torch.full((B,), points)
    return Tables(*(torch.randn(size, dtype=dtype) for size in sizes), lengths)


def starts(points: int = N) -> torch.Tensor:
    """Where several tours of each row begin."""
    return torch.randint(min(points, 7), (B, S))


def when(tours: torch.Tensor, points: int = N) -> torch.Tensor:
    """At which step of each tour each point is taken."""
    return visit_steps((tours + 1).flatten(0, 1), points + 1)[:, 1:].view(B, -1, points)


def sizes(clip: float = 10.0) -> Sizes:
    return Sizes(H, clip)


def likely(made: Tables, clip: float = 10.0) -> torch.Tensor:
    """How likely each point comes second in tours that begin at point 0 (B, points)."""
    touring, zero = TourDecoder(E, H, clip=clip), torch.zeros(B, 1, dtype=torch.long)
    places, points = PointTables(*made[:6], made.lengths), made.keys.shape[1]
    left = torch.arange(points).expand(B, 1, points) > 0
    return touring(places, touring.queries(places, zero, zero), left).softmax(-1)[:, 0].detach()
