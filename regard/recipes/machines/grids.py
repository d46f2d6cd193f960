"""Tables in which a machine stands beside an LSTM that had as many episodes to learn from."""

from collections.abc import Iterable
from typing import Any

from regard.train.grids import Grid, Row

RATES = (3e-4, 1e-3, 3e-3, 1e-2)


def beside(base: Any, *, width: int, layers: int = 3) -> Grid:
    """The machine of a recipe, and LSTMs of the paper's size at several rates."""
    rows = (Row("NTM"), *nets(width=width, layers=layers))
    return Grid("The machine beside LSTMs", base, rows)


def nets(*, width: int, layers: int = 3, also: Iterable[str] = ()) -> tuple[Row, ...]:
    """A row for an LSTM at each of several rates.

    Args:
        also: what else they are told, as typed on the command line.
    """
    sized = ("model=lstm", f"model.width={width}", f"model.layers={layers}", *also)
    return tuple(
        Row(
            f"LSTM {layers} × {width}, rate {rate:g}", (*sized, f"training.optimizer.rate={rate:g}")
        )
        for rate in RATES
    )
