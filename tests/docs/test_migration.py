"""The table of other libraries: every name in the column "Regard" exists, with its arguments."""

import ast
import builtins
import importlib
import inspect
import re
from pathlib import Path

import pytest

import regard
from regard.cli import resolve

PAGE = Path(__file__).parent.parent.parent / "docs" / "migration.md"
CODE = re.compile(r"`([^`]+)`")
# What stands for something of the reader's.
YOURS = {*"aBbEGHKQWhkmqvx", "bias", "cache", "ids", "kv", "layer", "lengths", "mask", "mask_mod"}
YOURS |= {"memory", "mha", "model", "name", "positions", "scale", "score", "source", "table"}
YOURS |= {"vector", "width"}
SETTING = re.compile(r"(?:model|data|training)(?:\.\w+)*=\S+")
HOMES = {name: f"regard.{name}" for name in ("decode", "train", "zoo")}


def cells():
    """The cells of the columns named Regard, and in each the code."""
    column = None
    for line in PAGE.read_text().splitlines():
        # a sign of `or` within code parts no cells
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not row:
            column = None
        elif "Regard" in row:
            column = row.index("Regard")
        elif column is not None and set(row[0]) != {"-"}:
            yield from (pytest.param(code, id=code) for code in CODE.findall(row[column]))


def test_there_are_tables_of_seven_libraries():
    headings = re.findall(r"^## (.+)", PAGE.read_text(), re.MULTILINE)
    assert len(headings) == 8 and len(list(cells())) > 80


@pytest.mark.parametrize("code", [cell for cell in cells() if SETTING.match(cell.values[0])])
def test_a_setting_can_be_given(code):
    resolve.recipe_and_config("translate", None, code.split())


@pytest.mark.parametrize("code", [cell for cell in cells() if not SETTING.match(cell.values[0])])
def test_every_name_exists_and_takes_what_it_is_given(code):
    check(code)


def check(code: str) -> None:
    """Find each name of some code, and fit each call to the signature of what it calls."""
    tree = ast.parse(f"f({code})" if re.match(r"\w+=[^=]", code) else code, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) != "f":
            given = {keyword.arg: None for keyword in node.keywords}
            inspect.signature(found(node.func)).bind(*node.args, **given)
        elif isinstance(node, ast.Name | ast.Attribute):
            found(node)
        elif isinstance(node, ast.keyword) and code.startswith(f"{node.arg}="):
            assert node.arg in inspect.signature(regard.attend).parameters


def found(node: ast.expr):
    """What a name or a path of names stands for; what is yours stands for itself."""
    if isinstance(node, ast.Attribute):
        home = found(node.value)
        # a layer of yours is a MultiHead
        home = regard.layers.MultiHead if home == "layer" else home
        return (lambda *_, **__: None) if home in YOURS else getattr(home, node.attr)
    if isinstance(node, ast.Call):
        return found(node.func)
    assert isinstance(node, ast.Name), ast.unparse(node)
    if node.id == "layer":
        return CallableName("layer")
    if node.id in YOURS or node.id == "f":
        return CallableName(node.id)
    if node.id in HOMES:
        return importlib.import_module(HOMES[node.id])
    return getattr(regard, node.id, None) or getattr(builtins, node.id)


class CallableName(str):
    """A name of the reader's, which takes what the table gives it."""

    def __call__(self, *args, rule=None, bias=None): ...


@pytest.mark.parametrize(
    "wrong", ["attend(q, k, v, mask=m)", "scores.Additiv(vector)", "layers.MultiHead(E, H, 3)"]
)
def test_a_wrong_name_or_argument_would_be_found(wrong):
    with pytest.raises((AttributeError, TypeError)):
        check(wrong)
