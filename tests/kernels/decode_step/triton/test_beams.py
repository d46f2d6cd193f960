"""One launch does with the candidates of a step what beam search does with them in many."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.decode import beam_search, top_tokens
from regard.kernels.decode_step import api as decode_step
from regard.kernels.decode_step.triton import beams as kernels
from regard.kernels.decode_step.triton import top_k
from tests.kernels.calls import INTERPRETED, QUIET

pytestmark = [INTERPRETED, QUIET]

END = 3


class Fed(NamedTuple):
    """What each beam was fed, as one number (B · W,)."""

    told: Tensor


class Drawn:
    """Says the same, whatever it is fed."""

    def __init__(self, logits):
        self.logits = logits

    def start(self, source):
        return Fed(source)

    def step(self, tokens, state):
        return self.logits, Fed((31 * state.told + tokens + 1) % 10007)


def begun(B, W, *, best=1, limits=4, alpha=0.0, size=4):
    penalties = ((5 + torch.arange(1, size + 1)) / 6) ** alpha
    tokens, state = torch.full((B, W), 1), Fed(torch.arange(B))
    return beam_search._init_beams(state, tokens, best, END, size, limits, penalties)


def top(logits, n):
    """What the launch before this one finds; an interpreter takes long for it."""
    best, tokens = top_tokens.topk(logits, n)
    gains = top_tokens.top_log_probabilities(best, logits, tokens)
    return gains.masked_fill(best.isneginf(), -torch.inf), tokens


def advanced(search, fresh, logits, way, monkeypatch):
    devices = ("cuda", "cpu") if way == "few" else ("cuda",)
    monkeypatch.setattr(decode_step, "DEVICES", devices)
    monkeypatch.setattr(top_k, "top_k_log_probs", top)
    return beam_search._advance_beams(Drawn(logits), END, fresh, search)


def assert_same(found, expected):
    """The same but for the rows of no beam, which may be anyone's."""
    at, no_beam = int(expected.step) - 1, expected.log_probabilities.isneginf()
    assert_close(found.log_probabilities, expected.log_probabilities)
    for name in ("is_done", "step_counts", "invalid_steps", "step"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    for mine, theirs in zip(found.pool, expected.pool, strict=True):
        assert_close(mine, theirs)
    pairs = [(found.tokens, expected.tokens), (found.history[0, at], expected.history[0, at])]
    pairs += [(found.history[1, at], expected.history[1, at])]
    pairs += [(x.state.told.view_as(no_beam) for x in (found, expected))]
    for mine, theirs in pairs:
        assert torch.equal(mine.masked_fill(no_beam, 0), theirs.masked_fill(no_beam, 0))


def assert_searched(monkeypatch, B, W, V, *, forbidden=0.0, **given):
    """A search with the kernels is a search without them, at each step."""
    ways = {way: begun(B, W, **given) for way in ("few", "plain")}
    for t in range(given.get("size", 4)):
        logits = 2 * torch.randn(B * W, V)
        logits[:, END] += t - 1
        logits[:, 0] += 1  # so that a beam is left
        logits[:, 1:] = logits[:, 1:].masked_fill(torch.rand(B * W, V - 1) < forbidden, -torch.inf)
        for way, (search, fresh) in ways.items():
            after = advanced(search, fresh, logits, way, monkeypatch)
            ways[way] = after, fresh
        assert_same(ways["few"][0], ways["plain"][0])
    return ways["few"][0]


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.7])
@pytest.mark.parametrize("W, best", [(1, 1), (2, 1), (2, 2), (5, 1), (5, 3), (5, 5), (8, 7)])
def test_a_search_is_that_of_many_launches_at_each_step(W, best, alpha, monkeypatch):
    limits = torch.tensor([6, 1, 2, 4, 3])
    given = {"best": best, "alpha": alpha, "limits": limits, "size": 6}
    search = assert_searched(monkeypatch, 5, W, 29, **given)
    # some were done long before others
    assert search.is_done.all() and search.step_counts.unique().numel() > 2


@pytest.mark.parametrize("seed", range(6))
def test_searches_of_all_seeds_are_those_of_many_launches(seed, monkeypatch):
    torch.manual_seed(seed)
    given = {"best": 2, "alpha": 0.6, "limits": torch.randint(1, 7, (4,)), "size": 6}
    assert_searched(monkeypatch, 4, 3, 400, **given)


@pytest.mark.parametrize("W, V", [(1, 4), (3, 4), (5, 5), (8, 11), (16, 7)])
def test_a_vocabulary_may_be_small(W, V, monkeypatch):
    assert_searched(monkeypatch, 3, W, V, best=W, limits=5, size=5)


