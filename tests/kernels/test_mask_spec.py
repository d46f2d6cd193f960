"""A rule as numbers: what they let through is what the rule lets through."""

import pytest
import torch
from hypothesis import given

from regard import rules
from regard.functional.call import map_tensors
from regard.functional.rules import bind, dense, index_grid
from regard.kernels import mask_spec
from regard.kernels.mask_spec import UNLIMITED_REACH, MaskSpec
from tests.mechanisms import RULES, Sizes, grown, lengths, sizes, trees

B, H, Q, K = 2, 3, 5, 7
SIZES = [Sizes(), Sizes(Q=7), Sizes(Q=11), Sizes(Q=1), Sizes(H=6, K=1)]
FITS = {f"Q={s.Q}, K={s.K}": s for s in SIZES}
# Rules that numbers say whole.
NUMBERS = [
    "causal",
    "window",
    "narrow window",
    "prefix",
    "padding",
    "padding on the left",
    "documents",
]


def of(rule, s, device="cpu"):
    """The rule as numbers, for a call of these sizes."""
    q = torch.empty(s.B, s.H, s.Q, s.D, device=device)
    k = torch.empty(s.B, s.G, s.K, s.D, device=device)
    return mask_spec.from_rule(None if rule is None else bind(rule, *s.full), q, k)


def dense_of(spec, B, H, Q, K):
    """What a kernel has to make of the numbers: a bool tensor (B, H, Q, K)."""
    b, _, p, j = index_grid(B, H, Q, K)
    out = (p - spec.back <= j) & (j <= p + spec.ahead)
    if spec.first is not None:
        out = out & (spec.first[b] <= j)
    if spec.last is not None:
        out = out & (j < spec.last[b])
    if spec.ids is not None:
        out = out & (p >= 0) & (spec.ids[b, p.clamp_min(0)] == spec.ids[b, j])
    if spec.mask is not None:
        out = out & spec.mask
    return out.expand(B, H, Q, K)


def assert_says(rule, s):
    assert torch.equal(dense_of(of(rule, s), *s.full), dense(rule, *s.full))


@pytest.mark.parametrize("s", FITS.values(), ids=FITS)
@pytest.mark.parametrize("name", RULES)
def test_the_numbers_say_what_the_rule_says(name, s):
    assert_says(RULES[name](s), s)


@pytest.mark.parametrize("two", RULES)
@pytest.mark.parametrize("one", RULES)
def test_the_numbers_of_two_rules_say_what_both_say(one, two):
    for s in SIZES:
        assert_says(rules.both(RULES[one](s), RULES[two](s)), s)


@given(sizes(), trees())
def test_the_numbers_of_a_tree_of_rules_say_what_the_tree_says(s, tree):
    assert_says(grown(tree, s), s)


@given(sizes(), trees(), trees())
def test_both_inside_both_inside_both_is_opened(s, one, two):
    inner = rules.both(rules.both(grown(one, s), rules.causal), grown(two, s))
    assert_says(rules.both(inner, rules.documents(torch.randint(0, 2, (s.B, s.K + 1)))), s)


def test_no_rule_limits_nothing():
    assert all(x is None or x == UNLIMITED_REACH for x in vars(of(None, Sizes())).values())
    assert dense_of(of(None, Sizes()), B, H, Q, K).all()


@pytest.mark.parametrize("name", RULES)
def test_every_rule_limits_something(name):
    found = vars(of(RULES[name](Sizes()), Sizes()))
    assert any(
        isinstance(x, torch.Tensor) or x not in (None, UNLIMITED_REACH) for x in found.values()
    )


def test_causal_and_window_by_hand():
    found = [of(rule, Sizes()) for rule in (rules.causal, rules.window(2))]
    assert [(x.back, x.ahead) for x in found] == [(UNLIMITED_REACH, 0), (2, 2)]


def test_of_two_limits_the_nearer_holds():
    near = of(rules.both(rules.window(4), rules.causal, rules.window(3)), Sizes())
    assert (near.back, near.ahead) == (3, 0)


def test_padding_and_prefix_by_hand():
    real = torch.tensor([3, 6])
    right = of(rules.both(rules.padding(real), rules.prefix(5)), Sizes())
    left = of(rules.padding(real, side="left"), Sizes())
    assert right.first is None and right.last.tolist() == [3, 5]
    assert left.first.tolist() == [4, 1] and left.last is None


def test_padding_on_both_sides_leaves_the_middle():
    one, two = torch.tensor([5, 2]), torch.tensor([4, 3])
    middle = of(rules.both(rules.padding(one), rules.padding(two, side="left")), Sizes())
    assert (middle.first.tolist(), middle.last.tolist()) == ([3, 4], [5, 2])
    assert dense_of(middle, B, H, Q, K).sum((2, 3))[:, 0].tolist() == [2 * Q, 0]


