"""The documentation site, built once for all tests that read it, and the hooks that build it."""

import fcntl
import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
MISSING = "the documentation was not built: pip install 'regard[docs]'"


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the built site; workers wait for the first of them, which builds it."""
    pytest.importorskip("mkdocs", reason=MISSING)
    pytest.importorskip("mkdocstrings", reason=MISSING)
    pytest.importorskip("material", reason=MISSING)
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder, done = shared / "site", shared / "site.built"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
            quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            found = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
            done.write_text(f"{found.returncode}\n{found.stdout}{found.stderr}")
    code, _, printed = done.read_text().partition("\n")
    assert code == "0", printed[-4000:]
    return folder


@pytest.fixture(scope="session")
def hook():
    """A function from the name of a file of docs/hooks/ to its module."""
    return load_hook


@cache
def load_hook(name: str) -> ModuleType:
    # docs/ is no package, and another one of that name may be installed
    spec = importlib.util.spec_from_file_location(
        f"hook_{name}", ROOT / "docs" / "hooks" / f"{name}.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "docs" / "hooks"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
