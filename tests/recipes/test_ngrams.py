"""N-grams: a model stands beside the best that anybody could do."""

from dataclasses import replace

import pytest
import torch

from regard.data.ntm.ngrams import NGrams
from regard.recipes import ngrams
from regard.recipes.ngrams import Config, Evaluation
from regard.recipes.ntm.config import Batches
from regard.recipes.ntm.metrics import held_out_episodes
from regard.view.traces.memory_trace import why_not
from tests.recipes.untrained import saying, untrained

TASK = NGrams(order=3, length=20)


@pytest.fixture
def loaded():
    return untrained(ngrams, order=3, length=20)


def test_the_best_estimator_is_nothing_above_itself(loaded):
    best = saying(loaded, lambda inputs: torch.logit(TASK.optimal_probabilities(inputs)).float())
    found = ngrams.evaluate(best, Evaluation(sequences=50))
    assert found["above"] == pytest.approx(0, abs=1e-4)
    assert found["optimum"] == pytest.approx(
        float(TASK.optimal_bits(held_out_episodes(TASK, 50, 0)).mean())
    )


def test_who_knows_nothing_costs_one_bit_a_bit(loaded):
    silent = saying(loaded, torch.zeros_like)
    found = ngrams.evaluate(silent, Evaluation(sequences=50))
    assert found["bits_per_sequence"] == pytest.approx(20)
    assert found["above"] == pytest.approx(20 - found["optimum"])


def test_an_answer_is_every_bit_that_was_typed(loaded):
    assert ngrams.predict(loaded, "0110").answer == "0 1 1 0"


def test_a_trace_is_one_of_a_machine_and_goes_one_step_on(loaded):
    trace = ngrams.trace(loaded, "0110")
    assert why_not(trace) is None
    assert trace.axis("steps").size == 5


def test_its_example_can_be_read():
    assert Config().data.parse_episode(ngrams.EXAMPLE).target_mask.sum() == len(ngrams.EXAMPLE)


@pytest.mark.parametrize("name", ["sequences", "slots"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"ngrams: expected {name} of at least 1, got 0"):
        Evaluation(**{name: 0})


def test_it_is_trained_by_one_command(toy, tmp_path):
    few = replace(toy.training, steps=1)
    config = Config("tiny", TASK, replace(toy.model, slots=8), few, Batches(2))
    result = ngrams.run(config, out=tmp_path)
    assert result.metrics["above"] > 0
    assert result.examples[0][2] == " ".join(ngrams.EXAMPLE)
