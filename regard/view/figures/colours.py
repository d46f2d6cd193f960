"""How a weight becomes a colour: in figures as on the page (`page/src/lib/colour.ts`)."""

from typing import TYPE_CHECKING, Literal

from regard.check import Number

if TYPE_CHECKING:
    import matplotlib.colors

Scale = Literal["linear", "sqrt", "log"]

# Seventeen places of cividis, which reads the same with and without red; between them is mixed.
CIVIDIS = (
    *("#00224e", "#002e6a", "#1a386f", "#32436d", "#434e6c", "#535a6d", "#61656f", "#6f7073"),
    *("#7d7c78", "#8c8878", "#9b9476", "#aba072", "#bcae6c", "#cdbb63", "#dec958", "#f0d846"),
    "#fee838",
)
# The smallest weight that the logarithm tells from none.
MIN_LOG_WEIGHT = 1e-4


def hex_colour(share: Number) -> str:
    """The colour of a share from 0 to 1.

    >>> hex_colour(0.0), hex_colour(0.5), hex_colour(1.0)
    ('#00224e', '#7d7c78', '#fee838')
    """
    place = min(1.0, max(0.0, share)) * (len(CIVIDIS) - 1)
    low = min(int(place), len(CIVIDIS) - 2)
    pairs = zip(_rgb_channels(CIVIDIS[low]), _rgb_channels(CIVIDIS[low + 1]), strict=True)
    return "#" + "".join(f"{int(a + (b - a) * (place - low) + 0.5):02x}" for a, b in pairs)


def colormap() -> "matplotlib.colors.Colormap":
    """The colours of shares from 0 to 1, so many that none is off by more than the page rounds."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("regard", CIVIDIS, N=4097)


def weight_norm(max_weight: Number, scale: Scale) -> "matplotlib.colors.Normalize":
    """Where a weight stands between none and the greatest, as a share from 0 to 1."""
    from matplotlib.colors import LogNorm, Normalize, PowerNorm

    top = max(float(max_weight), 1e-9)
    if scale == "linear":
        return Normalize(0, top)
    if scale == "sqrt":
        return PowerNorm(0.5, 0, top)
    if scale == "log":
        # what is smaller, or nothing, has the darkest colour
        return LogNorm(MIN_LOG_WEIGHT, max(top, 2 * MIN_LOG_WEIGHT), clip=True)
    raise ValueError(f"plots: expected scale linear, sqrt or log, got {scale!r}")


def _rgb_channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
