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

from regard import files
from regard.data.batches import BEGIN, END, PAD

SPECIALS = {"<pad>": PAD, "<begin>": BEGIN, "<end>": END}
# Every byte has an id, so that any text can be written.
FEWEST = len(SPECIALS) + 256
# More would not fit into a file that is read; and room for all is taken before any is learned.
MOST = 2**18
# A hundred thousand pieces take 5 MiB; a file is measured before it is parsed.
MOST_BYTES = 16 * 2**20

# How byte-level BPE writes bytes as letters (Radford et al. 2019): printable ones as they are,
# the others, in order, from U+0100 on.
_AS_THEY_ARE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _AS_THEY_ARE]
_BYTE = {chr(b): b for b in _AS_THEY_ARE} | {chr(256 + i): b for i, b in enumerate(_OTHERS)}
_GLYPHS = {"\t": "⇥", "\n": "⏎", "\x7f": "␡"}
# What a file of ours says; a key that it leaves out has this value.
_OURS: dict[str, Any] = {
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
        _refuse(tokens, merges)
        self._bytes = [bytes(_BYTE[letter] for letter in token) for token in tokens[3:]]
        self._bytes[:0] = [b""] * len(SPECIALS)
        self._tokenizer = _empty(
            models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=list(merges))
        )
        self._tokenizer.add_special_tokens(list(SPECIALS))
        # Text that spells out "<end>" stays text.
        self._tokenizer.encode_special_tokens = True

    @property
    def size(self) -> int:
        """How many ids there are."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, in Unicode's normal form C, without BEGIN and END."""
        return self._tokenizer.encode(_whole(text)).ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each of `texts`; faster than one after the other."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(map(_whole, texts)))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; PAD, BEGIN and END are left out, a broken character becomes �."""
        self._refuse_strangers("decode", ids)
        return b"".join(self._bytes[i] for i in ids).decode(errors="replace")

    def labels(self, ids: Sequence[int]) -> list[str]:
        """A short text for each id that a person can read, also where it is blank or broken."""
        self._refuse_strangers("labels", ids)
        names = list(SPECIALS)
        return [names[i] if i < len(names) else _label(self._bytes[i]) for i in ids]

    def words(self, ids: Sequence[int]) -> list[int]:
        """The number of the word that each id belongs to, from 0 on.

        Words are what BPE never joins across: letters, digits and other signs apart, a blank with
        what follows it. PAD, BEGIN and END are words of their own.
        """
        self._refuse_strangers("words", ids)
        words: list[int] = []
        for special, run in groupby(ids, key=lambda i: i < len(SPECIALS)):
            first, pieces = (words[-1] + 1 if words else 0), [self._bytes[i] for i in run]
            inside = range(len(pieces)) if special else _words(pieces)
            words += [first + word for word in inside]
        # what broken pieces spell may have words in which none of them begins: leave no gaps
        numbers = {word: number for number, word in enumerate(sorted(set(words)))}
        return [numbers[word] for word in words]

    def save(self, path: Path | str) -> None:
        """Write a file that `loaded`, and the `tokenizers` library, can read."""
        files.write(Path(path), self._tokenizer.to_str(pretty=False))

    def _refuse_strangers(self, where: str, ids: Sequence[int]) -> None:
        strange = [i for i in ids if not 0 <= i < self.size]
        if strange:
            raise ValueError(f"{where}: expected ids from 0 to {self.size - 1}, got {strange[0]}")


def learned(texts: Iterable[str], size: int) -> Vocabulary:
    """A vocabulary of at most `size` ids that writes `texts` with few of them.

    The same texts give the same vocabulary, in whatever order they come.
    """
    if isinstance(texts, str):
        raise ValueError("learned: expected many texts, got one")
    if size < FEWEST:
        raise ValueError(f"learned: expected a size of at least {FEWEST} (every byte), got {size}")
    if size > MOST:
        raise ValueError(f"learned: expected a size of at most {MOST}, got {size}")
    tokenizer = _empty(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(SPECIALS),
        initial_alphabet=list(_BYTE),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(_whole, texts), trainer)
    return _from_plain(json.loads(tokenizer.to_str()))


def loaded(path: Path | str) -> Vocabulary:
    """The vocabulary that `save` wrote; anything else is refused, and nothing in it is run."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"loaded: expected a tokenizer file, got nothing at {path}")
    with path.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path}: expected a tokenizer of at most {MOST_BYTES} bytes, got more")
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: expected a tokenizer as JSON, got something else") from None
    try:
        return _from_plain(plain)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _empty(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _split()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _split() -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _from_plain(plain: Any) -> Vocabulary:
    """Only pieces and merges are taken from the file; the rest must be what we would write."""
    if strange := _other_part(plain):
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


def _other_part(plain: Any) -> str | None:
    """The first part of a file that is not as we write it."""
    if not isinstance(plain, dict):
        return "form"
    for name, ours in _OURS.items():
        part = plain.get(name)
        if not isinstance(part, dict) or "type" not in part:
            return name
        if any(part.get(key, value) != value for key, value in ours.items()):
            return name
    added = plain.get("added_tokens")
    if not isinstance(added, list) or list(map(_named, added)) != list(SPECIALS.items()):
        return "list of added_tokens"
    return next(
        (part for part in ("post_processor", "truncation", "padding") if plain.get(part)), None
    )


def _named(added: Any) -> tuple[Any, Any] | None:
    return (added.get("content"), added.get("id")) if isinstance(added, dict) else None


def _refuse(tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
    """Refuse a vocabulary that could not write every text, or could write a special token."""
    if list(tokens[: len(SPECIALS)]) != list(SPECIALS):
        raise ValueError(
            f"Vocabulary: expected {', '.join(SPECIALS)} as ids 0, 1, 2, got {list(tokens[:3])}"
        )
    pieces = set(tokens[len(SPECIALS) :])
    if len(pieces) + len(SPECIALS) != len(tokens) or pieces & SPECIALS.keys():
        raise ValueError("Vocabulary: expected each piece once, got one of them twice")
    if missing := _BYTE.keys() - pieces:
        raise ValueError(
            f"Vocabulary: expected a piece for each of 256 bytes, got none for {len(missing)}"
        )
    for piece in pieces:
        if not piece or not _BYTE.keys() >= set(piece):
            raise ValueError(f"Vocabulary: expected pieces made of bytes, got {piece!r:.80}")
    for a, b in merges:
        if not {a, b, a + b} <= pieces:
            raise ValueError(
                f"Vocabulary: expected merges of pieces into pieces, got {a!r:.80} and {b!r:.80}"
            )


def _whole(text: str) -> str:
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


def _words(pieces: list[bytes]) -> list[int]:
    """The word of each piece, by the byte at which it begins."""
    text = b"".join(pieces).decode(errors="surrogateescape")
    # A broken character is one byte and counts as a letter: the places of all others stay right.
    text = re.sub("[\udc80-\udcff]", "x", text)
    ends = list(accumulate(len(word) for word, _ in _split().pre_tokenize_str(text)))
    starts = accumulate((len(piece) for piece in pieces[:-1]), initial=0)
    return [bisect_right(ends, start) for start in starts]
