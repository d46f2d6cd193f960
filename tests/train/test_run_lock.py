"""One training a folder: who comes second is refused, and a dead process holds nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.train import BusyError, checkpoints, fit
from regard.train.run_lock import check_not_busy, hold_lock
from tests.train import toy

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")
HOLDS = """
import sys, time
from pathlib import Path
from regard.train.run_lock import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def living(tmp_path):
    """A process that holds the lock of a folder."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_comes_second_is_told_which_process_was_first(tmp_path, living):
    words = f"run: {tmp_path} is being trained by process {living.pid}; wait until it ends, or st"
    with pytest.raises(BusyError, match=words):
        check_not_busy(tmp_path)
    with pytest.raises(BusyError, match=words), hold_lock(tmp_path):
        raise AssertionError("two hold one lock")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_dead_holds_nothing(tmp_path, living, number):
    living.send_signal(number)
    living.wait()
    check_not_busy(tmp_path)
    with hold_lock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_is_let_go_at_the_end_and_by_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), hold_lock(tmp_path):
        raise ZeroDivisionError
    with hold_lock(tmp_path), pytest.raises(BusyError), hold_lock(tmp_path):
        pass
    check_not_busy(tmp_path)


def test_a_folder_that_nobody_trains_is_free_and_gets_no_lock(tmp_path):
    check_not_busy(tmp_path)
    check_not_busy(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "x" * 99, "1\x1b[31m", "\0"])
def test_a_lock_that_says_no_number_is_of_another_process(tmp_path, text):
    with hold_lock(tmp_path):
        (tmp_path / "lock").write_text(text)
        with pytest.raises(BusyError, match="is being trained by another process"):
            check_not_busy(tmp_path)


@pytest.mark.parametrize("resume", [False, True, "step-00000012"])
def test_a_training_beside_a_living_one_is_refused_and_nothing_is_changed(tmp_path, living, resume):
    living.kill()
    living.wait()
    trained = {"run": tmp_path, "validate": toy.validate}
    fit(toy.model(), toy.loss, toy.Batches(), toy.training(), **trained)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with hold_lock(tmp_path), pytest.raises(BusyError, match="is being trained by process"):
        fit(toy.model(), toy.loss, toy.Batches(), toy.training(), resume=resume, **trained)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert checkpoints.latest_step(tmp_path / "checkpoints") == 12


def test_the_lock_is_held_while_it_trains_and_not_behind_it(tmp_path):
    told = []

    def validate(model):
        with pytest.raises(BusyError) as error:
            check_not_busy(tmp_path)
        told.append(str(error.value))
        return toy.validate(model)

    fit(toy.model(), toy.loss, toy.Batches(), toy.training(), run=tmp_path, validate=validate)
    assert len(told) == 3 and f"by process {os.getpid()};" in told[0]
    check_not_busy(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_lock_that_is_no_plain_file_is_named(tmp_path, kind):
    lock = tmp_path / "lock"
    {"pipe": os.mkfifo, "link": lambda at: at.symlink_to("x"), "folder": Path.mkdir}[kind](lock)
    with pytest.raises(OSError) as error, hold_lock(tmp_path):
        pass
    assert error.value.filename == str(lock) or error.value.filename == lock
    assert not (tmp_path / "x").exists()
