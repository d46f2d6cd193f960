"""A recipe of a machine, once its task is known: it trains, measures, answers and shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.data.ntm.episodes import Episodes
from regard.models.ntm import NTMConfig
from regard.recipes import synthetic
from regard.recipes.ntm import metrics, traces, train
from regard.recipes.ntm.traces import Prediction
from regard.recipes.synthetic import Config
from regard.train.runs import Result
from regard.view.inputs import Input, ProgressCallback
from regard.view.traces.trace import Trace

# The most steps of what a page may ask, which take a second or two.
MAX_PAGE_STEPS = 1000


def training_task(task: Any, evaluation: Any) -> Any:
    """The task that was learned."""
    return task


def no_extra_metrics(task: Any, episodes: Episodes, scores: dict[str, Any]) -> dict[str, Any]:
    """No more than what is found."""
    return {}


def bits_input_form(
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
        task_type: the class of its task.
        card_evaluations: by name, the evaluations of a model that is trained; what the first one
            finds is what is known of it first.
        example: what one could type, for a task.
        input_form: how what one types is put together, for a task.
        max_page_vectors: vectors that a page may ask about.
        evaluation_task: the task that an evaluation is about, made of the one that was learned.
        extra_metrics: what else an evaluation says, given what it found in which episodes.
        harder_task: a task beyond the one that is learned, made of that one; weights may be chosen
            by how they do there, with training.monitor=further, or both. Nothing is learned from
            it.
    """

    name: str
    about: str
    task_type: type[Any]
    card_evaluations: dict[str, Any]
    example: Callable[[Any], str]
    input_form: Callable[[Any], dict[str, Any]]
    max_page_vectors: int
    evaluation_task: Callable[[Any, Any], Any] = training_task
    extra_metrics: Callable[[Any, Episodes, dict[str, Any]], dict[str, Any]] = no_extra_metrics
    harder_task: Callable[[Any], Any] | None = None

    def module_hooks(self) -> tuple[Callable[..., Any], ...]:
        """What its module has as run, evaluate, predict, trace, card_metrics and so on."""
        ways = (self.run, self.evaluate, self.predict, self.trace, self.card_metrics)
        return *ways, self.input_spec, self.parse_input, self.to_model_edits

    def run(self, config: Config, **run_options: Any) -> Result:
        """Train, and measure what came out; `run_options` go to `fit_in_run_folder`."""
        return train.train_recipe(self, config, **run_options)

    def build_validator(self, task: Any) -> Callable[[nn.Module], dict[str, float]]:
        """A function from a model to its numbers on held-out episodes, which choose weights."""
        return train.build_validator(task, self.harder_task)

    def evaluate(self, loaded: Any, evaluation: Any) -> dict[str, Any]:
        """Bits a sequence, and the share of sequences without one wrong bit."""
        task = self.evaluation_task(synthetic.task_of_model(self, loaded), evaluation)
        batch = metrics.held_out_episodes(task, evaluation.sequences, evaluation.seed)
        found = metrics.episode_metrics(self.name, loaded, batch, evaluation.slots)
        return {**found, "seed": evaluation.seed, **self.extra_metrics(task, batch, found)}

    def card_metrics(self, loaded: Any, config: Any = None, folder: Any = None) -> dict[str, Any]:
        """All that is measured of a trained model; a memory has as many slots as that takes.

        What a recipe may be told beside the model, its config and a folder for texts, is not used.
        """
        found: dict[str, Any] = {}
        for name, evaluation in self.card_evaluations.items():
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
        return traces.predict_episode(
            self.name, loaded, synthetic.task_of_model(self, loaded).parse_episode(input)
        )

    def trace(
        self, loaded: Any, input: str, *, on_progress: ProgressCallback | None = None
    ) -> Trace:
        """What a machine does with its memory meanwhile; `on_progress` is told of every step."""
        task = synthetic.task_of_model(self, loaded)
        episode, flags = task.parse_episode(input), task.flags
        return traces.trace_episode(
            self.name, loaded, episode, title=input, flags=flags, on_progress=on_progress
        )

    def input_spec(self, card: Mapping[str, Any]) -> Input:
        """What a page may give to the model of a card."""
        task = synthetic.task_of_card(self, card)
        form = self.input_form(task)
        about = f"vectors of {form['width']} bits" if form["width"] > 1 else "bits"
        return Input("bits", about, self.example(task), self.max_page_vectors, form)

    def parse_input(self, card: Mapping[str, Any], text: str) -> str:
        """What was typed, if a page may ask it."""
        episode = synthetic.task_of_card(self, card).parse_episode(text)
        if episode.slots > self.max_page_vectors:
            raise ValueError(
                f"{self.name}: expected at most {self.max_page_vectors} vectors, got "
                f"{episode.slots}"
            )
        if episode.inputs.shape[1] > MAX_PAGE_STEPS:
            raise ValueError(
                f"{self.name}: expected at most {MAX_PAGE_STEPS} steps, got "
                f"{episode.inputs.shape[1]}"
            )
        return text

    def to_model_edits(
        self, card: Mapping[str, Any], input: str, edits: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Edits in the numbers of a trace's maps; those of its attention are the same."""
        return [dict(edit) for edit in edits]
