"""Byte-level BPE: any text comes back, no text becomes a special token, no foreign file loads."""

import itertools
import json
import random
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from regard.data.text import bpe
from regard.data.text.bpe import BEGIN, END, PAD, Vocabulary

TEXTS = ["the cat sat on the mat", "un café, là", "<end> <pad><begin>"] * 9
VOCABULARY = bpe.train_vocabulary(TEXTS, 300)
pieces = st.lists(st.integers(0, VOCABULARY.size - 1))


def plain() -> dict:
    return json.loads(VOCABULARY._tokenizer.to_str())


def piece(text: str) -> int:
    (found,) = VOCABULARY.encode(text)
    return found


@given(st.text())
@example("")
@example("\0")
@example("e\u0301 \u0344")
@example("\N{FAMILY}\U0001f469\u200d\U0001f469\u200d\U0001f467")
@example("\u2028\x85 \t\r\n  ")
@example("<end><pad> <begin>")
def test_any_text_comes_back_in_normal_form(text):
    assert VOCABULARY.decode(VOCABULARY.encode(text)) == unicodedata.normalize("NFC", text)


@given(st.lists(st.sampled_from([*bpe.SPECIAL_TOKENS, "<", "end", ">", " "])).map("".join))
def test_no_text_becomes_a_special_token(text):
    assert not {PAD, BEGIN, END} & set(VOCABULARY.encode(text))


def test_a_vocabulary_learned_from_the_names_of_specials_never_writes_them():
    vocabulary = bpe.train_vocabulary(list(bpe.SPECIAL_TOKENS) * 1000, 400)
    assert min(vocabulary.encode("<end><pad><begin>")) > 2


def test_the_specials_have_the_first_ids_and_no_text():
    assert (PAD, BEGIN, END) == (0, 1, 2)
    ids = [BEGIN, *VOCABULARY.encode("the cat"), END, END, PAD]
    assert VOCABULARY.decode(ids) == "the cat"


def test_frequent_words_become_one_piece_by_hand():
    vocabulary = bpe.train_vocabulary(["ab ab ab ac"], 3 + 256 + 2)
    # `a b` meets three times, ` ab` twice; nothing else twice
    assert vocabulary.size == 261
    assert vocabulary.labels(vocabulary.encode("ab ab ac")) == ["ab", "ab", "␣", "a", "c"]


def test_a_vocabulary_is_as_large_as_its_texts_allow():
    assert bpe.train_vocabulary([], 500).size == 259
    assert VOCABULARY.size <= 300


def test_the_order_of_the_texts_does_not_matter():
    texts = [f"{word} {word[::-1]}" for word in " ".join(TEXTS).split()]
    mixed = random.Random(1).sample(texts, len(texts))
    assert (
        bpe.train_vocabulary(texts, 290)._tokenizer.to_str()
        == bpe.train_vocabulary(mixed, 290)._tokenizer.to_str()
    )


@given(st.lists(st.text()))
def test_many_texts_are_encoded_as_each_alone(texts):
    assert VOCABULARY.encode_all(texts) == [VOCABULARY.encode(text) for text in texts]


@given(st.text(alphabet="ab \t\né<end>12.,'日👩\u0301"))
def test_a_saved_vocabulary_is_the_same_when_loaded(text):
    again = bpe._from_json(plain())
    assert again.encode(text) == VOCABULARY.encode(text)
    assert again.size == VOCABULARY.size


def test_saved_and_loaded(tmp_path):
    VOCABULARY.save(tmp_path / "tokenizer.json")
    again = bpe.load_vocabulary(tmp_path / "tokenizer.json")
    assert again.encode("the <end>") == VOCABULARY.encode("the <end>")
    assert again._tokenizer.to_str() == VOCABULARY._tokenizer.to_str()


@given(st.text(alphabet="abé日 \t\n.,'!12👩"))
def test_the_library_reads_our_files_alike(text):
    theirs = Tokenizer.from_str(VOCABULARY._tokenizer.to_str()).encode(text)
    assert theirs.ids == VOCABULARY.encode(text)
    assert theirs.word_ids == VOCABULARY.word_ids(theirs.ids)


def test_words_by_hand():
    ids = [BEGIN, *VOCABULARY.encode("the cats, là"), END, END]
    labels = ["<begin>", "the", "cat", "s", ",", "là", "<end>", "<end>"]
    assert VOCABULARY.labels(ids) == labels
    assert VOCABULARY.word_ids(ids) == [0, 1, 2, 2, 3, 4, 5, 6]


@given(pieces)
def test_words_follow_one_another_and_every_piece_has_its_label(ids):
    words, labels = VOCABULARY.word_ids(ids), VOCABULARY.labels(ids)
    assert len(words) == len(labels) == len(ids)
    assert words[:1] in ([], [0])
    assert all(b - a in (0, 1) for a, b in itertools.pairwise(words))
    assert all(label and label.isprintable() and label.strip() for label in labels)


@given(pieces)
def test_any_ids_have_a_text(ids):
    VOCABULARY.decode(ids).encode()


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (" ", "␣"),
        ("\t", "⇥"),
        ("\n", "⏎"),
        ("\0", "␀"),
        ("\x1b", "␛"),
        ("\x7f", "␡"),
        (" the", "the"),
    ],
)
def test_blanks_and_controls_are_shown(text, label):
    assert VOCABULARY.labels([piece(text)]) == [label]


