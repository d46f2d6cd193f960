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
    "config": {"config"},
    "runtime": set(),
    "functional": {"check", "runtime", "functional"},
    "kernels": {"check", "runtime", "functional", "kernels"},
    "looking": {"check", "functional", "looking"},
    "dispatch": {"check", "runtime", "functional", "kernels", "looking"},
    "fast_path": {"dispatch", "kernels", "looking"},
    "layers": {"check", "functional", "kernels", "dispatch", "fast_path", "layers"},
    "models": {"check", "functional", "dispatch", "fast_path", "layers"},  # and no other model
    "fast_decode": {"kernels", "fast_path", "layers", "fast_decode"},
    "decode": {"check", "runtime", "kernels", "looking", "fast_path", "fast_decode", "decode"},
    "weights": {"models"},
    "data": {"check", "runtime", "data"},
    "train": {"check", "config", "runtime", "train"},
    "zoo": {"check", "config", "runtime", "models", "weights", "data", "zoo"},
    # Trace and plots know no model; the server is handed the recipes.
    "view": {"check", "runtime", "functional", "dispatch", "looking", "view"},
    "recipes": {"check", "config", "functional", "kernels", "dispatch", "looking", "layers"}
    | {"models", "fast_decode", "decode", "weights", "data", "runtime", "train", "zoo", "view"}
    | {"recipes"},
    "cli": {
        "cli",
        "config",
        "functional",
        "dispatch",
        "looking",
        "train",
        "zoo",
        "view",
        "recipes",
    },
}
# The backends of attention: only the dispatcher may choose one of them.
BACKENDS = {"backends", "additive"}
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
def test_backends_are_reached_through_the_dispatcher_alone(path):
    if part(path) not in ("kernels", "dispatch"):
        used = {m.split(".")[2] for m in modules(path) if m.startswith("regard.kernels.")}
        assert not used & BACKENDS, "ask regard.dispatch"


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


def folders_shown(text: str) -> list[str]:
    """The folders of the first block that draws regard/ as a tree, by the indent of its lines."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    tree = next((b for b in blocks if re.search(r"^regard/(\s|$)", b, re.MULTILINE)), "")
    found, above = [], []
    for indent, path in re.findall(r"^( *)(\S+)", tree, re.MULTILINE):
        while above and above[-1][0] >= len(indent):
            above.pop()
        if path.endswith("/"):
            above.append((len(indent), (above[-1][1] if above else "") + path))
            found.append(above[-1][1])
    return found


def test_the_folders_of_the_architecture_are_those_of_the_tree():
    shown = folders_shown((ROOT / "ARCHITECTURE.md").read_text())
    assert [folder for folder in shown if not (ROOT / folder).is_dir()] == [], "there no more"
    packages = {f"{name(path.parent)}/" for path in SOURCES}
    assert sorted(packages - set(shown)) == [], "not in ARCHITECTURE.md"


def test_folders_are_read_by_their_indents():
    lines = ["regard/", "  kernels/  faster", "    ntm/", "  dispatch.py  one", "  zoo/", "docs/"]
    assert folders_shown("\n".join(["```", *lines, "```"])) == [
        *("regard/", "regard/kernels/", "regard/kernels/ntm/", "regard/zoo/", "docs/")
    ]


# Verbs whose past participle has no -ed; a bare one says neither what comes back nor what is done.
IRREGULAR = """
    begun bent built caught chosen come cut done drawn fed found given gone grown held hidden kept
    known laid learnt led left lost made meant met put read run said seen sent set shown spent
    split spoken spread stood sung taken taught thought told torn understood won worn written
""".split()  # noqa: SIM905
# Names that papers and PyTorch use as they are.
FIELD_NAMES = {"cached", "chunked", "fused", "masked", "packed", "shared"}


def is_bare_participle(function: str) -> bool:
    """True if a name is one word that ends in -ed or -ing, or an irregular participle."""
    word = function.strip("_")
    if "_" in word or word in FIELD_NAMES or function.startswith("__"):
        return False
    return word in IRREGULAR or word.endswith(("ed", "ing"))


def test_hardly_any_function_is_a_bare_participle():
    found = [
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    bare = [function for function in found if is_bare_participle(function)]
    assert len(bare) <= 0.03 * len(found), f"name what these give or do: {sorted(set(bare))}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_modules_are_nouns(path):
    nouns = {"embedding", "early_stopping", "looking"}
    assert path.stem in nouns or not path.stem.endswith("ing"), "name a file after a thing"
