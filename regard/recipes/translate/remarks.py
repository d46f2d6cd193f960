"""What the numbers of a table come to, in sentences that are computed from them."""

import re
from statistics import fmean
from typing import Any

BLEU = "bleu_lc_tok"
# The most words of a source that the models of the table of long sentences learned from.
LEARNED = 30
# BLEU: a factor whose absence costs no more is negligible, one that costs this much is vital.
NEGLIGIBLE, VITAL = 0.7, 8.0
# BLEU: how near to Bahdanau's net another one must come.
NEAR = 2.0
_CONTENT, _KEY = "query and key content", "key content alone"

Table = dict[str, Any]


def notes(table: Table) -> list[str]:
    """Sentences on a table of this recipe; none on one that speaks for itself."""
    told = {"long": _long, "zhu": _zhu, "luong": _luong}
    return told[table["grid"]](table) if table["grid"] in told else []


def lengths(table: Table) -> dict[str, dict[tuple[int, int], float]]:
    """The BLEU of each row by the words of a source, (from, to) in order."""
    found = {}
    for row in table["rows"]:
        names = {name for numbers in row["numbers"] for name in numbers}
        parsed = [re.fullmatch(rf"(\d+)-(\d+)\.{BLEU}", name) for name in names]
        spans = sorted((int(m[1]), int(m[2])) for m in parsed if m)
        if spans:
            found[row["label"]] = {(a, b): _mean(row, f"{a}-{b}.{BLEU}") for a, b in spans}
    return found


def _long(table: Table) -> list[str]:
    """How much of its BLEU each row loses with length, and attention beside none."""
    said, losses = [], {}
    for label, curve in lengths(table).items():
        known = {span: score for span, score in curve.items() if span[1] <= LEARNED}
        if not known or not max(known.values()):
            continue
        best, last = max(known, key=lambda span: known[span]), max(curve)
        losses[label] = loss = 1 - curve[last] / known[best]
        spans = f"from {_span(best)} to {_span(last)} words"
        said.append(
            f"{label}: {'loses' if loss >= 0 else 'gains'} {100 * abs(loss):.0f} % {spans} "
            f"({known[best]:.1f} to {curve[last]:.1f} BLEU)."
        )
    absent = [label for label in losses if label.startswith("no attention")]
    without = [losses[label] for label in absent]
    for label, loss in losses.items():
        if without and min(without) > 0 and label not in absent:
            share = max(0.0, loss) / min(without)
            said.append(f"{label} loses {share:.2f} × the least that is lost without attention.")
    return said


def _zhu(table: Table) -> list[str]:
    """What the absence of each factor costs, and what becomes of the paper's two findings."""
    scores = _scores(table)
    if "all factors" not in scores:
        return []
    parted = [(*label.partition(" attention without "), score) for label, score in scores.items()]
    losses: dict[str, dict[str, float]] = {}
    for where, between, factor, score in parted:
        if between:
            losses.setdefault(where, {})[factor] = scores["all factors"] - score
    said = [
        f"In {where} attention, of {scores['all factors']:.2f} BLEU with all factors, "
        "the absence of "
        + "; ".join(f"{factor} costs {_cost(loss)}" for factor, loss in found.items())
        + "."
        for where, found in losses.items()
    ]
    for where, finding in (("encoder self", "negligible"), ("cross", "vital")):
        if _CONTENT in losses.get(where, {}):
            loss = losses[where][_CONTENT]
            holds = loss <= NEGLIGIBLE if finding == "negligible" else loss >= VITAL
            said.append(
                f"Zhu et al. 2019 find {_CONTENT} {finding} in {where} attention: "
                f"{'confirmed' if holds else 'refuted'}, its absence costs {_cost(loss)}."
            )
    said += _unplaced(scores)
    return [*said, f"Negligible is within {NEGLIGIBLE} BLEU, vital is {VITAL:g} or more."]


def _unplaced(scores: dict[str, float]) -> list[str]:
    """What the absence of content costs where no position can stand in for it."""
    rows = [f"cross attention by {by}" for by in (f"{_CONTENT}, and key content", _KEY)]
    if not all(row in scores for row in rows):
        return []
    loss = scores[rows[0]] - scores[rows[1]]
    return [f"Where cross attention knows no positions, {_CONTENT} is worth {_cost(loss)}."]


def _luong(table: Table) -> list[str]:
    """Which content-based scores come near Bahdanau's net, where it stands in the same table."""
    scores = _scores(table)
    if "Bahdanau" not in scores:
        return []
    content = [label for label in scores if label.split(",")[0] in ("dot", "general", "concat")]
    near = {label: scores[label] >= scores["Bahdanau"] - NEAR for label in content}
    said = [f"Within {NEAR:g} BLEU of Bahdanau ({scores['Bahdanau']:.1f}): {_listed(near, True)}."]
    return said if all(near.values()) else [*said, f"Not within: {_listed(near, False)}."]


def _cost(loss: float) -> str:
    """A loss, with the word that it deserves."""
    if abs(loss) <= NEGLIGIBLE:
        return f"{loss:.2f} (negligible)"
    return f"{loss:.2f}{' (better without)' if loss < 0 else ' (vital)' if loss >= VITAL else ''}"


def _listed(near: dict[str, bool], wanted: bool) -> str:
    return "; ".join(label for label, is_near in near.items() if is_near == wanted) or "none"


def _span(span: tuple[int, int]) -> str:
    return f"{span[0]}-{span[1]}"


def _scores(table: Table) -> dict[str, float]:
    """The BLEU of each row that has one."""
    rows = {row["label"]: row for row in table["rows"] if any(BLEU in n for n in row["numbers"])}
    return {label: _mean(row, BLEU) for label, row in rows.items()}


def _mean(row: Table, name: str) -> float:
    """A number of a row, over its seeds."""
    return fmean(numbers[name] for numbers in row["numbers"] if name in numbers)
