"""The lessons of the Playground, in the order in which one may take them."""

from regard.view.lessons import (
    causes,
    costs,
    dictionary,
    heads,
    masks,
    permutation,
    positions,
    roles,
    scale,
    score_functions,
    selection,
    softmax,
)
from regard.view.lessons.lesson import Lesson

_LESSON_MODULES = (
    dictionary,
    score_functions,
    scale,
    softmax,
    permutation,
    positions,
    masks,
    heads,
    selection,
    roles,
    causes,
    costs,
)
LESSONS: dict[str, Lesson] = {part.LESSON.name: part.LESSON for part in _LESSON_MODULES}

__all__ = ["LESSONS", "Lesson"]
