"""A beam wide enough finds the best there is, and never stops before it has it."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard import look
from regard.decode import beam, beam_search, greedy
from regard.kernels.decode_step import api as decode_step
from tests.decode.tables import (
    BEGIN,
    END,
    Trigrams,
    bigrams,
    exhaustive,
    log_probability,
    plain_beam,
    tables,
)

MARKS = {"begin": BEGIN, "end": END}
ALPHAS = [-1.0, 0.0, 0.6, 1.0, 3.0]


def said(found, b: int) -> list[tuple[float, tuple[int, ...]]]:
    """The hypotheses of one source with their scores, as the searches by hand give them."""
    rows = zip(found.scores[b], found.tokens[b], found.lengths[b], strict=True)
    return [(float(s), tuple(x[:n].tolist())) for s, x, n in rows]


def assert_same(found: list, expected: list):
    assert [x for _, x in found] == [x for _, x in expected]
    assert [s for s, _ in found] == pytest.approx([s for s, _ in expected], abs=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("size, longest", [(2, 7), (3, 4), (4, 3)])
def test_a_beam_wide_enough_is_exhaustive_search(size, longest, alpha):
    source = tables(2, size)
    options = {"width": size**longest, "length_penalty": alpha, "best": 7}
    found = beam(Trigrams(), source, **MARKS, longest=longest, **options)
    for b in range(2):
        assert_same(said(found, b), exhaustive(source[b], longest, alpha)[:7])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_narrow_beam_is_the_search_written_down_with_lists(width, alpha):
    source = tables(20, 4, seed=width)
    options = {"width": width, "length_penalty": alpha, "best": min(2, width)}
    found = beam(Trigrams(), source, **MARKS, longest=8, **options)
    for b in range(20):
        assert_same(said(found, b), plain_beam(source[b], 8, width, alpha)[: options["best"]])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_to_stop_early_changes_nothing(alpha, monkeypatch):
    source, options = tables(50, 5), {"width": 3, "best": 2, "length_penalty": alpha}
    early = beam(Trigrams(), source, **MARKS, longest=12, **options)
    monkeypatch.setattr(beam_search, "_can_enter_pool", lambda *_: torch.full((50,), True))
    late = beam(Trigrams(), source, **MARKS, longest=12, **options)
    assert late.tokens.shape[2] == 12
    assert early.sequences() == late.sequences()
    assert torch.equal(early.scores, late.scores)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_limit_for_each_source_is_that_source_alone_with_its_limit(alpha):
    source, options = tables(30, 5), {"width": 4, "best": 3, "length_penalty": alpha}
    limits = torch.randint(1, 11, (30,))
    together = beam(Trigrams(), source, **MARKS, longest=limits, **options)
    for b, limit in enumerate(limits.tolist()):
        alone = beam(Trigrams(), source[b : b + 1], **MARKS, longest=limit, **options)
        assert_same(said(together, b), said(alone, 0))
        assert torch.equal(together.finished[b], alone.finished[0])


def test_a_search_that_is_sure_stops():
    source = bigrams([0.98, 0.01, 0.01], [0.01, 0.01, 0.98], [0.98, 0.01, 0.01])
    found = beam(Trigrams(), source, **MARKS, longest=12, width=2)
    assert found.sequences() == [[[2]]]
    assert found.tokens.shape == (1, 1, 2)


def test_a_longer_hypothesis_may_overtake_one_that_is_finished():
    # The end with 0.55 comes first; a token with 0.45 goes on for sure. With α = 1 the first has
    # log 0.55 = -0.60, and the second at length 5 has log 0.45 / (10 / 6) = -0.48.
    source = bigrams([1.0, 0.0, 0.0], [0.55, 0.0, 0.45], [0.0, 0.0, 1.0])
    alone = beam(Trigrams(), source, **MARKS, longest=5, width=2)
    longer = beam(Trigrams(), source, **MARKS, longest=5, width=2, length_penalty=1.0)
    assert alone.sequences() == [[[]]] and longer.sequences() == [[[2] * 5]]
    assert_close(longer.scores.item(), math.log(0.45) / (10 / 6))
    assert not longer.finished


def test_a_beam_by_hand_finds_what_greedy_misses():
    # a with 0.6 and then nothing better than 0.4; b with 0.4 and then the end with 0.9
    source = bigrams([1, 0, 0, 0], [0, 0, 0.6, 0.4], [0.3, 0, 0.4, 0.3], [0.9, 0, 0.05, 0.05])
    found = beam(Trigrams(), source, **MARKS, longest=6, width=2)
    assert found.sequences() == [[[3]]]
    assert_close(found.log_probabilities.exp().item(), 0.36)
    assert greedy(Trigrams(), source, **MARKS, longest=6).sequences()[0][0][0] == 2


def test_a_beam_of_one_is_greedy():
    source = tables(200, 5)
    one = beam(Trigrams(), source, **MARKS, longest=7, width=1)
    best = greedy(Trigrams(), source, **MARKS, longest=7)
    assert one.sequences() == best.sequences()
    assert_close(one.log_probabilities, best.log_probabilities)
    assert torch.equal(one.lengths, best.lengths) and torch.equal(one.finished, best.finished)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_batch_of_many_is_many_batches_of_one(alpha):
    source, options = tables(9, 5), {"width": 4, "best": 3, "length_penalty": alpha}
    together = beam(Trigrams(), source, **MARKS, longest=9, **options)
    for b in range(9):
        alone = beam(Trigrams(), source[b : b + 1], **MARKS, longest=9, **options)
        assert_same(said(together, b), said(alone, 0))


def test_scores_are_those_of_the_tokens():
    source = tables(5, 6)
    found = beam(Trigrams(), source, **MARKS, longest=6, width=4, length_penalty=0.7, best=4)
    for b in range(5):
        for score, tokens in said(found, b):
            penalty = ((5 + len(tokens)) / 6) ** 0.7
            assert score == pytest.approx(log_probability(source[b], tokens) / penalty)
    assert_close(found.scores * ((5 + found.lengths) / 6) ** 0.7, found.log_probabilities)


def test_hypotheses_are_distinct_and_best_first():
    found = beam(Trigrams(), tables(20, 3), **MARKS, longest=6, width=6, best=6)
    for b in range(20):
        assert len({tokens for _, tokens in said(found, b)}) == 6
    assert torch.equal(found.scores, found.scores.sort(descending=True).values)


def test_after_the_end_all_tokens_are_the_end():
    found = beam(Trigrams(), tables(20, 3), **MARKS, longest=6, width=3, best=3)
    behind = torch.arange(found.tokens.shape[2]) >= found.lengths[..., None]
    assert found.tokens[behind].eq(END).all() and behind.any()
    last = found.tokens.gather(2, found.lengths[..., None] - 1)[..., 0]
    assert torch.equal(last == END, found.finished)


def test_a_forbidden_token_is_never_said():
    source = tables(5, 4)
    source[..., 2] = -torch.inf
    source[..., END] = -torch.inf
    found = beam(Trigrams(), source, **MARKS, longest=4, width=3, best=3)
    assert set(found.tokens.unique().tolist()) == {1, 3}
    assert found.lengths.eq(4).all() and not found.finished.any()
    assert all(len(tokens) == 4 for row in found.sequences() for tokens in row)


def test_fewer_hypotheses_than_asked_for_leave_the_last_places_empty():
    source = bigrams([1.0, 0.0], [0.5, 0.5])
    found = beam(Trigrams(), source, **MARKS, longest=2, width=5, best=5)
    assert found.lengths.tolist() == [[1, 2, 2, 0, 0]]
    assert_close(found.scores.exp(), torch.tensor([[0.5, 0.25, 0.25, 0, 0]]).double())
    assert found.sequences()[0][3:] == [[], []] and not found.finished[0, 3:].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_log_probabilities_are_summed_in_float32(dtype):
    source = tables(3, 5).to(dtype)
    found = beam(Trigrams(), source, **MARKS, longest=6, width=3)
    assert found.scores.dtype == torch.float32
    for b in range(3):
        [(score, tokens)] = said(found, b)
        assert score == pytest.approx(log_probability(source[b].double(), tokens), abs=1e-5)


class Watched(Trigrams):
    """Keeps what it was fed."""

    def __init__(self):
        self.fed = []

    def step(self, tokens: Tensor, state):
        self.fed.append((tokens, state.table))
        return super().step(tokens, state)


def test_a_model_sees_the_same_batch_at_every_step():
    model = Watched()
    beam(model, tables(2, 5), **MARKS, longest=4, width=3)
    assert {(x.shape, x.dtype) for x, _ in model.fed} == {((6,), torch.int64)}
    assert model.fed[0][0].eq(BEGIN).all()


def test_what_never_changes_is_spread_once_and_never_moved():
    model, source = Watched(), tables(2, 5)
    beam(model, source, **MARKS, longest=4, width=3)
    first = model.fed[0][1]
    assert torch.equal(first, source.repeat_interleave(3, 0))
    assert all(table is first for _, table in model.fed)


class Written(Trigrams):
    """Writes what came before into its state, in place, and hands on the same tensor."""

    def step(self, tokens: Tensor, state):
        logits, _ = super().step(tokens, state)
        state.before.copy_(tokens)
        return logits, state._replace(at=state.at + 1)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("model", [Trigrams, Written])
def test_a_state_written_in_place_is_moved_all_the_same(model, mode):
    source = tables(20, 4)
    with mode():
        found = beam(model(), source, **MARKS, longest=8, width=3, best=2)
    for b in range(20):
        assert_same(said(found, b), plain_beam(source[b], 8, 3, 0.0)[:2])


class Padded:
    """Says the tokens of a padded source (B, S) in turn, and as many as `lengths` (B,) counts."""

    def start(self, source):
        tokens, lengths = source
        return {"tokens": tokens, "lengths": lengths, "at": torch.zeros_like(lengths)}

    def step(self, tokens: Tensor, state):
        at = state["at"].clamp(max=state["tokens"].shape[1] - 1)
        said = state["tokens"].gather(1, at[:, None])[:, 0]
        said = torch.where(state["at"] < state["lengths"], said, END)
        return 9 * torch.nn.functional.one_hot(said, 7).float(), {**state, "at": state["at"] + 1}


def test_sources_of_different_lengths_are_searched_side_by_side():
    source = torch.tensor([[3, 4, 5], [6, 9, 9], [2, 3, 9]]), torch.tensor([3, 1, 2])
    found = beam(Padded(), source, **MARKS, longest=9, width=2)
    assert found.sequences() == [[[3, 4, 5]], [[6]], [[2, 3]]]
    assert found.lengths.tolist() == [[4], [2], [3]]


REFUSED = {
    "beam: expected best from 1 to width = 5, got 6": {"best": 6},
    "beam: expected best from 1 to width = 0, got 1": {"width": 0},
    "beam: expected longest >= 1, got 0": {"longest": 0},
    "beam: expected length_penalty from -10 to 10, got inf": {"length_penalty": math.inf},
    "beam: expected length_penalty from -10 to 10, got 2000.0": {"length_penalty": 2000.0},
    "beam: expected end from 0 to V - 1 = 2, got 3": {"end": 3},
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_search_that_makes_no_sense_is_refused_in_words(words):
    with pytest.raises(ValueError) as refused:
        beam(Trigrams(), tables(1, 3), **{**MARKS, "longest": 3, **REFUSED[words]})
    assert str(refused.value) == words


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_logits_without_a_token_to_take_are_an_error(value):
    source = tables(2, 3)
    source[1, :, BEGIN, 2] = value  # after the first token 2
    source[1, :, BEGIN, BEGIN] = torch.tensor([-math.inf, -math.inf, 0.0])
    words = "beam: expected logits with a token to take, got NaN or only -inf at step 2"
    with pytest.raises(ValueError, match=words):
        beam(Trigrams(), source, **MARKS, longest=3, width=2)


def test_a_beam_that_comes_to_a_dead_end_leaves_the_others():
    source = bigrams([1, 0, 0, 0], [0, 0, 0.6, 0.4], [0, 0, 0, 0], [1, 0, 0, 0])
    found = beam(Trigrams(), source, **MARKS, longest=4, width=2, best=2)
    assert found.sequences() == [[[3], []]] and found.lengths.tolist() == [[2, 0]]


def test_a_row_of_no_beam_has_no_say():
    source = bigrams(*[[math.nan] * 4] * 4)
    source[0, :, BEGIN, BEGIN] = torch.tensor([0, 0, 0, 1.0]).log()  # 3 alone may come first
    source[0, :, BEGIN, 3] = torch.tensor([1.0, 0, 0, 0]).log()
    found = beam(Trigrams(), source, **MARKS, longest=4, width=3)
    assert found.sequences() == [[[3]]] and found.scores.tolist() == [[0.0]]


def test_a_source_that_is_done_does_not_mind_what_comes_after():
    source = bigrams([1, 0, 0], [0.9, 0, 0.1], [0, 0, 1]).repeat(2, 1, 1, 1, 1)
    source[0, :, :, 2] = math.nan
    source[1, :, :, BEGIN] = torch.tensor([0, 0, 1.0]).log()  # the second source goes on
    found = beam(Trigrams(), source, **MARKS, longest=4, width=2)
    assert found.sequences() == [[[]], [[2] * 4]]


interpreted = pytest.mark.skipif(
    torch.cuda.is_available() or not decode_step.has_triton(), reason="needs Triton's interpreter"
)


@pytest.fixture
def launched(monkeypatch):
    """How often a step was few launches, on a CPU that passes for a GPU once it is called."""
    found, chosen = [], beam_search._advance_beams_fused
    monkeypatch.setattr(
        beam_search, "_advance_beams_fused", lambda *given: found.append(1) or chosen(*given)
    )

    def begin():
        monkeypatch.setattr(decode_step, "DEVICES", ("cuda", "cpu"))
        return found

    return begin


@interpreted
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("model", [Trigrams, Written])
def test_a_search_of_few_launches_is_the_search_of_many(model, mode, launched):
    source, limits = tables(3, 4).float(), torch.tensor([5, 2, 3])
    options = {**MARKS, "longest": limits, "width": 3, "best": 2, "length_penalty": 0.6}
    expected = beam(model(), source, **options)
    steps = launched()
    with mode():
        found = beam(model(), source, **options)
    assert len(steps) == expected.tokens.shape[2] and found.sequences() == expected.sequences()
    for name in ("lengths", "finished", "scores", "log_probabilities", "parents", "rows"):
        assert_close(getattr(found, name), getattr(expected, name))


@interpreted
def test_what_the_launches_cannot_do_is_done_without_them(launched, monkeypatch):
    monkeypatch.setattr(beam_search, "FUSED_MAX_BEAM_WIDTH", 2)
    source, steps = tables(1, 3).float(), launched()
    beam(Trigrams(), source, **MARKS, longest=2, width=3)
    beam(Trigrams(), source.double(), **MARKS, longest=2, width=2)
    with look():
        beam(Trigrams(), source, **MARKS, longest=2, width=2)
    assert not steps


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")
def test_few_launches_find_logits_without_a_token_to_take(launched):
    source, steps = tables(2, 3).float(), launched()
    source[1, 1] = math.nan
    words = "beam: expected logits with a token to take, got NaN or only -inf at step 2"
    with pytest.raises(ValueError, match=words):
        beam(Trigrams(), source, **MARKS, longest=3, width=2)
    assert steps


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_search_on_a_gpu_is_the_search_on_a_cpu(dtype):
    options = {**MARKS, "longest": 9, "width": 4, "best": 3, "length_penalty": 0.6}
    source = tables(9, 5).to(dtype)
    ours = beam(Trigrams(), source.cuda(), **options)
    theirs = beam(Trigrams(), source, **options)
    assert ours.sequences() == theirs.sequences()
    assert_close(ours.scores.cpu(), theirs.scores)
