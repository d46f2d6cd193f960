"""Attention with weights: modules that hold parameters, and nothing that a function can say."""

from regard.layers.blocks import AddNorm, DecoderBlock, DecoderScores, DropoutRates, EncoderBlock
from regard.layers.caches import Cache, StaticCache
from regard.layers.coverage import Coverage, LocationAware
from regard.layers.feed_forward import FeedForward
from regard.layers.learned_queries import LearnedQueries
from regard.layers.local_attention import LocalM, LocalP
from regard.layers.multi_head import MultiHead
from regard.layers.positions import Learned, NoPositions, RelativeBias, Rotary, Sinusoidal
from regard.layers.scores import (
    AdditiveScore,
    CosineScore,
    FactorsScore,
    GeneralScore,
    LocationScore,
    RelativeScore,
)
from regard.layers.single_head import Additive, Dot, General, Location

__all__ = [
    "AddNorm",
    "Additive",
    "AdditiveScore",
    "Cache",
    "CosineScore",
    "Coverage",
    "DecoderBlock",
    "DecoderScores",
    "Dot",
    "DropoutRates",
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
    "NoPositions",
    "RelativeBias",
    "RelativeScore",
    "Rotary",
    "Sinusoidal",
    "StaticCache",
]
