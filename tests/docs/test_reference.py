"""The reference has every public name, and the list of modules every module."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from regard import _FUNCTIONS, _MODULES, __all__
from regard.cli.resolve import RECIPES

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("layers", "decode", "fast_decode", "looking", "train", "zoo", "view", "config")
MODELS = [path.stem for path in (ROOT / "regard" / "models").glob("[a-z]*.py")]
PUBLIC = [
    "regard",
    *_MODULES.values(),
    *(f"regard.{name}" for name in PACKAGES if f"regard.{name}" not in _MODULES.values()),
    *(f"regard.models.{name}" for name in sorted(MODELS)),
    *(f"regard.recipes.{name}" for name in RECIPES),
    "regard.dispatch",
    "regard.kernels.additive.api",
    "regard.kernels.ntm.api",
]


def public_names(module: str) -> list[str]:
    """What `__all__` names; else what a module defines at its top without an underscore."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return list(loaded.__all__)
    names = list[str]()
    for node in ast.parse(Path(str(loaded.__file__)).read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            found = target.elts if isinstance(target, ast.Tuple) else [target]
            names += [each.id for each in found if isinstance(each, ast.Name)]
    return [name for name in names if not name.startswith("_")]


@pytest.fixture(scope="module")
def anchors(site):
    """All that the pages of the reference have an anchor for."""
    pages = [path.read_text() for path in (site / "api").glob("*.html")]
    return {name for page in pages for name in re.findall(r'id="(regard\.[^"]+)"', page)}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module, anchors):
    names = {f"{module}.{name}" for name in public_names(module)}
    if module == "regard":  # modules among its names have pages of their own
        names -= {f"regard.{name}" for name in [*_MODULES, "view"]}
    assert names and not names - anchors


def test_the_short_names_of_modules_have_pages(site):
    for name in [*_MODULES, "view"]:
        assert (site / "api" / f"regard.{name}.html").exists(), name


def test_what_regard_gives_is_a_function_or_a_module():
    functions = {name for names in _FUNCTIONS.values() for name in names} | {"load"}
    assert set(__all__) == functions | {*_MODULES, "view"}


def test_signatures_and_comments_of_fields_are_shown(site):
    text = plain(site / "api" / "regard.html")
    assert "rule: Rule | Tensor | None = None" in text
    config = plain(site / "api" / "regard.models.transformer.html")
    assert "width: int = 512" in config
    (line,) = re.findall(r"# (.+)\n    feed_forward_width: int", source("models/transformer.py"))
    assert line in config


def test_every_module_is_listed_with_its_first_line(site):
    text = plain(site / "modules.html")
    for path in (ROOT / "regard").rglob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        # what stands in backticks, and signs of HTML, look otherwise on a page
        words = re.split(r"[`<>&*_\[\]'\"\\|]", docstring.partition("\n")[0])
        missing = [part for part in words if part not in text]
        assert docstring and not missing, path.relative_to(ROOT)


def source(path: str) -> str:
    return (ROOT / "regard" / path).read_text()


def plain(path: Path) -> str:
    """The text of a page without its tags."""
    return re.sub(r"<[^>]+>", "", path.read_text())
