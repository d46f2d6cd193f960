import errno
import hashlib
import json
import os
import socket
import tracemalloc
from contextlib import chdir, suppress
from unittest.mock import Mock

import pytest
import torch

from regard.runtime import atomic_files
from regard.train import DamagedError, checkpoints
from regard.train.checkpoints import (
    Checkpoint,
    folder_name,
    latest_intact_step,
    latest_step,
    list_steps,
    load,
    remove_leftovers,
    rewind,
    save,
)
from tests.train import toy

FULL = OSError(errno.ENOSPC, "No space left on device")


def checkpoint(step, best=None):
    weights = {"w": torch.full((4, 3), float(step))}
    return Checkpoint(step, {"model": weights, "optimizer": {0: torch.ones(2)}}, {"n": step}, best)


def saved(folder, *numbers, keep=9):
    for step in numbers:
        save(folder, checkpoint(step), keep=keep)
    return folder


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_what_is_saved_is_loaded(tmp_path):
    found = load(saved(tmp_path, 5))
    assert (found.step, found.state, found.best) == (5, {"n": 5}, None)
    assert found.trees["model"]["w"].tolist() == [[5.0] * 3] * 4
    assert found.trees["optimizer"][0].tolist() == [1.0, 1.0]


def test_one_tree_can_be_read_alone(tmp_path):
    folder = saved(tmp_path, 5)
    (folder / folder_name(5) / "optimizer.safetensors").unlink()
    assert load(folder, only=("model", "average")).trees.keys() == {"model"}


def test_the_pointer_names_the_newest(tmp_path):
    folder = saved(tmp_path, 5, 10)
    assert (folder / "latest").read_text() == "step-00000010\n"
    assert (latest_step(folder), load(folder).step, load(folder, 5).step) == (10, 10, 5)


def test_the_newest_stay_and_the_best_of_each_of_them(tmp_path):
    for step, best in [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4), (6, 4)]:
        save(tmp_path, checkpoint(step, best), keep=2)
        assert best in list_steps(tmp_path)
    assert list_steps(tmp_path) == [4, 5, 6]


def test_a_future_that_was_taken_back_is_deleted(tmp_path):
    saved(tmp_path, 5, 10, 15)
    save(tmp_path, checkpoint(7), keep=2)
    assert (list_steps(tmp_path), latest_step(tmp_path)) == ([5, 7], 7)


def test_going_back_makes_a_step_the_latest_and_forgets_what_came_after(tmp_path):
    saved(tmp_path, 5, 10, 15)
    rewind(tmp_path, 5)
    assert (latest_step(tmp_path), names(tmp_path)) == (5, ["latest", "step-00000005"])


def test_a_step_that_is_whole_is_not_written_again(tmp_path):
    before = (saved(tmp_path, 5) / folder_name(5)).stat().st_ino
    saved(tmp_path, 5)
    assert (tmp_path / folder_name(5)).stat().st_ino == before
    assert names(tmp_path) == ["latest", "step-00000005"]


def test_a_step_that_is_damaged_is_written_again(tmp_path):
    (saved(tmp_path, 5) / folder_name(5) / "state.json").write_bytes(b"{}")
    assert load(saved(tmp_path, 5)).state == {"n": 5}
    assert names(tmp_path) == ["latest", "step-00000005"]


