"""Tables in which a machine stands beside an LSTM that had as many episodes to learn from."""

from collections.abc import Iterable
from typing import Any

from regard.train.grids import Grid, Row

RATES = (3e-4, 1e-3, 3e-3, 1e-2)


def beside(base: Any, *, width: int, rates: Iterable[float] = RATES, layers: int = 3) -> Grid:
    """The machine of a recipe, and LSTMs of the paper's size at several rates."""
    sized = ("model=lstm", f"model.width={width}", f"model.layers={layers}")
    rows = [
        Row(
            f"LSTM {layers} × {width}, rate {rate:g}", (*sized, f"training.optimizer.rate={rate:g}")
        )
        for rate in rates
    ]
    return Grid("The machine beside LSTMs", base, (Row("NTM"), *rows))
