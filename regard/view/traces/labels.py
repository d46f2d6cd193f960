"""Labels as they are shown: nothing in them moves a cursor, turns a line round or fills a page."""

import unicodedata

# Joiners shape Persian words and families of emoji; alone among the format characters they stay.
_JOINERS = "\u200c\u200d"
# Control, format, surrogate, private, unassigned, and the two separators that break a line.
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def escape_invisible(label: str) -> str:
    r"""The label with every character that cannot be seen written as one that can.

    >>> escape_invisible("two\nlines")
    'two␊lines'
    >>> escape_invisible(" the"), escape_invisible(""), escape_invisible("\x1b[31m")
    ('␣the', '∅', '␛[31m')
    """
    if not label:
        return "∅"
    inner = label.strip(" ")
    # a space inside a label is seen; at its ends, or alone, it is not
    before = len(label) - len(label.lstrip(" ")) if inner else len(label)
    after = len(label) - len(label.rstrip(" ")) if inner else 0
    return "␣" * before + "".join(map(_escape_character, inner)) + "␣" * after


def truncate_text(label: str, width: int) -> str:
    """The label cut to `width` columns, with an ellipsis where something is missing.

    >>> truncate_text("incomprehensible", 8)
    'incompr…'
    """
    # a tower of marks takes no columns, and is cut all the same
    most = 4 * width
    if display_width(label) <= width and len(label) <= most:
        return label
    kept = ""
    for cluster in grapheme_clusters(label):
        if display_width(kept + cluster) >= width or len(kept + cluster) > most:
            break
        kept += cluster
    return kept + "…"


def display_width(text: str) -> int:
    """How many columns of a terminal the text fills: two for a wide character, none for a mark.

    >>> display_width("pomme"), display_width("林檎"), display_width("e\u0301")
    (5, 4, 1)
    """
    return sum(map(_character_width, text))


def grapheme_clusters(text: str) -> list[str]:
    """The characters of a text, each with the marks that stand on it."""
    found: list[str] = []
    for character in text:
        if found and not _character_width(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def pad_text(text: str, width: int, *, align_right: bool = False) -> str:
    """The text filled up with blanks to `width` columns; `right` puts it at the right end."""
    blanks = " " * (width - display_width(text))
    return blanks + text if align_right else text + blanks


def _escape_character(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if character in _JOINERS or unicodedata.category(character) not in _INVISIBLE_CATEGORIES:
        return "␣" if unicodedata.category(character) == "Zs" and character != " " else character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _character_width(character: str) -> int:
    if character in _JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
