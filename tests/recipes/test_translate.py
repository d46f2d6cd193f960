"""The translation recipe, small: it learns, resumes, is measured, predicts and can be looked at."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import load
from regard.config import override
from regard.data.batches import END
from regard.recipes import translate
from regard.recipes.translate import Config, Evaluation
from regard.train import journal
from regard.train.progress import Silent
from regard.view import UnseenError

NOUNS = ["cat", "dog", "sun", "sea", "tree", "house", "boat", "bird", "star", "moon"]
VERBS = ["sees", "likes", "finds", "wants", "has", "knows"]
TINY = [
    "data.development=20",
    "data.test=30",
    "model.vocabulary=300",
    "model.embedding=32",
    "model.readout=32",
    "model.width=32",
    "model.alignment=32",
    "model.dropout=0",
    "training.steps=150",
    "training.judge_every=50",
    "training.save_every=50",
    "training.report_every=10",
    "training.schedule.warmup=10",
    "training.optimizer.rate=1e-2",
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    """A language whose words are ours backwards, its verb at the end."""
    told = [(a, v, b) for a in NOUNS for v in VERBS for b in NOUNS if a != b]
    lines = [f"the {a} {v} the {b}\teht {a[::-1]} eht {b[::-1]} {v[::-1]}\n" for a, v, b in told]
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def config(pairs) -> Config:
    return override(Config(), [*TINY, f"data.pairs={pairs}"])


@pytest.fixture(scope="module")
def result(config, tmp_path_factory):
    pytest.importorskip("sacrebleu")
    return translate.run(config, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def loaded(result):
    return load(result.folder)


def test_a_language_of_rules_is_learned(result):
    assert result.stopped == "finished"
    assert result.metrics["bleu"] > 90
    assert len(result.examples) == 5


def test_evaluating_again_gives_the_number_of_the_card(result, loaded):
    again = translate.evaluate(loaded, Evaluation())
    assert again["bleu"] == loaded.card["numbers"]["bleu"] == result.metrics["bleu"]
    assert again["pairs"] == 30
    assert translate.evaluate(loaded, Evaluation(part="development"))["pairs"] == 20


def test_a_card_that_does_not_say_what_was_held_out_is_refused(loaded):
    bare = replace(loaded, card={"name": "bare"})
    with pytest.raises(ValueError, match="translate: the card does not say which pairs were held"):
        translate.evaluate(bare, Evaluation())


def test_the_search_is_told_what_was_asked_for(loaded, monkeypatch):
    asked, search = [], translate.decode.beam
    kept = lambda *given, **told: asked.append(told) or search(*given, **told)  # noqa: E731
    monkeypatch.setattr(translate.decode, "beam", kept)
    translate.evaluate(loaded, Evaluation(beam=3, length_penalty=0.5))
    assert {(told["width"], told["best"], told["length_penalty"]) for told in asked} == {
        (3, 1, 0.5)
    }


def test_a_translation_does_not_depend_on_its_neighbours(loaded):
    # a sentence that does not end is cut by its own length
    text, long = "sees sees", "the cat finds the dog " * 9
    search = {"beam": 1, "length_penalty": 0.0}
    loaded.model.out.bias.data[END] -= 1e4
    try:
        alone = translate._translated(loaded, [text], **search)
        beside = translate._translated(loaded, [text, long], **search)
    finally:
        loaded.model.out.bias.data[END] += 1e4
    assert beside[0] == alone[0]


def test_smoothing_and_the_longest_sentence_reach_the_training(config, tmp_path):
    pytest.importorskip("sacrebleu")
    with pytest.raises(ValueError, match="examples: expected pairs of at most 1 tokens a side"):
        translate.run(override(config, ["data.longest=1"]), out=tmp_path / "short")
    few = ["training.steps=1"]
    plain = translate.run(override(config, [*few, "smoothing=0"]), out=tmp_path / "plain")
    smooth = translate.run(override(config, few), out=tmp_path / "smooth")
    first = [journal.lines(run.folder / "journal.jsonl")[1]["loss"] for run in (plain, smooth)]
    assert first[0] != first[1]


def test_a_file_of_ones_own_is_measured_too(loaded, tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("the cat finds the dog\teht tac eht god sdnif\n")
    measured = translate.evaluate(loaded, Evaluation(pairs=path, beam=3))
    assert measured["pairs"] == 1


def test_a_prediction_is_the_best_of_its_beam(loaded):
    greedy, beam = (translate.predict(loaded, "the cat finds the dog", beam=n) for n in (1, 4))
    assert greedy.text == "eht tac eht god sdnif"
    assert len(greedy.candidates) == 1
    scores = [score for _, score in beam.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len({text for text, _ in beam.candidates}) == 4
    assert beam.text == beam.candidates[0][0]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_trace_shows_where_each_word_was_read(loaded, beam):
    trace = translate.trace(loaded, "the cat finds the dog", beam=beam)
    weights = trace.map().weights()
    assert trace.outputs["text"] == "eht tac eht god sdnif"
    assert weights.shape == (trace.axis("target").size, trace.axis("source").size)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))


@pytest.mark.parametrize("beam", [1, 3])
def test_looking_changes_no_word(loaded, beam):
    said = translate.predict(loaded, "the moon wants the boat", beam=beam)
    seen = translate.trace(loaded, "the moon wants the boat", beam=beam).outputs
    assert (seen["text"], seen["score"]) == said.candidates[0]


def test_an_empty_sentence_is_refused(loaded):
    with pytest.raises(ValueError, match="translate: expected a sentence, got an empty one"):
        translate.predict(loaded, "  ")


def test_a_model_without_attention_has_nothing_to_show(loaded):
    blind = replace(loaded, config=replace(loaded.config, attention="none"))
    with pytest.raises(UnseenError, match="a model with attention none looks at nothing"):
        translate.trace(blind, "the cat finds the dog")


def test_a_run_goes_on_to_the_same_losses_and_weights(config, result, tmp_path):
    shutil.copytree(result.folder, tmp_path / "run")
    again = translate.run(config, resume=tmp_path / "run", step=100)
    told = [
        [(x["step"], x.get("loss"), x.get("metrics")) for x in journal.lines(run / "journal.jsonl")]
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

    class Told(Silent):
        def note(self, text):
            told.append(text)

    flawed = tmp_path / "flawed.tsv"
    flawed.write_text(pairs.read_text() + "no tab here\n")
    few = ["training.steps=1", f"data.pairs={flawed}"]
    translate.run(override(config, few), out=tmp_path / "run", report=Told())
    assert told[0] == "flawed.tsv: 540 pairs; skipped no tab (1, first on line 541)"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tokens=0", "translate: expected tokens of at least 1 and smoothing"),
        ("smoothing=1", "smoothing from 0 to less than 1, got 800 and 1.0"),
        ("model.vocabulary=100", r"expected model.vocabulary of at least 259 \(every byte\), got"),
        ("training.devices=2", "translate: one device for now"),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_opened(setting, message):
    with pytest.raises(ValueError, match=message):
        override(Config(), [setting])


@pytest.mark.parametrize("fields", [{"beam": 0}, {"beam": 101}, {"length_penalty": 2000.0}])
def test_searches_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match="translate: expected beam from 1 to 100 and length_pen"):
        Evaluation(**fields)


def test_a_target_needs_its_source(pairs):
    with pytest.raises(ValueError, match="translate: expected pairs beside target"):
        Evaluation(target=pairs)
