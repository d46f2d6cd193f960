"""What is said of a table follows from its numbers."""

import pytest

from regard.recipes.translate import GRIDS
from regard.recipes.translate.table_notes import MAX_TRAINING_WORDS, bleu_by_length, notes


def table(grid: str, rows: dict[str, list[dict[str, float]]]) -> dict:
    return {"grid": grid, "rows": [{"label": k, "numbers": v} for k, v in rows.items()]}


def curve(*scores: float) -> dict[str, float]:
    """Numbers of a row, by ten words each; those of no length are there too."""
    spans = {f"{10 * n + 1}-{10 * n + 10}": score for n, score in enumerate(scores)}
    return {f"{span}.bleu_lc_tok": score for span, score in spans.items()} | {"bleu_lc_tok": 1.0}


def test_a_curve_is_the_mean_over_seeds_in_order_of_length():
    found = bleu_by_length(
        table("long", {"a": [curve(10, 20, 30), curve(20, 20, 10)], "failed": []})
    )
    assert found == {"a": {(1, 10): 15, (11, 20): 20, (21, 30): 20}}
    assert list(bleu_by_length(table("long", {"a": [curve(*range(1, 12))]}))["a"])[-1] == (101, 110)


def test_the_loss_is_from_the_best_learned_length_to_the_last():
    rows = {
        "Bahdanau": [curve(35, 40, 38, 50, 36)],
        "no attention, one context": [curve(30, 20, 9)],
    }
    assert notes(table("long", rows)) == [
        "Bahdanau: loses 10 % from 11-20 to 41-50 words (40.0 to 36.0 BLEU).",
        "no attention, one context: loses 70 % from 1-10 to 21-30 words (30.0 to 9.0 BLEU).",
        "Bahdanau: 0.14 × the smallest loss without attention.",
    ]


def test_what_grows_better_with_length_gains_and_what_has_no_score_is_left_out():
    rows = {"a": [curve(20, 10, 10, 25)], "b": [curve(0, 0, 0, 0)], "c": [{"bleu_lc_tok": 3.0}]}
    assert notes(table("long", rows)) == [
        "a: gains 25 % from 1-10 to 31-40 words (20.0 to 25.0 BLEU)."
    ]


def test_what_was_learned_from_is_what_the_grid_says():
    assert GRIDS["long"].base.data.max_joined_words == MAX_TRAINING_WORDS


def factors(**scores: float) -> dict:
    """Zhu's table: 40 for every row but those whose place in the table is given."""
    rows = {row.label: [{"bleu_lc_tok": 40.0}] for row in GRIDS["zhu"].rows}
    labels = list(rows)
    return table(
        "zhu", rows | {labels[int(n[1:])]: [{"bleu_lc_tok": s}] for n, s in scores.items()}
    )


def test_each_factor_is_named_with_what_its_absence_costs():
    assert notes(factors(_1=39.5, _2=38.0, _5=31.0, _8=41.0))[:2] == [
        "In encoder self attention, of 40.00 BLEU with all factors, removing query and key "
        "content costs 0.50 (negligible); query content and position costs 2.00; key content costs "
        "0.00 (negligible); position costs 0.00 (negligible).",
        "In cross attention, of 40.00 BLEU with all factors, removing query and key content "
        "costs 9.00 (vital); query content and position costs 0.00 (negligible); key content costs "
        "0.00 (negligible); position costs -1.00 (better without).",
    ]


@pytest.mark.parametrize(
    ("own", "cross", "words"),
    [
        (39.5, 31.0, ("confirmed", "confirmed")),
        (39.2, 33.0, ("refuted", "refuted")),
        (41.0, 32.0, ("confirmed", "confirmed")),
    ],
)
def test_the_findings_of_the_paper_are_confirmed_or_refuted_by_the_numbers(own, cross, words):
    *found, _, thresholds = notes(factors(_1=own, _5=cross))[2:]
    assert thresholds == "Negligible is within 0.7 BLEU, vital is 8 or more."
    assert [line.split(": ")[1].split(",")[0] for line in found] == list(words)
    assert found[0].startswith("Zhu et al. 2019 find query and key content negligible in encoder s")
    assert found[1].startswith(
        "Zhu et al. 2019 find query and key content vital in cross attention"
    )
    assert f"removing it costs {40 - cross:.2f}" in found[1]


def test_where_no_position_stands_in_for_it_content_has_a_worth_of_its_own():
    assert notes(factors(_9=39.5, _10=21.0))[-2] == (
        "In cross attention without position terms, removing query and key content costs 18.50 "
        "(vital)."
    )


def test_nothing_is_said_without_what_all_are_compared_with():
    whole = factors()
    whole["rows"][0]["numbers"] = []
    assert notes(whole) == []
    assert notes(table("luong", {"dot, global": [{"bleu_lc_tok": 1.0}]})) == []
    assert notes(table("rnn", {"Bahdanau": [{"bleu_lc_tok": 1.0}]})) == []


def test_content_based_scores_are_near_bahdanau_or_not():
    scores = {
        "Bahdanau": 38.0,
        "dot, global": 36.0,
        "concat, local-m": 35.9,
        "location, global": 9.0,
    }
    rows = {label: [{"bleu_lc_tok": score}] for label, score in scores.items()}
    assert notes(table("luong", rows)) == [
        "Within 2 BLEU of Bahdanau (38.0): dot, global.",
        "Not within: concat, local-m.",
    ]
    assert notes(table("luong", rows | {"concat, local-m": [{"bleu_lc_tok": 39.0}]})) == [
        "Within 2 BLEU of Bahdanau (38.0): dot, global; concat, local-m."
    ]
