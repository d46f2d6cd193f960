"""A recipe of a pointer network, once its task is known: it trains, measures, answers and shows."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from regard.view.trace import Trace


def as_pointed(model: Any, points: list[np.ndarray], task: Any, how: Any) -> list[list[int]]:
    """What a model answers, greedily or with beams, in the numbers of who asks."""
    batch, orders = asked.laid(points, task.order)
    return asked.told(pointed(model, batch, beam=how.beam), orders)


def from_answers(config: Config) -> Callable[..., Any]:
    """Whatever is set, learn from answers that are known."""
    return supervised


def as_given(model: Any, points: np.ndarray, answer: list[int], task: Any) -> np.ndarray:
    """The points as they are."""
    return points


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
        seen: points as they were read when an answer was found.
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
    seen: Callable[[Any, np.ndarray, list[int], Any], np.ndarray] = as_given
    development: tuple[tuple[int, int], ...] = ((50, 512),)

    def offered(self) -> tuple[Callable[..., Any], ...]:
        """What its module has as run, evaluate, predict, trace and known."""
        return self.run, self.evaluate, self.predict, self.trace, self.known

    def run(self, config: Config, **where: Any) -> Result:
        """Train, and measure what came out; `where` is what `drawn.fitted` takes."""
        return training.trained(self, config, **where)

    def evaluate(self, loaded: Any, evaluation: Any) -> dict[str, Any]:
        """What a model's answers are worth, on instances that it has not seen."""
        began, task = time.perf_counter(), drawn.learned(self, loaded)
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

    def trace(self, loaded: Any, input: str) -> Trace:
        """How sure it was of each point that it pointed at."""
        points, answer = self._answered(loaded, input)
        text, details = self.said(points, answer, False)
        shown = {"task": self.pictured, "text": text.splitlines()[0], **details, "indices": answer}
        task = drawn.learned(self, loaded)
        seen = self.seen(loaded.model, self.ready(points), answer, task)
        return showing.traced(loaded, points, seen, answer, task.order, shown)

    def _answered(self, loaded: Any, input: str) -> tuple[np.ndarray, list[int]]:
        """The points that were given, and at which of them a model points."""
        points = asked.given(self.name, input, drawn.learned(self, loaded).inputs)
        seen = self.ready(points)
        return points, self._pointed(loaded, [seen], self.usual or self.evaluation())[0]

    def _pointed(self, loaded: Any, points: list[np.ndarray], how: Any) -> list[list[int]]:
        """What a model answers; more points than a vocabulary can say are refused."""
        most, words = max(map(len, points)), most_points(loaded.config)
        if most > words:
            raise ValueError(
                f"{self.name}: a vocabulary of {words} places cannot say {most} points"
            )
        return self.answered(loaded.model, points, drawn.learned(self, loaded), how)

    def _within(self, points: np.ndarray) -> np.ndarray:
        """Points of a file as a model reads them: those of the unit square as they are."""
        ready = self.ready(points)
        return points if points.min() >= 0 and points.max() <= 1 else ready
