"""Measuring: the same numbers again, on what was held out and on files of one's own."""

from dataclasses import replace

import pytest
import torch

from regard.data.text import word_order
from regard.recipes import translate
from regard.recipes.translate import Evaluation, metrics
from regard.view.traces.trace import Map


def test_evaluating_again_gives_the_number_of_the_card(result, loaded):
    again = translate.evaluate(loaded, Evaluation())
    assert again["bleu"] == loaded.card["numbers"]["bleu"] == result.metrics["bleu"]
    assert again["pairs"] == 30
    assert translate.evaluate(loaded, Evaluation(part="development"))["pairs"] == 20


def test_a_card_that_does_not_say_what_was_held_out_is_refused(loaded):
    bare = replace(loaded, card={"name": "bare"})
    with pytest.raises(ValueError, match="translate: the card does not say which pairs were held"):
        translate.evaluate(bare, Evaluation())


def test_a_file_of_ones_own_is_measured_too(loaded, tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("the cat finds the dog\teht tac eht god sdnif\n")
    measured = translate.evaluate(loaded, Evaluation(pairs=path, beam=3))
    assert measured["pairs"] == 1


@pytest.mark.parametrize("fields", [{"beam": 0}, {"beam": 101}, {"length_penalty": 2000.0}])
def test_searches_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match="translate: expected beam from 1 to 100 and length_pen"):
        Evaluation(**fields)


def test_a_target_needs_its_source(pairs):
    with pytest.raises(ValueError, match="translate: expected source beside target"):
        Evaluation(target=pairs)


def test_two_aligned_files_are_a_source_and_a_target(loaded, tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("the cat finds the dog\nthe moon wants the boat\n")
    target.write_text("eht tac eht god sdnif\neht noom eht taob stnaw\n")
    measured = translate.evaluate(loaded, Evaluation(source=source, target=target, beam=5))
    assert measured["pairs"] == 2 and measured["bleu"] == pytest.approx(100)
    assert measured["bleu_lc_tok"] == pytest.approx(100)
    assert "case:lc" in measured["signature"] and "tok:13a" in measured["signature"]
    with pytest.raises(ValueError, match="translate: expected target beside source"):
        Evaluation(source=source)
    with pytest.raises(ValueError, match="translate: expected pairs or source, got both"):
        Evaluation(source=source, pairs=source, target=target)


def test_runs_are_compared_by_the_texts_they_left(result):
    said = translate.compare_runs([result.folder], [result.folder])
    assert said.startswith("+0.00 [+0.00, +0.00]")


def test_where_each_word_is_read_is_measured_against_where_it_stands(loaded, monkeypatch):
    pairs = word_order.make_split(development=1, test=3, seed=0).test
    gold = {len(p.source.split()): word_order.alignment(p) for p in pairs}

    def right(loaded, source, target):
        order = gold[loaded.tokenizer.word_ids(source)[-1] + 1]
        words = loaded.tokenizer.word_ids(source)
        rows = [
            [float(w == order[t]) for w in words] for t in loaded.tokenizer.word_ids(target[:-1])
        ]
        rows.append([1.0] * len(source))  # where END is read does not count
        weights = torch.tensor(rows) / torch.tensor(rows).sum(1, keepdim=True)
        return [Map("all", "target", "source", weights[None, None])]

    monkeypatch.setattr(metrics, "attention_maps", right)
    assert metrics.alignment_error_rate(loaded, pairs) == 0.0
