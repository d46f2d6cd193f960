"""Files: whole, or as they were before."""

import errno
import os

import pytest

from regard import files


def test_what_is_written_is_there(tmp_path):
    assert files.write(tmp_path / "a", "été\n").read_bytes() == "été\n".encode()
    files.write(tmp_path / "a", b"other")
    assert (tmp_path / "a").read_bytes() == b"other"


def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch):
    files.write(tmp_path / "a", "before")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        files.write(tmp_path / "a", "after")
    assert error.value.filename == str(tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "before"


def test_what_a_killed_write_left_is_deleted_and_nothing_else(tmp_path):
    for name in (".a.7-12ab.part", "a", ".a", ".b.7-12ab.part"):
        (tmp_path / name).touch()
    files.tidy(tmp_path / "a")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a", ".b.7-12ab.part"}


def test_the_content_is_synced_before_the_name_is_taken(tmp_path, monkeypatch):
    real, order = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda f: order.append((tmp_path / "a").exists()) or real(f))
    files.write(tmp_path / "a", "x")
    assert order == [False, True], "the file first, its folder after the rename"


def test_others_may_read_what_was_written(tmp_path):
    before = os.umask(0o022)
    try:
        assert files.write(tmp_path / "a", "x").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(OSError):
        files.write(target, b"x")
    assert list(tmp_path.iterdir()) == [target]
