"""A training: it learns, resumes, is measured, and refuses what is not as it was."""

import shutil

import pytest
import torch

from regard import load
from regard.config import override
from regard.recipes import translate
from regard.recipes.translate import Evaluation
from regard.train import journal
from regard.train.progress import SilentReport


def test_a_language_of_rules_is_learned(result):
    assert result.stopped == "finished"
    assert result.metrics["bleu"] > 90
    assert len(result.examples) == 5


def test_the_card_says_what_is_known_of_the_data_and_how_it_was_chosen(result):
    card = load(result.folder).card
    assert card["licence"]["data"]["name"] == card["licence"]["weights"]["name"] == "unknown"
    judged = [line.get("metrics") for line in journal.read_lines(result.folder / "journal.jsonl")]
    assert card["development"] in judged


def test_smoothing_and_the_longest_sentence_reach_the_training(config, tmp_path):
    pytest.importorskip("sacrebleu")
    with pytest.raises(ValueError, match="encode_pairs: expected pairs of at most 1 tokens a side"):
        translate.run(override(config, ["data.longest=1"]), out=tmp_path / "short")
    few = ["training.steps=1"]
    plain = translate.run(override(config, [*few, "smoothing=0"]), out=tmp_path / "plain")
    smooth = translate.run(override(config, few), out=tmp_path / "smooth")
    first = [journal.read_lines(run.folder / "journal.jsonl")[1]["loss"] for run in (plain, smooth)]
    assert first[0] != first[1]


def test_a_run_goes_on_to_the_same_losses_and_weights(config, result, tmp_path):
    shutil.copytree(result.folder, tmp_path / "run")
    again = translate.run(config, resume=tmp_path / "run", step=100)
    told = [
        [
            (x["step"], x.get("loss"), x.get("metrics"))
            for x in journal.read_lines(run / "journal.jsonl")
        ]
        for run in (result.folder, again.folder)
    ]
    told = [[x for x in lines if x[1] or x[2]] for lines in told]
    assert told[0] == told[1]
    assert [step for step, *_ in told[0]][-1] == 150
    for name, weight in load(again.folder).model.state_dict().items():
        assert torch.equal(weight, load(result.folder).model.state_dict()[name]), name


def test_changed_data_is_refused(config, result, pairs, tmp_path):
    shutil.copytree(result.folder, tmp_path / "run")
    before = pairs.read_text()
    pairs.write_text(before.replace("eht", "het", 1))
    try:
        with pytest.raises(ValueError, match="run: the data is not what it was when"):
            translate.run(config, resume=tmp_path / "run")
        with pytest.raises(ValueError, match="is not what the model was trained on"):
            translate.evaluate(load(result.folder), Evaluation())
    finally:
        pairs.write_text(before)


def test_what_was_left_out_is_told(config, pairs, tmp_path):
    pytest.importorskip("sacrebleu")
    told = []

    class Told(SilentReport):
        def note(self, text):
            told.append(text)

    flawed = tmp_path / "flawed.tsv"
    flawed.write_text(pairs.read_text() + "no tab here\n")
    few = ["training.steps=1", f"data.pairs={flawed}"]
    translate.run(override(config, few), out=tmp_path / "run", report=Told())
    assert told[0] == "flawed.tsv: 540 pairs; skipped no tab (1, first on line 541)"
