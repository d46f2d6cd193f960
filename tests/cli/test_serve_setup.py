"""The server is handed the zoo, the user's runs, and traces out of files."""

import errno
import json
import os
import time

import pytest
import torch

from regard import looking, zoo
from regard.cli import serve_setup
from regard.cli.resolve import UsageError
from regard.functional import edits
from regard.recipes import sort
from regard.view import save
from regard.zoo import model_kinds
from tests.view.example_traces import translation
from tests.zoo import tiny


def silent(done, total, text):
    """Hear and say nothing."""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder of runs: two that are finished, one that is not, and others that are none."""
    monkeypatch.setitem(model_kinds.KINDS, "tiny", tiny.known())
    folder = tmp_path / "runs"
    for age, name in enumerate(("copy", "translate/new", "translate/grid-x/old")):
        (folder / name).mkdir(parents=True)
        tiny.saved(folder / name)
        then = time.time() - 100 * age
        os.utime(folder / name / "card.json", (then, then))
    (folder / "translate" / "begun" / "checkpoints").mkdir(parents=True)
    for name, text in (("broken", "{"), ("strange", '{"recipe": "no"}'), ("empty", "{}")):
        (folder / name).mkdir()
        (folder / name / "card.json").write_text(text)
    return folder


def test_every_model_of_the_zoo_is_offered_with_what_it_takes(tmp_path):
    found = serve_setup.available_models(tmp_path / "none")
    assert list(found) == zoo.names()
    assert all(not offer.is_run and offer.input.example for offer in found.values())
    assert {offer.input.kind for offer in found.values()} == {"text", "bits", "points", "numbers"}


def test_finished_runs_follow_the_newest_first_and_none_hides_a_model(runs):
    mine = [offer for offer in serve_setup.available_models(runs).values() if offer.is_run]
    names = ["runs/copy", "translate/new", "translate/grid-x/old"]
    assert [offer.name for offer in mine] == names
    assert mine[0].about == "translate, bleu 12.5"
    assert mine[1].load().bytes > 0


def test_runs_are_bounded_in_number_and_depth_and_no_link_is_followed(runs, monkeypatch, tmp_path):
    deep = runs / "a" / "b" / "c" / "d" / "e"
    deep.mkdir(parents=True)
    (deep / "card.json").write_text("{}")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "card.json").write_text("{}")
    (runs / "link").symlink_to(tmp_path / "elsewhere")
    assert {path.name for path in serve_setup.finished_runs(runs)}.isdisjoint({"e", "link"})
    monkeypatch.setattr(serve_setup, "MAX_RUNS", 2)
    assert sum(offer.is_run for offer in serve_setup.available_models(runs).values()) == 2


def test_a_flood_of_broken_runs_hides_no_good_one(runs, monkeypatch):
    monkeypatch.setattr(serve_setup, "MAX_RUNS", 3)
    for n in range(50):
        (runs / f"new{n}").mkdir()
        (runs / f"new{n}" / "card.json").write_text("{")
    unreadable = serve_setup.UnreadableRuns()
    assert (
        sum(offer.is_run for offer in serve_setup.available_models(runs, unreadable).values()) == 3
    )
    told = unreadable.to_json()
    assert told["count"] >= 50
    assert len(told["named"]) == serve_setup.MAX_NAMED_RUNS
    assert list(unreadable.lines())[-1] == f"and {told['count'] - serve_setup.MAX_NAMED_RUNS} more"


def test_looking_for_runs_ends_by_itself(runs, monkeypatch):
    monkeypatch.setattr(serve_setup, "MAX_SEARCH_SECONDS", -1.0)
    unreadable = serve_setup.UnreadableRuns()
    assert list(serve_setup.available_models(runs, unreadable)) == zoo.names()
    assert "not all was read within" in unreadable.named[0][1]


def test_looking_for_runs_ends_by_itself_also_where_none_is_found(tmp_path, monkeypatch):
    for number in range(50):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(serve_setup, "MAX_SEARCH_SECONDS", -1.0)
    looked, unreadable = [], serve_setup.UnreadableRuns()
    entries = serve_setup._folder_entries
    monkeypatch.setattr(
        serve_setup, "_folder_entries", lambda *at: looked.append(at) or entries(*at)
    )
    serve_setup.available_models(tmp_path / "runs", unreadable)
    assert len(looked) == 1
    assert "not all was read within" in unreadable.named[0][1]


CARD = {"schema": 1, "name": "a", "recipe": "translate", "model": "tiny", "config": {}}
BROKEN = {
    "a number too large for a float": (CARD | {"numbers": {"a": 10**400}}, "OverflowError"),
    "settings that are null": (CARD | {"settings": None}, "settings as dict, got NoneType"),
    "settings that are a list": (CARD | {"settings": [1]}, "settings as dict, got list"),
    "no settings": (CARD | {"recipe": "copy"}, "copy: settings.data in the card.json of 'a'"),
    "nothing": ({}, "card.json is of schema None, this version reads 1"),
    "no name": ({"schema": 1}, "card.json: expected name as str, got nothing"),
    "a recipe that is a list": (CARD | {"recipe": []}, "expected recipe as str, got list"),
    "another's recipe": (CARD | {"recipe": "x" * 10_000}, "expected a recipe"),
    "half a character": (CARD | {"about": "\ud800"}, "not UTF-8"),
    "a long line": (CARD | {"about": "x" * 100_000}, "the most is 65536"),
    "many numbers": (CARD | {"numbers": {str(n): n for n in range(5500)}}, "the most is 65536"),
    "many values": (CARD | {"numbers": {"a": [1] * 200_000}}, "more than 2 MiB"),
    "a folder": (None, "plain file"),
    "a link in a circle": ("link", "plain file"),
    "a pipe": ("pipe", "plain file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_that_cannot_be_read_is_left_out_and_named(name, runs):
    content, words = BROKEN[name]
    card = runs / "bad" / "card.json"
    card.parent.mkdir()
    if content is None:
        card.mkdir()
    elif content == "link":
        card.symlink_to(card)
    elif content == "pipe":
        os.mkfifo(card)
    else:
        card.write_text(json.dumps(content))
    lines = []
    state, _ = serve_setup.build_app_state([], runs=runs, budget=2**24, report=lines.append)
    state.close()
    assert (
        next(offer.name for offer in state.available_models.values() if offer.is_run) == "runs/copy"
    )
    [why] = [one["why"] for one in state.unreadable_runs["named"] if one["name"].endswith("bad")]
    assert words in why
    assert len(why) <= 300
    assert any(f"bad: {why}" in line for line in lines)


class Unsearchable:
    """An entry of a folder that may be read and not searched."""

    def __init__(self, entry, number):
        self.name, self.path, self.number = entry.name, entry.path, number

    def is_dir(self, follow_symlinks):
        return False

    def is_file(self, follow_symlinks):
        return True

    def stat(self, follow_symlinks):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "named"), [(errno.EACCES, 1), (errno.EIO, 1), (errno.ENOENT, 0)]
)
def test_a_run_that_may_be_read_and_not_searched_is_named(runs, monkeypatch, number, named):
    there = os.scandir

    def scandir(folder):
        found = there(folder)
        bad = os.fspath(folder).endswith("copy")
        return [Unsearchable(entry, number) for entry in found] if bad else found

    monkeypatch.setattr(os, "scandir", scandir)
    unreadable = serve_setup.UnreadableRuns()
    assert "runs/copy" not in serve_setup.available_models(runs, unreadable)
    told = [line for name, line in unreadable.named if name.endswith("copy")]
    assert told == [os.strerror(number)] * named


def test_a_name_that_is_not_utf_8_is_left_out_and_can_be_written_down(runs):
    strange = os.fsencode(runs) + b"/caf\xe9"
    os.mkdir(strange)  # noqa: PTH102
    with open(strange + b"/card.json", "w") as file:  # noqa: PTH123
        file.write((runs / "copy" / "card.json").read_text())
    unreadable = serve_setup.UnreadableRuns()
    found = serve_setup.available_models(runs, unreadable)
    assert "runs/copy" in found
    assert r"caf\udce9" in [name for name, _ in unreadable.named]


def test_a_trace_is_that_of_the_recipe():
    offer = serve_setup.available_model("sort", zoo.card("sort"), zoo.find_model_folder("sort"))
    trace = offer.load().trace("3 1 2", {}, silent, [])
    theirs = sort.trace(zoo.load("sort"), "3 1 2")
    assert trace.outputs == theirs.outputs
    assert torch.equal(trace.map().all_weights(), theirs.map().all_weights())
    assert trace.header.edits == ()


def test_an_edit_does_what_python_does_and_the_trace_says_so():
    asked = [{"at": "pointer", "do": "heat", "temperature": 9.0}]
    offer = serve_setup.available_model("sort", zoo.card("sort"), zoo.find_model_folder("sort"))
    loaded = zoo.load("sort")
    with looking.edit(loaded.model, {"pointer": edits.heat(9.0)}):
        theirs = sort.trace(loaded, "3 1 2")
    trace = offer.load().trace("3 1 2", {}, silent, asked)
    assert torch.equal(trace.map().all_weights(), theirs.map().all_weights())
    assert trace.header.edits == tuple(asked)
    assert "edits.heat(9.0)" in offer.python("3 1 2", {}, asked)


def test_the_python_that_is_shown_makes_the_same_trace():
    offer = serve_setup.available_model("sort", zoo.card("sort"), zoo.find_model_folder("sort"))
    asked = [{"at": "pointer", "do": "hide", "cells": [[0, 1]]}]
    space = {}
    exec(offer.python("3 1 2", {}, asked), space)
    trace = offer.load().trace("3 1 2", {}, silent, asked)
    assert torch.equal(space["trace"].map().all_weights(), trace.map().all_weights())


def test_an_input_is_never_a_path(tmp_path):
    (tmp_path / "points.csv").write_text("1 2 3")
    offer = serve_setup.available_model("sort", zoo.card("sort"), zoo.find_model_folder("sort"))
    with pytest.raises(ValueError, match="expected"):
        offer.load().trace(str(tmp_path / "points.csv"), {}, silent, [])


def test_a_trace_of_a_file_is_kept_and_the_page_begins_with_it(tmp_path):
    path = save(translation(title="mine"), tmp_path / "mine.safetensors")
    state, fragment = serve_setup.build_app_state([path], runs=tmp_path, budget=2**24, report=print)
    state.close()
    [(id, kept)] = state.traces.items()
    assert fragment == f"#/t/{id}"
    assert kept.trace.header.title == "mine"
    assert (
        kept.provenance["python"]
        == "from regard import view\n\ntrace = view.load('mine.safetensors')"
    )
    assert "softmax" in state.lessons


@pytest.mark.parametrize(("name", "words"), [("no", "no file named"), ("bad", "is not a trace: ")])
def test_a_file_that_is_no_trace_was_typed_wrongly(tmp_path, name, words):
    (tmp_path / "bad.safetensors").write_bytes(b"PK")
    given = [tmp_path / f"{name}.safetensors"]
    with pytest.raises(UsageError) as refused:
        serve_setup.build_app_state(given, runs=tmp_path, budget=2**24, report=print)
    assert words in refused.value.format_message()


def test_without_traces_the_page_begins_where_it_begins(tmp_path):
    state, fragment = serve_setup.build_app_state([], runs=tmp_path, budget=2**24, report=print)
    state.close()
    assert fragment == ""
    assert state.budget == 2**24
