"""The tree keeps its own rules: imports point down, files stay small, every file has its test."""

import ast
import difflib
import functools
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "regard").rglob("*.py"))
FOLDERS = ("regard", "tests", "examples", "benchmarks")

# Each part of regard, and the parts it may import. Read it top to bottom: nothing points up.
MAY_IMPORT = {
    "check": set(),
    "meant": set(),
    "annotations": set(),
    "config": {"meant", "annotations"},
    "files": set(),
    "mkl": set(),
    "onednn": set(),
    "recording": set(),
    "compiling": set(),
    "functional": {"check", "onednn", "functional"},
    "kernels": {"check", "compiling", "onednn", "functional", "kernels"},
    "looking": {"check", "functional", "looking"},
    "door": {"check", "mkl", "functional", "kernels", "looking"},
    "layers": {"check", "functional", "kernels", "door", "layers"},
    "models": {"check", "functional", "door", "layers"},  # and no other model
    "decode": {"check", "recording", "kernels", "looking", "decode"},
    "weights": {"models"},
    "data": {"check", "files", "data"},
    "train": {"check", "config", "files", "mkl", "recording", "compiling", "train"},
    "zoo": {"check", "meant", "config", "files", "models", "weights", "data", "zoo"},
    # Trace and plots know no model; the server is handed the recipes.
    "view": {"check", "files", "functional", "door", "looking", "view"},
    "recipes": {"check", "config", "functional", "kernels", "door", "looking", "layers", "models"}
    | {"decode", "weights", "data", "files", "train", "zoo", "view", "recipes"},
    "terminal": set(),
    "options": set(),
    "asking": {"meant", "config", "train", "zoo", "terminal"},
    "drawing": {"asking", "options", "view"},
    "offering": {"asking", "looking", "zoo", "view"},
    "cli": {
        "asking",
        "drawing",
        "offering",
        "options",
        "terminal",
        "config",
        "functional",
        "door",
        "looking",
        "train",
        "zoo",
        "view",
        "recipes",
    },
}
# The kernels that are no attention; all others are reached through the door.
ANYBODYS = {"following", "losses", "one_query"}
ANYBODYS |= {"one_query_beams", "one_query_choice", "one_query_embedding"}
ANYBODYS |= {"one_query_linear", "one_query_norm", "one_query_top", "tape", "tape_sizes"}
ANYBODYS |= {"tour_sizes"}
# What only one part may import, even inside a function.
ONLY_IN = {"triton": "kernels", "starlette": "view", "uvicorn": "view"}
ONLY_IN |= {"PIL": "view", "anywidget": "view"}
# What `import regard` must not load: it is slow, or it is not everywhere.
HEAVY = (
    "PIL anywidget lightning lightning_fabric matplotlib starlette tokenizers transformers triton "
    "uvicorn"
)
# What a machine with the run-time dependencies alone does not have.
EXTRAS = (
    "anywidget beartype gymnasium huggingface_hub hypothesis matplotlib PIL playwright pytest "
    "sacrebleu scipy starlette transformers triton uvicorn"
)
NO_PLACE = {"base", "common", "helper", "helpers", "misc", "util", "utils"}
MAX_FILE, MAX_FUNCTION, MAX_KERNEL, MAX_ARGUMENTS, MAX_ALIKE = 400, 60, 120, 8, 0.5


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def part(path: Path) -> str:
    return path.relative_to(ROOT / "regard").parts[0].removesuffix(".py")


