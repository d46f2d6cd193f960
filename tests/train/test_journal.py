import os
import sys
import types

import pytest

from regard.train.journal import Journal, read_lines, truncate
from tests.train import toy

LINE = '{"event": "train", "step": 1}'


def written(path, *steps):
    with Journal(path) as journal:
        for step in steps:
            journal.write("train", step, loss=step / 3)


def test_what_is_written_is_read(tmp_path):
    written(tmp_path / "deep" / "j.jsonl", 1, 2)
    expected = [{"event": "train", "step": s, "loss": s / 3} for s in (1, 2)]
    assert read_lines(tmp_path / "deep" / "j.jsonl") == expected


def test_lines_are_there_at_once(tmp_path):
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.write("start", 0)
        journal.sync()
        assert len(read_lines(tmp_path / "j.jsonl")) == 1


def test_what_is_not_finite_is_null(tmp_path):
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.write("validate", 1, metrics={"loss": float("nan"), "bleu": 2.0})
    assert read_lines(tmp_path / "j.jsonl")[0]["metrics"] == {"loss": None, "bleu": 2.0}


def test_a_journal_goes_on_behind_its_last_line(tmp_path):
    written(tmp_path / "j.jsonl", 1)
    written(tmp_path / "j.jsonl", 2)
    assert [line["step"] for line in read_lines(tmp_path / "j.jsonl")] == [1, 2]


def test_cut_takes_it_back_to_a_step_and_drops_half_a_line(tmp_path):
    path = tmp_path / "j.jsonl"
    written(path, 1, 2, 3)
    path.write_text(path.read_text() + '{"event": "tr')
    truncate(path, 2)
    assert path.read_text().count("\n") == 2
    assert [line["step"] for line in read_lines(path)] == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["j.jsonl"]


@pytest.mark.parametrize("survived", range(4))
def test_killed_while_it_is_cut_it_is_there_whole_or_cut(tmp_path, monkeypatch, survived):
    path = tmp_path / "j.jsonl"
    written(path, 1, 2, 3)
    toy.broken(monkeypatch, survived, toy.Killed())
    with pytest.raises(toy.Killed):
        truncate(path, 2)
    monkeypatch.undo()
    assert [line["step"] for line in read_lines(path)] in ([1, 2, 3], [1, 2])
    truncate(path, 1)
    assert [line["step"] for line in read_lines(path)] == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["j.jsonl"]


def test_no_journal_is_nothing_to_cut(tmp_path):
    truncate(tmp_path / "j.jsonl", 2)
    assert not (tmp_path / "j.jsonl").exists()


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "j.jsonl").write_text(f"{LINE}\nwhat\n{LINE}\n")
    with pytest.raises(ValueError, match=r"j\.jsonl: expected JSON in line 2"):
        read_lines(tmp_path / "j.jsonl")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "with a step"),
        ("3", "with a step"),
        ("{}", "with a step"),
        ('{"event": "train"}', "with a step"),
        ('{"event": "train", "step": null}', "with a step"),
        ('{"event": "train", "step": true}', "with a step"),
        ('{"step": 1}', "with an event, got"),
        ('{"step": 1, "event": ["train"]}', "with an event, got"),
        ('{"step": 1, "event": "validate", "metrics": [1]}', "with an event, got"),
        ("[" * 100_000, "got another"),
        ('{"step": 1' + "0" * 5000 + "}", "got another"),
        ("\udcff", "got another"),
        ('{"step": "' + "x" * 100_000 + '"}', "with a step"),
    ],
    ids=lambda given: given[:20],
)
def test_a_damaged_line_is_one_short_sentence_read_or_cut(tmp_path, line, words):
    (tmp_path / "j.jsonl").write_bytes(f"{LINE}\n{line}\n".encode(errors="surrogateescape"))
    for work in (read_lines, lambda path: truncate(path, 1)):
        with pytest.raises(
            ValueError, match=rf"j\.jsonl: expected JSON in line 2.*{words}"
        ) as told:
            work(tmp_path / "j.jsonl")
        assert len(str(told.value)) < 400


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("kind", ["pipe", "link", "dangling link", "folder"])
def test_what_is_no_plain_file_is_neither_read_nor_written(tmp_path, kind):
    path, elsewhere = tmp_path / "j.jsonl", tmp_path / "elsewhere"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(elsewhere)
    if kind == "link":
        elsewhere.write_text(f"{LINE}\n")
    for work in (read_lines, lambda path: truncate(path, 1)):
        with pytest.raises(ValueError, match=r"expected .*j\.jsonl to be a plain file, got"):
            work(path)
    assert elsewhere.exists() == (kind == "link")


def test_tensorboard_gets_the_numbers_if_it_is_there(tmp_path, monkeypatch):
    got = []

    class SummaryWriter:
        def __init__(self, folder, purge_step):
            got.append(purge_step)

        add_scalar = staticmethod(lambda *numbers: got.append(numbers))
        close = staticmethod(lambda: got.append("closed"))

    fake = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    with Journal(tmp_path / "j.jsonl", tensorboard=tmp_path / "tb", after=4) as journal:
        journal.write("validate", 5, metrics={"bleu": 2.0, "pairs": 7}, best=True)
    assert got == [5, ("validate/bleu", 2.0, 5), ("validate/pairs", 7, 5), "closed"]


def test_without_tensorboard_there_is_the_journal_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with Journal(tmp_path / "j.jsonl", tensorboard=tmp_path / "tb") as journal:
        journal.write("train", 1, loss=1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["j.jsonl"]
