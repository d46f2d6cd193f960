"""A recipe of a machine, once its task is known: it trains, measures, answers and shows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from regard.data.episodes import Episodes
from regard.models.ntm import NTMConfig
from regard.recipes import drawn
from regard.recipes.drawn import Config
from regard.recipes.machines import measuring, showing, training
from regard.recipes.machines.showing import Prediction
from regard.train.runs import Result
from regard.view.trace import Trace


def itself(task: Any, evaluation: Any) -> Any:
    """The task that was learned."""
    return task


def nothing(task: Any, drawn: Episodes, found: dict[str, Any]) -> dict[str, Any]:
    """No more than what is found."""
    return {}


@dataclass(frozen=True)
class Recipe:
    """What tells one recipe from the others.

    Args:
        about: a line on a model that it trained.
        task: the class of its task.
        numbers: by name, the evaluations of a model that is trained; what the first one finds is
            what is known of it first.
        example: what one could type, for a task.
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
    asked: Callable[[Any, Any], Any] = itself
    beside: Callable[[Any, Episodes, dict[str, Any]], dict[str, Any]] = nothing
    further: Callable[[Any], Any] | None = None

    def offered(self) -> tuple[Callable[..., Any], ...]:
        """What its module has as run, evaluate, predict, trace and known."""
        return self.run, self.evaluate, self.predict, self.trace, self.known

    def run(self, config: Config, **where: Any) -> Result:
        """Train, and measure what came out; `where` is what `drawn.fitted` takes."""
        return training.trained(self, config, **where)

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

    def trace(self, loaded: Any, input: str) -> Trace:
        """What a machine does with its memory meanwhile."""
        task = drawn.learned(self, loaded)
        return showing.traced(self.name, loaded, task.read(input), title=input, flags=task.flags)
