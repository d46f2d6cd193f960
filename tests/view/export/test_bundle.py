"""The page that comes along is what its source builds, and small."""

import gzip
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from regard.view import page
from regard.view.export import bundle
from tests.view.example_traces import translation

SOURCE = Path(__file__).parents[3] / "page"
BUILT = ("index.html", "app.js", "app.css", "icon.svg", "LICENSES.txt")
PACKAGES = ("clsx", "svelte")


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
        committed = (bundle.PAGE_FOLDER / name).read_bytes()
        assert (tmp_path / name).read_bytes() == committed, f"{name} is old: make page"


def test_the_first_paint_takes_at_most_150_kilobytes():
    sizes = [len(gzip.compress((bundle.PAGE_FOLDER / name).read_bytes(), 6)) for name in BUILT[:3]]
    assert sum(sizes) <= 150_000


def test_script_and_style_are_those_files():
    assert bundle.script().encode() == (bundle.PAGE_FOLDER / "app.js").read_bytes()
    assert bundle.style().encode() == (bundle.PAGE_FOLDER / "app.css").read_bytes()
    assert "export" in bundle.script()[-200:]


def test_the_licences_of_the_packages_in_the_bundle_stand_in_it_and_beside_it():
    notice, _, _ = bundle.script().partition("*/")
    beside = (bundle.PAGE_FOLDER / "LICENSES.txt").read_text(encoding="utf-8")
    assert notice.startswith("/*!\n")
    for text in (notice, beside):
        assert "The above copyright notice and this permission notice shall be" in text
        assert (
            all(f"{name}\n" in text or f"{name}, MIT" in text for name in PACKAGES)
            and text.count("Copyright (c)") == 2
        )


def test_a_saved_page_has_the_notice_of_the_bundle():
    notice, _, _ = bundle.script().partition("*/")
    assert notice.startswith("/*!\n") and notice in page(translation())


def test_the_package_names_the_licence_of_the_bundle_and_ships_its_text():
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    assert "MIT" in project["license"].split(" AND ")
    assert "regard/view/page/LICENSES.txt" in project["license-files"]
    assert all((SOURCE.parent / name).is_file() for name in project["license-files"])


def test_neither_asks_for_anything_else():
    assert "@import" not in bundle.style() and "url(" not in bundle.style()
    assert "sourceMappingURL" not in bundle.script()
    assert "</style" not in bundle.style()


def test_a_page_that_is_not_built_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(bundle, "PAGE_FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"expected app\.js .*, got none: make page"):
        bundle.script()
