"""A language whose words are ours backwards, and a small translator that has learned it."""

from pathlib import Path

import pytest

from regard import load
from regard.config import override
from regard.recipes import translate
from regard.recipes.translate import Config

NOUNS = ["cat", "dog", "sun", "sea", "tree", "house", "boat", "bird", "star", "moon"]
VERBS = ["sees", "likes", "finds", "wants", "has", "knows"]
TINY = [
    "data.development=20",
    "data.test=30",
    "model.vocabulary=300",
    "model.embedding=32",
    "model.readout=32",
    "model.width=32",
    "model.alignment=32",
    "model.dropout=0",
    "training.steps=150",
    "training.validate_every=50",
    "training.save_every=50",
    "training.report_every=10",
    "training.schedule.warmup=10",
    "training.optimizer.rate=1e-2",
]


@pytest.fixture(scope="package")
def pairs(tmp_path_factory) -> Path:
    """A language whose words are ours backwards, its verb at the end."""
    told = [(a, v, b) for a in NOUNS for v in VERBS for b in NOUNS if a != b]
    lines = [f"the {a} {v} the {b}\teht {a[::-1]} eht {b[::-1]} {v[::-1]}\n" for a, v, b in told]
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="package")
def config(pairs) -> Config:
    return override(Config(), [*TINY, f"data.pairs={pairs}"])


@pytest.fixture(scope="package")
def result(config, tmp_path_factory):
    pytest.importorskip("sacrebleu")
    return translate.run(config, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="package")
def loaded(result):
    return load(result.folder)
