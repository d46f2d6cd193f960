"""Grids that compare the NTM of a recipe with LSTMs trained on as many episodes."""

from collections.abc import Iterable
from typing import Any

from regard.train.grids import Grid, Row

LSTM_LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2)


def lstm_comparison_grid(base: Any, *, width: int, layers: int = 3) -> Grid:
    """A grid of the NTM of a recipe and LSTMs of the paper's size at several learning rates."""
    rows = (Row("NTM"), *lstm_rows(width=width, layers=layers))
    return Grid("NTM against LSTMs", base, rows)


def lstm_rows(*, width: int, layers: int = 3, settings: Iterable[str] = ()) -> tuple[Row, ...]:
    """One row for an LSTM at each learning rate.

    Args:
        settings: further settings, as typed on the command line.
    """
    sized = ("model=lstm", f"model.width={width}", f"model.layers={layers}", *settings)
    return tuple(
        Row(
            f"LSTM {layers} × {width}, rate {rate:g}", (*sized, f"training.optimizer.rate={rate:g}")
        )
        for rate in LSTM_LEARNING_RATES
    )
