"""Greedy, sampled and beam decoding over anything that can `start` and `step`; knows no model."""

from regard.decode.beam_search import beam
from regard.decode.cuda_graph_cache import CudaGraphCache
from regard.decode.greedy_and_sample import Draw, greedy, sample
from regard.decode.hypotheses import Hypotheses, hypothesis_weights
from regard.decode.prefix import ForcedPrefix
from regard.decode.progress import ProgressReporter
from regard.decode.steps import StepModel

__all__ = [
    "CudaGraphCache",
    "Draw",
    "ForcedPrefix",
    "Hypotheses",
    "ProgressReporter",
    "StepModel",
    "beam",
    "greedy",
    "hypothesis_weights",
    "sample",
]