@pytest.mark.parametrize("file", ["model.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "miss"])
def test_a_damaged_file_is_named_and_the_one_before_is_offered(tmp_path, file, harm):
    path = saved(tmp_path, 5, 10) / folder_name(10) / file
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    path.write_bytes({"cut": data[:middle], "flip": flipped, "miss": b""}[harm])
    if harm == "miss":
        path.unlink()
    offer = (
        rf"step-00000010/{file} is (damaged|missing).*step 5 is whole: .*'step-00000005'.*--step 5"
    )
    with pytest.raises(DamagedError, match=offer):
        load(tmp_path)
    assert load(tmp_path, 5).step == 5


def test_every_bit_of_a_checkpoint_counts(tmp_path):
    folder = saved(tmp_path, 5) / folder_name(5)
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for place in range(0, len(data), 7):
            path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
            assert latest_intact_step(tmp_path) is None or json.loads(
                path.read_bytes()
            ) == json.loads(data)
        path.write_bytes(data)
    assert latest_intact_step(tmp_path) == 5


def test_with_nothing_whole_it_says_so(tmp_path):
    (saved(tmp_path, 5) / folder_name(5) / "state.json").write_bytes(b"{}")
    with pytest.raises(
        DamagedError, match=r"\(2 of \d+ bytes\), and no checkpoint before it is whol"
    ):
        load(tmp_path)


def test_a_damaged_pointer_offers_the_newest_that_is_whole(tmp_path):
    (saved(tmp_path, 5, 10) / "latest").write_text("step-0000")
    with pytest.raises(
        DamagedError, match=r"latest is damaged \(no such checkpoint\); .* step 10 is"
    ):
        load(tmp_path)


def test_another_schema_is_refused(tmp_path):
    path = saved(tmp_path, 5) / folder_name(5) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    with pytest.raises(DamagedError, match=r"manifest\.json: expected schema 1, got 2"):
        load(tmp_path)


def forged(folder, **changed):
    """A manifest of another hand, whose sum is right."""
    path = folder / folder_name(5) / "manifest.json"
    told = {k: v for k, v in json.loads(path.read_text()).items() if k not in ("schema", "sha256")}
    told |= changed
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({"schema": 1, **told, "sha256": digest}))


FACTS = {"bytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "title",
    [
        *("../../../etc/hostname", "/dev/zero", "..", "", "a/b.safetensors", "state.json/.."),
        *("model.safetensors\0", "model.safetensors\n", "C:model.safetensors", "é.safetensors"),
        *(".safetensors", "manifest.json", "model.pickle", "x" * 9999),
        "x" * 244 + ".safetensors",
    ],
)
def test_a_manifest_names_files_of_its_own_folder_alone(tmp_path, title, monkeypatch):
    forged(saved(tmp_path, 5), files={"state.json": FACTS, title: FACTS})
    read = []
    monkeypatch.setattr(checkpoints, "_verified_bytes", lambda path, facts: read.append(path))
    with pytest.raises(DamagedError, match=r"is damaged \(it names .*, no file of ours\)") as told:
        load(tmp_path)
    assert not read and len(str(told.value)) < 400


@pytest.mark.parametrize(
    "changed",
    [
        *({"files": 3}, {"files": {}}, {"files": {"state.json": 7}}, {"best": "x"}, {"best": 1.5}),
        *({"step": "5"}, {"step": None}, {"step": True}, {"step": -5}, {"step": 10**4000}),
        {"files": {"state.json": {"bytes": -1.0, "sha256": "x"}}},
        {"files": {"state.json": {"bytes": -1, "sha256": "x"}}},
        {"files": {"state.json": {"bytes": 10**4000, "sha256": "x"}}},
        {"files": {"state.json": {"bytes": True, "sha256": "x"}}},
        {"files": {"state.json": FACTS | {"more": 1}}},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_a_manifest_that_is_none_is_one_sentence(tmp_path, changed):
    forged(saved(tmp_path, 5), **changed)
    with pytest.raises(DamagedError, match=r"manifest\.json is damaged") as told:
        load(tmp_path)
    assert len(str(told.value)) < 400


def harmed(path, kind):
    """The file at `path`, gone and in its place something that must not be read."""
    path.rename(path.parent.parent / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        # by its name alone: the path of a socket has some hundred letters at most
        with chdir(path.parent), socket.socket(socket.AF_UNIX) as line:
            line.bind(path.name)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path.parent.parent / "elsewhere")


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link", "socket"])
@pytest.mark.parametrize("file", ["model.safetensors", "state.json", "manifest.json"])
def test_what_is_no_plain_file_is_not_read(tmp_path, file, kind):
    harmed(saved(tmp_path, 5) / folder_name(5) / file, kind)
    with pytest.raises(DamagedError, match=rf"{file} is damaged"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link", "socket"])
def test_a_pointer_that_is_no_plain_file_is_damaged(tmp_path, kind):
    harmed(saved(tmp_path / "run", 5) / "latest", kind)
    with pytest.raises(DamagedError, match=r"latest is damaged .* the checkpoint of step 5 is"):
        latest_step(tmp_path / "run")


def test_a_size_that_is_another_is_refused_before_anything_is_read(tmp_path):
    path = saved(tmp_path, 5) / folder_name(5) / "model.safetensors"
    os.truncate(path, 2**40)  # a hole, which takes no room on the disk and all memory when read
    with pytest.raises(DamagedError, match=r"\(1099511627776 of \d+ bytes\)"):
        load(tmp_path)


def unreadable(monkeypatch, number, *titles):
    """Lets the opening of these files of checkpoints fail with an error of the system."""
    opened = atomic_files.open_plain_file

    def plain_file(path):
        if f"{path.parent.name}/{path.name}" in titles:
            raise OSError(number, os.strerror(number), str(path))
        return opened(path)

    monkeypatch.setattr(atomic_files, "open_plain_file", plain_file)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENAMETOOLONG])
def test_a_file_that_cannot_be_read_is_damage_and_hides_none_of_the_others(
    tmp_path, monkeypatch, number
):
    saved(tmp_path, 5, 10, 15)
    titles = [f"{folder_name(step)}/model.safetensors" for step in (10, 15)]
    unreadable(monkeypatch, number, *titles)
    with pytest.raises(DamagedError, match=r"15/model\.safetensors cannot be read .*--step 5$"):
        load(tmp_path)
    assert latest_intact_step(tmp_path) == 5


def test_a_pointer_that_cannot_be_read_is_damaged(tmp_path, monkeypatch):
    unreadable(monkeypatch, errno.EIO, f"{saved(tmp_path / 'run', 5).name}/latest")
    with pytest.raises(DamagedError, match=r"latest is damaged .* the checkpoint of step 5 is"):
        latest_step(tmp_path / "run")


def test_whether_a_checkpoint_is_whole_is_asked_in_little_memory(tmp_path):
    hole = saved(tmp_path, 5) / folder_name(5) / "model.safetensors"
    os.truncate(hole, 2**27)  # its sum is right, so that all of it is read
    with hole.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    listed = json.loads((hole.parent / "manifest.json").read_text())["files"]
    forged(tmp_path, files=listed | {hole.name: {"bytes": 2**27, "sha256": digest}})
    tracemalloc.start()
    try:
        assert latest_intact_step(tmp_path) == 5
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_a_file_larger_than_memory_is_damage_and_the_one_before_is_offered(tmp_path, monkeypatch):
    saved(tmp_path, 5, 10)
    # what is asked of the bytes of a file once all of them are in memory
    monkeypatch.setattr(checkpoints, "_file_facts", Mock(side_effect=MemoryError))
    with pytest.raises(DamagedError, match=r"do not fit into memory\); .*--step 5$"):
        load(tmp_path)


def test_what_is_written_into_a_file_while_it_is_read_is_not_loaded(tmp_path, monkeypatch):
    path = saved(tmp_path, 5) / folder_name(5) / "model.safetensors"
    compared = hashlib.file_digest

    def file_digest(file, kind):
        found = compared(file, kind)
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        return found

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    with pytest.raises(DamagedError, match=r"is damaged \(its sha256 is another\)"):
        load(tmp_path, only=("model",))


@pytest.mark.parametrize(
    "state", [b"[]", b"x", b'{"trees": {}, "state": []}', b'{"trees": {"model": {"tensor": 3}}}']
)
def test_a_state_of_no_training_is_one_sentence(tmp_path, state):
    path = saved(tmp_path, 5) / folder_name(5)
    (path / "state.json").write_bytes(state)
    listed = json.loads((path / "manifest.json").read_text())["files"]
    facts = {"bytes": len(state), "sha256": hashlib.sha256(state).hexdigest()}
    forged(tmp_path, files=listed | {"state.json": facts})
    with pytest.raises(DamagedError, match=r"state\.json is of no training: \w+Error$"):
        load(tmp_path)


def test_a_manifest_of_another_step_is_refused(tmp_path):
    saved(tmp_path, 5)
    (tmp_path / folder_name(5)).rename(tmp_path / folder_name(6))
    (tmp_path / "latest").unlink()
    with pytest.raises(DamagedError, match=r"step-00000006/manifest\.json is damaged"):
        load(tmp_path)


def test_no_checkpoint_and_a_wrong_step_are_told_apart(tmp_path):
    assert latest_step(tmp_path) is None
    with pytest.raises(ValueError, match="expected checkpoints, got none"):
        load(tmp_path)
    with pytest.raises(ValueError, match="expected a checkpoint of step 7, got those of 5"):
        load(saved(tmp_path, 5), 7)


def test_killed_before_the_first_pointer_the_newest_is_taken(tmp_path):
    (saved(tmp_path, 0) / "latest").unlink()
    assert load(tmp_path).step == 0


@pytest.mark.parametrize("survived", range(10))
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, survived):
    folder = saved(tmp_path, 5)
    toy.broken(monkeypatch, survived, FULL, ["fsync"])
    with pytest.raises(OSError, match=r"00010 could not be written: No space .*-0000\d+ is whole"):
        save(folder, checkpoint(10))
    assert (load(folder).step, load(folder).state) == (5, {"n": 5})


@pytest.mark.parametrize("survived", range(8))
def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch, survived):
    folder = saved(tmp_path, 5)
    toy.broken(monkeypatch, survived, FULL, ["fsync"])
    with pytest.raises(OSError, match="Errno 28"):
        save(folder, checkpoint(10))
    assert names(folder) == ["latest", "step-00000005"]


