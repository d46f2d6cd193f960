"""What the queries and the keys of a picture are: tokens, an image, memory slots, points, steps.

Every axis answers the same questions: `id`, `kind`, `size` and `labels`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard import check

# An id stands in file names and addresses one day: no slash, no dots that climb.
_ID_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
# Far beyond any picture; a file that claims more is not believed.
MAX_AXIS_LENGTH = 2**20


@dataclass(frozen=True)
class Tokens:
    """A sentence, token by token.

    Args:
        labels: the tokens as people read them.
        words: the word each token is part of, or None for a token that is part of none.
        special: the places of tokens that are not text, such as the end of a sentence.
        names: each word as people read it; without them, its labels are joined.
    """

    id: str
    labels: Sequence[Any]
    words: Sequence[Any] | None = None
    special: Sequence[Any] = ()
    names: Sequence[Any] | None = None
    kind: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        where = check_id("Tokens", self.id)
        _set_fields(self, labels=_check_labels(where, self.labels))
        _set_fields(self, special=_check_integers(where, "special", self.special, self.size))
        if self.words is not None:
            _set_fields(self, words=tuple(self.words))
            if len(self.words) != self.size:
                raise ValueError(
                    f"{where}: expected a word for each of {self.size} labels, "
                    f"got {len(self.words)}"
                )
            _check_integers(
                where, "words", [w for w in self.words if w is not None], MAX_AXIS_LENGTH
            )
        if self.names is not None:
            _set_fields(self, names=_check_labels(where, self.names))
            there = len(self.word_groups())
            if len(self.names) != there:
                raise ValueError(
                    f"{where}: expected a name for each of {there} words, got {len(self.names)}"
                )

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.labels)

    def word_groups(self) -> list[list[int]]:
        """The places of the tokens of each word; neighbours of one number make a word."""
        if self.words is None:
            return [[place] for place in range(self.size)]
        # what is part of no word stands alone
        number = [(-1, i) if w is None else (w, 0) for i, w in enumerate(self.words)]
        return [list(group) for _, group in groupby(range(self.size), key=number.__getitem__)]


@dataclass(frozen=True, eq=False)
class Grid:
    """An image cut into rows and columns, read line by line.

    Args:
        image: the picture under the grid (C, Y, X) with one or three channels, as bytes or as
            floats from 0 to 1.
    """

    id: str
    rows: int
    columns: int
    image: Tensor | None = None
    kind: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        where = check_id("Grid", self.id)
        _check_size(where, "rows", self.rows)
        _check_size(where, "columns", self.columns)
        _check_size(where, "size", self.size)
        if self.image is not None:
            _set_fields(self, image=_check_image(where, self.image))

    @property
    def size(self) -> int:
        """How many places there are."""
        return self.rows * self.columns

    @property
    def labels(self) -> tuple[str, ...]:
        """Row and column of each place."""
        return tuple(f"{y},{x}" for y in range(self.rows) for x in range(self.columns))


@dataclass(frozen=True)
class Slots:
    """The slots of a memory."""

    id: str
    count: int
    kind: ClassVar[str] = "slots"

    def __post_init__(self) -> None:
        _check_size(check_id("Slots", self.id), "count", self.count)

    @property
    def size(self) -> int:
        """How many slots there are."""
        return self.count

    @property
    def labels(self) -> tuple[str, ...]:
        """The number of each slot."""
        return tuple(map(str, range(self.count)))


@dataclass(frozen=True, eq=False)
class Points:
    """Points of the plane, xy (n, 2)."""

    id: str
    xy: Tensor
    kind: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        where = check_id("Points", self.id)
        check.shape(where, "xy", self.xy, n=None, two=2)
        check.floats(where, "xy", self.xy)
        check_finite(where, "xy", self.xy)
        _set_fields(self, xy=self.xy.detach())
        _check_size(where, "size", self.size)

    @property
    def size(self) -> int:
        """How many points there are."""
        return self.xy.shape[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The number of each point."""
        return tuple(map(str, range(self.size)))


@dataclass(frozen=True)
class Steps:
    """Moments, one after the other."""

    id: str
    labels: Sequence[Any]
    kind: ClassVar[str] = "steps"

    def __post_init__(self) -> None:
        _set_fields(self, labels=_check_labels(check_id("Steps", self.id), self.labels))

    @property
    def size(self) -> int:
        """How many steps there are."""
        return len(self.labels)


Axis = Tokens | Grid | Slots | Points | Steps


def check_id(where: str, id: str) -> str:
    """`Tokens 'source'`, for an error; an id that could not name a file is refused."""
    if not isinstance(id, str) or not _ID_PATTERN.fullmatch(id) or ".." in id:
        raise ValueError(
            f"{where}: expected an id of letters, digits, '_', '-' and single dots, got {id!r:.80}"
        )
    return f"{where} {id!r}"


def check_text(where: str, name: str, value: Any) -> str:
    """A string that can be written down, or an error."""
    if not isinstance(value, str):
        raise ValueError(f"{where}: expected {name} as a string, got {check.describe_kind(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{where}: expected {name} as valid Unicode, got {value!r:.80}")
    return value


def check_finite(where: str, name: str, values: Tensor) -> None:
    """Refuse a tensor with NaN or infinity in it."""
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{where}: expected {name} of finite numbers, got NaN or infinity")


def _check_labels(where: str, labels: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(labels, str):
        raise ValueError(f"{where}: expected labels as a list of strings, got one string")
    _check_size(where, "number of labels", len(labels))
    return tuple(check_text(where, f"label {i}", label) for i, label in enumerate(labels))


def _check_integers(where: str, name: str, values: Sequence[Any], limit: int) -> tuple[int, ...]:
    for n in values:
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < limit:
            raise ValueError(
                f"{where}: expected {name} as whole numbers from 0 to {limit - 1}, got {n!r:.80}"
            )
    return tuple(values)


def _check_size(where: str, name: str, size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_AXIS_LENGTH:
        raise ValueError(f"{where}: expected {name} from 1 to {MAX_AXIS_LENGTH}, got {size!r:.80}")


def _check_image(where: str, image: Tensor) -> Tensor:
    check.shape(where, "image", image, C=None, Y=None, X=None)
    if image.shape[0] not in (1, 3) or 0 in image.shape:
        raise ValueError(
            f"{where}: expected image of shape (C, Y, X) with C = 1 or 3, got "
            f"{tuple(image.shape)}. Channels come first: image.permute(2, 0, 1)."
        )
    image = image.detach()
    if image.dtype != torch.uint8:
        check.floats(where, "image", image)
        check_finite(where, "image", image)
        if float(image.min()) < 0 or float(image.max()) > 1:
            raise ValueError(
                f"{where}: expected image from 0 to 1, "
                f"got {float(image.min()):g} to {float(image.max()):g}"
            )
    return image


def _set_fields(axis: Any, **values: Any) -> None:
    # what is frozen is written once more, here, while it is being made
    for name, value in values.items():
        object.__setattr__(axis, name, value)
