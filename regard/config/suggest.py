"""What somebody may have meant who typed a name that is not there."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, choices: Iterable[str], *, prefix: str = "") -> str:
    """The end of an error: the nearest name there is, or nothing; `prefix` stands before it.

    >>> suggestion("trian", ["train", "look"])
    '; did you mean train?'
    """
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