@pytest.mark.parametrize("W, best", [(2, 1), (5, 5)])
def test_what_is_forbidden_is_no_beam(W, best, monkeypatch):
    given = {"best": best, "limits": torch.tensor([5, 2, 3, 4]), "size": 5}
    search = assert_searched(monkeypatch, 4, W, 9, forbidden=0.7, **given)
    assert not search.invalid_steps.any()


def test_the_widest_beams_are_taken(monkeypatch):
    W = beam_search.FUSED_MAX_BEAM_WIDTH
    assert_searched(monkeypatch, 2, W, 40, best=W, alpha=0.3, limits=3, size=3)


def grown(search, gains, found):
    """The beams one token later, by hand."""
    changed = {
        "running": search.log_probabilities,
        "done": search.is_done,
        "failed_steps": search.invalid_steps,
    }
    same = ("tokens", "pool", "step_counts", "step", "history", "limits", "penalties")
    changed |= {name: getattr(search, name) for name in same}
    parents = kernels.advance_beams(torch.tensor(gains), torch.tensor(found), **changed, end=END)
    search.step.add_(1)
    return parents


def test_of_equals_the_first_found_stays():
    search, _ = begun(1, 2, best=2)
    search.log_probabilities.zero_()
    parents = grown(search, [[-1.0, -1.0], [-1.0, -1.0]], [[4, END], [END, 5]])
    assert parents.tolist() == [[0, 1]] and search.tokens.tolist() == [[4, 5]]
    assert search.pool.parents.tolist() == [[0, 0]] and search.pool.lengths.tolist() == [[1, 0]]
    search.log_probabilities.zero_()
    grown(search, [[-1.0, -1.0], [-1.0, -1.0]], [[END, 4], [END, 5]])
    # the one that was there stands before those that come
    assert search.pool.scores.tolist() == [[-1.0, -1.0]]
    assert search.pool.lengths.tolist() == [[1, 2]] and search.pool.parents.tolist() == [[0, 0]]


def test_the_ended_stand_before_those_that_are_cut():
    search, _ = begun(1, 1, limits=1)
    grown(search, [[-1.0, -1.0]], [[4, END]])
    # the end is not among the first W candidates, so it does not count
    assert search.pool.tokens.tolist() == [[4]] and search.pool.scores.tolist() == [[-1.0]]
    search, _ = begun(1, 2, limits=1, best=2)
    grown(search, [[-1.0, -1.0, -2.0, -3.0]] * 2, [[4, END, 5, 6]] * 2)
    assert search.pool.tokens.tolist() == [[END, 4]] and search.is_done.tolist() == [True]


def test_what_is_settled_keeps_its_pool_and_counts_no_step():
    search, _ = begun(2, 1)
    search.is_done[0] = True
    search.pool.scores[0] = -7.0
    grown(search, [[-1.0, -2.0]] * 2, [[END, 4]] * 2)
    assert search.pool.scores.tolist() == [[-7.0], [-1.0]]
    assert search.pool.lengths.tolist() == [[0], [1]]
    assert search.step_counts.tolist() == [0, 1] and search.is_done.tolist() == [True, True]


@pytest.mark.parametrize("settled", [False, True])
def test_a_source_without_a_token_to_take_is_lost_unless_it_is_settled(settled):
    for value in (torch.nan, -torch.inf):
        search, _ = begun(3, 2)
        search.is_done[1] = settled
        gains = [[-1.0] * 4] * 2 + [[value] * 4] * 2 + [[-1.0] * 4] * 2
        grown(search, gains, [[0, 1, 2, 4]] * 6)
        assert search.invalid_steps.tolist() == [not settled, False, False, False]
        assert search.is_done.tolist() == [False, True, False]


def test_the_row_of_no_beam_has_no_say():
    search, _ = begun(1, 2)
    grown(search, [[-1.0, -2.0, -torch.inf, -torch.inf], [torch.nan] * 4], [[0, 1, 2, 4]] * 2)
    assert search.log_probabilities.tolist() == [[-1.0, -2.0]] and not search.invalid_steps.any()


def test_a_history_that_is_full_stays_as_it_is():
    search, _ = begun(2, 2, size=1, limits=1)
    for token in (4, 5):
        grown(search, [[-1.0, -2.0, -3.0, -4.0]] * 4, [[token, 0, 1, 2]] * 4)
    assert search.history.tolist() == [[[[0, 0]] * 2], [[[4, 0]] * 2]]
    assert search.tokens.tolist() == [[5, 0]] * 2
    assert search.step_counts.tolist() == [1, 1] and search.pool.lengths.eq(1).all()
