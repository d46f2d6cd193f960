"""A recipe of a pointer network, once its task is known: it trains, measures, answers and shows."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from regard.data.geometry import point_input
from regard.models.pointer_network import PointingRuleName
from regard.recipes import synthetic
from regard.recipes.pointer import problems, traces, train
from regard.recipes.pointer.config import max_points
from regard.recipes.pointer.loss import supervised_loss
from regard.recipes.pointer.problems import Problems
from regard.recipes.pointer.search import decode_instances
from regard.recipes.pointer.traces import Prediction
from regard.recipes.synthetic import Config
from regard.train.runs import Result, hardware
from regard.view.inputs import Input, Option, ProgressCallback
from regard.view.traces.trace import Trace


def decode_with_beams(
    model: Any, points: list[np.ndarray], task: Any, settings: Any
) -> list[list[int]]:
    """What a model answers, greedily or with beams, in the numbers of who asks."""
    batch, orders = problems.collate_points(points, task.order)
    return problems.to_input_indices(decode_instances(model, batch, beam=settings.beam), orders)


def supervised_loss_function(config: Config) -> Callable[..., Any]:
    """Whatever is set, learn from answers that are known."""
    return supervised_loss


def points_without_prefix(
    model: Any, points: np.ndarray, task: Any, settings: Any
) -> tuple[np.ndarray, list[int]]:
    """The points as they are, and no answer to follow: it is found step by step."""
    return points, []


@dataclass(frozen=True)
class Recipe:
    """What tells one recipe from the others.

    Args:
        about: a line on a model that it trained.
        task_type: the class of its task.
        answer_kind: what its answers are in a picture, one of `pointer_trace.TASKS`.
        pointing_rule: which points may follow which.
        evaluation_type: the class of its evaluations, all of whose defaults are as usual.
        card_evaluations: by name, the evaluations of a model that is trained; what the first one
            finds is what is known of it first.
        answer_metrics: of questions and answers, the numbers that an evaluation tells.
        describe_answer: of points, an answer and whether the best one is to be found, what a person
            is told and the same as data; what cannot be answered is refused in it.
        decode_answers: how answers are found.
        loss_function: of settings, what is learned from.
        predict_settings: how what a person gives is answered; None as an evaluation is by default.
        trace_inputs: of a model, points, a task and how it is asked, the points as it is to read
            them, and those that an answer shown step by step begins with; all of them, where it was
            found in another way than by such steps.
        max_page_points: points that a page may ask about.
        page_example_points: points of the example of a page.
        validation_sizes: of so many points each, how many instances decide what is best.
        normalize_points: points of a person, as a model can read them; what it cannot is refused.
    """

    name: str
    about: str
    task_type: type[Any]
    answer_kind: str
    pointing_rule: PointingRuleName
    evaluation_type: type[Any]
    card_evaluations: dict[str, Any]
    answer_metrics: Callable[[Problems, list[list[int]], Any], dict[str, Any]]
    describe_answer: Callable[[np.ndarray, list[int], bool], tuple[str, dict[str, Any]]]
    normalize_points: Callable[[np.ndarray], np.ndarray]
    example: str
    decode_answers: Callable[[Any, list[np.ndarray], Any, Any], list[list[int]]] = decode_with_beams
    loss_function: Callable[[Any], Callable[..., Any]] = supervised_loss_function
    predict_settings: Any = None
    trace_inputs: Callable[[Any, np.ndarray, Any, Any], tuple[np.ndarray, list[int]]] = (
        points_without_prefix
    )
    validation_sizes: tuple[tuple[int, int], ...] = ((50, 512),)
    max_page_points: int = 200
    page_example_points: int = 12

    def module_hooks(self) -> tuple[Callable[..., Any], ...]:
        """What its module has as run, evaluate, predict, trace, card_metrics and so on."""
        ways = (self.run, self.evaluate, self.predict, self.trace, self.card_metrics)
        return *ways, self.input_spec, self.parse_input, self.to_model_edits

    def run(self, config: Config, **run_options: Any) -> Result:
        """Train, and measure what came out; `run_options` go to `fit_in_run_folder`."""
        return train.train_recipe(self, config, **run_options)

    def build_validator(self, task: Any) -> Callable[[nn.Module], dict[str, float]]:
        """A function from a model to its numbers on held-out instances, which choose weights."""
        return train.build_validator(self, task)

    def evaluate(self, loaded: Any, evaluation: Any) -> dict[str, Any]:
        """What a model's answers are worth, on instances that it has not seen."""
        began, task = time.perf_counter(), self._task_of_model(loaded)
        if evaluation.file is not None:
            posed = problems.load_problems(self.name, evaluation.file, self.pointing_rule)
            seen = [self._normalize_file_points(each) for each in posed.points]
        else:
            posed = problems.draw_problems(
                task, evaluation.points, evaluation.instances, evaluation.seed
            )
            seen = posed.points
        answers = self._check_and_decode(loaded, seen, evaluation)
        found = self.answer_metrics(posed, answers, evaluation)
        device = next(loaded.model.parameters()).device.type
        return {
            **found,
            "instances": len(posed.points),
            "seed": None if evaluation.file else evaluation.seed,
            "seconds": round(time.perf_counter() - began, 2),
            "hardware": hardware(device),
        }

    def card_metrics(self, loaded: Any, config: Any = None, folder: Any = None) -> dict[str, Any]:
        """All that is measured of a trained model; of a vocabulary, up to its last word.

        What a recipe may be told beside the model, its config and a folder for texts, is not used.
        """
        found: dict[str, Any] = {}
        for name, evaluation in self.card_evaluations.items():
            if evaluation.points > max_points(loaded.config):
                continue
            numbers = self.evaluate(loaded, evaluation)
            for known in ("instances", "seed", "seconds", "hardware"):
                del numbers[known]
            found = found | {name: numbers} if found else numbers
        return found

    def predict(self, loaded: Any, input: str, *, prove: bool = False) -> Prediction:
        """What a model answers to points in a file, or typed."""
        points, answer = self._points_and_answer(loaded, input)
        text, details = self.describe_answer(points, answer, prove)
        return Prediction(text, details=details)

    def trace(
        self,
        loaded: Any,
        input: str | np.ndarray,
        *,
        prefix: str = "",
        on_progress: ProgressCallback | None = None,
    ) -> Trace:
        """How sure it was of each point that it pointed at.

        Args:
            input: points in a file, typed, or as `parse_input` gives them.
            prefix: the points that the answer has to begin with, as in `3 0`.
            on_progress: told of every step; what it raises ends the run at once.
        """
        task, how = self._task_of_model(loaded), self.predict_settings or self.evaluation_type()
        points = problems.parse_points(self.name, input, task.inputs)
        seen, led = (
            self.normalize_points(points),
            problems.parse_prefix(self.name, prefix, len(points)),
        )
        self._check_point_count(loaded, len(points))
        if not led:
            seen, led = self.trace_inputs(loaded.model, seen, task, how)
        first_given = self.answer_kind == "tour"
        found = traces.record_answer(
            loaded, seen, task.order, prefix=led, fixed_start=first_given, on_progress=on_progress
        )
        text, details = self.describe_answer(points, found.answer, False)
        shown = {"task": self.answer_kind, "text": text.splitlines()[0], **details}
        return traces.build_trace(loaded, points, found, {**shown, "indices": found.answer})

    def input_spec(self, card: Mapping[str, Any]) -> Input:
        """What a page may give to the model of a card."""
        inputs = synthetic.task_of_card(self, card).inputs
        example, form = (
            problems.example_points(inputs, self.page_example_points),
            {"least": 0, "most": 1},
        )
        prefix = Option("prefix", "points the answer begins with, as in 3 0", "text", "", most=1000)
        # corners of triangles have an order that nobody could guess
        options = () if self.pointing_rule == "triangles" else (prefix,)
        if inputs == 1:
            return Input("numbers", "numbers", example, self.max_page_points, form, options)
        form = {**form, "square": True}
        return Input("points", "points of the plane", example, self.max_page_points, form, options)

    def parse_input(self, card: Mapping[str, Any], text: str) -> np.ndarray:
        """The points of what was typed, which is never taken for a file."""
        inputs = synthetic.task_of_card(self, card).inputs
        points = point_input.parse_points(text, columns=inputs, where=self.name)
        if len(points) > self.max_page_points:
            raise ValueError(
                f"{self.name}: expected at most {self.max_page_points} points, got {len(points)}"
            )
        return problems.parse_points(self.name, points, inputs)

    def to_model_edits(
        self,
        card: Mapping[str, Any],
        input: str | np.ndarray,
        edits: Sequence[Mapping[str, Any]],
    ) -> list[dict[str, Any]]:
        """Edits in the numbers of a trace's maps, as edits in those of the model's attentions.

        A model reads points in an order of its own, and one that may end points at that first.
        """
        task = synthetic.task_of_card(self, card)
        points = problems.parse_points(self.name, input, task.inputs)
        _, (places,) = problems.collate_points([self.normalize_points(points)], task.order)
        tours = card.get("model") == "attention_pointer"
        return traces.to_model_edits(places, edits, first_key=0 if tours else 1)

    def _task_of_model(self, loaded: Any) -> Any:
        """The task of a model, which must read such points and may point as this recipe does."""
        task, config = synthetic.task_of_model(self, loaded), loaded.config
        if train.config_for_task(config, task, self.pointing_rule) != config:
            raise ValueError(
                f"{self.name}: expected a model of inputs={task.inputs} and "
                f"pointing_rule={self.pointing_rule}, got another; the recipe in its card.json may "
                "be wrong"
            )
        return task

    def _points_and_answer(self, loaded: Any, input: str) -> tuple[np.ndarray, list[int]]:
        """The points that were given, and at which of them a model points."""
        points = problems.parse_points(self.name, input, self._task_of_model(loaded).inputs)
        seen = self.normalize_points(points)
        return points, self._check_and_decode(
            loaded, [seen], self.predict_settings or self.evaluation_type()
        )[0]

    def _check_and_decode(
        self, loaded: Any, points: list[np.ndarray], settings: Any
    ) -> list[list[int]]:
        """What a model answers; more points than a vocabulary can say are refused."""
        self._check_point_count(loaded, max(map(len, points)))
        return self.decode_answers(loaded.model, points, self._task_of_model(loaded), settings)

    def _check_point_count(self, loaded: Any, points: int) -> None:
        words = max_points(loaded.config)
        if points > words:
            raise ValueError(
                f"{self.name}: a vocabulary of {words} places cannot say {points} points"
            )

    def _normalize_file_points(self, points: np.ndarray) -> np.ndarray:
        """Points of a file as a model reads them: those of the unit square as they are."""
        ready = self.normalize_points(points)
        return points if points.min() >= 0 and points.max() <= 1 else ready
