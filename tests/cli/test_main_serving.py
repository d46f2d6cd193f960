"""`regard serve` from the command line: what it says, whom it warns, and what it refuses."""

import itertools
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.cli import console, main, serve_setup
from regard.view.server import start


@pytest.fixture
def served(capsys, monkeypatch):
    """Run the command without a server: what the server was told, and all else."""
    told = {}

    def serve(state, **given):
        links = (f"http://127.0.0.1:1/#token={n}" for n in itertools.count())
        given["on_ready"](lambda: next(links), given["host"] != "127.0.0.1")
        told.update(given, state=state)

    def build_app_state(traces, **given):
        told.update(given, traces=traces)
        return "state", "#/t/0" if traces else ""

    monkeypatch.setattr(start, "serve", serve)
    monkeypatch.setattr(serve_setup, "build_app_state", build_app_state)

    def run(*words):
        code = main.main(["serve", *words])
        return SimpleNamespace(code=code, told=told, said=capsys.readouterr())

    return run


def test_it_prints_the_address_and_opens_the_browser(served):
    found = served()
    assert (found.code, found.said.out) == (0, "http://127.0.0.1:1/#token=0\n")
    assert found.said.err == "the link opens the page once; Ctrl-C ends it\n"
    assert found.told["open_url"] is start.open_in_browser
    assert (found.told["host"], found.told["port"]) == ("127.0.0.1", 0)
    assert str(found.told["runs"]) == "runs"


def test_what_was_typed_is_told(served):
    words = "--no-browser --port 8080 --trace a.safetensors --trace b.safetensors --budget 64"
    told = served(*words.split()).told
    assert (told["open_url"], told["port"], told["budget"]) == (None, 8080, 64 * 2**20)
    assert [path.name for path in told["traces"]] == ["a.safetensors", "b.safetensors"]
    assert told["fragment"] == "#/t/0"


def test_another_host_is_warned_of(served):
    assert "warning: others than this machine can reach it" in served("--host", "0.0.0.0").said.err
    assert "warning" not in served().said.err


def test_a_file_that_is_no_trace_is_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        console, "SECONDS_BETWEEN_NOTES", 60.0
    )  # on a busy machine it would say that it works
    (tmp_path / "a.safetensors").write_bytes(b"PK")
    assert main.main(["serve", "--trace", str(tmp_path / "a.safetensors")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("regard serve: ")
    assert "is not a trace: the file is cut off" in said.err
    assert said.err.count("\n") == 1


def test_a_port_that_is_taken_is_a_sentence(capsys, monkeypatch, tmp_path):
    from regard.view.server.address import open_socket

    monkeypatch.chdir(tmp_path)
    with open_socket("127.0.0.1", 0) as other:
        port = str(other.getsockname()[1])
        assert main.main(["serve", "--no-browser", "--port", port]) == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err


def test_without_the_extra_it_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert main.main(["serve"]) == 1
    assert capsys.readouterr().err == (
        "regard serve: serving needs the web: pip install 'regard[web]'\n"
    )


def test_enter_in_the_terminal_prints_a_new_link(tmp_path):
    """A real terminal, and a server that is ended at last."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-m", "regard", "serve", "--no-browser"]
    given = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, **given)
    try:
        first = process.stdout.readline()
        while "Enter prints another" not in process.stderr.readline():
            time.sleep(0.01)
        os.write(ours, b"\n")
        second = process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
        os.close(theirs)
    assert first.partition("#")[0] == second.partition("#")[0]
    assert first.partition("#")[2] != second.partition("#")[2]
