"""No hostile words get more out of a command than one short sentence, and the attack would tell."""

import sys

import pytest

from benchmarks import hostile_commands
from regard.cli import main as cli


def test_every_command_keeps_its_word():
    assert hostile_commands.attack(100, seed=0, models=("copy", "sort")) == []


def printing(text, code):
    def main(words):
        sys.stderr.write(text)
        return code

    return main


def raising(words):
    raise IndexError("tuple index out of range")


def looping(words):
    while True:
        pass


@pytest.mark.parametrize(
    ("main", "wrong"),
    [
        (
            printing("regard predict: IndexError: x; run again with --debug to see", 1),
            "an error of P",
        ),
        (printing("regard: no\nreally\n", 2), "said 2 lines"),
        (printing("", 1), "said 0 lines"),
        (printing("x" * 5000, 1), "said 1 lines, the longest of 5000 characters"),
        (printing("", 139), "ended with code 139"),
        (raising, "let IndexError out: tuple index"),
        (looping, "took more than 1 s"),
        (printing("", 0), None),
        (printing("loading … 2 s\nregard predict: expected points, got ','\n", 1), None),
    ],
)
def test_what_does_not_keep_its_word_is_found(monkeypatch, main, wrong):
    monkeypatch.setattr(cli, "main", main)
    found = hostile_commands.fault(["predict", "sort", ","], seconds=1)
    assert found is None if wrong is None else wrong in found


def test_a_long_text_may_take_its_time_to_be_translated(monkeypatch):
    monkeypatch.setattr(cli, "main", looping)
    assert hostile_commands.fault(["predict", "translate-en-de", "x" * 5000], seconds=1) is None
    assert "took" in hostile_commands.fault(["predict", "translate-en-de", "x"], seconds=1)
