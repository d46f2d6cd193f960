"""A recipe of a machine, once its task is known: it trains, measures, answers and shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.data.episodes import Episodes
from regard.models.ntm import NTMConfig
from regard.recipes import drawn
from regard.recipes.drawn import Config
from regard.recipes.machines import measuring, showing, training
from regard.recipes.machines.showing import Prediction
from regard.train.runs import Result
from regard.view.inputs import Input, Tell
from regard.view.trace import Trace

# The most steps of what a page may ask, which take a second or two.
LONGEST = 1000


def itself(task: Any, evaluation: Any) -> Any:
    """The task that was learned."""
    return task


def nothing(task: Any, drawn: Episodes, found: dict[str, Any]) -> dict[str, Any]:
    """No more than what is found."""
    return {}


def typed_as(
    width: int,
    vectors: tuple[int, int],
    *,
    count: tuple[int, int] | None = None,
    items: tuple[int, int] | None = None,
    weights: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """How a text of bits is put together, for a page; each pair is the least and the most.

    Args:
        width: bits of a vector.
        vectors: how many; of items, how many each has.
        count: how often they are said, as in `… x 3`.
        items: how many there are, as in `… | … ? …`.
        weights: between what the number behind each vector lies, as in `…:0.5`.
    """
    parts = {"vectors": vectors, "count": count, "items": items, "weights": weights}
    bounds = {k: dict(zip(("least", "most"), x, strict=True)) for k, x in parts.items() if x}
    return {"width": width, **dict.fromkeys(parts), **bounds}


@dataclass(frozen=True)
class Recipe:
    """What tells one recipe from the others.

    Args:
        about: a line on a model that it trained.
        task: the class of its task.
        numbers: by name, the evaluations of a model that is trained; what the first one finds is
            what is known of it first.
        example: what one could type, for a task.
        form: how what one types is put together, for a task.
        most: vectors that a page may ask about.
        asked: the task that an evaluation is about, made of the one that was learned.
        beside: what else an evaluation says, given what it found in which episodes.
        further: a task beyond the one that is learned, made of that one; weights may be chosen by
            how they do there, with training.watch=further, or both. Nothing is learned from it.
    """

    name: str
    about: str
    task: type[Any]
    numbers: dict[str, Any]
    example: Callable[[Any], str]
    form: Callable[[Any], dict[str, Any]]
    most: int
    asked: Callable[[Any, Any], Any] = itself
    beside: Callable[[Any, Episodes, dict[str, Any]], dict[str, Any]] = nothing
    further: Callable[[Any], Any] | None = None

    def offered(self) -> tuple[Callable[..., Any], ...]:
        """What its module has as run, evaluate, predict, trace, known, asks, typed and placed."""
        ways = (self.run, self.evaluate, self.predict, self.trace, self.known)
        return *ways, self.asks, self.typed, self.placed

    def run(self, config: Config, **where: Any) -> Result:
        """Train, and measure what came out; `where` is what `drawn.fitted` takes."""
        return training.trained(self, config, **where)

    def judge(self, task: Any) -> Callable[[nn.Module], dict[str, float]]:
        """A function from a model to its numbers on held-out episodes, which choose weights."""
        return training.judge_for(task, self.further)

    def evaluate(self, loaded: Any, evaluation: Any) -> dict[str, Any]:
        """Bits a sequence, and the share of sequences without one wrong bit."""
        task = self.asked(drawn.learned(self, loaded), evaluation)
        batch = measuring.held_out(task, evaluation.sequences, evaluation.seed)
        found = measuring.measured(self.name, loaded, batch, evaluation.slots)
        return {**found, "seed": evaluation.seed, **self.beside(task, batch, found)}

    def known(self, loaded: Any, config: Any = None, folder: Any = None) -> dict[str, Any]:
        """All that is measured of a trained model; a memory has as many slots as that takes.

        What a recipe may be told beside the model, its config and a folder for texts, is not used.
        """
        found: dict[str, Any] = {}
        for name, evaluation in self.numbers.items():
            slots = None
            if isinstance(loaded.config, NTMConfig):
                slots = max(evaluation.slots or 0, loaded.config.slots)
            numbers = self.evaluate(loaded, replace(evaluation, slots=slots))
            for known in ("sequences", "slots", "seed", "seconds", "hardware"):
                del numbers[known]
            found = found | {name: numbers} if found else numbers
        return found

    def predict(self, loaded: Any, input: str) -> Prediction:
        """What a model answers to what was typed."""
        return showing.predicted(self.name, loaded, drawn.learned(self, loaded).read(input))

    def trace(self, loaded: Any, input: str, *, tell: Tell | None = None) -> Trace:
        """What a machine does with its memory meanwhile; `tell` is told of every step."""
        task = drawn.learned(self, loaded)
        episode, flags = task.read(input), task.flags
        return showing.traced(self.name, loaded, episode, title=input, flags=flags, tell=tell)

    def asks(self, card: Mapping[str, Any]) -> Input:
        """What a page may give to the model of a card."""
        task = drawn.known(self, card)
        form = self.form(task)
        about = f"vectors of {form['width']} bits" if form["width"] > 1 else "bits"
        return Input("bits", about, self.example(task), self.most, form)

    def typed(self, card: Mapping[str, Any], text: str) -> str:
        """What was typed, if a page may ask it."""
        episode = drawn.known(self, card).read(text)
        if episode.slots > self.most:
            raise ValueError(
                f"{self.name}: expected at most {self.most} vectors, got {episode.slots}"
            )
        if episode.inputs.shape[1] > LONGEST:
            raise ValueError(
                f"{self.name}: expected at most {LONGEST} steps, got {episode.inputs.shape[1]}"
            )
        return text

    def placed(
        self, card: Mapping[str, Any], input: str, edits: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Edits in the numbers of a trace's maps; those of its attention are the same."""
        return [dict(edit) for edit in edits]
