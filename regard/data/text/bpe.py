"""Byte-level BPE: pieces of words, learned from texts; any text goes in and comes out again."""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.text.batches import BEGIN, END, PAD
from regard.runtime import atomic_files

SPECIAL_TOKENS = {"<pad>": PAD, "<begin>": BEGIN, "<end>": END}
# Every byte has an id, so that any text can be written.
MIN_VOCABULARY_SIZE = len(SPECIAL_TOKENS) + 256
# More would not fit into a file that is read; and room for all is taken before any is learned.
MAX_VOCABULARY_SIZE = 2**18
# A hundred thousand pieces take 5 MiB; a file is measured before it is parsed.
MAX_FILE_BYTES = 16 * 2**20

# How byte-level BPE writes bytes as letters (Radford et al. 2019): printable ones as they are,
# the others, in order, from U+0100 on.
_PRINTABLE_BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]
_UNPRINTABLE_BYTES = [byte for byte in range(256) if byte not in _PRINTABLE_BYTES]
_BYTE_OF_LETTER = {chr(b): b for b in _PRINTABLE_BYTES} | {
    chr(256 + i): b for i, b in enumerate(_UNPRINTABLE_BYTES)
}
_GLYPHS = {"\t": "⇥", "\n": "⏎", "\x7f": "␡"}
# What a file of ours says; a key that it leaves out has this value.
_EXPECTED_PARTS: dict[str, Any] = {
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "byte_fallback": False}
    | {"continuing_subword_prefix": None, "end_of_word_suffix": None, "ignore_merges": False},
}


class Vocabulary:
    """Texts to ids and back; ids 0, 1 and 2 are PAD, BEGIN and END, and no text contains them.

    Args:
        tokens: every piece in the order of its id, as byte-level BPE writes it.
        merges: which two pieces join, the most frequent first.
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[tuple[str, str]]):
        _check_vocabulary(tokens, merges)
        self._bytes = [bytes(_BYTE_OF_LETTER[letter] for letter in token) for token in tokens[3:]]
        self._bytes[:0] = [b""] * len(SPECIAL_TOKENS)
        self._tokenizer = _make_tokenizer(
            models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=list(merges))
        )
        self._tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
        # Text that spells out "<end>" stays text.
        self._tokenizer.encode_special_tokens = True

    @property
    def size(self) -> int:
        """How many ids there are."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, in Unicode's normal form C, without BEGIN and END."""
        return self._tokenizer.encode(_check_text(text)).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each of `texts`; faster than one after the other."""
        return [
            encoding.ids for encoding in self._tokenizer.encode_batch(list(map(_check_text, texts)))
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; PAD, BEGIN and END are left out, a broken character becomes �."""
        self._check_ids("decode", ids)
        return b"".join(self._bytes[i] for i in ids).decode(errors="replace")

    def labels(self, ids: Sequence[int]) -> list[str]:
        """A short text for each id that a person can read, also where it is blank or broken."""
        self._check_ids("labels", ids)
        names = list(SPECIAL_TOKENS)
        return [names[i] if i < len(names) else _label(self._bytes[i]) for i in ids]

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """The number of the word that each id belongs to, from 0 on.

        Words are what BPE never joins across: letters, digits and other signs apart, a blank with
        what follows it. PAD, BEGIN and END are words of their own.
        """
        self._check_ids("word_ids", ids)
        words: list[int] = []
        for special, run in groupby(ids, key=lambda i: i < len(SPECIAL_TOKENS)):
            first, pieces = (words[-1] + 1 if words else 0), [self._bytes[i] for i in run]
            inside = range(len(pieces)) if special else _word_numbers(pieces)
            words += [first + word for word in inside]
        # what broken pieces spell may have words in which none of them begins: leave no gaps
        numbers = {word: number for number, word in enumerate(sorted(set(words)))}
        return [numbers[word] for word in words]

    def save(self, path: Path | str) -> None:
        """Write a file that `load_vocabulary`, and the `tokenizers` library, can read."""
        atomic_files.write_file(Path(path), self._tokenizer.to_str(pretty=False))

    def _check_ids(self, where: str, ids: Sequence[int]) -> None:
        strange = [i for i in ids if not 0 <= i < self.size]
        if strange:
            raise ValueError(f"{where}: expected ids from 0 to {self.size - 1}, got {strange[0]}")


def train_vocabulary(texts: Iterable[str], size: int) -> Vocabulary:
    """A vocabulary of at most `size` ids that writes `texts` with few of them.

    The same texts give the same vocabulary, in whatever order they come.
    """
    if isinstance(texts, str):
        raise ValueError("train_vocabulary: expected many texts, got one")
    if size < MIN_VOCABULARY_SIZE:
        raise ValueError(
            f"train_vocabulary: expected a size of at least {MIN_VOCABULARY_SIZE} "
            f"(every byte), got {size}"
        )
    if size > MAX_VOCABULARY_SIZE:
        raise ValueError(
            f"train_vocabulary: expected a size of at most {MAX_VOCABULARY_SIZE}, got {size}"
        )
    tokenizer = _make_tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=list(_BYTE_OF_LETTER),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(_check_text, texts), trainer)
    return _from_json(json.loads(tokenizer.to_str()))


