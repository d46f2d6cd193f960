"""For every test of the zoo: one kind more, and the folder of a small trained model."""

from pathlib import Path

import pytest

from regard.zoo import model_kinds
from tests.zoo import tiny


@pytest.fixture(autouse=True)
def _tiny_is_a_kind(monkeypatch):
    monkeypatch.setitem(model_kinds.KINDS, "tiny", tiny.known())


@pytest.fixture
def folder(tmp_path) -> Path:
    tiny.saved(tmp_path / "run")
    return tmp_path / "run"
