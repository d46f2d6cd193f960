"""A request that gets no for an answer: a status and one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

MAX_SENTENCE_CHARACTERS = 300


class RefusedError(Exception):
    """What was asked cannot be given; `sentence` says why, and goes to whoever asked."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class TooLargeError(ValueError):
    """What was asked for fits, but it is more than is given at a time."""


@contextmanager
def refuse_value_errors(status: int) -> Iterator[None]:
    """Inside, what does not fit is what was asked: its own words go back with this status."""
    try:
        yield
    except ValueError as error:
        status = 413 if isinstance(error, TooLargeError) else status
        raise RefusedError(status, error_sentence(error)) from None


def error_sentence(error: ValueError) -> str:
    """What an error of ours says, cut where it repeats a long thing that was sent."""
    text = str(error)
    return (
        text if len(text) <= MAX_SENTENCE_CHARACTERS else f"{text[: MAX_SENTENCE_CHARACTERS - 1]}…"
    )