def load_vocabulary(path: Path | str) -> Vocabulary:
    """The vocabulary that `save` wrote; anything else is refused, and nothing in it is run."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"load_vocabulary: expected a tokenizer file, got nothing at {path}")
    with path.open("rb") as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(
            f"{path}: expected a tokenizer of at most {MAX_FILE_BYTES} bytes, got more"
        )
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: expected a tokenizer as JSON, got something else") from None
    try:
        return _from_json(plain)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _make_tokenizer(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _make_pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _make_pre_tokenizer() -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _from_json(plain: Any) -> Vocabulary:
    """Only pieces and merges are taken from the file; the rest must be what we would write."""
    if strange := _find_unexpected_part(plain):
        raise ValueError(f"Vocabulary: expected a byte-level BPE of ours, got another {strange}")
    vocabulary, merges = plain["model"].get("vocab"), plain["model"].get("merges")
    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise ValueError("Vocabulary: expected a table of pieces and a list of merges, got others")
    ids = list(vocabulary.values())
    if not all(type(i) is int for i in ids) or sorted(ids) != list(range(len(ids))):
        raise ValueError(
            f"Vocabulary: expected ids from 0 to {len(ids) - 1}, each once, got others"
        )
    # a list of two, or, before tokenizers 0.20, both with a blank between
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if not all(isinstance(p, list) and [type(part) for part in p] == [str, str] for p in pairs):
        raise ValueError("Vocabulary: expected merges of two pieces each, got others")
    return Vocabulary(sorted(vocabulary, key=vocabulary.__getitem__), [(a, b) for a, b in pairs])


def _find_unexpected_part(plain: Any) -> str | None:
    """The first part of a file that is not as we write it."""
    if not isinstance(plain, dict):
        return "form"
    for name, ours in _EXPECTED_PARTS.items():
        part = plain.get(name)
        if not isinstance(part, dict) or "type" not in part:
            return name
        if any(part.get(key, value) != value for key, value in ours.items()):
            return name
    added = plain.get("added_tokens")
    if not isinstance(added, list) or list(map(_content_and_id, added)) != list(
        SPECIAL_TOKENS.items()
    ):
        return "list of added_tokens"
    return next(
        (part for part in ("post_processor", "truncation", "padding") if plain.get(part)), None
    )


def _content_and_id(added: Any) -> tuple[Any, Any] | None:
    return (added.get("content"), added.get("id")) if isinstance(added, dict) else None


def _check_vocabulary(tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
    """Refuse a vocabulary that could not write every text, or could write a special token."""
    if list(tokens[: len(SPECIAL_TOKENS)]) != list(SPECIAL_TOKENS):
        raise ValueError(
            f"Vocabulary: expected {', '.join(SPECIAL_TOKENS)} as ids 0, 1, 2, got "
            f"{list(tokens[:3])}"
        )
    pieces = set(tokens[len(SPECIAL_TOKENS) :])
    if len(pieces) + len(SPECIAL_TOKENS) != len(tokens) or pieces & SPECIAL_TOKENS.keys():
        raise ValueError("Vocabulary: expected each piece once, got one of them twice")
    if missing := _BYTE_OF_LETTER.keys() - pieces:
        raise ValueError(
            f"Vocabulary: expected a piece for each of 256 bytes, got none for {len(missing)}"
        )
    for piece in pieces:
        if not piece or not _BYTE_OF_LETTER.keys() >= set(piece):
            raise ValueError(f"Vocabulary: expected pieces made of bytes, got {piece!r:.80}")
    for a, b in merges:
        if not {a, b, a + b} <= pieces:
            raise ValueError(
                f"Vocabulary: expected merges of pieces into pieces, got {a!r:.80} and {b!r:.80}"
            )


def _check_text(text: str) -> str:
    """The same text; half a character in it is refused."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Vocabulary: expected whole characters, got half of one (a lone surrogate) "
            f"at place {error.start} of a text"
        ) from None
    return text


def _label(piece: bytes) -> str:
    text = piece.decode(errors="backslashreplace")
    text = text[1:] if text.startswith(" ") and len(text) > 1 else text
    # an accent needs something to stand on
    stand = "◌" if unicodedata.combining(text[0]) else ""
    return stand + "".join(map(_glyph, text))


def _glyph(letter: str) -> str:
    code = ord(letter)
    if letter in _GLYPHS or code < 0x20:
        return _GLYPHS.get(letter) or chr(0x2400 + code)  # Unicode's pictures of controls
    if letter.isspace():
        return "␣"
    return letter if letter.isprintable() else f"\\u{code:04x}"


def _word_numbers(pieces: list[bytes]) -> list[int]:
    """The word of each piece, by the byte at which it begins."""
    text = b"".join(pieces).decode(errors="surrogateescape")
    # A broken character is one byte and counts as a letter: the places of all others stay right.
    text = re.sub("[\udc80-\udcff]", "x", text)
    ends = list(accumulate(len(word) for word, _ in _make_pre_tokenizer().pre_tokenize_str(text)))
    starts = accumulate((len(piece) for piece in pieces[:-1]), initial=0)
    return [bisect_right(ends, start) for start in starts]
