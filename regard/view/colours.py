"""Weights as colours without matplotlib: cividis, which reads the same with and without red."""

from regard.check import Number

# Seventeen places of matplotlib's map, between which colours are mixed.
CIVIDIS = (
    *("#00224e", "#002e6a", "#1a386f", "#32436d", "#434e6c", "#535a6d", "#61656f", "#6f7073"),
    *("#7d7c78", "#8c8878", "#9b9476", "#aba072", "#bcae6c", "#cdbb63", "#dec958", "#f0d846"),
    "#fee838",
)


def colour(share: Number) -> str:
    """The colour of a share from 0 to 1.

    >>> colour(0.0), colour(0.5), colour(1.0)
    ('#00224e', '#7d7c78', '#fee838')
    """
    place = min(1.0, max(0.0, share)) * (len(CIVIDIS) - 1)
    low = min(int(place), len(CIVIDIS) - 2)
    pairs = zip(_channels(CIVIDIS[low]), _channels(CIVIDIS[low + 1]), strict=True)
    return "#" + "".join(f"{int(a + (b - a) * (place - low) + 0.5):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
