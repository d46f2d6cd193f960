"""The pages of models: parameters as counted, a page for each kind, tables from the cards."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from regard.zoo import card, model_kinds, names

PAGES = Path(__file__).parent.parent.parent / "docs" / "models"
SIZE = re.compile(r"^\| `(regard\.models\.(\w+)\.(\w+))`.*\| ([\d,]+) \|$", re.MULTILINE)


def sizes():
    for path in sorted(PAGES.glob("*.md")):
        for name, module, attribute, number in SIZE.findall(path.read_text()):
            count = int(number.replace(",", ""))
            yield pytest.param(module, attribute, count, id=name.removeprefix("regard.models."))


@pytest.mark.parametrize(("module", "attribute", "parameters"), list(sizes()))
def test_parameters_are_as_many_as_the_page_says(module, attribute, parameters):
    found = getattr(importlib.import_module(f"regard.models.{module}"), attribute)
    config = found() if isinstance(found, type) else found
    _, model = model_kinds.classes(config.kind)
    with torch.device("meta"):
        assert sum(weight.numel() for weight in model(config).parameters()) == parameters


def test_every_kind_of_model_has_a_page():
    text = "\n".join(path.read_text() for path in PAGES.glob("*.md"))
    pages = {"seq2seq", "transformer", "decoder-only", "ntm", "pointer-network"}
    assert {path.stem for path in PAGES.glob("*.md")} == pages | {"attention-pointer", "index"}
    assert all(kind in text.replace("-", "_") for kind in map(_plain, model_kinds.KINDS))


def _plain(kind):
    return kind.replace("-", "_")


def test_every_trained_model_stands_on_the_page_of_its_kind(site):
    for name in names():
        kind = card(name)["model"].replace("_", "-")
        for page in (kind, "index"):
            assert f"<code>{name}</code>" in (site / "models" / f"{page}.html").read_text(), name
