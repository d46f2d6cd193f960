"""Texts: what stands in a file, or why it cannot be read."""

import gzip
import re
import tracemalloc

import pytest

from regard.data.text_file import read_text


def test_a_text_is_read_plain_and_zipped(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffä b\n".encode())
    (tmp_path / "a.txt.GZ").write_bytes(gzip.compress("ä b\n".encode()))
    assert (
        read_text("who", tmp_path / "a.txt") == read_text("who", tmp_path / "a.txt.GZ") == "ä b\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"one\ntwo\n\xff\xfe", "who: expected text, got other bytes in line 3 of {path}"),
        ("a.gz", b"no zip", "who: {path} is damaged: Not a gzipped file"),
        ("a.gz", gzip.compress(b"some words", mtime=0)[:-3], "who: {path} is damaged: "),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message.format(path=tmp_path / name))):
        read_text("who", tmp_path / name)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=re.escape(f"who: expected a file, got the folder {tmp_path}")
    ):
        read_text("who", tmp_path)
    with pytest.raises(ValueError, match=r"who: expected a file, got nothing at .*absent$"):
        read_text("who", tmp_path / "absent")


def test_a_file_that_cannot_be_opened_is_refused(tmp_path, monkeypatch):
    def locked(path, mode):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").touch()
    monkeypatch.setattr("pathlib.Path.open", locked)
    with pytest.raises(ValueError, match=r"who: cannot open .*/a: Permission denied"):
        read_text("who", tmp_path / "a")


def test_what_unpacks_to_too_much_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.text_file.MAX_BYTES", 2**20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(2**26)))
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError, match=r"who: expected at most 1,048,576 bytes in .*, got more"
        ):
            read_text("who", tmp_path / "a.gz")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
