"""The tables of docs/results.md: which settings stand side by side, and with which seeds."""

from dataclasses import replace
from itertools import product

from regard.models.transformer import Attention
from regard.recipes.translate.config import ORDERED, RNN, TRANSFORMER, TRANSFORMER_SIZE
from regard.train.grids import Grid, Row

SEEDS = (0, 1, 2)
# Column and where its number stands in a card.
COLUMNS = {
    "2016": "bleu_lc_tok",
    "2017": "test_2017_flickr.bleu_lc_tok",
    "COCO": "test_2017_mscoco.bleu_lc_tok",
    "cased 2016": "bleu",
    "cased 2017": "test_2017_flickr.bleu",
    **{f"{a}-{a + 9} words": f"{a}-{a + 9}.bleu_lc_tok" for a in range(1, 70, 10)},
    "alignment error": "alignment_error",
    "loss": "loss",
}

_AFTER = ("model.asks=after",)
_SPANS = {
    "global": ("model.span=global",),
    "local-m": ("model.span=local_m",),
    # of 10 and 16 the better one on development pairs for every score
    "local-p": ("model.span=local_p", "model.reach=16"),
}
_LUONG = tuple(
    Row(f"{score}, {words}", (*_AFTER, f"model.attention={score}", *span))
    for score, (words, span) in product(("dot", "general", "concat", "location"), _SPANS.items())
)
_FACTORS = {
    "query and key content": "query_key",
    "query content and position": "query_position",
    "key content": "key",
    "position": "position",
}
_ZHU = tuple(
    Row(f"{where} attention without {words}", (f"model.{part}.factors.{name}=false",))
    for (where, part), (words, name) in product(
        {"encoder self": "encoder", "cross": "cross"}.items(), _FACTORS.items()
    )
)
_UNPLACED = tuple(f"model.cross.factors.{name}=false" for name in ("query_position", "position"))
_ALONE = {
    "query and key content, and key content": _UNPLACED,
    "key content alone": (*_UNPLACED, "model.cross.factors.query_key=false"),
}
_ORDER = {
    "additive": (),
    "dot": (*_AFTER, "model.attention=dot"),
    "general": (*_AFTER, "model.attention=general"),
    "general, local-p": (*_AFTER, "model.attention=general", "model.span=local_p"),
    "location": (*_AFTER, "model.attention=location"),
}
# The recurrent net of the zoo: 2.3 million parameters.
_LITTLE = tuple(
    f"model.{name}={value}"
    for name, value in {
        "embedding": 128,
        "readout": 128,
        "width": 176,
        "alignment": 128,
        "dropout": 0.3,
    }.items()
)
# Tables of many rows take less time a row: one pass a batch, a third of the steps.
_SHORT = replace(TRANSFORMER, consistency=0.0, training=replace(TRANSFORMER.training, steps=4000))
_ALL = Attention("factors")
_FACTORED = replace(
    _SHORT,
    model=replace(TRANSFORMER_SIZE, positions="none", encoder=_ALL, decoder=_ALL, cross=_ALL),
)

GRIDS = {
    "rnn": Grid(
        "Recurrent nets with and without attention",
        RNN,
        (
            Row("Bahdanau", ()),
            Row("Bahdanau, small", _LITTLE),
            Row("no attention, the state handed over", ("model.attention=none",)),
            Row("no attention, one context at every step", ("model.attention=context",)),
        ),
        seeds=SEEDS,
    ),
    "luong": Grid(
        "Luong's scores and spans, and hard attention; three fifths of the steps, one pass a batch",
        replace(RNN, consistency=0.0, training=replace(RNN.training, steps=3000)),
        (
            Row("Bahdanau", ()),
            *_LUONG,
            Row("general, global, hard", (*_AFTER, "model.attention=general", "model.select=hard")),
        ),
        against="dot, global",
    ),
    "transformer": Grid("The Transformer", TRANSFORMER, (Row("scaled dot", ()),), seeds=SEEDS),
    "scores": Grid(
        "Other scores in the Transformer, in all its attentions; a third of the steps, one pass",
        _SHORT,
        tuple(
            Row(score, tuple(f"model.{p}.score={score}" for p in ("encoder", "decoder", "cross")))
            for score in ("scaled_dot", "dot", "additive", "cosine", "general")
        ),
        against="scaled_dot",
    ),
    "zhu": Grid(
        "Zhu's four factors, switched off one by one; a third of the steps, one pass a batch",
        _FACTORED,
        (
            Row("all factors", ()),
            *_ZHU,
            # where positions are not known, nothing stands in for what is asked for
            *(Row(f"cross attention by {words}", settings) for words, settings in _ALONE.items()),
        ),
        against="all factors",
    ),
    "long": Grid(
        "Joined sentences: trained on sources of at most 30 words, tested on up to 70",
        replace(RNN, data=replace(RNN.data, joined=30), consistency=0.0),
        (
            Row("Bahdanau", ()),
            Row("location-aware", ("model.attention=location_aware",)),
            Row("coverage", ("model.attention=coverage",)),
            Row("general, global", (*_AFTER, "model.attention=general")),
            Row("general, local-m", (*_AFTER, "model.attention=general", "model.span=local_m")),
            Row("no attention, the state handed over", ("model.attention=none",)),
            Row("no attention, one context at every step", ("model.attention=context",)),
        ),
    ),
    "order": Grid(
        "Made-up sentences in reversed order: where the model looks, beside where it should",
        ORDERED,
        tuple(Row(label, settings) for label, settings in _ORDER.items()),
    ),
}
