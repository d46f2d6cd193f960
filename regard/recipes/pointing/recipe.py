"""A recipe of a pointer network, once its task is known: it trains, measures, answers and shows."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from regard.data import plane
from regard.models.pointer_network import Follows
from regard.recipes import drawn
from regard.recipes.drawn import Config
from regard.recipes.pointing import asked, showing, training
from regard.recipes.pointing.asked import Asked
from regard.recipes.pointing.config import most_points
from regard.recipes.pointing.learning import supervised
from regard.recipes.pointing.searching import pointed
from regard.recipes.pointing.showing import Prediction
from regard.train.runs import Result, hardware
from regard.view.inputs import Input, Option, Tell
from regard.view.trace import Trace


def as_pointed(model: Any, points: list[np.ndarray], task: Any, how: Any) -> list[list[int]]:
    """What a model answers, greedily or with beams, in the numbers of who asks."""
    batch, orders = asked.laid(points, task.order)
    return asked.told(pointed(model, batch, beam=how.beam), orders)


def from_answers(config: Config) -> Callable[..., Any]:
    """Whatever is set, learn from answers that are known."""
    return supervised


def as_given(model: Any, points: np.ndarray, task: Any, how: Any) -> tuple[np.ndarray, list[int]]:
    """The points as they are, and no answer to follow: it is found step by step."""
    return points, []


@dataclass(frozen=True)
class Recipe:
    """What tells one recipe from the others.

    Args:
        about: a line on a model that it trained.
        task: the class of its task.
        pictured: what its answers are in a picture, one of `view.pointers.TASKS`.
        follows: which points may follow which.
        evaluation: the class of its evaluations, all of whose defaults are as usual.
        numbers: by name, the evaluations of a model that is trained; what the first one finds is
            what is known of it first.
        judged: of questions and answers, the numbers that an evaluation tells.
        said: of points, an answer and whether the best one is to be found, what a person is told
            and the same as data; what cannot be answered is refused in it.
        answered: how answers are found.
        learns: of settings, what is learned from.
        usual: how what a person gives is answered; None as an evaluation is by default.
        led: of a model, points, a task and how it is asked, the points as it is to read them, and
            those that an answer shown step by step begins with; all of them, where it was found
            in another way than by such steps.
        most: points that a page may ask about.
        some: points of the example of a page.
        development: of so many points each, how many instances decide what is best.
        ready: points of a person, as a model can read them; what it cannot is refused.
    """

    name: str
    about: str
    task: type[Any]
    pictured: str
    follows: Follows
    evaluation: type[Any]
    numbers: dict[str, Any]
    judged: Callable[[Asked, list[list[int]], Any], dict[str, Any]]
    said: Callable[[np.ndarray, list[int], bool], tuple[str, dict[str, Any]]]
    ready: Callable[[np.ndarray], np.ndarray]
    example: str
    answered: Callable[[Any, list[np.ndarray], Any, Any], list[list[int]]] = as_pointed
    learns: Callable[[Any], Callable[..., Any]] = from_answers
    usual: Any = None
    led: Callable[[Any, np.ndarray, Any, Any], tuple[np.ndarray, list[int]]] = as_given
    development: tuple[tuple[int, int], ...] = ((50, 512),)
    most: int = 200
    some: int = 12

    def offered(self) -> tuple[Callable[..., Any], ...]:
        """What its module has as run, evaluate, predict, trace, known, asks, typed and placed."""
        ways = (self.run, self.evaluate, self.predict, self.trace, self.known)
        return *ways, self.asks, self.typed, self.placed

    def run(self, config: Config, **where: Any) -> Result:
        """Train, and measure what came out; `where` is what `drawn.fitted` takes."""
        return training.trained(self, config, **where)

    def judge(self, task: Any) -> Callable[[nn.Module], dict[str, float]]:
        """A function from a model to its numbers on held-out instances, which choose weights."""
        return training.judge_for(self, task)

    def evaluate(self, loaded: Any, evaluation: Any) -> dict[str, Any]:
        """What a model's answers are worth, on instances that it has not seen."""
        began, task = time.perf_counter(), self._task_of_model(loaded)
        if evaluation.file is not None:
            posed = asked.held(self.name, evaluation.file, self.follows)
            seen = [self._within(each) for each in posed.points]
        else:
            posed = asked.drawn(task, evaluation.points, evaluation.instances, evaluation.seed)
            seen = posed.points
        answers = self._pointed(loaded, seen, evaluation)
        found = self.judged(posed, answers, evaluation)
        device = next(loaded.model.parameters()).device.type
        return {
            **found,
            "instances": len(posed.points),
            "seed": None if evaluation.file else evaluation.seed,
            "seconds": round(time.perf_counter() - began, 2),
            "hardware": hardware(device),
        }

    def known(self, loaded: Any, config: Any = None, folder: Any = None) -> dict[str, Any]:
        """All that is measured of a trained model; of a vocabulary, up to its last word.

        What a recipe may be told beside the model, its config and a folder for texts, is not used.
        """
        found: dict[str, Any] = {}
        for name, evaluation in self.numbers.items():
            if evaluation.points > most_points(loaded.config):
                continue
            numbers = self.evaluate(loaded, evaluation)
            for known in ("instances", "seed", "seconds", "hardware"):
                del numbers[known]
            found = found | {name: numbers} if found else numbers
        return found

    def predict(self, loaded: Any, input: str, *, prove: bool = False) -> Prediction:
        """What a model answers to points in a file, or typed."""
        points, answer = self._answered(loaded, input)
        text, details = self.said(points, answer, prove)
        return Prediction(text, details=details)

    def trace(
        self,
        loaded: Any,
        input: str | np.ndarray,
        *,
        prefix: str = "",
        tell: Tell | None = None,
    ) -> Trace:
        """How sure it was of each point that it pointed at.

        Args:
            input: points in a file, typed, or as `typed` gives them.
            prefix: the points that the answer has to begin with, as in `3 0`.
            tell: told of every step; what it raises ends the run at once.
        """
        task, how = self._task_of_model(loaded), self.usual or self.evaluation()
        points = asked.given(self.name, input, task.inputs)
        seen, led = self.ready(points), asked.begun(self.name, prefix, len(points))
        self._refuse_more(loaded, len(points))
        if not led:
            seen, led = self.led(loaded.model, seen, task, how)
        first_given = self.pictured == "tour"
        found = showing.walked(loaded, seen, task.order, led=led, given=first_given, tell=tell)
        text, details = self.said(points, found.answer, False)
        shown = {"task": self.pictured, "text": text.splitlines()[0], **details}
        return showing.traced(loaded, points, found, {**shown, "indices": found.answer})

    def asks(self, card: Mapping[str, Any]) -> Input:
        """What a page may give to the model of a card."""
        inputs = drawn.known(self, card).inputs
        example, form = asked.example(inputs, self.some), {"least": 0, "most": 1}
        prefix = Option("prefix", "points the answer begins with, as in 3 0", "text", "", most=1000)
        # corners of triangles have an order that nobody could guess
        options = () if self.follows == "triangles" else (prefix,)
        if inputs == 1:
            return Input("numbers", "numbers", example, self.most, form, options)
        form = {**form, "square": True}
        return Input("points", "points of the plane", example, self.most, form, options)

    def typed(self, card: Mapping[str, Any], text: str) -> np.ndarray:
        """The points of what was typed, which is never taken for a file."""
        inputs = drawn.known(self, card).inputs
        points = plane.parsed(text, columns=inputs, where=self.name)
        if len(points) > self.most:
            raise ValueError(f"{self.name}: expected at most {self.most} points, got {len(points)}")
        return asked.given(self.name, points, inputs)

    def placed(
        self,
        card: Mapping[str, Any],
        input: str | np.ndarray,
        edits: Sequence[Mapping[str, Any]],
    ) -> list[dict[str, Any]]:
        """Edits in the numbers of a trace's maps, as edits in those of the model's attentions.

        A model reads points in an order of its own, and one that may end points at that first.
        """
        task = drawn.known(self, card)
        points = asked.given(self.name, input, task.inputs)
        _, (places,) = asked.laid([self.ready(points)], task.order)
        tours = card.get("model") == "attention_pointer"
        return showing.placed(places, edits, first=0 if tours else 1)

    def _task_of_model(self, loaded: Any) -> Any:
        """The task of a model, which must read such points and may point as this recipe does."""
        task, config = drawn.learned(self, loaded), loaded.config
        if training.sized_for(config, task, self.follows) != config:
            raise ValueError(
                f"{self.name}: expected a model of inputs={task.inputs} and "
                f"follows={self.follows}, got another; the recipe in its card.json may be wrong"
            )
        return task

    def _answered(self, loaded: Any, input: str) -> tuple[np.ndarray, list[int]]:
        """The points that were given, and at which of them a model points."""
        points = asked.given(self.name, input, self._task_of_model(loaded).inputs)
        seen = self.ready(points)
        return points, self._pointed(loaded, [seen], self.usual or self.evaluation())[0]

    def _pointed(self, loaded: Any, points: list[np.ndarray], how: Any) -> list[list[int]]:
        """What a model answers; more points than a vocabulary can say are refused."""
        self._refuse_more(loaded, max(map(len, points)))
        return self.answered(loaded.model, points, self._task_of_model(loaded), how)

    def _refuse_more(self, loaded: Any, points: int) -> None:
        words = most_points(loaded.config)
        if points > words:
            raise ValueError(
                f"{self.name}: a vocabulary of {words} places cannot say {points} points"
            )

    def _within(self, points: np.ndarray) -> np.ndarray:
        """Points of a file as a model reads them: those of the unit square as they are."""
        ready = self.ready(points)
        return points if points.min() >= 0 and points.max() <= 1 else ready
