"""Greedy, sampled and beam decoding over anything that can `start` and `step`; knows no model."""

from regard.decode.beams import beam
from regard.decode.beginning import Beginning
from regard.decode.decoded import Decoded, along
from regard.decode.recorded import Recorded
from regard.decode.single import Draw, greedy, sample
from regard.decode.steps import Steps
from regard.decode.telling import Telling

__all__ = [
    "Beginning",
    "Decoded",
    "Draw",
    "Recorded",
    "Steps",
    "Telling",
    "along",
    "beam",
    "greedy",
    "sample",
]
