"""Labels as they are shown: nothing in them moves a cursor, turns a line round or fills a page."""

import unicodedata

# Joiners shape Persian words and families of emoji; alone among the format characters they stay.
_JOINERS = "\u200c\u200d"
# Control, format, surrogate, private, unassigned, and the two separators that break a line.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(label: str) -> str:
    r"""The label with every character that cannot be seen written as one that can.

    >>> visible("two\nlines")
    'two␊lines'
    >>> visible(" the"), visible(""), visible("\x1b[31m")
    ('␣the', '∅', '␛[31m')
    """
    if not label:
        return "∅"
    inner = label.strip(" ")
    # a space inside a label is seen; at its ends, or alone, it is not
    before = len(label) - len(label.lstrip(" ")) if inner else len(label)
    after = len(label) - len(label.rstrip(" ")) if inner else 0
    return "␣" * before + "".join(map(_seen, inner)) + "␣" * after


def shortened(label: str, width: int) -> str:
    """The label cut to `width` columns, with an ellipsis where something is missing.

    >>> shortened("incomprehensible", 8)
    'incompr…'
    """
    # a tower of marks takes no columns, and is cut all the same
    most = 4 * width
    if columns(label) <= width and len(label) <= most:
        return label
    kept = ""
    for cluster in clusters(label):
        if columns(kept + cluster) >= width or len(kept + cluster) > most:
            break
        kept += cluster
    return kept + "…"


def columns(text: str) -> int:
    """How many columns of a terminal the text fills: two for a wide character, none for a mark.

    >>> columns("pomme"), columns("林檎"), columns("e\u0301")
    (5, 4, 1)
    """
    return sum(map(_columns, text))


def clusters(text: str) -> list[str]:
    """The characters of a text, each with the marks that stand on it."""
    found: list[str] = []
    for character in text:
        if found and not _columns(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text filled up with blanks to `width` columns; `right` puts it at the right end."""
    blanks = " " * (width - columns(text))
    return blanks + text if right else text + blanks


def _seen(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return "␣" if unicodedata.category(character) == "Zs" and character != " " else character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _columns(character: str) -> int:
    if character in _JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
