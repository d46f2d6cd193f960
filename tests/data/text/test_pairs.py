"""Pairs from files: what is wrong is counted with its line, or refused in one sentence."""

import gzip
import json
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.pairs import Pair, SkippedLines, read_pairs


def tsv(folder: Path, content: bytes | str, name: str = "pairs.tsv") -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def refused(*paths: Path, **settings) -> str:
    with pytest.raises(ValueError, match=r"^read_pairs: ") as error:
        read_pairs(*paths, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


GO, HI = Pair("Go.", "Va !"), Pair("Hi.", "Salut !")


@pytest.mark.parametrize("name", ["a.tsv", "a.TSV", "a.tsv.gz"])
def test_columns_are_read_and_further_ones_ignored(name, tmp_path):
    path = tsv(tmp_path, "Go.\tVa !\tCC-BY #1\nHi.\tSalut !\n", name)
    assert read_pairs(path).pairs == [GO, HI]
    assert read_pairs(str(path)).skipped == {}


@pytest.mark.parametrize("names", [("a.en", "a.fr"), ("a.en.gz", "a.txt")])
def test_two_files_are_read_line_by_line(names, tmp_path):
    a = tsv(tmp_path, "Go.\nHi.\n", names[0])
    assert read_pairs(a, tsv(tmp_path, "Va !\nSalut !", names[1])).pairs == [GO, HI]


@pytest.mark.parametrize("keys", [("source", "target"), ("en", "fr")])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines_are_read_by_their_keys(keys, name, tmp_path):
    first = dict(zip(keys, GO, strict=True))
    second = dict(reversed(list(zip(keys, HI, strict=True))))
    assert read_pairs(tsv(tmp_path, f"{json.dumps(first)}\n{json.dumps(second)}", name)).pairs == [
        GO,
        HI,
    ]


def test_source_and_target_win_over_other_keys(tmp_path):
    line = json.dumps({"id": 7, "target": "Va !", "source": "Go.", "by": "me"})
    assert read_pairs(tsv(tmp_path, line, "a.jsonl")).pairs == [GO]


def test_a_byte_order_mark_and_windows_line_ends_are_taken_off(tmp_path):
    path = tsv(tmp_path, b"\xef\xbb\xbfGo.\tVa !\r\nHi.\tSalut !\r\n")
    assert read_pairs(path).pairs == [GO, HI]


@pytest.mark.parametrize("space", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\xa0"])
def test_only_line_feeds_end_a_line(space, tmp_path):
    pair = Pair(f"Go{space}on.", f"Va{space}!")
    assert read_pairs(tsv(tmp_path, f"{pair[0]}\t{pair[1]}\n")).pairs == [pair]
    two = tsv(tmp_path, pair[0], "a.en"), tsv(tmp_path, pair[1], "a.fr")
    assert read_pairs(*two).pairs == [pair]


BAD_COLUMNS = {
    "no tab": b"Go.",
    "empty line": b"  ",
    "empty side": b"Go.\t \tmore",
    "bad UTF-8": b"Go.\tVa \xff!",
    "control character": b"Go.\tVa \x07!",
    "too long": b"Go.\t" + b"x" * 2001,
}
BAD_OBJECTS = {
    "not JSON": b"{",
    "empty line": b"",
    "no source and target": b'{"source": "Go.", "target": 3}',
    "empty side": b'{"source": "Go.", "target": ""}',
    "bad UTF-8": rb'{"source": "Go.", "target": "\ud800"}',
    "control character": rb'{"source": "Go.", "target": "\u0000"}',
}


@pytest.mark.parametrize("reason", BAD_COLUMNS)
def test_a_bad_line_of_columns_is_skipped_and_counted(reason, tmp_path):
    good, bad = b"Go.\tVa !", BAD_COLUMNS[reason]
    found = read_pairs(tsv(tmp_path, b"\n".join([good, bad, good, bad, bad, b""])))
    assert found.pairs == [GO, GO]
    assert found.skipped == {reason: SkippedLines(3, first=2)} == {reason: (3, 2)}


@pytest.mark.parametrize("reason", BAD_OBJECTS)
def test_a_bad_json_line_is_skipped_and_counted(reason, tmp_path):
    good, bad = b'{"source": "Go.", "target": "Va !"}', BAD_OBJECTS[reason]
    found = read_pairs(tsv(tmp_path, b"\n".join([bad, good, bad, good]), "a.jsonl"))
    assert found.pairs == [GO, GO]
    assert found.skipped == {reason: (2, 1)}


@pytest.mark.parametrize("line", ["[" * 60_000, "9" * 60_000, "[]", "7", '{"en": "a"}', "nul"])
def test_json_of_another_kind_is_skipped(line, tmp_path):
    path = tsv(tmp_path, f'{line}\n{{"en": "Go.", "fr": "Va !"}}\n', "a.jsonl")
    assert read_pairs(path).pairs == [GO]


def test_a_bad_line_does_not_shift_the_other_file(tmp_path):
    a = tsv(tmp_path, b"Go.\n\xff\n" + b"x" * 200_000 + b"\n\nHi.\n", "a.en")
    b = tsv(tmp_path, "Va !\nb\nc\nd\nSalut !\n", "a.fr")
    found = read_pairs(a, b)
    assert found.pairs == [GO, HI]
    assert found.skipped == {"bad UTF-8": (1, 2), "too long": (1, 3), "empty side": (1, 4)}


@pytest.mark.parametrize("end", [b"", b"\n", b"\nHi.\tSalut !"])
def test_a_line_of_many_megabytes_is_never_held(end, tmp_path):
    path = tsv(tmp_path, b"Go.\tVa !\n" + b"x" * 20_000_000 + end)
    tracemalloc.start()
    found = read_pairs(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.pairs == ([GO, HI] if len(end) > 1 else [GO])
    assert found.skipped == {"too long": (1, 2)}
    assert peak < 2_000_000


def test_a_line_just_as_long_as_can_be_held_is_read(tmp_path):
    limit = 2 * 12 * 2000 + 65536
    for extra in (-1, 0, 1, 2):
        line = b"Go.\tVa !\t".ljust(limit + extra - 1, b"x") + b"\n"
        found = read_pairs(tsv(tmp_path, line + b"Hi.\tSalut !"))
        assert found.pairs == ([GO, HI] if extra < 1 else [HI])


def test_the_longest_sentence_is_for_the_caller_to_say(tmp_path):
    path = tsv(tmp_path, "Go.\tVa !\nHi.\tSalut !\n")
    assert read_pairs(path, longest=4).pairs == [GO]
    assert "expected longest of at least 1, got 0" in refused(path, longest=0)


def test_what_was_read_says_so(tmp_path):
    found = read_pairs(tsv(tmp_path, "Go.\tVa !\nHi.\nHo.\n\n"))
    assert (
        str(found)
        == "1 pairs; skipped no tab (2, first on line 2), empty line (1, first on line 4)"
    )
    assert str(read_pairs(tsv(tmp_path, "Go.\tVa !"))) == "1 pairs"


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (1, 5)])
def test_files_of_unequal_length_are_refused(counts, tmp_path):
    a, b = (tsv(tmp_path, "x\n" * n, f"a.{n}") for n in counts)
    said = f"expected as many lines in both files, got {counts[0]} in {a} and {counts[1]} in {b}"
    assert said in refused(a, b)


def test_nothing_left_is_refused_with_the_reasons(tmp_path):
    assert refused(tsv(tmp_path, "Go.\n\nHi.\n")).endswith(
        "pairs.tsv: skipped no tab (2, first on line 1), empty line (1, first on line 2)"
    )
    assert refused(tsv(tmp_path, "")).endswith("pairs.tsv: the file is empty")


def test_what_is_no_file_of_pairs_is_refused(tmp_path):
    text, table = tsv(tmp_path, "Go.", "a.txt"), tsv(tmp_path, "Go.\tVa !")
    folder = tmp_path / "a.tsv"
    folder.mkdir()
    assert "expected a file, got the folder" in refused(folder)
    assert "expected a file, got nothing at" in refused(tmp_path / "b.tsv")
    assert "expected a file, got nothing at" in refused(text, tmp_path / "b.txt")
    assert "a file that ends in .tsv or .jsonl" in refused(text)
    assert "expected two files of plain text" in refused(table, text)


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = tsv(tmp_path, "Go.\tVa !")

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert refused(path).endswith("pairs.tsv: Permission denied")


@pytest.mark.parametrize("cut", [3, 12, 40, -1])
def test_a_damaged_archive_is_refused(cut, tmp_path):
    path = tsv(tmp_path, "".join(f"{i * 7919}\t{i * 104729}\n" for i in range(99)), "a.tsv.gz")
    path.write_bytes(path.read_bytes()[:cut])
    assert "a.tsv.gz is damaged behind line" in refused(path)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.tsv.gz"])
@given(
    content=st.binary()
    | st.lists(st.sampled_from([b"a", b"\t", b"\n", b"\xc3", b"{"])).map(b"".join)
)
def test_any_bytes_are_read_or_refused(tmp_path_factory, name, content):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    with suppress(ValueError):
        found = read_pairs(path)
        assert len(found.pairs) + sum(n for n, _ in found.skipped.values()) == lines


sentences = (
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).map(str.strip).filter(bool)
)


@given(st.lists(st.tuples(sentences, sentences), min_size=1))
def test_what_was_written_is_read(tmp_path_factory, pairs):
    folder = tmp_path_factory.getbasetemp()
    path = tsv(folder, "".join(f"{a}\t{b}\n" for a, b in pairs))
    # a first sentence that begins with a byte order mark loses it
    assert read_pairs(path).pairs[1:] == pairs[1:]
