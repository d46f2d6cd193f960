"""The whole road, by the command line alone: train, resume, evaluate, predict, look, why."""

import json

import pytest

from regard.cli import main

pytest.importorskip("sacrebleu")

WORDS = ["cat", "dog", "sun", "sea", "tree", "boat", "bird", "star"]
TINY = "data.development=20 data.test=20 model.vocabulary=280 model.embedding=16 model.readout=16 "
TINY += "model.width=16 model.alignment=16 training.steps=12 training.report_every=2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the runs go; pairs.tsv is there, with one line that is none."""
    folder = tmp_path_factory.mktemp("road")
    lines = [f"the {a} sees a {b}\teht {a[::-1]} sees a {b[::-1]}" for a in WORDS for b in WORDS]
    (folder / "pairs.tsv").write_text("\n".join([*lines, "no tab"]) + "\n")
    return folder


@pytest.fixture
def regard(capsys):
    """A command of the real program, and the JSON object that it answers."""

    def run(*words):
        code = main.main([*map(str, words), "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_model_is_trained_measured_used_and_looked_into(regard, capsys, folder, attention):
    pairs, run = folder / "pairs.tsv", folder / attention
    settings = [*TINY.split(), f"model.attention={attention}", f"data.pairs={pairs}"]
    trained = regard("train", "translate", *settings, "--out", run)
    assert trained["stopped"] == "finished"
    longer = regard("train", "--resume", run, "training.steps=14")
    assert len(longer["examples"]) == 5
    measured = regard("evaluate", run, "beam=2")
    assert measured["pairs"] == 20
    assert measured["command"] == f"regard evaluate {run} beam=2 --json"
    assert {"seed", "hardware", "bleu", "loss"} <= measured.keys()
    assert len(regard("predict", run, "the cat sees a dog", "--beam", 3)["candidates"]) == 3
    if attention == "none":
        assert main.main(["look", str(run), "the cat sees a dog"]) == 1
        assert "looks at nothing" in capsys.readouterr().err
        assert regard("why", run, "the cat sees a dog") == {}
    else:
        assert regard("look", run, "the cat sees a dog", "-o", run / "a.html")["keys"][0] == "the"
        assert "decoder.attention" in regard("why", run, "the cat sees a dog")


def test_what_was_left_out_is_told_and_a_refused_resume_leaves_the_run_whole(
    folder, capsys, regard
):
    settings = [*TINY.split(), f"data.pairs={folder / 'pairs.tsv'}"]
    assert main.main(["train", "translate", *settings, "--out", str(folder / "told")]) == 0
    told = capsys.readouterr().err
    assert "pairs.tsv: 64 pairs; skipped no tab (1, first on line 65)" in told
    assert "24 to learn from, 20 to choose by, 20 to judge by" in told
    assert main.main(["train", "--resume", str(folder / "told"), "model.width=8"]) == 1
    assert "only training.… may change" in capsys.readouterr().err
    assert regard("train", "--resume", folder / "told")["stopped"] == "finished"
