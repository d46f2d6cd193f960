"""Who may see whom: rules painted cell by cell, what leaks, and the row that sees nothing."""

import torch
from torch import Tensor

from regard.dispatch import attend, logits, weigh
from regard.functional import rules
from regard.functional.rules import Rule
from regard.view.lessons.fields import Choice, Integer, Subset
from regard.view.lessons.formats import script_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

TOKENS, WIDTH = 6, 4
# How far a token is moved, to see which outputs follow.
TOKEN_SHIFT = 2.0
_RULE_CODE = {
    "all": "None",
    "causal": "regard.rules.causal",
    "window": "regard.rules.window({size})",
    "prefix": "regard.rules.prefix({size})",
    "padding": "regard.rules.padding(torch.tensor([{size}]))",
}


def compute(rule: str, size: int, painted: list[int], changed: int) -> Answer:
    """Scores before and after the rule, weights, what is read, and what moves with one token."""
    mask = visible_mask(rule, size, painted)
    chosen = mask if painted else _build_rule(rule, size)
    x = torch.randn(1, 1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))
    hidden = logits(x, x, rule=chosen)
    read = attend(x, x, x, rule=chosen)
    other = x.clone()
    other[:, :, changed] += TOKEN_SHIFT
    moved = (attend(other, other, other, rule=chosen) - read).norm(dim=-1)
    return {
        "seen": mask.int().tolist(),
        "scores": to_numbers(logits(x, x)[0, 0]),
        "hidden": to_numbers(hidden[0, 0]),
        "weights": to_numbers(weigh(x, x, rule=chosen)[0, 0]),
        "naive": to_numbers(hidden.softmax(-1)[0, 0]),
        "read": to_numbers(read[0, 0]),
        "moved": to_numbers(moved[0, 0]),
        "code": _code(rule, size, mask if painted else None, changed),
    }


def visible_mask(rule: str, size: int, painted: list[int]) -> Tensor:
    """What may be seen (Q, K): what the rule says, with the painted cells turned round."""
    whole = _build_rule(rule, size)
    shown = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    if whole is not None:
        shown = rules.dense(whole, 1, 1, TOKENS, TOKENS)[0, 0].clone()
    shown.view(-1)[painted] ^= True
    return shown


def _build_rule(name: str, size: int) -> Rule | None:
    if name == "all":
        return None
    if name == "causal":
        return rules.causal
    if name == "padding":
        return rules.padding(torch.tensor([size]))
    return rules.window(size) if name == "window" else rules.prefix(size)


def _code(rule: str, size: int, mask: Tensor | None, changed: int) -> str:
    written = _RULE_CODE[rule].format(size=size)
    if mask is not None:
        rows = ",\n                     ".join(str(row) for row in mask.int().tolist())
        written = f"torch.tensor([{rows}]).bool()"
    return script_code(
        "g = torch.Generator().manual_seed(0)",
        f"x = torch.randn(1, 1, {TOKENS}, {WIDTH}, generator=g)",
        f"rule = {written}",
        "weights = regard.weigh(x, x, rule=rule)",
        "read = regard.attend(x, x, x, rule=rule)",
        f"y = x.clone(); y[:, :, {changed}] += {TOKEN_SHIFT}",
        "moved = (regard.attend(y, y, y, rule=rule) - read).norm(dim=-1)",
    )


LESSON = Lesson(
    name="masking",
    title="Masks",
    question="Under a causal mask the last token is changed. Which outputs move?",
    guesses=("All of them", "Only the last", "None"),
    right=1,
    aha=(
        "A hidden score is −∞ before the softmax, so its weight is exactly 0 and nothing leaks. "
        "A row that sees nothing would be 0/0; here it reads zeros."
    ),
    fields={
        "rule": Choice(tuple(_RULE_CODE), "causal"),
        "size": Integer(0, TOKENS, 2),
        "painted": Subset(TOKENS * TOKENS),
        "changed": Integer(0, TOKENS - 1, TOKENS - 1),
    },
    compute=compute,
)
