"""The one door: who runs a call, what is refused, and what a compiler makes of it."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard import (
    attend,
    biases,
    edit,
    edits,
    log_probability,
    logits,
    rules,
    scores,
    selects,
    use_backend,
    weigh,
    why,
)
from tests.mechanisms import BACKENDS, Sizes, asked

B, H, Q, K, D, DV = 2, 3, 5, 7, 11, 13


def tensors():
    return torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, DV)


# Who runs a call.


def test_attend_is_pytorch_s_attention():
    q, k, v = tensors()
    assert torch.equal(attend(q, k, v), F.scaled_dot_product_attention(q, k, v))


def test_why_names_the_backend_and_what_stands_against_the_others():
    found = why(*tensors(), select=selects.hard)
    assert found.backend == "reference" and found.reasons["reference"] is None
    assert found.reasons["sdpa"] == "only the softmax is fused"
    assert set(found.reasons) >= {*BACKENDS, "triton"}
    assert str(found).startswith("reference runs this call\n")


def test_a_backend_asked_for_by_name_runs_or_is_an_error():
    with use_backend("sdpa"), pytest.raises(ValueError, match="backend 'sdpa' cannot run this: "):
        attend(*tensors(), select=selects.hard)
    with use_backend("triton"), pytest.raises(ValueError, match="backend 'triton' cannot run this"):
        attend(*tensors())


def test_a_backend_lasts_as_long_as_its_block_even_after_an_error():
    with pytest.raises(RuntimeError), use_backend("reference"):
        with use_backend("sdpa"):
            assert why(*tensors()).backend == "sdpa"
        assert why(*tensors()).backend == "reference"
        raise RuntimeError
    assert why(*tensors()).backend == "sdpa"


@pytest.mark.parametrize("run, words", [(weigh, "weigh"), (logits, "logits")])
def test_what_is_formed_whole_refuses_backends_that_never_do(run, words):
    q, k, _ = tensors()
    with use_backend("sdpa"), pytest.raises(ValueError, match=f"{words}: backend 'sdpa' cannot"):
        run(q, k)


def test_pointing_refuses_backends_that_only_read():
    q, k, _ = tensors()
    with use_backend("sdpa"), pytest.raises(ValueError, match="it only reads values"):
        log_probability(q, k, torch.zeros(B, H, Q).long())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("q, k", [(0, K), (Q, 0), (0, 0)])
def test_nothing_at_all_is_no_error_on_any_backend(backend, q, k):
    call = asked(Sizes(Q=q, K=k), rule="window")
    with use_backend(backend):
        out = attend(*call.qkv, **call.named)
    assert out.shape == (B, H, q, 13) and out.eq(0).all()


def test_no_keys_point_nowhere():
    q, k, _ = tensors()
    assert weigh(q, k[:, :, :0]).shape == logits(q, k[:, :, :0]).shape == (B, H, Q, 0)


def test_pointing_nowhere_has_no_say():
    q, k, _ = tensors()
    index = torch.full((B, H, Q), -1)
    assert log_probability(q.requires_grad_(), k, index).eq(0).all()


@pytest.mark.parametrize("double", ["q", "k", "v"])
def test_autocast_mixes_no_float64_and_says_so(double):
    named = dict(zip("qkv", tensors(), strict=True))
    named[double] = named[double].double()
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match="dtype of q"):
        attend(**named)


def test_autocast_runs_in_its_dtype_and_lets_dtypes_mix():
    q, k, v = tensors()
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(q, k.bfloat16(), v)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), attend(q, k, v), atol=0.05, rtol=0.05)


def test_meta_tensors_know_their_shape():
    q, k, v = (x.to("meta") for x in tensors())
    assert attend(q, k, v, rule=rules.causal).shape == (B, H, Q, DV)


# What is refused.

BAD = {
    "attend: expected q of shape (B, H, Q, D), got (2, 5, 11)": lambda q, k, v: (q[:, 0], k, v),
    "attend: expected k of shape (B=2, H=3, K, D=11), got (2, 7, 11)": (
        lambda q, k, v: (q, k[:, 0], v)
    ),
    "attend: expected k of shape (B=2, H=3, K, D=11), got (2, 3, 7, 4)": (
        lambda q, k, v: (q, k[..., :4], v)
    ),
    "attend: expected k of shape (B=2, H=3, K, D=11), got (1, 3, 7, 11)": (
        lambda q, k, v: (q, k[:1], v)
    ),
    "attend: expected k of shape (B=2, H=3, K, D=11), got (2, 2, 7, 11)": (
        lambda q, k, v: (q, k[:, :2], v[:, :2])
    ),
    "attend: expected v of shape (B=2, H=3, K=7, Dv), got (2, 3, 5, 13)": (
        lambda q, k, v: (q, k, v[:, :, :5])
    ),
    "attend: expected v of shape (B=2, H=3, K=7, Dv), got (2, 1, 7, 13)": (
        lambda q, k, v: (q, k, v[:, :1])
    ),
    "attend: expected k of the dtype of q, float32, got float16": (
        lambda q, k, v: (q, k.half(), v.half())
    ),
    "attend: expected v of the dtype of q, float32, got float64": (
        lambda q, k, v: (q, k, v.double())
    ),
    "attend: expected q as a float tensor, got a tensor of int64": (
        lambda q, k, v: (q.long(), k.long(), v.long())
    ),
    "attend: expected k on cpu like q, got meta": lambda q, k, v: (q, k.to("meta"), v.to("meta")),
}


@pytest.mark.parametrize("message", BAD)
@pytest.mark.parametrize("score", [scores.scaled_dot, scores.Additive(torch.ones(H, D))])
def test_tensors_that_do_not_go_together_are_refused_in_words(message, score):
    with pytest.raises(ValueError) as refused:
        attend(*BAD[message](*tensors()), score=score)
    assert str(refused.value) == message


POINTED = {
    "log_probability: expected index as a tensor of integers, got a tensor of float32": (
        torch.zeros(B, H, Q)
    ),
    "log_probability: expected index of shape (B=2, H=3, Q=5), got (2, 3, 7)": (
        torch.zeros(B, H, K).long()
    ),
    "log_probability: expected index from -1 to K - 1 = 6": torch.full((B, H, Q), K),
}


@pytest.mark.parametrize("message", POINTED)
def test_an_index_that_points_nowhere_is_refused_in_words(message):
    q, k, _ = tensors()
    with pytest.raises(ValueError) as refused:
        log_probability(q, k, POINTED[message])
    assert str(refused.value) == message


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_dropout_is_a_share(share):
    with pytest.raises(ValueError, match="attend: expected dropout from 0 up to but not 1, got"):
        attend(*tensors(), dropout=share)


MISTYPED = {
    "attend([1.0], q, q)": "attend: expected q as a float tensor, got [1.0] of type list",
    "attend(q, q, q, score='dot')": (
        "attend: expected score as a callable (q, k), got 'dot' of type str"
    ),
    "attend(q, q, q, score=scores.Additive)": (
        "attend: expected score as a value, got the class Additive itself; "
        "call it with its arguments first"
    ),
    "attend(q, q, q, select=3)": (
        "attend: expected select as a callable on scores, got 3 of type int"
    ),
    "attend(q, q, q, rule='x')": (
        "attend: expected rule as a callable (b, h, q, k) or a bool tensor, got 'x' of type str"
    ),
    "attend(q, q, q, bias=2.0)": (
        "attend: expected bias as a callable (b, h, q, k) or a float tensor, got 2.0 of type float"
    ),
    "use_backend('x').__enter__()": (
        "use_backend: expected one of auto, reference, sdpa, flex, triton, chunked, got 'x'"
    ),
    "rules.window(2.5)": "window: expected a whole reach >= 0, got 2.5",
    "rules.padding([1, 2])": (
        "padding: expected lengths as a tensor of integers, got [1, 2] of type list"
    ),
    "rules.padding(torch.tensor([1]), side='up')": (
        "padding: expected side 'left' or 'right', got 'up'"
    ),
    "rules.around(2.0, 1)": "around: expected centre as a tensor, got 2.0 of type float",
    "rules.both(None, rules.causal)": (
        "both: expected rule as a callable or a bool tensor, got None of type NoneType"
    ),
    "rules.at('x', torch.arange(5))": (
        "at: expected rule as a callable or a bool tensor, got 'x' of type str"
    ),
    "attend(q, q, q, score=lambda q, k: None)": (
        "attend: expected what score returns as a float tensor, got None of type NoneType"
    ),
    "attend(q, q, q, select=lambda s: s > 0)": (
        "attend: expected what select returns as a float tensor, got a tensor of bool"
    ),
    "scores.Additive(2.0)": "Additive: expected vector as a tensor, got 2.0 of type float",
    "selects.top_k(1.5)": "top_k: expected a whole n >= 1, got 1.5",
    "selects.gaussian(1.0, 2.0)": "gaussian: expected centre as a tensor, got 1.0 of type float",
}


def test_what_is_of_the_wrong_type_is_refused_in_words():
    # in a fresh interpreter: the type checks of these tests would come first
    code = ["import torch", "from regard import *", "q = torch.ones(2, 3, 5, 11)"]
    for call in MISTYPED:
        code += ["try:", f"    {call}", "except ValueError as error:", "    print(error)"]
    command = [sys.executable, "-c", "\n".join(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == list(MISTYPED.values()), done.stderr


# What a compiler makes of it.


@pytest.fixture
def fresh():
    """Forgets what was compiled: PyTorch compiles one function only so often."""
    torch.compiler.reset()


COMPILED = {
    "bare": {},
    "causal": {"rule": rules.causal},
    "window and alibi": {
        "rule": rules.both(rules.causal, rules.window(2)),
        "bias": biases.alibi(H),
    },
    "padding": {"rule": rules.padding(torch.tensor([3, 7]))},
    "mask and bias": {"rule": torch.ones(Q, K).bool().tril(2), "bias": torch.zeros(H, 1, K)},
    "additive": {"score": scores.Additive(torch.ones(H, D)), "rule": rules.causal},
    "cosine": {"score": scores.Cosine(torch.ones(B, H, Q))},
    "relative": {"score": scores.Relative(torch.ones(H, 3, D)), "bias": torch.zeros(K)},
    "sparsemax": {"select": selects.sparsemax, "rule": rules.prefix(3)},
    "straight through": {"select": selects.straight_through},
    "local-p": {
        "rule": rules.around(torch.ones(B, H, Q), 2),
        "select": selects.gaussian(torch.ones(B, H, Q), 1.0),
    },
}


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", COMPILED)
def test_attend_compiles_as_one_graph(name):
    named, qkv = COMPILED[name], tensors()
    compiled = torch.compile(lambda *x: attend(*x, **named), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*qkv), attend(*qkv, **named), atol=1e-5, rtol=1e-4)


def check_gradients_compile(qkv, **named):
    """Assert that a compiled call has the gradients of the eager one, from one graph."""

    def run(*x):
        return attend(*x, **named)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    grads = [torch.autograd.grad(f(*qkv).square().sum(), qkv) for f in (compiled, run)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    "name", ["causal", "window and alibi", "additive", "straight through", "local-p"]
)
def test_gradients_compile_as_one_graph(name):
    named, qkv = COMPILED[name], [x.requires_grad_() for x in tensors()]
    check_gradients_compile(qkv, **named)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("run", [weigh, logits])
def test_weigh_and_logits_compile_as_one_graph(run):
    q, k, _ = tensors()
    named = {"rule": rules.both(rules.causal, rules.window(2)), "bias": biases.alibi(H)}
    compiled = torch.compile(lambda *x: run(*x, **named), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k), run(q, k, **named), atol=1e-5, rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("score", [scores.scaled_dot, scores.Additive(torch.ones(H, D))])
def test_log_probability_compiles_as_one_graph(score):
    (q, k, _), index = tensors(), torch.randint(0, K, (B, H, Q))

    def run(q, k, index):
        return log_probability(q, k, index, score=score, rule=rules.causal)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, index), run(q, k, index), atol=1e-5, rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
def test_the_default_compiler_agrees():
    q, k, v = tensors()
    rule = rules.both(rules.causal, rules.padding(torch.tensor([3, 7])))
    compiled = torch.compile(lambda *x: attend(*x, rule=rule), fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), attend(q, k, v, rule=rule), atol=1e-5, rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
def test_another_backend_is_followed_after_compiling():
    compiled = torch.compile(lambda *x: attend(*x), fullgraph=True, backend="aot_eager")
    qkv = tensors()
    out = compiled(*qkv)
    with use_backend("reference"):
        torch.testing.assert_close(compiled(*qkv), out, atol=1e-5, rtol=1e-4)
    with use_backend("triton"), pytest.raises(Exception, match="cannot run this"):
        compiled(*qkv)


def long(batch, length):
    """q, k and v as long as a window is cut into blocks, with two query heads for each of keys."""
    return [torch.randn(batch, heads, length, D) for heads in (2 * H, H, H)]


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
def test_gradients_of_blocks_compile_as_one_graph():
    qkv, rule = [x.requires_grad_() for x in long(1, 130)], rules.window(2)
    assert why(*qkv, rule=rule).backend == "chunked"
    check_gradients_compile(qkv, rule=rule)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
def test_a_graph_of_any_number_takes_a_reach_of_any():
    run = lambda q, k, v, rule: attend(q, k, v, rule=rule)  # noqa: E731
    compiled = torch.compile(run, dynamic=True, fullgraph=True, backend="aot_eager")
    for reach in (1.5, 2.5):
        given = (*tensors(), rules.around(K * torch.rand(B, H, Q), reach))
        torch.testing.assert_close(compiled(*given), run(*given), atol=1e-5, rtol=1e-4)


DYNAMIC = {
    "bare": {},
    "causal": {"rule": rules.causal},
    "window": {"rule": rules.both(rules.causal, rules.window(3))},
    "cosine": {"score": scores.Cosine(2.0), "rule": rules.causal},
    "turned round": {"score": scores.Dot(-1.0), "rule": rules.causal},
    "additive window": {"score": scores.Additive(torch.ones(2 * H, D)), "rule": rules.window(3)},
    "hard window": {"select": selects.hard, "rule": rules.window(3)},
}


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", [name for name in DYNAMIC if name != "hard window"])
def test_a_graph_of_any_length_is_right_at_another(name):
    named = DYNAMIC[name]
    run = lambda *x: attend(*x, **named)  # noqa: E731
    compiled = torch.compile(run, dynamic=True, fullgraph=True, backend="aot_eager")
    for batch, length in [(2, 70), (3, 90)]:
        qkv = long(batch, length)
        torch.testing.assert_close(compiled(*qkv), run(*qkv), atol=1e-5, rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
def test_a_graph_of_any_length_takes_a_mask_of_any():
    run = lambda q, k, v, mask: attend(q, k, v, rule=mask)  # noqa: E731
    compiled = torch.compile(run, dynamic=True, fullgraph=True, backend="aot_eager")
    for length in (70, 90):
        given = (*long(2, length), torch.rand(length, length) < 0.7)
        torch.testing.assert_close(compiled(*given), run(*given), atol=1e-5, rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
def test_a_graph_of_any_length_has_blocks_of_a_known_size():
    sizes = []

    def shapes(graph, _):
        for node in graph.graph.nodes:
            if "scaled_dot_product" in str(node.target):
                sizes.extend(x.meta["example_value"].shape[2] for x in node.args[:3])
        return graph

    run = lambda *x: attend(*x, rule=rules.window(3))  # noqa: E731
    torch.compile(run, dynamic=True, fullgraph=True, backend=shapes)(*long(2, 130))
    # formulas in them take a compiler several times as long
    assert [size if type(size) is int else str(size) for size in sizes] == [32, 96, 96]


class Exported(nn.Module):
    def __init__(self, named):
        super().__init__()
        self.named = named

    def forward(self, q, k, v):
        return attend(q, k, v, **self.named)


@pytest.mark.compiled
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", ["causal", "window", "additive window", "hard window"])
def test_an_exported_program_takes_any_length(name):
    sizes = {0: torch.export.Dim("b", min=1, max=64), 2: torch.export.Dim("t", min=2, max=4096)}
    model = Exported(DYNAMIC[name])
    program = torch.export.export(model, tuple(long(2, 100)), dynamic_shapes=(sizes,) * 3).module()
    for length in (100, 230, 7):
        qkv = long(3, length)
        torch.testing.assert_close(program(*qkv), model(*qkv), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("ask", ["attend", "log_probability"])
def test_a_small_additive_call_is_differentiated_as_often_as_one_likes(ask):
    q, k, v = (x.double() for x in tensors())
    score, index = scores.Additive(torch.randn(H, D).double()), torch.zeros(B, H, Q).long()

    def asked(q):
        if ask == "attend":
            return attend(q, k, v, score=score)
        return log_probability(q, k, index, score=score)

    torch.autograd.gradgradcheck(asked, q.requires_grad_())
    gradient = torch.func.grad(lambda q: asked(q).square().sum())
    expected = torch.autograd.grad(asked(q).square().sum(), q)[0]
    torch.testing.assert_close(gradient(q.detach()), expected)


def test_the_package_offers_what_the_contract_names():
    named = "attend weigh logits log_probability why use_backend look scores rules biases selects"
    assert set(f"{named} edit edits".split()) <= set(regard.__all__)


# What an edit leaves of a call, whoever asks.


class Asking(nn.Module):
    """Asks the door whatever it is given to ask."""

    def forward(self, ask, *given, **named):
        return ask(*given, **named)


def edited(change, ask, *given, **named):
    with edit(model := Asking(), {"Asking": change}):
        return model(ask, *given, **named)


@pytest.mark.parametrize("backend", ["reference", "sdpa", "chunked"])
def test_a_head_that_is_not_heard_reads_zeros_on_every_backend(backend):
    q, k, v = tensors()
    named = {"rule": rules.window(2)} if backend == "chunked" else {}
    with use_backend(backend):
        found, before = edited(edits.ablate(1), attend, q, k, v, **named), attend(q, k, v, **named)
    assert not found[:, 1].any() and torch.equal(found[:, [0, 2]], before[:, [0, 2]])


def test_a_head_that_is_not_heard_weighs_nothing_and_says_nothing():
    q, k, _ = tensors()
    rule, index = rules.causal, torch.zeros(B, H, Q).long()
    seen = rules.dense(rule, B, H, Q, K)
    change = edits.ablate(1)
    assert not edited(change, weigh, q, k, rule=rule)[:, 1].any()
    said = edited(change, logits, q, k, rule=rule)
    assert torch.equal(said[:, 1] == 0, seen[:, 1]) and (said[:, 1] == 0).logical_not().any()
    likely = edited(change, log_probability, q, k, index, rule=rule)
    assert_close(likely[:, 1], -seen[:, 1].sum(-1).log())
    assert_close(likely[:, 0], log_probability(q, k, index, rule=rule)[:, 0])


SELECTED = [
    edits.heat(0.5),
    edits.force(2, 0, 0.7),
    edits.select(selects.sparsemax),
    edits.chain(edits.hide([(1, 0)]), edits.score(scores.dot), edits.heat(3.0)),
]


@pytest.mark.parametrize("change", SELECTED, ids=["heat", "force", "select", "chain"])
def test_what_points_points_by_the_edited_weights(change):
    q, k, _ = tensors()
    index = torch.zeros(B, H, Q).long()
    weights = edited(change, weigh, q, k)
    assert_close(edited(change, logits, q, k).softmax(-1), weights)
    assert_close(edited(change, log_probability, q, k, index), weights[..., 0].log())


def test_pointing_that_is_edited_runs_on_the_reference_alone():
    q, k, _ = tensors()
    with use_backend("chunked"), pytest.raises(ValueError, match="an edit made it other than a"):
        edited(edits.heat(2.0), log_probability, q, k, torch.zeros(B, H, Q).long())


@pytest.mark.parametrize("ask", [attend, weigh, logits])
def test_an_edit_is_nothing_to_an_empty_call(ask):
    q, k, v = torch.randn(B, H, 0, D), torch.randn(B, H, K, D), torch.randn(B, H, K, DV)
    given = (q, k, v) if ask is attend else (q, k)
    change = edits.chain(edits.heat(2.0), edits.ablate(0), edits.force(None, 1, 0.5))
    assert edited(change, ask, *given).shape == ask(*given).shape


@pytest.mark.parametrize("score", [scores.Dot(-1.0), scores.Dot(0.0), scores.Cosine(-3.0)], ids=str)
def test_an_edit_may_turn_a_causal_score_round(score):
    q, _, v = torch.randn(3, B, H, Q, D)
    found = edited(edits.score(score), attend, q, q, v, rule=rules.causal)
    with use_backend("reference"):
        assert_close(found, attend(q, q, v, score=score, rule=rules.causal))
