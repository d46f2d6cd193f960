"""What builds the site: links that are rewritten, comments that are read, notebooks that run."""

import doctest
import json

import pytest

HOOKS = ("included", "navigation", "notebook", "reference", "unwritten", "zoo")


@pytest.fixture(autouse=True)
def installed():
    pytest.importorskip("mkdocs", reason="the hooks were not tested: pip install 'regard[docs]'")
    pytest.importorskip("griffe", reason="the hooks were not tested: pip install 'regard[docs]'")


@pytest.mark.parametrize("name", HOOKS)
def test_the_examples_of_a_hook_run(name, hook):
    assert doctest.testmod(hook(name)).failed == 0


@pytest.mark.parametrize(
    ("text", "home", "here", "there"),
    [
        ("[x](docs/looking.md)", "README.md", "index.md", "[x](looking.md)"),
        (
            "[x](../CONTRIBUTING.md#a-rule)",
            "docs/page.md",
            "page.md",
            "[x](contributing.md#a-rule)",
        ),
        ("[x](dot.md)", "docs/mechanisms/at.md", "mechanisms/at.md", "[x](dot.md)"),
        ("[x](regard/dispatch.py)", "ARCHITECTURE.md", "architecture.md", "[x](modules.md)"),
        ("[x](https://a.b) [y](#z)", "README.md", "index.md", "[x](https://a.b) [y](#z)"),
    ],
)
def test_a_link_of_the_repository_is_one_of_the_site(text, home, here, there, hook):
    assert hook("included").relinked(text, home, here) == there


def test_a_link_that_the_site_has_no_place_for_is_an_error(hook):
    from mkdocs.exceptions import PluginError

    with pytest.raises(PluginError, match=r"README\.md: .* no place for the link to setup\.cfg"):
        hook("included").relinked("[x](setup.cfg)", "README.md", "index.md")


def test_links_and_lists_in_code_stay(hook):
    included = hook("included")
    code = "```\nThese:\n- [x](setup.cfg)\n```"
    assert included.apart(code) == code
    assert included.outside_code(code, lambda line: "") == code


def test_cells_share_names_and_show_the_last_value(hook):
    def cell(code):
        return {"cell_type": "code", "source": [code], "outputs": []}

    book = {
        "cells": [cell("x = 2\nprint('a')"), {"cell_type": "markdown"}, cell("x + 1"), cell("x;")]
    }
    first, second, _ = hook("notebook").outputs(book)
    assert [each["text"] for each in first] == [["a\n"]]
    assert [each["data"]["text/plain"] for each in second] == [["3"]]


def test_a_cell_that_fails_raises_with_its_number(hook):
    book = {"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}
    with pytest.raises(ZeroDivisionError) as failure:
        list(hook("notebook").outputs(book))
    assert str(failure.traceback[-1].path).endswith("cell 0")


def test_storing_a_notebook_twice_changes_nothing(hook, tmp_path):
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["print(1)"]}]}))
    hook("notebook").store(path)
    once = path.read_text()
    hook("notebook").store(path)
    assert path.read_text() == once and json.loads(once)["cells"][0]["outputs"]


def test_a_card_without_a_count_of_parameters_has_an_empty_cell(hook):
    assert hook("zoo").table("seq2seq").count("\n") == 3
    assert "| `copy` |" in hook("zoo").table("ntm")


def test_the_navigation_has_every_page_of_mechanisms_once(hook):
    navigation = hook("navigation")
    there = {path.name for path in (navigation.DOCS / "mechanisms").glob("*.md")}
    first, *sections = navigation.mechanisms()
    listed = [page for section in sections for (pages,) in [section.values()] for page in pages]
    names = [first, *(address for page in listed for address in page.values())]
    assert sorted(names) == sorted(f"mechanisms/{name}" for name in there)
