"""What a tour goes by: tables of the points, and how they are read."""

from typing import NamedTuple

from torch import Tensor


class Tables(NamedTuple):
    """What is known of the points, (B, N, E) each but for the last three."""

    keys: Tensor
    values: Tensor
    pointers: Tensor
    first: Tensor  # what it means for a query to have begun here
    last: Tensor  # and to be here now
    fixed_context: Tensor  # (B, E): what is part of every query
    begin: Tensor  # (E,): what is part of a query that has not begun
    lengths: Tensor  # (B,): how many points there are, at least one


class Sizes(NamedTuple):
    """How the tables are read."""

    heads: int
    clip: float = 0.0  # the highest score of a point; 0 where none is
