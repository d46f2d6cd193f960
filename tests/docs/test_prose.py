"""The prose of the documents: short paragraphs, paths that exist, commands that parse."""

import io
import math
import re
import shlex
import tokenize
from importlib import import_module
from pathlib import Path

import pytest
import torch
import typer

from regard import zoo
from regard.cli import resolve
from regard.cli.main import app
from regard.config import override

ROOT = Path(__file__).parent.parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, ROOT / "page" / "README.md"]
SOURCES = sorted((ROOT / "regard").rglob("*.py"))
README_MAX_LINES, PARAGRAPH_MAX_LINES, LINE_LETTERS = 250, 6, 100
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
# No prose: a heading, a row of a table, a picture, a tag, a line of code by its indent.
NO_PROSE = re.compile(r"#|\||!\[|<|-->|    ")
ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def name(path):
    return path.relative_to(ROOT).as_posix()


def paragraphs(text):
    """The line numbers of the first line and the line count of each paragraph or list item."""
    start, count = 0, 0
    blank = FENCED.sub(lambda fenced: "\n" * fenced[0].count("\n"), text)
    for number, line in enumerate([*blank.splitlines(), ""], 1):
        ends = not line.strip() or ITEM.match(line) or (NO_PROSE.match(line) and not count)
        if ends and count:
            yield start, count
            count = 0
        if line.strip() and not (NO_PROSE.match(line) and not count):
            start = start if count else number
            # a line that nobody wrapped counts as the lines that it would fill
            count += math.ceil(len(line) / LINE_LETTERS)


def test_paragraphs_are_counted_by_hand():
    text = "# A\none\ntwo\n\n- a\n  b\n- c\n\n| x |\n\n```\ncode\ncode\n```\n" + "w " * 120 + "\n"
    assert list(paragraphs(text)) == [(2, 2), (5, 2), (7, 1), (15, 3)]


def test_the_readme_is_one_sitting():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= README_MAX_LINES
    first = next(i for i, line in enumerate(text.splitlines(), 1) if "attend(" in line)
    assert first <= 60, "`attend` must come early"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_no_paragraph_is_long(page):
    long = [
        found for found in paragraphs((ROOT / page).read_text()) if found[1] > PARAGRAPH_MAX_LINES
    ]
    assert not long, f"(line, lines) of paragraphs over {PARAGRAPH_MAX_LINES} lines"


def paths(text):
    """Every path in backticks: with a slash or with the ending of a file, without placeholders."""
    for code in CODE.findall(FENCED.sub("", text)):
        is_path = re.fullmatch(r"[\w.*-]+(/[\w.*-]*)+|[\w-]+\.(py|md|toml|yml|ts|svelte)", code)
        if is_path and not re.search(r"\bNAME\b|^runs/", code):
            yield code


def exists(path):
    """Whether a path is there, from the root, from regard/, or as the name of a file anywhere."""
    if "/" in path:
        return any(any(base.glob(path.rstrip("/"))) for base in (ROOT, ROOT / "regard"))
    folders = ("regard", "benchmarks", "tests", "docs", "page")
    return (ROOT / path).exists() or any(any((ROOT / f).rglob(path)) for f in folders)


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_on_a_page_exists(page):
    text = (ROOT / page).read_text()
    assert [path for path in dict.fromkeys(paths(text)) if not exists(path)] == []
    assert [link for link in LINK.findall(text) if not (ROOT / link).exists()] == []


def commands():
    """Every `regard …` in a block of code or between backticks, as the words behind `regard`."""
    for path in PAGES:
        text = path.read_text()
        lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
        given = [line.strip() for line in lines] + CODE.findall(FENCED.sub("", text))
        for each in dict.fromkeys(one for one in given if one.startswith("regard ")):
            words = shell_words(each)
            if words[1:] and not re.search(r"…|\b(NAME|RECIPE|FOLDER)\b", each):
                yield pytest.param(words[1:], id=f"{name(path)}: {' '.join(words[1:])}")


def shell_words(line):
    """The words of a command, up to a comment, a redirection or a pipe."""
    words = shlex.split(line, comments=True)
    ends = [i for i, word in enumerate(words) if word in ("<", ">", "|")]
    return words[: min(ends, default=len(words))]


def recipe_modules(model):
    """The recipe of a trained model by its name; of a run, which only its reader has, all."""
    names = [zoo.card(model)["recipe"]] if model in zoo.names() else list(resolve.RECIPES)
    return [resolve.recipe_module(each) for each in names]


def takes(module, settings):
    """Whether the Evaluation of a recipe takes these settings."""
    try:
        override(module.Evaluation(), settings)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("words", list(commands()))