def test_bytes_that_are_no_whole_character_are_shown_as_bytes():
    assert VOCABULARY.labels(VOCABULARY.encode("日")) == [r"\xe6", r"\x97", r"\xa5"]
    assert VOCABULARY.decode(VOCABULARY.encode("日")[:1]) == "�"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("\u0301", "◌\u0301"),
        ("\u200b", r"\u200b"),
        ("\u202e", r"\u202e"),
        ("\xa0", "␣"),
        ("\x85", "␣"),
    ],
)
def test_marks_and_hidden_letters_are_shown(text, label):
    vocabulary = bpe.train_vocabulary([text] * 5, 300)
    assert vocabulary.labels(vocabulary.encode(text)) == [label]


def test_half_a_character_is_refused():
    for call in (VOCABULARY.encode, lambda text: VOCABULARY.encode_all(["a", text])):
        with pytest.raises(ValueError, match=r"Vocabulary: .* half of one .* at place 1 of a text"):
            call("a\ud800")
    with pytest.raises(ValueError, match="got half of one"):
        bpe.train_vocabulary(["a", "\udfff"], 300)


@pytest.mark.parametrize("call", ["decode", "labels", "word_ids"])
@pytest.mark.parametrize("strange", [-1, VOCABULARY.size, 2**70])
def test_ids_that_are_not_there_are_refused(call, strange):
    said = f"{call}: expected ids from 0 to {VOCABULARY.size - 1}, got {strange}"
    with pytest.raises(ValueError, match=said):
        getattr(VOCABULARY, call)([5, strange])


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(
        ValueError, match=r"train_vocabulary: expected a size of at least 259 .* got 258"
    ):
        bpe.train_vocabulary(["a"], 258)
    with pytest.raises(
        ValueError, match="train_vocabulary: expected a size of at most 262144, got 262145"
    ):
        bpe.train_vocabulary([], 262_145)
    with pytest.raises(ValueError, match="train_vocabulary: expected many texts, got one"):
        bpe.train_vocabulary("a", 300)


def test_a_vocabulary_needs_each_piece_once():
    tokens = [*bpe.SPECIAL_TOKENS, *bpe._BYTE_OF_LETTER]
    assert Vocabulary(tokens, []).size == 259
    with pytest.raises(ValueError, match="expected each piece once, got one of them twice"):
        Vocabulary([*tokens, "a"], [])


def changed(change) -> str:
    given = plain()
    change(given)
    return json.dumps(given)


def swap(given: dict, a: str, b: str) -> None:
    table = given["model"]["vocab"]
    table[a], table[b] = table[b], table[a]


HOSTILE = {
    "JSON": lambda: "{",
    "as JSON": lambda: "[" * 100_000,
    "another form": lambda: "[]",
    "another normalizer": lambda: changed(lambda g: g.update(normalizer={"type": "NFKC"})),
    "another pre_tokenizer": lambda: changed(lambda g: g.update(pre_tokenizer=None)),
    "another decoder": lambda: changed(lambda g: g.update(decoder={"type": "WordPiece"})),
    "another model": lambda: changed(lambda g: g["model"].update(type="WordLevel")),
    "got another model": lambda: changed(lambda g: g["model"].update(dropout=0.5)),
    "another post_processor": lambda: changed(lambda g: g.update(post_processor={"type": "x"})),
    "another list of added_tokens": lambda: changed(lambda g: g["added_tokens"].append(3)),
    "a table of pieces": lambda: changed(lambda g: g["model"].update(vocab=[])),
    "as ids 0, 1, 2": lambda: changed(lambda g: swap(g, "<pad>", "<end>")),
    "each once": lambda: changed(lambda g: g["model"]["vocab"].update(new=9**9)),
    "got others": lambda: changed(lambda g: g["model"]["vocab"].update(new="x")),
    "pieces made of bytes": lambda: changed(
        lambda g: g["model"]["vocab"].update({"日": VOCABULARY.size})
    ),
    "merges of two pieces each": lambda: changed(lambda g: g["model"].update(merges=[["a"]])),
    "merges of pieces into": lambda: changed(lambda g: g["model"].update(merges=["<en d>"])),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(said, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(HOSTILE[said]())
    with pytest.raises(ValueError, match=said) as refused:
        bpe.load_vocabulary(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_missing_byte_is_refused(tmp_path):
    given = plain()
    names = list(bpe.SPECIAL_TOKENS) + [letter for letter in bpe._BYTE_OF_LETTER if letter != "z"]
    given["model"] |= {"vocab": {name: i for i, name in enumerate(names)}, "merges": []}
    (tmp_path / "t.json").write_text(json.dumps(given))
    with pytest.raises(ValueError, match="a piece for each of 256 bytes, got none for 1"):
        bpe.load_vocabulary(tmp_path / "t.json")


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path, monkeypatch):
    with pytest.raises(
        ValueError, match="load_vocabulary: expected a tokenizer file, got nothing at"
    ):
        bpe.load_vocabulary(tmp_path)
    monkeypatch.setattr(bpe, "MAX_FILE_BYTES", 100)
    VOCABULARY.save(tmp_path / "t.json")
    with pytest.raises(ValueError, match="expected a tokenizer of at most 100 bytes, got more"):
        bpe.load_vocabulary(tmp_path / "t.json")


@given(st.binary())
def test_any_bytes_load_or_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json: "):
        bpe.load_vocabulary(path)
