"""The laws on a card: run with `pytest -o addopts= tests/test_gpu.py` on a machine that has one."""

import pytest
import torch
from torch.nn import functional as F

import regard
from regard import biases, edits, rules, scores, selects
from regard.layers import MultiHead
from tests.oracle import assert_as_good_as

pytestmark = pytest.mark.gpu

B, H, Q, K, D = 2, 4, 130, 190, 64
BACKENDS = ["reference", "sdpa", "flex", "chunked"]
RULES = {
    "causal": lambda: rules.causal,
    "window": lambda: rules.window(17),
    "causal window": lambda: rules.both(rules.causal, rules.window(17)),
    "padding": lambda: rules.padding(torch.tensor([K - 50, 3], device="cuda")),
    "left padding": lambda: rules.padding(torch.tensor([K - 50, 3], device="cuda"), side="left"),
    "padded window": lambda: rules.both(
        rules.window(9), rules.padding(torch.tensor([K - 50, 60], device="cuda"))
    ),
    "documents": lambda: rules.documents(torch.arange(K, device="cuda").expand(B, K) // 37),
    "mask": lambda: torch.rand(B, 1, Q, K, device="cuda") < 0.1,
    "blind": lambda: torch.arange(Q, device="cuda")[:, None].expand(Q, K) > 5,
    "around": lambda: rules.around(torch.rand(B, H, Q, device="cuda") * K, 6),
}


def tensors(dtype=torch.float32, kv_heads=H, grad=True):
    shapes = (B, H, Q, D), (B, kv_heads, K, D), (B, kv_heads, K, D)
    return [torch.randn(s, device="cuda", dtype=dtype, requires_grad=grad) for s in shapes]


def able(backend, q, k, v, **asked):
    reason = regard.why(q, k, v, **asked).reasons[backend]
    if reason is not None:
        pytest.skip(f"{backend}: {reason}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_errs_no_more_than_plain_pytorch(backend, name, dtype):
    q, k, v = tensors(dtype, grad=False)
    rule = RULES[name]()
    able(backend, q, k, v, rule=rule)
    seen = rules.dense(rule, B, H, Q, K, device=q.device)
    open_rows = seen.any(-1, keepdim=True)

    def ours(q, k, v):
        with regard.use_backend(backend):
            return regard.attend(q, k, v, rule=rule)

    def plain(q, k, v):
        s = (q * D**-0.5) @ k.mT
        s = s.masked_fill(~seen, float("-inf")).masked_fill(~open_rows, 0)
        return s.softmax(-1).masked_fill(~open_rows, 0) @ v

    # in float32 PyTorch's fused kernels err up to five times what plain operations err on an H200,
    # a few 1e-6 in all; why was not looked into
    fused = dtype == torch.float32 and backend != "reference"
    assert_as_good_as(ours, plain, q, k, v, slack=6.0 if fused else 2.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_in_padding_reaches_neither_output_nor_gradient(backend):
    q, k, v = tensors(torch.bfloat16)
    lengths = torch.tensor([K - 50, 100], device="cuda")
    rule = rules.both(rules.window(30), rules.padding(lengths))
    with torch.no_grad():
        for x in (k, v):
            x[1, :, 100:] = float("nan")
    with regard.use_backend(backend):
        out = regard.attend(q, k, v, rule=rule)
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(x.isfinite().all() for x in (out, *grads))


@pytest.mark.parametrize("backend", ["reference", "sdpa", "flex"])
def test_grouped_heads_biases_and_scores_agree_with_the_reference(backend):
    q, k, v = tensors(kv_heads=2)
    weight = torch.randn(H, D, D, device="cuda") / D
    for score in (scores.dot, scores.Cosine(7.0), scores.General(weight)):
        asked = {"score": score, "rule": rules.causal, "bias": biases.alibi(H)}
        with regard.use_backend("reference"):
            expected = regard.attend(q, k, v, **asked)
        with regard.use_backend(backend):
            torch.testing.assert_close(
                regard.attend(q, k, v, **asked), expected, atol=5e-3, rtol=5e-3
            )


def test_additive_scores_agree_with_the_reference():
    q, k, v = tensors(grad=True)
    asked = {"score": scores.Additive(torch.randn(H, D, device="cuda")), "rule": rules.causal}
    outs = []
    for backend in ("reference", "chunked"):
        with regard.use_backend(backend):
            out = regard.attend(q, k, v, **asked)
        outs.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for mine, theirs in zip(*outs, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 2])
def test_the_stretches_of_a_window_overlap_without_harm(rows, dtype):
    q, k, v = (torch.randn(rows, H, 300, D, device="cuda", dtype=dtype) for _ in range(3))
    found = []
    for backend in ("chunked", "reference"):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        with regard.use_backend(backend):
            out = regard.attend(*leaves, rule=rules.window(40))
        found.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-2, rtol=2e-2)


def test_zero_keys_read_zeros():
    q, _, _ = tensors(grad=False)
    nothing = q.new_zeros(B, H, 0, D)
    for backend in BACKENDS[:3]:
        with regard.use_backend(backend):
            assert (regard.attend(q, nothing, nothing) == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_look_leaves_every_bit_alone(backend):
    q, k, v = tensors(torch.bfloat16, grad=False)
    rule = rules.window(17)
    with regard.use_backend(backend):
        alone = regard.attend(q, k, v, rule=rule)
        with regard.look() as seen:
            looked = regard.attend(q, k, v, rule=rule)
    assert torch.equal(alone, looked)
    torch.testing.assert_close(
        seen["attend.0"].weights(), regard.weigh(q, k, rule=rule), atol=1e-2, rtol=1e-2
    )


def test_local_p_agrees_with_the_reference():
    q, k, v = tensors()
    centre = torch.rand(B, H, Q, device="cuda") * K
    asked = {"rule": rules.around(centre, 8), "select": selects.gaussian(centre, 4.0)}
    assert regard.why(q, k, v, **asked).backend == "chunked"
    with regard.use_backend("reference"):
        expected = regard.attend(q, k, v, **asked)
    torch.testing.assert_close(regard.attend(q, k, v, **asked), expected, atol=1e-3, rtol=1e-3)


def test_attention_compiles_whole():
    q, k, v = tensors(torch.bfloat16, grad=False)
    for rule in (None, rules.causal, rules.window(17)):
        run = torch.compile(lambda q, k, v: regard.attend(q, k, v, rule=rule), fullgraph=True)  # noqa: B023
        torch.testing.assert_close(
            run(q, k, v), regard.attend(q, k, v, rule=rule), atol=2e-2, rtol=2e-2
        )


def test_multi_head_trains_under_autocast():
    layer = MultiHead(64, 4).cuda()
    x = torch.randn(2, 33, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = layer(x, rule=rules.causal)
    out.float().sum().backward()
    assert out.dtype == torch.bfloat16 and layer.query.weight.grad.isfinite().all()


def test_the_fused_kernel_runs_when_nobody_spells_out_a_mask():
    q, k, v = tensors(torch.bfloat16, grad=False)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        out = regard.attend(q, k, v, rule=rules.causal)
    mask = rules.dense(rules.causal, 1, 1, Q, K, device=q.device)
    torch.testing.assert_close(
        out, F.scaled_dot_product_attention(q, k, v, mask), atol=2e-2, rtol=2e-2
    )


EDITED = {
    "translate-en-de": {
        "encoder.blocks.1.self_attention": edits.ablate(0),
        "decoder.blocks.0.self_attention": edits.hide([(3, 1), (None, 0)], heads=[1, 2]),
        "decoder.blocks.2.cross": edits.chain(edits.force(2, 1, 0.9), edits.heat(2.0)),
    },
    "translate-en-de-rnn": {
        "decoder.attention": edits.chain(edits.ablate(), edits.hide([(2, 1), (None, 3)]))
    },
}


@pytest.mark.parametrize("name", EDITED)
@torch.no_grad()
def test_a_translator_is_edited_on_a_card_as_on_a_processor(name):
    model, source = regard.load(name).model, (torch.randint(9, 99, (2, 6)), torch.tensor([6, 4]))
    target, found = torch.randint(9, 99, (2, 6)), []
    for device in ("cpu", "cuda"):
        tokens, lengths = (x.to(device) for x in source)
        with regard.edit(model.to(device), EDITED[name]):
            whole = model((tokens, lengths), target.to(device))
            state = model.start((tokens, lengths))
            for word in target.to(device).unbind(1):
                logits, state = model.step(word, state)
        torch.testing.assert_close(logits, whole[:, -1], atol=1e-2, rtol=1e-3)
        found.append(whole.cpu())
    torch.testing.assert_close(*found, atol=1e-2, rtol=1e-3)


@torch.no_grad()
def test_a_tour_and_a_machine_are_edited_on_a_card_as_on_a_processor():
    tours, machine = regard.load("tsp").model, regard.load("copy").model
    points, x, found = torch.rand(2, 6, 2), torch.rand(2, 7, 10).round(), []
    change = edits.chain(edits.hide([(1, 2), (2, 3)]), edits.force(3, 5, 0.9))
    for device in ("cpu", "cuda"):
        starts, full = torch.tensor([[0, 3], [4, 1]]).to(device), torch.tensor([6, 6]).to(device)
        with regard.edit(tours.to(device), {"decoder": change}):
            decoded = tours.decode_tours(tours.encode(points.to(device), full), starts=starts)
        with regard.edit(machine.to(device), {"heads": edits.chain(change, edits.ablate(1))}):
            said = machine(x.to(device))[0]
        found.append((decoded.cpu(), said.cpu()))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1], atol=1e-2, rtol=1e-3)
