"""What somebody may have meant who typed a name that is not there."""

import difflib
from collections.abc import Iterable


def meant(name: str, there: Iterable[str], *, before: str = "") -> str:
    """The end of an error: the nearest name there is, or nothing; `before` stands before it.

    >>> meant("trian", ["train", "look"])
    '; did you mean train?'
    """
    close = difflib.get_close_matches(name, list(there), n=1, cutoff=0.5)
    return f"; did you mean {before}{close[0]}?" if close else ""