def killed_anywhere(folder, monkeypatch, work):
    """Folders in which the work was killed before its first touch of the disk, its second, …"""
    for survived in range(1000):
        run = saved(folder / str(survived), 5, 6)
        with suppress(toy.Killed), monkeypatch.context() as patch:
            toy.broken(patch, survived, toy.Killed())
            work(run)
            return
        yield run


def test_killed_at_any_moment_of_saving_a_whole_checkpoint_is_the_latest(tmp_path, monkeypatch):
    def work(folder):
        save(folder, checkpoint(10), keep=1)

    for folder in killed_anywhere(tmp_path, monkeypatch, work):
        assert load(folder).step in (6, 10)
        remove_leftovers(folder)
        assert load(saved(folder, 10, 11)).step == 11


def test_killed_at_any_moment_of_saving_a_step_again_it_stays_the_latest(tmp_path, monkeypatch):
    for folder in killed_anywhere(tmp_path, monkeypatch, lambda folder: saved(folder, 6)):
        assert load(folder).step == 6


def test_killed_at_any_moment_of_going_back_a_whole_checkpoint_is_the_latest(tmp_path, monkeypatch):
    for folder in killed_anywhere(tmp_path, monkeypatch, lambda folder: rewind(folder, 5)):
        assert load(folder).step == 5 or list_steps(folder) == [5, 6]
        rewind(folder, 5)
        remove_leftovers(folder)
        assert names(folder) == ["latest", "step-00000005"]


@pytest.mark.parametrize(
    "title", ["step-000000009", "step-\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0669"]
)
def test_a_folder_that_only_looks_like_a_checkpoint_is_left_alone(tmp_path, title):
    folder = saved(tmp_path, 2)
    (folder / title).mkdir()
    assert (list_steps(folder), latest_step(folder)) == ([2], 2)
    rewind(folder, 2)
    assert (folder / title).is_dir()


def test_what_killed_processes_left_is_tidied_away(tmp_path):
    saved(tmp_path, 5)
    for left in (".writing-step-00000009", ".gone-step-00000002"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".latest.7-ab.part").write_text("step")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["latest", "step-00000005"]


def test_nothing_is_pickled(tmp_path):
    found = {p.suffix for p in (saved(tmp_path, 5) / folder_name(5)).iterdir()}
    assert found == {".safetensors", ".json"}
