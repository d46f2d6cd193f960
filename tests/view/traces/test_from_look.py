"""Seeing: a trace of any look has the weights that were seen, and says whose they are."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard
from regard import attend, rules, view
from regard.layers import MultiHead
from regard.models.transformer import Transformer, TransformerConfig
from regard.recipes import copy, sort, translate
from regard.view import UnseenError

B, H, Q, K, D = 2, 3, 5, 7, 4


def bare(*sizes, rule=None):
    """What is seen of calls of no model, each of so many queries and keys."""
    torch.manual_seed(0)
    with regard.look() as seen:
        for queries, keys in sizes:
            k = torch.randn(B, H, keys, D)
            attend(torch.randn(B, H, queries, D), k, k, rule=rule)
    return seen


def hugging(kind, **sizes):
    """A tiny model of Hugging Face's that has learned nothing, and the same that tells weights."""
    transformers = pytest.importorskip("transformers")
    models = []
    for way in ("sdpa", "eager"):
        torch.manual_seed(0)
        # one of its own: a model writes into it how it attends
        config = getattr(transformers, f"{kind}Config")(**sizes)
        model = getattr(transformers, f"{kind}Model")._from_config(config, attn_implementation=way)
        models.append(model.eval())
    return models


GPT2 = {"n_layer": 12, "n_head": 2, "n_embd": 8, "vocab_size": 53, "n_positions": 17}
GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
BERT = {"num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 8}
BERT |= {"intermediate_size": 11, "vocab_size": 53, "max_position_embeddings": 17}


@pytest.mark.parametrize(
    ("kind", "sizes", "id", "names", "causal"),
    [
        ("GPT2", GPT2, "h.attn", "h.{}.attn", True),
        ("Bert", BERT, "encoder.layer.attention.self", "encoder.layer.{}.attention.self", False),
    ],
)
@torch.no_grad()
def test_the_weights_of_others_are_those_that_they_tell_themselves(kind, sizes, id, names, causal):
    model, telling = hugging(kind, **sizes)
    tokens = torch.randint(3, 53, (B, Q))
    with regard.look(model) as seen:
        model(tokens)
    map = view.trace(seen, tokens=list("abcde"), batch=1).map(id)
    told = telling(tokens, output_attentions=True).attentions
    assert (map.layers, map.heads, map.causal) == (len(told), 2, causal)
    assert list(map.names) == [names.format(i) for i in range(len(told))]
    assert_close(map.all_weights(), torch.stack(told)[:, 1], rtol=0, atol=1e-5)


@torch.no_grad()
def test_padding_of_others_is_not_seen():
    model, telling = hugging("Bert", **BERT)
    tokens, mask = torch.randint(3, 53, (B, Q)), torch.tensor([[1] * Q, [1, 1, 1, 0, 0]])
    with regard.look(model) as seen:
        model(tokens, attention_mask=mask)
    told = telling(tokens, attention_mask=mask, output_attentions=True).attentions
    weights = view.trace(seen, batch=1).map().all_weights()
    assert_close(weights, torch.stack(told)[:, 1], rtol=0, atol=1e-5)
    assert (weights[..., 3:] == 0).all()


@torch.no_grad()
def test_a_model_of_ours_shows_each_of_its_attentions():
    torch.manual_seed(0)
    config = TransformerConfig(vocabulary=11, width=12, heads=3, layers=2, feed_forward_width=13)
    model, source = Transformer(config).eval(), torch.randint(3, 11, (1, K))
    with regard.look(model) as seen:
        model((source, torch.tensor([K])), torch.randint(3, 11, (1, Q)))
    trace = view.trace(seen, tokens=list("abcde"), keys=list("ABCDEFG"), model="ours", title="a")
    own, cross = trace.map("decoder.blocks.self_attention"), trace.map("decoder.blocks.cross")
    labels = {axis.id: "".join(axis.labels) for axis in trace.axes}
    assert (labels[own.query], labels[own.key]) == ("abcde", "abcde")
    assert (labels[cross.query], labels[cross.key]) == ("abcde", "ABCDEFG")
    assert labels[trace.map("encoder.blocks.self_attention").query] == "ABCDEFG"
    assert [map.causal for map in trace.maps] == [False, True, False]
    assert cross.names == ("decoder.blocks.0.cross", "decoder.blocks.1.cross")
    for layer, name in enumerate(cross.names):
        assert_close(cross.all_weights()[layer], seen[name].weights()[0])


@pytest.mark.parametrize(
    ("recipe", "name", "text"),
    [
        (copy, "copy", "01101001"),
        (sort, "sort", "3 1 2"),
        (translate, "translate-en-fr-small", "I see."),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_a_model_of_the_zoo_looked_at_for_an_answer_can_be_traced(recipe, name, text):
    loaded = regard.load(name)
    with regard.look(loaded.model) as seen:
        recipe.predict(loaded, text)
    trace = view.trace(seen, model=name)
    assert sorted(each for map in trace.maps for each in map.names) == sorted(seen.names())
    assert all(map.weights().isfinite().all() for map in trace.maps)


def test_bare_calls_are_layers_where_they_are_alike():
    seen = bare((Q, K), (Q, K), (Q, Q))
    trace = view.trace(seen)
    assert [(map.id, map.layers) for map in trace.maps] == [("attend", 2), ("attend.2", 1)]
    assert_close(trace.map("attend").weights(1, 2), seen["attend.1"].weights()[0, 2])
    assert trace.axis(trace.map().key).labels == tuple("0123456")


def test_nothing_is_computed_until_it_is_shown(monkeypatch):
    seen, rows = bare((Q, K)), []
    monkeypatch.setattr(regard.looking.record, "rows", lambda *given: rows.append(given))
    monkeypatch.setattr(regard.looking.record, "weights", lambda *given: rows.append(given))
    view.trace(seen)
    assert rows == []


def test_whether_nobody_looks_ahead_costs_a_few_rows(monkeypatch):
    seen, asked = bare((301, 301), rule=rules.causal), []
    record = regard.looking.record
    ours = record.rows
    monkeypatch.setattr(record, "rows", lambda *given: asked.append(given[3]) or ours(*given))
    assert view.trace(seen).map().causal
    assert sum(map(len, asked)) <= 16


def test_one_who_looks_ahead_once_is_not_causal():
    mask = torch.ones(Q, Q, dtype=torch.bool).tril()
    mask[1, 3] = True
    assert not view.trace(bare((Q, Q), rule=mask)).map().causal
    assert view.trace(bare((Q, Q), rule=mask.tril())).map().causal


# Of two numbers that could be the layer's, the one by which there are more layers, or the first.
TWO = {"v2.x1": ["v2.0.x1", "v2.1.x1"], "v2.0.x2": ["v2.0.x2"]}


class Named(nn.Module):
    """Attentions under names that one likes."""

    def __init__(self, *names):
        super().__init__()
        self.parts = [(name, MultiHead(12, heads)) for name, heads in names]
        for name, part in self.parts:
            parent = self
            *above, last = name.split(".")
            for each in above:
                if each not in parent._modules:
                    parent.add_module(each, nn.Module())
                parent = parent._modules[each]
            parent.add_module(last, part)

    def forward(self, x):
        for _, part in self.parts:
            x = part(x)
        return x


@pytest.mark.parametrize(
    ("names", "maps"),
    [
        ("a.0.x:3 a.1.x:3 a.1.y:3", {"a.x": ["a.0.x", "a.1.x"], "a.1.y": ["a.1.y"]}),
        ("a.0.x:3 a.1.x:2 a.2.x:3", {"a.x": ["a.0.x", "a.2.x"], "a.1.x": ["a.1.x"]}),
        ("b.10:3 b.9:3", {"b": ["b.9", "b.10"]}),
        ("v2.0.x1:3 v2.1.x1:3 v2.0.x2:3", TWO),
        ("w1h:3 w2h:3 wh:3", {"wh": ["w1h", "w2h"], "wh-2": ["wh"]}),
        ("α β:3", {"_": ["α β"]}),
    ],
)
def test_layers_differ_in_one_number_and_are_of_one_size(names, maps):
    pairs = [each.rsplit(":", 1) for each in (names.split() if "α" not in names else [names])]
    model = Named(*((name, int(heads)) for name, heads in pairs))
    with torch.no_grad(), regard.look(model) as seen:
        model(torch.randn(1, Q, 12))
    assert {map.id: list(map.names) for map in view.trace(seen).maps} == maps


def test_labels_may_be_said_for_each_map():
    seen = bare((Q, K), (K, K))
    labels = {"attend.0": (list("abcde"), list("ABCDEFG")), "attend.1": (list("uvwxyz!"), None)}
    trace = view.trace(seen, tokens=labels)
    found = [(trace.axis(map.query).labels, trace.axis(map.key).labels) for map in trace.maps]
    assert found == [
        (tuple("abcde"), tuple("ABCDEFG")),
        (tuple("uvwxyz!"), tuple("uvwxyz!")),
    ]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (
            {"tokens": list("abc")},
            r"trace: 3 tokens name nothing; queries and keys are attend",
        ),
        ({"keys": list("ab")}, "trace: 2 keys name nothing; queries and keys are"),
        ({"tokens": "abcde"}, "trace: expected tokens as a list of strings, got one string"),
        ({"tokens": {"x": (None, None)}}, r"trace: no map is named 'x'; there is attend\.0"),
        ({"tokens": {"attend.0": ("ab", None)}}, "expected attend.0 as a list of strings"),
        ({"tokens": {"attend.0": (["a"], None)}}, r"expected 5 queries of 'attend\.0', got 1"),
        ({"batch": 2}, "trace: expected batch from 0 to 1, got 2"),
    ],
)
def test_what_fits_nothing_is_refused(given, match):
    with pytest.raises(ValueError, match=match):
        view.trace(bare((Q, K)), **given)


def test_a_look_that_saw_nothing_has_nothing_to_show():
    with regard.look() as seen, pytest.raises(UnseenError, match="has seen no attention yet"):
        view.trace(seen)


def test_it_can_be_saved_and_opened_again(tmp_path):
    trace = view.trace(bare((Q, K), (Q, K)), tokens=list("abcde"), model="m", title="t")
    again = view.load(view.save(trace, tmp_path / "t.safetensors"))
    assert_close(again.map().all_weights(), trace.map().all_weights())
    assert (again.map().names, again.header.title) == (("attend.0", "attend.1"), "t")


def test_uses_of_a_shared_layer_are_layers_of_one_map():
    model = MultiHead(12, H)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = model

        def forward(self, x):
            return self.layer(self.layer(x))

    twice, x = Twice(), torch.randn(B, Q, 12)
    with regard.look(twice) as seen:
        twice(x)
    assert seen.names() == ["layer", "layer#2"]
    map = view.trace(seen).map("layer")
    assert list(map.names) == ["layer", "layer#2"] and map.layers == 2
    assert_close(map.cells(1, 2), seen["layer#2"].weights()[0, 2])


def test_steps_of_a_sliding_cache_are_a_square_map():
    class Cached(nn.Module):
        def forward(self, q, k):
            return attend(q, k, k)

    model, k = Cached(), torch.randn(B, H, Q, D)
    with regard.look(model) as seen:
        for n in range(Q):
            model(torch.randn(B, H, 1, D), k[:, :, max(n - 2, 0) : n + 1].clone())
    map = view.trace(seen, tokens=list("abcde")).map("Cached")
    assert map.causal and map.cells(0, 1)[4].gt(0).tolist() == [False, False, True, True, True]