@pytest.mark.parametrize("two", NUMBERS)
@pytest.mark.parametrize("one", NUMBERS)
def test_what_numbers_can_say_needs_no_mask(one, two):
    s = Sizes()
    assert of(RULES[one](s), s).mask is None
    twice = one == two == "documents"
    assert (of(rules.both(RULES[one](s), RULES[two](s)), s).mask is None) != twice


@pytest.mark.parametrize("name", [name for name in RULES if name not in NUMBERS])
def test_what_no_number_says_is_a_mask_and_nothing_else(name):
    s = Sizes()
    rule = RULES[name](s)
    spelled = of(rule, s)
    assert torch.equal(spelled.mask.expand(s.full), dense(rule, *s.full))
    assert MaskSpec(mask=spelled.mask).__dict__ == spelled.__dict__


def test_either_is_spelled_out_whole_whatever_is_inside():
    s = Sizes()
    spelled = of(rules.either(rules.causal, rules.both(rules.window(1), rules.prefix(2))), s)
    assert spelled.mask.shape == (Q, K)
    assert MaskSpec(mask=spelled.mask).__dict__ == spelled.__dict__


def test_a_mask_is_no_larger_than_it_must_be():
    s = Sizes()
    keys, heads = torch.ones(B, 1, 1, K) > 0, torch.ones(H, 1, 1) > 0
    assert of(keys, s).mask is keys
    assert of(rules.both(keys, rules.causal, heads), s).mask.shape == (B, H, 1, K)


def test_a_second_document_is_spelled_out_beside_the_first():
    one, two = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 1, 1]])
    s = Sizes(B=1, Q=4, K=4)
    found = of(rules.both(rules.documents(one), rules.documents(two)), s)
    assert torch.equal(found.ids, one) and found.mask.shape == (1, 1, 4, 4)
    assert dense_of(found, *s.full)[0, 0].int().tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 1, 1],
    ]


def test_a_query_before_the_first_key_is_in_no_document():
    s = Sizes(B=1, H=1, Q=3, K=2)
    found = of(rules.documents(torch.tensor([[0, 0]])), s)
    assert dense_of(found, *s.full)[0, 0].int().tolist() == [[0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_lengths_of_any_integers_do(dtype, side):
    s = Sizes(K=300)  # more than a byte holds
    real = torch.tensor([127, 0], dtype=getattr(torch, dtype))
    found = of(rules.padding(real, side=side), s)
    limits = {"left": (found.first, [173, 300]), "right": (found.last, [127, 0])}
    assert limits[side][0].dtype == torch.int32 and limits[side][0].tolist() == limits[side][1]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_ids_keep_their_integers_and_lie_in_a_row(dtype):
    ids = torch.randint(0, 2, (K + 1, B), dtype=getattr(torch, dtype)).T
    found = of(rules.documents(ids), Sizes()).ids
    assert found.dtype == ids.dtype and found.is_contiguous() and torch.equal(found, ids)


@pytest.mark.parametrize("side", ["left", "right"])
def test_limits_lie_in_a_row_wherever_the_lengths_lay(side):
    for real in (torch.arange(2 * B, dtype=torch.int32)[::2], torch.tensor(3).int().expand(B)):
        found = of(rules.padding(real, side=side), Sizes())
        assert {"left": found.first, "right": found.last}[side].is_contiguous()
        assert_says(rules.padding(real, side=side), Sizes())


@pytest.mark.parametrize("n", [K, K + 1, UNLIMITED_REACH + 1, 1 << 40])
def test_a_prefix_or_a_window_may_be_longer_than_all_keys(n):
    for rule in (rules.prefix(n), rules.window(n)):
        found = of(rules.both(rule, rules.padding(lengths(Sizes()))), Sizes())
        assert found.last.dtype == torch.int32 and max(found.back, found.ahead) <= UNLIMITED_REACH
        assert_says(rule, Sizes())


@pytest.mark.parametrize("before", ["cpu", "meta"])
@pytest.mark.parametrize("name", [*NUMBERS, "mask (B, H, Q, K)", "one's own"])
def test_the_numbers_are_where_q_is_and_none_is_read(name, before):
    # what lies on meta has no values to read
    rule = map_tensors(rules.both(RULES[name](Sizes()), rules.causal), lambda x: x.to(before))
    found = vars(of(rule, Sizes(), device="meta")).values()
    assert {x.device.type for x in found if isinstance(x, torch.Tensor)} <= {"meta"}


@pytest.mark.compiled
def test_it_is_traced_without_a_break():
    def visible(real, ids):
        rule = rules.both(rules.causal, rules.padding(real), rules.documents(ids))
        return dense_of(of(rule, Sizes()), B, H, Q, K)

    tensors = lengths(Sizes()), torch.randint(0, 2, (B, K))
    compiled = torch.compile(visible, fullgraph=True, backend="eager")
    assert torch.equal(compiled(*tensors), visible(*tensors))
