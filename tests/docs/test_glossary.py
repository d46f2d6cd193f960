"""The glossary: each word of the house in two lines, and it is there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "glossary.md"
WORDS = ["score", "rule", "select", "bias", "look", "edit", "fold", "trace", "backend", "recipe"]
WORDS += ["zoo", "preset", "grid"]
ENTRIES = dict(
    re.findall(r"^## (\w+)\n(.+?)(?=\n\n|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_has_two_lines(word):
    assert len(ENTRIES[word].strip().splitlines()) == 2


def test_there_is_no_other_word():
    assert [*ENTRIES] == WORDS
