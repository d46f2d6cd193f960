"""The grids of docs/results.md: the rows of settings of each, and their seeds."""

from dataclasses import replace
from itertools import product

from regard.models.transformer import Attention
from regard.recipes.translate.config import ORDERED, RNN, TRANSFORMER, TRANSFORMER_MODEL
from regard.train.grids import Grid, Row

SEEDS = (0, 1, 2)
# Column title to the name of its number in a model card.
COLUMNS = {
    "BLEU 2016": "bleu_lc_tok",
    "BLEU 2017": "test_2017_flickr.bleu_lc_tok",
    "BLEU COCO": "test_2017_mscoco.bleu_lc_tok",
    "cased BLEU 2016": "bleu",
    "cased BLEU 2017": "test_2017_flickr.bleu",
    **{f"BLEU {a}-{a + 9} words": f"{a}-{a + 9}.bleu_lc_tok" for a in range(1, 70, 10)},
    "alignment error": "alignment_error",
    "loss": "loss",
}

_CURRENT_STATE_SETTINGS = ("model.query_state=current",)
_SPAN_SETTINGS = {
    "global": ("model.span=global",),
    "local-m": ("model.span=local_m",),
    # of 10 and 16 the better one on development pairs for every score
    "local-p": ("model.span=local_p", "model.reach=16"),
}
_LUONG_ROWS = tuple(
    Row(f"{score}, {words}", (*_CURRENT_STATE_SETTINGS, f"model.attention={score}", *span))
    for score, (words, span) in product(
        ("dot", "general", "concat", "location"), _SPAN_SETTINGS.items()
    )
)
_FACTORS = {
    "query and key content": "query_key",
    "query content and position": "query_position",
    "key content": "key",
    "position": "position",
}
_ZHU_ROWS = tuple(
    Row(f"{where} attention without {words}", (f"model.{part}.factors.{name}=false",))
    for (where, part), (words, name) in product(
        {"encoder self": "encoder", "cross": "cross"}.items(), _FACTORS.items()
    )
)
_WITHOUT_POSITIONS = tuple(
    f"model.cross.factors.{name}=false" for name in ("query_position", "position")
)
_CONTENT_ONLY_SETTINGS = {
    "query and key content, and key content": _WITHOUT_POSITIONS,
    "key content alone": (*_WITHOUT_POSITIONS, "model.cross.factors.query_key=false"),
}
_ORDER_SETTINGS = {
    "additive": (),
    "dot": (*_CURRENT_STATE_SETTINGS, "model.attention=dot"),
    "general": (*_CURRENT_STATE_SETTINGS, "model.attention=general"),
    "general, local-p": (*_CURRENT_STATE_SETTINGS, "model.attention=general", "model.span=local_p"),
    "location": (*_CURRENT_STATE_SETTINGS, "model.attention=location"),
}
# The recurrent net of the zoo: 2.3 million parameters.
_SMALL_RNN_SETTINGS = tuple(
    f"model.{name}={value}"
    for name, value in {
        "embedding": 128,
        "readout": 128,
        "width": 176,
        "alignment": 128,
        "dropout": 0.3,
    }.items()
)
# Tables of many rows take less time a row: no R-Drop, a third of the steps.
_SHORT_TRANSFORMER = replace(
    TRANSFORMER, r_drop_weight=0.0, training=replace(TRANSFORMER.training, steps=4000)
)
_FACTOR_ATTENTION = Attention("factors")
_FACTOR_TRANSFORMER = replace(
    _SHORT_TRANSFORMER,
    model=replace(
        TRANSFORMER_MODEL,
        positions="none",
        encoder=_FACTOR_ATTENTION,
        decoder=_FACTOR_ATTENTION,
        cross=_FACTOR_ATTENTION,
    ),
)

GRIDS = {
    "rnn": Grid(
        "Recurrent nets with and without attention",
        RNN,
        (
            Row("Bahdanau", ()),
            Row("Bahdanau, small", _SMALL_RNN_SETTINGS),
            Row("no attention, encoder state to decoder", ("model.attention=none",)),
            Row("no attention, one context at every step", ("model.attention=context",)),
        ),
        seeds=SEEDS,
    ),
    "luong": Grid(
        "Luong's scores and spans, and hard attention; three fifths of the steps, no R-Drop",
        replace(RNN, r_drop_weight=0.0, training=replace(RNN.training, steps=3000)),
        (
            Row("Bahdanau", ()),
            *_LUONG_ROWS,
            Row(
                "general, global, hard",
                (*_CURRENT_STATE_SETTINGS, "model.attention=general", "model.select=hard"),
            ),
        ),
        against="dot, global",
    ),
    "transformer": Grid("The Transformer", TRANSFORMER, (Row("scaled dot", ()),), seeds=SEEDS),
    "scores": Grid(
        "Scores in all attentions of the Transformer; a third of the steps, no R-Drop",
        _SHORT_TRANSFORMER,
        tuple(
            Row(score, tuple(f"model.{p}.score={score}" for p in ("encoder", "decoder", "cross")))
            for score in ("scaled_dot", "dot", "additive", "cosine", "general")
        ),
        against="scaled_dot",
    ),
    "zhu": Grid(
        "Zhu's four factors, switched off one by one; a third of the steps, no R-Drop",
        _FACTOR_TRANSFORMER,
        (
            Row("all factors", ()),
            *_ZHU_ROWS,
            # without position terms, no other factor can replace query and key content
            *(
                Row(f"cross attention by {words}", settings)
                for words, settings in _CONTENT_ONLY_SETTINGS.items()
            ),
        ),
        against="all factors",
    ),
    "long": Grid(
        "Concatenated sentences: trained on sources of at most 30 words, tested on up to 70",
        replace(RNN, data=replace(RNN.data, max_joined_words=30), r_drop_weight=0.0),
        (
            Row("Bahdanau", ()),
            Row("location-aware", ("model.attention=location_aware",)),
            Row("coverage", ("model.attention=coverage",)),
            Row("general, global", (*_CURRENT_STATE_SETTINGS, "model.attention=general")),
            Row(
                "general, local-m",
                (*_CURRENT_STATE_SETTINGS, "model.attention=general", "model.span=local_m"),
            ),
            Row("no attention, encoder state to decoder", ("model.attention=none",)),
            Row("no attention, one context at every step", ("model.attention=context",)),
        ),
    ),
    "order": Grid(
        "Synthetic sentences in reversed order: alignment against the known one",
        ORDERED,
        tuple(Row(label, settings) for label, settings in _ORDER_SETTINGS.items()),
    ),
}
