"""What is said: columns in line, one line a note, JSON that any parser takes."""

import json
import math

from regard import terminal


def test_columns_stand_in_line(capsys):
    terminal.table([("a", 1.23456), ("long name", "x\ty")])
    assert capsys.readouterr().out == "  a          1.235\n  long name  x\\ty\n"


def test_no_rows_say_nothing_much(capsys):
    terminal.table([])
    assert capsys.readouterr().out == "\n"


def test_a_note_is_one_line_on_standard_error(capsys):
    terminal.note("two\nlines \x1b[31m")
    assert capsys.readouterr() == ("", "two lines \\x1b[31m\n")


def test_an_answer_is_one_object_of_strict_json(capsys):
    terminal.answer(loss=math.nan, best=math.inf, text="é")
    told = json.loads(capsys.readouterr().out, parse_constant=lambda name: 1 / 0)
    assert told == {"loss": None, "best": None, "text": "é"}


def test_what_others_print_meanwhile_goes_to_standard_error(capsys):
    with terminal.patience("working"):
        print("chatter")  # noqa: T201
    assert capsys.readouterr() == ("", "chatter\n")