def modules(path: Path, *, at_once: bool = False) -> set[str]:
    """The full names of what a file imports, wherever it does so, or only as it is imported."""
    found = set()
    # `from . import x` in regard/layers/y.py is `from regard.layers import x`.
    package = path.relative_to(ROOT).parts[:-1]
    tree = ast.parse(path.read_text())
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            found |= {f"{source}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_point_down(path):
    here = part(path)
    if here in ("__init__", "__main__"):
        return
    assert here in MAY_IMPORT, f"say in MAY_IMPORT what regard.{here} may import"
    allowed = MAY_IMPORT[here] | ({here} if path.stem == "__init__" else set())
    used = {m.split(".")[1] for m in modules(path) if m.startswith("regard.")}
    assert "regard" not in modules(path), "import the part that is needed, not all of regard"
    assert used <= allowed, f"regard.{here} may import only {sorted(allowed)}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_attention_is_reached_through_the_door_alone(path):
    if part(path) not in ("kernels", "door"):
        used = {m.split(".")[2] for m in modules(path) if m.startswith("regard.kernels.")}
        assert used <= ANYBODYS, "ask regard.door"


@pytest.mark.parametrize("line", ["from regard.layers import x", "from ..layers import x"])
def test_an_import_that_points_up_is_caught_inside_a_function_too(line, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "regard" / "functional" / "scores.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"def dot():\n    {line}\n")
    with pytest.raises(AssertionError, match=r"regard\.functional may import only"):
        test_imports_point_down(path)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_triton_and_the_web_keep_to_their_parts(path):
    used = {m.split(".")[0] for m in modules(path)} & ONLY_IN.keys()
    assert {ONLY_IN[m] for m in used} <= {part(path)}, f"{sorted(used)} do not belong here"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_small_enough_to_read(path):
    text, in_kernels = path.read_text(), part(path) == "kernels"
    assert len(text.splitlines()) <= MAX_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            longest = MAX_KERNEL if in_kernels else MAX_FUNCTION
            assert node.end_lineno - node.lineno < longest, f"{node.name} is too long"
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            taken = [a.arg for a in given if a.arg not in ("self", "cls")]
            # a Triton kernel takes pointers and strides; what calls it does not
            assert in_kernels or len(taken) <= MAX_ARGUMENTS, f"{node.name} takes {taken}"


@pytest.mark.parametrize("path", [p for p in SOURCES if not p.stem.startswith("__")], ids=name)
def test_has_its_test(path):
    twin = ROOT / "tests" / path.relative_to(ROOT / "regard").with_name(f"test_{path.name}")
    assert twin.exists(), f"write {name(twin)}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_opens_with_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "say in one line what lives here"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_module_keeps_nothing_between_calls(path):
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef) and function.name in ("forward", "step"):
            for node in ast.walk(function):
                kept = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                of_self = kept and isinstance(node.value, ast.Name) and node.value.id == "self"
                assert not of_self, f"{function.name} writes self.{node.attr}, line {node.lineno}"


def test_every_file_has_a_place():
    written = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    lost = [name(p) for p in written if p.stem in NO_PLACE and "__pycache__" not in p.parts]
    assert not lost, "name a file after what lives in it"


def test_folders_of_tests_are_packages():
    folders = {p.parent for p in (ROOT / "tests").rglob("*.py")}
    bare = [name(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    assert not bare, "without an __init__.py, two tests of one name cannot live in two folders"


def test_nothing_is_written_twice():
    lines = {p: [s for s in p.read_text().splitlines() if s.strip()] for p in SOURCES}
    for a, b in itertools.combinations(SOURCES, 2):
        if a.parent == b.parent and min(len(lines[a]), len(lines[b])) > 40:
            match = difflib.SequenceMatcher(None, lines[a], lines[b], autojunk=False)
            alike = match.real_quick_ratio() >= MAX_ALIKE and match.quick_ratio() >= MAX_ALIKE
            assert not alike or match.ratio() < MAX_ALIKE, f"{name(a)} and {name(b)} share much"


def python(code: str) -> str:
    """What a fresh interpreter prints, without the test's own import hooks."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_regard_loads_nothing_heavy():
    loaded = python(
        "import sys, numpy, torch\n"
        "before = set(sys.modules)\n"
        "import regard\n"
        f"print(*sorted((set(sys.modules) - before) & set({HEAVY.split()})))"
    )
    assert loaded == ""


def test_everything_imports_with_the_run_time_dependencies_alone():
    @functools.cache
    def fused(path):
        """Whether importing a file imports triton, through others of ours too."""
        named = modules(path, at_once=True)
        kernels = {m.rsplit(".", 1)[0] for m in named} | named
        ours = [ROOT / f"{m.replace('.', '/')}.py" for m in kernels if m.startswith("regard.")]
        return any(m.split(".")[0] == "triton" for m in named) or any(
            p.exists() and fused(p) for p in ours
        )

    plain = [p for p in SOURCES if not fused(p) and p.stem != "__main__"]
    names = [name(p).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for p in plain]
    python(
        "import importlib, sys\n"
        f"sys.modules |= dict.fromkeys({EXTRAS.split()})\n"
        f"for name in {names}:\n"
        "    importlib.import_module(name)"
    )


def listed(text: str) -> dict[str, str]:
    """The paths of the first block that draws regard/ as a tree, and the words beside each."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    tree = next((b for b in blocks if re.search(r"^regard/(\s|$)", b, re.MULTILINE)), "")
    found, folders = {}, []
    for line in filter(str.strip, tree.splitlines()):
        indent, path, words = re.match(r"([\s│├└─|`+-]*)(\S+)\s*(.*)", line).groups()
        while folders and folders[-1][0] >= len(indent):
            folders.pop()
        path = (folders[-1][1] if folders else "") + path
        found[path] = words.strip("# ")
        if path.endswith("/"):
            folders.append((len(indent), path))
    return found


def test_the_tree_of_the_readme_is_true():
    tree = listed((ROOT / "README.md").read_text())
    sources = {name(p) for p in SOURCES if not p.stem.startswith("__")}
    assert sorted(sources - tree.keys()) == [], "not in the README's tree"
    assert [path for path in tree if not (ROOT / path).exists()] == [], "in the tree only"
    assert [path for path in tree if path.endswith(".py") and not tree[path]] == [], "no words"


@pytest.mark.parametrize("a, b", [("  ", "    "), ("├── ", "│   └── ")], ids=["blanks", "lines"])
def test_a_tree_is_read_by_its_indents(a, b):
    lines = ["regard/", f"{a}functional/  all", f"{b}scores.py  # how well", f"{a}door.py  one"]
    assert listed("\n".join(["```", *lines, "```"])) == {
        "regard/": "",
        "regard/functional/": "all",
        "regard/functional/scores.py": "how well",
        "regard/door.py": "one",
    }
