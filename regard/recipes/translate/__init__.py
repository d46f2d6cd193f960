"""Translate: recurrent nets without and with attention, and Transformers, on any sentence pairs.

    regard train translate                            10,000 short English-French pairs
    regard train translate model.attention=none       the same without attention
    regard train translate data.pairs=mine.tsv        your own pairs
    regard train translate preset=transformer         a Transformer on Multi30k, English to German
    regard train translate preset=rnn                 Bahdanau's net on the same
    regard train translate grid=luong                 a whole table

Expect BLEU 39 of the first on 1,000 held-out pairs, 14 without attention. All numbers with their
seeds, times, hardware and commands: docs/results.md.
"""

from regard.recipes.translate.config import PRESETS, Config
from regard.recipes.translate.grids import COLUMNS, GRIDS
from regard.recipes.translate.metrics import Evaluation, compare_runs, evaluate
from regard.recipes.translate.table_notes import notes
from regard.recipes.translate.traces import (
    Prediction,
    input_spec,
    parse_input,
    predict,
    to_model_edits,
    trace,
)
from regard.recipes.translate.train import Result, run
from regard.recipes.translate.train import card_metrics as card_metrics

__all__ = [
    "COLUMNS",
    "GRIDS",
    "PRESETS",
    "Config",
    "Evaluation",
    "Prediction",
    "Result",
    "card_metrics",
    "compare_runs",
    "evaluate",
    "input_spec",
    "notes",
    "parse_input",
    "predict",
    "run",
    "to_model_edits",
    "trace",
]
