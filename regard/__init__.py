"""Regard: the whole family of attention, working. Score, select, read, under a rule."""

import sys

from regard import layers
from regard.door import attend, log_probability, logits, use_backend, weigh, why
from regard.functional import biases, rules, scores, selects
from regard.looking import look

# `from regard.rules import causal` works as well as `regard.rules.causal`
for _module in (biases, rules, scores, selects):
    sys.modules[f"regard.{_module.__name__.rpartition('.')[2]}"] = _module

__version__ = "0.1.0"

__all__ = [
    "attend",
    "biases",
    "layers",
    "log_probability",
    "logits",
    "look",
    "rules",
    "scores",
    "selects",
    "use_backend",
    "weigh",
    "why",
]
