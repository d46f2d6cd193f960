"""Files: whole, or as they were before."""

import errno
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from regard.runtime import atomic_files


def linked(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: os.mkfifo(path), "to be a plain file, got none"),
        (lambda path: path.mkdir(), "to be a plain file, got none"),
        (linked, "to be a plain file, got a link"),
        (lambda path: path.write_text("[1]"), "is damaged: expected a JSON object, got list"),
        (lambda path: path.write_text("[" * 99_999), "is damaged: expected JSON"),
        (lambda path: path.write_bytes(b"\xff"), "is damaged: expected JSON"),
        (lambda path: path.write_text("{" + " " * 99 + "}"), "has 101 bytes, the most is 100"),
    ],
    ids=["pipe", "folder", "device", "list", "deep", "bytes", "long"],
)
def test_what_holds_no_json_object_is_one_line_at_once(tmp_path, make, words):
    make(tmp_path / "a.json")
    with pytest.raises(ValueError, match=words):
        longest = 100 if "bytes, the most" in words else atomic_files.MAX_JSON_BYTES
        atomic_files.read_json_object(tmp_path / "a.json", max_bytes=longest)


def test_a_json_object_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a": [1]}')
    assert atomic_files.read_json_object(tmp_path / "a.json") == {"a": [1]}


def test_what_is_written_is_there(tmp_path):
    assert atomic_files.write_file(tmp_path / "a", "été\n").read_bytes() == "été\n".encode()
    atomic_files.write_file(tmp_path / "a", b"other")
    assert (tmp_path / "a").read_bytes() == b"other"


def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch):
    atomic_files.write_file(tmp_path / "a", "before")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        atomic_files.write_file(tmp_path / "a", "after")
    assert error.value.filename == str(tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "before"


def test_what_a_killed_write_left_is_deleted_and_nothing_else(tmp_path):
    for name in (".a.7-12ab.part", "a", ".a", ".b.7-12ab.part"):
        (tmp_path / name).touch()
    atomic_files.remove_leftovers(tmp_path / "a")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a", ".b.7-12ab.part"}


def test_the_content_is_synced_before_the_name_is_taken(tmp_path, monkeypatch):
    real, order = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda f: order.append((tmp_path / "a").exists()) or real(f))
    atomic_files.write_file(tmp_path / "a", "x")
    assert order == [False, True], "the file first, its folder after the rename"


def test_others_may_read_what_was_written(tmp_path):
    before = os.umask(0o022)
    try:
        assert atomic_files.write_file(tmp_path / "a", "x").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(OSError):
        atomic_files.write_file(target, b"x")
    assert list(tmp_path.iterdir()) == [target]


SHAPES = {
    "numbers": "[" + "1234567890123," * 50_000 + "0]",
    "floats": "[" + "0.5," * 50_000 + "0]",
    "objects": "[" + "{}," * 50_000 + "{}]",
    "pairs": "[" + '{"a":1.5},' * 50_000 + "{}]",
    "names": "{" + ",".join(f'"k{n}":{n}.5' for n in range(50_000)) + "}",
    "lists": "[" + "[1]," * 50_000 + "[]]",
    "texts": "[" + '"ab",' * 50_000 + '""]',
    "one text of wide characters": '"' + "\U0001f600" * 50_000 + '"',
    "escapes": '"' + "a" * 50_000 + '\\ud83d\\ude00"',
}


@pytest.mark.parametrize("name", SHAPES)
def test_json_takes_no_more_memory_than_is_said_before_it_is_read(name):
    data = SHAPES[name].encode()
    tracemalloc.start()
    text = data.decode()
    found = json.loads(text)
    took = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert took <= atomic_files.max_json_memory(text) <= 12 * took + 1000
    assert found is not None


def test_a_home_folder_that_nobody_has_is_one_sentence(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert atomic_files.expand_home(Path("~/a")) == Path("/home/me/a")
    with pytest.raises(ValueError, match=r"got '~no-such-user/a', which stands for none\. Write"):
        atomic_files.expand_home(Path("~no-such-user/a"))


def test_an_error_names_the_file_that_was_meant_and_not_the_one_beside_it(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        atomic_files.write_file(tmp_path / "a.png", b"x")
    assert caught.value.filename == str(tmp_path / "a.png")
