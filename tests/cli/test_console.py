"""What is said: columns in line, one line a note, JSON that any parser takes."""

import io
import json
import math
import sys

import pytest

from regard.cli import console


def test_columns_stand_in_line(capsys):
    console.print_table([("a", 1.23456), ("long name", "x\ty")])
    assert capsys.readouterr().out == "  a          1.235\n  long name  x\\ty\n"


def test_no_rows_say_nothing_much(capsys):
    console.print_table([])
    assert capsys.readouterr().out == "\n"


def test_a_note_is_one_line_on_standard_error(capsys):
    console.print_note("two\nlines \x1b[31m")
    assert capsys.readouterr() == ("", "two lines \\x1b[31m\n")


def test_a_note_never_goes_to_standard_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    console.print_note("two")
    assert capsys.readouterr().out == ""


def test_an_answer_is_one_object_of_strict_json(capsys):
    console.print_json(loss=math.nan, best=math.inf, text="é")
    told = json.loads(capsys.readouterr().out, parse_constant=lambda name: 1 / 0)
    assert told == {"loss": None, "best": None, "text": "é"}


def test_what_others_print_meanwhile_goes_to_standard_error(capsys):
    with console.show_elapsed_time("working"):
        print("chatter")  # noqa: T201
    assert capsys.readouterr() == ("", "chatter\n")


def test_lines_come_without_their_ends(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\r\n\ntwo"))
    assert list(console.read_stdin_lines()) == ["one", "", "two"]
    assert capsys.readouterr() == ("", "")


def test_a_person_is_told_how_to_end(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert list(console.read_stdin_lines()) == ["one"]
    assert capsys.readouterr().err == "type a sentence and Enter; Ctrl-D ends\n"


def test_bytes_that_are_no_text_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    with pytest.raises(ValueError, match="expected UTF-8 on standard input: 'utf-8' codec"):
        list(console.read_stdin_lines())


def test_bytes_that_are_no_text_are_refused_where_there_is_no_locale(monkeypatch):
    bare = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdin", bare)
    with pytest.raises(ValueError, match="expected UTF-8 on standard input: 'utf-8' codec"):
        list(console.read_stdin_lines())


def test_a_line_that_never_ends_is_refused_before_it_is_all_there(monkeypatch):
    monkeypatch.setattr(console, "MAX_LINE_CHARACTERS", 3)
    monkeypatch.setattr(sys, "stdin", io.StringIO("ab\nabcdefgh"))
    read = console.read_stdin_lines()
    assert next(read) == "ab"
    with pytest.raises(ValueError, match="expected lines of at most 3 characters on standard inp"):
        next(read)
    assert sys.stdin.read() == "efgh"


def test_a_closed_standard_input_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="expected lines on standard input, got none: it is clo"):
        list(console.read_stdin_lines())


def test_where_nobody_can_type_nobody_is_waited_for(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert not console.on_enter(lambda: 1 / 0)
    monkeypatch.setattr(sys, "stdin", None)
    assert not console.on_enter(lambda: 1 / 0)
