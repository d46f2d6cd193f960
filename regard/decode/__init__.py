"""Greedy, sampled and beam decoding over anything that can `start` and `step`; knows no model."""

from regard.decode.beams import beam
from regard.decode.decoded import Decoded, along
from regard.decode.recorded import Recorded
from regard.decode.single import Draw, greedy, sample
from regard.decode.steps import Steps

__all__ = ["Decoded", "Draw", "Recorded", "Steps", "along", "beam", "greedy", "sample"]
