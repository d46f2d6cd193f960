"""Attention with weights: modules that hold parameters, and nothing that a function can say."""

from regard.layers.blocks import AddNorm, DecoderBlock, Dropped, EncoderBlock, Scores
from regard.layers.caches import Cache, StaticCache
from regard.layers.classic import Additive, Dot, General, Location
from regard.layers.coverage import Coverage, LocationAware
from regard.layers.feed_forward import FeedForward
from regard.layers.learned_queries import LearnedQueries
from regard.layers.local import LocalM, LocalP
from regard.layers.multi_head import MultiHead
from regard.layers.positions import Learned, RelativeBias, Rotary, Sinusoidal, Unplaced
from regard.layers.ready import prepared
from regard.layers.scores import (
    AdditiveScore,
    CosineScore,
    FactorsScore,
    GeneralScore,
    LocationScore,
    RelativeScore,
)

__all__ = [
    "AddNorm",
    "Additive",
    "AdditiveScore",
    "Cache",
    "CosineScore",
    "Coverage",
    "DecoderBlock",
    "Dot",
    "Dropped",
    "EncoderBlock",
    "FactorsScore",
    "FeedForward",
    "General",
    "GeneralScore",
    "Learned",
    "LearnedQueries",
    "LocalM",
    "LocalP",
    "Location",
    "LocationAware",
    "LocationScore",
    "MultiHead",
    "RelativeBias",
    "RelativeScore",
    "Rotary",
    "Scores",
    "Sinusoidal",
    "StaticCache",
    "Unplaced",
    "prepared",
]
