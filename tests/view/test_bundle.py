"""The page that comes along is what its source builds, and small."""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.view import bundle

SOURCE = Path(__file__).parents[2] / "page"
BUILT = ("index.html", "app.js", "app.css", "icon.svg")


def npm(*words: str) -> None:
    done = subprocess.run(
        ["npm", *words], cwd=SOURCE, capture_output=True, text=True, timeout=280, env=os.environ
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_what_is_committed_is_what_the_source_builds(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("the build of the page was not compared: there is no Node. apt install npm")
    if not (SOURCE / "node_modules" / "vite").exists():
        pytest.skip("the build of the page was not compared: make page installs what it needs")
    npm("run", "build", "--", "--outDir", str(tmp_path), "--emptyOutDir", "--logLevel", "error")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(BUILT)
    for name in BUILT:
        committed = (bundle.BUILT / name).read_bytes()
        assert (tmp_path / name).read_bytes() == committed, f"{name} is old: make page"


def test_the_first_paint_takes_at_most_150_kilobytes():
    sizes = [len(gzip.compress((bundle.BUILT / name).read_bytes(), 6)) for name in BUILT[:3]]
    assert sum(sizes) <= 150_000


def test_script_and_style_are_those_files():
    assert bundle.script().encode() == (bundle.BUILT / "app.js").read_bytes()
    assert bundle.style().encode() == (bundle.BUILT / "app.css").read_bytes()
    assert "export" in bundle.script()[-200:]


def test_neither_asks_for_anything_else():
    assert "@import" not in bundle.style() and "url(" not in bundle.style()
    assert "sourceMappingURL" not in bundle.script()
    assert "</style" not in bundle.style()


def test_a_page_that_is_not_built_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(bundle, "BUILT", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"expected app\.js .*, got none: make page"):
        bundle.script()
