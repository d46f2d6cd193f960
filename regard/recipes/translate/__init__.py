"""Translate: recurrent nets without and with attention, and Transformers, on any sentence pairs.

    regard train translate                            10,000 short English-French pairs
    regard train translate model.attention=none       the same without attention
    regard train translate data.pairs=mine.tsv        your own pairs
    regard train translate like=transformer           a Transformer on Multi30k, English to German
    regard train translate like=rnn                   Bahdanau's net on the same
    regard train translate grid=luong                 a whole table

Expect BLEU 39 of the first on 1,000 held-out pairs, 14 without attention. All numbers with their
seeds, times, hardware and commands: docs/results.md.
"""

from regard.recipes.translate.config import LIKE, Config
from regard.recipes.translate.grids import COLUMNS, GRIDS
from regard.recipes.translate.measuring import Evaluation, compared, evaluate
from regard.recipes.translate.remarks import notes
from regard.recipes.translate.showing import Prediction, asks, placed, predict, trace, typed
from regard.recipes.translate.training import Result, run
from regard.recipes.translate.training import numbers as known

__all__ = [
    "COLUMNS",
    "GRIDS",
    "LIKE",
    "Config",
    "Evaluation",
    "Prediction",
    "Result",
    "asks",
    "compared",
    "evaluate",
    "known",
    "notes",
    "placed",
    "predict",
    "run",
    "trace",
    "typed",
]