def test_every_command_on_a_page_parses(words, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    group = typer.main.get_command(app)
    command, *arguments = words
    if command in ("--help", "--version"):
        return
    assert command in group.commands, f"regard has no command {command!r}"
    if "--help" in arguments:
        assert command != "train" or arguments[0] in (*resolve.RECIPES, "--help")
        return
    options = {name for each in group.commands[command].params for name in each.opts}
    if all(word.startswith("--") for word in arguments):
        # the name of a command or of its option, not a whole command
        assert set(arguments) <= options
        if command not in ("list", "serve", "why"):
            return
    context = group.commands[command].make_context(command, list(arguments))
    given = {key: value for key, value in context.params.items() if value is not None}
    if command == "train" and "resume" not in given:
        parse_training(given, tmp_path)
    elif command == "evaluate":
        modules = recipe_modules(given["model"])
        assert any(takes(module, given.get("settings", [])) for module in modules)
    elif command in ("predict", "look") and "." not in given["model"]:
        assert recipe_modules(given["model"])


def parse_training(given, folder):
    """Resolve the recipe and its config, or its grid, without training."""
    grid, settings = resolve.split_setting("grid", given.get("settings") or [])
    if grid is None:
        resolve.recipe_and_config(given["recipe"], None, settings)
    else:
        resolve.grid_plan(given["recipe"], grid, settings, folder, given.get("only"))


def test_a_command_ends_at_a_comment_and_at_a_redirection():
    assert shell_words("regard predict a --json < b.txt  # c") == [
        "regard",
        "predict",
        "a",
        "--json",
    ]
    assert shell_words('regard look a "b # c" -o d.png') == [
        "regard",
        "look",
        "a",
        "b # c",
        "-o",
        "d.png",
    ]


# "card" is a model card. What computes is a GPU.
GPU_AS_CARD = re.compile(
    r"\b(CUDA|NVIDIA|graphics|video) cards?\b"
    r"|\b(on|off|onto|fills?|wait for|tells?) (a|the|one|each|every) cards?\b"
    r"|\bcards? (that |which )?(repeats?|runs?|waits?|fetch|draws?|is told|tells?|busy|with Triton)"
    r"|\bcard's memory\b|\ba card for device\b|, its card,|\bno card\b|\bask a card\b",
    re.IGNORECASE,
)
# Parts of regard that hold no model cards, so that any card is a GPU.
WITHOUT_MODEL_CARDS = {
    *("dispatch.py", "fast_path.py", "functional", "kernels", "looking", "layers", "models"),
    *("fast_decode", "decode", "runtime", "config"),
}


def prose_of(path):
    """Comments and strings of a Python file, each on one line; of any other file its text."""
    if path.suffix != ".py":
        yield 1, " ".join(path.read_text().split())
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], " ".join(token.string.split())


def without_card_files(text):
    return re.sub(r"\bcard\.json\b|model cards?", "", text)


PARTS = sorted({path.relative_to(ROOT / "regard").parts[0] for path in SOURCES})


@pytest.mark.parametrize("part", PARTS)
def test_a_card_is_a_model_card_in_the_code(part):
    top = ROOT / "regard" / part
    sources = [path for path in SOURCES if path == top or top in path.parents]
    word = re.compile(r"\bcards?\b", re.IGNORECASE) if part in WITHOUT_MODEL_CARDS else GPU_AS_CARD
    found = [
        f"{name(path)}:{line}"
        for path in sources
        for line, text in prose_of(path)
        if word.search(without_card_files(text))
    ]
    assert not found, "say GPU"


def test_a_card_is_a_model_card_in_the_documents_and_on_the_page():
    source = [p for p in (ROOT / "page" / "src").rglob("*") if p.suffix in (".ts", ".svelte")]
    found = {
        name(path): word[0]
        for path in [*PAGES, *source]
        for _, text in prose_of(path)
        if (word := GPU_AS_CARD.search(without_card_files(text)))
    }
    assert not found, "say GPU"


@pytest.mark.parametrize(
    ("text", "is_gpu"),
    [
        ("a CUDA card", True),
        ("on a card the steps are captured", True),
        ("what a card repeats", True),
        ("the licence in its card", False),
        ("the first number of a card that says", False),
        ("card.json of the run", False),
        ('<div class="grid cards">', False),
    ],
)
def test_a_gpu_is_told_from_a_model_card(text, is_gpu):
    assert bool(GPU_AS_CARD.search(without_card_files(text))) == is_gpu


def test_the_recipes_of_the_command_line_are_modules():
    for path, _ in resolve.RECIPES.values():
        assert import_module(path).Config
