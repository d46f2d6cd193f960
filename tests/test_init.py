"""The package comes in light, and once touched it is as if it had always been there."""

import importlib
import pickle
import subprocess
import sys

import pytest

import regard
from regard import functional

MODULES = ["biases", "edits", "rules", "scores", "selects"]


def python(*lines: str) -> str:
    """What a fresh interpreter prints, without the test's own import hooks."""
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_loads_neither_torch_nor_numpy():
    seen = "print({'torch', 'numpy', 'jaxtyping', 'regard.dispatch'} & set(sys.modules))"
    assert python("import sys, regard", "regard.__version__", seen) == "set()"


def test_importing_the_package_takes_no_time():
    lines = ["import time", "start = time.perf_counter()", "import regard"]
    took = [float(python(*lines, "print(time.perf_counter() - start)")) for _ in range(3)]
    assert min(took) < 0.02


def test_attending_loads_no_zoo_and_nothing_heavy():
    heavy = "lightning_fabric matplotlib regard.zoo rich safetensors tokenizers transformers triton"
    before = "import sys, torch, regard; before = set(sys.modules)"
    seen = f"print((set(sys.modules) - before) & set({heavy.split()}))"
    assert python(before, "regard.attend", seen) == "set()"


def test_after_the_first_touch_all_names_are_ordinary_attributes():
    names = "set(regard.__all__) - {'load', 'view'} <= vars(regard).keys()"
    assert python("import regard", f"print({names}, regard.look and {names})") == "False True"


@pytest.mark.parametrize(
    "line",
    [
        "from regard.rules import causal",
        "import regard.rules; causal = regard.rules.causal",
        "import regard.rules as rules; causal = rules.causal",
        "import regard; causal = regard.rules.causal",
        "from regard import rules; causal = rules.causal",
        "from regard import *; causal = rules.causal",
        "from regard.rules import *",
    ],
)
def test_every_way_to_import_a_rule_gives_the_one_that_there_is(line):
    check = "import regard.functional.rules as home; print(causal is home.causal)"
    assert python(line, check) == "True"


@pytest.mark.parametrize("name", MODULES)
def test_a_short_name_is_the_module_itself(name):
    home = importlib.import_module(f"regard.functional.{name}")
    assert importlib.import_module(f"regard.{name}") is getattr(regard, name) is home
    assert home is getattr(functional, name)
    assert home.__name__ == home.__spec__.name == f"regard.functional.{name}"


def test_what_was_pickled_by_the_short_name_comes_back_as_the_same_class():
    rule = regard.rules.window(3)
    assert b"regard.functional.rules" in pickle.dumps(rule)
    assert pickle.loads(pickle.dumps(rule)) == rule


def test_a_name_that_is_not_there_is_the_usual_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'atend'"):
        regard.atend  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'atend' from 'regard'"):
        exec("from regard import atend")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'regard\.rule'"):
        importlib.import_module("regard.rule")


def test_all_public_names_are_listed_before_they_are_touched():
    assert python("import regard", "print(set(regard.__all__) <= set(dir(regard)))") == "True"


@pytest.mark.compiled
def test_a_name_may_be_first_touched_inside_a_compiled_function():
    agree = python(
        "import regard, torch",
        "assert 'attend' not in vars(regard)",
        "run = lambda q: regard.attend(q, q, q, rule=regard.rules.causal)",
        "compiled = torch.compile(run, fullgraph=True, backend='aot_eager')",
        "q = torch.randn(2, 3, 5, 7)",
        "print(torch.allclose(compiled(q), run(q), atol=1e-6))",
    )
    assert agree == "True"


def test_importing_it_twice_changes_nothing():
    fresh = "del sys.modules['regard']; import regard; print(regard.rules is rules)"
    assert python("import sys, regard", "rules = regard.rules", fresh) == "True"


def test_what_loads_a_model_is_the_zoo_s_and_comes_when_it_is_touched():
    there = "'regard.zoo' in sys.modules"
    seen = f"print({there}, regard.load is regard.zoo.load, {there})"
    assert python("import sys, regard", "regard.attend", seen) == "False True True"


def test_pictures_are_there_when_they_are_touched():
    assert python("import regard", "print(regard.view.trace.__name__)") == "trace"
