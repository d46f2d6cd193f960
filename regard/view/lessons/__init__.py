"""The lessons of the Playground, in the order in which one may take them."""

from regard.view.lessons import (
    causes,
    choosing,
    costs,
    dictionary,
    heads,
    masking,
    permuting,
    places,
    roles,
    scaling,
    scoring,
    softmax,
)
from regard.view.lessons.lesson import Lesson

_ORDER = (
    dictionary,
    scoring,
    scaling,
    softmax,
    permuting,
    places,
    masking,
    heads,
    choosing,
    roles,
    causes,
    costs,
)
LESSONS: dict[str, Lesson] = {part.LESSON.name: part.LESSON for part in _ORDER}

__all__ = ["LESSONS", "Lesson"]
