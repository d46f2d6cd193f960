"""Notes on the tables of translate, as sentences computed from their numbers."""

import re
from statistics import fmean
from typing import Any

BLEU_METRIC = "bleu_lc_tok"
# The longest source, in words, that the models of the table of long sentences were trained on.
MAX_TRAINING_WORDS = 30
# BLEU that removing a factor costs: negligible up to the first, vital from the second on.
NEGLIGIBLE_BLEU, VITAL_BLEU = 0.7, 8.0
# The largest distance in BLEU from Bahdanau's model that counts as near.
NEAR_BLEU = 2.0
_QUERY_KEY_CONTENT, _KEY_CONTENT_ALONE = "query and key content", "key content alone"

Table = dict[str, Any]


def notes(table: Table) -> list[str]:
    """Sentences on a table of this recipe; an empty list for a grid without notes."""
    told = {"long": _length_notes, "zhu": _zhu_notes, "luong": _luong_notes}
    return told[table["grid"]](table) if table["grid"] in told else []


def bleu_by_length(table: Table) -> dict[str, dict[tuple[int, int], float]]:
    """The BLEU of each row by the words of a source, (from, to) in order."""
    found = {}
    for row in table["rows"]:
        names = {name for numbers in row["numbers"] for name in numbers}
        parsed = [re.fullmatch(rf"(\d+)-(\d+)\.{BLEU_METRIC}", name) for name in names]
        spans = sorted((int(m[1]), int(m[2])) for m in parsed if m)
        if spans:
            found[row["label"]] = {
                (a, b): _mean_over_seeds(row, f"{a}-{b}.{BLEU_METRIC}") for a, b in spans
            }
    return found


def _length_notes(table: Table) -> list[str]:
    """The share of its BLEU that each row loses with length, and relative to no attention."""
    said, losses = [], {}
    for label, curve in bleu_by_length(table).items():
        known = {span: score for span, score in curve.items() if span[1] <= MAX_TRAINING_WORDS}
        if not known or not max(known.values()):
            continue
        best, last = max(known, key=lambda span: known[span]), max(curve)
        losses[label] = loss = 1 - curve[last] / known[best]
        spans = f"from {_format_span(best)} to {_format_span(last)} words"
        said.append(
            f"{label}: {'loses' if loss >= 0 else 'gains'} {100 * abs(loss):.0f} % {spans} "
            f"({known[best]:.1f} to {curve[last]:.1f} BLEU)."
        )
    absent = [label for label in losses if label.startswith("no attention")]
    without = [losses[label] for label in absent]
    for label, loss in losses.items():
        if without and min(without) > 0 and label not in absent:
            share = max(0.0, loss) / min(without)
            said.append(f"{label}: {share:.2f} × the smallest loss without attention.")
    return said


def _zhu_notes(table: Table) -> list[str]:
    """The cost of removing each factor, and whether the paper's two findings are confirmed."""
    scores = _bleu_scores(table)
    if "all factors" not in scores:
        return []
    parted = [(*label.partition(" attention without "), score) for label, score in scores.items()]
    losses: dict[str, dict[str, float]] = {}
    for where, between, factor, score in parted:
        if between:
            losses.setdefault(where, {})[factor] = scores["all factors"] - score
    said = [
        f"In {where} attention, of {scores['all factors']:.2f} BLEU with all factors, "
        "removing "
        + "; ".join(f"{factor} costs {_describe_cost(loss)}" for factor, loss in found.items())
        + "."
        for where, found in losses.items()
    ]
    for where, finding in (("encoder self", "negligible"), ("cross", "vital")):
        if _QUERY_KEY_CONTENT in losses.get(where, {}):
            loss = losses[where][_QUERY_KEY_CONTENT]
            holds = loss <= NEGLIGIBLE_BLEU if finding == "negligible" else loss >= VITAL_BLEU
            said.append(
                f"Zhu et al. 2019 find {_QUERY_KEY_CONTENT} {finding} in {where} attention: "
                f"{'confirmed' if holds else 'refuted'}, removing it costs {_describe_cost(loss)}."
            )
    said += _content_only_notes(scores)
    return [*said, f"Negligible is within {NEGLIGIBLE_BLEU} BLEU, vital is {VITAL_BLEU:g} or more."]


def _content_only_notes(scores: dict[str, float]) -> list[str]:
    """The cost of removing content where no position term can replace it."""
    rows = [
        f"cross attention by {by}"
        for by in (f"{_QUERY_KEY_CONTENT}, and key content", _KEY_CONTENT_ALONE)
    ]
    if not all(row in scores for row in rows):
        return []
    loss = scores[rows[0]] - scores[rows[1]]
    return [
        f"In cross attention without position terms, removing {_QUERY_KEY_CONTENT} costs "
        f"{_describe_cost(loss)}."
    ]


def _luong_notes(table: Table) -> list[str]:
    """The content-based scores near Bahdanau's model, if it is in the same table."""
    scores = _bleu_scores(table)
    if "Bahdanau" not in scores:
        return []
    content = [label for label in scores if label.split(",")[0] in ("dot", "general", "concat")]
    near = {label: scores[label] >= scores["Bahdanau"] - NEAR_BLEU for label in content}
    said = [
        f"Within {NEAR_BLEU:g} BLEU of Bahdanau ({scores['Bahdanau']:.1f}): "
        f"{_join_labels(near, True)}."
    ]
    return said if all(near.values()) else [*said, f"Not within: {_join_labels(near, False)}."]


def _describe_cost(loss: float) -> str:
    """A loss in BLEU, followed by `negligible`, `better without` or `vital` where it applies."""
    if abs(loss) <= NEGLIGIBLE_BLEU:
        return f"{loss:.2f} (negligible)"
    return (
        f"{loss:.2f}{' (better without)' if loss < 0 else ' (vital)' if loss >= VITAL_BLEU else ''}"
    )


def _join_labels(near: dict[str, bool], is_wanted: bool) -> str:
    return "; ".join(label for label, is_near in near.items() if is_near == is_wanted) or "none"


def _format_span(span: tuple[int, int]) -> str:
    return f"{span[0]}-{span[1]}"


def _bleu_scores(table: Table) -> dict[str, float]:
    """The BLEU of each row that has one."""
    rows = {
        row["label"]: row for row in table["rows"] if any(BLEU_METRIC in n for n in row["numbers"])
    }
    return {label: _mean_over_seeds(row, BLEU_METRIC) for label, row in rows.items()}


def _mean_over_seeds(row: Table, name: str) -> float:
    """The mean of a number of a row over its seeds."""
    return fmean(numbers[name] for numbers in row["numbers"] if name in numbers)
