"""What is changed on its way through the door: `edit` hands an attention's calls to a change.

Our own attention is changed before a backend is chosen; PyTorch's `scaled_dot_product_attention`,
in anyone's model, runs as a call of ours where a change is meant for it.
"""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from torch import nn

from regard import check
from regard.functional.call import Call, recalled
from regard.functional.edits import Change, farthest
from regard.looking import watching
from regard.looking.paths import Path, refuse_compiled


class Editing:
    """The changes of one edit, and what its model's attentions were asked while it is open."""

    def __init__(self, model: nn.Module, changes: Mapping[str, Change]):
        self.path = Path(model, self._begin)
        self._changes = dict(changes)
        # how many queries each was asked since the model was entered, and the most keys it had
        self._asked: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._met: dict[str, None] = {}
        for name, change in self._changes.items():
            if name not in self.path.names:
                raise ValueError(f"edit: {_unknown(name, model, self.path.names)}")
            if isinstance(change, type) or not callable(change):
                raise ValueError(
                    f"edit: expected a change of {name!r} as a callable from Call to Call, "
                    f"got {check.kind(change)}"
                )

    def means(self) -> bool:
        """Whether the attention that is running is to be changed."""
        return self.path.name in self._changes

    def meet(self) -> None:
        """Note that the module that is running attends."""
        if self.path.name is not None:
            self._met[self.path.name] = None

    def edited(self, call: Call) -> Call:
        """The call as it is to be run; the very same if nothing is changed."""
        self.meet()
        name = self.path.name
        if name is None or name not in self._changes:
            return call
        begun, again = self._asked.get(name, 0), watching.going_back()
        given = replace(call, begun=0 if again else begun)
        made = self._changes[name](given)
        _, _, Q, K = call.sizes
        if not again:
            self._asked[name] = begun + Q
            self._keys[name] = max(K, self._keys.get(name, 0))
        return call if made is given else recalled(made, call, where=f"edit of {name!r}")

    def refuse_idle(self) -> None:
        """Refuse changes that changed nothing, since what they name was never there."""
        if not self.path.entered:
            return
        for name, change in self._changes.items():
            if name not in self._met:
                there = ", ".join(self._met) or (
                    "none; regard.look(model) says what it saw and what it could not see"
                )
                raise ValueError(f"edit: {name!r} ran no attention; of this model did {there}")
            K = self._keys[name]
            if farthest(change) >= K:
                raise ValueError(
                    f"edit: {name!r} never had more than {K} keys, so there is no key "
                    f"{farthest(change)}"
                )

    def _begin(self) -> None:
        self._asked.clear()


@contextmanager
def edit(model: nn.Module, changes: Mapping[str, Change]) -> Iterator[None]:
    """Inside, attentions of `model` are changed: `{"decoder.blocks.0.cross": edits.ablate(2)}`.

    Every call of an attention that is named goes through its change, from `regard.edits` or any
    callable that takes a `Call` and returns one. A look sees the call that is run. Edits inside of
    one another are applied in the order in which they were opened.

    Queries are counted for each attention from 0, anew whenever the model's `forward` or, of the
    models here, its `start` is entered; so a decoder that goes step by step counts its steps.

    Args:
        model: its attention may be ours, PyTorch's `scaled_dot_product_attention` or a Hugging Face
            model's that uses it.
        changes: by the names that `look` gives them.

    Raises:
        ValueError: there is no such module, or it ran no attention by the end.
    """
    refuse_compiled(model, "edit", "edited")
    editing = Editing(model, changes)
    with editing.path.followed(), watching.changed_by(editing):
        yield
    editing.refuse_idle()


def _unknown(name: str, model: nn.Module, there: list[str]) -> str:
    near = difflib.get_close_matches(name, there, n=3, cutoff=0.5)
    nearest = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(there[:20])}"
    return f"{type(model).__name__} has no module {name!r}; {nearest}"
