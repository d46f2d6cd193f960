"""Regard: the whole family of attention, working. Score, select, read, under a rule."""

from regard.door import attend, log_probability, logits, use_backend, weigh, why
from regard.functional import biases, rules, scores, selects
from regard.looking import look

__version__ = "0.1.0"

__all__ = [
    "attend",
    "biases",
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
