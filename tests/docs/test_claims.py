"""The page of claims: whatever it names is there, and its numbers are those of the code."""

import ast
import json
import math
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import torch
import typer
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard import attend, layers, load, logits, look, scores, selects, use_backend, weigh, zoo
from regard.cli import resolve
from regard.cli.main import app
from regard.config import override
from regard.decode import beam
from regard.functional import memory, positions
from regard.functional.attention import self_attention
from regard.recipes import sort, translate
from regard.view.lessons import LESSONS
from tests.decode.tables import BEGIN, END, Trigrams, bigrams
from tests.test_claims_shown import ORDER, layers_to_reach

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "claims.md"
TEXT = PAGE.read_text()
CLAIMS, ERRORS = TEXT.split("## Where such texts commonly err")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]*)(?:#([^)]+))?\)")
NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
NAMES = sorted(set(CODE.findall(TEXT)))


def rows(text, header):
    """The rows of all tables under this header, as cells."""
    found, inside = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith(f"| {header} |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found.append(cells)
    return found


CLAIM_ROWS, ERROR_ROWS = rows(CLAIMS, "claim"), rows(ERRORS, "name")


def commands():
    """What stands behind `regard …`, once each."""
    return [name.removeprefix("regard ") for name in NAMES if name.startswith("regard ")]


@cache
def functions(path):
    """The names of a test file's functions."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


# --- what the page names is there ---------------------------------------------------------------


def test_every_claim_has_its_text_and_what_shows_it_or_what_is_missing():
    for claim, texts, shown in CLAIM_ROWS:
        assert re.fullmatch(r"00[0-4]( 00[0-4])*", texts), claim
        missing = shown.startswith("not yet: ")
        assert missing or (CODE.search(shown) or LINK.search(shown)), claim
        assert missing or "not yet" not in shown, claim


def test_no_claim_stands_twice():
    claims = [claim for claim, *_ in CLAIM_ROWS]
    assert len(set(claims)) == len(claims)


def test_the_claims_are_counted():
    missing = sum(shown.startswith("not yet") for *_, shown in CLAIM_ROWS)
    counted = f"{len(CLAIM_ROWS)} claims: {len(CLAIM_ROWS) - missing} shown, {missing} not yet."
    assert f"**{counted}**" in TEXT


def test_every_text_is_among_those_that_the_page_names():
    assert set(re.findall(r"\b00\d\b", TEXT)) == {"000", "001", "002", "003", "004"}


@pytest.mark.parametrize("name", [name for name in NAMES if "::" in name and "…" not in name])
def test_every_test_that_is_named_is_there(name):
    path, function = name.split("::")
    assert (ROOT / path).is_file()
    assert function in functions(path)


@pytest.mark.parametrize("name", [name for name in NAMES if re.fullmatch(r"regard(\.\w+)+", name)])
def test_every_dotted_name_imports(name):
    module, rest = "regard", name.split(".")[1:]
    found = import_module(module)
    for part in rest:
        module = f"{module}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(module)


def test_every_lesson_that_is_named_is_there():
    of_models = (ROOT / "page/src/playground/lessons/index.ts").read_text()
    known = set(LESSONS) | set(re.findall(r'^    name: "(\w+)"', of_models, re.MULTILINE))
    assert set(re.findall(r"lesson `(\w+)`", TEXT)) <= known


@pytest.mark.parametrize("grid", sorted(set(re.findall(r"[Gg]rid \[`([^`]+)`\]", TEXT))))
def test_every_grid_that_is_named_is_there_with_its_results(grid):
    recipe, name = grid.split(": ")
    assert name in resolve.recipe_module(recipe).GRIDS
    assert (ROOT / "docs" / "results" / f"{recipe}-{name}.json").is_file()
    assert f"\n## {grid}\n" in (ROOT / "docs/results.md").read_text()


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_up_to_its_names(command):
    words = [word for word in shlex.split(command) if word != "…"]
    if not words:
        return
    known = typer.main.get_command(app).commands
    given = known[words[0]].make_context(words[0], words[1:]).params
    settings = given.get("settings") or []
    if words[0] == "train":
        grid, settings = resolve.split_setting("grid", settings)
        assert grid is None
        resolve.recipe_and_config(given["recipe"], None, settings)
    elif "model" in given:
        assert given["model"] in zoo.names()
        module = resolve.recipe_module(zoo.card(given["model"])["recipe"])
        override(module.Evaluation(), settings)


@pytest.mark.parametrize("words, path, anchor", sorted(set(LINK.findall(TEXT))))
def test_every_link_leads_to_a_place_that_holds_its_numbers(words, path, anchor):
    text = (PAGE.parent / path).read_text()
    if anchor:
        parts = re.split(r"^## ", text, flags=re.MULTILINE)
        named = {re.sub(r"[^\w -]", "", p.splitlines()[0]).replace(" ", "-"): p for p in parts if p}
        text = named[anchor]
    for number in NUMBER.findall("" if words.startswith("`") else words):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", text), number


@pytest.mark.parametrize("name", [name for name in NAMES if re.fullmatch(r"[\w/]+\.py", name)])
def test_every_file_that_is_named_is_there(name):
    assert (ROOT / name).is_file()


# --- the numbers of the errors ------------------------------------------------------------------
# A function a line of the table, by its name: all numbers of its last column, in their order.


def wave(*shape):
    """Numbers between −1 and 1 without a pattern, the same on every machine."""
    return (3 * torch.arange(math.prod(shape), dtype=torch.float64) ** 1.5).sin().view(shape)


def multi_head(heads, *, bias=True):
    """A layer of width 8 whose parameters are all `wave`."""
    layer = layers.MultiHead(8, heads, bias=bias).double().requires_grad_(False)
    for parameter in layer.parameters():
        parameter.copy_(wave(*parameter.shape))
    return layer


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def operations(run):
    """Multiplications and additions of matrix products and convolutions, on the reference."""
    with use_backend("reference"), FlopCounterMode(display=False) as counted:
        run()
    return counted.get_total_flops()


def distance(a, b):
    return (a - b).abs().max().item()


def gate():
    slots, closed = torch.eye(5)[None], torch.zeros(1, 1)
    by_one = torch.tensor([[[0.0, 0.0, 1.0]]])

    def slot_after(shifts, *, final):
        before = slots[:, :1]
        for _ in range(shifts):
            content = memory.content_weights(slots[:, :1], slots, torch.full((1, 1), 100.0))
            now = memory.shift(memory.interpolate(content, before, closed), by_one)
            before = now if final else content
        return now.argmax().item()

    return 3, 1, slot_after(3, final=True), slot_after(3, final=False)


def diagonal():
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    return (*x.flatten(), *(x @ x.mT).softmax(-1)[0])


def queries():
    x = torch.zeros(1, 5, 16)
    outputs = {layers.MultiHead(E, 2)(x[..., :E]).shape[1] for E in (4, 8, 16)}
    return 5, *outputs, 4, 8, 16, 3, layers.LearnedQueries(3, 16)(x).shape[1]


def cross():
    block, x, source = layers.DecoderBlock(8, 2, 8), torch.randn(1, 2, 8), torch.randn(1, 3, 8)
    with look(block) as seen:
        out = block(x, source)
    weights = next(seen[name].weights() for name in seen.names() if name.endswith("cross"))
    q = k = source[:, None]
    v = x[:, None]
    with pytest.raises(ValueError, match="attend: expected v"):
        attend(q, k, v)
    return 2, 3, *weights.shape[2:], out.shape[1], k.shape[2], v.shape[2]


def giver():
    x = 2 * wave(1, 5, 8)  # mary gave roses to susan; ORDER exchanges the first and the last
    places = positions.sinusoidal(5, 8).double()

    def moved(heads, places):
        layer = multi_head(heads)
        return layer(x[:, ORDER] + places) - layer(x + places)[:, ORDER]

    gave = [[moved(h, p)[:, 1].abs().max() for h in (1, 2, 4, 8)] for p in (0, places)]
    assert max(gave[0]) < 1e-12
    whole = [moved(4, p).abs().max() for p in (0, places)]
    return gave[0][0], 1, 2, 4, 8, *gave[1], 4, *whole


def hard():
    q, k = torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 4096, 64)
    soft, one_hot = (
        operations(lambda select=select: attend(q, k, k, select=select))
        for select in (selects.softmax, selects.hard)
    )
    return 4096, 64, soft, one_hot, operations(lambda: logits(q, k))


def forgetting():
    table = json.loads((ROOT / "docs/results/translate-long.json").read_text())
    numbers = {tuple(row["settings"]): row["numbers"][0] for row in table["rows"]}

    def bleu(*settings):
        return [numbers[settings][f"{words}.bleu_lc_tok"] for words in ("11-20", "61-70")]

    (short, long), without = bleu(), bleu("model.attention=none")
    most_words = translate.GRIDS["long"].base.data.max_joined_words
    return most_words, short, 11, 20, long, 61, 70, *without


def ratio():
    given = torch.tensor([2.0, -1.0])
    return (*given, *(given / given.sum()), *given.softmax(0))


def scale():
    width, keys = 64, 16
    plain, scaled = LESSONS["scaling"].answer({"width": width})["variance"]
    return width, keys, plain, width, plain / width**2, keys, plain / keys, width, scaled


def axis():
    q, k = (
        torch.tensor([[2.0, 0.0], [0.0, 1.0]]),
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    )
    right = weigh(q[None, None], k[None, None], score=scores.dot)[0, 0].sum(-1)
    turned, batched = (k @ q.mT).softmax(-1).sum(0), (q @ k.mT)[None].softmax(1)[0].sum(-1)
    torch.testing.assert_close(turned, batched)
    torch.testing.assert_close(right, torch.ones(2))
    return 2, 3, right[0], *turned


def transposes():
    x = wave(3, 2)
    weights = (x @ x.mT).softmax(-1)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        weights @ x.mT
    torch.testing.assert_close(weights @ x, self_attention(x[None].float())[0].double())
    return 3, 2, *weights.shape, *x.mT.shape


def correlation():
    x, y = torch.tensor([[1.0, 2.0, 3.0], [2.0, 3.0, 5.0]])
    both = torch.stack([x, y])
    centred = F.cosine_similarity(x - x.mean(), y - y.mean(), dim=0)
    cosine, right = F.cosine_similarity(x, y, dim=0), torch.corrcoef(both)[0, 1]
    return *x, *y, cosine, right, x @ y, torch.cov(both, correction=0)[0, 1], centred


def importance():
    found = LESSONS["causes"].answer({})
    moves = sorted(zip(found["weights"], found["changes"], strict=True))
    return *moves[-1], *moves[0]


def context():
    def weight(lead, keys):
        led = torch.zeros(1, 1, keys, 1)
        led[:, :, 0] = lead
        return weigh(torch.ones(1, 1, 1, 1), led, score=scores.dot)[0, 0, 0, 0]

    return 5, *(number for n in (10, 1000, 1_000_000) for number in (weight(5, n), n))


def location():
    states = torch.tensor([[[[2.0, 0.0]]], [[[0.0, 2.0]]]])  # one step of two sentences
    return weigh(
        states, torch.zeros(2, 1, 2, 2), score=scores.Location(torch.eye(2)[None])
    ).flatten()


def local():
    score, near = parameters(layers.General(8, 8)), layers.LocalM(8, 8, reach=2)
    predicting = layers.LocalP(8, 8, reach=2)
    centres = near.centre(torch.randn(1, 3, 8))[0]
    return parameters(predicting) - score, 8, parameters(near) - score, *centres


def pointing():
    sorter, numbers = load("sort"), ["0.3", "-4", "0.1", "9"]
    one, other = (
        list(map(int, sort.predict(sorter, " ".join(given)).text.splitlines()[0].split()))
        for given in (numbers, numbers[::-1])
    )
    return *one, *map(float, numbers), *other


def state():
    cell = nn.LSTMCell(1, 1).requires_grad_(False)
    for weight in cell.parameters():
        weight.zero_()
    output_gate = torch.sigmoid(cell.bias_hh[-1])
    return -1, output_gate, cell(torch.zeros(1, 1), (torch.zeros(1, 1), -torch.ones(1, 1)))[0]


def linear():
    layer, x = multi_head(2, bias=False), wave(1, 5, 8)
    twice = 2 * layer(x)
    return (100 * (layer(2 * x) - twice).norm() / twice.norm(),)


def parameters_of_heads():
    x = wave(1, 3, 8).float()
    torch.testing.assert_close(self_attention(x), (x @ x.mT).softmax(-1) @ x)
    one, eight = (parameters(layers.MultiHead(8, heads)) for heads in (1, 8))
    return 8, one, 1, eight, 8, 0


def colours():
    x, bgr = torch.tensor([[[3.0, 1.0, 0.0], [0.0, 2.0, 1.0]]]), [2, 1, 0]
    one, other = self_attention(x), self_attention(x[..., bgr])
    layer, y, turned = multi_head(2), wave(1, 5, 8), list(range(8))[::-1]
    projected = distance(layer(y[..., turned]), layer(y)[..., turned])
    return distance(other, one), distance(other, one[..., bgr]), projected


def convolution():
    x, kernel = wave(1, 7, 4), wave(3, 4, 4)  # kernel: (places, in, out)
    convolved = F.conv1d(x.mT, kernel.permute(2, 1, 0), padding=1).mT
    heads = x[:, None].expand(-1, 3, -1, -1)
    return [
        distance(
            attend(heads, heads, heads, rule=rule).transpose(1, 2).flatten(2)
            @ kernel.flatten(0, 1),
            convolved,
        )
        for rule in (lambda b, h, q, k: k == q + h - 1, None)
    ]


def separable():
    n = 512
    x, mix = torch.zeros(1, 1, n, n), torch.zeros(n, n)
    attention = operations(lambda: attend(x, x, x) @ mix)

    def times(kernel):
        depthwise = torch.zeros(n, 1, kernel)
        cost = operations(
            lambda: F.conv1d(F.pad(x[0].mT, (kernel - 1, 0)), depthwise, groups=n).mT @ mix
        )
        return attention / cost

    return n, n, times(3), 3, times(n), n


def depth():
    n = 64
    return (
        *(n, 2, layers_to_reach(n, 2), n // 2),
        *(3, layers_to_reach(n, 3), -(-n // 3)),
        *(2, layers_to_reach(n, 2, dilated=True)),
    )


def ensemble():
    one, two = (LESSONS["heads"].answer({"heads": n})["error"] for n in ("1", "2"))
    return one, 1, 4, two, 2, 2


def captions():
    words, image = torch.zeros(1, 1, 7, 8), torch.zeros(1, 1, 14 * 14, 8)
    between, within = weigh(words, image).shape[2:], weigh(image, image).shape[2:]
    return 7, 14, 14, *between, *within


def lengths():
    source = "I'm not hungry."
    target = translate.predict(load("translate-en-fr-small"), source).text
    return len(target.split()), len(source.split())


def beams():
    # tokens: the end, the beginning, a, b, what goes on from a, from b, and any other
    table = bigrams(
        [1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0.6, 0.4, 0, 0, 0],
        [0, 0, 0, 0, 0.6, 0, 0.4],
        [0, 0, 0, 0, 0, 0.85, 0.15],
        [0.5, 0, 0, 0, 0, 0, 0.5],
        [0.9, 0, 0, 0, 0, 0, 0.1],
        [0.5, 0, 0, 0, 0, 0, 0.5],
    )
    found = beam(Trigrams(), table, begin=BEGIN, end=END, longest=6, width=2)
    follow, now, probability = table[0, 0, 0].exp(), BEGIN, 1.0
    while now != END:
        step, words = follow[now].topk(2)
        ahead = step * follow[words].amax(-1)
        probability *= step[ahead.argmax()].item()
        now = words[ahead.argmax()].item()
    return 2, found.log_probabilities[0, 0].exp(), probability


NUMBERS = {
    **{
        made.__name__: made
        for made in (
            *(gate, diagonal, queries, cross, giver, hard, forgetting, ratio, scale, axis),
            *(transposes, correlation, importance, context, location, local, pointing, state),
            *(linear, colours, convolution, separable, depth, ensemble, captions, lengths),
        )
    },
    "parameters": parameters_of_heads,
    "beam": beams,
}


def test_every_error_has_its_numbers_and_none_is_left_over():
    assert [name for name, *_ in ERROR_ROWS] == list(dict.fromkeys(n for n, *_ in ERROR_ROWS))
    assert {name for name, *_ in ERROR_ROWS} == set(NUMBERS)


@pytest.mark.parametrize("name, said, holds, numbers", ERROR_ROWS, ids=[r[0] for r in ERROR_ROWS])
def test_the_numbers_of_an_error_are_those_of_the_code(name, said, holds, numbers):
    assert re.search(r"\b00[0-4]\b", said)
    assert not NUMBER.search(CODE.sub("", LINK.sub("", holds))), "numbers stand in the last column"
    printed = NUMBER.findall(CODE.sub("", numbers))
    computed = [float(number) for number in NUMBERS[name]()]
    # the digits that the page prints, and no minus before a zero
    digits = [len(number.partition(".")[2]) for number in printed]
    rounded = [round(x, d) + 0.0 for x, d in zip(computed, digits, strict=True)]
    assert [f"{x:,.{d}f}" for x, d in zip(rounded, digits, strict=True)] == printed
